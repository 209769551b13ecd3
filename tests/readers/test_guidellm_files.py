"""GuideLLM files that are broken, contradict themselves or are another tool's."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings, strategies as st

from gate.errors import InputError
from gate.model import Requests
from gate.readers import guidellm, knows, runs_of
from gate.readers.source import Source
from tests.readers.guidellm_results import HERE, benchmark, of, read, report, row, source, stat, written

# ---- broken files -----------------------------------------------------------------------------------


def test_an_empty_and_a_truncated_report_are_refused() -> None:
    for case in ("empty", "truncated"):
        broken = source(HERE / case / "benchmarks.json")
        assert not knows(guidellm, broken)
        with pytest.raises(InputError):
            runs_of(guidellm, broken)


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (report(), "holds no benchmark"),
        (report(benchmark([])), "holds no request"),
        (report(benchmark([row()], type_="embedding_benchmark")), "has no TTFT or TPOT"),
        (report(benchmark([row()], duration=-1.0)), "a duration of -1"),
        (report(benchmark([row()], scheduler_metrics={}, totals={"successful": 0})), "contradicts itself"),
        (report(benchmark([], totals={"successful": 3}, metrics={"request_latency": stat(1.1, 2)})), "2 lat"),
        (
            report(
                benchmark([], totals={"successful": 3}, metrics={"time_to_first_token_ms": stat(-5.0, 3)})
            ),
            "a negative time for TTFT",
        ),
        (report(benchmark([row(output_tokens=-3)])), "expected `int` >= 0"),
        (report(benchmark([row(request_latency="fast")])), "expected `float"),
    ],
)
def test_a_report_that_holds_nothing_or_contradicts_itself_is_refused(
    tmp_path: Path, made: dict[str, Any], why: str
) -> None:
    path = written(tmp_path / "benchmarks.json", made)
    assert knows(guidellm, source(path))
    with pytest.raises(InputError, match=why):
        read(path)


def test_percentiles_that_do_not_ascend_are_refused(tmp_path: Path) -> None:
    crossed = stat(1.1, 3)
    crossed["successful"]["percentiles"]["p99"] = 0.5
    with pytest.raises(InputError, match="a higher percentile of E2E is lower"):
        of(tmp_path, benchmark([], totals={"successful": 3}, metrics={"request_latency": crossed}))


def consistent(path: Path) -> None:
    """Any file gives an InputError or runs whose counts are those of their rows."""
    try:
        runs = runs_of(guidellm, source(path)) if knows(guidellm, source(path)) else []
    except InputError as error:
        assert error.message
        return
    for run in runs:
        assert run.counts.attempted == run.counts.completed + run.counts.failed
        if isinstance(run.evidence, Requests):
            total = run.counts.attempted + run.counts.cancelled + run.counts.warmup
            assert total == len(run.evidence.status)


SMALL = report(
    benchmark([row(0), row(1)], [row(2, request_latency=None, error="x")], [row(3, request_latency=None)]),
    benchmark([], totals={"successful": 2}),
)


def paths(node: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [at] * bool(at) + [deeper for key, value in inner for deeper in paths(value, (*at, key))]


DROP = object()
JUNK = [DROP, None, "text", -1, 0, 1e308, float("nan"), float("inf"), [], {}, [None], True, 10**30]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.sampled_from(paths(SMALL)), junk=st.sampled_from(JUNK))
def test_one_wrong_value_anywhere_is_never_a_crash(tmp_path: Path, where: tuple[Any, ...], junk: Any) -> None:
    made = copy.deepcopy(SMALL)
    node = made
    for key in where[:-1]:
        node = node[key]
    if junk is DROP:
        del node[where[-1]]
    else:
        node[where[-1]] = junk
    consistent(written(tmp_path / "benchmarks.json", made))
    (tmp_path / "benchmarks.yaml").write_text(yaml.dump(made))
    consistent(tmp_path / "benchmarks.yaml")


@pytest.mark.parametrize("name", ["benchmarks.json", "benchmarks.yaml", "benchmarks.csv"])
def test_a_file_cut_anywhere_is_never_a_crash(tmp_path: Path, name: str) -> None:
    whole = {
        "benchmarks.json": json.dumps(SMALL),
        "benchmarks.yaml": yaml.dump(SMALL),
        "benchmarks.csv": (HERE / "old" / "benchmarks.csv").read_text(),
    }[name]
    for end in range(0, len(whole), max(1, len(whole) // 60)):
        (tmp_path / name).write_text(whole[:end])
        consistent(tmp_path / name)


@pytest.mark.parametrize("cell", ["", "x", "nan", "-1", "[1]", "[1,2,3,4,5,6,7,8,9,10,true]", '"'])
def test_a_wrong_cell_of_the_csv_is_never_a_crash(tmp_path: Path, cell: str) -> None:
    header = (HERE / "old" / "benchmarks.csv").read_text().split("\n")
    values = 40
    for column in range(values):
        lines = [line for line in header if line.strip()]
        cells = lines[3].split(",")
        cells[min(column, len(cells) - 1)] = cell
        (tmp_path / "a.csv").write_text("\n".join([*lines[:3], ",".join(cells)]))
        consistent(tmp_path / "a.csv")


def test_a_csv_without_its_first_benchmark_or_a_cell_is_refused(tmp_path: Path) -> None:
    lines = (HERE / "typical" / "benchmarks.csv").read_text().splitlines(keepends=True)
    (tmp_path / "a.csv").write_text("".join(lines[:3]))
    with pytest.raises(InputError, match="no benchmark"):
        read(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("".join(lines[:3]) + "one,two\n")
    with pytest.raises(InputError, match="2 cells"):
        read(tmp_path / "a.csv")


@pytest.mark.parametrize(
    "text",
    [
        '{"benchmarks": []}',
        '{"benchmarks": [{"name": "pytest-benchmark", "stats": {}}]}',
        '{"benchmarks": 5, "metadata": null}',
        "benchmarks:\n- name: other\n",
        "version: 0.2.1\nrun: {}\nresults: {}\n",
        "Run Info,x\nOther,y\n",
    ],
)
def test_another_tools_file_is_not_claimed(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.txt"
    path.write_text(text)
    assert not knows(guidellm, Source(path, "a.txt"))
