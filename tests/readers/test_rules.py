"""READERS x RULES: every rule tried on every format of every reader, with one answer."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path

import pytest

from gate import readers
from gate.errors import Exit, InputError
from gate.evaluate import evaluate
from gate.model import Policy, Report, Verdict
from gate.policy import load
from tests.conftest import ROOT
from tests.readers.rules import RULES, Alone, Form

POLICY = """version: 1
name: rules
slo:
  ttft: {p50: 5s}
  tpot: {p50: 1s}
  e2e: {p50: 30s}
goodput: {min: 95%, request: {GOODPUT}}
limits: {error_rate: {max: 1%}}
evidence: {decide: point}
"""
NAMES = [reader.__name__.rpartition(".")[2] for reader in readers.READERS]


def forms(name: str) -> dict[str, Form]:
    """The formats of a reader; a new reader fails until it has a module in tests/readers/rules."""
    found: dict[str, Form] = importlib.import_module(f"tests.readers.rules.{name}").KINDS
    return found


def every() -> Iterator[tuple[str, str, Form]]:
    for name in NAMES:
        yield from ((name, kind, form) for kind, form in forms(name).items())


EVERY = list(every())
BREAKS = [(name, kind, broken) for name, kind, form in EVERY for broken in form.breaks]


def policy(folder: Path, form: Form) -> Policy:
    """Loose bounds on what the format can judge, and nothing else."""
    asked = set(form.judges)
    latencies = [metric for metric in ("ttft", "tpot", "e2e") if f"{metric}.p50" in asked]
    lines = []
    for line in POLICY.splitlines():
        key = line.strip().partition(":")[0]
        if line.startswith("  ") and f"{key}.p50" not in asked:
            continue
        if key == "slo" and not latencies:
            continue
        if (key == "goodput" and "goodput" not in asked) or (key == "limits" and "error_rate" not in asked):
            continue
        if key == "evidence" and form.attempted:
            line = line.replace("}", f", attempted: {form.attempted}}}")
        lines.append(line.replace("GOODPUT", ", ".join(f"{metric}: 30s" for metric in latencies)))
    path = folder.parent / "policy.yaml"
    path.write_text("\n".join(lines), encoding="utf-8")
    return load(str(path))


def judged(folder: Path, names: list[str], rules: Policy) -> Report:
    reading = readers.read([str(folder / name) for name in names], attempted=rules.evidence.attempted)
    return evaluate(rules, reading.runs, date(2026, 12, 1), notes=reading.notes)


@pytest.mark.parametrize("name", NAMES)
def test_every_reader_fills_its_row(name: str) -> None:
    for kind, form in forms(name).items():
        covered = {broken.partition(":")[0] for broken in form.breaks}
        assert covered | form.cannot.keys() == RULES.keys(), f"{name} {kind}: {covered ^ RULES.keys()}"
        assert not covered & form.cannot.keys(), f"{name} {kind}"
        assert form.judges


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, kind, _ in EVERY])
def test_the_healthy_run_passes(name: str, kind: str, tmp_path: Path) -> None:
    form = forms(name)[kind]
    folder = tmp_path / "r"
    folder.mkdir()
    names = list(form.write(folder))
    report = judged(folder, names, policy(folder, form))
    verdict = Verdict.PASS if form.proves else Verdict.INCONCLUSIVE
    assert {check.id: check.verdict for check in report.checks if check.id in form.judges} == dict.fromkeys(
        form.judges, verdict
    ), [check.reason for check in report.checks]
    assert report.exit_code == (Exit.PASS if form.proves else Exit.INCONCLUSIVE)


@pytest.mark.parametrize(("name", "kind", "broken"), BREAKS)
def test_a_broken_rule_is_never_green(name: str, kind: str, broken: str, tmp_path: Path) -> None:
    form = forms(name)[kind]
    folder = tmp_path / "r"
    folder.mkdir()
    names = list(form.write(folder))
    form.breaks[broken](folder)
    left = [one for one in names if any(folder.glob(one))] or ["."]
    touched = RULES[broken.partition(":")[0]][1]
    try:
        report = judged(folder, left, policy(folder, form))
    except InputError as error:
        assert error.message
        assert error.hint, "what next?"
        return
    assert touched or report.exit_code == Exit.INCONCLUSIVE, "the file contradicts itself"
    passed = {check.id for check in report.checks if check.verdict is Verdict.PASS}
    assert report.exit_code in (Exit.FAIL, Exit.INCONCLUSIVE), report.headline
    assert not passed & set(touched), report.headline


def table() -> str:
    """Which rules the formats of each tool cannot show, equal reasons together."""
    lines = ["| `--tool` | format | cannot show | because the format |", "|---|---|---|---|"]
    for name, every in by_reader():
        reasons: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        for kind, form in every.items():
            for why in dict.fromkeys(form.cannot.values()):
                rules = tuple(rule for rule in RULES if form.cannot.get(rule) == why)
                reasons.setdefault((why, rules), []).append(kind)
        for (why, rules), kinds in reasons.items():
            lines.append(f"| `{name}` | {_formats(kinds, every)} | {', '.join(rules)} | {why} |")
    return "\n".join(lines)


def alone_table() -> str:
    """What each format says in one place alone."""
    lines = [
        "| `--tool` | format | only this | says or shows | tried without it, but for |",
        "|---|---|---|---|---|",
    ]
    for name, every in by_reader():
        found: dict[Alone, list[str]] = {}
        for kind, form in every.items():
            for one in form.alone:
                found.setdefault(one, []).append(kind)
        for one, kinds in found.items():
            of = ", ".join(one.of) or "nothing: never taken away"
            lines.append(f"| `{name}` | {_formats(kinds, every)} | `{one.name}` | {one.why} | {of} |")
    return "\n".join(lines)


def by_reader() -> Iterator[tuple[str, dict[str, Form]]]:
    for number, name in enumerate(NAMES):
        yield (
            readers.READERS[number].NAME,
            {kind: form for reader, kind, form in EVERY if reader == name},
        )


def _formats(kinds: Sequence[str], every: Mapping[str, Form]) -> str:
    return "all" if len(kinds) == len(every) > 1 else ", ".join(kinds)


def rules_table() -> str:
    """What each rule is tried with."""
    lines = ["| rule | tried on every format with |", "|---|---|"]
    return "\n".join([*lines, *(f"| {rule} | {what} |" for rule, (what, _) in RULES.items())])


def test_the_tables_in_the_docs_are_what_is_tried(request: pytest.FixtureRequest) -> None:
    path = ROOT / "docs" / "rules.md"
    text = path.read_text(encoding="utf-8")
    for mark, made in (
        ("rules", rules_table()),
        ("formats", table()),
        ("alone", alone_table()),
    ):
        begin, end = f"<!-- {mark}: made by tests/readers/test_rules.py -->\n", "\n<!-- end -->"
        before, found, rest = text.partition(begin)
        old, _, after = rest.partition(end)
        assert found
        if request.config.getoption("--update-golden"):
            text = f"{before}{begin}{made}{end}{after}"
            path.write_text(text, encoding="utf-8")
        else:
            assert old == made, "run pytest tests/readers/test_rules.py --update-golden"
