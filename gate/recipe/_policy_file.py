"""Answers to a commented policy: bounds with their reasons, and the profiles pr, nightly and release.

Bounds and their reasons come from the presets, or from measured results with headroom; none is made up
without an interaction type. Error rates quoted in the comments are those of docs/statistics.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from msgspec import Struct, field

from .. import policy, units
from ..errors import UsageError
from ..model import Kind, Level, Objective
from ..units import printable
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

_ONE_SHOT = """\
version: 1
name: one-shot
slo:
  # The answer appears as a whole, so only its end counts. 10 s is about how long people keep their
  # attention on what they asked for (Nielsen, Usability Engineering, 1993).
  e2e: {p99: 10s}
goodput: {min: 99%}
"""


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


def policy_text(answers: Answers) -> str:
    """The policy as commented YAML, which loads with every profile.

    Raises UsageError for an unknown interaction, or for text that YAML cannot hold on one line.
    """
    if answers.interaction not in INTERACTIONS:
        hint = f"name one of {', '.join(INTERACTIONS)}: what users do decides what is slow"
        raise UsageError(f'no SLO is known for "{printable(answers.interaction)}"', "", hint)
    bounds = _bounds(answers)
    parts = [
        _head(answers),
        _workload(answers),
        _slo(bounds),
        _goodput_and_limits(answers),
        _regression(bounds),
        _evidence(answers),
        _profiles(answers, bounds),
    ]
    return "\n".join(parts)


def preset_of(interaction: str) -> tuple[str, bytes]:
    """(name, YAML) of the policy whose bounds an interaction starts from."""
    name = INTERACTIONS[interaction][0]
    return name, (_ONE_SHOT if name == "one-shot" else policy.preset_text(name)).encode()


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


# ---- sections -----------------------------------------------------------------------------


def _head(answers: Answers) -> str:
    lines = [
        f"# yaml-language-server: $schema={answers.schema}",
        "# Written by `slo-gate init`. Every bound has its reason above it: keep that true.",
        *(f"# Measured: {printable(answers.measured.source)}" for _ in [0] if answers.measured),
        *(f"# {printable(note)}" for note in answers.notes),
        "version: 1",
        f"name: {answers.interaction}",
        "# Good data, too little of it: exit 4. The profiles say otherwise where that is right.",
        "undecided: block",
    ]
    return "\n".join(lines) + "\n"


def _workload(answers: Answers) -> str:
    lines = ["# The benchmark that was promised: an easier one proves nothing.", "workload:"]
    if answers.model:
        lines.append(f"  model: {_quoted(answers.model)}")
    if answers.hardware:
        lines += [
            "  # Few tools write it down: state it with --set hardware=...",
            f"  hardware: {{is: {_quoted(answers.hardware)}, level: warn}}",
        ]
    lines += [
        "  # Shown, and not demanded of the files: no benchmark tool writes it down.",
        f"  interaction: {{is: {INTERACTIONS[answers.interaction][1]}, level: info}}",
    ]
    if answers.load:
        kind, value = answers.load
        shown = f"{value:g}/s" if kind == "request_rate" else f"{value:g}"
        if kind == "peak":
            lines.append("  # The target is twice the expected peak.")
        lines += [
            "  # Below the target, at it, and beyond it, where goodput must not fall off a cliff.",
            f"  load: {{{kind}: {shown}, sweep: [25%, 50%, 100%, 150%]}}",
        ]
    for name, lengths in (("input", answers.input_tokens), ("output", answers.output_tokens)):
        if lengths:
            said = f"mean: {lengths.mean:g}, stddev: {lengths.stddev:g}, tolerance: 10%"
            lines.append(f"  {name}_tokens: {{{said}}}")
    return "\n".join(lines) + "\n"


def _slo(bounds: list[_Bound]) -> str:
    lines, metric = ["slo:"], ""
    for one in bounds:
        if one.metric != metric:
            metric = one.metric
            lines.append(f"  {metric}:")
        lines += [f"    # {line}" for line in one.why]
        extras = [f"when: {one.when.replace('&', ' and ')}"] if one.when else []
        extras += [f"level: {one.level.value}"] if one.level is not Level.BLOCK else []
        value = _time(one.max_s)
        shown = f"{{max: {', '.join([value, *extras])}}}" if extras else value
        lines.append(f"    {one.statistic}: {shown}")
    return "\n".join(lines) + "\n"


def _goodput_and_limits(answers: Answers) -> str:
    lines = [
        "goodput:",
        "  # Production: of a hundred requests, one may miss. The bounds are the P99s above, all at once.",
        "  min: 99%",
        "limits:",
        "  # A failed request is a miss of goodput already; stated alone so that an outage is named as one.",
        "  error_rate: {max: 1%}",
    ]
    if answers.load:
        lines += [
            "  # Half again the target must not cost more than 5 points of goodput.",
            "  headroom: {max_drop: 5pt, from: 100%, to: 150%, level: warn}",
        ]
    return "\n".join(lines) + "\n"


def _regression(bounds: list[_Bound]) -> str:
    lines = [
        "# Against a baseline measured in the same session (base and head in turn); skipped without one.",
        "# Both must be exceeded: 5 %, the spread between sessions, and 2.5 % of the bound.",
        "regression:",
    ]
    for metric in dict.fromkeys(one.metric for one in bounds):
        largest = max(one.max_s for one in bounds if one.metric == metric)
        rule = f"{{max: 5%, and_at_least: {_time(float(f'{FLOOR * largest:.2g}'))}}}"
        lines.append(f"  {metric}: {{p50: {rule}, p90: {rule}}}")
    return "\n".join(lines) + "\n"


def slots(answers: Answers) -> int:
    """Requests in flight at the target; 0 for an open loop or an unknown load."""
    if answers.load is None or answers.load[0] == "request_rate":
        return 0
    return int(answers.load[1]) * (2 if answers.load[0] == "peak" else 1)


def _evidence(answers: Answers) -> str:
    least = max(SHORT_MIN, SHORT_PER_SLOT * slots(answers))
    return f"""\
