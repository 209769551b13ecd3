"""One policy tree (the file, or the file with a profile laid on it) into a Policy."""

from __future__ import annotations

from pathlib import PurePath

from ..model import HistoryRules, Policy
from . import _conditions, _objectives, _rules
from ._problems import Problems
from ._section import Section
from ._tables import TOP
from ._yaml import Node


def stem(path: str) -> str:
    """The name of a policy that states none."""
    return PurePath(path).stem.lstrip(".") or "policy"


def _history(top: Section) -> HistoryRules | None:
    if "history" not in top:
        return None
    rules = top["history"]
    return HistoryRules(rules["store"], rules["base_branch"], rules["last"]) if rules["store"] else None


def build(
    root: Node,
    origin: tuple[str, str],
    problems: Problems,
    base: Policy | None = None,
    profile: str | None = None,
) -> Policy | None:
    """The policy in `root`; None where anything is wrong, which is noted.

    `origin` is its path and the SHA-256 of its bytes, `base` the policy without the profile. Goodput's bounds
    are always its: a profile that turns a P99 into information must not change what a good request is.
    """
    top = Section(root, "", problems, TOP)
    slo = list(_objectives.slo(top["slo"]))
    bounds = base.goodput_bounds if base else tuple(_objectives.request_bounds(top, slo))
    workload_rules, workload = _conditions.workload(top["workload"])
    evidence_rules, evidence = _conditions.evidence(top["evidence"])
    sections = {
        "slo": slo,
        "goodput": _objectives.goodput(top["goodput"]),
        "limits": _objectives.limits(top["limits"]),
        "regression": _objectives.regression(top["regression"]),
        "workload": workload_rules,
        "evidence": evidence_rules,
    }
    objectives = _rules.with_required([objective for key in top for objective in sections.get(key, ())])
    policy = Policy(
        name=top["name"] or stem(origin[0]),
        path=origin[0],
        sha256=origin[1],
        objectives=objectives,
        goodput_bounds=bounds,
        profile=profile,
        default_profile=top["default_profile"],
        undecided=top["undecided"],
        workload=workload,
        tokenless=top["workload"]["output_tokens"] == "none",
        evidence=evidence,
        cancelled=top["semantics"]["cancelled"],
        single_token_tpot=top["semantics"]["single_token_tpot"],
        history=_history(top),
        waivers=_conditions.waivers(top),
        notes=_rules.notes(objectives, workload.target is not None),
    )
    if problems.found:  # half a policy must not be blamed for what it could not say
        return None
    for line, message, hint in _rules.broken(policy, base, top.line_of):
        problems.add(line, message, hint)
    return policy
