"""Headline and next action of every result there is: short, and true to the report's own numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gate import policy, readers
from gate.emit import EMITTERS, text
from gate.errors import GateError
from gate.evaluate import evaluate
from gate.model import ErrorReport, Level, Load, Report, Verdict
from tests.conftest import ROOT, Process
from tests.emit.reports import CASES, ERRORS_PASS, TTFT_FAIL, UNDECIDED, make_check, make_report, sweep
from tests.runs import error_rate, goodput, latency, make_policy, make_requests, make_run

SHARED = ROOT.parent / "shared" / "results"
FILES = sorted(
    path
    for root in (ROOT / "tests" / "fixtures", SHARED)
    for path in (root.rglob("*") if root.is_dir() else ())
    if path.suffix in (".json", ".jsonl", ".csv", ".db", ".yaml", ".txt", ".gz")
    and path.stat().st_size < 1 << 20
)
POLICIES = [policy.preset("chat", profile=name) for name in ("none", "pr")]
TODAY = date(2026, 12, 1)


@pytest.fixture(scope="module")
def found() -> list[Report]:
    """A report of every file that can be read alone, by a policy that proves and one that lets through."""
    reports = []
    for path in FILES:
        try:
            runs = readers.read([str(path)]).runs
        except GateError:
            continue
        reports += [evaluate(one, runs, TODAY) for one in POLICIES]
    assert len(reports) > 300
    return reports


def test_a_headline_and_a_next_action_have_25_words_at_most(found: list[Report]) -> None:
    for report in found:
        for said in (report.headline, report.next_action):
            assert len(said.split()) <= 25, said


def test_every_number_of_a_headline_is_one_of_the_report(found: list[Report]) -> None:
    for report in found:
        document = json.loads(EMITTERS["json"](report))
        said = document["headline"].split(": ", 1)[1]
        values, words = list(numbers(document)), " ".join(foreign(document))
        for shown, unit in re.findall(r"(?<![\w.-])(\d[\d,]*(?:\.\d+)?) ?(%|ms|us|s\b|pt|x)?", said):
            assert shown in words or any(agrees(shown, unit, value) for value in values), (
                shown,
                report.headline,
            )


SCALE = {"%": 100.0, "ms": 1e3, "us": 1e6, "pt": 100.0}


def agrees(shown: str, unit: str, value: float) -> bool:
    """Whether a number is this value, rounded to the digits it has."""
    digits = len(shown.partition(".")[2])
    return abs(float(shown.replace(",", "")) - value * SCALE.get(unit, 1.0)) <= 0.5000001 * 10.0**-digits


def numbers(document: dict[str, Any]) -> Iterator[float]:
    """What the report measured and counted, and what follows from it by hand."""
    for check in document["objectives"]:
        yield from (
            v for v in (check["observed"], check["bound"], check["n"], check["misses"]) if v is not None
        )
        yield from check["interval"] or ()
        yield from check["misses_range"] or ()
        if check["n"] is not None and check["misses"] is not None:
            yield check["n"] - check["misses"]
    judged = [run["counts"] for run in document["runs"] if run["at_target"]]
    yield from (sum(one[kind] or 0 for one in judged) for kind in ("attempted", "completed", "failed"))
    yield from (number for run in document["runs"] for number in run["failures"].values())
    misses = (document["goodput"] or {}).get("misses") or {}
    total = sum(misses.values())
    yield from (number / total for number in misses.values() if total)
    # How many objectives share what is said of the first.
    yield from range(len(document["objectives"]) + 1)


def foreign(document: dict[str, Any]) -> Iterator[str]:
    """Words of files and policies, which may hold numbers."""
    for run in document["runs"]:
        yield from (doubt["why"] for doubt in run["doubts"])
        yield from run["failures"]
        yield run["input"]
        yield json.dumps(run["load"])
    yield from (check["expected"] for check in document["objectives"])
    yield from (check["reason"] for check in document["objectives"] if check["cause"] == "evidence")
    yield str(len({json.dumps(run["load"]) for run in document["runs"]}))
    yield document["policy"]["path"]


# ---- forty lines --------------------------------------------------------------------------


def lines_on(report: Report | ErrorReport, width: int = 80) -> int:
    """Lines of a terminal that wraps what is longer."""
    shown = text.emit(report, width=width).splitlines()
    return sum(max(1, -(-len(line) // width)) for line in shown)


def many() -> list[Report]:
    """More of everything than fits."""
    long = "e2e.p99[input_tokens>=1000 and output_tokens<300]"
    failing = tuple(replace(TTFT_FAIL, id=f"{long}{n}", summary=f"missed {n}") for n in range(60))
    passing = tuple(make_check(id=f"{long}{n}") for n in range(60))
    loads = tuple(replace(sweep().loads[0], load=Load(concurrency=n)) for n in range(1, 60))
    return [
        make_report(checks=(*failing, *passing)),
        make_report(checks=tuple(replace(one, summary="alike") for one in failing)),
        make_report(checks=(*passing, ERRORS_PASS), notes=("a note " * 30,) * 90),
        make_report(checks=(*failing[:3], *passing[:3]), loads=loads),
        replace(sweep(), loads=loads),
    ]


def test_the_report_on_a_terminal_has_forty_lines_at_most(found: list[Report]) -> None:
    for report in (*found, *(make() for make in CASES.values()), *many()):
        assert lines_on(report) <= 40, text.emit(report, width=80)


def test_the_decision_and_what_to_do_stand_first_and_last(found: list[Report]) -> None:
    for report in found[::20]:
        leads = [report.headline, f"Next: {report.next_action}"]
        shown = text.emit(report, width=80).splitlines()
        assert shown[:2] == leads == shown[-2:]
        assert text.emit(report, verbose=True).splitlines()[-2:] == leads
        assert text.emit(report, quiet=True).splitlines() == leads


def test_what_is_left_out_is_counted() -> None:
    crowded, *_ = many()
    shown = text.emit(crowded, width=80)
    told = re.search(r"and (\d+) more objectives that are no pass: -v shows them", shown)
    assert told
    assert int(told[1]) + shown.count("\n  FAIL  ") == 60
    assert "60 objectives" in shown or re.search(r"and \d+ more passes: -v shows them", shown)


@pytest.mark.parametrize("width", [60, 80, 100])
def test_no_line_ends_between_an_operator_and_its_bound(found: list[Report], width: int) -> None:
    for report in found[::7]:
        for line in text.emit(report, width=width, wrap=True).splitlines():
            assert not line.endswith((" <=", " >=", " <", " >"))


def test_verbose_and_quiet_are_options_of_check_and_exclude_each_other(
    tmp_path: Path, slo_gate: Process
) -> None:
    rows = '{"ttft_s": 0.1, "e2e_s": 1.0, "output_tokens": 50}\n' * 150
    (tmp_path / "r.jsonl").write_text(rows, encoding="utf-8")
    (tmp_path / "slo.yaml").write_text("version: 1\nslo: {ttft: {p50: 1s}}\n", encoding="utf-8")
    short, whole, quiet = (slo_gate("check", "r.jsonl", *option) for option in ((), ("-v",), ("-q",)))
    assert short.returncode == whole.returncode == quiet.returncode == 0
    assert quiet.stdout.splitlines() == short.stdout.splitlines()[:2]
    assert "SHA-256" in whole.stdout or "Reproduce" in whole.stdout
    assert len(whole.stdout.splitlines()) > len(short.stdout.splitlines())
    both = slo_gate("check", "r.jsonl", "-v", "-q", "--json", "r.out.json")
    assert both.returncode == 2
    assert json.loads((tmp_path / "r.out.json").read_text())["verdict"] == "error"


# ---- true sentences -----------------------------------------------------------------------


def judged(*objectives: Any, runs: Any = None, **facts: Any) -> Report:
    return evaluate(make_policy(*objectives, **facts), runs or [], TODAY)


def outage(n: int, failed: int, kinds: dict[str, int] | None = None, input: str = "r.json") -> Any:
    """The last `failed` of n requests failed, the others took 0.1 s to the first token."""
    status = [0] * (n - failed) + [1] * failed
    rows = make_requests(0.1, n=n, status=status)
    return replace(make_run(rows, input=input), failures=kinds or {}, notes=("kinds",) if kinds else ())


def test_failed_requests_are_said_first_with_what_they_failed_with() -> None:
    run = outage(150, 10, {"Internal Server Error": 5, "ClientPayloadError": 5})
    report = judged(latency("ttft", 99, 0.8), error_rate(0.01), runs=[run])
    kinds = "10 of 150 requests failed (Internal Server Error x5, ClientPayloadError x5)"
    assert report.headline.startswith(f"FAIL chat (blocked): {kinds}")
    assert report.next_action == f"find out why {kinds}"
    assert report.checks[0].summary == "P99 TTFT out of reach: 10 of 150 requests failed, 1 may"
    alone = judged(latency("ttft", 99, 0.8), runs=[run]).checks[0].summary
    assert alone == f"P99 TTFT out of reach: {kinds}, 1 may"
    assert report.checks[1].summary == f"{kinds}, 1 may"
    for name in ("junit", "github", "markdown", "text"):
        assert "10 of 150 requests failed" in EMITTERS[name](report)


def test_failures_of_several_runs_are_added_up_in_one_note() -> None:
    runs = [outage(100, 1, {"HTTP 500": 1}, f"{n}.json") for n in range(2)] + [outage(100, 0, input="3.json")]
    report = judged(error_rate(0.1), runs=runs)
    assert "2 of 300 requests failed in 2 of 3 runs: HTTP 500 x2" in report.notes
    assert "kinds (2 of 3 runs)" not in report.notes


def test_a_fail_that_follows_from_another_shows_no_interval_of_its_own() -> None:
    """Half of the requests miss P95 TTFT: goodput at 99 % fails with it."""
    rows = make_requests([0.1] * 60 + [2.0] * 60)
    policy_of = (latency("ttft", 95, 0.8), goodput(0.99))
    report = judged(*policy_of, runs=[make_run(rows)], bounds={"ttft": 0.8})
    for check in report.checks:
        if check.implied_by:
            assert (check.interval, check.n_eff, check.deff) == (None, None, None)
            assert "because P95 TTFT does" in check.summary


def test_a_waived_failure_says_so_in_the_headline(tmp_path: Path, slo_gate: Process) -> None:
    rows = '{"ttft_s": 0.3, "e2e_s": 1.0, "output_tokens": 10}\n' * 300
    (tmp_path / "r.jsonl").write_text(rows, encoding="utf-8")
    (tmp_path / "slo.yaml").write_text(
        "version: 1\nname: c\nslo: {ttft: {p50: 100ms}}\n"
        "waivers: [{objective: ttft.p50, until: 2999-01-31, owner: serving, reason: fix}]\n"
    )
    first = slo_gate("check", "r.jsonl").stdout.splitlines()[0]
    assert first.startswith("WARN c: P50 TTFT 300 ms > 100 ms (300 of 300 missed")
    assert first.endswith("waived until 2999-01-31 by serving")


def test_a_page_shows_one_p99_of_a_metric_and_says_of_what() -> None:
    """9 of 900 failed: the judged P98 of all attempted is not that of the completed."""
    ttft = [0.001 * n for n in range(1, 892)]
    rows = make_requests([*ttft, *[0.1] * 9], n=900, status=[0] * 891 + [1] * 9)
    report = judged(latency("ttft", 90, 2.0), runs=[make_run(rows)])
    shown = report.checks[0].observed_text
    completed = report.metrics["ttft_s"]
    assert completed is not None
    assert report.checks[0].observed != completed.p90
    for name in ("text", "markdown", "html"):
        written = EMITTERS[name](report)
        assert shown.split()[0] in written
        assert "as judged, of all attempted" in written
        assert f"{completed.p90 * 1e3:g} ms" not in written


# ---- one complete next action -------------------------------------------------------------


def test_every_blocker_is_in_one_line_with_warm_up_and_time() -> None:
    """5 runs of 300 and 32 for warm-up at 9.96 req/s: 1,660 requests in 167 s."""
    rows = make_requests(0.1, n=120, input_tokens=100.0)
    one = make_run(replace(rows, order="submission"), load=Load(concurrency=16), duration_s=120 / 9.96)
    rules = {"runs_min": 5, "requests_per_run_min": 300, "warmup": "auto"}
    asked = [
        rule for rule in policy.preset("chat", profile="none").objectives if rule.id.startswith("evidence.r")
    ]
    blocking = [replace(rule, level=Level.BLOCK) for rule in asked]
    report = judged(latency("ttft", 50, 0.8), *blocking, runs=[one], evidence=rules)
    assert report.verdict is Verdict.INCONCLUSIVE
    assert report.next_action == "run 5 x 332 requests (300 + 32 warm-up), about 2.8 min at this rate"


def test_a_profile_is_named_only_where_the_policy_has_it_and_more_data_is_all_it_takes() -> None:
    document = (
        "version: 1\ngoodput: {min: 99.9%, request: {ttft: 1s}}\nevidence: {runs: {min: 5}}\n"
        "profiles: {PROFILE: {undecided: lean}}\ndefault_profile: none\n"
    )
    rows = make_requests([0.1 + n / 1e4 for n in range(150)])
    for name, named in (("pr", True), ("nightly", False)):
        asked = policy.parse(document.replace("PROFILE", name).encode(), "slo.yaml")
        said = evaluate(asked, [make_run(rows)], TODAY).next_action
        assert said.startswith("run ")
        assert said.endswith("; or judge as a pull request: --profile pr") is named


def test_few_runs_give_a_range_with_its_reason_and_ten_a_number() -> None:
    import numpy as np

    def runs(number: int) -> list[Any]:
        draws = np.random.default_rng(2).uniform(0.1, 0.2, (number, 100))
        return [make_run(make_requests(ttft, ttft + 1), input=f"{n}.json") for n, ttft in enumerate(draws)]

    few = judged(latency("ttft", 99.9, 0.8), runs=runs(5)).checks[0]
    assert few.more_range is not None
    assert few.more_range[0] < few.more_range[1]
    assert "(the spread of 5 runs is poorly known)" in few.summary
    assert few.summary.startswith("P99.9 TTFT <= 800 ms not yet proven: 0 of 500 missed, P99.9 ")
    assert " 4.0" in few.summary or " 4x inside" in few.summary
    many_runs = judged(latency("ttft", 99.9, 0.8), runs=runs(10)).checks[0]
    assert many_runs.more_range is None
    assert "poorly known" not in many_runs.summary


def test_an_undecided_line_says_what_was_seen_and_no_statistics(found: list[Report]) -> None:
    for report in (*found, make_report(checks=(UNDECIDED,))):
        for check in report.checks:
            assert not re.search(r"deff|n_eff|independent|interval|confidence|alpha", check.summary), (
                check.summary
            )
