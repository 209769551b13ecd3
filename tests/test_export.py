"""What `slo-gate export` writes is judged like what it was made of, and is nothing where rows are gone."""

from __future__ import annotations

import gzip
import json
import random
import re
import shlex
from collections.abc import Callable, Sequence
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gate import readers
from gate.cli import run
from gate.emit import EMITTERS
from gate.errors import GateError, InputError
from gate.evaluate import evaluate
from gate.model import Report, Requests, Run
from gate.policy import parse
from tests.conftest import FIXTURES, ROOT, Process
from tests.readers.rules import RULES, generic
from tests.readers.test_rules import judged, policy

POLICY = b"""version: 1
name: exported
slo:
  ttft: {p50: 5s, p99: 1s}
  tpot: {p50: 1s}
  e2e: {p50: 30s, p99: {max: 2s, when: output_tokens < 100}}
goodput: {min: 95%, request: {ttft: 5s, tpot: 1s, e2e: 30s}}
limits: {error_rate: {max: 1%}}
"""
ITL = POLICY.replace(b"  tpot", b"  itl: {p99: 1s}\n  tpot")
FORMATS = (".jsonl", ".csv", ".parquet", ".arrow")


@cache
def sources() -> Sequence[Path]:
    """Every fixture with rows, of every reader."""
    found = []
    for folder in sorted(FIXTURES.glob("*/*/")):
        if folder.parent.name == "found":
            continue
        try:
            reading = readers.read([str(folder)])
        except GateError:
            continue
        if all(isinstance(run.evidence, Requests) and len(run.evidence) for run in reading.runs):
            found.append(folder)
    return found


def report(names: Sequence[Path], rules: bytes) -> tuple[Report, Sequence[Run]]:
    runs = readers.read([str(name) for name in names], gaps=b"itl" in rules).runs
    return evaluate(parse(rules, "slo.yaml"), runs, date(2026, 12, 1)), runs


def text(one: Report, inputs: Sequence[str]) -> str:
    """The report as JSON without its list of inputs, called `input`, also by its last name."""
    document = json.loads(EMITTERS["json"](one))
    del document["inputs"]
    found = json.dumps(document, indent=1)
    for name in sorted({*inputs, *(Path(name).name for name in inputs)}, key=len, reverse=True):
        found = found.replace(json.dumps(name)[1:-1], "input")
    return found


@pytest.fixture
def exported(tmp_path: Path) -> Callable[..., Path]:
    def export(*names: object, to: str = "x.jsonl") -> Path:
        if to.endswith((".parquet", ".arrow")):
            pytest.importorskip("pyarrow")
        assert run(["export", *map(str, names), "-o", str(tmp_path / to)]) == 0
        return tmp_path / to

    return export


@pytest.mark.parametrize("ending", FORMATS)
def test_every_fixture_with_rows_is_judged_alike_by_its_export(
    exported: Callable[..., Path], ending: str
) -> None:
    assert len({folder.parent for folder in sources()}) >= 14
    for number, folder in enumerate(sources()):
        table = exported(folder, to=f"{number}{ending}")
        for rules in (POLICY,) if ending == ".csv" else (POLICY, ITL):  # a cell of CSV holds no list of gaps
            here, runs = report([folder], rules)
            there, again = report([table], rules)
            names = [str(table), *(run.input for run in runs)]
            assert text(there, names) == text(here, names), folder
            assert [run.counts for run in again] == [run.counts for run in runs]


