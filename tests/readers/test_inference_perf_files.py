"""inference-perf's files: which belong to one run, which contradict each other, which are broken."""

from __future__ import annotations

import copy
import json
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings, strategies as st

from gate.errors import InputError
from gate.model import Requests, Why
from gate.readers import companions, inference_perf, knows, runs_of
from gate.readers.files import SIDE_FILES
from tests.readers.inference_perf_results import (
    HERE,
    REQUESTS,
    STAGE,
    SUMMARY,
    aggregate,
    failed,
    one,
    raw,
    read,
    row,
    source,
    written,
)

PROMETHEUS = {"load_summary": {}, "successes": {"count": 9, "request_latency": {"p99": 1.0}}, "failures": {}}

# ---- companions -----------------------------------------------------------------------------------


def covered(folder: Path) -> dict[str, str]:
    claimed = [s for s in map(source, sorted(folder.iterdir())) if knows(inference_perf, s)]
    return {one.name: why for one, why in companions(inference_perf, claimed).items()}


def test_of_a_whole_folder_only_the_requests_are_read() -> None:
    found = covered(HERE / "stages")
    assert set(found) == {"config.yaml", STAGE.format(0), STAGE.format(1), SUMMARY}
    assert found[SUMMARY] == f"its requests are in {REQUESTS}.gz, which is read"


def test_without_requests_the_stages_are_read_and_not_their_summary(tmp_path: Path) -> None:
    for name in (STAGE.format(0), STAGE.format(1), SUMMARY):
        (tmp_path / name).write_bytes((HERE / "stages" / name).read_bytes())
    assert set(covered(tmp_path)) == {SUMMARY}


def test_a_prefix_of_the_users_keeps_a_run_together(tmp_path: Path) -> None:
    written(tmp_path / f"nightly_{REQUESTS}", [row(n) for n in range(3)])
    written(tmp_path / f"nightly_{STAGE.format(0)}", aggregate())
    written(tmp_path / f"other_{STAGE.format(0)}", aggregate())
    assert set(covered(tmp_path)) == {f"nightly_{STAGE.format(0)}"}
    assert one(tmp_path / f"nightly_{REQUESTS}").load is not None


def test_prometheus_metrics_are_known_by_their_content(shared: Path) -> None:
    path = shared / "public-results" / "inference_perf" / "004_prometheus_stage0.json"
    assert knows(inference_perf, source(path))
    with pytest.raises(InputError, match="server-side Prometheus metrics, not a result"):
        read(path)


def test_a_side_file_beside_a_result_is_skipped(tmp_path: Path) -> None:
    written(tmp_path / "renamed.json", PROMETHEUS)
    (tmp_path / "mine.yml").write_text("api: {}\nload: {}\nserver: {}\n")
    assert covered(tmp_path) == {}
    written(tmp_path / REQUESTS, [row()])
    assert set(covered(tmp_path)) == {"renamed.json", "mine.yml"}


@pytest.mark.parametrize(
    "name",
    [
        "stage_0_prometheus_metrics.json",
        "nightly_summary_prometheus_metrics.json",
        "inference-perf.partial.stage_3.yaml",
        "validation.json",
        "config.yaml",
        "adapter_a_lifecycle_metrics.json",
        "summary_session_lifecycle_metrics.json",
    ],
)
def test_what_the_tool_writes_besides_is_skipped_by_name(name: str) -> None:
    assert any(fnmatch(name, pattern) for pattern in SIDE_FILES[inference_perf.NAME])


@pytest.mark.parametrize("name", [REQUESTS, STAGE.format(0), SUMMARY, f"nightly_{SUMMARY}"])
def test_no_result_is_skipped_by_name(name: str) -> None:
    assert not any(fnmatch(name, pattern) for pattern in SIDE_FILES[inference_perf.NAME])


