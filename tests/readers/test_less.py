"""Less is never greener: whatever is taken from a result or made worse, no objective moves to PASS.

Bases are every format of every reader, broken in every way that tests/readers/rules has, and the fixtures.
What is left out by name is what a format says in one place alone: `Form.holds`, printed in docs/rules.md.
"""

from __future__ import annotations

import copy
import csv
import gzip
import io
import json
import os
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings, strategies as st
from msgspec import Struct

from gate.errors import GateError
from gate.model import Policy, Verdict
from tests.conftest import FIXTURES
from tests.readers.rules import Form
from tests.readers.test_rules import EVERY, forms, judged, policy

EXAMPLES = int(os.environ.get("SLO_GATE_EXAMPLES", "100"))  # make test-deep asks for 10,000
JUDGES = ("ttft.p50", "tpot.p50", "e2e.p50", "error_rate", "goodput")
WIDE = Form(lambda _: (), JUDGES, {})


class Base(Struct, frozen=True):
    """A set of files that is not green."""

    reader: str
    form: str
    broken: str  # "" for a fixture, whose case is then the form


def bases() -> Iterator[Base]:
    for name, kind, form in EVERY:
        yield from (Base(name, kind, broken) for broken in form.breaks)
    for folder in sorted(FIXTURES.glob("*/*")):
        if folder.name not in ("empty", "truncated"):
            yield Base(folder.parent.name, folder.name, "")


BASES = list(bases())


def lay(base: Base, folder: Path) -> tuple[list[str], Policy, frozenset[str]]:
    """The files of a base in `folder`; what to pass, by which policy, and the keys that must stay."""
    shutil.rmtree(folder.parent, ignore_errors=True)
    folder.mkdir(parents=True)
    if not base.broken:
        shutil.copytree(FIXTURES / base.reader / base.form, folder, dirs_exist_ok=True)
        name = base.reader.replace("-", "_")
        name = "llmd" if name == "llm_d" else name
        holds = frozenset().union(*(form.holds for form in _forms(name).values()))
        return ["."], policy(folder, WIDE), holds
    form = forms(base.reader)[base.form]
    names = list(form.write(folder))
    healthy = {path.name: values(path) for path in folder.rglob("*") if path.is_file()}
    form.breaks[base.broken](folder)
    changed = set(form.holds)
    for path in folder.rglob("*"):
        if path.is_file():
            before, after = healthy.get(path.name, {}), values(path)
            changed |= {key for key in after if not after[key] <= before.get(key, set())}
    return names, policy(folder, form), frozenset(changed)


def _forms(name: str) -> dict[str, Form]:
    try:
        return forms(name)
    except ModuleNotFoundError:
        return {}


def values(path: Path) -> dict[str, set[str]]:
    """Every key of a file with the values it has, as texts."""
    found: dict[str, set[str]] = {}

    def look(value: Any) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                found.setdefault(str(key), set()).add(json.dumps(inner, default=str, sort_keys=True))
                look(inner)
        elif isinstance(value, list):
            for inner in value:
                look(inner)

    look(content(path))
    return found


# ---- what may be taken away ---------------------------------------------------------------


