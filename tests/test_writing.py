"""docs/writing.md, held: what people read in the strings of gate/ has none of the patterns it avoids."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import ROOT

AVOIDED = {
    "old verb": r"\b(mend|mends|mended|stands? twice|told of|settles? it|would settle|wanted)\b",
    "hides its tail": r"hides its tail",
    "kin": r"\band kin\b",
    "hedge on hedge": r"[Aa]t least about",
    "statistics": r"\b(independent requests|deff|n_eff)\b",
    "no verb": r"\banyway\b",
    "percent with a gap": r"\d %(?!\w)",
    "tone": r"\b(unfortunately|probably|suspicious|obviously|simply|just)\b",
    "word": r"\b(violat\w+|threshold|uncertain|errored)\b",
    "shorthand": r" x\{",
}
# What is written otherwise on purpose.
ALLOWED = {
    ("gate/readers/guidellm/run.py", "word"),  # errored: GuideLLM's own word
}


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """Texts for people in a module: strings of several words that are no docstring."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in docs else None
        if isinstance(text, str) and len(text.split()) >= 2 and not text.startswith(("(?", "^")):
            yield node.lineno, text


def found() -> list[tuple[str, str, str]]:
    """(file, pattern, text) of every string that has an avoided pattern."""
    said = []
    for path in sorted((ROOT / "gate").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        for _, text in strings(path):
            said += [(name, kind, text) for kind, pattern in AVOIDED.items() if re.search(pattern, text)]
    return said


def test_no_string_has_a_pattern_that_is_avoided() -> None:
    new = [one for one in found() if one[:2] not in ALLOWED]
    assert not new, "docs/writing.md says how: " + "; ".join(map(str, new))


def test_the_patterns_are_those_of_the_page() -> None:
    page = (ROOT / "docs" / "writing.md").read_text(encoding="utf-8")
    for word in (
        "mend",
        "stands twice",
        "told of",
        "settle",
        "hides its tail",
        "kin",
        "At least about",
        "probably",
    ):
        assert word in page
