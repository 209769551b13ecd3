"""Which requests missed and where the time went, against counts made by hand or by plain numpy."""

from __future__ import annotations

import json
from datetime import date
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from gate import readers
from gate.evaluate import evaluate
from gate.model import Attribution, Counts, Load, Misses, Percentiles, Policy, Requests, Run, Status, Workload
from tests.conftest import FIXTURES
from tests.runs import goodput, latency, make_aggregate, make_policy, make_requests, make_run

TODAY = date(2026, 1, 1)
BOUNDS = {"ttft": 0.5, "tpot": 0.02, "e2e": 3.0}
POLICY = make_policy(goodput(0.9), bounds=BOUNDS)


def found(*runs: Run, policy: Policy = POLICY) -> Attribution:
    report = evaluate(policy, runs, TODAY)
    assert report.attribution is not None
    return report.attribution


def random_requests(n: int = 2000, seed: int = 4) -> Requests:
    rng = np.random.default_rng(seed)
    tokens = rng.integers(1, 300, n).astype(float)
    ttft = rng.lognormal(-1.2, 0.6, n)
    status = np.where(rng.random(n) < 0.05, Status.FAILED, Status.COMPLETED)
    e2e = ttft + (tokens - 1) * rng.lognormal(-4.4, 0.3, n)
    return make_requests(ttft, e2e, tokens, status=status, input_tokens=rng.integers(10, 4000, n), n=n)


def causes_one_by_one(rows: Requests) -> list[str]:
    """The cause of each request, by the definitions of DESIGN section 1, one Python row at a time."""
    causes = []
    assert rows.ttft_s is not None
    assert rows.e2e_s is not None
    assert rows.output_tokens is not None
    for status, ttft, e2e, tokens in zip(
        rows.status, rows.ttft_s, rows.e2e_s, rows.output_tokens, strict=True
    ):
        if status == Status.FAILED:
            causes.append("failed")
            continue
        tpot = (e2e - ttft) / (tokens - 1) if tokens > 1 else 0.0  # of a single token it is ignored
        met = {"ttft": ttft <= 0.5, "tpot": tpot <= 0.02, "e2e": e2e <= 3.0}
        broke = [metric for metric, good in met.items() if not good]
        causes.append(broke[0] if len(broke) == 1 else "several" if broke else "good")
    return causes


@pytest.mark.parametrize("by", ["input", "output"])
def test_misses_by_length_are_those_counted_one_by_one(by: str) -> None:
    rows = random_requests()
    causes = np.array(causes_one_by_one(rows))
    lengths = np.array(getattr(rows, f"{by}_tokens"))
    counted = np.ones(lengths.size, bool) if by == "input" else causes != "failed"
    buckets = getattr(found(make_run(rows)), f"by_{by}_length")
    assert len(buckets) == 4
    for bucket in buckets:
        mine = counted & (lengths >= bucket.low) & (lengths <= bucket.high)
        assert bucket.n == mine.sum()
        assert bucket.good == (causes[mine] == "good").sum()
        for name in ("ttft", "tpot", "e2e", "several", "failed"):
            assert getattr(bucket.misses, name) == (causes[mine] == name).sum(), name
        done = mine & (causes != "failed")
        for column in ("ttft_s", "e2e_s"):
            values = getattr(rows, column)[done]
            p50, p90, p99 = np.percentile(values, [50, 90, 99], method="inverted_cdf")
            assert getattr(bucket, column) == Percentiles(p50, p90, p99)


def test_every_request_of_known_length_is_in_exactly_one_quarter() -> None:
    rows = random_requests()
    attribution = found(make_run(rows))
    assert sum(bucket.n for bucket in attribution.by_input_length) == 2000
    assert sum(bucket.n for bucket in attribution.by_output_length) == (rows.status == Status.COMPLETED).sum()
    for buckets in (attribution.by_input_length, attribution.by_output_length):
        assert all(before.high < after.low for before, after in pairwise(buckets))
        assert max(bucket.n for bucket in buckets) < 1.1 * min(bucket.n for bucket in buckets)


def test_equal_lengths_are_one_bucket_and_unknown_ones_none() -> None:
    tokens = [100.0] * 7 + [np.nan]
    attribution = found(make_run(make_requests(0.1, 1.0, tokens, input_tokens=np.nan)))
    assert [(one.low, one.high, one.n) for one in attribution.by_output_length] == [(100, 100, 7)]
    assert attribution.by_input_length == ()


def test_without_goodput_lengths_have_latencies_and_no_misses() -> None:
    policy = make_policy(latency("e2e", 99, 3.0))
    attribution = found(make_run(random_requests()), policy=policy)
    assert all(bucket.misses is None and bucket.good is None for bucket in attribution.by_output_length)
    assert all(bucket.e2e_s is not None for bucket in attribution.by_output_length)
    slowest = attribution.worst_requests[0]
    assert slowest.times_bound is None
    assert slowest.e2e_s == max(one.e2e_s or 0 for one in attribution.worst_requests)


