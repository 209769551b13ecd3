"""vl-convert, which turns Vega-Lite into SVG: no browser, no network. It runs in a process of its own.

Its engine takes a third of a second to start and keeps the interpreter's lock, so that only another process
can start it beside the reading of files. Imports nothing of ours: a command starts it first of all.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from subprocess import Popen

# The first drawing makes the engine load everything the others use.
_CHILD = """
import sys
sys.path[:] = {path!r}
import json, vl_convert
channel = lambda kind: {{"field": "a", "type": kind}}
spec = {{"mark": "point", "data": {{"values": [{{"a": 1}}]}},
    "encoding": {{"x": channel("quantitative"), "y": channel("ordinal"), "color": channel("nominal")}}}}
vl_convert.vegalite_to_svg(spec)
for line in sys.stdin.buffer:
    drawn = vl_convert.vegalite_to_svg(line.decode(), allowed_base_urls=[])
    sys.stdout.buffer.write(json.dumps(drawn).encode() + b"\\n")
"""
_started: list[Popen[bytes]] = []


class Undrawn(Exception):  # noqa: N818 - not an error: the page has its numbers without drawings
    """Why there are no drawings, as a sentence."""


def available() -> bool:
    """Whether vl-convert is installed (extra `report`)."""
    from importlib.util import find_spec

    return find_spec("vl_convert") is not None


def warm_up() -> None:
    """Start the engine beside other work; it ends with this process, used or not."""
    if not _started and available():
        import subprocess

        code = _CHILD.format(path=sys.path)  # as this process finds packages, wherever it stands
        words = (sys.executable, "-c", code)
        pipe = subprocess.PIPE
        try:
            _started.append(subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL))
        except OSError:
            return  # draw says that there is none


def draw(specs: Sequence[dict[str, Any]]) -> list[str]:
    """The drawings of Vega-Lite specifications as SVG text. Raises Undrawn."""
    import msgspec

    warm_up()
    if not _started:
        raise Undrawn("the process that draws them could not be started")
    child = _started.pop()
    out, _ = child.communicate(b"\n".join(map(msgspec.json.encode, specs)) + b"\n")
    drawn = out.splitlines()
    if child.returncode or len(drawn) < len(specs):
        raise Undrawn(f"the process that draws them ended with {child.returncode}")
    return [msgspec.json.decode(line, type=str) for line in drawn]
