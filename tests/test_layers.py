"""Imports run one way (docs/development.md); a module that looks uphill fails here."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from gate.emit import EMITTERS
from gate.readers import READERS
from tests.conftest import ROOT

GATE = ROOT / "gate"
MODULES = sorted(GATE.rglob("*.py"))

# room -> the rooms of gate it may import
ALLOWED = {
    "errors": set(),
    "units": set(),
    "remote": {"errors"},
    "disk": {"errors", "remote"},
    "stats": set(),
    "_schemas": set(),
    "model": {"errors", "units"},
    "canonical": {"errors", "model"},
    "policy": {"disk", "errors", "units", "model", "presets"},
    "presets": set(),
    "readers": {"canonical", "disk", "errors", "units", "model", "remote"},
    "evaluate": {"errors", "units", "model", "stats"},
    "advise": {"errors", "units", "model", "stats", "evaluate"},
    "synth": {"errors", "model"},
    "emit": {"units", "model"},
    # emit only for making foreign text inert in Markdown: one place does that
    "recipe": {"errors", "units", "model", "policy", "emit", "advise"},
    "saved": {"errors", "model", "_schemas"},
    "history": {"disk", "errors", "units", "model", "remote", "saved", "readers"},
    "publish": {"errors", "units"},
    "live": {"errors", "readers"},
    "bench": {"disk", "errors", "model", "readers"},
    "engine": {"disk", "errors", "readers", "remote"},
    "cli": {
        "engine",
        "canonical",
        "disk",
        "errors",
        "units",
        "model",
        "policy",
        "readers",
        "evaluate",
        "advise",
        "synth",
        "emit",
        "_schemas",
        "bench",
        "live",
        "history",
        "publish",
        "recipe",
        "remote",
        "saved",
        "__init__",
    },
    "__main__": {"cli"},
    "__init__": set(),
}


# sub-room of evaluate -> the sub-rooms it may import; prepare, checks and loads stand below all of them
BELOW = {
    "judge": set(),
    "sound": {"judge"},
    "compare": {"judge"},
    "explain": {"judge", "compare"},
    "__init__": {"judge", "sound", "compare", "explain"},
}


def room(path: Path) -> str:
    return path.relative_to(GATE).parts[0].removesuffix(".py")


def imported(path: Path, text: str | None = None) -> set[tuple[str, ...]]:
    """Every module of gate that `path` imports, as parts below gate, wherever the import stands."""
    package = path.relative_to(GATE).parts[:-1]
    found: set[tuple[str, ...]] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8") if text is None else text)):
        if isinstance(node, ast.Import):
            found |= {tuple(a.name.split(".")[1:]) for a in node.names if a.name.split(".")[0] == "gate"}
        elif isinstance(node, ast.ImportFrom) and (base := origin(node, package)) is not None:
            found |= {(*base, a.name) for a in node.names} if not base or is_package(base) else {base}
    return found


def origin(node: ast.ImportFrom, package: tuple[str, ...]) -> tuple[str, ...] | None:
    """Where a from-import of gate imports from, as parts below gate; None of another package."""
    name = tuple(node.module.split(".")) if node.module else ()
    if node.level:
        return package[: len(package) - node.level + 1] + name
    return name[1:] if name[:1] == ("gate",) else None


def is_package(parts: tuple[str, ...]) -> bool:
    return GATE.joinpath(*parts).is_dir()


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(GATE)))
def test_a_module_imports_only_rooms_below_it(path: Path) -> None:
    mine = room(path)
    uphill = {parts[0] for parts in imported(path) if parts and parts[0] != mine} - {"__version__"}
    assert uphill <= ALLOWED[mine], f"{path.name} looks uphill: {sorted(uphill - ALLOWED[mine])}"


@pytest.mark.parametrize(
    "path", sorted((GATE / "evaluate").rglob("*.py")), ids=lambda p: str(p.relative_to(GATE))
)
def test_the_rooms_within_evaluate_import_one_way(path: Path) -> None:
    mine = path.relative_to(GATE / "evaluate").parts[0].removesuffix(".py")
    others = {parts[1] for parts in imported(path) if parts[0] == "evaluate"} & BELOW.keys()
    assert others - {mine} <= BELOW.get(mine, set()), f"{path.name} looks uphill: {sorted(others)}"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(GATE)))
def test_nothing_with_an_underscore_is_used_outside_its_folder(path: Path) -> None:
    assert not foreign(path), f"{path.relative_to(GATE)} uses what is private to another room"


def foreign(path: Path, text: str | None = None) -> list[str]:
    """What `path` uses with a leading underscore that stands in a folder which `path` is not in."""
    tree = ast.parse(path.read_text(encoding="utf-8") if text is None else text)
    mine, used, bound = path.relative_to(GATE).parts[:-1], [], {}
    for node in ast.walk(tree):
        for base, name, here in names(node, mine):
            used.append((*base, name))
            bound[here] = (*base, name)
    used += [
        (*bound[node.value.id], node.attr)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in bound
    ]
    return [".".join(it) for it in used if not all(may_use(mine, it, at) for at in range(len(it)))]


def may_use(mine: tuple[str, ...], parts: tuple[str, ...], at: int) -> bool:
    """Whether part `at` is public, or private to a folder that `mine` is in."""
    folder = parts[:at] if is_package(parts[:at]) else parts[: at - 1]  # of a name: its module's folder
    return not parts[at].startswith("_") or parts[at].startswith("__") or mine[: len(folder)] == folder


def names(node: ast.AST, package: tuple[str, ...]) -> list[tuple[tuple[str, ...], str, str]]:
    """What an import of gate brings: where from, its name there, its name here."""
    if isinstance(node, ast.Import):
        whole = [(tuple(alias.name.split(".")), alias.asname or alias.name) for alias in node.names]
        return [(parts[1:-1], parts[-1], here) for parts, here in whole if parts[0] == "gate" and parts[1:]]
    base = origin(node, package) if isinstance(node, ast.ImportFrom) else None
    return [] if base is None else [(base, alias.name, alias.asname or alias.name) for alias in node.names]


@pytest.mark.parametrize("folder", ["readers", "emit"])
def test_readers_and_emitters_do_not_import_each_other(folder: str) -> None:
    seen = set()
    readers = {reader.__name__.rpartition(".")[2] for reader in READERS}
    each = readers if folder == "readers" else EMITTERS.keys() - {"json", "html"} | {"json_", "page"}
    for path in (GATE / folder).rglob("*.py"):
        mine = path.relative_to(GATE / folder).parts[0].removesuffix(".py")
        if mine.startswith("_") or (folder == "readers" and mine not in readers):
            continue  # what the packages of readers share stands beside them
        seen.add(mine)
        for parts in imported(path):
            other = parts[1] if parts[:1] == (folder,) and len(parts) > 1 else "_"
            assert other not in each or other == mine, f"{path.relative_to(GATE)} imports {other}"
    assert seen == readers if folder == "readers" else seen >= each


def test_only_the_command_line_prints_and_exits() -> None:
    for path in MODULES:
        if room(path) in ("cli", "__main__"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in ("print", "sys.exit", "exit", "click.echo"), (
                    f"{path.name} calls {called}"
                )


def test_only_publishing_live_metrics_the_witness_and_remote_files_use_the_network() -> None:
    network = {"urllib3", "urllib.request", "http", "socket", "ssl", "requests", "httpx", "aiohttp", "fsspec"}
    users = set()
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            if any(name == one or name.startswith(f"{one}.") for name in names for one in network):
                users.add(path.relative_to(GATE).as_posix().split("/")[0] + "/" + path.stem)
    users = {name for name in users if not name.startswith("publish/")}
    assert users == {"bench/witness", "live/client", "remote.py/remote"}


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("from ..cli import run", ("cli",)),
        ("from .. import policy", ("policy",)),
        ("from gate.evaluate import evaluate", ("evaluate",)),
        ("def f():\n    import gate.publish", ("publish",)),
        ("from . import vllm", ("readers", "vllm")),
    ],
)
def test_every_way_to_import_is_seen(text: str, seen: tuple[str, ...]) -> None:
    assert any(parts[: len(seen)] == seen for parts in imported(GATE / "readers" / "probe.py", text))


@pytest.mark.parametrize(
    ("text", "private"),
    [
        ("from ..emit._cells import Table", ["emit._cells.Table"]),
        ("from ..emit.format import _cell", ["emit.format._cell"]),
        ("from ..emit import format as f\nf._cell()", ["emit.format._cell"]),
        ("from gate.evaluate.judge import _parts", ["evaluate.judge._parts"]),
        ("import gate.emit._cells", ["emit._cells"]),
        ("from . import _shared\n_shared._of()", []),
        ("from .._schemas import load", []),
        ("from .. import __version__", []),
    ],
)
def test_every_use_of_a_private_name_is_seen(text: str, private: list[str]) -> None:
    assert foreign(GATE / "cli" / "probe.py", text) == private


PRONOUNS = {"one", "said", "found", "told", "it", "this", "that", "what", "whole", "other", "things", "stuff"}


def test_what_other_rooms_may_use_is_called_by_a_noun_or_a_verb() -> None:
    """A name such as `told` says nothing where it is imported; within a function it may stand."""
    public = [
        (path.relative_to(GATE).as_posix(), node.name)
        for path in MODULES
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_")
    ]
    assert len(public) > 800
    # Told is what a reader hands on: the name of the noun itself.
    assert [pair for pair in public if pair[1].lower() in PRONOUNS] == [("readers/told.py", "Told")]