def test_a_metric_that_must_not_be_judged_explains_nothing() -> None:
    run = make_run(random_requests(), doubts={"ttft": "not streamed"})
    attribution = found(run)
    assert all(bucket.ttft_s is None for bucket in attribution.by_input_length)
    assert all(one.ttft_s is None for one in attribution.worst_requests)


def test_percentiles_alone_attribute_nothing() -> None:
    run = make_run(make_aggregate(n=100, ttft={99.0: 0.4}), counts=Counts(100, 100, 0))
    assert evaluate(POLICY, [run], TODAY).attribution is None


def test_no_judged_run_attributes_nothing() -> None:
    policy = make_policy(goodput(0.9), bounds=BOUNDS, workload=Workload(target=Load(concurrency=64)))
    report = evaluate(policy, [make_run(random_requests())], TODAY)
    assert report.attribution is None
    assert report.measure_next == ""


# ---- the worst ----------------------------------------------------------------------------


def test_the_worst_requests_are_named_by_their_place_in_the_file() -> None:
    """Rows 3 and 0 break a bound, 3 further; the file is not in order of time."""
    rows = make_requests(
        [0.6, 0.1, 0.2, 0.1], [1.0, 1.0, 1.0, 4.5], [50, 50, 50, 400],
        start_s=[3.0, 2.0, 1.0, 0.0], input_tokens=[5, 6, 7, 8],
    )  # fmt: skip
    first, second, *rest = found(make_run(rows)).worst_requests
    assert (first.row, first.broke, first.input_tokens, first.output_tokens) == (3, ("e2e",), 8, 400)
    assert first.times_bound == pytest.approx(1.5)
    assert (second.row, second.broke, second.ttft_s) == (0, ("ttft",), 0.6)
    assert second.times_bound == pytest.approx(1.2)
    assert {one.row for one in rest} == {1, 2}


def test_ids_follow_their_requests_into_the_order_of_time() -> None:
    rows = make_requests([0.1, 0.9, 0.2], start_s=[2.0, 1.0, 0.0])
    attribution = found(make_run(replace(rows, ids=("a", "b", "c"))))
    assert [(one.id, one.row) for one in attribution.worst_requests[:1]] == [("b", 1)]


def test_ten_worst_of_many_runs_and_each_run_s_own_rows() -> None:
    values = np.full(40, 0.1)
    first, second = values.copy(), values.copy()
    first[7], second[31] = 2.0, 3.0
    runs = [
        make_run(make_requests(column, 4.0, 400.0), input=name)
        for name, column in (("a", first), ("b", second))
    ]
    worst = found(*runs).worst_requests
    assert len(worst) == 10
    assert [(one.input, one.row, one.broke) for one in worst[:2]] == [
        ("b", 31, ("ttft", "e2e")),
        ("a", 7, ("ttft", "e2e")),
    ]


def test_failed_requests_do_not_crowd_out_the_slow_ones() -> None:
    status = [Status.FAILED] * 50 + [Status.COMPLETED] * 2
    attribution = found(make_run(make_requests([np.nan] * 50 + [0.1, 0.7], status=status, n=52)))
    assert [one.row for one in attribution.worst_requests] == [51, 50]
    assert attribution.by_input_length == ()


def test_a_run_with_most_of_the_misses_is_named_and_even_ones_are_not() -> None:
    def run(name: str, bad: int) -> Run:
        return make_run(make_requests([0.9] * bad + [0.1] * (100 - bad)), input=name)

    named = found(run("a", 2), run("b", 40), run("c", 8)).worst_runs
    assert [(one.input, one.good, one.attempted, one.share_of_misses) for one in named] == [
        ("b", 60, 100, 0.8)
    ]
    assert found(run("a", 10), run("b", 11), run("c", 9)).worst_runs == ()
    assert found(run("a", 10)).worst_runs == ()


# ---- where the first token waits ----------------------------------------------------------


def waiting(load: Load, **columns: Any) -> Attribution:
    rows = make_requests([0.2, 0.4, 0.9, 0.1], status=[0, 0, 0, Status.FAILED], **columns)
    return found(make_run(rows, load=load))


def test_ttft_is_split_into_queues_and_the_rest_for_all_and_for_those_that_missed() -> None:
    parts = waiting(
        Load(request_rate=5.0, cap=2), queue_s=[1.0, 2.0, 3.0, 9.0], server_queue_s=[0.1, 0.2, 0.6, np.nan]
    ).ttft_parts
    everyone, missed = parts
    assert (everyone.of, everyone.n) == ("completed", 3)
    assert everyone.client_queue == pytest.approx((2.0, 3.0))
    assert everyone.server_queue == pytest.approx((0.3, 0.6))
    assert everyone.rest == pytest.approx((0.2, 0.3))
    assert (missed.of, missed.n) == ("missed ttft", 1)
    assert missed.server_queue == pytest.approx((0.6, 0.6))
    assert missed.rest == pytest.approx((0.3, 0.3))


