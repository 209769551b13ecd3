"""The sections that say what users get: slo, goodput, limits, regression."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from .. import units
from ..model import METRICS, REQUEST_METRICS, Kind, Level, Objective, RequestBound, When
from . import _grammar as grammar
from ._problems import suggest
from ._section import Section
from ._yaml import Node

_MAX_BOUNDS = 20  # of one statistic


class _Bound(Struct, frozen=True):
    """A time limit on some requests."""

    max_s: float
    when: When | None
    level: Level
    line: int


def slo(section: Section) -> list[Objective]:
    """One objective a bound: a percentile (share that must meet it) or a mean, which is only shown."""
    return [objective for metric in section for objective in _metric(section, metric)]


def _metric(section: Section, metric: str) -> Iterator[Objective]:
    statistics = section.child(metric)
    for statistic in statistics or ():
        assert statistics is not None
        share = grammar.percentile(statistic)
        if share is None and statistic != "mean":
            _unknown_statistic(statistics, statistic)
            continue
        mean = statistic == "mean"
        for bound in _bounds(statistics, statistic, Level.INFO if mean else Level.BLOCK):
            if mean and bound.level is not Level.INFO:
                statistics.problem(
                    bound.line,
                    "is shown and never judged: a mean hides its tail",
                    "write `level: info`, and gate on p99",
                    statistic,
                )
            yield Objective(
                id=f"{metric}.{statistic}" + (f"[{bound.when.text}]" if bound.when else ""),
                kind=Kind.MEAN if mean else Kind.LATENCY,
                level=bound.level,
                metric=metric,
                statistic=statistic,
                bound=bound.max_s,
                unit=units.SECONDS,
                share=share,
                when=bound.when,
                line=bound.line,
            )


def _unknown_statistic(section: Section, statistic: str) -> None:
    hint = grammar.about_statistic(statistic) or suggest(statistic, ("p50", "p90", "p95", "p99", "mean"))
    section.problems.add(section.at_line(statistic), f'unknown statistic "{statistic}" in {section.at}', hint)


def _bounds(section: Section, key: str, default: Level | None) -> list[_Bound]:
    """A quantity, a mapping, or a list of either with different `when`. No level where default is None."""
    node = section.node(key)
    if node is None:
        return []
    if isinstance(node.value, list):
        if not 1 <= len(node.value) <= _MAX_BOUNDS:
            section.problem(node.line, f"must list 1 to {_MAX_BOUNDS} bounds", key=key)
        items = node.value[:_MAX_BOUNDS]
    else:
        items = [node]
    found = [bound for item in items if (bound := _bound(section, key, item, default))]
    for number, bound in enumerate(found):
        for other in found[:number]:
            if grammar.population(bound.when) == grammar.population(other.when):
                section.problem(
                    bound.line,
                    f"has two bounds for the same requests, here and in line {other.line}",
                    "keep one, or give them different `when`",
                    key,
                )
    return found


def _bound(section: Section, key: str, item: Node, default: Level | None) -> _Bound | None:
    if item.entries is None:
        # A bare quantity is short for {max: quantity}; reading it as one keeps a single path.
        single = Section(Node({key: item}, item.line), section.at, section.problems)
        if item.value is None:
            return None
        max_s = single.quantity(key, grammar.TIME)
        return None if max_s is None else _Bound(max_s, None, default or Level.BLOCK, item.line)
    allowed = ("max", "when") if default is None else ("max", "when", "level")
    inner = Section(item, section.path(key), section.problems, allowed, ("max",))
    max_s = inner.quantity("max", grammar.TIME)
    when = inner.parsed_text("when", grammar.when)
    level = Level.BLOCK if default is None else inner.level(default)
    if max_s is None or ("when" in inner and when is None):
        return None
    return _Bound(max_s, when, level, inner.at_line("max"))


def goodput(section: Section, slo_objectives: list[Objective]) -> tuple[list[Objective], list[RequestBound]]:
    """The share of requests that meet every bound at once, and those bounds."""
    share = section.quantity("min", grammar.SHARE)
    level = section.level()
    request = section.child("request")
    bounds = _defaults(slo_objectives) if request is None else _request(request)
    objective = Objective(
        id="goodput",
        kind=Kind.GOODPUT,
        level=level,
        metric="goodput",
        statistic="share",
        operator=">=",
        bound=share,
        unit=units.SHARE,
        share=share,
        line=section.at_line("min"),
    )
    return ([objective] if share is not None else []), bounds


def _request(section: Section) -> list[RequestBound]:
    found = []
    for metric in section:
        if metric == "itl":
            section.problems.add(
                section.at_line(metric),
                "itl cannot be a bound of goodput: a request has many gaps and goodput counts requests",
                "bound tpot instead",
            )
        elif metric in REQUEST_METRICS:
            bounds = _bounds(section, metric, None)
            found += [RequestBound(metric, b.max_s, b.when, b.line) for b in bounds]
        else:
            section.problems.add(
                section.at_line(metric),
                f'unknown metric "{metric}" in {section.at}',
                suggest(metric, REQUEST_METRICS),
            )
    return found


def _defaults(objectives: list[Objective]) -> list[RequestBound]:
    """A metric's default per-request bounds: those of its highest blocking percentile (DESIGN 3)."""
    found = []
    for metric in REQUEST_METRICS:
        blocking = [
            o for o in objectives if o.metric == metric and o.kind is Kind.LATENCY and o.level is Level.BLOCK
        ]
        highest = max((o.share or 0.0 for o in blocking), default=0.0)
        found += [
            RequestBound(metric, o.bound, o.when, o.line)
            for o in blocking
            if o.share == highest and o.bound is not None
        ]
    return found


