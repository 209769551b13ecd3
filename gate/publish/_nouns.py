"""What publishing is about: where a comment goes, what it says, what became of it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from ..errors import GateError


class PublishError(GateError):
    """The forge cannot be reached or refuses. Never part of a verdict: callers turn it into a warning."""


class Place(Struct, frozen=True):
    """A pull or merge request of one forge."""

    api: str  # base URL, no slash at the end
    repository: str  # owner/name, or a GitLab project id
    number: int  # of the pull or merge request
    token: str
    commit: str = ""  # SHA that was measured; empty where it is not known
    run_url: str = ""  # of the CI run
    page_url: str = ""  # of the report page, where it was uploaded
    trend_url: str = ""  # of the page of `slo-gate trend`, likewise

    def __repr__(self) -> str:
        return f"Place({self.api!r}, {self.repository!r}, {self.number})"  # never the token


class Comment(Struct, frozen=True):
    """A comment or note that is already there."""

    id: int
    body: str
    author: str
    bot: bool
    url: str


class Post(Struct, frozen=True):
    """What is to be said."""

    markdown: str
    job: str  # in the words of the CI system, with its place in a matrix
    key: str  # the caller's, so that two uses of one policy in one job have a comment each
    policy: str  # path in the repository; empty where an error does not know it
    name: str | None  # of the policy; None for an error that could not load it
    profile: str | None
    green: bool
    verdict: str = ""  # in a word: of a comment that several jobs share
    leg: str | None = None  # the name of its row there, inert; None for a comment of its own


class Outcome(Struct, frozen=True):
    """What became of it."""

    action: str  # created, updated, unchanged or skipped
    url: str = ""


Environment = Mapping[str, str]
