"""What proves that a build did not grow: short runs, other prompts, doubts, one run near capacity."""

from __future__ import annotations

import importlib
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gate.evaluate import evaluate
from gate.model import Baseline, Check, Doubt, Run, Status, Verdict, Why
from gate.stats import expected_quantiles, trimmed_shift
from tests.regression.builds import build, growth, lengths
from tests.runs import make_policy, make_requests, make_run

scipy_stats = pytest.importorskip("scipy.stats")

TODAY = date(2026, 11, 29)
JITTER = (0.99, 1.01, 1.0, 1.02, 0.98)
OTHER = (1.01, 0.99, 1.0, 0.98, 1.02)


def judged(candidate: list[Run], base: list[Run], *asked: Any, **facts: Any) -> Check:
    policy = make_policy(*asked, **facts)
    report = evaluate(policy, candidate, TODAY, baseline=Baseline(tuple(base), same_session=True))
    return next(one for one in report.checks if one.id.startswith("regression."))


# ---- short runs ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "trim"), [(3, 0.2), (5, 0.2), (10, 0.2), (7, 0.0)])
def test_trimmed_means_have_the_interval_of_scipys_yuen_test(size: int, trim: float) -> None:
    rng = np.random.default_rng(size)
    base, candidate = rng.normal(0, 1, size), rng.normal(0.3, 2, size)
    theirs = scipy_stats.ttest_ind(candidate, base, trim=trim, equal_var=True, alternative="less")
    shift = trimmed_shift(base, candidate, trim)
    assert 1 - shift.p_above(0.0) == pytest.approx(theirs.pvalue, rel=1e-9)
    if trim == 0.0:
        assert shift.upper(0.05) == pytest.approx(theirs.confidence_interval(0.95).high, rel=1e-9)


def test_of_unequal_numbers_the_df_is_that_of_scipys_yuen_welch_test() -> None:
    rng = np.random.default_rng(2)
    base, candidate = rng.normal(0, 1, 5), rng.normal(0.3, 2, 9)
    theirs = scipy_stats.ttest_ind(candidate, base, trim=0.2, equal_var=False, alternative="less")
    assert 1 - trimmed_shift(base, candidate, 0.2).p_above(0.0) == pytest.approx(theirs.pvalue, rel=1e-9)


def test_one_stalled_run_of_five_does_not_keep_a_p99_open_and_a_slow_build_does() -> None:
    asked = growth("ttft", 99, 0.1)
    stalled = [*OTHER[:4], OTHER[4] * 1.3]
    base = build(JITTER, n=100)
    found = judged(build(stalled, name="b", n=100, works=50), base, asked)
    logs = [np.log(np.array(side)) for side in (JITTER, stalled)]
    theirs = scipy_stats.ttest_ind(logs[1], logs[0], trim=0.2, equal_var=True)
    pulled = [np.clip(np.sort(side), *np.sort(side)[[1, 3]]) for side in logs]
    error = np.sqrt(sum(side.var(ddof=1) * 4 / (3 * 2) for side in pulled))
    estimate = np.sort(logs[1])[1:4].mean() - np.sort(logs[0])[1:4].mean()
    assert theirs.statistic == pytest.approx(estimate / error)  # the calculation below is Yuen's
    assert found.verdict is Verdict.PASS
    assert found.interval is not None
    assert found.interval[1] == pytest.approx(np.expm1(estimate + scipy_stats.t.ppf(0.95, 4) * error))
    assert found.observed == pytest.approx(np.expm1(logs[1].mean() - logs[0].mean()))
    worse = judged(build([*OTHER[:4], OTHER[4] * 1.8], name="b", n=100, works=50), base, asked)
    assert worse.observed > 0.1  # as measured it grew by more than it may: trimming hides nothing
    assert worse.verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_failure_more_never_turns_a_short_run_green(lost: int) -> None:
    """Of 120 requests a P99 is the 119th: one failure is beyond it, two push it out of reach."""
    asked = growth("ttft", 99, 0.1)
    verdicts = []
    for failed in range(lost + 1):
        status = [Status.FAILED] * failed + [Status.COMPLETED] * (120 - failed)
        candidate = build(OTHER, name="b", n=120, works=50, status=status)
        verdicts.append(judged(candidate, build(JITTER, n=120), asked).verdict)
    order = [Verdict.PASS, Verdict.INCONCLUSIVE, Verdict.FAIL]
    assert verdicts == sorted(verdicts, key=order.index)
    assert (verdicts[0], verdicts[-1] is Verdict.PASS) == (Verdict.PASS, lost == 1)