def limits(section: Section) -> list[Objective]:
    """error_rate, headroom and throughput."""
    readers = {"error_rate": _error_rate, "headroom": _headroom, "throughput": _throughput}
    found = (readers[key](section) for key in section if key in readers)
    return [objective for objective in found if objective is not None]


def _error_rate(limits: Section) -> Objective | None:
    section = limits.child("error_rate", ("max", "level"), ("max",))
    bound = section.quantity("max", grammar.ERRORS) if section else None
    if section is None:
        return None
    return Objective(
        id="error_rate",
        kind=Kind.ERROR_RATE,
        level=section.level(),
        metric="error_rate",
        statistic="share",
        bound=bound,
        unit=units.SHARE,
        line=section.at_line("max"),
    )


def _throughput(limits: Section) -> Objective | None:
    section = limits.child("throughput", ("min", "level"), ("min",))
    bound = section.quantity("min", grammar.TOKEN_RATE) if section else None
    if section is None:
        return None
    return Objective(
        id="throughput",
        kind=Kind.THROUGHPUT,
        level=section.level(),
        metric="throughput",
        statistic="min",
        operator=">=",
        bound=bound,
        unit=units.TOKEN_RATE,
        line=section.at_line("min"),
    )


def _headroom(limits: Section) -> Objective | None:
    section = limits.child("headroom", ("max_drop", "from", "to", "level"), ("max_drop", "to"))
    if section is None:
        return None
    drop = section.quantity("max_drop", grammar.POINTS)
    start = section.quantity("from", grammar.PERCENT) if "from" in section else 1.0
    end = section.quantity("to", grammar.PERCENT)
    level = section.level()
    if start is not None and end is not None and start >= end:
        section.problem(section.at_line("to"), "must lie above `from`", key="to")
    if drop is None or start is None or end is None:
        return None
    shown = [units.show(value, units.SHARE) for value in (start, end)]
    return Objective(
        id="headroom",
        kind=Kind.HEADROOM,
        level=level,
        metric="headroom",
        statistic="max_drop",
        bound=drop,
        unit=units.POINTS,
        expected=f"goodput drops by at most {units.show(drop, units.POINTS)}"
        f" from {shown[0]} to {shown[1]} of the load",
        line=section.at_line("max_drop"),
        between=(start, end),
    )


def regression(section: Section) -> list[Objective]:
    """Growth of a percentile against a baseline; judged once there is one."""
    required = _required(section)
    metrics = [key for key in section if key in METRICS]
    if not metrics:
        section.problem(section.line, "compares no metric", f"add one of {', '.join(METRICS)}")
    return [o for metric in metrics for o in _regression_metric(section, metric, required)]


def _required(section: Section) -> bool:
    node = section.node("required")
    if node is not None and not isinstance(node.value, bool):
        section.problem(node.line, f"must be true or false, got {node.shown}", key="required")
    return node is not None and node.value is True


def _regression_metric(regression: Section, metric: str, required: bool) -> Iterator[Objective]:
    section = regression.child(metric)
    for statistic in section or ():
        assert section is not None
        share = grammar.percentile(statistic)
        if share is None:
            _unknown_statistic(section, statistic)
            continue
        rule = section.child(statistic, ("max", "and_at_least", "level"), ("max",))
        if rule is None:
            continue
        growth = rule.quantity("max", grammar.PERCENT)
        least_s = rule.quantity("and_at_least", grammar.TIME)
        level = rule.level()
        if growth is None:
            continue
        floor = f" or by less than {units.show(least_s, units.SECONDS)}" if least_s is not None else ""
        yield Objective(
            id=f"regression.{metric}.{statistic}",
            kind=Kind.REGRESSION,
            level=level,
            metric=metric,
            statistic=statistic,
            bound=growth,
            unit=units.RATIO,
            share=share,
            expected=f"{statistic.upper()} {metric.upper()} grows by at most"
            f" {units.show(growth, units.SHARE)}{floor} against the baseline"
            + ("; a baseline is required" if required else ""),
            line=rule.at_line("max"),
            floor_s=least_s,
            required=required,
        )
