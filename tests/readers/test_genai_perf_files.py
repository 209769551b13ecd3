"""GenAI-Perf's files: which belong to one run, which contradict each other, which are broken."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from gate import policy
from gate.errors import InputError
from gate.evaluate import evaluate
from gate.model import Aggregate, Load, Run, Verdict, Why
from gate.readers import aiperf, companions, genai_perf, knows, runs_of
from gate.readers.source import Source
from tests.readers.test_genai_perf import (
    CASES,
    EXACT,
    HERE,
    START,
    answer,
    made,
    raw,
    read,
    rows,
    said,
    source,
    statistics,
    words,
)

# ---- traps: summaries -----------------------------------------------------------------------------


def test_a_summary_that_does_not_count_its_requests_is_not_judged() -> None:
    run = read(HERE / "old" / "profile_export_genai_perf.json")
    assert run.counts.attempted == 0
    assert [doubt.code for doubt in run.doubts] == [Why.COUNTS_UNKNOWN, Why.NO_GAPS, Why.ABSENT]
    assert set(run.doubted) == {"attempted", "error_rate", "itl"}
    assert isinstance(run.evidence, Aggregate)
    assert run.load == Load(concurrency=6)
    rules = policy.parse(
        b"version: 1\nname: p\nslo: {ttft: {p50: 5s}, e2e: {p50: 5s}}\nevidence: {decide: point}\n", "p.yaml"
    )
    report = evaluate(rules, [run], date(2026, 12, 1))
    assert {check.verdict for check in report.checks} == {Verdict.INCONCLUSIVE}
    assert report.runs[0].metrics["e2e_s"].p50 == pytest.approx(0.317341178)


def test_thousands_separators_are_no_decimals(tmp_path: Path) -> None:
    text = "Metric,avg,min,max,p99,p95\n"
    text += 'Request Latency (ms),"3,228.73",118.95,"12,345,678.90","3,304.80",3297.14\n'
    (tmp_path / "a.csv").write_text(text + '\nMetric,Value\nRequest Count (count),"1,500.00"\n')
    run = read(tmp_path / "a.csv")
    assert isinstance(run.evidence, Aggregate)
    assert run.counts.completed == 1500
    assert run.evidence.summaries["e2e"].mean == pytest.approx(3.22873)
    assert run.evidence.summaries["e2e"].max == pytest.approx(12345.6789)
    assert dict(run.evidence.summaries["e2e"].percentiles) == pytest.approx({95.0: 3.29714, 99.0: 3.3048})


@pytest.mark.parametrize(("stated", "word"), [(151.0, "counts 151"), (150.0, "mean request latency")])
def test_a_summary_of_another_run_is_a_contradiction(tmp_path: Path, stated: float, word: str) -> None:
    told = said(HERE / "typical")
    told["request_count"]["avg"] = stated
    told["request_latency"] = {k: v if k == "unit" else 2 * v for k, v in told["request_latency"].items()}
    shutil.copy(raw(HERE / "typical"), tmp_path)
    (tmp_path / "profile_export_genai_perf.json").write_text(json.dumps(told))
    with pytest.raises(InputError, match=word):
        read(tmp_path / "profile_export.json.gz")


@pytest.mark.parametrize("case", [*CASES, "old"])
def test_of_a_whole_folder_only_the_raw_export_is_read(case: str) -> None:
    sources = [source(path) for path in sorted((HERE / case).iterdir()) if path.suffix != ".md"]
    assert all(knows(genai_perf, one) for one in sources)
    left = set(sources) - companions(genai_perf, sources).keys()
    assert [one.name for one in left] == [
        next(n.name for n in sources if "_genai_perf" not in n.name).strip()
    ]


def test_a_summary_stands_for_its_csv() -> None:
    sources = [source(path) for path in (HERE / "typical").glob("*_genai_perf.*")]
    (skipped,) = companions(genai_perf, sources)
    assert skipped.name.endswith(".csv")


def test_each_experiment_is_a_run(tmp_path: Path) -> None:
    first = {"experiment": {"mode": "concurrency", "value": 1}, "requests": [words(10)]}
    second = {"experiment": {"mode": "request_rate", "value": 2.5}, "requests": [words(10), words(20)]}
    path = made(tmp_path / "a.json", [], experiments=[first, second])
    one, two = runs_of(genai_perf, source(path))
    assert (one.load, two.load) == (Load(concurrency=1), Load(request_rate=2.5))
    assert (one.counts.attempted, two.counts.attempted) == (1, 2)


# ---- public files ---------------------------------------------------------------------------------


def test_the_public_export_of_24_08_reproduces_its_summary(shared: Path, tmp_path: Path) -> None:
    public = shared / "public-results" / "genai_perf"
    shutil.copy(public / "001_c1_profile_export.json", tmp_path / "200_50.json")
    shutil.copy(public / "002_c1_summary.json", tmp_path / "profile_export_genai_perf.json")
    told, run = said(tmp_path), read(tmp_path / "200_50.json")
    r = rows(run)
    assert r.ttft_s is not None
    assert r.e2e_s is not None
    for tag, values in (("time_to_first_token", r.ttft_s), ("request_latency", r.e2e_s)):
        for key in ("avg", "min", "max", "p25", "p50", "p75", "p90", "p95", "p99"):
            assert statistics(values * 1e3)[key] == pytest.approx(told[tag][key], rel=EXACT), (tag, key)
    assert run.total_output_tokens == 53 * 50  # usage; the tool's tokenizer said 57.89 a request
    assert any("57.89" in note for note in run.notes)
    assert run.duration_s is not None
    assert 53 / run.duration_s == pytest.approx(told["request_throughput"]["avg"], rel=EXACT)


def test_the_public_csv_with_separators_is_read(shared: Path) -> None:
    run = read(shared / "public-results" / "genai_perf" / "006_c100_csv.csv")
    assert isinstance(run.evidence, Aggregate)
    assert run.evidence.summaries["ttft"].mean == pytest.approx(1.01969)
    assert dict(run.evidence.summaries["e2e"].percentiles)[99] == pytest.approx(3.3048)


def test_only_its_own_files_are_claimed(shared: Path) -> None:
    for path in sorted([*(shared / "results").rglob("*"), *(shared / "public-results").rglob("*")]):
        if not path.is_file() or path.suffix in (".md", ".tsv"):
            continue
        ours = path.name.startswith("profile_export") and "genai-perf-0.0.16" in path.parts
        ours |= "public-results" in path.parts and path.parent.name == "genai_perf"
        try:
            claimed = knows(genai_perf, source(path))
            both = claimed and knows(aiperf, source(path))
        except InputError:
            claimed = both = False
        assert (claimed, both) == (ours, False), path


# ---- broken files ---------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["empty", "truncated"])
def test_an_empty_or_truncated_file_is_an_input_error(case: str) -> None:
    with pytest.raises(InputError) as caught:
        read(HERE / case / "profile_export.json")
    assert caught.value.where.startswith("profile_export.json")
    assert ("ends in the middle" in caught.value.message) == (case == "truncated")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"timestamp": "noon"}, "expected `int`"),
        ({"timestamp": -1}, ">= 0"),
        ({"response_timestamps": [START]}, "response_timestamps has 1 values, response_outputs has 6"),
        ({"response_outputs": None}, "expected `array`"),
        ({"response_outputs": [{"response": "data: {\n\n"}] * 6}, "an answer is not readable"),
        ({"response_outputs": [{"response": "data: " + "[" * 9999}] * 6}, "an answer is not readable"),
    ],
)
def test_a_broken_request_is_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = made(tmp_path / "a.json", [words(10, 20, 30), words(10, 20, 30) | change])
    with pytest.raises(InputError) as caught:
        read(path)
    assert message in str(caught.value)
    assert "requests[1]" in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"service_kind": "triton"}, 'service kind "triton" is not supported'),
        ({"experiments": []}, "holds no request"),
        ({"experiments": {}}, "expected `array"),
    ],
)
def test_an_export_of_something_else_is_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read(made(tmp_path / "a.json", [words(10)], **changes))


def test_embeddings_are_answers_without_a_token(tmp_path: Path) -> None:
    body = json.dumps({"object": "list", "data": [{"embedding": [0.1, 0.2]}]})
    run = read(made(tmp_path / "a.json", [answer((10, body)), answer((30, body), start=START + 1000)]))
    assert (run.counts.completed, run.counts.failed) == (0, 2)
    assert rows(run).tokenless is not None
    assert rows(run).tokenless.all()
    assert rows(run).e2e_s is not None
    assert rows(run).e2e_s.tolist() == [0.01, 0.03]


def test_experiments_that_name_no_load_are_not_told_apart(tmp_path: Path) -> None:
    first = {"experiment": {"mode": "concurrency", "value": 1}, "requests": [words(10)]}
    path = made(tmp_path / "a.json", [], experiments=[first, {"requests": [words(10)]}])
    one, two = runs_of(genai_perf, source(path))
    assert Why.SEVERAL_LOADS not in {doubt.code for doubt in one.doubts}
    assert two.doubts[0].code is Why.SEVERAL_LOADS


def test_requests_asked_for_that_are_in_no_file_are_missed(tmp_path: Path) -> None:
    told = said(HERE / "typical")
    told["input_config"]["perf_analyzer"]["measurement"]["num"] = 160
    shutil.copy(raw(HERE / "typical"), tmp_path)
    (tmp_path / "profile_export_genai_perf.json").write_text(json.dumps(told))
    for name in ("profile_export.json.gz", "profile_export_genai_perf.json"):
        assert [d.requests for d in read(tmp_path / name).doubts if d.code is Why.LOST_ROWS] == [10]


def test_answers_that_stop_short_of_their_usage_are_doubted(tmp_path: Path) -> None:
    usage = 'data: {"choices": [], "usage": {"completion_tokens": 20}}\n\n'
    event = 'data: {"choices": [{"delta": {"content": "a"}}]}\n\n'
    cut = [answer(*((10 * at, event) for at in range(1, 21 if n else 4)), (300, usage)) for n in range(20)]
    (doubt,) = [d for d in read(made(tmp_path / "a.json", cut)).doubts if d.code is Why.CUT_ROWS]
    assert doubt.requests == 1
    assert {"goodput", "error_rate"} <= set(doubt.of)


def test_the_duration_of_a_csv_comes_from_its_larger_numbers() -> None:
    whole = read(HERE / "typical" / "profile_export_genai_perf.json").duration_s
    assert whole is not None
    assert read(HERE / "typical" / "profile_export_genai_perf.csv").duration_s == pytest.approx(
        whole, rel=2e-4
    )
    assert read(raw(HERE / "typical")).date == "2026-11-29"


def test_embeddings_have_no_tokens_to_time(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no chat or completion answer"):
        read(made(tmp_path / "a.json", [answer((10, '{"object": "list", "data": []}'))]))


def consistent(path: Path) -> None:
    """Reads, or raises InputError with a sentence and the file's name."""
    one = Source(path, path.name, gaps=True)
    refusal: InputError | None = None
    runs: Sequence[Run] = []
    try:
        runs = runs_of(genai_perf, one) if knows(genai_perf, one) else []
    except InputError as error:
        refusal = error
    assert refusal is None or (refusal.message and refusal.where.startswith(path.name))
    for run in runs:
        assert run.counts.attempted == run.counts.completed + run.counts.failed


