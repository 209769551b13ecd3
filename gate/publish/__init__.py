"""The only network code: one comment of a report on a pull or merge request, kept up to date; a check run.

Nothing here is part of a verdict. What goes wrong is a PublishError, which the command line shows as
a warning.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from . import _github, _gitlab, _joined
from ._body import LINK, NO_PROFILE, NONE, SMALLER, Marker, compose, marker, marker_of, shorten
from ._checks import CheckRun, create as create_check_run
from ._http import Forge, RefusedError
from ._nouns import Comment, Environment, Outcome, Place, Post, PublishError

__all__ = [
    "LINK",
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

T = TypeVar("T")
MODES = ("on-change", "always", "never")
SETTLE_S = 2.0  # on average, before a shared comment is read again: longer than another job reads and writes
TRIES = 8  # to bring a row into a shared comment
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
    if post.leg is not None:
        return _join(post, here, forge, mode)
    wanted = marker(post)
    mine = [(mark, old) for old in forge.comments() if (mark := marker_of(old.body)) and forge.wrote(old)]
    same = _same_gate(wanted, [mark for mark, _ in mine])
    ours = [(mark, old) for gate in same for mark, old in mine if mark == gate]
    if not ours:
        if post.green and mode == "on-change":
            return Outcome("skipped")
        return _create_alone(post, wanted, here, forge)
    (mark, old), *doubles = ours
    if wanted.name == NONE:  # an error takes the place of the last verdict, and the next one finds it
        wanted = mark
    try:
        outcome = _update(partial(compose, wanted, post.markdown, here), old, forge)
    except RefusedError as refused:
        if refused.status not in _GONE:
            raise
        outcome = _create_alone(post, wanted, here, forge)  # somebody took it away after it was listed
    _remove([double for _, double in doubles], forge)
    return outcome


def _join(post: Post, here: Place, forge: Forge, mode: str) -> Outcome:
    """This job's row in the comment of all jobs with its key. Raises PublishError.

    No forge can refuse a write because of another in between. So it is read again after a while, and
    where another job has written over this row, or made a comment of its own, the two are brought together.
    """
    mark, own = _joined.mark_of(post.key), _joined.leg_of(post, here)
    outcome: Outcome | None = None
    for _ in range(TRIES):
        ours = [old for old in forge.comments() if old.body.startswith(mark) and forge.wrote(old)]
        if not ours and outcome is None and post.green and mode == "on-change":
            return Outcome("skipped")
        legs = {name: leg for old in ours for name, leg in _joined.legs_of(old.body).items()}
        text = partial(_joined.compose, post.key, {**legs, own.id: own}, own)
        if not ours:
            made, _ = _create(text, forge)
            outcome = Outcome("created", made.url)
        else:
            try:
                done = _update(text, ours[0], forge)
            except RefusedError as refused:
                if refused.status not in _GONE:
                    raise
                continue
            _remove(ours[1:], forge)
            if done.action == "unchanged" and len(ours) == 1:
                return outcome or done
            outcome = outcome or done
        time.sleep(SETTLE_S * random.uniform(0.7, 1.3))
    raise PublishError(
        "other jobs kept writing over this row of the shared comment", "", "run this job again"
    )


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


def _create_alone(post: Post, wanted: Marker, here: Place, forge: Forge) -> Outcome:
    made, repeated = _create(partial(compose, wanted, post.markdown, here), forge)
    if repeated:  # an attempt that seemed to fail may have left a comment
        others = [one for one in forge.comments() if one.id != made.id and forge.wrote(one)]
        _remove([one for one in others if marker_of(one.body) == wanted], forge)
    return Outcome("created", made.url)


def _create(text: Callable[[int], str], forge: Forge) -> tuple[Comment, bool]:
    """The new comment, and whether it took several attempts; `text` in so many characters."""
    return _fitting(lambda most: forge.create(text(most)))


def _update(text: Callable[[int], str], old: Comment, forge: Forge) -> Outcome:
    def update(most: int) -> Outcome:
        body = text(most)
        if _same(body, old.body):
            return Outcome("unchanged", old.url)
        return Outcome("updated", forge.update(old, body).url or old.url)

    return _fitting(update)


def _fitting(write: Callable[[int], T]) -> T:
    """What `write` gives for the largest size that the server takes."""
    for most in SMALLER[:-1]:
        try:
            return write(most)
        except RefusedError as refused:
            if refused.status not in _TOO_LONG:
                raise
    return write(SMALLER[-1])


def _remove(doubles: Sequence[Comment], forge: Forge) -> None:
    """Two jobs at once, or a write that was tried again, leave two comments of one gate."""
    for double in doubles:
        with suppress(RefusedError):  # gone already; if not, the next run finds it again
            forge.delete(double)


def _same(new: str, old: str) -> bool:
    """Forges change line ends and the white space at the end."""
    return new.rstrip() == old.replace("\r\n", "\n").rstrip()
