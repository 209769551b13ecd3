"""LoadGen's files: which are one run, which are not its, and what is broken gives a sentence."""

from __future__ import annotations

import gzip
import itertools
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from gate.errors import InputError
from gate.readers import companions, knows, mlperf, runs_of
from tests.readers.mlperf_logs import CASES, DETAIL, SUMMARY, TRACE, copy, edited, read, said_by, source

ACCURACY = "mlperf_log_accuracy.json"
COMPLETE = re.compile(r'"complete_ns":(\d+)')


def packed(case: str, name: str) -> str:
    return gzip.decompress((CASES / case / f"{name}.gz").read_bytes()).decode()


def content(name: str) -> str:
    """A log of `typical`, unpacked."""
    path = CASES / "typical" / name
    if path.is_file():
        return path.read_text(encoding="utf-8")
    return gzip.decompress(path.with_name(name + ".gz").read_bytes()).decode()


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


# ---- which files ----------------------------------------------------------------------------


def test_of_one_run_the_richest_log_decides() -> None:
    files = {path.name: source(path) for path in (CASES / "typical").iterdir() if path.suffix != ".md"}
    covered = companions(mlperf, list(files.values()))
    assert {file.name for file in covered} == {SUMMARY, DETAIL, f"{ACCURACY}.gz"}
    assert f"{TRACE}.gz" in covered[files[SUMMARY]]
    del files[f"{TRACE}.gz"]
    assert {file.name for file in companions(mlperf, list(files.values()))} == {SUMMARY, f"{ACCURACY}.gz"}
    assert companions(mlperf, [files[SUMMARY]]) == {}


def test_runs_of_several_folders_stay_apart() -> None:
    sources = [source(CASES / case / DETAIL) for case in ("typical", "failures", "offline")]
    assert companions(mlperf, sources) == {}


def test_runs_of_one_folder_are_told_apart_by_their_prefix(tmp_path: Path) -> None:
    names = [f"{run}_{name}" for run in ("a", "b") for name in (SUMMARY, DETAIL)]
    for name in names:
        shutil.copy(CASES / "typical" / name[2:], tmp_path / name)
    covered = companions(mlperf, [source(tmp_path / name) for name in names])
    assert {file.name: why for file, why in covered.items()} == {
        f"a_{SUMMARY}": f"its requests are in a_{DETAIL}, which is read",
        f"b_{SUMMARY}": f"its requests are in b_{DETAIL}, which is read",
    }


def test_an_accuracy_run_is_no_result_and_is_skipped_beside_one(tmp_path: Path) -> None:
    accuracy, performance = tmp_path / "accuracy", tmp_path / "performance"
    accuracy.mkdir()
    performance.mkdir()
    shutil.copy(CASES / "typical" / SUMMARY, performance)
    text = "\nNo warnings encountered during test.\n\nNo errors encountered during test.\n"
    summary = source(write(accuracy, SUMMARY, text))
    detail = source(write(accuracy, DETAIL, content(DETAIL).replace("PerformanceOnly", "AccuracyOnly")))
    assert knows(mlperf, summary)
    for file in (summary, detail):
        with pytest.raises(InputError, match="of an accuracy run"):
            runs_of(mlperf, file)
    covered = companions(mlperf, [summary, detail, source(performance / SUMMARY)])
    assert set(covered) == {summary, detail}


def test_the_accuracy_log_is_no_result() -> None:
    file = source(CASES / "typical" / f"{ACCURACY}.gz")
    assert knows(mlperf, file)
    with pytest.raises(InputError, match="holds LoadGen's answers, not a result"):
        runs_of(mlperf, file)


def test_logs_of_two_runs_in_one_folder_are_an_error(tmp_path: Path) -> None:
    shutil.copy(CASES / "typical" / DETAIL, tmp_path)
    shutil.copy(CASES / "failures" / SUMMARY, tmp_path)
    for name in (DETAIL, SUMMARY):
        with pytest.raises(InputError, match=r"contradicts .*: other latencies there"):
            read(tmp_path / name)


def test_a_trace_of_another_run_is_an_error(tmp_path: Path) -> None:
    shutil.copy(CASES / "typical" / DETAIL, tmp_path)
    shutil.copy(CASES / "few-queries" / f"{TRACE}.gz", tmp_path)
    with pytest.raises(InputError, match="186 samples here, 830 there"):
        read(tmp_path / f"{TRACE}.gz")


