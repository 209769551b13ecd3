"""What every emitter shares: foreign text made inert, quantities in words, checks in reading order."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from decimal import Decimal

from msgspec import Struct

from ..model import Check, Goodput, Level, MetricStats, Report, RunReport, Verdict
from ..units import COUNT, POINTS, RATE, RATIO, SECONDS, SHARE, TOKEN_RATE, show

CAP = 12  # runs listed before "and N more": a sweep must not bury the verdict
FILES = 3  # files listed with their SHA-256
LABELS = {"ttft_s": "TTFT", "tpot_s": "TPOT", "itl_s": "ITL", "e2e_s": "E2E"}
PERCENTILES = ("p50", "p90", "p99")

_INTERVAL_UNITS = {"share": SHARE, "ratio": RATIO, "points": POINTS, "tok_per_s": TOKEN_RATE}
MET = " met it"
_BREAKS = frozenset("\t\n\v\f\r\x1c\x1d\x1e\x1f\x85\u2028\u2029")
# CI runners obey `::command::` at the start of a line and `##[command]`, `##vso[...]` anywhere in one.
_RUNNER_COMMAND = re.compile(r"(?<!\S):(?=:)|#(?=#\w*\[)")
# What GitHub and GitLab turn into mentions, references, links and emoji even when escaped as entities.
_REFERENCE = re.compile(
    r"@(?=\w)|[#!&$^](?=\d)|[~%](?=[\w\"])|\bGH-(?=\d)|:(?=//)|\bwww(?=\.)|:(?=[\w+-]+:)", re.IGNORECASE
)
_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")  # one inside a word is no emphasis
_BLOCK_START = re.compile(r"^(?:[=#]|[-+](?=[\s-])|\d+[.)](?=\s))")
# A comparison with a number reads as one in the raw text of a mail; "<" and ">" alone are no HTML there.
_COMPARISON = re.compile(r"(?:(?<!\S)&(lt|gt);(=)|(?<=\s)&(lt|gt);)(?= [\d+-])")
_SIGNS = {"lt=": "\N{LESS-THAN OR EQUAL TO}", "gt=": "\N{GREATER-THAN OR EQUAL TO}", "lt": "<", "gt": ">"}
# A star with white space on both sides is no emphasis, and reads well in the raw text of a mail.
_STAR = re.compile(r"(?<=\s)&#42;(?=\s)")
_ENTITIES = {ord(c): f"&#{ord(c)};" for c in "\\`*[]{|}~$\u200b"}


# ---- foreign text -------------------------------------------------------------------------


def plain(text: str) -> str:
    r"""`text` on one line with nothing in it that drives a terminal, an XML parser or a CI runner.

    Line breaks become spaces; other control, bidi and invisible characters and lone surrogates
    are shown as escapes (`\x1b`, `\u202e`).
    """
    if not text.isprintable():
        text = "".join(c if c.isprintable() else _visible(c) for c in text)
    return _RUNNER_COMMAND.sub(lambda found: found[0] + " ", text.strip())


def _visible(char: str) -> str:
    if char in _BREAKS or unicodedata.category(char) == "Zs":
        return " "
    return char.encode("unicode_escape").decode("ascii")


def markdown(text: str) -> str:
    """`text` as Markdown that shows it letter by letter, also in a table cell or an HTML block.

    Entities, because a backslash means nothing inside HTML. Mentions and references are matched
    after entities are decoded, so those get a zero-width space.
    """
    text = _REFERENCE.sub(lambda found: found[0] + "\u200b", plain(text))
    import html  # here, not above: it costs start-up time

    text = html.escape(text, quote=False).translate(_ENTITIES)
    text = _COMPARISON.sub(lambda found: _SIGNS["".join(filter(None, found.groups()))], text)
    text = _STAR.sub("*", _UNDERSCORE.sub("&#95;", text))
    return _BLOCK_START.sub(lambda found: f"{found[0][:-1]}&#{ord(found[0][-1])};", text)


# ---- quantities ---------------------------------------------------------------------------


def count(number: int | None) -> str:
    """A number of things, with thousands separators."""
    return show(number, COUNT)


def share(value: float | None, against: float | None = None) -> str:
    """A share as percent, never rounded up to 100 % nor across the bound it is compared with."""
    return max(show(value, SHARE, 1.0), show(value, SHARE, against), key=len)


def expected(check: Check) -> str:
    """The rule for a reader."""
    return plain(check.expected or f"{check.metric} {check.statistic} {bound(check)}")


def bound(check: Check) -> str:
    """Operator and bound, or the demand in words where there is no number."""
    if check.bound is None:
        return plain(check.expected)
    return f"{check.operator} {show(check.bound, SHARE if check.unit == RATIO else check.unit)}"


def observed(check: Check) -> str:
    """What was seen, with the digits the comparison needs; empty where the reason shown says just that."""
    if check.observed_text == check.reason and check.verdict != Verdict.PASS:
        return ""
    return plain(check.observed_text) or show(check.observed, check.unit, check.bound)


def interval(check: Check) -> str:
    """The interval in its unit; where it is about requests and the rule about seconds, it says so."""
    if check.interval is None:
        return ""
    if check.interval_of == "ratio":  # growth against a baseline
        return " to ".join(growth(end) for end in check.interval)
    unit = _INTERVAL_UNITS.get(check.interval_of or "", check.unit)
    against = _share_wanted(check) if unit == SHARE else check.bound if unit == check.unit else None
    low, high = (show(end, unit, against) for end in check.interval)
    if " " in high and low.endswith(suffix := high[high.index(" ") :]):
        low = low.removesuffix(suffix)
    return f"{low} to {high}" + (MET if unit == SHARE and check.unit != SHARE else "")


def growth(value: float) -> str:
    """A change as a signed percentage of the baseline, to a tenth of a percent."""
    rounded = round(value, 3)
    return ("+" if rounded > 0 else "") + show(rounded, SHARE)


def _share_wanted(check: Check) -> float | None:
    """Of a P99, 0.99: what its interval is compared with."""
    if check.unit == SHARE:
        return check.bound
    found = re.fullmatch(r"p(\d+(?:\.\d+)?)", check.statistic)
    return float(Decimal(found[1]) / 100) if found else None


def met(verdict: Verdict | None) -> str:
    """Whether a load meets the policy, in a word."""
    return {Verdict.PASS: "met", Verdict.FAIL: "not met", None: ""}.get(verdict, "unproven")


def capacity_line(report: Report) -> str:
    """The highest measured load that meets the policy, with its label."""
    return plain(f"Capacity: {report.capacity.text}") if report.capacity else ""


def misses(check: Check) -> str:
    """Misses of n, or the range they lie in, or n alone."""
    if check.n is None:
        return ""
    if check.misses is not None:
        return f"{count(check.misses)} of {count(check.n)}"
    if check.misses_range is not None:
        low, high = check.misses_range
        return f"{count(low)} to {count(high)} of {count(check.n)}"
    return f"n {count(check.n)}"


def observation(check: Check) -> str:
    """Observed value, the share that met the bound with its interval and its need, and the misses."""
    wanted, parts, scope = _share_wanted(check), [observed(check)], ""
    if check.share is not None and check.unit != SHARE:
        parts.append(f"{share(check.share, wanted)} met it")
        scope = f", needs {show(wanted, SHARE)}" if wanted is not None else ""
    if check.interval is not None:
        at, scope = (0, "") if check.interval_of == "quantile" else (-1, scope)  # it is of the observed value
        parts[at] += f" (interval {interval(check).removesuffix(MET)}{scope})"
    if missed := misses(check):
        parts.append(missed + " missed" if " of " in missed else missed)
    return "; ".join(part for part in parts if part not in ("", "-"))


def headroom(check: Check) -> str:
    """How many times the observed value fits into its bound."""
    return "" if check.headroom is None else f"{show(check.headroom, RATIO)}x"


def place(check: Check, report: Report) -> str:
    """The policy file and line where the rule stands."""
    line = f":{check.policy_line}" if check.policy_line else ""
    return plain(report.policy.path + line)


def summary(check: Check) -> str:
    """The check in one line: what was seen against its rule."""
    return (
        plain(check.summary) or why(check) or "; ".join(filter(None, (expected(check), observation(check))))
    )


def why(check: Check) -> str:
    """The reason, and who waived it."""
    reason = plain(check.reason)
    return f"{reason} Waived {plain(check.waived)}." if check.waived else reason


def facts(check: Check) -> dict[str, str]:
    """The rule and what is known about it, by name; empty texts where nothing is."""
    return {
        "expected": expected(check),
        "observed": observation(check),
        "headroom": headroom(check),
        "unproven": weight(check),
        "worth": worth(check),
    }


def worth(check: Check) -> str:
    """How much its requests weigh, where neighbours behave alike."""
    if check.n_eff is None or check.deff is None:
        return ""
    apart = f"{count(round(check.n_eff))} requests that do not wait for each other"
    return f"{apart} (design effect {check.deff:.1f})"


def detail(check: Check) -> str:
    """The check in one line, and whether it blocks."""
    return f"({weight(check)}) {summary(check)}" if weight(check) else summary(check)


def next_action(report: Report) -> str:
    """What to do now, without the label each output gives it."""
    return plain(report.next_action)


# ---- checks -------------------------------------------------------------------------------


class Section(Struct, frozen=True):
    """Checks that are read together."""

    title: str
    checks: tuple[Check, ...]


def sections(report: Report) -> tuple[Section, ...]:
    """The checks in reading order, most urgent first; empty sections are left out."""
    titles = ("Failures", "Inconclusive", "Warnings", "Passes", "Not judged")
    groups: dict[str, list[Check]] = {title: [] for title in titles}
    for check in report.checks:
        groups[_section(check)].append(check)
    return tuple(Section(title, tuple(checks)) for title, checks in groups.items() if checks)


def unlike(report: Report) -> list[list[Check]]:
    """The checks that are no pass, most urgent first; those of which the same is to be said together."""
    groups: dict[tuple[str, str, bool], list[Check]] = {}
    for section in sections(report):
        for check in section.checks if section.title != "Passes" else ():
            groups.setdefault((mark(check), summary(check), check.blocks), []).append(check)
    return list(groups.values())


def _section(check: Check) -> str:
    if check.verdict == Verdict.PASS:
        return "Passes"
    if check.verdict == Verdict.SKIPPED or check.level == Level.INFO:
        return "Not judged"
    if check.level == Level.WARN or check.verdict == Verdict.WARN or mark(check) == "WAIVED":
        return "Warnings"
    return "Inconclusive" if check.verdict == Verdict.INCONCLUSIVE else "Failures"


def mark(check: Check) -> str:
    """One word for a check's outcome and weight. Anything but PASS is never a pass."""
    if check.verdict == Verdict.FAIL and check.waived:
        return "WAIVED"
    if check.verdict == Verdict.FAIL and check.level != Level.BLOCK:
        return check.level.name
    return check.verdict.name