def test_a_closed_loop_s_wait_for_its_turn_is_nobody_s_wait() -> None:
    assert waiting(Load(concurrency=2), queue_s=[1.0, 2.0, 3.0, 9.0]).ttft_parts == ()


def test_files_without_queue_times_split_nothing() -> None:
    assert waiting(Load(request_rate=5.0)).ttft_parts == ()


def test_vllm_s_real_client_queue_is_shown_beside_ttft() -> None:
    """An open loop of 20 req/s behind a cap of 4: requests waited 6.7 s before they were sent."""
    path = FIXTURES / "vllm" / "open_loop" / "result.json"
    (run,) = readers.read([str(path)]).runs
    waits = json.loads(path.read_text())["queue_times"]
    (parts,) = found(run).ttft_parts
    assert parts.server_queue is None
    assert parts.client_queue == pytest.approx(
        (np.mean(waits), np.percentile(waits, 99, method="inverted_cdf")), rel=1e-12
    )
    assert parts.client_queue[0] > 6


# ---- what to measure next -----------------------------------------------------------------


def next_of(*runs: Run, **facts: Any) -> str:
    return evaluate(make_policy(goodput(0.9), bounds=BOUNDS, **facts), runs, TODAY).measure_next


def sound(load: int, seed: int = 0) -> Run:
    """Prompts of many lengths that do not move TTFT, and a light TPOT tail."""
    rng = np.random.default_rng(seed)
    ttft = rng.uniform(0.1, 0.12, 200)
    rows = make_requests(
        ttft, ttft + 99 * rng.uniform(0.01, 0.012, 200), input_tokens=rng.uniform(50, 900, 200)
    )
    return make_run(rows, load=Load(concurrency=load), input=f"{load}-{seed}")


def target(concurrency: int) -> dict[str, Any]:
    return {"workload": Workload(target=Load(concurrency=concurrency))}


def test_a_sound_benchmark_is_asked_for_nothing() -> None:
    runs = [*(sound(8, seed) for seed in range(5)), sound(16)]
    assert next_of(*runs, **target(8)) == ""


def test_one_load_asks_for_the_curve_and_names_its_points() -> None:
    said = next_of(*(sound(8, seed) for seed in range(5)))
    assert said == "Measure at concurrency 2, 4 and 12 too: one load does not show where goodput falls."


def test_few_runs_ask_for_as_many_as_the_policy_wants() -> None:
    runs = [sound(8), sound(16)]
    said = "Repeat the benchmark 4 more times with other seeds: one run cannot show"
    assert next_of(*runs, **target(8)).startswith(said)
    said = next_of(*runs, **target(8), evidence={"runs_min": 30})
    assert "Repeat the benchmark 29 more times with other seeds" in said
    five = [sound(8, seed) for seed in range(5)]
    said = next_of(*five, sound(16), **target(8), evidence={"runs_min": 30})
    assert said == "Repeat the benchmark 25 more times with other seeds: the policy asks for 30 runs."


def test_equal_prompts_ask_for_an_un_uniform_set() -> None:
    runs = [*(make_run(make_requests(0.1, n=50, input_tokens=512)) for _ in range(5)), sound(16)]
    said = next_of(*runs, **target(8))
    assert said.startswith("Use prompts of different lengths: all have about 512 tokens (stddev 0.0)")


def test_ttft_that_grows_with_the_prompt_asks_for_its_sensitivity() -> None:
    lengths = np.linspace(100, 2000, 200)
    growing = [make_run(make_requests(lengths / 4000, input_tokens=lengths)) for _ in range(5)]
    said = next_of(*growing, sound(16), **target(8))
    assert said.startswith("Measure fixed prompt lengths one by one")
    assert "the median TTFT grows from " in said
    assert "chunked" not in said


def test_a_heavy_tpot_tail_asks_for_chunked_prefill_on_and_off() -> None:
    tpot = np.where(np.arange(200) % 50 == 0, 0.05, 0.01)  # 2 % at five times the median
    runs = [
        make_run(make_requests(0.1, 0.1 + 99 * tpot, input_tokens=np.linspace(50, 900, 200)))
        for _ in range(5)
    ]
    said = next_of(*runs, sound(16), **target(8))
    assert said.startswith("Compare chunked prefill on and off at this load: P99 TPOT 50 ms is 5.0 times the")


def test_no_completed_request_asks_for_nothing() -> None:
    assert next_of(make_run(make_requests(np.nan, status=Status.FAILED, n=10))) == ""


def test_a_goodput_of_zero_attempted_is_not_attributed() -> None:
    rows = make_requests(0.1, n=3, status=Status.CANCELLED)
    assert evaluate(POLICY, [make_run(rows)], TODAY).attribution is None


def test_misses_add_up_to_goodput_s_own() -> None:
    report = evaluate(POLICY, [make_run(random_requests())], TODAY)
    assert report.attribution is not None
    assert report.goodput is not None
    total = Misses(
        *(
            sum(getattr(bucket.misses, name) for bucket in report.attribution.by_input_length)
            for name in ("ttft", "tpot", "e2e", "several", "failed")
        )
    )
    assert total == report.goodput.misses
