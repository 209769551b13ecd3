"""The text of a comment that several jobs share: a row for each, its report folded below it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from msgspec import Struct

from ._body import BYTES, LINK, SHORT_HASH, digest, shorten
from ._nouns import Place, Post

_ORDER = ("FAIL", "ERROR", "INCONCLUSIVE", "WARN", "PASS")  # worst first
_END = "<!-- slo-gate:end -->"
_LEG = re.compile(
    rf"(?ms)^<!-- slo-gate:leg id=({SHORT_HASH}) verdict=({'|'.join(_ORDER)})"
    rf"(?: commit=([0-9a-f]{{7,64}}))?(?: run=({LINK}))? -->\n"
    rf"<details>\n<summary>([^\n]*)</summary>\n\n(.*?)\n\n</details>\n{_END}$"
)


class Leg(Struct, frozen=True):
    """One job of a shared comment. Texts are Markdown, made inert by who wrote them."""

    id: str
    verdict: str  # PASS, WARN, INCONCLUSIVE, FAIL or ERROR
    commit: str
    run_url: str  # or of its report page
    name: str
    markdown: str  # its report; the first line is the headline


def mark_of(key: str) -> str:
    """The hidden first line of the comment that jobs with this key share; it names nothing measured."""
    return f"<!-- slo-gate:joined key={digest(key)} -->"


def leg_of(post: Post, here: Place) -> Leg:
    """The row of a post: of its job and policy, so that an error takes the place of the verdict before it."""
    commit = here.commit if re.fullmatch(r"[0-9a-f]{7,64}", here.commit) else ""
    run_url = next((url for url in (here.page_url, here.run_url) if re.fullmatch(LINK, url)), "")
    who = digest(f"{post.job}\0{post.policy}")
    return Leg(who, post.verdict, commit, run_url, post.leg or "", post.markdown.strip())


def legs_of(body: str) -> dict[str, Leg]:
    """What a shared comment holds, by id. Whoever else wrote into it is not asked: see `Forge.wrote`."""
    found = [Leg(*(part or "" for part in one)) for one in _LEG.findall(body.replace("\r\n", "\n"))]
    return {leg.id: leg for leg in found}


def compose(key: str, legs: Mapping[str, Leg], own: Leg, most: int) -> str:
    """The comment in about `most` characters, worst first; each report has an equal share of the room."""
    ordered = sorted(legs.values(), key=lambda leg: (_ORDER.index(leg.verdict), leg.name, leg.id))
    head = [mark_of(key), f"### {_headline(ordered)}", ""]
    head += ["| verdict | benchmark | result | commit |", "| --- | --- | --- | --- |"]
    head += [_row(leg, own) for leg in ordered]
    room = max(most - len("\n".join(head)) - 400 * len(ordered), 0) // len(ordered)
    size = max(BYTES - 1000 - len("\n".join(head).encode()), 0) // len(ordered) - 400
    return "\n".join([*head, "", *(_folded(leg, room, size) for leg in ordered)]) + "\n"


def _headline(legs: list[Leg]) -> str:
    if len(legs) == 1:
        return _result(legs[0])
    number = Counter(leg.verdict for leg in legs)
    told = ", ".join(f"{number[word]} {word}" for word in _ORDER if number[word])
    return f"{legs[0].verdict}: {len(legs)} benchmarks: {told}"


def _result(leg: Leg) -> str:
    return leg.markdown.split("\n", 1)[0].removeprefix("### ")


def _row(leg: Leg, own: Leg) -> str:
    """A row of another commit says so: it may be of a job that is still running, or is no more."""
    commit = leg.commit[:12] or "-"
    where = f"[{commit}]({leg.run_url})" if leg.run_url else commit
    older = "" if leg.commit == own.commit else " (another commit)"
    return f"| {leg.verdict} | {leg.name} | {_result(leg)} | {where}{older} |"


def _folded(leg: Leg, characters: int, size: int) -> str:
    known = f"{f' commit={leg.commit}' * bool(leg.commit)}{f' run={leg.run_url}' * bool(leg.run_url)}"
    report = shorten(leg.markdown, characters, size).strip()
    return (
        f"<!-- slo-gate:leg id={leg.id} verdict={leg.verdict}{known} -->\n"
        f"<details>\n<summary>{leg.name}</summary>\n\n{report}\n\n</details>\n{_END}"
    )
