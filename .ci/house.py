"""The shape of the house, listed: sizes of modules and functions, dead code, copies of six lines and more.

`make lint` runs it. Exits 1 where a module or a function is larger than its limit, where code is used by
nothing, or where lines stand twice: mend it, or say here why not.
"""

from __future__ import annotations

import ast
import io
import sys
from contextlib import redirect_stdout, suppress
from pathlib import Path

GATE = Path(__file__).resolve().parent.parent / "gate"
MODULE_LINES = 520
FUNCTION_LINES = 75
LISTED = 8
USED = {  # by what vulture does not read
    "bound_table": "report.md.j2",
    "detail": "report.md.j2",
    "decode_set": "readers/__init__.py asks for it by name",
    **dict.fromkeys(
        (f"history_{name}" for name in ("add", "list", "show", "accept", "prune", "export")), "click"
    ),
    "policy_diff": "click",
    "policy_presets": "click",
    "policy_show": "click",
    "policy_validate": "click",
    "short_help": "click",
}


def functions(path: Path) -> list[tuple[int, str]]:
    """(lines, place) of every function."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [
        (
            (node.end_lineno or node.lineno) - node.lineno + 1,
            f"{path.relative_to(GATE.parent)}:{node.lineno} {node.name}",
        )
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]


def unused() -> list[str]:
    """What nothing in gate/ names; variables are left out, because fields of Structs are read by name."""
    from vulture import Vulture

    looked = Vulture()
    looked.scavenge([str(GATE)])
    return [
        f"{one.filename.relative_to(GATE.parent)}:{one.first_lineno} {one.name}"
        for one in looked.get_unused_code(min_confidence=60)
        if one.typ != "variable" and one.name not in USED
    ]


def copies() -> str:
    """Pairs of places that share six lines or more, as pylint's symilar tells them."""
    from pylint.checkers.symilar import Run

    told = io.StringIO()
    options = ["--duplicates", "6", "--ignore-comments", "--ignore-docstrings", "--ignore-imports"]
    with redirect_stdout(told), suppress(SystemExit):
        Run([*options, *map(str, sorted(GATE.rglob("*.py")))])
    return told.getvalue().strip()


def main() -> int:
    """Print the lists; 1 where a limit is passed."""
    modules = sorted(
        ((len(path.read_text("utf-8").splitlines()), path) for path in GATE.rglob("*.py")), reverse=True
    )
    rooms: dict[str, int] = {}
    for lines, path in modules:
        room = path.relative_to(GATE).parts[0].removesuffix(".py")
        rooms[room] = rooms.get(room, 0) + lines
    print(f"gate/: {sum(rooms.values()):,} lines in {len(modules)} modules")
    for room, lines in sorted(rooms.items(), key=lambda one: -one[1]):
        print(f"  {lines:6,}  {room}")
    print("largest modules:")
    for lines, path in modules[:LISTED]:
        print(f"  {lines:6}  {path.relative_to(GATE.parent)}")
    longest = sorted((one for _, path in modules for one in functions(path)), reverse=True)
    print("longest functions:")
    for lines, place in longest[:LISTED]:
        print(f"  {lines:6}  {place}")
    dead, twice = unused(), copies()
    print("used by nothing:", *dead or ["  -"], sep="\n  ")
    print("copies of six lines and more:", twice, sep="\n  ")
    large = modules[0][0] > MODULE_LINES or longest[0][0] > FUNCTION_LINES
    return int(large or bool(dead) or "duplicates=0 " not in twice)


if __name__ == "__main__":
    sys.exit(main())
