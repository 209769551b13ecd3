"""The sections that say under which conditions: workload, evidence, semantics, waivers."""

from __future__ import annotations

from typing import cast

from .. import units
from ..model import EvidenceRules, Kind, Level, Load, Objective, TokenRule, Waiver, Workload
from . import _grammar as grammar
from ._section import Section
from ._yaml import Node

INTERACTIONS = ("streaming-chat", "one-shot", "voice", "agent", "code-completion", "batch")
NO_TOKENS = "none"
LOADS = ("concurrency", "request_rate", "peak", "production")
_MAX_SWEEP = 20


def _rule(
    group: str, name: str, level: Level, expected: str, line: int, least: int | None = None
) -> Objective:
    return Objective(
        id=f"{group}.{name}",
        kind=Kind.RULE,
        level=level,
        metric=name,
        statistic="min" if least is not None else "",
        operator=">=" if least is not None else "=",
        bound=None if least is None else float(least),
        unit=units.COUNT if least is not None else "",
        expected=expected,
        line=line,
    )


def _stated(section: Section, key: str) -> Section | None:
    """`key: value` or `key: {is: value, level: ...}`, both as the mapping."""
    node = section.node(key)
    if node is None:
        return None
    if node.entries is None:
        node = Node({"is": node}, node.line)
    return Section(node, section.path(key), section.problems, ("is", "level"), ("is",))


# ---- workload -----------------------------------------------------------------------------


def workload(section: Section) -> tuple[list[Objective], Workload]:
    """What was promised to be benchmarked: each part is a rule, `load` also picks what is judged."""
    rules: list[Objective] = []
    stated: dict[str, str] = {}
    tokens: dict[str, TokenRule] = {}
    target, sweep = None, tuple[float, ...]()
    for key in section:
        if key == "load":
            target, sweep, found = _load(section)
            rules += found
        elif key == "output_tokens" and cast(Node, section.node(key)).entries is None:
            _no_tokens(section, key)
        elif key in ("input_tokens", "output_tokens"):
            rule, found = _tokens(section, key)
            rules += found
            if rule:
                tokens[key] = rule
        elif inner := _stated(section, key):
            text = inner.choice("is", INTERACTIONS, "") if key == "interaction" else inner.text("is", 200)
            level = inner.level()
            if text:
                stated[key] = text
                rules.append(_rule("workload", key, level, text, inner.at_line("is")))
    return rules, Workload(
        model=stated.get("model"),
        hardware=stated.get("hardware"),
        interaction=stated.get("interaction"),
        target=target,
        sweep=sweep,
        input_tokens=tokens.get("input_tokens"),
        output_tokens=tokens.get("output_tokens"),
    )


def tokenless(workload: Section) -> bool:
    """Whether the workload states an endpoint that makes no tokens: a fact about it, and no rule."""
    node = workload.node("output_tokens")
    return node is not None and node.value == NO_TOKENS


def _no_tokens(section: Section, key: str) -> None:
    if not tokenless(section):
        shown = cast(Node, section.node(key)).shown
        hint = f"write {{mean: 150}}, or {NO_TOKENS} for an endpoint that makes no tokens"
        section.problem(
            section.at_line(key), f"must be a mapping of keys or {NO_TOKENS}, got {shown}", hint, key
        )


def _load(workload: Section) -> tuple[Load | None, tuple[float, ...], list[Objective]]:
    section = cast(Section, workload.child("load", (*LOADS, "sweep", "level")))
    named = [key for key in LOADS if key in section]
    if len(named) != 1:
        what = f"names {' and '.join(named)}" if named else "names no load"
        section.problem(section.line, what, f"write exactly one of {', '.join(LOADS)}")
    level = section.level()
    concurrency, peak = section.whole("concurrency"), section.whole("peak")
    rate = section.quantity("request_rate", grammar.RATE)
    real = section.child("production", ("min",), ("min",))
    if real is not None:
        rate = real.quantity("min", grammar.RATE)
    sweep = _sweep(section)
    if sweep and real is not None:
        section.problem(section.line, "asks for a sweep of real traffic", "leave out sweep", "sweep")
    if len(named) != 1 or (concurrency is None and peak is None and rate is None):
        return None, (), []
    if peak is not None:
        concurrency = 2 * peak  # the target leaves room for twice the expected peak (DESIGN 3)
    target = Load(concurrency=concurrency, request_rate=rate, production=real is not None)
    rules = [_rule("workload", "load", level, str(target), section.at_line(named[0]))]
    if sweep:
        points = [units.show(share, units.SHARE) for share in sweep]
        text = f"runs at {', '.join(points)} of {target}"
        rules.append(_rule("workload", "sweep", level, text, section.at_line("sweep")))
    return target, sweep, rules