def test_a_stage_kept_as_yaml_is_that_stage(tmp_path: Path) -> None:
    """As llm-d-benchmark keeps it: the keys of the JSON."""
    stage = raw(HERE / "typical" / STAGE.format(0))
    path = tmp_path / STAGE.format(0).replace(".json", ".yaml")
    path.write_text(yaml.safe_dump(stage))
    assert knows(inference_perf, source(path))
    ours, theirs = one(path), one(HERE / "typical" / STAGE.format(0))
    assert (ours.evidence, ours.counts, ours.load) == (theirs.evidence, theirs.counts, theirs.load)
    written(tmp_path / SUMMARY, raw(HERE / "typical" / SUMMARY))
    assert set(covered(tmp_path)) == {SUMMARY}


VALIDATION = {
    "global": {"warnings": [], "errors": []},
    "reports": {STAGE.format(0): {"warnings": [{"message": "tokens diverge"}], "errors": []}},
}


def test_what_the_tool_says_of_its_own_reports_is_believed(tmp_path: Path) -> None:
    path = written(tmp_path / STAGE.format(0), aggregate())
    written(tmp_path / "validation.json", VALIDATION)
    assert one(path).doubts == ()
    bad: Any = copy.deepcopy(VALIDATION)
    bad["reports"][STAGE.format(0)]["errors"] = [{"check": "counts", "message": "counts do not reconcile"}]
    written(tmp_path / "validation.json", bad)
    rows = written(tmp_path / REQUESTS, [row(n) for n in range(3)])
    for run in (one(path), one(rows)):
        assert [doubt.code for doubt in run.doubts] == [Why.TOOL_SAYS_INVALID]
        assert "validation.json: counts do not reconcile" in run.doubted["e2e"]


@pytest.mark.parametrize("text", ["{", "[]", '{"global": {"errors": []}}', '{"global": null, "reports": {}}'])
def test_a_word_of_the_tool_that_is_cut_short_is_no_good_word(tmp_path: Path, text: str) -> None:
    (tmp_path / "validation.json").write_text(text)
    run = one(written(tmp_path / STAGE.format(0), aggregate()))
    assert [doubt.code for doubt in run.doubts] == [Why.TOOL_SAYS_INVALID]


# ---- contradictions -------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "stated"), [(2, 3), (4, 3)])
def test_rows_that_stage_files_do_not_count_are_a_contradiction(
    tmp_path: Path, number: int, stated: int
) -> None:
    written(tmp_path / STAGE.format(0), aggregate(stated))
    path = written(tmp_path / REQUESTS, [row(n) for n in range(number)])
    with pytest.raises(InputError, match=f"holds {number} requests, they count {stated}"):
        read(path)


