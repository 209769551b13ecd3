"""Answers to a commented policy: bounds with their reasons, and the profiles pr, nightly and release.

Bounds and their reasons come from the presets, or from measured results with headroom; none is made up
without an interaction type. Error rates quoted in the comments are those of docs/statistics.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from .. import policy, units
from ..emit.templates import markup, render
from ..errors import UsageError
from ..model import Kind, Level, Objective
from ..units import printable
from ._files import TEMPLATES
from ._plan import SHORT_MIN, SHORT_PER_SLOT, Lengths

HEADROOM = 1.25  # a bound from measured values lies so much above them: run-to-run spread is 3 to 5 %
FLOOR = 0.025  # growth of a latency by less than this share of its bound is no regression to a user

INTERACTIONS = {  # what --for takes -> (preset, interaction)
    "chat": ("chat", "streaming-chat"),
    "chat-70b": ("chat-70b", "streaming-chat"),
    "chat-enterprise": ("chat-enterprise", "streaming-chat"),
    "one-shot": ("one-shot", "one-shot"),
    "voice": ("voice", "voice"),
    "agent": ("agent", "agent"),
    "code-completion": ("code-completion", "code-completion"),
    "batch": ("batch", "batch"),
}


class Measured(Struct, frozen=True):
    """What results say, to put bounds above."""

    observed_s: Mapping[str, float]  # by objective id: the percentile over attempted requests
    requests: int
    source: str  # the files, for people


class Answers(Struct, frozen=True):
    """What a policy is written from."""

    interaction: str  # a key of INTERACTIONS
    schema: str  # of policies, for the modeline
    model: str | None = None
    hardware: str | None = None
    load: tuple[str, float] | None = None  # concurrency, peak or request_rate, and its value
    input_tokens: Lengths | None = None
    output_tokens: Lengths | None = None
    measured: Measured | None = None
    notes: tuple[str, ...] = field(default_factory=tuple)


class _Bound(Struct, frozen=True):
    """One percentile bound of the policy to be written."""

    metric: str
    statistic: str
    max_s: float
    when: str | None
    level: Level
    why: tuple[str, ...]  # comment lines

    @property
    def rule(self) -> str:
        """The bound as the policy says it: a time, or a mapping where there is more to say."""
        extras = [f"when: {self.when.replace('&', ' and ')}"] if self.when else []
        extras += [f"level: {self.level.value}"] if self.level is not Level.BLOCK else []
        value = _time(self.max_s)
        return f"{{max: {', '.join([value, *extras])}}}" if extras else value


def policy_text(answers: Answers) -> str:
    """The policy as commented YAML, which loads with every profile.

    Raises UsageError for an unknown interaction, or for text that YAML cannot hold on one line.
    """
    if answers.interaction not in INTERACTIONS:
        hint = f"name one of {', '.join(INTERACTIONS)}: what users do decides what is slow"
        raise UsageError(f'no SLO is known for "{printable(answers.interaction)}"', "", hint)
    bounds: dict[str, list[_Bound]] = {}
    for one in _bounds(answers):
        bounds.setdefault(one.metric, []).append(one)
    return render(
        TEMPLATES / "policy.yaml.j2",
        _quoted,
        answers=answers,
        interaction=INTERACTIONS[answers.interaction][1],
        load=_load(answers),
        least=max(SHORT_MIN, SHORT_PER_SLOT * _slots(answers)),
        bounds=bounds,
        floors={metric: _time(_floor(group)) for metric, group in bounds.items()},
        comment=lambda text: markup(printable(text)),
    )


def _load(answers: Answers) -> str:
    if answers.load is None:
        return ""
    kind, value = answers.load
    return f"{kind}: {value:g}" + "/s" * (kind == "request_rate")


def _slots(answers: Answers) -> int:
    """Requests in flight at the target; 0 for an open loop or an unknown load."""
    if answers.load is None or answers.load[0] == "request_rate":
        return 0
    return int(answers.load[1]) * (2 if answers.load[0] == "peak" else 1)


def _floor(bounds: Sequence[_Bound]) -> float:
    return float(f"{FLOOR * max(one.max_s for one in bounds):.2g}")


def preset_of(interaction: str) -> tuple[str, bytes]:
    """(name, YAML) of the policy whose bounds an interaction starts from."""
    name = INTERACTIONS[interaction][0]
    if name == "one-shot":
        return name, (TEMPLATES / "one-shot.yaml").read_bytes()
    return name, policy.preset_text(name).encode()


def _quoted(text: str) -> str:
    """A YAML scalar. Raises UsageError for text with line breaks or control characters."""
    if printable(text) != text or len(text) > 200:
        hint = "write it as one line of up to 200 characters"
        raise UsageError("a name holds characters that no policy may have", repr(text[:50]), hint)
    return json.dumps(text, ensure_ascii=False)


def _time(seconds: float) -> str:
    return units.show(seconds, units.SECONDS).replace(" ", "").replace(",", "")


# ---- bounds -------------------------------------------------------------------------------


def _bounds(answers: Answers) -> list[_Bound]:
    """Each percentile of the preset with its reason, measured or not, and a P90 beside each P99."""
    name, text = preset_of(answers.interaction)
    lines = text.decode().splitlines()
    found = [o for o in policy.parse(text, name).objectives if o.kind is Kind.LATENCY]
    bounds: list[_Bound] = []
    said: tuple[str, ...] = ()
    for one in found:
        why = _reason(lines, one.line)  # one comment may stand above two percentiles: said once
        bounds.append(_bound(answers, one, ("For the reason above.",) if why == said else why))
        said = why
        if one.statistic == "p99" and not any((o.metric, o.statistic) == (one.metric, "p90") for o in found):
            bounds.append(_beside(answers, one, bounds[-1]))
    return bounds


def _reason(lines: list[str], line: int) -> tuple[str, ...]:
    """The comment lines right above a line of a preset."""
    start = line - 1
    while lines[start - 1].strip().startswith("#"):
        start -= 1
    return tuple(text.strip().lstrip("# ") for text in lines[start : line - 1])


def _bound(answers: Answers, one: Objective, why: tuple[str, ...]) -> _Bound:
    assert one.bound is not None
    when = one.when.text if one.when else None
    seen = answers.measured.observed_s.get(one.id) if answers.measured else None
    if seen is None:
        return _Bound(one.metric, one.statistic, one.bound, when, one.level, why)
    assert answers.measured is not None
    suggested = above(seen)
    side = "tighter than" if suggested < one.bound else "LOOSER than" if suggested > one.bound else "equal to"
    said = [
        f"{one.statistic.upper()} measured {units.show(seen, units.SECONDS)} over"
        f" {answers.measured.requests:,} requests; this is 25 % above, rounded up.",
        f"{side[0].upper()}{side[1:]} what users are thought to need, {_time(one.bound)}"
        + (", because:" if why else "."),
    ]
    if suggested > one.bound:
        said[1] = f"This keeps today's level. It is {said[1]}"
    return _Bound(one.metric, one.statistic, suggested, when, one.level, (*said, *why))


def _beside(answers: Answers, one: Objective, p99: _Bound) -> _Bound:
    """The P90 that a PR can decide: measured, or the number of the P99, which is never stricter."""
    seen = answers.measured.observed_s.get(one.id.replace("p99", "p90")) if answers.measured else None
    if seen is not None:
        bound = min(above(seen), p99.max_s)
        why = (f"P90 measured {units.show(seen, units.SECONDS)}; 25 % above. Blocks in the profile pr.",)
    else:
        bound = p99.max_s
        why = ("For the profile pr: nine in ten within the bound of the P99, which few requests can decide.",)
    return _Bound(one.metric, "p90", bound, p99.when, Level.INFO, why)


def above(seconds: float) -> float:
    """A measured time with headroom, rounded up to two digits."""
    step = 10 ** (math.floor(math.log10(seconds * HEADROOM)) - 1)
    # Rounded first: 0.41 * 1.25 / 0.01 must not be pushed up by its last bit.
    return float(f"{math.ceil(round(seconds * HEADROOM / step, 9)) * step:.6g}")