evidence:
  # 30 runs: their spread carries a P99, even where requests are far from independent.
  runs: {{min: 30}}
  # max(300, 10 x concurrency): shorter runs are mostly start-up burst and ramp-down.
  requests_per_run: {{min: {least}}}
  # Two versions of a tool may measure two things.
  tool: {{version: required, level: warn}}
  # One prompt in a loop measures the cache.
  prompts: {{is: varied, level: warn}}
  # Drops the start-up burst and the ramp-down of each run.
  warmup: auto
"""


# ---- profiles -----------------------------------------------------------------------------


def _profiles(answers: Answers, bounds: list[_Bound]) -> str:
    levels = "".join(_levels(bounds, metric) for metric in dict.fromkeys(one.metric for one in bounds))
    load = ""
    if answers.load:
        load = """\
    # At the stated load alone. If the capacity is known, an open loop at 60 to 70 % of it starts
    # without a burst: workload: {load: {request_rate: ..., sweep: null}}
    workload: {load: {sweep: null}}
    limits: {headroom: {level: info}}
"""
    return f"""\
profiles:
  # Every pull request, minutes of GPU: 5 x 300 requests a side, base and head in turn, with the same seeds.
  # Can: show an outage; fail goodput 95 % or a P90 with five times the allowed misses (86 of 100 builds);
  #   show a regression of 10 to 20 %, if base and head ran in one session.
  # Cannot: prove a P99. Even without a miss that takes 740 requests that are independent, and under load
  #   1500 requests are worth fewer: of builds with a tenth of the allowed misses 5 of 100 would pass.
  #   So P99 is information here, and what is undecided passes unless the estimate misses its bound.
  # Undecided, and it matters? Top up to 3000 requests a side at two planned looks; never until it is green.
  pr:
    undecided: lean
    goodput: {{min: 95%}}
    slo:
{levels}    evidence: {{runs: {{min: 5}}, requests_per_run: {{min: 300}}}}
{load}  # Every night, the full benchmark with its sweep, for a dashboard.
  # Can: fail a P99 or goodput 99 % with twice the allowed misses (77 of 100 builds), pass it with a tenth
  #   of them (96 of 100).
  # Cannot: decide a build near its bound: with half the allowed misses 62 of 100 stay undecided. Nor see
  #   what differs between nodes or days, if all runs are of one.
  nightly:
    undecided: allow
  # Before a deploy: the same evidence as nightly, and what is undecided blocks.
  release:
    undecided: block
"""


def _levels(bounds: list[_Bound], metric: str) -> str:
    """In a PR, P90s block and P99s inform; a P90 that only warns in the policy stays as it is."""
    wanted = [
        f"{one.statistic}: {{level: {'info' if one.statistic == 'p99' else 'block'}}}"
        for one in bounds
        if one.metric == metric and (one.statistic == "p99" or one.level is Level.INFO)
    ]
    return f"      {metric}: {{{', '.join(wanted)}}}\n"