def test_failures_in_another_stage_than_stated_are_a_contradiction(tmp_path: Path) -> None:
    written(tmp_path / STAGE.format(0), aggregate(3))
    written(tmp_path / STAGE.format(1), aggregate(2, 1))
    path = written(tmp_path / REQUESTS, [failed(0), *(row(n) for n in range(1, 6))])
    with pytest.raises(InputError, match=r"contradicts stage_0.*: 1 of its requests failed, not 0"):
        read(path)


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (aggregate(load={"count": 9}), "3 completed and 0 failed are not 9"),
        (aggregate(-1), "expected `int` >= 0"),
        (aggregate(seconds=-2.0), "a duration of -2"),
        (aggregate(latency={"request_latency": {"p50": -1.0}}), "a negative time for E2E"),
        (
            aggregate(latency={"request_latency": {"median": 2.0, "p99": 1.0}}),
            "a higher percentile of E2E is lower",
        ),
        (aggregate(successes={"count": "many"}), "expected `int`"),
        (aggregate(failures={}), "missing required field `count`"),
        (aggregate(latency={"request_latency": [1]}), "expected `object"),
    ],
)
def test_an_aggregate_that_contradicts_itself_is_refused(tmp_path: Path, made: Any, why: str) -> None:
    path = written(tmp_path / "a.json", made)
    assert knows(inference_perf, source(path))
    with pytest.raises(InputError, match=why):
        read(path)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"start_time": ...}, "claimed"),
        ({"end_time": "late"}, "expected `float`"),
        ({"end_time": float("nan")}, "expected `float`"),
        ({"response": {"output_tokens": -1}}, "expected `int` >= 0"),
        ({"times": [0.1, None]}, "expected `float`"),
        ({"error": 500}, "expected `object"),
    ],
)
def test_a_row_of_wrong_types_is_refused(tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    path = written(tmp_path / REQUESTS, [row(), row(**changes)])
    with pytest.raises(InputError, match="start_time" if why == "claimed" else why):
        read(path)


# ---- broken files -----------------------------------------------------------------------------------


def test_an_empty_list_holds_no_request() -> None:
    with pytest.raises(InputError, match="holds no request"):
        read(HERE / "empty" / REQUESTS)


def test_a_truncated_file_ends_in_the_middle() -> None:
    assert not knows(inference_perf, source(HERE / "truncated" / REQUESTS))
    with pytest.raises(InputError, match="ends in the middle"):
        read(HERE / "truncated" / REQUESTS)


def consistent(path: Path) -> None:
    """Any file gives an InputError or runs whose counts are those of their rows."""
    try:
        one = source(path, gaps=True)
        runs = runs_of(inference_perf, one) if knows(inference_perf, one) else []
    except InputError as error:
        assert error.message
        return
    for run in runs:
        assert run.counts.attempted == run.counts.completed + run.counts.failed
        if isinstance(run.evidence, Requests):
            assert run.counts.attempted == len(run.evidence.status)


ROWS = [row(0), row(1, computed_metrics={"time_to_first_token": 0.1, "output_tokens": 10}), failed(2)]
STAGES = aggregate(2, 1)


def paths(node: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [at] * bool(at) + [deeper for key, value in inner for deeper in paths(value, (*at, key))]


DROP = object()
JUNK = [DROP, None, "text", -1, 0, 1e308, float("nan"), float("inf"), [], {}, [None], True, 10**30]


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), junk=st.sampled_from(JUNK), whole=st.sampled_from([ROWS, STAGES]))
def test_one_wrong_value_anywhere_is_never_a_crash(
    tmp_path: Path, data: st.DataObject, junk: Any, whole: Any
) -> None:
    made = copy.deepcopy(whole)
    where = data.draw(st.sampled_from(paths(whole)))
    node = made
    for key in where[:-1]:
        node = node[key]
    if junk is DROP:
        del node[where[-1]]
    else:
        node[where[-1]] = junk
    alone, beside = tmp_path / "alone", tmp_path / "beside"
    for folder in (alone, beside):
        folder.mkdir(exist_ok=True)
    consistent(written(alone / "a.json", made))
    written(beside / STAGE.format(0), made if isinstance(made, dict) else STAGES)
    consistent(written(beside / REQUESTS, made if isinstance(made, list) else ROWS))


@pytest.mark.parametrize("whole", [ROWS, STAGES])
def test_a_file_cut_anywhere_is_never_a_crash(tmp_path: Path, whole: Any) -> None:
    text = json.dumps(whole)
    for end in range(0, len(text), max(1, len(text) // 80)):
        (tmp_path / "a.json").write_text(text[:end])
        consistent(tmp_path / "a.json")


@pytest.mark.parametrize("text", ["", "{", "- 1", "load: 5", "load: {stages: 7}", "server: {model_name: []}"])
def test_a_configuration_that_cannot_be_read_takes_nothing_away(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.yaml").write_text(text)
    assert one(written(tmp_path / REQUESTS, [row()])).counts.completed == 1


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        '[{"start_time": 1, "end_time": 2}]',
        '[{"error_code": null, "ttft_s": 0.1}]',
        '{"load_summary": {}}',
        "load: {}\nother: {}\n",
        "version: 0.2.1\nrun: {eid: inference-perf-experiment-1}\nresults: {}\n",
    ],
)
def test_another_tools_file_is_not_claimed(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.txt").write_text(text)
    assert not knows(inference_perf, source(tmp_path / "a.txt"))
