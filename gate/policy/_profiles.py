"""Profiles: what they may change, and the policy that results.

A profile may change the burden of proof, evidence, load, levels and goodput.min. It may not touch a
bound, so that one policy means one promise whatever profile judges it.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from . import _grammar as grammar
from ._problems import Problems, suggest
from ._section import misplaced
from ._tables import LOADS
from ._yaml import Node, walk

FREE = ("undecided", "goodput", "evidence", "workload.load")  # what may change as a whole, but for FIXED
FIXED = (
    *("version", "name", "semantics", "waivers", "profiles", "default_profile", "history"),
    *("goodput.request", "regression.required"),
)
NO_PROFILE = "none"  # what --profile calls the policy without a profile
REMOVABLE = re.compile(r"evidence\.[^.]+|workload\.load\.sweep")
MOST = 20
_MAY = ("undecided", "workload", "slo", "goodput", "limits", "regression", "evidence")
_RULES = {"slo": 2, "regression": 2, "limits": 1, "workload": 1}  # levels of keys above a rule
_HINT = "a profile may change undecided, evidence, workload.load, goodput.min and the level of a rule"


def alone(root: Node) -> Node:
    """The policy tree without its profiles."""
    entries = {key: n for key, n in (root.entries or {}).items() if key != "profiles" or n.value is None}
    return replace(root, value=entries)


def merged(root: Node, problems: Problems) -> dict[str, Node]:
    """The policy tree of every profile, by name; what a profile may not do is noted with its line."""
    profiles = (root.entries or {}).get("profiles")
    if profiles is None or profiles.value is None:
        return {}
    if not profiles.entries or len(profiles.entries) > MOST:
        message = f"profiles must be a mapping of 1 to {MOST} names, got {profiles.shown}"
        problems.add(profiles.line, message, "name a profile and what it changes")
        return {}
    base, trees = alone(root), {}
    for name, profile in profiles.entries.items():
        before = len(problems.found)
        _check(name, profile, base, problems)
        if len(problems.found) == before:
            trees[name] = _merge(base, profile, "")
    return trees


def _check(name: str, profile: Node, base: Node, problems: Problems) -> None:
    at = f"profiles.{name}"
    if not re.fullmatch(grammar.PROFILE, name):
        hint = "use up to 50 letters, digits, dots, dashes and underscores"
        problems.add(profile.line, f'"{name}" is not a name for a profile', hint)
    if name == NO_PROFILE:
        problems.add(
            profile.line, f'"{NO_PROFILE}" stands for the policy without a profile', "choose another name"
        )
    for path, node in walk(profile):
        if node.entries == {} or (node.value is None and not REMOVABLE.fullmatch(path)):
            where = f"{at}.{path}" if path else at
            problems.add(node.line, f"{where} is empty", "fill it in or remove it")
    if profile.entries is None:
        if profile.value is not None:
            problems.add(profile.line, f"{at} must be a mapping of keys, got {profile.shown}")
        return
    there = base.entries or {}
    for key, node in profile.entries.items():
        if key in FIXED:
            problems.add(node.line, f"a profile may not change {key}", _HINT)
        elif key not in _MAY:
            problems.add(node.line, f'unknown key "{key}" in {at}', misplaced(key) or suggest(key, _MAY))
        elif key == "goodput":
            if key not in there:
                problems.add(node.line, "a profile may not add goodput to a policy without it", _HINT)
            if "request" in (node.entries or {}):
                line = (node.entries or {})["request"].line
                problems.add(line, "a profile may not change goodput.request", _HINT)
        elif key in _RULES:
            _check_rules(node, there.get(key), key, _RULES[key], problems)


def _check_rules(part: Node, base: Node | None, at: str, depth: int, problems: Problems) -> None:
    """Only levels, and only of rules that the policy has; workload.load may change as a whole."""
    if part.entries is None:
        problems.add(part.line, f"{at} must be a mapping of keys, got {part.shown}")
        return
    for key, node in part.entries.items():
        path = f"{at}.{key}"
        below = (base.entries or {}).get(key) if base else None
        if path in FREE:
            continue
        if path in FIXED:
            problems.add(node.line, f"a profile may not change {path}", _HINT)
        elif below is None:
            problems.add(node.line, f"the policy has no {path} that a profile could change", _HINT)
        elif path == "workload.output_tokens" and below.entries is None:
            problems.add(node.line, f"{path} is {below.value}, which has no level to change", _HINT)
        elif depth > 1:
            _check_rules(node, below, path, depth - 1, problems)
        elif node.entries is None or set(node.entries) - {"level"}:
            message = f"a profile may not change {path}, only its level"
            problems.add(node.line, message, "write {level: ...} under it")


def _merge(base: Node | None, over: Node, at: str) -> Node:
    """`over` laid on `base`, key by key. Null removes a key; naming one kind of load replaces another."""
    if over.entries is None:
        return over
    if base is not None and base.entries is None and set(over.entries) == {"level"}:
        return _with_level(base, over.entries["level"], "max" if at.startswith("slo.") else "is")
    entries = dict((base.entries if base else None) or {})
    if at == "workload.load" and any(kind in over.entries for kind in LOADS):
        entries = {key: node for key, node in entries.items() if key not in LOADS}
    for key, node in over.entries.items():
        result = _merge(entries.get(key), node, f"{at}.{key}" if at else key)
        if result.value is None or result.entries == {}:
            entries.pop(key, None)
        else:
            entries[key] = result
    return Node(entries, base.line if base else over.line)


def _with_level(rule: Node, level: Node, short: str) -> Node:
    """A rule in any of its spellings, with another level."""
    if isinstance(rule.value, list):
        return replace(rule, value=[_with_level(item, level, short) for item in rule.value])
    entries = {short: rule} if rule.entries is None else rule.entries
    return replace(rule, value={**entries, "level": level})
