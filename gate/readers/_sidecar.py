"""`<result>.slo.json`, which `slo-gate run` writes beside each result: the session it was measured in."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec.structs import replace

from ..errors import InputError
from ..model import Run

SUFFIX = ".slo.json"
_MOST_BYTES = 1 << 20
_MOST_CHARACTERS = 200


class _Sidecar(msgspec.Struct):
    """The part of a sidecar that a comparison needs; other keys are left alone."""

    session: str | None = None


def with_session(run: Run) -> Run:
    """The run with the session its sidecar names, where it has one. Raises InputError for a broken one."""
    path = Path(run.input + SUFFIX)
    if run.session is not None or not path.is_file():
        return run
    hint = "remove the sidecar, or let `slo-gate run` write it again"
    try:
        with path.open("rb") as file:
            said = msgspec.json.decode(file.read(_MOST_BYTES), type=_Sidecar)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", str(path), hint) from None
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InputError(f"is no sidecar of slo-gate run: {error}", str(path), hint) from None
    if said.session is not None and not 0 < len(said.session) <= _MOST_CHARACTERS:
        raise InputError(f"a session has 1 to {_MOST_CHARACTERS} characters", str(path), hint)
    return replace(run, session=said.session)
