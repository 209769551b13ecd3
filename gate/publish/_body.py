"""The text of a comment: a hidden marker, the report, and what fits."""

from __future__ import annotations

import hashlib
import re

from msgspec import Struct

from ._nouns import Place, Post

# GitHub's message says 65,536 characters, its database 262,144 bytes; GitLab takes a million characters.
CHARACTERS = 65_536
BYTES = 262_144
SMALLER = (CHARACTERS, 30_000, 8_000, 0)  # tried in turn where a server takes less than it says
NONE = "none"  # name of a policy that could not be loaded

SHORT_HASH = "[0-9a-f]{16}"
_MARKER = re.compile(
    rf"<!-- slo-gate:comment job=({SHORT_HASH}) policy=({SHORT_HASH}) profile=({SHORT_HASH})"
    rf" name=({SHORT_HASH}|{NONE}) -->"
)
LINK = r"https?://[\w.:/%?=&#~+\-]+"  # what can end no link and no HTML comment
_SHORTENED = "**Shortened to fit a comment: {}.** The JSON report has all."


class Marker(Struct, frozen=True):
    """Whose comment it is: hashes, so that no name can spoof it or end the HTML comment.

    Nothing that was measured is in it: a run that is mended must find the comment of the broken one.
    """

    job: str  # and the caller's key
    policy: str
    profile: str
    name: str

    def __str__(self) -> str:
        return (
            f"<!-- slo-gate:comment job={self.job} policy={self.policy} profile={self.profile} "
            f"name={self.name} -->"
        )


def marker(post: Post) -> Marker:
    """The marker of a post."""
    return Marker(
        digest(f"{post.job}\0{post.key}"),
        digest(post.policy),
        digest(post.profile or ""),
        NONE if post.name is None else digest(post.name),
    )


def marker_of(body: str) -> Marker | None:
    """The marker a comment begins with; one that is quoted further down is somebody's quote."""
    found = _MARKER.match(body)
    return Marker(*found.groups()) if found else None


def digest(text: str) -> str:
    """Of a name, so that it can stand in a hidden marker."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


NO_PROFILE = digest("")


def compose(mark: Marker, markdown: str, place: Place, most: int) -> str:
    """Marker, report and origin in at most `most` characters and BYTES bytes; 0 keeps the headline alone."""
    foot = _foot(place)
    room = max(most, 0) - len(str(mark)) - len(foot) - 4
    return f"{mark}\n{shorten(markdown, room, BYTES - 1000)}\n{foot}".rstrip() + "\n"


def _foot(place: Place) -> str:
    """Which commit and run it is about, so that an old comment is seen to be old."""
    parts = []
    if re.fullmatch(r"[0-9a-f]{7,64}", place.commit):
        parts.append(f"Commit {place.commit[:12]}")
    known = (("run", place.run_url), ("report page", place.page_url), ("trend", place.trend_url))
    parts += [f"[{name}]({url})" for name, url in known if re.fullmatch(LINK, url)]
    return f"<sub>{', '.join(parts)}</sub>" if parts else ""


def shorten(markdown: str, characters: int, size: int) -> str:
    """`markdown` in so many characters and bytes, its first line always: passing rows go first.

    Then what else is folded away, then whole blocks from the end. What went is said.
    """

    def fits(text: str) -> bool:
        return len(text) <= characters and len(text.encode("utf-8", "replace")) <= size

    if fits(markdown):
        return markdown
    for pattern, what in (
        (r"Passes", "passing rows are left out"),
        (r"", "all that is folded away is left out"),
    ):
        text = _without_folded(markdown, pattern) + "\n" + _SHORTENED.format(what) + "\n"
        if fits(text):
            return text
    blocks = _blocks(_without_folded(markdown, ""))
    headline, *rest = blocks[0].split("\n", 1)
    note = _SHORTENED.format("all but the beginning is left out")
    kept = [_cut(headline, max(characters - len(note) - 4, 300))]
    for block in (*rest, *blocks[1:]):
        if not fits("\n\n".join([*kept, block, note]) + "\n"):
            break
        kept.append(block)
    return "\n\n".join([*kept, note]) + "\n"


def _without_folded(markdown: str, summary: str) -> str:
    """Without the <details> blocks whose summary begins with `summary`. Tags of ours stand on own lines."""
    folded = rf"(?ms)^<details>\n<summary>{summary}[^\n]*</summary>\n.*?^</details>\n*"
    return re.sub(folded, "", markdown)


def _blocks(markdown: str) -> list[str]:
    """Paragraphs, tables and fenced code, whole."""
    blocks: list[str] = []
    for part in re.split(r"\n{2,}", markdown.strip()):
        if blocks and blocks[-1].count("```") % 2:  # a blank line inside a fence
            blocks[-1] += "\n\n" + part
        else:
            blocks.append(part)
    return blocks


def _cut(headline: str, most: int) -> str:
    """A headline that is itself too long; no entity is left open."""
    if len(headline) <= most:
        return headline
    return re.sub(r"&[#\w]*$", "", headline[: most - 4]) + " ..."