@pytest.mark.parametrize("logs", [(DETAIL, SUMMARY), (DETAIL,), (SUMMARY,)])
def test_a_trace_of_another_run_with_as_many_samples_is_an_error(
    tmp_path: Path, logs: tuple[str, ...]
) -> None:
    copy("typical", tmp_path, *logs)  # VALID, 830 samples
    copy("failures", tmp_path, TRACE)  # 830 samples of a run with errors
    ns = sorted(int(at) for at in COMPLETE.findall(packed("failures", TRACE)))
    stated = said_by(CASES / "typical" / DETAIL)["result_50.00_percentile_latency_ns"]
    assert (len(ns), ns[415] != stated) == (830, True)
    with pytest.raises(InputError) as caught:
        read(tmp_path / f"{TRACE}.gz")
    assert f"contradicts {logs[0]}: the P50 of E2E is {ns[415] / 1e9:.9g} s by the samples here" in str(
        caught.value
    )
    assert f"{stated / 1e9:.9g} s there" in str(caught.value)
    assert caught.value.hint == "keep the logs of one run in one folder, as LoadGen wrote them"


@pytest.mark.parametrize("statistic", ["min_", "max_", "mean_", "99.90_percentile_", "first_token_mean_"])
@pytest.mark.parametrize("more_ns", [0, 3])
def test_a_trace_gives_every_figure_of_its_log_to_the_nanosecond(
    tmp_path: Path, statistic: str, more_ns: int
) -> None:
    copy("typical", tmp_path, TRACE)
    old = said_by(CASES / "typical" / DETAIL)[f"result_{statistic}latency_ns"]
    text = f'"result_{statistic}latency_ns", "value": '
    # 3 ns below the least, above the rest: the figures still ascend, and no sample is there.
    new = old - more_ns if statistic in ("min_", "mean_", "first_token_mean_") else old + more_ns
    changes = [(f"{text}{old}", f"{text}{new}")]
    if statistic == "99.90_percentile_":  # of 830 samples it is the maximum too
        changes.append(
            (f'"result_max_latency_ns", "value": {old}', f'"result_max_latency_ns", "value": {new}')
        )
    edited(tmp_path, DETAIL, *changes)
    if more_ns:
        with pytest.raises(
            InputError, match=r"contradicts mlperf_log_detail.txt: the .* by the samples here"
        ):
            read(tmp_path / f"{TRACE}.gz")
    else:
        assert read(tmp_path / f"{TRACE}.gz").counts.completed == 830


def test_an_accuracy_log_of_other_samples_is_an_error(tmp_path: Path) -> None:
    shutil.copy(CASES / "few-queries" / f"{TRACE}.gz", tmp_path)
    shutil.copy(CASES / "typical" / f"{ACCURACY}.gz", tmp_path)
    with pytest.raises(InputError, match="644 of its samples are not there"):
        read(tmp_path / f"{TRACE}.gz")


def test_exactly_its_own_shared_files_are_claimed(shared: Path) -> None:
    claimed = set()
    for root in ("results", "public-results"):
        for path in (shared / root).rglob("*"):
            try:
                if path.is_file() and knows(mlperf, source(path)):
                    claimed.add(path)
            except InputError:
                continue
    runs = shared / "results" / "mlperf-loadgen-6.0.17"
    expected = {path for name in (SUMMARY, DETAIL, TRACE) for path in runs.glob(f"*/{name}")}
    expected |= {runs / "server_valid_acclog" / ACCURACY}  # the others are the 4 bytes of an empty list
    expected |= {p for p in (shared / "public-results" / "mlperf").iterdir() if p.stat().st_size}
    assert len(expected) == 26
    assert claimed == expected


# ---- malformed ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (SUMMARY, "ends in the middle"),
        (DETAIL, "ends in the middle|the run was aborted"),
        (TRACE, "the trace ends in the middle"),
    ],
)
def test_a_log_cut_short_is_claimed_and_says_so(name: str, message: str) -> None:
    file = source(CASES / "truncated" / name)
    assert knows(mlperf, file)
    with pytest.raises(InputError, match=message):
        runs_of(mlperf, file)


