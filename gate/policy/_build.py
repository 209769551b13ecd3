"""One policy tree (the file, or the file with a profile laid on it) into a Policy."""

from __future__ import annotations

from pathlib import PurePath

from msgspec import Struct

from ..model import Policy
from . import _conditions, _objectives, _rules
from ._problems import Problems
from ._section import Section
from ._tables import TOP
from ._yaml import Node


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
) -> Policy | None:
    """The policy in `root`; None where anything is wrong, which is noted.

    `base` is the policy without the profile. Goodput's bounds are always its: a profile that turns
    a P99 into information must not change what a good request is.
    """
    top = Section(root, "", problems, TOP)
    slo = list(_objectives.slo(top["slo"]))
    bounds = base.goodput_bounds if base else ()
    if base is None and "goodput" in top:
        bounds = tuple(_objectives.request_bounds(top["goodput"], slo))
    workload_rules, workload = _conditions.workload(top["workload"])
    evidence_rules, evidence = _conditions.evidence(top["evidence"])
    by_section = {
        "slo": slo,
        "goodput": _objectives.goodput(top["goodput"]),
        "limits": _objectives.limits(top["limits"]),
        "regression": _objectives.regression(top["regression"]),
        "workload": workload_rules,
        "evidence": evidence_rules,
    }
    objectives = tuple(objective for key in top for objective in by_section.get(key, ()))
    waivers = _conditions.waivers(top)
    tokenless = top["workload"]["output_tokens"] == "none"
    if problems.found:  # else half a policy would be blamed for what it could not say
        return None
    _rules.check(objectives, root.line, problems)
    if "goodput" in top:
        _rules.check_goodput(bounds, top.line_of("goodput"), problems)
    if tokenless:
        _rules.check_tokenless(objectives, bounds, problems)
    known = [o.id for o in (*objectives, *(base.objectives if base else ()))]
    _rules.check_waivers(waivers, known, problems)
    return Policy(
        name=top["name"] or source.stem,
        path=source.path,
        sha256=source.sha256,
        objectives=objectives,
        goodput_bounds=bounds,
        profile=profile,
        undecided=top["undecided"],
        workload=workload,
        tokenless=tokenless,
        evidence=evidence,
        cancelled=top["semantics"]["cancelled"],
        single_token_tpot=top["semantics"]["single_token_tpot"],
        waivers=waivers,
        notes=_rules.notes(objectives, workload.target is not None),
    )