# ---- other prompts ------------------------------------------------------------------------------


def worked(seed: int, slower: float, n: int = 200, longer: float = 1.0) -> Run:
    """E2E of 100 ms and 10 ms a token: outputs of a run are its own, and so is its median."""
    rng = np.random.default_rng(seed)
    outputs = np.rint(rng.uniform(20, 180, n) * longer)
    e2e = (0.1 + 0.01 * outputs) * slower * np.exp(0.01 * rng.standard_normal(n))
    rows = make_requests(0.05, e2e, outputs, input_tokens=lengths(seed, n))
    return make_run(rows, input=f"{seed}", sha256=f"{seed}")


def test_the_expected_quantile_of_a_run_is_what_its_lengths_make_of_it() -> None:
    """Values are 1 + 2 x exactly: the expected median of a run is 1 + 2 x its own median length."""
    rng = np.random.default_rng(4)
    xs = [[rng.uniform(0, 10, 101) for _ in range(3)] for _ in range(2)]
    scale = (1.0, 1.7)  # a slower side is not explained away
    values = [[(1 + 2 * x) * f for x in side] for side, f in zip(xs, scale, strict=True)]
    found = expected_quantiles(values, [[x[:, None] for x in side] for side in xs], 0.5)
    assert found is not None
    medians = np.log([1 + 2 * np.median(x) for side in xs for x in side])
    assert np.log(np.concatenate(found)) == pytest.approx(medians - medians.mean(), abs=0.02)


def test_lengths_that_explain_little_or_differ_beyond_chance_adjust_nothing() -> None:
    rng = np.random.default_rng(5)
    xs = [[rng.uniform(0, 10, (100, 1)) for _ in range(3)] for _ in range(2)]
    noise = [[rng.uniform(1, 2, 100) for _ in side] for side in xs]
    assert expected_quantiles(noise, xs, 0.5) is None
    explained = [[1 + x[:, 0] for x in side] for side in xs]
    assert expected_quantiles(explained, xs, 0.5) is not None
    far = [xs[0], [x + 3 for x in xs[1]]]
    assert expected_quantiles(explained, far, 0.5) is None


def test_runs_of_other_prompts_compare_at_equal_lengths() -> None:
    """Medians of 200 outputs vary by several percent; at equal lengths the same build differs by little."""
    base, candidate = [worked(i, 1.0) for i in range(5)], [worked(200 + i, 1.0) for i in range(5)]
    found = judged(candidate, base, growth("e2e", 50, 0.05))
    raw = [
        np.log([np.percentile(r.evidence.e2e_s, 50, method="inverted_cdf") for r in s])
        for s in (base, candidate)
    ]
    assert raw[0].std(ddof=1) > 0.03
    assert (found.verdict, "at equal lengths" in found.reason) == (Verdict.PASS, True)
    assert abs(found.observed or 1.0) < 0.01
    assert f"as measured {100 * np.expm1(raw[1].mean() - raw[0].mean()):+.1f}%" in found.reason


def test_a_slower_build_is_found_at_equal_lengths_too() -> None:
    base, candidate = [worked(i, 1.0) for i in range(5)], [worked(200 + i, 1.2) for i in range(5)]
    found = judged(candidate, base, growth("e2e", 50, 0.05))
    assert found.verdict is Verdict.FAIL
    assert found.observed == pytest.approx(0.2, abs=0.01)


def test_longer_outputs_explain_no_growth_that_users_feel() -> None:
    """A tenth more tokens is 10 % more E2E as measured: more than allowed, whatever the lengths explain."""
    base = [worked(i, 1.0) for i in range(5)]
    candidate = [worked(200 + i, 1.0, longer=1.12) for i in range(5)]
    found = judged(candidate, base, growth("e2e", 50, 0.05))
    assert found.verdict is not Verdict.PASS


# ---- doubted requests ---------------------------------------------------------------------------


def doubted(run: Run, of: str, rows: int) -> Run:
    """The last rows of a run are doubted for one metric."""
    from msgspec.structs import replace

    marks = np.zeros(len(run.evidence), bool)
    marks[-rows:] = True
    evidence = replace(run.evidence, doubted={of: marks})
    return replace(run, evidence=evidence, doubts=(Doubt(Why.CUT_ROWS, (of,), "some rows are cut", rows),))