def _sweep(section: Section) -> tuple[float, ...]:
    node = section.node("sweep")
    if node is None:
        return ()
    if not isinstance(node.value, list) or not 1 <= len(node.value) <= _MAX_SWEEP:
        section.problem(
            node.line,
            f"must be a list of 1 to {_MAX_SWEEP} percentages of the load",
            "write it like [50%, 100%, 150%]",
            "sweep",
        )
        return ()
    shares = []
    for item in node.value:
        try:
            shares.append(grammar.quantity(item.value, grammar.PERCENT))
        except ValueError as error:
            section.problems.add(item.line, f"{section.path('sweep')}: {error}")
    if len(set(shares)) < len(shares):
        section.problem(node.line, "names a load twice", key="sweep")
    return tuple(sorted(shares))


def _tokens(workload: Section, key: str) -> tuple[TokenRule | None, list[Objective]]:
    section = cast(Section, workload.child(key, ("mean", "stddev", "tolerance", "level"), ("mean",)))
    mean, stddev = section.number("mean"), section.number("stddev", zero=True)
    tolerance = section.quantity("tolerance", grammar.SHARE) if "tolerance" in section else 0.1
    level = section.level()
    if mean is None or tolerance is None:
        return None, []
    spread = f", stddev {stddev:g}" if stddev is not None else ""
    text = f"mean {mean:g} within {units.show(tolerance, units.SHARE)}{spread}"
    rule = _rule("workload", key, level, text, section.at_line("mean"))
    return TokenRule(mean, stddev, tolerance), [rule]


# ---- evidence -----------------------------------------------------------------------------


def evidence(section: Section) -> tuple[list[Objective], EvidenceRules]:
    """How certain a verdict must be, and the rules about the evidence itself."""
    rules: list[Objective] = []
    least: dict[str, int] = {}
    tool: Section | None = None
    for key in section:
        if key in ("runs", "requests_per_run"):
            inner = cast(Section, section.child(key, ("min", "level"), ("min",)))
            number, level = inner.whole("min"), inner.level()
            if number is not None:
                least[key] = number
                text = f"at least {number} {key.replace('_', ' ')}"
                rules.append(_rule("evidence", key, level, text, inner.at_line("min"), number))
        elif key == "tool":
            tool = cast(Section, section.child(key, ("name", "version", "level")))
            rules += _tool(tool)
        elif key == "prompts" and (stated := _stated(section, key)):
            stated.choice("is", ("varied",), "")  # the only word there is: the rule itself says it
            rules.append(_rule("evidence", key, stated.level(), "varied prompts", stated.at_line("is")))
    confidence = section.quantity("confidence", grammar.CONFIDENCE)
    return rules, EvidenceRules(
        confidence=0.95 if confidence is None else confidence,
        decide=section.choice("decide", ("confident", "point"), "confident"),
        runs_min=least.get("runs"),
        requests_per_run_min=least.get("requests_per_run"),
        tool_version_required=tool is not None and "version" in tool,
        tool_name=tool.text("name", 200) if tool else None,
        warmup=_warmup(section),
        attempted=section.text("attempted", 200),
    )


def _tool(section: Section) -> list[Objective]:
    name = section.text("name", 200)
    version = section.choice("version", ("required",), "")
    level = section.level()
    if "name" not in section and "version" not in section:
        section.problem(section.line, "asks for nothing", "add `name:` or `version: required`")
        return []
    text = ", ".join(part for part in (name, "version stated" if version else "") if part)
    return [_rule("evidence", "tool", level, text, section.at_line("name" if name else "version"))]


def _warmup(section: Section) -> int | str:
    node = section.node("warmup")
    if node is None or node.value == "auto":
        return "auto" if node else 0
    if isinstance(node.value, str):
        section.problem(node.line, f"must be auto or a whole number, got {node.shown}", key="warmup")
        return 0
    return section.whole("warmup", least=0) or 0


# ---- the rest -----------------------------------------------------------------------------


def semantics(section: Section) -> tuple[str, str]:
    """How cancelled requests and the TPOT of one-token answers count."""
    return (
        section.choice("cancelled", ("exclude", "miss"), "exclude"),
        section.choice("single_token_tpot", ("ignore", "miss"), "ignore"),
    )


def waivers(top: Section) -> list[Waiver]:
    """Failures somebody has signed for. An expired one loads: it just waives nothing any more."""
    node = top.node("waivers")
    if node is None:
        return []
    if not isinstance(node.value, list):
        top.problem(node.line, f"must be a list, got {node.shown}", key="waivers")
        return []
    keys = ("objective", "until", "owner", "reason")
    found = []
    for number, item in enumerate(node.value):
        section = Section(item, f"waivers[{number}]", top.problems, keys, keys)
        objective, owner, reason = section.text("objective"), section.text("owner"), section.text("reason")
        until = section.parsed_text("until", grammar.day)
        if objective and owner and reason and until:
            found.append(Waiver(objective, until, owner, reason, section.at_line("objective")))
    return found
