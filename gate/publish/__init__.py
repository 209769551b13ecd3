"""The only network code: one comment of a report on a pull or merge request, kept up to date; a check run.

Nothing here is part of a verdict. What goes wrong is a PublishError, which the command line shows as
a warning.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from msgspec.structs import replace

from . import _github, _gitlab
from ._body import NO_PROFILE, NONE, SMALLER, Marker, compose, marker, marker_of, shorten
from ._checks import CheckRun, create as create_check_run
from ._http import RefusedError
from ._nouns import Comment, Environment, Forge, Outcome, Place, Post, PublishError

__all__ = [
    "MODES",
    "CheckRun",
    "Outcome",
    "Place",
    "Post",
    "PublishError",
    "create_check_run",
    "place",
    "publish",
    "shorten",
]

MODES = ("on-change", "always", "never")
_GONE = (404, 410)
_TOO_LONG = (400, 413, 422)  # what servers answer to a text that is too long for them


def place(env: Environment, number: str, timeout_s: float) -> tuple[Place, Forge]:
    """Where `env` says this job runs, and its forge. `number` is of the request, or "auto".

    Raises PublishError.
    """
    if env.get("GITLAB_CI"):
        here = _gitlab.place(env, number)
        return here, _gitlab.GitLab(here, timeout_s)
    here = _github.place(env, number, timeout_s)
    return here, _github.GitHub(here, timeout_s)


def publish(post: Post, here: Place, forge: Forge, mode: str = "on-change") -> Outcome:
    """One comment for a gate in a job: made, brought up to date, or left. Raises PublishError.

    on-change: when it is not green, or when there is one already, which then turns green in place.
    """
    if mode == "never":
        return Outcome("skipped")
    wanted = marker(post)
    mine = [(mark, old) for old in forge.comments() if (mark := marker_of(old.body)) and forge.wrote(old)]
    same = _same_gate(wanted, [mark for mark, _ in mine])
    ours = [(mark, old) for gate in same for mark, old in mine if mark == gate]
    if not ours:
        if post.green and mode == "on-change":
            return Outcome("skipped")
        return _create(post, wanted, here, forge)
    (mark, old), *doubles = ours
    if wanted.name == NONE:  # an error takes the place of the last verdict, and the next one finds it
        wanted = mark
    try:
        outcome = _update(post, wanted, old, here, forge)
    except RefusedError as refused:
        if refused.status not in _GONE:
            raise
        outcome = _create(post, wanted, here, forge)  # somebody took it away after it was listed
    _remove([double for _, double in doubles], forge)
    return outcome


def _same_gate(wanted: Marker, there: Sequence[Marker]) -> list[Marker]:
    """The markers this gate's comments may have, the one to keep first. Another gate's verdict stays.

    An error that could not load its policy knows neither its name nor its default profile: it takes the
    place of a verdict on that policy in its job where there is but one.
    """
    errors = [replace(wanted, name=NONE, profile=profile) for profile in (wanted.profile, NO_PROFILE)]
    if wanted.name != NONE:
        return list(dict.fromkeys((wanted, *errors)))
    near = {
        mark for mark in there if (mark.job, mark.policy) == (wanted.job, wanted.policy) and mark.name != NONE
    }
    own = {mark for mark in near if mark.profile == wanted.profile}
    if not own and wanted.profile == NO_PROFILE:
        own = near
    return [*(own if len(own) == 1 else ()), wanted]


def _create(post: Post, wanted: Marker, here: Place, forge: Forge) -> Outcome:
    for most in SMALLER:
        try:
            made, repeated = forge.create(compose(wanted, post.markdown, here, most))
        except RefusedError as refused:
            if refused.status not in _TOO_LONG or most == SMALLER[-1]:
                raise
            continue
        if repeated:  # an attempt that seemed to fail may have left a comment
            others = [one for one in forge.comments() if one.id != made.id and forge.wrote(one)]
            _remove([one for one in others if marker_of(one.body) == wanted], forge)
        return Outcome("created", made.url)
    raise AssertionError("SMALLER is empty")


def _remove(doubles: Sequence[Comment], forge: Forge) -> None:
    """Two jobs at once, or a write that was tried again, leave two comments of one gate."""
    for double in doubles:
        with suppress(RefusedError):  # gone already; if not, the next run finds it again
            forge.delete(double)


def _update(post: Post, wanted: Marker, old: Comment, here: Place, forge: Forge) -> Outcome:
    for most in SMALLER:
        body = compose(wanted, post.markdown, here, most)
        if _same(body, old.body):
            return Outcome("unchanged", old.url)
        try:
            return Outcome("updated", forge.update(old, body).url or old.url)
        except RefusedError as refused:
            if refused.status not in _TOO_LONG or most == SMALLER[-1]:
                raise
    raise AssertionError("SMALLER is empty")


def _same(new: str, old: str) -> bool:
    """Forges change line ends and the white space at the end."""
    return new.rstrip() == old.replace("\r\n", "\n").rstrip()
