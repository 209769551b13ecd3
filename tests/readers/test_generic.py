"""Generic rows: every spelling of a cell, one unit a quantity, and nothing ambiguous guessed."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from gate.errors import InputError
from gate.model import Counts, Load, Requests, Run, Status
from gate.readers import generic, knows, runs_of
from gate.readers.source import Source
from tests.conftest import FIXTURES, ROOT

CASES = FIXTURES / "generic"
# A file that is read is mapped into memory: it must not be written again, so each has its own name.
_NUMBERS = itertools.count()


def source(path: Path, *, gaps: bool = False) -> Source:
    return Source(path, path.name, gaps=gaps)


def read(path: Path, *, gaps: bool = False) -> Run:
    (run,) = runs_of(generic, source(path, gaps=gaps))
    return run


def rows_of(run: Run) -> Requests:
    assert isinstance(run.evidence, Requests)
    return run.evidence


def cells(column: Any) -> list[float]:
    assert column is not None
    return list(column.tolist())


def put(folder: Path, content: str | bytes, suffix: str) -> Path:
    path = folder / f"{next(_NUMBERS)}{suffix}"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def jsonl(folder: Path, *rows: dict[str, Any]) -> Path:
    return put(folder, "".join(json.dumps(row) + "\n" for row in rows), ".jsonl")


def row(**changes: Any) -> dict[str, Any]:
    return {"ttft_s": 0.5, "e2e_s": 1.2, "output_tokens": 100, **changes}


# ---- the same requests, in every writing ---------------------------------------------------


def expected() -> list[dict[str, Any]]:
    """The requests of the fixtures, from the LLMPerf file they were made from."""
    path = FIXTURES / "llmperf" / "failures" / "mock-model_150_48_individual_responses.json"
    return list(json.loads(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", ["failures/rows.jsonl", "csv/rows.csv"])
def test_a_file_gives_the_requests_it_was_made_from(name: str) -> None:
    run = read(CASES / name)
    ok = np.array([r["error_code"] is None for r in expected()])
    rows = rows_of(run)
    assert run.counts == Counts(attempted=152, completed=138, failed=14)
    assert ((rows.status == Status.COMPLETED) == ok).all()
    for column, key in (
        (rows.ttft_s, "ttft_s"),
        (rows.e2e_s, "end_to_end_latency_s"),
        (rows.output_tokens, "number_output_tokens"),
    ):
        assert np.array(cells(column))[ok] == pytest.approx(
            np.array([r[key] for r in expected()])[ok], rel=1e-12
        )
    assert run.load == Load(concurrency=4)
    assert "14 failed: " in run.notes[0]
    assert "engine overloaded" in run.notes[0]
    assert "aborted x5" in run.notes[0]


def test_completed_requests_alone_give_the_tools_percentiles() -> None:
    path = FIXTURES / "llmperf" / "failures" / "mock-model_150_48_summary.json"
    said = json.loads(path.read_text(encoding="utf-8"))
    rows = rows_of(read(CASES / "typical" / "rows.jsonl"))
    for column, key in ((rows.ttft_s, "ttft_s"), (rows.e2e_s, "end_to_end_latency_s")):
        for percent in (50, 90, 99):
            got = np.percentile(cells(column), percent)
            assert got == pytest.approx(said[f"results_{key}_quantiles_p{percent}"], rel=1e-12)


def test_the_servers_log_is_read_as_rows_once_its_status_is_written_as_error(
    shared: Path, tmp_path: Path
) -> None:
    # truth.jsonl has ttft_s and e2e_s of what was answered, and a status alone for a failure.
    path = shared / "results" / "llmperf-5acd7b1" / "b_errors" / "truth.jsonl"
    truth = [json.loads(line) for line in path.read_text().splitlines()]
    with pytest.raises(InputError, match='"status" may tell of failures'):
        read(path)
    run = read(jsonl(tmp_path, *({**e, "error": None if e["status"] == 200 else "HTTP"} for e in truth)))
    assert run.counts.completed == sum(entry["status"] == 200 for entry in truth) == 138
    assert run.counts.attempted == len(truth) == 152
    tpot = np.array([entry.get("tpot_s", np.nan) for entry in truth])
    assert cells(rows_of(run).tpot_s) == pytest.approx(tpot, rel=1e-9, nan_ok=True)


def test_the_tool_trap_is_7_ms() -> None:
    run = read(ROOT / "examples" / "tool-trap" / "generic.jsonl")
    assert cells(rows_of(run).tpot_s) == pytest.approx([0.700 / 99] * 20)
    assert (run.tool, run.model, run.load) == ("home-made", "demo-model", Load(concurrency=4))
    assert run.duration_s == pytest.approx(6.0)  # 20 requests, 4 at a time, 1.2 s each
    assert run.total_output_tokens == 2000


def test_a_json_array_is_read_like_json_lines(tmp_path: Path) -> None:
    lines = (CASES / "failures" / "rows.jsonl").read_text().splitlines()
    path = put(tmp_path, "[" + ",\n".join(lines) + "]", ".json")
    assert knows(generic, source(path))
    assert read(path).counts == Counts(attempted=152, completed=138, failed=14)


def test_indented_objects_are_read_like_json_lines(tmp_path: Path) -> None:
    path = put(tmp_path, "\n".join(json.dumps(row(), indent=2) for _ in range(3)), ".jsonl")
    assert knows(generic, source(path))
    assert read(path).counts.completed == 3


def test_a_compressed_file_is_read(tmp_path: Path) -> None:
    path = put(tmp_path, gzip.compress((CASES / "csv" / "rows.csv").read_bytes()), ".csv.gz")
    assert read(path).counts.attempted == 152


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_csv_is_read_in_every_dialect(tmp_path: Path, delimiter: str, ending: str, mark: bytes) -> None:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator=ending)
    writer.writerow(["start_s", "ttft_ms", "e2e_ms", "output_tokens", "error"])
    writer.writerow([0, 500, 1200, 100, ""])
    writer.writerow([1, 250.5, 900, 10, 'said "no", then; left\tor\nright'])
    path = put(tmp_path, mark + text.getvalue().encode(), ".csv")
    assert knows(generic, source(path))
    run = read(path)
    assert (run.counts.completed, run.counts.failed) == (1, 1)
    assert cells(rows_of(run).ttft_s) == [0.5, 0.2505]
    assert run.duration_s == pytest.approx(1.9)


# ---- units and words ----------------------------------------------------------------------


@pytest.mark.parametrize(("unit", "factor"), [("s", 1), ("ms", 1e3), ("us", 1e6), ("ns", 1e9)])
def test_every_unit_becomes_seconds(tmp_path: Path, unit: str, factor: float) -> None:
    path = jsonl(
        tmp_path,
        {
            f"start_{unit}": 2 * factor,
            f"ttft_{unit}": 0.5 * factor,
            f"e2e_{unit}": str(1.25 * factor),
            "output_tokens": "4",
            f"itl_{unit}": [0.25 * factor, 0.5 * factor],
        },
    )
    rows = rows_of(read(path, gaps=True))
    assert (cells(rows.start_s), cells(rows.ttft_s), cells(rows.e2e_s)) == ([2.0], [0.5], [1.25])
    assert cells(rows.tpot_s) == [0.25]  # (1.25 - 0.5) / 3
    assert rows.gaps is not None
    assert rows.gaps.values_s.tolist() == [0.25, 0.5]


@pytest.mark.parametrize("what", ["ttft", "e2e", "start"])
def test_a_quantity_in_two_units_is_an_error(tmp_path: Path, what: str) -> None:
    with pytest.raises(InputError, match=f"{what} is in two columns, {what}_s and {what}_ms"):
        read(jsonl(tmp_path, row(**{f"{what}_s": 1, f"{what}_ms": 1000})))


def test_a_quantity_whose_unit_changes_on_the_way_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="e2e is in two columns, e2e_s and e2e_ms"):
        read(jsonl(tmp_path, row(), {"ttft_s": 0.5, "e2e_ms": 1200, "output_tokens": 100}))


@pytest.mark.parametrize("cell", [None, False, "", 0, "0", "false", "False", "no", "null", "None"])
def test_an_error_cell_that_means_nothing_is_ok(tmp_path: Path, cell: object) -> None:
    assert read(jsonl(tmp_path, row(error=cell), row())).counts == Counts(2, 2, 0)


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ("timeout", "timeout x1"),
        (True, "marked as an error x1"),
        ("true", "marked as an error x1"),
        (500, "500 x1"),
        ({"message": "overloaded", "code": 503}, "overloaded x1"),
    ],
)
def test_an_error_cell_that_means_something_is_a_failure(tmp_path: Path, cell: object, shown: str) -> None:
    run = read(jsonl(tmp_path, row(), row(error=cell)))
    assert run.counts == Counts(2, 1, 1)
    assert run.notes[0] == f"1 failed: {shown}"


def test_an_error_column_that_only_failures_have_is_read(tmp_path: Path) -> None:
    run = read(jsonl(tmp_path, *(row() for _ in range(300)), {"error": "reset"}))
    assert run.counts == Counts(301, 300, 1)
    assert run.notes[0] == "1 failed: reset x1"


@pytest.mark.parametrize("word", [True, 1, "1", "true", "TRUE", "yes", " Yes "])
def test_words_for_true_set_a_request_aside(tmp_path: Path, word: object) -> None:
    run = read(jsonl(tmp_path, row(), row(cancelled=word), row(warmup=word), row(warmup=word)))
    assert run.counts == Counts(1, 1, 0, cancelled=1, warmup=2)


@pytest.mark.parametrize("word", [False, 0, "0", "false", "no", "", None])
def test_words_for_false_leave_a_request_in(tmp_path: Path, word: object) -> None:
    assert read(jsonl(tmp_path, row(cancelled=word, warmup=word))).counts == Counts(1, 1, 0)


def test_a_word_that_is_neither_names_its_line(tmp_path: Path) -> None:
    path = put(tmp_path, "ttft_ms,e2e_ms,warmup\n1,2,no\n\n1,2,maybe\n", ".csv")
    with pytest.raises(InputError, match='line 4: warmup is "maybe", which is neither true nor false'):
        read(path)


def test_a_text_that_is_no_number_names_its_line(tmp_path: Path) -> None:
    lines = [json.dumps(row()), "", json.dumps(row(e2e_s="fast"))]
    with pytest.raises(InputError, match='line 3: e2e_s is "fast", which is no number'):
        read(put(tmp_path, "\n".join(lines), ".jsonl"))


def test_a_decimal_comma_is_an_error_and_never_a_larger_number(tmp_path: Path) -> None:
    path = put(tmp_path, "ttft_ms;e2e_ms\n12;20\n12,5;20,5\n", ".csv")
    with pytest.raises(InputError, match='line 3: ttft_ms is "12,5"') as caught:
        read(path)
    assert caught.value.hint == "write a decimal point"


def test_a_number_that_nothing_measures_names_its_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"line 2: output_tokens is 1e\+300, larger than any measurement"):
        read(jsonl(tmp_path, row(), row(output_tokens=1e300)))


def test_a_negative_token_count_names_its_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="line 2: output_tokens is -1: a count cannot be negative"):
        read(jsonl(tmp_path, row(), row(output_tokens=-1)))


@pytest.mark.parametrize("value", ["NaN", "Infinity", "null", "0", "-0.1", '""', '"inf"'])
@pytest.mark.parametrize("name", ["ttft_s", "e2e_s"])
def test_a_latency_that_is_none_is_a_failure(tmp_path: Path, name: str, value: str) -> None:
    bad = json.dumps(row(**{name: "HERE"})).replace('"HERE"', value)
    assert read(put(tmp_path, f"{json.dumps(row())}\n{bad}\n", ".jsonl")).counts == Counts(2, 1, 1)


def test_a_decode_time_of_zero_in_one_row_is_valid(tmp_path: Path) -> None:
    run = read(jsonl(tmp_path, *[row()] * 199, row(ttft_s=1.2)))
    assert run.counts == Counts(200, 200, 0)
    assert cells(rows_of(run).tpot_s)[199] == 0
    assert run.doubt("tpot") is None  # the one row is, in Requests.doubted
    assert rows_of(run).doubted["tpot"].tolist() == [False] * 199 + [True]
    assert "answers of several tokens that came in one piece, with a TPOT of about 0: 1" in run.notes


def test_answers_in_one_chunk_are_not_judged_by_tpot(tmp_path: Path) -> None:
    run = read(jsonl(tmp_path, row(ttft_s=1.2), row(ttft_s=1.2), row()))  # BUGS B03
    assert run.counts == Counts(3, 3, 0)
    assert run.streaming is False
    assert all("in one piece" in run.doubted[metric] for metric in ("ttft", "tpot"))


def test_answers_in_one_chunk_after_an_early_first_token_still_have_a_ttft(tmp_path: Path) -> None:
    # 99 tokens 5 ms after the first, which came after 20 ms: 51 us a token, a fifth of E2E.
    run = read(jsonl(tmp_path, *[row(ttft_s=0.020, e2e_s=0.025)] * 3, row()))
    assert "75.0% of the answers of several tokens came in one piece" in run.doubted["tpot"]
    assert "ttft" not in run.doubted
    assert run.streaming is True


# ---- gaps ---------------------------------------------------------------------------------


def test_gaps_are_decoded_only_when_they_are_wanted(tmp_path: Path) -> None:
    path = jsonl(tmp_path, row(itl_ms=[300, 300]), row(itl_ms=[]), row(itl_ms=None), row(itl_ms=[7]))
    assert rows_of(read(path)).gaps is None
    assert "itl" not in read(path).doubted
    gaps = rows_of(read(path, gaps=True)).gaps
    assert gaps is not None
    assert gaps.values_s.tolist() == [0.3, 0.3, 0.007]
    assert gaps.offsets.tolist() == [0, 2, 2, 2, 3]


def test_gaps_follow_their_requests_into_the_runs(tmp_path: Path) -> None:
    path = jsonl(tmp_path, *[row(run=number % 2, itl_s=[number / 10] * (number + 1)) for number in range(4)])
    first, second = runs_of(generic, source(path, gaps=True))
    for run, values, offsets in (
        (first, [0.0, 0.2, 0.2, 0.2], [0, 1, 4]),
        (second, [0.1, 0.1, 0.3, 0.3, 0.3, 0.3], [0, 2, 6]),
    ):
        gaps = rows_of(run).gaps
        assert gaps is not None
        assert (gaps.values_s.tolist(), gaps.offsets.tolist()) == (values, offsets)


def test_e2e_is_ttft_and_the_gaps_where_there_is_no_column_for_it(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"ttft_s": 0.1, "itl_s": [0.3, 0.3], "output_tokens": 13},
        {"ttft_s": 0.2, "itl_s": [], "output_tokens": 1},
        {"ttft_s": 0.2, "output_tokens": 5},
    ]
    run = read(jsonl(tmp_path, *rows))
    assert cells(rows_of(run).e2e_s) == pytest.approx([0.7, 0.2, np.nan], nan_ok=True)
    assert cells(rows_of(run).tpot_s)[0] == pytest.approx(0.05)  # 0.6 / 12, not the chunk gap of 0.3
    assert run.counts == Counts(3, 2, 1)
    assert rows_of(run).gaps is None
    assert any("E2E is TTFT + the sum of the gaps" in note for note in run.notes)


def test_a_list_of_gaps_that_begins_with_the_ttft_is_not_judged(tmp_path: Path) -> None:
    run = read(jsonl(tmp_path, row(itl_s=[0.5, 0.3, 0.4]), row(itl_s=[0.5, 0.7])), gaps=True)  # BUGS B04
    assert "the first gap of most requests is their TTFT" in run.doubted["itl"]


# ---- runs ---------------------------------------------------------------------------------


def test_rows_are_split_by_run_and_load_in_order_of_appearance(tmp_path: Path) -> None:
    path = jsonl(
        tmp_path,
        row(run="b", concurrency=8),
        row(run="a", concurrency=8),
        row(run="b", concurrency=16),
        row(run="b", concurrency="8", error="x"),
    )
    runs = runs_of(generic, source(path))
    assert [(run.load, run.counts.attempted, run.counts.failed) for run in runs] == [
        (Load(concurrency=8), 2, 1),
        (Load(concurrency=8), 1, 0),
        (Load(concurrency=16), 1, 0),
    ]
    assert [note for run in runs for note in run.notes if note[:4] == "run "] == ["run b", "run a", "run b"]


@pytest.mark.parametrize(
    ("cells", "load"),
    [
        ({}, None),
        ({"concurrency": 64}, Load(concurrency=64)),
        ({"request_rate": 12.5}, Load(request_rate=12.5)),
        ({"request_rate": "12.5", "concurrency": "64"}, Load(request_rate=12.5, cap=64)),
        ({"request_rate": "inf", "concurrency": 64}, Load(concurrency=64)),
        ({"request_rate": "inf"}, Load(burst=True)),
    ],
)
def test_the_load_is_the_rate_and_else_the_concurrency(
    tmp_path: Path, cells: dict[str, Any], load: Load | None
) -> None:
    assert read(jsonl(tmp_path, row(**cells))).load == load


@pytest.mark.parametrize(
    "cells", [{"concurrency": 0}, {"concurrency": 2.5}, {"request_rate": 0}, {"request_rate": -1}]
)
def test_a_load_that_cannot_be_is_an_error(tmp_path: Path, cells: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"line 1: {next(iter(cells))} is"):
        read(jsonl(tmp_path, row(**cells)))


def test_a_failed_row_without_its_load_stays_in_the_only_run(tmp_path: Path) -> None:
    run = read(jsonl(tmp_path, row(concurrency=8, run=1), {"error": "reset"}))
    assert run.counts == Counts(2, 1, 1)


def test_blank_run_and_load_columns_are_one_run(tmp_path: Path) -> None:
    run = read(put(tmp_path, "e2e_s,run,concurrency\n1,,\n2,,\n", ".csv"))
    assert run.counts == Counts(2, 2, 0)
    assert run.load is None


def test_a_row_that_could_belong_to_several_runs_is_an_error(tmp_path: Path) -> None:
    path = jsonl(tmp_path, row(concurrency=8), row(concurrency=16), {"error": "reset"})
    with pytest.raises(InputError, match="line 3: the row has no concurrency, and others have 2"):
        runs_of(generic, source(path))


def test_constants_are_the_facts_of_the_run(tmp_path: Path) -> None:
    facts = {"tool_version": "1.0", "model": "m", "hardware": "8xH100", "session": "s1", "tool": "ours"}
    run = read(jsonl(tmp_path, row(**facts), {"error": "reset"}))
    assert {name: getattr(run, name) for name in facts} == facts
    assert read(jsonl(tmp_path, row())).tool == "generic"


def test_a_constant_that_changes_within_a_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match='line 3: model changes from "a" to "b" within one run'):
        read(jsonl(tmp_path, row(model="a"), row(), row(model="b")))
    runs = runs_of(generic, source(jsonl(tmp_path, row(model="a", run=1), row(model="b", run=2))))
    assert [run.model for run in runs] == ["a", "b"]


def test_rows_in_order_of_start_say_so(tmp_path: Path) -> None:
    assert rows_of(read(jsonl(tmp_path, row(start_s=1), row(start_s=1), row(start_s=2)))).order == "start"
    assert rows_of(read(jsonl(tmp_path, row(start_s=2), row(start_s=1)))).order == "unknown"
    assert rows_of(read(jsonl(tmp_path, row()))).order == "unknown"


def test_warm_up_is_not_in_the_duration(tmp_path: Path) -> None:
    path = jsonl(tmp_path, row(start_s=0, warmup=True), row(start_s=10), row(start_s=12))
    assert read(path).duration_s == pytest.approx(3.2)  # 10 to 12 + 1.2


# ---- names --------------------------------------------------------------------------------


def test_other_columns_are_noted_with_what_they_may_mean(tmp_path: Path) -> None:
    run = read(jsonl(tmp_path, {"ttft_ms": 500, "latency_ms": 1200, "user": "a", "completion_tokens": 9}))
    assert (
        "columns not read: latency_ms (meant as e2e_ms?), user, completion_tokens (meant as output_tokens?)"
        in run.notes
    )
    assert {"ttft", "e2e", "tpot", "itl"} == run.doubted.keys()
    assert "output_tokens" in run.doubted["tpot"]


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("success", False),
        ("success", True),  # the file says how it would tell; the next may hold a failure
        ("ok", "no"),
        ("failed", 1),
        ("status", "timeout"),
        ("status", 200),
        ("error_code", 503),
        ("Status-Code", 503),
    ],
)
def test_failures_told_in_another_column_than_error_are_refused(
    name: str, cell: object, tmp_path: Path
) -> None:
    for path in (
        jsonl(tmp_path, row(), row(**{name: cell})),
        put(tmp_path, f"ttft_s,e2e_s,{name}\n0.1,0.2,\n0.1,0.2,{cell}\n", ".csv"),
    ):
        with pytest.raises(InputError, match="may tell of failures, and there is no column error") as caught:
            read(path)
        assert f'"{name}"' in caught.value.message
        assert caught.value.hint.startswith("write it as error")


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("success", False),
        ("ok", "no"),
        ("failed", 1),
        ("timed_out", "yes"),
        ("status", "timeout"),
        ("status", 500),
        ("http_status", "503"),
        ("error_code", -1),
        ("exception", "ReadTimeout"),
    ],
)
def test_an_empty_error_beside_a_column_that_says_failed_is_a_contradiction(
    name: str, cell: object, tmp_path: Path
) -> None:
    for path in (
        jsonl(tmp_path, row(error=None), row(error=None, **{name: cell})),
        put(tmp_path, f"ttft_s,e2e_s,error,{name}\n0.1,0.2,,\n0.1,0.2,,{cell}\n0.1,0.2,x,\n", ".csv"),
    ):
        with pytest.raises(InputError, match=f'error is empty, but the column "{name}" says'):
            read(path)
    told = row(error="HTTP 503", **{name: cell})
    assert read(jsonl(tmp_path, row(error=None), told)).counts.failed == 1


@pytest.mark.parametrize(
    ("name", "cell"), [("success", True), ("status", 200), ("status", "ok"), ("error_code", 0)]
)
def test_a_column_that_agrees_with_an_empty_error_is_only_noted(
    name: str, cell: object, tmp_path: Path
) -> None:
    assert read(jsonl(tmp_path, row(error=None, **{name: cell}))).counts.completed == 1


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("statusCode", 503),
        ("Success", False),
        ("Status", "failed"),
        ("isError", True),
        ("HTTPStatus", 500),
        ("http_status_code", 500),
        ("response.status", 500),
        ("errorMessage", "boom"),
        ("exception_type", "ReadTimeout"),
        ("response_error", "reset"),
        ("statuscode", "5xx"),
    ],
)
def test_a_telltale_column_in_another_spelling_hides_no_failure(
    name: str, cell: object, tmp_path: Path
) -> None:
    rows = [*[row(error=None)] * 300, row(error=None, **{name: cell})]  # behind the first 200
    for path in (
        jsonl(tmp_path, *rows),
        put(tmp_path, json.dumps(rows), ".json"),
        put(tmp_path, f"ttft_s,e2e_s,error,{name}\n0.1,0.2,,\n0.1,0.2,,{cell}\n", ".csv"),
    ):
        with pytest.raises(InputError, match=f'error is empty, but the column "{name}" says that the row'):
            read(path)


def test_another_spelling_is_found_in_a_large_file(tmp_path: Path) -> None:
    long = {"error": None, "text": "x" * 1000}
    rows = [row(**long)] * 3000 + [row(**long, statusCode=503)] * 3000  # 6 MB, beyond the 4 MB read whole
    with pytest.raises(InputError, match='the column "statusCode" says'):
        read(jsonl(tmp_path, *rows))
    huge = row(error=None, statusCode=503, text="x" * 100_000)  # a line longer than a sample
    with pytest.raises(InputError, match='the column "statusCode" says'):
        read(jsonl(tmp_path, *[huge] * 50))


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("status", "cancelled"),
        ("status", "timed out"),
        ("status", "Timed-Out"),
        ("status", "HTTP 503"),
        ("status", "HTTP/1.1 503"),
        ("status", "503 Service Unavailable"),
        ("status", "RequestStatus.FAILED"),
        ("finish_reason", "abort"),
        ("status_code", "5xx"),
        ("success", "N"),
        ("success", "f"),
        ("failed", "t"),
        ("result", "timeout"),
    ],
)
def test_a_word_for_a_failure_is_known_in_any_spelling(name: str, cell: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f'the column "{name}" says that the row failed'):
        read(jsonl(tmp_path, row(error=None), row(error=None, **{name: cell})))


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("status", "Error: x"),
        ("status", "queued"),
        ("status", 7),
        ("status_code", -1),
        ("status_code", 0),  # k6, Locust and hey where no answer came
        ("status_code", 14),  # UNAVAILABLE in gRPC
        ("finish_reason", "preempted"),
        ("success", "partly"),
    ],
)
def test_a_word_that_nobody_knows_beside_an_empty_error_is_refused_by_name(
    name: str, cell: object, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as caught:
        read(jsonl(tmp_path, row(error=None), row(error=None, **{name: cell})))
    assert f'the column "{name}" says "{cell}", which is not known as a success' in caught.value.message
    assert "line 2" in caught.value.where
    assert "write what went wrong as error" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("Status", "Completed"),
        ("status", "200 OK"),
        ("status", "HTTP/1.1 200 OK"),
        ("status", "Status.OK"),
        ("statusCode", 200.0),
        ("statusCode", 304),
        ("code", 0),  # OK in gRPC
        ("status", "n/a"),
        ("finish_reason", "stop"),
        ("finish_reason", "FinishReason.LENGTH"),
        ("finishReason", "tool-calls"),
        ("completed", "2026-11-29T14:06:38Z"),
        ("completed", 1764425198.5),
        ("rejected", 12),  # draft tokens
        ("failed", "n"),
        ("result", "Error handling in Python is done with try."),
        ("code", "en"),
        ("errorMessage", ""),
        ("errors", []),
    ],
)
def test_a_cell_that_tells_of_no_failure_refuses_no_file(name: str, cell: object, tmp_path: Path) -> None:
    assert read(jsonl(tmp_path, *[row(error=None, **{name: cell})] * 3)).counts.completed == 3


def test_a_cancelled_row_may_say_so_in_its_status(tmp_path: Path) -> None:
    cut = row(error=None, cancelled=True, status="cancelled")
    assert read(jsonl(tmp_path, row(error=None, status="ok"), cut)).counts == Counts(1, 1, 0, cancelled=1)
    with pytest.raises(InputError, match='"status" says that the row failed'):
        read(jsonl(tmp_path, row(error=None, status="ok"), {**cut, "status": "HTTP 503"}))


def test_a_telltale_column_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match='"status" is there twice'):
        read(put(tmp_path, "ttft_s,e2e_s,error,status,status\n0.1,0.2,,500,200\n", ".csv"))


@pytest.mark.parametrize("name", ["Error", "ERROR", "request.error", "err", "requestError"])
def test_error_in_other_letters_is_refused_not_ignored(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not read"):
        read(put(tmp_path, f'ttft_s,e2e_s,"{name}"\n0.1,0.2,timeout\n0.1,0.2,\n', ".csv"))


def test_an_outage_of_every_request_is_a_run_of_failures(tmp_path: Path) -> None:
    failed = {"ttft_s": None, "e2e_s": None, "output_tokens": 0, "error": "refused"}
    counts = read(jsonl(tmp_path, *[failed] * 120)).counts
    assert (counts.attempted, counts.failed) == (120, 120)


def test_a_failure_far_behind_the_first_rows_is_still_seen_to_be_untold(tmp_path: Path) -> None:
    with pytest.raises(InputError, match='"failed" may tell of failures'):
        read(jsonl(tmp_path, *[row()] * 3000, row(failed=True)))


def test_a_column_of_that_name_without_a_cell_hides_nothing(tmp_path: Path) -> None:
    assert read(jsonl(tmp_path, row(status=None))).counts.completed == 1
    assert read(put(tmp_path, "ttft_s,e2e_s,status\n0.1,0.2,\n", ".csv")).counts.completed == 1


def test_a_negative_gap_is_refused_with_its_row(tmp_path: Path) -> None:
    rows = [row(itl_ms=[1, 2]), row(itl_ms=None), row(itl_ms=[]), row(itl_ms=[3, -0.5, 4])]
    with pytest.raises(InputError, match=r"itl_ms holds a gap of -0\.5") as caught:
        read(jsonl(tmp_path, *rows), gaps=True)
    assert caught.value.where.endswith("line 4")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("ttft", "ttft_s"),
        ("latency", "e2e_s"),
        ("e2e_seconds", "e2e_s"),
        ("TTFT_ms", "ttft_ms"),
        ("latency_ms", "e2e_ms"),
        ("time_to_first_token", "ttft_s"),
    ],
)
def test_a_near_miss_is_not_claimed_and_named_when_forced(tmp_path: Path, name: str, meant: str) -> None:
    for path in (
        jsonl(tmp_path, {name: 1, "output_tokens": 5}),
        put(tmp_path, f"{name},output_tokens\n1,5\n", ".csv"),
    ):
        assert not knows(generic, source(path))
        with pytest.raises(InputError, match=rf'no ttft_s or e2e_s column, but "{name}" \(meant as {meant}'):
            read(path)


def test_a_file_without_any_latency_lists_its_columns(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no ttft_s or e2e_s column; its columns: a, b"):
        read(jsonl(tmp_path, {"a": 1, "b": 2}))


def test_a_latency_column_without_one_value_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no row has a value in a ttft or e2e column"):
        read(jsonl(tmp_path, {"ttft_s": None, "error": "x"}, {"e2e_s": None, "error": None}))


@pytest.mark.parametrize(
    "content",
    [
        '{\n "ttft_ms": 3000,\n "e2e_ms": 50\n}',  # a configuration
        '{"ttft_ms": {"p99": 3}}\n{"ttft_ms": {"p99": 4}}\n',  # statistics
        '{"config": {"ttft_ms": 3}}\n{"config": {"ttft_ms": 3}}\n',
        '[{"inter_token_latency_s": 1, "ttft_s": 2}]',  # LLMPerf's
        "[1, 2]",
        "[]",
        "TTFT was 5 ms\n",
        "metric,ttft\nmean,5\n",
        "",
    ],
)
def test_what_is_no_list_of_requests_is_not_claimed(tmp_path: Path, content: str) -> None:
    assert not knows(generic, source(put(tmp_path, content, ".json")))


def test_of_the_shared_files_only_home_made_ones_are_claimed(shared: Path) -> None:
    claimed = set()
    for root in ("results", "public-results"):
        for path in (shared / root).rglob("*"):
            try:
                if path.is_file() and knows(generic, source(path)):
                    claimed.add(path.name)
            except InputError:
                continue
    # The servers' own logs are rows of this kind; the CSV is of a client no reader is written for.
    assert claimed == {"truth.jsonl", "sut_truth.jsonl", "003_multiturn_detailed.csv"}


# ---- malformed ----------------------------------------------------------------------------


def test_a_file_cut_short_names_the_line() -> None:
    path = CASES / "truncated" / "rows.jsonl"
    lines = path.read_text().count("\n") + 1
    with pytest.raises(InputError, match=f"line {lines}: the JSON ends in the middle"):
        read(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("ttft_ms,e2e_ms\n1,2\n1\n", "line 3: has 1 fields, the header 2"),
        ('ttft_ms,error\n1,"cut\n', "is not CSV"),
        ("ttft_ms,ttft_ms\n1,2\n", 'line 1: the column "ttft_ms" is there twice'),
        ("ttft_ms,e2e_ms\n", "holds no requests"),
        ("", "is empty"),
        ("ttft_ms\0,e2e_ms\n", "is not text"),
        ('{"ttft_s": [1]}\n{"ttft_s": 1}\n', "line 1: expected"),
        ('{"ttft_s": true}\n{"ttft_s": 1}\n', "line 1: expected"),
        ('{"ttft_s": 1}\nnot json\n', "line 2: is not JSON"),
        ('[{"ttft_s": 1}, 5]', "expected `object`"),
    ],
)
def test_a_broken_file_says_what_and_where(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        runs_of(generic, source(put(tmp_path, content, ".txt")))
    assert message in str(caught.value)


def test_a_header_without_rows_is_an_error() -> None:
    with pytest.raises(InputError, match="holds no requests"):
        read(CASES / "empty" / "rows.csv")


@pytest.mark.parametrize("name", ["failures/rows.jsonl", "csv/rows.csv"])
def test_a_file_cut_anywhere_is_a_run_or_an_input_error(tmp_path: Path, name: str) -> None:
    whole = (CASES / name).read_bytes()
    for offset in range(1, len(whole), len(whole) // 60):
        part = whole[:offset]
        try:
            run = read(put(tmp_path, part, Path(name).suffix))
        except InputError:
            continue
        assert run.counts.attempted <= part.count(b"\n") + 1
        assert run.counts.attempted == run.counts.completed + run.counts.failed


_NAMES = ["ttft_s", "ttft_ms", "e2e_s", "output_tokens", "error", "cancelled", "run", "concurrency", "itl_s"]
_VALUES = (
    st.none() | st.booleans() | st.integers(-2, 3) | st.floats() | st.text(max_size=3) | st.just([0.1, None])
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.dictionaries(st.sampled_from(_NAMES), _VALUES, max_size=4), min_size=1, max_size=4))
def test_any_rows_give_consistent_runs_or_an_input_error(
    tmp_path: Path, changes: list[dict[str, Any]]
) -> None:
    path = jsonl(tmp_path, *(row(**change) for change in changes))
    try:
        runs = runs_of(generic, source(path, gaps=True))
    except InputError:
        return
    held = 0
    for run in runs:
        counts, rows = run.counts, rows_of(run)
        assert counts.attempted == counts.completed + counts.failed
        held += counts.attempted + counts.cancelled + counts.warmup
        assert rows.gaps is None or len(rows.gaps.offsets) == len(rows) + 1
    assert held == len(changes)


def test_a_list_that_holds_objects_only_later_in_the_file_still_tells_of_failures(tmp_path: Path) -> None:
    rows = [row(steps=[1, 2], note="x" * 1000)] * 3000  # several megabytes, which are read one by one
    with pytest.raises(InputError, match=r"steps\.status"):
        read(jsonl(tmp_path, *rows, row(steps=[{"status": "failed"}])))


def test_a_key_that_begins_far_down_is_read(tmp_path: Path) -> None:
    rows = [row(note="x" * 1000)] * 3000
    run = read(jsonl(tmp_path, *rows, row(error="503"), *rows, {"error": None, **row(ttft_s=None)}))
    assert run.counts == Counts(attempted=6002, completed=6000, failed=2)


@pytest.mark.parametrize("quote", ["", '"'])
def test_rows_of_a_csv_are_those_of_the_same_json_lines(quote: str, tmp_path: Path) -> None:
    lines = [row(ttft_s=0.5 + at / 7e6, error="" if at % 9 else "503") for at in range(60_000)]
    lines[40_000]["error"] = f"{quote}later, or not{quote}" if quote else "later"
    names = list(lines[0])
    text = "\n".join(",".join(map(str, cells)) for cells in [names, *(each.values() for each in lines)])
    rows = [rows_of(read(path)) for path in (put(tmp_path, text, ".csv"), jsonl(tmp_path, *lines))]
    assert rows[0].counts == rows[1].counts == Counts(60_000, 53_332, 6_668)
    assert np.array_equal(rows[0].ttft_s, rows[1].ttft_s)  # type: ignore[arg-type]


def test_a_broken_line_far_down_a_csv_has_its_number(tmp_path: Path) -> None:
    lines = "ttft_s,e2e_s,output_tokens\n" + "0.5,1.2,100\n" * 300_000
    with pytest.raises(InputError, match=r"line 300002: has 2 fields"):
        read(put(tmp_path, lines + "0.5,1.2\n", ".csv"))
    with pytest.raises(InputError, match=r'line 300002: ttft_s is "fast"'):
        read(put(tmp_path, lines + "fast,1.2,1\n", ".csv"))