@pytest.mark.parametrize(
    "name",
    [
        "failures/profile_export.json",
        "typical/profile_export_genai_perf.json",
        "typical/profile_export_genai_perf.csv",
    ],
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.floats(0, 1), damage=st.binary(max_size=3))
def test_a_file_cut_or_damaged_anywhere_never_crashes(
    tmp_path: Path, name: str, cut: float, damage: bytes
) -> None:
    data = (HERE / name).read_bytes()
    at, path = int(cut * len(data)), tmp_path / Path(name).name
    path.write_bytes(data[:at])
    consistent(path)
    path.write_bytes(data[:at] + damage + data[at + len(damage) :])
    consistent(path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**65), 2**65) | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["choices", "delta", "avg"]), inner)
    ),
    max_leaves=4,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(key=st.sampled_from(sorted(said(HERE / "typical"))), value=JSON)
def test_a_summary_with_any_value_anywhere_never_crashes(tmp_path: Path, key: str, value: object) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(said(HERE / "typical") | {key: value}))
    consistent(path)
    whole = said(HERE / "typical")
    path.write_text(json.dumps({k: v for k, v in whole.items() if k != key}))
    consistent(path)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(key=st.sampled_from(sorted(words(10))), value=JSON, body=JSON)
def test_a_request_with_any_value_anywhere_never_crashes(
    tmp_path: Path, key: str, value: object, body: object
) -> None:
    consistent(made(tmp_path / "a.json", [words(10, 20), words(10, 20) | {key: value}]))
    consistent(made(tmp_path / "a.json", [words(10, 20), answer((5, f"data: {json.dumps(body)}\n\n"))]))


def test_a_gzipped_export_is_the_same_export(tmp_path: Path) -> None:
    plain = tmp_path / "profile_export.json"
    plain.write_bytes(gzip.decompress(raw(HERE / "typical").read_bytes()))
    shutil.copy(HERE / "typical" / "profile_export_genai_perf.json", tmp_path)
    assert read(plain).counts == read(raw(HERE / "typical")).counts
    assert read(plain).doubted == {}


def test_no_file_of_either_nvidia_tool_is_claimed_by_both() -> None:
    for tool in ("aiperf", "genai-perf"):
        for path in [*sorted((HERE.parent / tool).rglob("*profile_export*")), HERE / "old" / "200_50.json"]:
            if "empty" in path.parts or (tool == "genai-perf" and "truncated" in path.parts):
                continue
            claims = [reader.NAME for reader in (aiperf, genai_perf) if knows(reader, source(path))]
            assert claims == ["genai-perf" if "genai-perf" in path.parts else "aiperf"], path