def test_a_csv_without_gaps_never_passes_a_bound_on_itl(exported: Callable[..., Path]) -> None:
    table = exported(FIXTURES / "vllm/typical", to="x.csv")
    itl = next(check for check in report([table], ITL)[0].checks if check.id == "itl.p99")
    assert itl.verdict.value == "inconclusive"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def save(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_the_order_of_rows_does_not_matter(exported: Callable[..., Path]) -> None:
    folder = FIXTURES / "vllm/typical"
    table = exported(folder)
    rows = lines(table)
    random.Random(1).shuffle(rows)
    here, runs = report([folder], POLICY)
    there, _ = report([save(table, rows)], POLICY)
    assert text(there, [str(table)]) == text(here, [run.input for run in runs])


def without(key: str) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    return lambda rows: [{name: cell for name, cell in row.items() if name != key} for row in rows]


LESS: dict[str, Callable[[list[dict[str, Any]]], list[dict[str, Any]]]] = {
    "the last row": lambda rows: rows[:-1],
    "the first row": lambda rows: rows[1:],
    "failed rows": lambda rows: [row for row in rows if "error" not in row],
    "a run": lambda rows: [row for row in rows if row["run"] != "1"],
    "a row for another": lambda rows: [*rows[:-1], rows[-2]],
    "the places": without("slo_gate_row"),
    "the runs": without("run"),
    "an error": lambda rows: [{**row, "error": None} for row in rows],
    "a fact": lambda rows: [{**rows[0], "slo_gate": "{}"}, *rows[1:]],
    "half a fact": lambda rows: [{**rows[0], "slo_gate": rows[0]["slo_gate"][:99]}, *rows[1:]],
    "the marks": without("slo_gate_marks"),
    "a mark": lambda rows: [{**row, "slo_gate_marks": ""} if row is marked(rows)[0] else row for row in rows],
}


def marked(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row.get("slo_gate_marks")]


@pytest.mark.parametrize("less", LESS)
def test_an_export_with_something_taken_away_is_none(exported: Callable[..., Path], less: str) -> None:
    table = exported(FIXTURES / "aiperf/failures", FIXTURES / "sglang/requested_length")
    rows = lines(table)
    assert {row["run"] for row in rows} == {"0", "1"}
    assert any("error" in row for row in rows)
    assert marked(rows)
    with pytest.raises(InputError) as refused:
        report([save(table, LESS[less](rows))], POLICY)
    assert "export the results again" in str(refused.value)


def test_an_export_beside_what_it_was_made_of_counts_once(exported: Callable[..., Path]) -> None:
    folder = FIXTURES / "vllm/typical"
    assert len(report([folder, exported(folder)], POLICY)[1]) == len(report([folder], POLICY)[1])


# ---- the command ----------------------------------------------------------------------------

RESULT = ROOT / "examples/chat/good/c016_run01.json.gz"


def test_stdout_gets_json_lines_that_check_takes_from_a_pipe(slo_gate: Process) -> None:
    rows = slo_gate("export", RESULT, "-o", "-")
    assert (rows.returncode, rows.stderr) == (0, "")
    assert len(rows.stdout.splitlines()) == 120
    words = ("--policy", ROOT / "examples/chat/slo.yaml", "-q")
    assert (
        slo_gate("check", "-", *words, input=rows.stdout).stdout == slo_gate("check", RESULT, *words).stdout
    )


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        ((RESULT, "-o", "x.txt"), 2, 'x.txt: ".txt" is no format of a table'),
        ((RESULT, "-o", "none/x.csv"), 2, "none/x.csv: cannot be written"),
        ((RESULT, "-o", "x.csv.slo.json"), 2, 'x.csv.slo.json: ".json" is no format of a table'),
        (("-o", "x.csv"), 2, "no result file is named"),
        (("none", "-o", "x.csv"), 3, "none: no such file"),
        ((FIXTURES / "llm-d/typical", "-o", "x.csv"), 3, "holds statistics, not requests one by one"),
    ],
)
def test_what_cannot_be_exported_is_an_error(
    slo_gate: Process, tmp_path: Path, words: tuple[object, ...], code: int, error: str
) -> None:
    done = slo_gate("export", *words)
    assert done.returncode == code
    assert error in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_export_never_lands_on_what_it_reads(slo_gate: Process, tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_bytes((FIXTURES / "generic/typical/rows.jsonl").read_bytes())
    before = (tmp_path / "r.jsonl").read_bytes()
    done = slo_gate("export", "r.jsonl", "-o", "r.jsonl")
    assert done.returncode == 2
    assert (tmp_path / "r.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "code"), [(("export", RESULT, "-o", "x.parquet"), 2), (("inspect", "y.parquet"), 3)]
)
def test_without_the_extra_a_table_is_an_error_that_says_what_to_install(
    interpreter: Process, tmp_path: Path, words: tuple[object, ...], code: int
) -> None:
    (tmp_path / "pyarrow.py").write_text("raise ImportError", encoding="utf-8")
    (tmp_path / "y.parquet").write_bytes(b"PAR1 and so on")
    done = interpreter(*words, PYTHONPATH=f"{tmp_path}:{ROOT}")
    assert done.returncode == code
    assert "by a package that is not installed" in done.stderr
    assert "python -m pip install pyarrow" in done.stderr


# ---- tables of anybody, in Parquet and Arrow ------------------------------------------------


def as_table(path: Path, ending: str = ".parquet", **how: Any) -> Path:
    """A file of JSON lines as pyarrow itself makes a table of it."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import feather, parquet

    rows = lines(path)
    names = dict.fromkeys(name for row in rows for name in row)
    table = pyarrow.table({name: [row.get(name) for row in rows] for name in names})
    made = path.with_suffix(ending)
    if ending == ".parquet":
        parquet.write_table(table, made, **how)
    else:
        feather.write_feather(table, str(made), compression="uncompressed")
    path.unlink()
    return made


@pytest.mark.parametrize("broken", ["", *generic.BREAKS, *generic.NESTED])
@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
def test_a_table_is_judged_like_its_json_lines(tmp_path: Path, ending: str, broken: str) -> None:
    form = generic.KINDS["JSON lines"]

    def outcome(columnar: bool) -> object:
        folder = tmp_path / f"r{columnar}"
        folder.mkdir()
        form.write(folder)
        if broken:
            form.breaks[broken](folder)
        if columnar:
            as_table(folder / "r.jsonl", ending)
        try:
            found = judged(folder, [next(folder.iterdir()).name], policy(folder, form))
        except InputError as error:
            return error.message
        return found.exit_code, found.headline, {check.id: check.verdict for check in found.checks}

    assert outcome(True) == outcome(False)
    assert not broken or broken.partition(":")[0] in RULES


def test_columns_may_have_any_type_that_holds_their_values(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pyarrow.table(
        {
            "ttft_ms": pyarrow.array([80, 90, None, 70], pyarrow.int32()),
            "e2e_s": pyarrow.array([0.5, 0.75, float("nan"), 0.25], pyarrow.float32()),
            "output_tokens": pyarrow.array(["10", "20", "", "40"]),
            "error": pyarrow.array(["", None, "HTTP 503", ""]).dictionary_encode(),
            "cancelled": pyarrow.array([False, False, False, True]),
            "note": pyarrow.array([{"a": 1}] * 4),
            "itl_s": pyarrow.array([[0.1], [], None, [0.2]], pyarrow.large_list(pyarrow.float64())),
        }
    )
    parquet.write_table(table, tmp_path / "r.parquet")
    (found,) = readers.read([str(tmp_path / "r.parquet")], gaps=True).runs
    assert found.format == "generic parquet"
    assert (found.counts.completed, found.counts.failed, found.counts.cancelled) == (2, 1, 1)
    assert isinstance(found.evidence, Requests)
    np.testing.assert_array_equal(found.evidence.ttft_s, [0.08, 0.09, np.nan, 0.07])
    np.testing.assert_array_equal(found.evidence.output_tokens, [10, 20, np.nan, 40])
    np.testing.assert_array_equal(found.evidence.gaps.values_s, [0.1, 0.2])


# ---- tables that mean harm ------------------------------------------------------------------


def refused(path: Path) -> str:
    with pytest.raises(InputError) as error:
        readers.read([str(path)], gaps=True)
    return error.value.message


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
def test_a_table_that_is_cut_short_is_an_error(tmp_path: Path, ending: str) -> None:
    generic.write_lines(tmp_path)
    whole = as_table(tmp_path / "r.jsonl", ending).read_bytes()
    for share in range(1, 20):
        part = tmp_path / f"cut{ending}"
        part.write_bytes(whole[: len(whole) * share // 20])
        assert "damaged or cut short" in refused(part)


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
def test_a_table_with_wrong_bytes_is_read_or_an_error(tmp_path: Path, ending: str) -> None:
    generic.write_lines(tmp_path)
    whole = as_table(tmp_path / "r.jsonl", ending).read_bytes()
    dice = random.Random(16)
    for _ in range(300):
        wrong = bytearray(whole)
        for _ in range(dice.randint(1, 8)):
            wrong[dice.randrange(6, len(wrong) - 6)] = dice.randrange(256)
        part = tmp_path / f"wrong{ending}"
        part.write_bytes(wrong)
        try:
            readers.read([str(part)], gaps=True)
        except InputError as error:
            assert error.message


@pytest.mark.parametrize(
    ("column", "cells", "why"),
    [
        ("ttft_s", [[0.1]], "is list<element: double>, which no ttft_s is"),
        ("ttft_s", [{"a": 0.1}], "which no ttft_s is"),
        ("start_s", [date(2026, 1, 1)], "is date32[day]"),
        ("itl_s", [0.1], "is double, which no itl_s is"),
        ("itl_s", [[[0.1]]], "which no itl_s is"),
        ("output_tokens", [-1], "a count cannot be negative"),
        ("output_tokens", ["many"], "which is no number"),
        ("cancelled", ["perhaps"], "neither true nor false"),
        ("e2e_s", [float("nan")], ""),
        ("e2e_s", [float("inf")], ""),
        ("e2e_s", [1e300], "larger than any measurement"),
        ("ttft_s", [b"\xff"], ""),
    ],
)
def test_a_column_of_another_type_is_an_error(
    tmp_path: Path, column: str, cells: list[Any], why: str
) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {"ttft_s": [0.1, 0.1], "e2e_s": [0.2, 0.2], "output_tokens": [3, 3], "error": [None, None]}
    first = [0.2] if isinstance(cells[0], float) and column == "e2e_s" else [None]
    parquet.write_table(pyarrow.table({**columns, column: [*first, *cells]}), tmp_path / "r.parquet")
    if why or isinstance(cells[0], bytes):
        assert why in refused(tmp_path / "r.parquet")
    else:
        (found,) = readers.read([str(tmp_path / "r.parquet")]).runs
        assert found.counts.failed == 1


def test_a_small_file_of_very_many_rows_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    from gate.readers.generic import columnar

    size = 400_000  # runs of equal values take some bytes, however many they are
    table = pyarrow.table({name: pyarrow.repeat(0.5, size) for name in ("ttft_s", "e2e_s")})
    parquet.write_table(table, tmp_path / "r.parquet")
    assert (tmp_path / "r.parquet").stat().st_size < 5_000
    monkeypatch.setattr(columnar, "_HELD_MAX", 4 << 20)  # of 6.4 MB, each 3.2 MB: told while it is read
    assert "GiB of columns" in refused(tmp_path / "r.parquet")
    monkeypatch.setattr(columnar, "_HELD_MAX", 2 << 20)  # told before
    assert "GiB of columns" in refused(tmp_path / "r.parquet")


def test_a_long_text_that_stands_in_every_row_is_held_once(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    size = 50_000
    long = pyarrow.array(["x" * 1_000_000, "y" * 1_000_000]).dictionary_encode().dictionary
    model = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * size, pyarrow.int32()), long)
    numbers = {name: pyarrow.repeat(0.5, size) for name in ("ttft_s", "e2e_s")}
    parquet.write_table(pyarrow.table({**numbers, "model": model}), tmp_path / "r.parquet")
    (found,) = readers.read([str(tmp_path / "r.parquet")]).runs  # 50 GB, were it not
    assert len(found.model or "") == 1_000_000


# ---- what the page says ---------------------------------------------------------------------

PAGE = (ROOT / "docs/export.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Report]:
    """The example as a table, and its report over completed requests of each load."""
    pytest.importorskip("pyarrow")
    table = tmp_path_factory.mktemp("chat") / "requests.parquet"
    assert run(["export", str(ROOT / "examples/chat/regressed"), "-o", str(table)]) == 0
    return table, report([ROOT / "examples/chat/regressed"], POLICY)[0]


def block(language: str, number: int = 0) -> str:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)[number]


def by_hand() -> tuple[float, int, int, float]:
    """Load, requests, failed and P99 TTFT (nearest rank), from the tool's own files."""
    ttfts: list[float] = []
    requests = 0
    for path in sorted((ROOT / "examples/chat/regressed").glob("*.json.gz")):
        document = json.loads(gzip.decompress(path.read_bytes()))
        requests += len(document["ttfts"])
        pairs = zip(document["ttfts"], document["errors"], strict=True)
        ttfts += [ttft for ttft, error in pairs if not error]
    return 16, requests, requests - len(ttfts), float(np.quantile(ttfts, 0.99, method="inverted_cdf"))


def test_the_commands_of_the_page_print_what_it_shows(slo_gate: Process, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "chat").symlink_to(ROOT / "examples/chat")
    _, export, wrote, check, *verdict = block("console").splitlines()
    assert slo_gate(*shlex.split(export)[2:]).stderr.splitlines() == [wrote]
    assert slo_gate(*shlex.split(check)[2:]).stdout.splitlines() == verdict


def test_the_query_for_duckdb_gives_what_the_files_hold(chat: tuple[Path, Report]) -> None:
    duckdb = pytest.importorskip("duckdb")
    query = block("sql").replace("'requests.parquet'", f"'{chat[0]}'")
    assert duckdb.sql(query).fetchall() == [by_hand()]
    assert duckdb.sql(block("sql", 1).replace("'requests.parquet'", f"'{chat[0]}'")).fetchall()


def test_the_lines_for_pandas_give_what_the_report_says(chat: tuple[Path, Report]) -> None:
    pytest.importorskip("pandas")
    names: dict[str, Any] = {}
    exec(block("python").replace("requests.parquet", str(chat[0])), names)
    assert names["p99"].index.tolist() == [16.0]
    tpot = chat[1].metrics["tpot_s"]
    assert tpot is not None
    assert names["p99"].iloc[0] == pytest.approx(
        tpot.p99, rel=0.01
    )  # of two neighbours, pandas may take the other
