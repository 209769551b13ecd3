"""Less is never greener: whatever is taken from a result or made worse, no objective moves to PASS.

Bases are every format of every reader, broken in every way that tests/readers/rules has, and the fixtures.
From each one or two things are taken: a file, a row, a key, a cell, a line, the end of a list; or a number
becomes 0 or null. Left alone is

- what the break itself wrote, and what a format says in one place alone (`Form.alone`, in docs/rules.md);
- a contradiction: it is settled when one of its two sides is taken away. Of a base that is refused only the
  objectives count that its rule is about, which is none for the rules that are about contradictions; and an
  objective that passes but for two statements that disagree (AGREE) does not count.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from datetime import date
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, note, settings, strategies as st
from msgspec import Struct
from msgspec.structs import replace

from gate import readers
from gate.errors import GateError
from gate.evaluate import evaluate
from gate.model import Policy, Verdict, Why
from tests.conftest import FIXTURES
from tests.readers import worsening
from tests.readers.rules import RULES, Alone, Form
from tests.readers.test_rules import EVERY, NAMES, forms, policy

EXAMPLES = int(os.environ.get("SLO_GATE_EXAMPLES", "100"))  # make test-deep asks for 10,000
JUDGES = ("ttft.p50", "tpot.p50", "e2e.p50", "error_rate", "goodput")
WIDE = Form(lambda _: (), JUDGES, {})
AGREE = (Why.TOKENS_DISAGREE, Why.CUT_ROWS)  # doubts about two statements of the same tokens


class Base(Struct, frozen=True):
    """A set of files that is not green."""

    reader: str  # the package
    form: str
    broken: str  # "" for a fixture, whose case is then the form

    @property
    def alone(self) -> tuple[Alone, ...]:
        """What says in one place alone that something went wrong here."""
        every = forms(self.reader)
        some = [every[self.form]] if self.broken else list(every.values())
        of = {self.form, self.broken, self.broken.partition(":")[0]}
        return tuple(one for form in some for one in form.alone if not one.of or not of.isdisjoint(one.of))


def bases() -> Iterator[Base]:
    for name, kind, form in EVERY:
        yield from (Base(name, kind, broken) for broken in form.breaks)
    for name in NAMES:
        called = readers.READERS[NAMES.index(name)].NAME
        for folder in sorted((FIXTURES / called).iterdir()):
            if folder.name not in ("empty", "truncated"):
                yield Base(name, folder.name, "")


BASES = list(bases())


class Laid(Struct, frozen=True):
    """The files of a base."""

    names: tuple[str, ...]  # what to pass
    rules: Policy
    kept: frozenset[str]  # keys and lines that must stay
    data: dict[str, bytes]  # by path in the folder

    def write(self, folder: Path) -> None:
        shutil.rmtree(folder.parent, ignore_errors=True)
        for name, data in self.data.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


def lay(base: Base, folder: Path) -> Laid:
    """The files of a base, made in `folder`."""
    shutil.rmtree(folder.parent, ignore_errors=True)
    folder.mkdir(parents=True)
    kept = {one.name for one in base.alone}
    if base.broken:
        form = forms(base.reader)[base.form]
        names = tuple(form.write(folder))
        healthy = {name: worsening.leaves(value) for name, value in _values(folder)}
        sizes = {name: _number(value) for name, value in _values(folder)}
        form.breaks[base.broken](folder)
        for name, value in _values(folder):
            before, after = healthy.get(name, {}), worsening.leaves(value)
            kept |= {key for key in after if not after[key] <= before.get(key, set())}
            if _number(value) > sizes.get(name, 0):
                kept.add(worsening.LAST)
    else:
        form, names = WIDE, (".",)
        called = readers.READERS[NAMES.index(base.reader)].NAME
        shutil.copytree(FIXTURES / called / base.form, folder, dirs_exist_ok=True)
    data = {str(path.relative_to(folder)): path.read_bytes() for path in files(folder)}
    return Laid(names, policy(folder, form), frozenset(kept), data)


def files(folder: Path) -> list[Path]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path for path in found if path.name != "ORIGIN.md")


def _number(value: object) -> int:
    return len(value) if isinstance(value, list) else 1


def _values(folder: Path) -> Iterator[tuple[str, object]]:
    for path in files(folder):
        if file := worsening.content(path):
            yield str(path.relative_to(folder)), file.value


# ---- verdicts -----------------------------------------------------------------------------


def passed(folder: Path, laid: Laid, without: tuple[Why, ...] = ()) -> set[str] | None:
    """The objectives that pass, without doubts of some kinds; None where the files are refused."""
    left = [name for name in laid.names if name != "." and any(folder.glob(name))] or ["."]
    try:
        reading = readers.read([str(folder / name) for name in left])
    except GateError:
        return None
    runs = [
        replace(run, doubts=tuple(doubt for doubt in run.doubts if doubt.code not in without))
        for run in reading.runs
    ]
    report = evaluate(laid.rules, runs, date(2026, 12, 1), notes=reading.notes)
    return {check.id for check in report.checks if check.verdict is Verdict.PASS}


@cache
def laid_out(base: Base, root: Path) -> tuple[Laid, frozenset[str]]:
    """A base, and the objectives that must not pass when it holds less."""
    folder = root / "base" / "r"
    laid = lay(base, folder)
    found = passed(folder, laid)
    asked = {objective.id for objective in laid.rules.objectives}
    if found is not None:
        return laid, frozenset(asked - found - (passed(folder, laid, AGREE) or set()))
    if not base.broken:
        return laid, frozenset(asked)
    return laid, frozenset(asked.intersection(RULES[base.broken.partition(":")[0]][1]))


# ---- the property -------------------------------------------------------------------------


def may_go(base: Base, folder: Path) -> list[Path]:
    """The files that may be taken away."""
    found = files(folder)
    alone = [one.name for one in base.alone]
    return [p for p in found if len(found) > 1 and not any(fnmatch(p.name, name) for name in alone)]


def worsen(data: st.DataObject, base: Base, folder: Path, kept: frozenset[str]) -> str:
    """Take something from the files, or make it worse; what was done."""
    gone = may_go(base, folder)
    if gone and data.draw(st.integers(0, 5)) == 0:
        path = data.draw(st.sampled_from(gone))
        path.unlink()
        return f"{path.name} is gone"
    file = worsening.content(data.draw(st.sampled_from(files(folder))))
    found = list(worsening.cells(file.value, kept)) if file else []
    if file is None or not found:
        return ""
    number = data.draw(st.integers(0, len(found) - 1))
    operation = data.draw(st.sampled_from(worsening.operations(found[number][0])))
    worsening.put(file, worsening.changed(file, number, operation, kept))
    return f"{file.path.name}: {operation.__name__} {found[number][0][1]} ({len(found[number])} times)"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("less")


@pytest.mark.parametrize(
    "base",
    [base for base in BASES if base.broken == "zero time"],
    ids=lambda base: f"{base.reader} {base.form}",
)
def test_a_clock_that_says_0_makes_no_time_of_a_zero(root: Path, base: Base) -> None:
    """Every start of a run whose TTFT are 0 set to 0: what is computed from it is no measurement either."""
    laid, unmet = laid_out(base, root)
    folder = root / "now" / "r"
    laid.write(folder)
    for path in files(folder):
        file = worsening.content(path)
        for number, some in enumerate(worsening.cells(file.value, laid.kept) if file else ()):
            starts = re.search("start|stamp|launch|issued", str(some[0][1]))
            if file and starts and worsening.zero in worsening.operations(some[0]):
                laid.write(folder)
                worsening.put(file, worsening.changed(file, number, worsening.zero, laid.kept))
                assert not (passed(folder, laid) or set()) & unmet, some[0][1]


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
    laid, unmet = laid_out(base, root)
    folder = root / "now" / "r"
    laid.write(folder)
    done = [worsen(data, base, folder, laid.kept) for _ in range(data.draw(st.integers(1, 2)))]
    note(f"{base.reader} {base.form} {base.broken or 'fixture'}: {'; '.join(done)}")
    green = (passed(folder, laid) or set()) & unmet
    assert not green, f"{base}: {done} made {sorted(green)} green"