@pytest.mark.parametrize(("percent", "rows", "holds"), [(50, 3, True), (99, 3, False), (99, 1, True)])
def test_a_pass_holds_with_the_doubted_requests_of_the_candidate_as_misses(
    percent: float, rows: int, holds: bool
) -> None:
    """Of 120 requests a P99 has room for one: three doubted ones may be slower than any."""
    base = build(JITTER, n=120)
    candidate = [doubted(run, "ttft", rows) for run in build(OTHER, name="b", n=120)]
    found = judged(candidate, base, growth("ttft", percent, 0.1))
    assert (found.verdict is Verdict.PASS) == holds
    assert (found.cause, "some rows are cut" in found.reason) == (None if holds else "evidence", not holds)
    if holds:
        assert f"the {5 * rows} doubted requests" in found.reason


def test_a_pass_holds_with_the_doubted_requests_of_the_baseline_as_fast_as_any() -> None:
    """TTFT runs from 80 to 120 ms over the rows: without its slowest tenth, a baseline's P99 is 8 % lower."""
    candidate = build(OTHER, name="b", n=120)
    plain = build(JITTER, n=120)
    assert judged(candidate, plain, growth("ttft", 99, 0.05)).verdict is Verdict.PASS
    base = [doubted(run, "ttft", 30) for run in plain]
    found = judged(candidate, base, growth("ttft", 99, 0.05))
    assert (found.verdict, found.cause) == (Verdict.INCONCLUSIVE, "evidence")
    assert judged(candidate, base, growth("ttft", 99, 0.3)).verdict is Verdict.PASS


def test_requests_that_are_in_no_row_are_against_the_candidate() -> None:
    from msgspec.structs import replace

    lost = Doubt(Why.LOST_ROWS, ("attempted",), "two requests are in no row", 2)
    base, candidate = build(JITTER, n=120), build(OTHER, name="b", n=120)
    short = [replace(run, doubts=(lost,)) for run in candidate]
    assert judged(short, base, growth("ttft", 50, 0.1)).verdict is Verdict.PASS
    assert judged(short, base, growth("ttft", 99, 0.1)).cause == "evidence"
    with_base = [replace(run, doubts=(lost,)) for run in base]
    assert judged(candidate, with_base, growth("ttft", 50, 0.1)).verdict is Verdict.PASS


# ---- one run near capacity ----------------------------------------------------------------------


@pytest.mark.slow(reason="compiles and runs the simulator of servers: numba")
def test_equal_builds_near_capacity_fail_on_one_run_in_at_most_one_of_twenty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("numba")
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "benchmarks"))
    calibrate = importlib.import_module("calibrate_regression")
    design = calibrate.Design("1 x 1000", 1, 1000)
    pairs = [lambda at=at: calibrate.server_sides("open, 90 %", design, 31 * at) for at in range(80)]
    rules = [("ttft", 0.9), ("ttft", 0.99)]
    found = calibrate.rates(pairs, rules, [(0.1, 1.0)])
    most = scipy_stats.binom.ppf(0.999, 80, 0.05) / 80
    assert max(found.fails.values()) <= most  # one of four without the spread of its blocks


def test_one_run_whose_blocks_share_congestion_shows_less_than_the_same_times_mixed() -> None:
    """What lasts for a block may last for a run: it is more than the chance of single requests."""
    rng = np.random.default_rng(3)
    waves = np.repeat([1.0, 1.0, 3.0, 1.0, 2.0, 1.0, 1.0, 4.0, 1.0, 1.0], 100)
    times = [0.1 * waves * np.exp(0.1 * rng.standard_normal(1000)) * slower for slower in (1.0, 1.25)]
    mixed = rng.permutation(1000)
    verdicts = []
    for order in (np.arange(1000), mixed):
        base, candidate = (
            make_run(make_requests(ttft[order], ttft[order] + 1, 101), input=f"{i}", sha256=f"{i}")
            for i, ttft in enumerate(times)
        )
        verdicts.append(judged([candidate], [base], growth("ttft", 50, 0.1)).verdict)
    assert verdicts == [Verdict.INCONCLUSIVE, Verdict.FAIL]
