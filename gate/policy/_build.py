"""One policy tree (the file, or the file with a profile laid on it) into a Policy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

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
    "evidence": ("confidence", "decide", "runs", "requests_per_run", "tool", "prompts", "warmup"),
    "semantics": ("cancelled", "single_token_tpot"),
    "goodput": ("min", "request", "level"),
}


@dataclass(frozen=True, slots=True)
class Source:
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
    sections = {key: s for key in _KEYS if (s := top.child(key, _KEYS[key], _required(key)))}
    found: dict[str, list[Objective]] = {}
    bounds: list[RequestBound] = []
    work, proof = Workload(), EvidenceRules()
    cancelled, single_token = "exclude", "ignore"
    if "slo" in sections:
        found["slo"] = _objectives.slo(sections["slo"])
    if "goodput" in sections:
        found["goodput"], bounds = _objectives.goodput(sections["goodput"], found.get("slo", []))
        bounds = list(base.goodput_bounds) if base else bounds
        _rules.check_goodput(bounds, top.at_line("goodput"), problems)
    if "limits" in sections:
        found["limits"] = _objectives.limits(sections["limits"])
    if "regression" in sections:
        found["regression"] = _objectives.regression(sections["regression"])
    if "workload" in sections:
        found["workload"], work = _conditions.workload(sections["workload"])
    if "evidence" in sections:
        found["evidence"], proof = _conditions.evidence(sections["evidence"])
    if "semantics" in sections:
        cancelled, single_token = _conditions.semantics(sections["semantics"])
    objectives = [objective for key in top for objective in found.get(key, [])]
    waivers = _conditions.waivers(top)
    _rules.check(objectives, root.line, problems)
    known = [o.id for o in (*objectives, *(base.objectives if base else ()))]
    _rules.check_waivers(waivers, known, problems)
    return Policy(
        name=top.text("name", 100) or source.stem,
        path=source.path,
        sha256=source.sha256,
        objectives=tuple(objectives),
        goodput_bounds=tuple(bounds),
        profile=profile,
        undecided=top.choice("undecided", ("block", "lean", "allow"), "block"),
        workload=work,
        evidence=proof,
        cancelled=cancelled,
        single_token_tpot=single_token,
        waivers=tuple(waivers),
        notes=_rules.notes(objectives, work.target is not None),
    )


def _required(key: str) -> tuple[str, ...]:
    return ("min",) if key == "goodput" else ()


def _version(top: Section) -> None:
    node = top.node("version")
    if node is not None and (isinstance(node.value, bool) or node.value != 1):
        top.problem(node.line, f"must be 1, got {node.shown}", "this slo-gate reads version 1", "version")
