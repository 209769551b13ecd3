"""The planner: what a policy needs before a benchmark, and what is missing after one."""

from __future__ import annotations

import json
import math
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from gate import policy, stats
from gate.advise.plan import Need, Plan, plan, remaining
from gate.evaluate import evaluate
from gate.model import Verdict
from tests.conftest import Process
from tests.runs import make_requests, make_run

scipy_stats = pytest.importorskip("scipy.stats")

TODAY = date(2026, 11, 29)
TEXT = """\
version: 1
workload: {{load: {load}}}
slo: {{ttft: {{p99: 800ms, mean: {{max: 1s, level: info}}}}, itl: {{p99: 50ms}}}}
goodput: {{min: 95%}}
limits: {{error_rate: {{max: 1%}}, throughput: {{min: 20 tok/s}}}}
regression: {{ttft: {{p99: {{max: 5%}}}}}}
evidence: {{{evidence}}}
"""


def needs(evidence: str, load: str = "{concurrency: 8}") -> dict[str, Need]:
    found = plan(policy.parse(TEXT.format(evidence=evidence, load=load).encode(), "slo.yaml"))
    return {one.id: one for one in found.needs}


def least(share: float, df: int) -> int:
    """(t / z)^2 ln(0.05) / ln(share), from scipy: half of share^n (mid-P) is 0.025."""
    z, t = scipy_stats.norm.ppf(0.975), scipy_stats.t.ppf(0.975, df)
    return max(100, math.ceil((t / z) ** 2 * math.log(0.05) / math.log(share)))


def test_five_runs_of_100_can_never_pass_a_p99_and_the_plan_says_what_would() -> None:
    found = needs("runs: {min: 5}, requests_per_run: {min: 100}")
    one = found["ttft.p99"]
    assert (one.answer, one.declared) == ("never passes", 500)
    assert f"{least(0.99, 4):,} requests are needed" in one.text
    assert f"requests_per_run.min to {math.ceil(least(0.99, 4) / 5)}" in one.text
    assert found["goodput"].answer == "can pass"  # 118 would do


def test_what_a_plan_calls_impossible_is_undecided_without_a_single_miss() -> None:
    # The rule itself on the best benchmark there can be: runs that do not differ (deff 1), no miss.
    asked = policy.parse(b"version: 1\nslo: {ttft: {p99: 800ms}}\n", "slo.yaml")
    for each, verdict in ((119, Verdict.INCONCLUSIVE), (120, Verdict.PASS)):
        assert (5 * each >= least(0.99, 4)) == (verdict is Verdict.PASS)
        ttft = np.linspace(0.1, 0.2, each)
        runs = []
        for i in range(5):
            late = ttft + i / 1e9  # the same to the last digit would be one run, five times
            runs.append(make_run(make_requests(late, late + 1), input=f"{i}"))
        found = evaluate(asked, runs, TODAY).checks[0]
        assert (found.deff, found.misses, found.verdict) == (1.0, 0, verdict)


@pytest.mark.parametrize(("runs", "df"), [(1, 9), (5, 4), (10, 9), (30, 29)])
def test_the_least_numbers_are_those_of_students_t(runs: int, df: int) -> None:
    found = needs("confidence: 95%")
    assert found["ttft.p99"].least[runs] == least(0.99, df)
    # goodput of one run passes at alpha without the t correction: ln 0.1 / ln 0.95 = 45, so the floor of 100
    assert found["goodput"].least[runs] == (100 if runs == 1 else least(0.95, df))


def test_the_dependence_that_still_passes_is_the_declared_over_the_least_number() -> None:
    found = needs("runs: {min: 10}, requests_per_run: {min: 300}")["ttft.p99"]
    independent = math.log(0.05) / math.log(0.99)
    ratio = (scipy_stats.norm.ppf(0.975) / scipy_stats.t.ppf(0.975, 9)) ** 2
    assert found.deff_most == pytest.approx(3000 * ratio / independent, rel=0.01)
    assert found.deff_most == pytest.approx(7.555, abs=0.05)  # 3000 x 0.75067 / 298.07


