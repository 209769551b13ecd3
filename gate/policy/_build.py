"""One policy tree (the file, or the file with a profile laid on it) into a Policy."""

from __future__ import annotations

from pathlib import PurePath

from msgspec import Struct, field

from ..model import METRICS, EvidenceRules, Objective, Policy, RequestBound, Workload
from . import _conditions, _objectives, _rules
from ._problems import Problems
from ._section import Section
from ._yaml import Node

TOP = (
    "version",
    "name",
    "undecided",
    "workload",
    "slo",
    "goodput",
    "limits",
    "regression",
    "evidence",
    "semantics",
    "waivers",
    "profiles",
)
_KEYS = {
    "workload": ("model", "hardware", "interaction", "load", "input_tokens", "output_tokens"),
    "slo": METRICS,
    "limits": ("error_rate", "headroom", "throughput"),
    "regression": (*METRICS, "required"),
    "evidence": (
        "confidence",
        "decide",
        "runs",
        "requests_per_run",
        "tool",
        "prompts",
        "warmup",
        "attempted",
    ),
    "semantics": ("cancelled", "single_token_tpot"),
    "goodput": ("min", "request", "level"),
}


class Source(Struct, frozen=True):
    """Where a policy came from."""

    path: str
    sha256: str

    @property
    def stem(self) -> str:
        """The name of a policy that states none."""
        return PurePath(self.path).stem.lstrip(".") or "policy"


def build(
    root: Node, source: Source, problems: Problems, base: Policy | None = None, profile: str | None = None
) -> Policy:
    """The policy in `root`; problems are noted and the result is only good when there are none.

    `base` is the policy without the profile. Goodput's bounds are always its: a profile that turns
    a P99 into information must not change what a good request is.
    """
    top = Section(root, "", problems, TOP, ("version",))
    _version(top)
    parts = _parts(top)
    bounds = base.goodput_bounds if base else tuple(parts.bounds)
    objectives = tuple(objective for key in top for objective in parts.objectives.get(key, ()))
    waivers = _conditions.waivers(top)
    name = top.text("name", 100) or source.stem
    undecided = top.choice("undecided", ("block", "lean", "allow"), "block")
    if not problems.found:  # else half a policy would be blamed for what it could not say
        _rules.check(objectives, root.line, problems)
        if "goodput" in top:
            _rules.check_goodput(bounds, top.at_line("goodput"), problems)
        if parts.tokenless:
            _rules.check_tokenless(objectives, bounds, problems)
        known = [o.id for o in (*objectives, *(base.objectives if base else ()))]
        _rules.check_waivers(waivers, known, problems)
    return Policy(
        name=name,
        path=source.path,
        sha256=source.sha256,
        objectives=objectives,
        goodput_bounds=bounds,
        profile=profile,
        undecided=undecided,
        workload=parts.workload,
        tokenless=parts.tokenless,
        evidence=parts.evidence,
        cancelled=parts.cancelled,
        single_token_tpot=parts.single_token_tpot,
        waivers=tuple(waivers),
        notes=_rules.notes(objectives, parts.workload.target is not None),
    )


class _Parts(Struct):
    """What the sections hold."""

    objectives: dict[str, list[Objective]] = field(default_factory=dict)  # by section
    bounds: list[RequestBound] = field(default_factory=list)
    workload: Workload = field(default_factory=Workload)
    tokenless: bool = False
    evidence: EvidenceRules = field(default_factory=EvidenceRules)
    cancelled: str = "exclude"
    single_token_tpot: str = "ignore"


def _parts(top: Section) -> _Parts:
    parts = _Parts()
    found = parts.objectives
    if slo := _section(top, "slo"):
        found["slo"] = _objectives.slo(slo)
    if goodput := _section(top, "goodput", ("min",)):
        found["goodput"], parts.bounds = _objectives.goodput(goodput, found.get("slo", []))
    if limits := _section(top, "limits"):
        found["limits"] = _objectives.limits(limits)
    if regression := _section(top, "regression"):
        found["regression"] = _objectives.regression(regression)
    if workload := _section(top, "workload"):
        found["workload"], parts.workload = _conditions.workload(workload)
        parts.tokenless = _conditions.tokenless(workload)
    if evidence := _section(top, "evidence"):
        found["evidence"], parts.evidence = _conditions.evidence(evidence)
    if semantics := _section(top, "semantics"):
        parts.cancelled, parts.single_token_tpot = _conditions.semantics(semantics)
    return parts


def _section(top: Section, key: str, required: tuple[str, ...] = ()) -> Section | None:
    return top.child(key, _KEYS[key], required)


def _version(top: Section) -> None:
    node = top.node("version")
    if node is not None and (isinstance(node.value, bool) or node.value != 1):
        top.problem(node.line, f"must be 1, got {node.shown}", "this slo-gate reads version 1", "version")