def weight(check: Check) -> str:
    """Whether an inconclusive blocks, and which kind it is; empty for the rest."""
    if check.verdict != Verdict.INCONCLUSIVE:
        return ""
    kinds = {"evidence": "cannot be judged from this data", "undecided": "not enough data"}
    return f"{kinds.get(check.cause or '', 'unproven')}, {'blocks' if check.blocks else 'does not block'}"


# ---- goodput, latency, runs ---------------------------------------------------------------


def goodput_target(report: Report) -> float | None:
    """The share the goodput objective asks for, so that no rounding crosses it."""
    return next((check.bound for check in report.checks if check.id == "goodput"), None)


def goodput_share(goodput: Goodput | None, target: float | None = None) -> str:
    """The share of good requests, or the range it lies in."""
    if goodput is None:
        return "-"
    if goodput.fraction is None and goodput.range is not None:
        return f"{share(goodput.range[0], target)} to {share(goodput.range[1], target)}"
    return share(goodput.fraction, target)


def goodput_line(report: Report) -> str:
    """Goodput, its interval, counts and rates in one line; empty where the policy has none."""
    goodput, target = report.goodput, goodput_target(report)
    if goodput is None:
        return ""
    shown = goodput_share(goodput, target)
    if shown == "-":
        return "not known; the notes say why"
    if goodput.good is not None:
        shown += f" ({count(goodput.good)} of {count(goodput.attempted)})"
    parts = [shown]
    if goodput.interval is not None:
        low, high = (share(end, target) for end in goodput.interval)
        parts.append(f"interval {low} to {high}")
    rates = ((goodput.requests_per_s, RATE), (goodput.tokens_per_s, TOKEN_RATE))
    if known := [show(rate, unit) for rate, unit in rates if rate is not None]:
        parts.append(f"{' and '.join(known)} good")
    return "; ".join(parts)


