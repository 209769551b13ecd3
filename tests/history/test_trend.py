"""`slo-gate trend`: figures over commits, change points, what fails since when; in every output alike."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from msgspec.structs import replace

from gate import history
from gate.advise.trend import trend
from gate.emit import page, trend as emitter
from gate.emit.spark import spark
from gate.model import Level, RecordedMetric, RecordedPolicy, SessionRecord, Trend, Verdict
from tests.conftest import Process, environment
from tests.history import made

SIXTY = made.sessions()
_ADD = """
from gate import history
from tests.history import made
history.add(history.open_store("git:kept"), reversed(made.sessions()))
"""


def of(records: list[SessionRecord]) -> Trend:
    return trend(records, "main", {})


def test_the_change_is_found_at_its_commit_with_its_size_and_a_search() -> None:
    (subject,) = of(SIXTY).subjects
    (load,) = subject.loads
    (change,) = load.changes
    assert change.commit == made.commit(made.STEP_AT) == subject.sessions[change.at].commit
    assert change.good < made.STEP_AT <= change.bad
    assert change.bisect == f"git bisect start {made.commit(change.bad)} {made.commit(change.good)}"
    latency = [one for one in change.moves if one.interval_of == "ratio"]
    assert {one.series for one in latency} >= {"ttft.p50", "tpot.p90", "e2e.p99"}
    for one in latency:
        assert one.interval[0] < 0.08 < one.interval[1]
        assert one.worse
        assert one.after / one.before - 1 == pytest.approx(one.change)
    (goodput,) = [one for one in change.moves if one.series == "goodput"]
    assert goodput.interval_of == "points"
    assert goodput.worse
    assert goodput.change < 0


def test_figures_are_those_of_the_records() -> None:
    (subject,) = of(SIXTY).subjects
    known = {one.id: one for one in subject.loads[0].series}
    for at in (0, 17, 59):
        runs = SIXTY[at].runs
        logs = [math.log(run.metrics["ttft_s"].p99 or 0) for run in runs]
        assert known["ttft.p99"].values[at] == pytest.approx(math.exp(sum(logs) / len(logs)))
        good = [(run.goodput or 0) * 300 for run in runs]
        assert known["goodput"].values[at] == pytest.approx(sum(good) / 1500)
        assert known["error_rate"].values[at] == 0
    assert known["ttft.p99"].bounds == (made.BOUND_S,) * 60
    assert set(known["ttft.p90"].bounds) == {None}


def test_an_objective_fails_since_the_first_of_the_last_failures() -> None:
    slow = made.sessions(20, step=0.5, at=12)
    (rule,) = of(slow).subjects[0].objectives
    assert (rule.id, rule.level, rule.verdict) == ("ttft.p99", Level.BLOCK, Verdict.FAIL)
    assert (rule.failing, rule.since) == (8, made.commit(12))
    # What nobody knows neither fails it nor ends the row.
    unknown = replace(slow[15].objectives[0], verdict=Verdict.INCONCLUSIVE, cause="evidence")
    slow[15] = made.sealed(
        replace(slow[15], objectives=(unknown,), verdict=Verdict.INCONCLUSIVE, exit_code=4)
    )
    (rule,) = of(slow).subjects[0].objectives
    assert (rule.failing, rule.since) == (7, made.commit(12))


def test_models_hardware_tools_and_loads_are_never_mixed() -> None:
    records = [
        made.session(10 * day + at, made.runs(made.np.random.default_rng((day, at)), 1.0, **facts))
        for day in range(12)
        for at, facts in enumerate(
            (
                {"model": "a", "hardware": "H100"},
                {"model": "a", "hardware": "H200"},
                {"model": "b", "hardware": "H100"},
                {"model": "b", "hardware": "H100", "concurrency": 64},
                {"model": "b", "hardware": "H100", "tool": "sglang"},
            )
        )
    ]
    found = of(records)
    assert [(s.model, s.hardware, s.tool, [x.load for x in s.loads]) for s in found.subjects] == [
        ("b", "H100", "sglang", ["concurrency 16"]),
        ("a", "H100", "vllm-bench", ["concurrency 16"]),
        ("a", "H200", "vllm-bench", ["concurrency 16"]),
        ("b", "H100", "vllm-bench", ["concurrency 16", "concurrency 64"]),
    ]
    assert all(not load.changes for subject in found.subjects for load in subject.loads)
    grid = emitter.matrix(found)
    assert grid is not None
    assert grid.headers == ("model", "H100", "H200")
    assert [row[0] for row in grid.rows] == ["b", "a"]
    assert grid.rows[0][2] == "-"
    assert "PASS" in grid.rows[1][1]


def test_what_else_changed_is_marked() -> None:
    records = made.sessions(6)
    other = RecordedPolicy("chat", "b" * 64)
    newer, longer = (
        tuple(replace(run, tool_version="0.10", output_tokens=tokens) for run in records[3].runs)
        for tokens in (150.0, 300.0)
    )
    facts: dict[int, dict[str, Any]] = {
        1: {"policy": other},
        2: {"policy": other, "tags": ("v1.0",)},
        3: {"policy": other, "runs": newer},
        4: {"policy": other, "runs": longer},
    }
    for at, changed in facts.items():
        records[at] = made.sealed(replace(records[at], **changed))
    waived = replace(records[5].objectives[0], verdict=Verdict.FAIL, waived="serving until 2027-02-01")
    records[5] = made.sealed(
        replace(records[5], objectives=(waived,), policy=records[4].policy, verdict=Verdict.WARN)
    )
    marks = [[mark.kind for mark in one.marks] for one in of(records).subjects[0].sessions]
    assert marks[:5] == [[], ["policy"], ["release"], ["tool"], ["workload"]]
    assert "waiver" in marks[5]


def test_a_change_between_sessions_of_one_commit_is_not_the_code() -> None:
    records = [made.sealed(replace(one, commit="c" * 40)) for one in made.sessions(step=0.3)]
    (change,) = of(records).subjects[0].loads[0].changes
    assert change.bisect == ""
    assert "not the code" in emitter.text(of(records), verbose=True)


def test_git_takes_the_line_of_the_search(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(tmp_path), *words], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    git("init", "-q")
    commits = []
    for _ in range(60):
        git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x")
        commits.append(git("rev-parse", "HEAD"))
    records = [made.sealed(replace(one, commit=sha)) for one, sha in zip(SIXTY, commits, strict=True)]
    found = of(records)
    (change,) = found.subjects[0].loads[0].changes
    line = next(one.strip() for one in emitter.text(found).splitlines() if "git bisect" in one)
    said = git(*line.split()[1:])
    assert "bisecting" in said.lower() or "first bad commit" in said
    assert git("rev-parse", "refs/bisect/bad") == commits[change.bad]


# ---- outputs ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("trend") / "store"
    history.add(history.open_store(str(path)), SIXTY)
    return str(path)


def test_the_schema_is_that_of_the_noun_and_the_output_fits_it(
    store: str, slo_gate: Process, golden: Callable[[str, str], None]
) -> None:
    ours = msgspec.json.schema(Trend)
    ours = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:slo-gate:schema:trend:1",
        "title": "slo-gate trend",
        "description": "What `slo-gate trend STORE --format json` prints. Version 1 is additive-only: keys "
        "may be added, so readers ignore keys they do not know; a key that is here keeps its name, type, "
        "unit and meaning. Base units: seconds and shares (0 to 1).",
        **ours,
    }
    golden("../../schemas/trend.schema.json", json.dumps(ours, indent=2) + "\n")
    first, again = (slo_gate("trend", store, "--format", "json") for _ in range(2))
    assert first.returncode == 0, first.stderr
    assert first.stdout == again.stdout
    document = json.loads(first.stdout)
    jsonschema.validate(document, ours)
    assert document["subjects"][0]["loads"][0]["changes"][0]["commit"] == made.commit(made.STEP_AT)


def test_stores_of_the_same_sessions_give_the_same_bytes(
    store: str, tmp_path: Path, slo_gate: Process
) -> None:
    def process(*words: str | Path, cwd: Path | None = None) -> None:
        done = subprocess.run(words, cwd=cwd, env=environment(), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    place = tmp_path / "clone"
    process("git", "init", "-q", "--bare", tmp_path / "remote")
    process("git", "clone", "-q", tmp_path / "remote", place)
    for key, value in (("user.name", "a"), ("user.email", "a@b.example")):
        process("git", "-C", place, "config", key, value)
    process(sys.executable, "-c", _ADD, cwd=place)
    of_folder = slo_gate("trend", store, "--format", "json")
    of_branch = slo_gate("trend", "git:kept", "--format", "json", cwd=place)
    assert of_branch.returncode == 0, of_branch.stderr
    assert of_branch.stdout == of_folder.stdout


def test_text_has_at_most_forty_lines_of_eighty_columns(store: str, slo_gate: Process) -> None:
    done = slo_gate("trend", store, COLUMNS="80")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    assert done.stdout.isascii()
    for said in ("1 change point", made.commit(made.STEP_AT)[:12], "P99 TTFT", "<= 235 ms", "^ change point"):
        assert said in done.stdout


def test_markdown_says_the_same(store: str, slo_gate: Process) -> None:
    done = slo_gate("trend", store, "--format", "markdown")
    assert done.returncode == 0
    for said in (made.commit(made.STEP_AT)[:12], "| P99 TTFT |", "git bisect start"):
        assert said in done.stdout


def test_the_page_says_the_same_and_asks_for_nothing(store: str, tmp_path: Path, slo_gate: Process) -> None:
    target = tmp_path / "new" / "trend.html"
    done = slo_gate("trend", store, "--html", str(target), "-v")
    assert done.returncode == 0, done.stderr
    text = target.read_text(encoding="utf-8")
    assert made.commit(made.STEP_AT)[:12] in text
    assert "http://" not in text
    assert "https://" not in text
    assert text == page.emit_trend(trend(SIXTY, "main", {}))


@pytest.mark.parametrize("words", [["--branch", "none"], ["--html", "-"], ["--last", "0"]])
def test_what_cannot_be_shown_is_an_error(store: str, slo_gate: Process, words: list[str]) -> None:
    done = slo_gate("trend", store, *words)
    assert done.returncode == (3 if "none" in words else 2)
    assert done.stderr.startswith(("error:", "Error"))


def test_last_takes_the_newest(store: str, slo_gate: Process) -> None:
    document = json.loads(slo_gate("trend", store, "--last", "7", "--format", "json").stdout)
    assert document["sessions"] == 7
    assert document["last_time"] == made.time(59)


def test_a_hostile_record_stays_text() -> None:
    evil = "<script>alert(1)</script> | `@team` \x1b[31m ::error:: ##[x]y"
    records = made.sessions(5, model=evil, hardware=evil)
    records = [
        made.sealed(replace(one, tags=(evil,), policy=RecordedPolicy(evil, "a" * 64))) for one in records
    ]
    found = trend(records, evil, {}, (evil,))
    for shown in (emitter.text(found, verbose=True), emitter.markdown(found), page.emit_trend(found)):
        assert "\x1b" not in shown
        assert "##[" not in shown
    assert "<script>alert" not in emitter.markdown(found)
    assert "<script>alert" not in page.emit_trend(found)


def test_of_several_models_the_terminal_shows_the_matrix_and_what_got_worse_first() -> None:
    records = [
        made.session(
            100 * at + one, made.runs(made.np.random.default_rng((at, one)), factor, hardware=hardware)
        )
        for at, hardware, step in ((0, "H100", 0.8), (1, "H200", 1.3), (2, "B200", 1.0))
        for one in range(20)
        for factor in [step if one >= 10 else 1.0]
    ]
    for at, record in enumerate(records):  # of the same days
        records[at] = made.sealed(replace(record, time=made.time(at % 20)))
    shown = emitter.text(of(records), width=80)
    lines = shown.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    assert shown.index("Newest session of each") < shown.index("Change points") < shown.index("on H200,")
    assert shown.index("on H200,") < shown.index("on H100,")


def test_the_smallest_and_the_largest_numbers_are_shown() -> None:
    records = []
    for at in range(12):
        value = 1e-300 if at < 6 else 1e17
        wide = RecordedMetric(10, value, value * (1 + at / 100), value * (1 + at / 50), value)
        own = [replace(run, metrics={"ttft_s": wide}) for run in made.runs(made.np.random.default_rng(at), 1)]
        records.append(made.session(at, own))
    found = of(records)
    assert max(map(len, emitter.text(found, width=80).splitlines())) <= 80
    json.dumps(msgspec.to_builtins(found), allow_nan=False)
    assert page.emit_trend(found)


@pytest.mark.parametrize("number", [1, 2, 3, 7])
def test_few_sessions_are_shown_without_a_change(number: int) -> None:
    found = of(made.sessions(number, step=3.0, at=1))
    assert found.subjects[0].loads[0].changes == ()
    for shown in (emitter.text(found), emitter.markdown(found), page.emit_trend(found)):
        assert "P99 TTFT" in shown


def test_where_nothing_was_judged_nothing_is_said_to_pass() -> None:
    found = of(made.sessions(3, at_target=False))
    assert emitter.summary(found) == "no change point, no objective was judged"
    assert emitter.summary(of(made.sessions(3))) == "no change point, no objective fails"
    skipped = [
        replace(one, objectives=tuple(replace(rule, verdict=Verdict.SKIPPED) for rule in one.objectives))
        for one in made.sessions(3)
    ]
    assert emitter.summary(of(skipped)) == "no change point, no objective was judged"


def test_a_session_is_said_to_be_what_is_drawn() -> None:
    """Of latency a geometric mean of runs, of goodput and error rate a share of the requests of all."""
    text = page.emit_trend(of(made.sessions(3)))
    assert "Each session&#39;s geometric mean of its runs" in text
    assert "Each session&#39;s share of all its requests" in text


def test_sessions_without_goodput_counts_or_metrics_are_shown() -> None:
    records = made.sessions(8, goodput=None, counts=None, metrics={}, load=None)
    (subject,) = of(records).subjects
    assert subject.loads[0].series == ()
    assert "load not stated" in emitter.text(of(records))
    assert page.emit_trend(of(records))
    assert emitter.markdown(of(records))


def test_a_line_of_numbers() -> None:
    assert spark([1, 2, 3, None, 8]) == "_.- #"
    assert spark([5.0, 5.0]) == "=="
    assert spark([None, math.nan]) == "  "
    assert spark([0.0]) in "_=#"
    assert len(spark([1e300, -1e300, 0.0], unicode=True)) == 3
