"""The sections that say under which conditions: workload, evidence, waivers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .. import units
from ..model import EvidenceRules, Kind, Load, Objective, TokenRule, Waiver, Workload
from ._section import Section
from ._tables import LOADS


def _rule(id: str, rule: Section, expected: str, key: str = "is") -> Objective:
    """A demand in words; `min` is a number as well."""
    least = key == "min"
    return Objective(
        id=id,
        kind=Kind.RULE,
        level=rule.level,
        metric=id.partition(".")[2],
        statistic="min" if least else "",
        operator=">=" if least else "=",
        bound=float(rule["min"]) if least else None,
        unit=units.COUNT if least else "",
        expected=expected,
        line=rule.line_of(key),
    )


def workload(section: Section) -> tuple[list[Objective], Workload]:
    """What was promised to be benchmarked: each part is a rule, `load` also picks what is judged."""
    rules: list[Objective] = []
    parts: dict[str, Any] = {}
    for key in section:
        rule, id = section[key], f"workload.{key}"
        if key == "load":
            target, sweep = _load(rule)
            parts.update(target=target, sweep=sweep)
            rules.append(_rule(id, rule, str(target), next(kind for kind in LOADS if kind in rule)))
            if sweep:
                points = ", ".join(units.show(share, units.SHARE) for share in sweep)
                rules.append(_rule("workload.sweep", rule, f"runs at {points} of {target}", "sweep"))
        elif isinstance(rule, str):
            continue  # `output_tokens: none` is a fact about the endpoint, and no rule
        elif key in ("input_tokens", "output_tokens"):
            parts[key] = lengths = TokenRule(rule["mean"], rule["stddev"], rule["tolerance"])
            spread = "" if lengths.stddev is None else f", stddev {lengths.stddev:g}"
            within = units.show(lengths.tolerance, units.SHARE)
            rules.append(_rule(id, rule, f"mean {lengths.mean:g} within {within}{spread}", "mean"))
        else:
            parts[key] = rule["is"]
            rules.append(_rule(id, rule, rule["is"]))
    return rules, Workload(**parts)


def _load(rule: Section) -> tuple[Load, tuple[float, ...]]:
    concurrency, rate, real = rule["concurrency"], rule["request_rate"], "production" in rule
    if "peak" in rule:
        concurrency = 2 * rule["peak"]  # the target leaves room for twice the expected peak (DESIGN 3)
    if real:
        rate = rule["production"]["min"]
    sweep = rule["sweep"] or []
    if sweep and real:
        rule.problem("asks for a sweep of real traffic", "leave out sweep", "sweep")
    if len(set(sweep)) < len(sweep):
        rule.problem("names a load twice", key="sweep")
    return Load(concurrency=concurrency, request_rate=rate, production=real), tuple(sorted(sweep))


def evidence(section: Section) -> tuple[list[Objective], EvidenceRules]:
    """How certain a verdict must be, and the rules about the evidence itself."""
    tool = section["tool"]
    return list(_evidence_rules(section)), EvidenceRules(
        confidence=section["confidence"],
        decide=section["decide"],
        run_spread=section["run_spread"],
        runs_min=section["runs"]["min"],
        requests_per_run_min=section["requests_per_run"]["min"],
        tool_version_required="version" in tool,
        tool_name=tool["name"],
        warmup=section["warmup"],
        attempted=section["attempted"],
        ignore=tuple(section["ignore"] or ()),
    )


def _evidence_rules(section: Section) -> Iterator[Objective]:
    for key in section:
        rule, id = section[key], f"evidence.{key}"
        if key in ("runs", "requests_per_run"):
            yield _rule(id, rule, f"at least {rule['min']} {key.replace('_', ' ')}", "min")
        elif key == "tool":
            parts = rule["name"], "version stated" if "version" in rule else None
            yield _rule(id, rule, ", ".join(filter(None, parts)), "name" if "name" in rule else "version")
        elif key == "prompts":
            yield _rule(id, rule, "varied prompts")


def waivers(section: Section) -> tuple[Waiver, ...]:
    """Failures somebody has signed for. An expired one loads: it just waives nothing any more."""
    return tuple(
        Waiver(one["objective"], one["until"], one["owner"], one["reason"], one.line_of("objective"))
        for one in section["waivers"] or ()
    )
