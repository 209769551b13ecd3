"""Answers to a commented policy: bounds with their reasons, and the profiles pr, nightly and release.

Bounds and their reasons come from the presets, or from measured results with headroom; none is made up
without an interaction type. Error rates quoted in the comments are those of docs/statistics.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

from msgspec import Struct

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
    runs: int
    fewest: int  # requests of the shortest run, after warm-up


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
    versioned: bool = True  # the results state the version of their tool
    prompted: bool = True  # they hold prompts or their lengths
    left_out: tuple[str, ...] = ()  # metrics that the results lack
    regression: str = ""  # the section, YAML, that the noise of remembered sessions bears
    store: tuple[str, str] = ("", "")  # of those sessions: its name and the branch
    client: str = ""  # what draws the lengths, for people
    asked: Mapping[str, Lengths] = {}  # by side, lengths that it cannot draw: those above are what it draws

    @property
    def slots(self) -> int:
        """Requests in flight at the target; 0 for an open loop or an unknown load."""
        if self.load is None or self.load[0] == "request_rate":
            return 0
        return int(self.load[1]) * (2 if self.load[0] == "peak" else 1)

    @property
    def target(self) -> str:
        """The target load in words; empty for none."""
        if self.load is None:
            return ""
        return f"concurrency {self.slots}" if self.slots else f"{self.load[1]:g} req/s"


class _Bound(Struct, frozen=True):
    """One percentile bound of the policy to be written."""

    metric: str
    statistic: str
    max_s: float
    when: str | None
    level: Level
    measured_s: float | None  # where it was measured
    need_s: float | None = None  # the preset's bound; None for a P90 of ours, which no preset has
    reason: tuple[str, ...] = ()  # the preset's comment lines

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
    bounds = _bounds(answers)
    least = max(SHORT_MIN, SHORT_PER_SLOT * answers.slots)
    few = _down(answers.measured.fewest) if answers.measured else least
    return render(
        TEMPLATES / "policy.yaml.j2",
        _quoted,
        answers=answers,
        interaction=INTERACTIONS[answers.interaction][1],
        load=_load(answers),
        least=least,
        few=min(few, least),
        regression=markup(answers.regression),
        bounds=bounds,
        floors={metric: _floor(group) for metric, group in bounds.items()},
        time=_time,
        shown=lambda seconds: units.show(seconds, units.SECONDS),
        comment=lambda text: markup(printable(text)),
    )


def _load(answers: Answers) -> str:
    if answers.load is None:
        return ""
    kind, value = answers.load
    return f"{kind}: {value:g}" + "/s" * (kind == "request_rate")


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


def _bounds(answers: Answers) -> dict[str, list[_Bound]]:
    """Each percentile of the preset by metric, measured or not, and a P90 beside each P99."""
    name, text = preset_of(answers.interaction)
    lines = text.decode().splitlines()
    latency = [
        each for each in policy.parse(text, name, profile="none").objectives if each.kind is Kind.LATENCY
    ]
    there = {(each.metric, each.statistic) for each in latency}
    bounds: dict[str, list[_Bound]] = {}
    last: tuple[str, ...] = ()
    for objective in latency:
        if objective.metric in answers.left_out:
            continue
        reason = _reason(lines, objective.line)  # one comment may stand above two percentiles: once is enough
        bound = _bound(answers, objective, ("For the reason above.",) if reason == last else reason)
        last = reason
        group = bounds.setdefault(objective.metric, [])
        group.append(bound)
        if objective.statistic == "p99" and (objective.metric, "p90") not in there:
            group.append(_beside(answers, objective, bound))
    return bounds


def _reason(lines: list[str], line: int) -> tuple[str, ...]:
    """The comment lines right above a line of a preset."""
    start = line - 1
    while lines[start - 1].strip().startswith("#"):
        start -= 1
    return tuple(text.strip().lstrip("# ") for text in lines[start : line - 1])


def _bound(answers: Answers, objective: Objective, reason: tuple[str, ...]) -> _Bound:
    metric, statistic, need_s = objective.metric, objective.statistic, objective.bound
    assert need_s is not None
    measured_s = answers.measured.observed_s.get(objective.id) if answers.measured else None
    max_s = need_s if measured_s is None else above(measured_s)
    when = objective.when.text if objective.when else None
    return _Bound(metric, statistic, max_s, when, objective.level, measured_s, need_s, reason)


def _beside(answers: Answers, p99: Objective, bound: _Bound) -> _Bound:
    """The P90 that a PR can decide: measured, or the number of the P99, which is never stricter."""
    name = p99.id.replace("p99", "p90")
    measured_s = answers.measured.observed_s.get(name) if answers.measured else None
    max_s = bound.max_s if measured_s is None else min(above(measured_s), bound.max_s)
    return _Bound(bound.metric, "p90", max_s, bound.when, Level.INFO, measured_s)


def _down(number: int) -> int:
    """Two digits of a count, not rounded up; at least 1."""
    step = int(10 ** max(len(str(number)) - 2, 0))
    return max(1, number // step * step)


def above(seconds: float) -> float:
    """A measured time with headroom, rounded up to two digits."""
    step = 10 ** (math.floor(math.log10(seconds * HEADROOM)) - 1)
    # Rounded first: 0.41 * 1.25 / 0.01 must not be pushed up by its last bit.
    return float(f"{math.ceil(round(seconds * HEADROOM / step, 9)) * step:.6g}")
