"""Prometheus: one format of several shapes, and nothing malformed gets through."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from gate import readers
from gate.errors import InputError
from gate.model import Counts, Histogram, Run
from gate.readers import knows, prometheus, runs_of, runs_of_set
from gate.readers.source import Source
from tests.readers.scrapes import CASES, SINGLE, VLLM, N, engine, gateway, range_answer, save

COUNTER = "gateway_requests_total"
AT_100_MS = 'time_to_first_token_seconds_bucket{le="0.1",model_name="mock-model"}'
COUNT = 'time_to_first_token_seconds_count{model_name="mock-model"}'
FORGIVING = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def source(path: Path) -> Source:
    return Source(path, path.name, attempted_counter=COUNTER)


def read(path: Path) -> list[Run]:
    return list(runs_of(prometheus, source(path)))


def assert_consistent(runs: list[Run]) -> None:
    for run in runs:
        assert isinstance(run.evidence, Histogram)
        assert run.counts.attempted == run.counts.completed + run.counts.failed
        assert min(run.counts.completed, run.counts.failed) >= 0
        for one in run.evidence.buckets.values():
            assert (one.counts >= 0).all()
            assert (np.diff(one.edges_s) > 0).all()


def error_of(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read(path)
    return str(caught.value)


# ---- shapes -------------------------------------------------------------------------------


@pytest.mark.parametrize("between", ["", "# EOF\n", "\n\n"])
def test_scrapes_in_one_file_are_a_series(tmp_path: Path, between: str) -> None:
    text = between.join(engine(k) + gateway(k) for k in (1, 2, 3))
    assert [run.counts for run in read(save(tmp_path, "all.prom", text))] == [Counts(N, N, 0)] * 2


def test_a_gateway_behind_an_end_mark_is_the_same_look(tmp_path: Path) -> None:
    text = "".join(engine(k) + "# EOF\n" + gateway(k) + "# EOF\n" for k in (1, 2))
    (run,) = read(save(tmp_path, "all.prom", text))
    assert run.counts == Counts(N, N, 0)
    assert set(run.doubted) == {"itl"}  # these series hold no gaps


@pytest.mark.parametrize("unit", [1, 1000])
def test_times_are_read_in_seconds_and_in_milliseconds(tmp_path: Path, unit: int) -> None:
    def dated(k: int) -> str:
        lines = (engine(k) + gateway(k)).splitlines()
        stamp = (1795961600 + 60 * k) * unit
        return "\n".join(line if line.startswith("#") else f"{line} {stamp}" for line in lines) + "\n"

    (run,) = read(save(tmp_path, "all.prom", dated(1) + dated(2)))
    assert run.duration_s == 60
    assert run.counts == Counts(N, N, 0)


def test_a_backfill_dump_lists_every_series_at_several_times(tmp_path: Path) -> None:
    lines = []
    for one, two in zip(
        (engine(1) + gateway(1)).splitlines(), (engine(2) + gateway(2)).splitlines(), strict=True
    ):
        lines += [one] if one.startswith("#") else [f"{one} 1795961600", f"{two} 1795961660"]
    (run,) = read(save(tmp_path, "dump.prom", "\n".join(lines) + "\n# EOF\n"))
    assert (run.duration_s, run.counts) == (60, Counts(N, N, 0))


def test_openmetrics_exemplars_and_created_times_are_no_samples(tmp_path: Path) -> None:
    exemplar = '# {trace_id="a b } # \\" c"} 0.09 1795961600.5'
    text = engine(1).replace(f"{AT_100_MS} 823.0", f"{AT_100_MS} 823.0 {exemplar}")
    text += 'vllm:time_to_first_token_seconds_created{model_name="mock-model"} 1.7959616262283034e+09\n'
    assert "trace_id" in text
    (run,) = read(save(tmp_path, "a.prom", text + gateway(1) + "# EOF\n"))
    assert run.counts == Counts(N, N, 0)


def test_label_values_are_unescaped(tmp_path: Path) -> None:
    text = engine(1, model='a\\"b\\\\c, {d}\\n=e') + gateway(1)
    (run,) = read(save(tmp_path, "a.prom", text))
    assert run.model == 'a"b\\c, {d}\n=e'


def test_files_without_times_follow_one_another_by_the_numbers_in_their_names(tmp_path: Path) -> None:
    paths = [save(tmp_path, f"scrape-{k}.prom", engine(k) + gateway(k)) for k in (2, 10, 1)]
    runs = runs_of_set(prometheus, [source(path) for path in paths])
    assert [run.counts.completed for run in runs] == [N, 8 * N]
    assert all(run.load is None for run in runs)
    assert any("name files by time" in note for note in runs[0].notes)


def test_answers_to_several_queries_are_joined_by_time(tmp_path: Path) -> None:
    steps = {60.0 * k: engine(k) for k in (1, 2)}
    paths = [
        save(tmp_path, "engine.json", range_answer(steps)),
        save(tmp_path, "gateway.json", range_answer({60.0 * k: gateway(k) for k in (1, 2)})),
    ]
    (run,) = runs_of_set(prometheus, [source(path) for path in paths])
    assert run.counts == Counts(N, N, 0)
    assert set(run.doubted) == {"itl"}  # these series hold no gaps


def test_two_folders_of_scrapes_are_two_series(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        for k in (1, 2):
            save(tmp_path / folder, f"{k}.prom", engine(k) + gateway(k))
    runs = runs_of_set(prometheus, [source(path) for path in sorted(tmp_path.rglob("*.prom"))])
    assert [run.counts.completed for run in runs] == [N, N]


def test_folders_of_one_scrape_each_are_one_series(tmp_path: Path) -> None:
    for k in (1, 2):
        (tmp_path / str(k)).mkdir()
        save(tmp_path / str(k), "metrics.prom", engine(k) + gateway(k))
    (run,) = runs_of_set(prometheus, [source(path) for path in sorted(tmp_path.rglob("*.prom"))])
    assert run.counts.completed == N


def test_two_servers_at_the_same_time_without_a_label_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    for folder, k in (("a", 1), ("b", 2)):
        save(tmp_path / folder, "1795961600.prom", engine(k))
    with pytest.raises(InputError, match="another value of the same series at the same time"):
        runs_of_set(prometheus, [source(path) for path in sorted(tmp_path.rglob("*.prom"))])


def test_an_instant_query_is_one_scrape(tmp_path: Path) -> None:
    answer = range_answer({1795961600.0: engine(1) + gateway(1)})
    answer["data"]["resultType"] = "vector"
    for one in answer["data"]["result"]:
        one["value"] = one.pop("values")[0]
    (run,) = read(save(tmp_path, "a.json", answer))
    assert run.counts == Counts(N, N, 0)
    assert run.load is None


def test_a_stale_marker_is_a_series_that_vanished(tmp_path: Path) -> None:
    answer = range_answer({60.0 * k: engine(k) + gateway(k) for k in (1, 2, 3)})
    for one in answer["data"]["result"]:
        if one["metric"]["__name__"].startswith("vllm:e2e"):
            one["values"][2][1] = "NaN"
    good, bad = read(save(tmp_path, "a.json", answer))
    assert set(good.doubted) == {"itl"}
    assert "vanished" in bad.doubted["ttft"]


# ---- what is no evidence ------------------------------------------------------------------


def matrix(*series: Any) -> dict[str, Any]:
    return {"status": "success", "data": {"resultType": "matrix", "result": list(series)}}


E2E = {"__name__": "vllm:e2e_request_latency_seconds", "model_name": "m"}


def native(*steps: tuple[float, str, list[list[Any]]], **labels: str) -> dict[str, Any]:
    """Of E2E: the time, the count and the buckets of each look, as the API tells them."""
    looks = [[at, {"count": count, "sum": "1", "buckets": held}] for at, count, held in steps]
    return {"metric": {**E2E, **labels}, "histograms": looks}


def test_native_histograms_are_counts_up_to_edges(tmp_path: Path) -> None:
    """Two processes, one of which saw nothing in a bucket; by hand: 4 <= 1, 7 <= 2, 8 in all."""
    first = native(
        (0, "10", [[0, "0.5", "1", "6"], [0, "1", "2", "4"]]),
        (60, "16", [[0, "0.5", "1", "9"], [0, "1", "2", "6"], [0, "2", "4", "1"]]),
        pod="a",
    )
    second = native(
        (0, "5", [[0, "0.5", "1", "5"]]), (60, "7", [[0, "0.5", "1", "6"], [0, "1", "2", "1"]]), pod="b"
    )
    (run,) = read(save(tmp_path, "a.json", matrix(first, second)))
    assert isinstance(run.evidence, Histogram)
    held = run.evidence.buckets["e2e"]
    assert held.edges_s.tolist() == [1.0, 2.0, 4.0, np.inf]
    assert np.cumsum(held.counts).tolist() == [4, 7, 8, 8]
    assert run.counts == Counts(8, 8, 0)


def test_where_a_native_histogram_became_coarser_the_coarse_edges_stay(tmp_path: Path) -> None:
    """It halves its resolution when it has too many buckets: 1 to 4 is one bucket then, and 2 is no edge."""
    looks = native(
        (0, "3", [[0, "1", "2", "1"], [0, "2", "4", "1"], [0, "4", "8", "1"]]),
        (60, "9", [[0, "1", "4", "5"], [0, "4", "16", "4"]]),
    )
    (run,) = read(save(tmp_path, "a.json", matrix(looks)))
    assert isinstance(run.evidence, Histogram)
    held = run.evidence.buckets["e2e"]
    assert held.edges_s.tolist() == [4.0, 16.0, np.inf]
    assert held.counts.tolist() == [3, 3, 0]


@pytest.mark.parametrize(
    ("buckets", "why"),
    [
        ([[0, "1", "2", "0.5"]], "no counts"),
        ([[0, "1", "2", "NaN"]], "no counts"),
        ([[0, "2", "1", "1"]], "overlap"),
        ([[0, "1", "3", "1"], [0, "2", "4", "1"]], "overlap"),
        ([[0, "1", "2", "x"]], "no number"),
        ([[0, "1", "2", "9"]], "more than its count"),
    ],
)
def test_a_native_histogram_that_cannot_be_is_refused(tmp_path: Path, buckets: Any, why: str) -> None:
    good = [[0, "1", "2", "1"]]
    assert why in error_of(save(tmp_path, "a.json", matrix(native((0, "3", good), (60, "4", buckets)))))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"status": "error", "error": "bad query", "data": {"resultType": ""}}, "bad query"),
        ({"status": "success", "data": {"resultType": "scalar", "result": [1, "2"]}}, "holds a scalar"),
        ({"status": "success", "data": {"resultType": "matrix", "result": 3}}, "expected"),
        (matrix(), "holds no sample"),
        (matrix({"metric": {}, "values": [[1, "2"]]}), "lost its name"),
        (matrix({"metric": E2E, "histograms": [[1, {}]]}), "missing required field"),
    ],
)
def test_an_answer_without_raw_series_says_what_to_ask(tmp_path: Path, answer: Any, why: str) -> None:
    path = save(tmp_path, "a.json", answer)
    assert knows(prometheus, source(path))
    assert why in error_of(path)


def test_metrics_of_no_known_engine_are_refused(tmp_path: Path) -> None:
    path = save(tmp_path, "a.prom", "# TYPE tgi_request_duration histogram\ntgi_request_duration_count 3\n")
    assert knows(prometheus, source(path))
    assert "no latency histogram of an engine" in error_of(path)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (f"{AT_100_MS} 823.0", f"{AT_100_MS} NaN", "is no count: nan"),
        (f"{AT_100_MS} 823.0", f"{AT_100_MS} -3", "is no count: -3"),
        (f"{AT_100_MS} 823.0", f"{AT_100_MS} 8.5", "is no count: 8.5"),
        (f"{AT_100_MS} 823.0", f"{AT_100_MS} +Inf", "is no count: inf"),
        (f"{AT_100_MS} 823.0", f"{AT_100_MS} 900", "fall"),
        (f"{AT_100_MS} 823.0", f"{AT_100_MS} 1_0", "line"),
        (f"{AT_100_MS} 823.0", f"{AT_100_MS} 823.0 soon", "line"),
        (f"{COUNT} 830.0", f"{COUNT} 831.0", "counts 831"),
        ('le="0.1",model', 'le="NaN",model', "has no edge"),
        ('le="0.1",model', 'lee="0.1",model', "has no edge"),
        ('model_name="mock-model"} 823.0', 'model_name="mock-model} 823.0', "line"),
    ],
)
def test_what_contradicts_itself_is_refused(tmp_path: Path, old: str, new: str, why: str) -> None:
    text = (SINGLE / VLLM).read_text(encoding="utf-8")
    assert old in text
    assert why in error_of(save(tmp_path, "a.prom", text.replace(old, new)))


def test_a_histogram_without_its_last_bucket_is_refused(tmp_path: Path) -> None:
    text = (SINGLE / VLLM).read_text(encoding="utf-8")
    text = "\n".join(line for line in text.splitlines() if "+Inf" not in line)
    assert "le=+Inf" in error_of(save(tmp_path, "a.prom", text))


@pytest.mark.parametrize("case", ["empty", "truncated"])
def test_a_scrape_that_was_cut_off_is_refused(case: str) -> None:
    with pytest.raises(InputError):
        read(CASES / case / "vllm.prom")


@FORGIVING
@given(cut=st.integers(0, 9000))
def test_a_file_cut_anywhere_is_an_error_or_consistent(tmp_path: Path, cut: int) -> None:
    text = engine(1) + gateway(1)
    path = save(tmp_path, "a.prom", text[:cut])
    try:
        assert_consistent(read(path))
    except InputError:
        return


@FORGIVING
@given(at=st.integers(0, 7000), junk=st.binary(min_size=1, max_size=8))
def test_a_file_with_junk_in_it_is_an_error_or_consistent(tmp_path: Path, at: int, junk: bytes) -> None:
    text = (SINGLE / VLLM).read_bytes()
    path = tmp_path / "a.prom"
    path.write_bytes(text[:at] + junk + text[at + len(junk) :])
    try:
        assert_consistent(read(path))
    except InputError:
        return


@FORGIVING
@given(data=st.data())
def test_an_answer_with_a_wrong_value_is_an_error_or_consistent(tmp_path: Path, data: st.DataObject) -> None:
    answer = json.loads(json.dumps(range_answer({60.0 * k: engine(k) + gateway(k) for k in (1, 2)})))
    series = data.draw(st.sampled_from(answer["data"]["result"]))
    wrong: Any = data.draw(
        st.sampled_from([None, "x", "1e400", "-1", "NaN", "0.5", 3, [], {}, [[1, "2", "3"]], [["a", "1"]]])
    )
    place = data.draw(st.sampled_from(["metric", "values", "value", "sample"]))
    if place == "sample":
        series["values"][1][1] = wrong
    else:
        series[place] = wrong
    try:
        assert_consistent(read(save(tmp_path, "a.json", answer)))
    except InputError:
        return


# ---- which files --------------------------------------------------------------------------


def test_it_claims_its_own_files_and_no_other(shared: Path) -> None:
    for folder in ("results", "public-results"):
        for path in sorted((shared / folder).rglob("*")):
            if path.is_file():
                mine = path.parent.name == "prometheus"
                assert knows(prometheus, Source(path, path.name)) is mine, path


def test_its_fixtures_are_claimed_and_logs_are_not(tmp_path: Path) -> None:
    for path in CASES.rglob("*"):
        if path.is_file() and path.name != "ORIGIN.md" and path.parent.name != "empty":
            assert knows(prometheus, Source(path, path.name)), path
    for text in (
        "INFO 11-29 started\n# TYPE in C\n",
        "# HELP me\n",
        '{"status": "ok", "data": 3}',
        "a,b\n1,2\n",
    ):
        assert not knows(prometheus, Source(save(tmp_path, "log.txt", text), "log.txt"))


def test_the_dispatcher_reads_a_set_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "READERS", (*{*readers.READERS, prometheus},))
    found = readers.read([str(CASES / "typical")])
    assert [run.counts for run in found.runs] == [Counts(N, N, 0)] * 2
