"""Doubts: about a whole run, about some of its requests, about requests that are not there."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from gate.emit import EMITTERS
from gate.evaluate import evaluate
from gate.model import (
    Aggregate,
    Bools,
    Check,
    Counts,
    Doubt,
    Gaps,
    Policy,
    Report,
    Requests,
    Run,
    Status,
    Summary,
    Verdict,
    Why,
)
from tests.runs import error_rate, goodput, latency, make_policy, make_requests, make_run, throughput

POINT = {"evidence": {"decide": "point"}}
SOME = Doubt(Why.ONE_PIECE, ("tpot", "itl"), "some answers came in one piece", 2)


def judged(policy: Policy, run: Run) -> Report:
    return evaluate(policy, [run], date(2026, 12, 1))


def only(report: Report, name: str) -> Check:
    (found,) = [check for check in report.checks if check.id == name]
    return found


def first(number: int, of: int) -> Bools:
    return np.arange(of) < number


def marked(rows: Requests, of: str, marks: Bools, doubt: Doubt) -> Run:
    return make_run(replace(rows, doubted={of: marks}), doubts=(doubt,))


# ---- some requests ------------------------------------------------------------------------


@pytest.mark.parametrize(("share", "verdict"), [(0.98, Verdict.PASS), (0.99, Verdict.INCONCLUSIVE)])
def test_two_of_150_doubted_requests_void_no_more_than_the_room_they_take(
    share: float, verdict: Verdict
) -> None:
    """148 of 150 are 98.7 %: enough for 98 % whatever the two did, not for 99 %."""
    run = marked(make_requests(0.1, n=150), "tpot", first(2, 150), SOME)
    report = judged(make_policy(goodput(share), bounds={"tpot": 0.05}, **POINT), run)
    check = only(report, "goodput")
    assert check.verdict is verdict
    assert check.doubts == ((Why.ONE_PIECE,) if verdict is Verdict.INCONCLUSIVE else ())
    assert check.cause == ("evidence" if verdict is Verdict.INCONCLUSIVE else None)
    assert (check.misses, check.n) == (0, 150)  # a doubt changes verdicts, never counts
    assert report.goodput is not None
    assert report.goodput.fraction == 1.0
    assert report.metrics["tpot_s"] is not None


def test_a_doubt_about_another_metric_touches_nothing() -> None:
    run = marked(make_requests(0.1, n=150), "tpot", first(75, 150), SOME)
    policy = make_policy(latency("ttft", 99, 0.5), goodput(0.99), bounds={"ttft": 0.5}, **POINT)
    assert {check.verdict for check in judged(policy, run).checks} == {Verdict.PASS}


def test_a_fail_stands_whatever_is_doubted() -> None:
    run = marked(make_requests(0.9, n=150), "failed", first(2, 150), SOME)
    policy = make_policy(latency("ttft", 50, 0.5), **POINT)
    assert judged(policy, run).checks[0].verdict is Verdict.FAIL


@pytest.mark.parametrize(("cut", "verdict"), [(1, Verdict.PASS), (2, Verdict.INCONCLUSIVE)])
def test_answers_that_may_have_failed_count_as_failures_for_a_pass(cut: int, verdict: Verdict) -> None:
    """One of 100 is 1 %, two are 2 %."""
    doubt = Doubt(Why.CUT_ROWS, ("e2e", "goodput", "error_rate"), "cut", cut)
    run = marked(make_requests(0.1, n=100), "failed", first(cut, 100), doubt)
    check = judged(make_policy(error_rate(0.01), **POINT), run).checks[0]
    assert check.verdict is verdict
    assert check.misses == 0


def test_marks_stay_with_their_rows_when_these_are_put_in_order() -> None:
    """The late request is doubted and a miss already: the other nine decide."""
    start_s, ttft_s = np.arange(10.0)[::-1], np.where(np.arange(10) == 0, 9.0, 0.1)
    doubt = Doubt(Why.ONE_PIECE, ("ttft",), "odd", 1)
    run = marked(make_requests(ttft_s, 10.0, start_s=start_s), "ttft", first(1, 10), doubt)
    assert judged(make_policy(latency("ttft", 90, 0.5), **POINT), run).checks[0].verdict is Verdict.PASS
    other = marked(make_requests(ttft_s, 10.0, start_s=start_s), "ttft", first(10, 10) & ~first(9, 10), doubt)
    check = judged(make_policy(latency("ttft", 90, 0.5), **POINT), other).checks[0]
    assert check.verdict is Verdict.INCONCLUSIVE


# ---- requests that are not there ----------------------------------------------------------


@pytest.mark.parametrize(("lost", "verdict"), [(1, Verdict.PASS), (2, Verdict.INCONCLUSIVE)])
@pytest.mark.parametrize("rows", [True, False])
def test_lost_requests_count_as_failures_for_a_pass(rows: bool, lost: int, verdict: Verdict) -> None:
    doubt = Doubt(Why.LOST_ROWS, ("attempted",), "the rest may have failed", lost)
    n = 100 - lost
    stated = Aggregate({"e2e": Summary(((50.0, 1.0), (100.0, 1.2)))})
    run = (
        make_run(make_requests(0.1, n=n), doubts=(doubt,))
        if rows
        else make_run(stated, counts=Counts(n, n, 0), doubts=(doubt,))
    )
    policy = make_policy(error_rate(0.01), latency("e2e", 99, 2.0), **POINT)
    assert {check.verdict for check in judged(policy, run).checks} == {verdict}
    assert judged(policy, run).runs[0].counts == Counts(n, n, 0)


def test_lost_requests_have_no_gaps_and_each_is_a_missed_one() -> None:
    """Three rows of two gaps each and one lost: 6 of 7 gaps are 85.7 %."""
    gaps = Gaps(np.full(6, 0.01), np.array([0, 2, 4, 6]))
    doubt = Doubt(Why.LOST_ROWS, ("attempted",), "the rest may have failed", 1)
    run = make_run(replace(make_requests(0.1, n=3), gaps=gaps), doubts=(doubt,))
    for percent, verdict in ((85, Verdict.PASS), (86, Verdict.INCONCLUSIVE)):
        check = judged(make_policy(latency("itl", percent, 0.1), **POINT), run).checks[0]
        assert check.verdict is verdict


# ---- a whole run --------------------------------------------------------------------------


def test_a_metric_that_is_doubted_stays_in_the_report_with_its_doubt() -> None:
    doubt = Doubt(Why.NOT_STREAMED, ("ttft",), "it did not stream")
    report = judged(
        make_policy(latency("ttft", 50, 1.0)), make_run(make_requests(0.25, n=9), doubts=(doubt,))
    )
    shown = report.metrics["ttft_s"]
    assert shown is not None
    assert (shown.p50, shown.doubt) == (0.25, Why.NOT_STREAMED)
    assert report.checks[0].doubts == (Why.NOT_STREAMED,)
    assert any("TTFT: shown, not judged: it did not stream" in note for note in report.notes)
    document = json.loads(EMITTERS["json"](report))
    assert document["metrics"]["ttft_s"]["doubt"] == "not_streamed"
    assert document["objectives"][0]["doubts"] == ["not_streamed"]
    assert document["runs"][0]["doubts"] == [
        {"code": "not_streamed", "of": ["ttft"], "why": "it did not stream", "requests": None}
    ]


def test_a_throughput_of_a_run_that_is_doubted_is_not_judged() -> None:
    doubt = Doubt(Why.TOOL_SAYS_INVALID, ("throughput",), "the tool calls the run invalid")
    run = make_run(make_requests(0.1, n=100), doubts=(doubt,))
    assert judged(make_policy(throughput(1.0), **POINT), run).checks[0].doubts == (Why.TOOL_SAYS_INVALID,)


def test_counts_that_are_not_stated_are_not_shown_as_zero() -> None:
    doubt = Doubt(Why.COUNTS_UNKNOWN, ("attempted", "error_rate"), "not stated")
    stated = Aggregate({"e2e": Summary(((50.0, 1.0), (99.0, 1.2)))})
    run = make_run(stated, counts=Counts(0, 0, 0), doubts=(doubt,))
    report = judged(make_policy(latency("e2e", 50, 2.0), error_rate(0.01), **POINT), run)
    assert {check.verdict for check in report.checks} == {Verdict.INCONCLUSIVE}
    counts = json.loads(EMITTERS["json"](report))["runs"][0]["counts"]
    assert set(counts.values()) == {None}
    assert "not stated" in EMITTERS["text"](report)
    assert report.metrics["e2e_s"] is not None
    assert report.metrics["e2e_s"].p50 == 1.0
    assert "0 attempted" not in EMITTERS["text"](report)


def test_what_a_tool_hides_is_said_wherever_it_is_judged() -> None:
    run = make_run(make_requests(0.1, n=100), caveats={"error_rate": "errors in a stream are not counted"})
    with_it, without = make_policy(error_rate(0.01), **POINT), make_policy(latency("ttft", 50, 1.0), **POINT)
    assert "errors in a stream are not counted" in judged(with_it, run).notes
    assert "errors in a stream are not counted" not in judged(without, run).notes


# ---- endpoints that make no tokens --------------------------------------------------------


def embeddings(**facts: Any) -> Run:
    """200 answers without a token, ten of them errors."""
    status = np.full(200, Status.FAILED, np.uint8)
    rows = make_requests(np.nan, 0.2, 0.0, n=200, status=Status.FAILED)
    return make_run(replace(rows, status=status, ttft_s=None, tokenless=~first(10, 200)), **facts)


def test_rows_without_tokens_fail_until_the_policy_says_that_there_are_none() -> None:
    asked = (latency("e2e", 50, 1.0), error_rate(0.05))
    assert {c.verdict for c in judged(make_policy(*asked, **POINT), embeddings()).checks} == {Verdict.FAIL}
    report = judged(make_policy(*asked, tokenless=True, **POINT), embeddings(total_output_tokens=None))
    assert {check.verdict for check in report.checks} == {Verdict.PASS}
    assert report.runs[0].counts == Counts(200, 190, 10)


def test_a_policy_without_tokens_passes_no_run_that_makes_them() -> None:
    policy = make_policy(latency("e2e", 50, 9.0), error_rate(0.05), tokenless=True, **POINT)
    report = judged(policy, make_run(make_requests(0.1, n=200)))
    assert {check.verdict for check in report.checks} == {Verdict.INCONCLUSIVE}
    assert report.checks[0].doubts == (Why.OTHER_WORKLOAD,)
    assert "20,000" in report.checks[0].reason  # 200 answers of 100 tokens


def test_an_aggregate_of_such_an_endpoint_is_judged_where_the_policy_says_so() -> None:
    doubt = Doubt(Why.NO_TOKENS, ("e2e", "error_rate"), "no output token was made")
    stated = Aggregate({"e2e": Summary(((50.0, 0.2), (99.0, 0.3)))})
    run = make_run(stated, counts=Counts(200, 200, 0), doubts=(doubt,), total_output_tokens=0.0)
    asked = (latency("e2e", 50, 1.0), error_rate(0.05))
    for tokenless, verdict in ((False, Verdict.INCONCLUSIVE), (True, Verdict.PASS)):
        report = judged(make_policy(*asked, tokenless=tokenless, **POINT), run)
        assert {check.verdict for check in report.checks} == {verdict}