def misses_line(report: Report) -> str:
    """What the requests that were not good missed; empty where that is not known."""
    missed = report.goodput.misses if report.goodput else None
    if missed is None:
        return ""
    number = {
        "TTFT alone": missed.ttft,
        "TPOT alone": missed.tpot,
        "E2E alone": missed.e2e,
        "several bounds": missed.several,
        "failed": missed.failed,
    }
    told = [f"{name} {count(n)}" for name, n in sorted(number.items(), key=lambda pair: -pair[1]) if n]
    return f"{count(sum(number.values()))}" + (f": {', '.join(told)}" if told else "")


def judged(report: Report) -> dict[tuple[str, str], Check]:
    """What judged a percentile that is not the one of the completed requests, by column and statistic."""
    return {(f"{check.metric}_s", check.statistic): check for check in report.checks if check.of_attempted}


def latency_title(report: Report) -> str:
    """Whose latency the table shows."""
    return "Latency of completed requests" + ("; * as judged, of all attempted" if judged(report) else "")


def latency_notes(metrics: Mapping[str, MetricStats | None]) -> tuple[str, ...]:
    """The means, which are never judged, and the methods behind the tool's own percentiles."""
    known = {label: stats for column, label in LABELS.items() if (stats := metrics.get(column))}
    means = [f"{label} {show(s.mean, SECONDS)}" for label, s in known.items() if s.mean is not None]
    notes = [f"means, never judged: {', '.join(means)}"] if means else []
    methods = [str((s.tool_reported or {}).get("method", "")) for s in known.values()]
    notes += [f"tool's own: {plain(method)}" for method in dict.fromkeys(methods) if method]
    return tuple(notes)