def content(path: Path) -> Any:
    """A file as JSON has it: objects, rows, or lines of a text; None where it is none of these."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    suffix = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    try:
        text = data.decode("utf-8-sig")
        if suffix == ".json":
            return json.loads(text)
        if suffix in (".jsonl", ".ndjson"):
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        if suffix == ".csv" and text.count("\n") > 1:
            return list(csv.DictReader(io.StringIO(text)))
    except (ValueError, csv.Error):
        return None
    return None


def put(path: Path, changed: Any) -> None:
    suffix = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    if suffix == ".json":
        text = json.dumps(changed)
    elif suffix == ".csv":
        out = io.StringIO()
        table = csv.DictWriter(out, list(changed[0]) if changed else ["empty"], extrasaction="ignore")
        table.writeheader()
        table.writerows(changed)
        text = out.getvalue()
    else:
        text = "".join(json.dumps(row) + "\n" for row in changed)
    path.unlink()  # it may be mapped
    path.write_bytes(gzip.compress(text.encode(), 1) if path.suffix == ".gz" else text.encode())


Cell = tuple[Any, Any]  # a container and its key


def cells(value: Any, kept: frozenset[str], depth: int = 0) -> Iterator[list[Cell]]:
    """What may be taken: a key of one object, or the same key of all objects of a list."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in kept:
                yield [(value, key)]
                if depth < 4:
                    yield from cells(inner, kept, depth + 1)
    elif isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
        for key in value[0]:
            if key not in kept:
                yield [(row, key) for row in value if key in row]
                yield [(value[0], key)]
        if depth < 4:
            yield from cells(value[0], kept, depth + 1)


def remove(cell: Cell) -> None:
    del cell[0][cell[1]]


def null(cell: Cell) -> None:
    cell[0][cell[1]] = None


def zero(cell: Cell) -> None:
    if isinstance(cell[0][cell[1]], (int, float)) and not isinstance(cell[0][cell[1]], bool):
        cell[0][cell[1]] = 0


def shorten(cell: Cell) -> None:
    if isinstance(cell[0][cell[1]], list):
        cell[0][cell[1]] = cell[0][cell[1]][:-1]


OPERATIONS: tuple[Callable[[Cell], None], ...] = (remove, null, zero, shorten)


def worsen(data: st.DataObject, folder: Path, kept: frozenset[str]) -> str:
    """Take something from the files, or make it worse; what was done."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "ORIGIN.md")
    if len(files) > 1 and data.draw(st.integers(0, 5)) == 0:
        gone = data.draw(st.sampled_from(files))
        gone.unlink()
        return f"{gone.name} is gone"
    path = data.draw(st.sampled_from(files))
    whole = copy.deepcopy(content(path))
    found = list(cells(whole, kept))
    if not found:
        return ""
    chosen = data.draw(st.sampled_from(found))
    operation = data.draw(st.sampled_from(OPERATIONS))
    for cell in chosen:
        operation(cell)
    put(path, whole)
    return f"{path.name}: {operation.__name__} {chosen[0][1]} ({len(chosen)} times)"


# ---- the property -------------------------------------------------------------------------


def verdicts(folder: Path, names: list[str], rules: Policy) -> dict[str, Verdict]:
    """By objective; empty where the files are refused."""
    left = [name for name in names if name != "." and any(folder.glob(name))] or ["."]
    try:
        return {check.id: check.verdict for check in judged(folder, left, rules).checks}
    except GateError:
        return {}


@cache
def open_objectives(base: Base, root: Path) -> frozenset[str]:
    """The objectives that a base does not pass."""
    folder = root / f"base-{BASES.index(base)}" / "r"
    names, rules, _ = lay(base, folder)
    found = verdicts(folder, names, rules)
    asked = {objective.id for objective in rules.objectives}
    return frozenset(asked - {name for name, verdict in found.items() if verdict is Verdict.PASS})


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("less")


@given(data=st.data())
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=EXAMPLES <= 100,
    suppress_health_check=list(HealthCheck),
    database=None,
)
def test_less_is_never_greener(root: Path, data: st.DataObject) -> None:
    base = data.draw(st.sampled_from(BASES))
    unmet = open_objectives(base, root)
    folder = root / "now" / "r"
    names, rules, kept = lay(base, folder)
    done = [worsen(data, folder, kept) for _ in range(data.draw(st.integers(1, 2)))]
    note(f"{base.reader} {base.form} {base.broken or 'fixture'}: {'; '.join(done)}")
    passed = {name for name, verdict in verdicts(folder, names, rules).items() if verdict is Verdict.PASS}
    assert not passed & unmet, f"{base}: {done} made {sorted(passed & unmet)} green"
