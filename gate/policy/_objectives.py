"""The sections that say what users get: slo, goodput, limits, regression."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .. import units
from ..model import REQUEST_METRICS, Kind, Level, Objective, RequestBound
from . import _grammar as grammar
from ._section import Section
from ._types import Scalar

BASELINE_REQUIRED = "a baseline is required"


def _objective(id: str, kind: Kind, rule: Section, statistic: str, key: str, **more: Any) -> Objective:
    """What `key` of `rule` asks."""
    value = rule.shape.keys[key].type
    fields = {
        "metric": id,
        "operator": ">=" if key == "min" else "<=",
        "bound": rule[key],
        "unit": value.unit if isinstance(value, Scalar) else "",
        **more,
    }
    return Objective(
        id=id, kind=kind, level=rule.level, statistic=statistic, line=rule.line_of(key), **fields
    )


def slo(section: Section) -> Iterator[Objective]:
    """One objective a bound: a percentile (share that must meet it) or a mean, which is only shown."""
    for metric in section:
        for statistic in section[metric]:
            share = grammar.percentile(statistic)
            for bound in _bounds(section[metric], statistic):
                kind, when = Kind.LATENCY if share else Kind.MEAN, bound["when"]
                id = f"{metric}.{statistic}" + (f"[{when.text}]" if when else "")
                yield _objective(id, kind, bound, statistic, "max", metric=metric, share=share, when=when)


def _bounds(section: Section, key: str) -> list[Section]:
    """The bounds under a key; two for the same requests are noted."""
    lines: dict[str, int] = {}
    bounds: list[Section] = section[key]
    for bound in bounds:
        population = str(sorted(grammar.population(bound["when"]).items()))
        if population in lines:
            message = f"has two bounds for the same requests, here and in line {lines[population]}"
            section.problem(message, "keep one, or give them different `when`", key, bound.line_of("max"))
        lines.setdefault(population, bound.line_of("max"))
    return bounds


def goodput(section: Section) -> Iterator[Objective]:
    """The share of requests that meet every bound at once."""
    if "min" in section:
        yield _objective("goodput", Kind.GOODPUT, section, "share", "min", share=section["min"])


def request_bounds(top: Section, objectives: Iterable[Objective]) -> Iterator[RequestBound]:
    """What a good request meets: `request`, else of each metric in slo its highest blocking percentile."""
    if "goodput" not in top:
        return
    if "request" in top["goodput"]:
        request = top["goodput"]["request"]
        for metric in request:
            for bound in _bounds(request, metric):
                yield RequestBound(metric, bound["max"], bound["when"], bound.line_of("max"))
        return
    blocking = [o for o in objectives if o.kind is Kind.LATENCY and o.level is Level.BLOCK]
    for metric in REQUEST_METRICS:
        highest = max((o.share or 0.0 for o in blocking if o.metric == metric), default=0.0)
        for o in blocking:
            if (o.metric, o.share) == (metric, highest) and o.bound is not None:
                yield RequestBound(metric, o.bound, o.when, o.line)


def limits(section: Section) -> Iterator[Objective]:
    """error_rate, headroom and throughput."""
    for key in section:
        rule = section[key]
        if key == "error_rate":
            yield _objective(key, Kind.ERROR_RATE, rule, "share", "max")
        elif key == "throughput":
            yield _objective(key, Kind.THROUGHPUT, rule, "min", "min")
        else:
            yield _headroom(rule)


def _headroom(rule: Section) -> Objective:
    between = rule["from"], rule["to"]
    if between[0] >= between[1]:
        rule.problem("must lie above `from`", key="to")
    start, end = (units.show(share, units.SHARE) for share in between)
    drop = units.show(rule["max_drop"], units.POINTS)
    expected = f"goodput drops by at most {drop} from {start} to {end} of the load"
    return _objective(
        "headroom", Kind.HEADROOM, rule, "max_drop", "max_drop", expected=expected, between=between
    )


def regression(section: Section) -> Iterator[Objective]:
    """Growth of a percentile against a baseline; judged once there is one."""
    for metric in section:
        for statistic in section[metric] if metric != "required" else ():
            rule, share = section[metric][statistic], grammar.percentile(statistic)
            floor_s, required = rule["and_at_least"], section["required"]
            floor = "" if floor_s is None else f" or by less than {units.show(floor_s, units.SECONDS)}"
            growth = f"grows by at most {units.show(rule['max'], units.SHARE)}{floor} against the baseline"
            more = {
                "expected": f"{statistic.upper()} {metric.upper()} {growth}"
                + (f"; {BASELINE_REQUIRED}" if required else ""),
                "unit": units.RATIO,
                "floor_s": floor_s,
                "required": required,
            }
            id = f"regression.{metric}.{statistic}"
            yield _objective(id, Kind.REGRESSION, rule, statistic, "max", metric=metric, share=share, **more)