@pytest.mark.parametrize("name", [SUMMARY, DETAIL, TRACE])
def test_a_log_cut_anywhere_is_an_input_error(tmp_path: Path, name: str) -> None:
    whole = content(name)
    end = whole.rfind("LastTrace") if name == TRACE else len(whole.rstrip()) - 20
    for offset in range(1, end, end // 30):
        with pytest.raises(InputError):
            read(write(tmp_path, name, whole[:offset]))


SUMMARY_LINES = [line for line in content(SUMMARY).splitlines() if " : " in line or "(ns)" in line]


@pytest.mark.parametrize("line", SUMMARY_LINES)
def test_a_summary_without_one_line_is_an_input_error_or_consistent(tmp_path: Path, line: str) -> None:
    path = write(tmp_path, SUMMARY, content(SUMMARY).replace(line + "\n", "", 1))
    try:
        run = read(path)
    except InputError:
        return
    assert run.counts.attempted == run.counts.completed >= 1
    assert "e2e" in run.tool_reported


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Scenario : Server", "Scenario : Interactive", 'scenario is "Interactive"'),
        ("Result is : VALID", "Result is : GOOD", 'result is "GOOD"'),
        ("99.00 percentile latency (ns)   : ", "99.00 percentile latency (ns)   : x", "expected a number"),
        (
            "99.00 percentile latency (ns)   : ",
            "99.00 percentile latency (ns)   : 9",
            "a higher percentile of E2E is lower",
        ),
        (
            "Min latency (ns)                : ",
            "Min latency (ns)                : -",
            "negative time for E2E",
        ),
        (
            "Max latency (ns)                : ",
            "Max latency (ns)                : nan #",
            "expected a number",
        ),
        ("99.90 percentile latency", "999.0 percentile latency", "not between 0 and 100"),
        ("99.90 percentile latency", "9.9.0 percentile latency", None),
        ("samples_per_query : 1", "samples_per_query : 1.5", "expected a count"),
        ("min_query_count : 100", "min_query_count : -100", "expected a count"),
    ],
)
def test_a_summary_that_cannot_be_is_an_error(
    tmp_path: Path, old: str, new: str, message: str | None
) -> None:
    assert old in content(SUMMARY)
    if message is None:
        run = read(write(tmp_path, SUMMARY, content(SUMMARY).replace(old, new, 1)))
        assert [percent for percent, _ in run.tool_reported["e2e"].percentiles] == [50, 90, 95, 97, 99]
        return
    with pytest.raises(InputError, match=message):
        read(write(tmp_path, SUMMARY, content(SUMMARY).replace(old, new, 1)))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("result_query_count", "-830", "expected a count"),
        ("result_query_count", "nan", None),
        ("result_query_count", '"many"', "expected a number"),
        ("result_validity", "true", 'result is "Yes"'),
        ("result_99.00_percentile_latency_ns", "nan", "missing or no number"),
        ("result_99.00_percentile_latency_ns", "1", "a higher percentile of E2E is lower"),
        ("result_first_token_min_latency_ns", "-5", "negative time for TTFT"),
        ("result_completed_samples_per_sec", "inf", None),
        ("num_errors", "[]", "expected a number"),
    ],
)
def test_a_detail_log_with_another_value_is_an_error_or_consistent(
    tmp_path: Path, key: str, value: str, message: str | None
) -> None:
    lines = content(DETAIL).splitlines(True)
    at = next(i for i, line in enumerate(lines) if f'"key": "{key}"' in line)
    head, tail = lines[at].split('"value": ')[0], lines[at].split(', "time_ms"', 1)[1]
    lines[at] = f'{head}"value": {value}, "time_ms"{tail}'
    path = write(tmp_path, DETAIL, "".join(lines))
    if message is None:
        run = read(path)
        assert run.counts.attempted == run.counts.completed >= 1
        return
    with pytest.raises(InputError, match=message):
        read(path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"complete_ns":', '"complete_ns":x', "Sample event is malformed"),
        ('"issue_to_done":', '"issue_to_done":"', "Token_Latency event is malformed"),
        ('"sample_seq":1,', '"sample_seq":0,', "sample 0 completes twice"),
        ('"issue_delay":', '"issue_delay":9', "first tokens belong to no completed sample"),
    ],
)
def test_a_trace_that_cannot_be_is_an_error(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in content(TRACE)
    with pytest.raises(InputError, match=message):
        read(write(tmp_path, TRACE, content(TRACE).replace(old, new, 1)))


def test_a_trace_without_a_sample_is_an_error(tmp_path: Path) -> None:
    lines = [line for line in content(TRACE).splitlines(True) if '"Sample"' not in line]
    with pytest.raises(InputError, match="holds no completed sample"):
        read(write(tmp_path, TRACE, "".join(line for line in lines if "Token_Latency" not in line)))


_NUMBERS = itertools.count()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from([SUMMARY, DETAIL]), st.integers(0, 40_000), st.sampled_from('0-x"{}: \n9N'))
def test_a_log_with_one_other_letter_is_an_input_error_or_consistent(
    tmp_path: Path, name: str, at: int, letter: str
) -> None:
    text = content(name)
    at %= len(text)
    folder = tmp_path / str(next(_NUMBERS))
    folder.mkdir()
    path = write(folder, name, text[:at] + letter + text[at + 1 :])
    try:
        run = read(path)
    except InputError:
        return
    assert run.counts.attempted == run.counts.completed + run.counts.failed >= 1
