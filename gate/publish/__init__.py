"""The only network code: one comment of a report on a pull or merge request, kept up to date.

Nothing here is part of a verdict. What goes wrong is a PublishError, which the command line shows as
a warning.
"""

from __future__ import annotations

from collections.abc import Sequence

from . import _github, _gitlab
from ._body import NONE, SMALLER, Marker, compose, marker, marker_of, shorten
from ._http import RefusedError
from ._nouns import Comment, Environment, Forge, Outcome, Place, Post, PublishError

__all__ = ["MODES", "Outcome", "Place", "Post", "PublishError", "place", "publish", "shorten"]

MODES = ("on-change", "always", "never")
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
    """One comment for a gate and key: made, brought up to date, or left. Raises PublishError.

    on-change: when it is not green, or when there is one already, which then turns green in place.
    """
    if mode == "never":
        return Outcome("skipped")
    wanted = marker(post)
    mine = [old for old in forge.comments() if marker_of(old.body) and forge.wrote(old)]
    old = _ours(mine, wanted)
    if old is None:
        if post.green and mode == "on-change":
            return Outcome("skipped")
        return _create(post, wanted, here, forge)
    if wanted.gate == NONE:  # an error takes the place of the last verdict, and the next one finds it
        wanted = marker_of(old.body) or wanted
    return _update(post, wanted, old, here, forge)


def _ours(comments: Sequence[Comment], wanted: Marker) -> Comment | None:
    same_key = [old for old in comments if (mark := marker_of(old.body)) and mark.key == wanted.key]
    for gate in (wanted.gate, NONE):
        for old in same_key:
            if (mark := marker_of(old.body)) and mark.gate == gate:
                return old
    return same_key[0] if wanted.gate == NONE and len(same_key) == 1 else None


def _create(post: Post, wanted: Marker, here: Place, forge: Forge) -> Outcome:
    for most in SMALLER:
        try:
            made, repeated = forge.create(compose(wanted, post.markdown, here, most))
        except RefusedError as refused:
            if refused.status not in _TOO_LONG or most == SMALLER[-1]:
                raise
            continue
        if repeated:  # an attempt that seemed to fail may have left a comment
            _drop_doubles(made, wanted, forge)
        return Outcome("created", made.url)
    raise AssertionError("SMALLER is empty")


def _drop_doubles(made: Comment, wanted: Marker, forge: Forge) -> None:
    for other in forge.comments():
        if other.id != made.id and marker_of(other.body) == wanted and forge.wrote(other):
            forge.delete(other)


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
