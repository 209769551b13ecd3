"""Histograms: whose values a series holds, and what follows for requests that are not in it."""

from __future__ import annotations

from datetime import date

import numpy as np
import pytest

from gate.evaluate import evaluate
from gate.model import Buckets, Check, Counts, Histogram, Policy, Report, Run, Verdict
from tests.runs import goodput, latency, make_policy, make_run


def judge(policy: Policy, *runs: Run) -> Report:
    return evaluate(policy, runs, date(2026, 11, 29))


def only(report: Report, name: str) -> Check:
    return next(check for check in report.checks if check.id == name)


def histograms(without: int = 0, completed: int = 1000, **counts: list[int]) -> list[Run]:
    """Six runs of equal counts in (0, 0.1], (0.1, 1] and (1, inf) s."""
    edges = np.array([0.1, 1.0, np.inf])
    buckets = {
        metric: Buckets(edges, np.array(cells), without if metric == "tpot" else 0)
        for metric, cells in counts.items()
    }
    return [
        make_run(Histogram(buckets), counts=Counts(completed, completed, 0), input=f"{number}.prom")
        for number in range(6)
    ]


@pytest.mark.parametrize("metric", ["ttft", "e2e", "tpot"])
@pytest.mark.parametrize("decide", ["confident", "point"])
def test_a_series_of_a_tenth_of_the_requests_does_not_speak_for_all(metric: str, decide: str) -> None:
    """99 values of 1000 completed, 98 of them within 1 s: of a run, 1 to 902 may have missed."""
    runs = histograms(**{metric: [85, 13, 1]})
    found = only(
        judge(make_policy(latency(metric, 90, 1.0), evidence={"decide": decide}), *runs), f"{metric}.p90"
    )
    assert (found.verdict, found.cause) == (Verdict.INCONCLUSIVE, "evidence")
    assert (found.n, found.misses_range) == (6000, (6, 6 * 902))


def test_a_series_of_all_requests_but_a_few_still_passes() -> None:
    """995 values of 1000, 990 of them within 1 s: at least 99 % of all."""
    found = only(judge(make_policy(latency("ttft", 90, 1.0)), *histograms(ttft=[600, 390, 5])), "ttft.p90")
    assert (found.verdict, found.misses_range) == (Verdict.PASS, (30, 60))


@pytest.mark.parametrize(
    ("without", "single_token", "n", "misses", "verdict"),
    [
        (300, "ignore", 4200, (0, 0), Verdict.PASS),
        (300, "miss", 6000, (1800, 1800), Verdict.FAIL),
        (0, "ignore", 6000, (0, 1800), Verdict.INCONCLUSIVE),  # nothing says that these had one token
    ],
)
def test_a_tpot_series_lacks_single_tokens_only_where_the_reader_knows_them(
    without: int, single_token: str, n: int, misses: tuple[int, int], verdict: Verdict
) -> None:
    runs = histograms(without, ttft=[600, 400, 0], tpot=[400, 300, 0])
    policy = make_policy(
        latency("tpot", 90, 1.0),
        goodput(0.9),
        bounds={"ttft": 1.0, "tpot": 1.0},
        single_token_tpot=single_token,
    )
    report = judge(policy, *runs)
    found = only(report, "tpot.p90")
    assert (found.n, found.misses_range, found.verdict) == (n, misses, verdict)
    whole = only(report, "goodput")  # over all 6000: these meet the TPOT bound, miss it, or may do either
    assert (whole.n, whole.misses_range, whole.verdict) == (6000, misses, verdict)


def test_a_series_with_more_values_than_requests_is_no_contradiction() -> None:
    """Scrapes cut requests apart: 30 values more than requests, which may be the misses."""
    runs = histograms(ttft=[700, 330, 0])
    found = only(judge(make_policy(latency("ttft", 90, 1.0)), *runs), "ttft.p90")
    assert (found.n, found.misses_range, found.verdict) == (6000, (0, 0), Verdict.PASS)