def test_every_kind_of_objective_has_an_answer() -> None:
    found = needs("runs: {min: 4}, requests_per_run: {min: 300}")
    assert {one.id: one.answer for one in found.values()} == {
        "ttft.p99": "can pass",  # four runs are judged as ten blocks of 1200 requests: 489 are needed
        "ttft.mean": "not judged",
        "itl.p99": "can pass",
        "goodput": "can pass",
        "error_rate": "by count",
        "throughput": "never passes",
        "regression.ttft.p99": "can pass",  # three runs of 50 do
    }


@pytest.mark.parametrize(
    ("runs", "requests", "answer"),
    [
        (5, 300, "can pass"),
        (3, 50, "can pass"),  # 0.5 / (1 - 0.99), as many on both sides
        (3, 49, "never passes"),
        (2, 1499, "never passes"),
        (2, 1500, "can pass"),  # ten blocks of 300
        (1, 3000, "can pass"),
    ],
)
def test_a_regression_of_p99_takes_three_runs_of_50_or_ten_blocks_of_300(
    runs: int, requests: int, answer: str
) -> None:
    found = needs(f"runs: {{min: {runs}}}, requests_per_run: {{min: {requests}}}")["regression.ttft.p99"]
    assert (found.answer, "a large growth can still fail it" in found.text) == (
        answer,
        answer == "never passes",
    )


def test_without_declared_evidence_the_question_stays_open() -> None:
    found = needs("confidence: 95%")
    assert {one.answer for one in found.values()} == {"open", "not judged", "by count"}


def test_the_notes_name_warm_up_short_runs_and_time() -> None:
    text = TEXT.format(
        evidence="runs: {min: 5}, requests_per_run: {min: 100}, warmup: auto", load="{request_rate: 20/s}"
    )
    notes = " ".join(plan(policy.parse(text.encode(), "slo.yaml")).notes)
    assert "it needs 300" in notes
    assert "let the tool send 150 or more" in notes  # the first 50 of an open loop
    assert "500 requests take 25 s" in notes


def test_after_an_inconclusive_benchmark_the_plan_names_requests_runs_and_time() -> None:
    asked = policy.parse(b"version: 1\nslo: {ttft: {p99: 800ms}}\n", "slo.yaml")
    rng = np.random.default_rng(4)
    runs = [
        make_run(make_requests(ttft, ttft + 1), input=f"{i}", duration_s=30.0)
        for i, ttft in enumerate(rng.uniform(0.1, 0.2, (5, 100)))
    ]
    found = remaining(asked, runs, TODAY)
    (one,) = found.missing
    report = evaluate(asked, runs, TODAY)
    more = report.checks[0].more_requests
    assert more is not None
    assert (one.verdict, one.more_requests) == (Verdict.INCONCLUSIVE, more)
    assert one.more_range is not None
    assert found.effort is not None
    assert one.more_range[0] <= more <= one.more_range[1]
    assert found.effort.runs == tuple(math.ceil(end / 100) for end in one.more_range)
    assert found.effort.seconds == pytest.approx([runs * 100 / 500 * 150 for runs in found.effort.runs])
    assert found.headline.endswith(report.next_action)
    assert more + 500 >= stats.zero_miss_minimum(0.99, df=4)


def test_after_a_decided_benchmark_nothing_more_is_asked() -> None:
    asked = policy.parse(b"version: 1\nslo: {ttft: {p90: 800ms}}\n", "slo.yaml")
    ttft = np.random.default_rng(4).uniform(0.1, 0.2, 1000)
    found = remaining(asked, [make_run(make_requests(ttft, ttft + 1))], TODAY)
    assert found.headline == "every objective is decided: nothing more to measure"


def test_the_command_shows_both_plans_and_exits_0(tmp_path: Path, slo_gate: Process) -> None:
    text = TEXT.format(evidence="runs: {min: 5}, requests_per_run: {min: 100}", load="{concurrency: 8}")
    (tmp_path / "slo.yaml").write_text(text, encoding="utf-8")
    done = slo_gate("plan")
    assert (done.returncode, "NEVER PASSES  ttft.p99" in done.stdout) == (0, True)
    found = json.loads(slo_gate("plan", "--json").stdout)
    assert {one["id"]: one["answer"] for one in found["needs"]}["ttft.p99"] == "never passes"
    rows = "".join(
        json.dumps({"ttft_s": 0.1, "e2e_s": 1.0 + i / 1e4, "output_tokens": 9, "concurrency": 8}) + "\n"
        for i in range(200)
    )
    (tmp_path / "r.jsonl").write_text(rows, encoding="utf-8")
    after = slo_gate("plan", "r.jsonl")
    shown = slo_gate("check", "r.jsonl").stdout.splitlines()[1].removeprefix("Next: ")
    assert (after.returncode, shown in " ".join(after.stdout.split())) == (0, True)


