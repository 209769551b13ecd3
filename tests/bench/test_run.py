"""`slo-gate run` as a user starts it: when it stops, what it survives, what it refuses."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Process

from .conftest import Session

AR1 = ("--phi", 0.9, "--tau", 0.3)
GOOD = ("--misses", 0.005, *AR1)  # a tenth of what the policy allows
BAD = ("--misses", 0.25, *AR1)  # five times as many
EVEN = ("--misses", 0.05, *AR1)  # as many: undecided to the end


def rounds(session: Session) -> int:
    (stop,) = session.journal("stop")
    return int(stop["rounds"])


# ---- stopping -------------------------------------------------------------------------------


def test_a_good_server_passes_within_65_and_a_bad_one_fails_within_42_percent_of_the_budget(
    tmp_path: Path,
) -> None:
    """Means over seeds; benchmarks/stopping.py has more of them."""
    for misses, verdict, most in ((GOOD, "pass", 0.65), (BAD, "fail", 0.42)):
        part = []
        for seed in (1, 2, 3):
            home = tmp_path / f"{verdict}-{seed}"
            home.mkdir()
            session = Session(home)
            report = session.report("--seed", seed * 1000, command=session.simulate(*misses))
            assert report["verdict"] == verdict
            part.append(rounds(session) / 30)
        assert sum(part) / len(part) <= most


def test_an_undecided_server_is_looked_at_five_times_and_no_more(session: Session) -> None:
    done = session.run(command=session.simulate(*EVEN))
    looks = session.journal("look")
    assert done.returncode == 4, "as check: undecided blocks unless the policy says otherwise"
    assert [(one["number"], one["rounds"]) for one in looks] == [(1, 6), (2, 12), (3, 18), (4, 24), (5, 30)]
    assert session.journal("stop")[0]["why"] == "the budget is spent"


def test_the_exit_code_is_that_of_check(session: Session) -> None:
    assert session.run(command=session.simulate(*BAD)).returncode == 1
    other = Session(session.home / "other" if (session.home / "other").mkdir() is None else session.home)
    assert other.run("--report-only", command=other.simulate(*BAD)).returncode == 0


def test_a_policy_of_thirty_runs_is_not_passed_by_fewer(session: Session) -> None:
    session.policy("evidence: {runs: {min: 8}}")
    report = session.report("--runs", 10, command=session.simulate(*GOOD))
    assert report["verdict"] == "pass"
    assert rounds(session) == 8


def test_a_point_estimate_is_not_looked_at_before_the_end(session: Session) -> None:
    session.policy("evidence: {decide: point}")
    session.run("--runs", 6, command=session.simulate(*GOOD))
    assert [one["rounds"] for one in session.journal("look")] == [6]


def test_a_wrong_model_ends_the_session_after_one_run(session: Session) -> None:
    workload = "workload: {{model: llama-*, load: {{concurrency: 8}}}}"
    text = f"version: 1\nname: s\n{workload}\nslo: {{{{ttft: {{{{p90: 1s}}}}}}}}\n"
    session.policy(text=text)
    done = session.run("-v", command=session.simulate(*GOOD))
    assert done.returncode == 4
    assert rounds(session) == 1
    assert "more runs cannot settle workload.model" in done.stdout.replace("\n    ", " ")


def test_the_budget_of_requests_and_of_time_end_a_session(session: Session) -> None:
    session.run("--requests", 1500, command=session.simulate(*EVEN))
    assert rounds(session) == 5
    other = session.home / "o"
    other.mkdir()
    timed = Session(other)
    timed.run("--time", "2s", command=timed.simulate(*EVEN, "--sleep", 0.4))
    assert 1 <= rounds(timed) <= 4
    assert timed.journal("stop")[0]["why"] == "the budget is spent"


# ---- dying and going on -----------------------------------------------------------------------


def essence(report: dict[str, Any]) -> Any:
    """Everything that was judged; session ids and paths aside."""
    keys = ("id", "verdict", "observed", "interval", "n", "misses", "n_eff", "deff")
    return report["verdict"], [[one[key] for key in keys] for one in report["objectives"]], report["goodput"]


def test_killed_in_the_middle_it_gives_the_verdict_of_an_uninterrupted_session(session: Session) -> None:
    command = session.simulate(*GOOD)
    (session.home / "whole").mkdir()
    whole = Session(session.home / "whole")
    expected = whole.report(command=command)

    for _ in range(3):  # three lives, each killed at another moment of a run
        process = session.start(command=command)
        session.wait_for("end", len(session.journal("end")) + 1, process)
        time.sleep(0.03)
        session.kill(process)
    report = session.report(command=command)

    assert essence(report) == essence(expected)
    keys = [run["key"] for one in session.journal("end") for run in one["runs"]]
    assert len(keys) == len(set(keys)), "no run is counted twice"
    # killed before the journal knew its sidecar, an attempt lies under failed/: nothing there is judged
    kept = (session.folder / "candidate").rglob("*.slo.json")
    seeds = [json.loads(path.read_text())["seed"] for path in kept]
    assert sorted(seeds) == list(range(1, len(keys) + 1))
    assert len(report["runs"]) == len(keys)
    assert [one["number"] for one in session.journal("look")] == [
        one["number"] for one in whole.journal("look")
    ]


def test_a_benchmark_that_outlived_its_session_is_ended_and_its_result_not_counted(session: Session) -> None:
    process = session.start(command=session.simulate(*GOOD, "--sleep", 60))
    session.wait_for("pid", 1, process)
    session.kill(process)
    pid = session.journal("pid")[0]["pid"]
    assert Path(f"/proc/{pid}").exists(), "the benchmark goes on alone"
    # The same command would sleep again: this one is interrupted as soon as it has cleared up.
    process = session.start(command=session.simulate(*GOOD, "--sleep", 60))
    session.wait_for("pid", 2, process)
    stat = Path(f"/proc/{pid}/stat")
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert session.journal("interrupted")[0]["runs"] == [{"key": "candidate/run-0001"}]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_session_ends_its_benchmark_and_says_how_to_go_on(
    session: Session, how: signal.Signals
) -> None:
    process = session.start(command=session.simulate(*GOOD, "--sleep", 0.3))
    session.wait_for("pid", 2, process)
    process.send_signal(how)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "the same command goes on" in err
    pid = session.journal("pid")[-1]["pid"]
    assert not Path(f"/proc/{pid}").exists()
    done = session.run("--runs", 30, command=session.simulate(*GOOD, "--sleep", 0.3))
    assert done.returncode == 0
    assert "going on after 1 runs" in done.stderr


def test_an_interruption_is_tried_also_where_the_shell_ignores_it(session: Session) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a background job and nohup are started
    try:
        process = session.start(command=session.simulate(*GOOD, "--sleep", 60))
    finally:
        signal.signal(signal.SIGINT, before)
    session.wait_for("pid", 1, process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode == 130


def test_a_journal_with_a_torn_last_line_goes_on_before_it(session: Session) -> None:
    command = session.simulate(*GOOD)
    process = session.start(command=command)
    session.wait_for("end", 2, process)
    session.kill(process)
    path = session.folder / "journal.slo.jsonl"
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rindex('{"event":"end"')]
    path.write_text(whole + '{"event":"end","runs":[{"key":"candid', encoding="utf-8")
    assert session.run(command=command).returncode == 0
    assert all(session.journal())
    keys = [run["key"] for one in session.journal("end") for run in one["runs"]]
    assert len(keys) == len(set(keys))


def test_a_second_start_while_the_first_is_at_work_is_refused(session: Session) -> None:
    command = session.simulate(*GOOD, "--sleep", 5)
    first = session.start(command=command)
    session.wait_for("pid", 1, first)
    second = session.run(command=command)
    assert second.returncode == 2
    assert "another slo-gate run is at work" in second.stderr
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=20)


@pytest.mark.parametrize(
    ("options", "words", "said"),
    [
        ((), (*GOOD, "--requests", 200), "another command"),
        (("--runs", 20), GOOD, "another budget"),
        (("--seed", 5), GOOD, "another seed"),
        (("--set", "hardware=8xH100"), GOOD, "another --tool, --set, --map or --ignore"),
    ],
)
def test_a_session_is_not_gone_on_with_on_other_terms(
    session: Session, options: tuple[object, ...], words: tuple[object, ...], said: str
) -> None:
    process = session.start(command=session.simulate(*GOOD))
    session.wait_for("end", 1, process)
    session.kill(process)
    done = session.run(*options, command=session.simulate(*words))
    assert done.returncode == 2
    assert said in done.stderr


def test_a_session_is_not_gone_on_with_at_another_commit(session: Session) -> None:
    git = ("git", "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "--allow-empty", "-m", "x")
    subprocess.run(["git", "init", "-q"], cwd=session.home, check=True)
    subprocess.run(git, cwd=session.home, check=True)
    process = session.start(command=session.simulate(*GOOD))
    session.wait_for("end", 1, process)
    session.kill(process)
    subprocess.run(git, cwd=session.home, check=True)
    done = session.run(command=session.simulate(*GOOD))
    assert done.returncode == 2
    assert "another commit" in done.stderr


def test_a_finished_session_is_not_taken_for_a_new_measurement(session: Session) -> None:
    command = session.simulate(*BAD)
    first = session.run("--format", "json", command=command)
    again = session.run("--format", "json", command=command)
    assert again.returncode == 2
    assert "finished" in json.loads(again.stdout)["error"]["message"]
    shown = session.run("--format", "json", "--again", command=[])
    assert (shown.returncode, shown.stdout) == (1, first.stdout), "same files, same bytes"


def test_a_verdict_that_was_never_given_is_given_by_the_next_start(session: Session) -> None:
    command = session.simulate(*BAD)
    first = session.run("--format", "json", command=command)
    path = session.folder / "journal.slo.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    assert "reported" in lines[-1]
    path.write_text("".join(lines[:-1]), encoding="utf-8")  # killed between the stop and the report
    assert session.run("--format", "json", command=command).stdout == first.stdout


def test_a_result_that_was_changed_after_its_run_is_refused(session: Session) -> None:
    command = session.simulate(*BAD)
    session.run(command=command)
    result = session.folder / "candidate" / "run-0001" / "result.json"
    result.write_text(result.read_text(encoding="utf-8").replace('"error": null', '"error": null ', 1))
    done = session.run("--again", command=[])
    assert done.returncode == 3
    assert "written for other content" in done.stderr


# ---- failures ---------------------------------------------------------------------------------


def test_a_command_that_keeps_failing_ends_the_session_with_its_log_and_what_was_complete(
    session: Session,
) -> None:
    flag = session.home / "down"
    command = session.simulate(*GOOD, "--sleep", 0.1, "--fail-if", flag)
    process = session.start("--json", "report.json", command=command)
    session.wait_for("end", 2, process)
    flag.touch()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 3
    assert "3 times in a row" in err
    assert "it exited with 7" in err
    assert json.loads((session.home / "report.json").read_text())["verdict"] == "error"
    log = Path(session.journal("failed")[-1]["log"])
    assert "the server is gone" in (session.home / log).read_text()
    assert not list(session.folder.glob("candidate/*-attempt-*")), "half a result lies where none is read"

    flag.unlink()
    kept = len(session.journal("end"))
    done = session.run("--format", "json", command=command)
    assert done.returncode == 0
    report = json.loads(done.stdout)
    assert len(report["runs"]) == len({one["input"] for one in report["runs"]}) > kept
    assert any("3 runs failed and were made again" in note for note in report["notes"])


def test_a_server_that_breaks_every_few_runs_is_not_measured_by_its_good_ones(session: Session) -> None:
    """Each run fails once and then works: never twice in a row, and yet no evidence."""
    script = session.home / "flaky.py"
    script.write_text(
        "import pathlib, subprocess, sys\n"
        "flag = pathlib.Path(sys.argv[1])\n"
        "if not flag.exists():\n    flag.touch()\n    sys.exit(1)\n"
        "flag.unlink()\nsys.exit(subprocess.call(sys.argv[2:]))\n"
    )
    command = [sys.executable, str(script), str(session.home / "flag"), *session.simulate(*EVEN)]
    done = session.run("--max-failures", 2, "--runs", 20, command=command)
    assert done.returncode == 3
    assert "5 times in this session" in done.stderr
    assert len(session.journal("end")) == 4


def test_a_run_that_takes_too_long_has_failed(session: Session) -> None:
    command = session.simulate(*GOOD, "--sleep", 30)
    begun = time.monotonic()
    done = session.run("--timeout", "0.3s", "--max-failures", 1, command=command)
    assert done.returncode == 3
    assert "did not end within 0.3 s" in done.stderr
    assert time.monotonic() - begun < 20


def test_the_same_result_twice_is_no_second_run(session: Session) -> None:
    command = [word if word != "{seed}" else "7" for word in session.simulate(*GOOD)]
    done = session.run(command=command)
    assert done.returncode == 3
    assert "its result has the content of candidate/run-0001" in done.stderr
    assert len(session.journal("end")) == 1


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("import sys", "left no result"),
        ("import sys; open(sys.argv[1], 'w').write('hello')", "its result cannot be used"),
        ("import sys; open(sys.argv[1], 'w').write('')", "its result cannot be used"),
    ],
)
def test_a_command_without_a_result_has_failed(session: Session, script: str, said: str) -> None:
    done = session.run("--max-failures", 1, command=[sys.executable, "-c", script, "{out}"])
    assert done.returncode == 3
    assert said in done.stderr


def test_a_command_that_does_not_exist_is_an_error_of_usage(session: Session) -> None:
    done = session.run(command=["no-such-benchmark", "{out}"])
    assert done.returncode == 2
    assert "cannot be started" in done.stderr


@pytest.mark.parametrize(
    ("options", "command", "said"),
    [
        ((), [], "no benchmark command"),
        ((), ["bench"], "where its result goes"),
        (("--side-by-side",), ["bench", "{out}"], "about a baseline"),
        (("--confirm",), ["bench", "{out}"], "about a baseline"),
        (("--time", "10"), ["bench", "{out}"], "no unit"),
        (("--baseline-command", "a 'b"), ["bench", "{out}"], "cannot be split"),
        (("--again",), [], "no session was ever started"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is(
    session: Session, options: tuple[object, ...], command: list[str], said: str
) -> None:
    done = session.run(*options, command=command)
    assert done.returncode == 2
    assert said in done.stderr
    assert not session.folder.exists()


# ---- two sides ----------------------------------------------------------------------------------

REGRESSION = "regression: {ttft: {p50: {max: 10%}}}"


def test_a_slower_build_fails_against_a_baseline_measured_in_turn(session: Session) -> None:
    session.policy(REGRESSION)
    base = " ".join(session.simulate(*GOOD))
    command = session.simulate(*GOOD, "--slower", 1.3)
    report = session.report("--runs", 10, "--baseline-command", base, command=command)
    assert report["verdict"] == "fail"
    check = next(one for one in report["objectives"] if one["id"] == "regression.ttft.p50")
    assert check["verdict"] == "fail"
    ends = [one["runs"][0]["key"].partition("/")[0] for one in session.journal("end")]
    assert ends == ["baseline", "candidate"] * (len(ends) // 2)
    assert {one["session"] for one in report["runs"]} == {session.journal("session")[0]["session"]}


def test_an_unchanged_build_passes_against_its_baseline(session: Session) -> None:
    session.policy(REGRESSION)
    base = " ".join(session.simulate(*GOOD))
    command = session.simulate(*GOOD, "--slower", 1.001)
    report = session.report("--runs", 10, "--baseline-command", base, command=command)
    assert report["verdict"] == "pass"
    assert "paired" in report["baseline"]["changes"][0]["method"]


# A second measurement of what failed: five looks and it share alpha, so that each has a sixth.
CONFIRM = ("--runs", 5, "--confirm")
EASY = ("--misses", 1e-6)  # five runs decide every absolute rule


def regressed(report: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in report["objectives"] if one["id"] == "regression.ttft.p50")
    return found


def test_a_red_is_measured_once_more_with_fresh_seeds_and_both_results_are_told(session: Session) -> None:
    session.policy(REGRESSION)
    base = " ".join(session.simulate(*EASY))
    command = session.simulate(*EASY, "--slower", 1.4)
    report = session.report(*CONFIRM, "--baseline-command", base, command=command)
    assert (report["verdict"], report["exit_code"]) == ("fail", 1)
    reason = regressed(report)["reason"]
    assert reason.count("lower bound") == 2
    assert "Confirmed: measured once more" in reason
    first, (asked,) = rounds(session), session.journal("confirm")
    assert (asked["rounds"], asked["of"]) == (first, ["regression.ttft.p50"])
    seeds = {
        path.parts[-2]: json.loads(path.read_text())["seed"]
        for path in (session.folder / "confirm" / "candidate").rglob("*.slo.json")
    }
    assert seeds == {f"run-{number:04d}": number for number in range(6, 6 + first)}  # 1 to 5 are the budget's
    said = " ".join(report["notes"])
    assert "each at alpha / 6" in said
    assert f"measured once more: {first} rounds with other seeds" in said
    again = session.report("--again", command=[])
    assert (again["verdict"], regressed(again)["reason"]) == ("fail", reason)


def test_a_red_that_the_second_measurement_clears_passes_and_says_that_it_failed(
    session: Session, slo_gate: Process
) -> None:
    session.policy(REGRESSION)
    base = " ".join(session.simulate(*EASY))
    command = session.simulate(*EASY, "--slower", 1.4, "--slower-until", 5)
    report = session.report(*CONFIRM, "--baseline-command", base, command=command)
    assert (report["verdict"], report["exit_code"]) == ("pass", 0)
    found = regressed(report)
    assert found["observed"] == pytest.approx(0.001, abs=1e-4)
    assert "Not confirmed: at first it failed, +40%" in found["reason"]
    # without the option it counts at once
    fresh = [word if word != "session" else "second" for word in session.arguments((), [])]
    words = (*fresh[3:], "--runs", 5, "--baseline-command", base, "--", *command)
    done = slo_gate(*words, cwd=session.home)
    assert done.returncode == 1


def test_an_interrupted_second_measurement_goes_on_where_it_was(session: Session) -> None:
    session.policy(REGRESSION)
    flag = session.home / "down"
    flag.touch()
    base = " ".join(session.simulate(*EASY))
    broken = ("--fail-if", flag, "--fail-from", 7)
    command = session.simulate(*EASY, "--slower", 1.4, *broken)
    options = (*CONFIRM, "--max-failures", 1, "--baseline-command", base)
    assert session.run(*options, command=command).returncode == 3
    unfinished = session.run("--again", command=[])
    assert (unfinished.returncode, "not finished" in unfinished.stderr) == (2, True)
    kept = len(session.journal("end"))
    flag.unlink()
    report = session.report(*options, command=command)
    assert report["exit_code"] == 1
    made = [one["runs"][0]["key"] for one in session.journal("end")]
    assert len(made) == len(set(made)) > kept
    other = session.run("--runs", 5, "--baseline-command", base, command=command)
    assert (other.returncode, "another confirm" in other.stderr) == (2, True)


def test_only_a_red_of_regressions_alone_is_measured_again(session: Session, slo_gate: Process) -> None:
    session.policy(REGRESSION)
    base = " ".join(session.simulate(*EASY))
    for slower, misses, code in ((1.4, BAD, 1), (1.001, EASY, 0)):
        session.folder = session.home / f"session-{code}"
        command = session.simulate(*misses, "--slower", slower)
        words = [word if word != "session" else session.folder.name for word in session.arguments((), [])]
        done = slo_gate(*words[3:], *CONFIRM, "--baseline-command", base, "--", *command, cwd=session.home)
        assert done.returncode == code, done.stdout
        (asked,) = session.journal("confirm")
        assert (asked["rounds"], (session.folder / "confirm").exists()) == (0, False)


def test_side_by_side_both_commands_run_at_once(session: Session) -> None:
    base = " ".join(session.simulate(*GOOD, "--sleep", 0.2))
    command = session.simulate(*GOOD, "--sleep", 0.2, "--slower", 1.01)
    done = session.run("--runs", 2, "--side-by-side", "--baseline-command", base, command=command)
    assert done.returncode in (0, 4), done.stderr
    said = {
        path.parts[-3]: json.loads(path.read_text()) for path in session.folder.rglob("run-0001/*.slo.json")
    }
    assert said["baseline"]["started"] < said["candidate"]["ended"]
    assert said["candidate"]["started"] < said["baseline"]["ended"]
    assert [len(one["runs"]) for one in session.journal("end")] == [2, 2]


def test_side_by_side_a_failure_of_one_side_is_a_failure_of_the_pair(session: Session) -> None:
    flag = session.home / "down"
    flag.touch()
    base = " ".join(session.simulate(*GOOD))
    command = session.simulate(*GOOD, "--slower", 1.01, "--fail-if", flag)
    options = ("--runs", 2, "--side-by-side", "--max-failures", 1, "--baseline-command", base)
    assert session.run(*options, command=command).returncode == 3
    assert not session.journal("end")
    assert sorted(path.name for path in (session.folder / "failed").iterdir()) == ["baseline", "candidate"]


# ---- what is left on disk -----------------------------------------------------------------------


def test_check_reads_the_results_of_a_session_with_their_provenance(
    session: Session, slo_gate: Process
) -> None:
    prompts = session.home / "prompts.txt"
    prompts.write_text("hello\n")
    session.run(
        *("--set", "hardware=8xH100", "--set", "tool_version=1.2", "--image", "sha256:abc"),
        *("--dataset", "prompts.txt"),
        command=session.simulate(*BAD),
    )
    done = slo_gate("check", "session/candidate", "-p", "slo.yaml", "--format", "json", cwd=session.home)
    report = json.loads(done.stdout)
    assert done.returncode == 1
    named = {(one["session"], one["hardware"], one["tool_version"]) for one in report["runs"]}
    assert named == {(session.journal("session")[0]["session"], "8xH100", "1.2")}
    assert len(report["runs"]) == rounds(session)
    sidecar = json.loads((session.folder / "candidate/run-0001/result.json.slo.json").read_text())
    result = (session.folder / "candidate/run-0001/result.json").read_bytes()
    assert sidecar["result"]["sha256"] == hashlib.sha256(result).hexdigest()
    assert sidecar["dataset"]["sha256"] == hashlib.sha256(b"hello\n").hexdigest()
    assert sidecar["image_digest"] == "sha256:abc"
    assert sidecar["command"][-len(BAD) :] == [str(word) for word in BAD]


def test_a_sweep_gives_each_run_the_load_it_was_asked_for(session: Session) -> None:
    text = (
        "version: 1\nname: s\nworkload: {{load: {{concurrency: 8, sweep: [50%, 100%]}}}}\n"
        "goodput: {{min: 95%, request: {{ttft: 800ms}}}}\n"
    )
    session.policy(text=text)
    report = session.report("--runs", 6, command=session.simulate("--concurrency", "{load}", *GOOD))
    loads = sorted(one["load"]["concurrency"] for one in report["runs"])
    assert loads.count(4) == 5
    assert set(loads) == {4, 8}
    assert sum(one["at_target"] for one in report["runs"]) == loads.count(8) == rounds(session)