def requests_line(run: RunReport) -> str:
    """How many requests of each kind a run has; cancelled are always shown."""
    counts = run.counts
    if counts is None:
        return "how many were attempted, completed and failed is not stated"
    return (
        f"{count(counts.attempted)} attempted, {count(counts.completed)} completed, "
        f"{count(counts.failed)} failed; not counted: {count(counts.cancelled)} cancelled, "
        f"{count(counts.warmup)} warm-up"
    )


def more(total: int, noun: str, shown: int = CAP) -> str:
    """What a capped list leaves out, in words; empty where it leaves nothing out."""
    return f"and {total - shown:,} more {noun}; the JSON report has all" if total > shown else ""


def policy_line(report: Report) -> str:
    """The policy and how it was read, and the exit code that follows."""
    policy = report.policy
    profile = f", profile {policy.profile}" if policy.profile else ""
    return plain(f"{policy.path}{profile}, undecided: {policy.undecided}; exit code {report.exit_code}")


def digests(report: Report) -> tuple[str, ...]:
    """SHA-256 of the policy and the inputs, in the lines that `sha256sum --check` reads."""
    files = [(report.policy.sha256, report.policy.path)]
    files += [(file.sha256, file.path) for file in report.inputs[:FILES]]
    return tuple(f"{plain(digest)}  {plain(path)}" for digest, path in files)