def test_a_plan_of_a_broken_policy_exits_2(tmp_path: Path, slo_gate: Process) -> None:
    (tmp_path / "slo.yaml").write_text("version: 1\n", encoding="utf-8")
    assert slo_gate("plan").returncode == 2


# ---- the chance of the planned size -------------------------------------------------------------


def planned(text: str, values: np.ndarray, runs: int = 5) -> Plan:
    asked = policy.parse(f"version: 1\n{text}\n".encode(), "slo.yaml")
    rng = np.random.default_rng(1)
    made = [
        make_run(make_requests(rng.permutation(values), 1.0), input=f"{i}.json", sha256=f"{i}")
        for i in range(runs)
    ]
    return remaining(asked, made, date(2026, 11, 29))


SIZE = "evidence: {runs: {min: 10}, requests_per_run: {min: 300}}"


@pytest.mark.parametrize(
    ("bound", "least", "most"), [("1s", 1.0, 1.0), ("300ms", 0.0, 0.2), ("100ms", 0.0, 0.0)]
)
def test_the_chance_of_the_declared_size_is_that_of_benchmarks_drawn_from_the_results(
    bound: str, least: float, most: float
) -> None:
    """TTFT is 200 ms for nine requests of ten and 310 ms for the tenth: P90 lies on its bound at 300 ms."""
    values = np.r_[np.full(450, 0.2), np.full(50, 0.31)]
    found = planned(f"slo: {{ttft: {{p90: {bound}}}}}\n{SIZE}", values).chance
    assert found is not None
    assert (found.runs, found.requests, list(found.each)) == (10, 300, ["ttft.p90"])
    assert least <= found.passes <= most
    assert (found.fails > 0.9) == (bound == "100ms")


def test_the_chance_names_the_objective_that_passes_least_and_all_must_pass_together() -> None:
    values = np.r_[np.full(465, 0.2), np.full(35, 0.31)]  # 7 % beyond 300 ms, 10 % and 5 % allowed
    found = planned(f"slo: {{ttft: {{p90: 300ms, p50: 250ms}}}}\ngoodput: {{min: 95%}}\n{SIZE}", values)
    assert found.chance is not None
    assert found.chance.each["ttft.p50"] == 1.0
    assert found.chance.passes <= min(found.chance.each.values())
    assert "drawn 40 times from these results" in found.notes[-1]
    assert "goodput passes least" in found.notes[-1]


def test_a_regression_rule_is_drawn_against_the_same_build() -> None:
    values = np.random.default_rng(2).normal(0.2, 0.01, 300)
    text = "slo: {ttft: {p99: 9s}}\nregression: {ttft: {p50: {max: 10%}, p99: {max: 10%}}}\n"
    found = planned(text + "evidence: {runs: {min: 5}, requests_per_run: {min: 100}}", values).chance
    assert found is not None
    assert found.each["regression.ttft.p50"] == 1.0
    assert found.each["regression.ttft.p99"] > 0.9


def test_without_a_declared_size_there_is_no_chance() -> None:
    assert planned("slo: {ttft: {p90: 1s}}", np.full(300, 0.2)).chance is None


def test_validate_names_what_can_never_pass(tmp_path: Path, slo_gate: Process) -> None:
    file = tmp_path / "slo.yaml"
    file.write_text(
        "version: 1\nslo: {ttft: {p99: 9s}}\nregression: {ttft: {p99: {max: 10%}}}\n"
        "evidence: {runs: {min: 2}, requests_per_run: {min: 100}}\n",
        encoding="utf-8",
    )
    done = slo_gate("policy", "validate", str(file))
    assert done.returncode == 0
    assert "ttft.p99, regression.ttft.p99 can never pass with the evidence that is declared" in done.stdout
