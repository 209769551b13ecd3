"""The simulated server and its client: what each knob must do, seen in the trace."""

from __future__ import annotations

import numpy as np
import pytest

from gate.synth import Setting, Trace, simulate


def gaps_s(trace: Trace) -> np.ndarray:
    return np.concatenate([np.diff(trace.tokens_ns(i)) for i in range(trace.start_ns.size)]) / 1e9


def in_flight(trace: Trace, at_ns: int) -> int:
    return int(((trace.start_ns <= at_ns) & (at_ns < trace.start_ns + trace.last_ns)).sum())


def test_one_seed_is_one_trace_and_another_seed_another() -> None:
    one, same, other = (simulate(Setting(requests=80, seed=seed)) for seed in (3, 3, 4))
    assert np.array_equal(one.token_ns, same.token_ns)
    assert np.array_equal(one.start_ns, same.start_ns)
    assert not np.array_equal(one.input_tokens, other.input_tokens)


def test_the_workload_does_not_depend_on_the_load_or_the_server() -> None:
    slow = simulate(Setting(requests=80, concurrency=4, slower=0.5, chunked_prefill=False))
    fast = simulate(Setting(requests=80, concurrency=None, request_rate=30.0))
    assert np.array_equal(slow.input_tokens, fast.input_tokens)
    assert np.array_equal(slow.output_tokens, fast.output_tokens)


def test_a_closed_loop_keeps_its_number_in_flight_until_it_runs_out() -> None:
    trace = simulate(Setting(requests=60, concurrency=7))
    counts = [in_flight(trace, int(at)) for at in trace.start_ns]
    assert max(counts) == 7
    # those that take the places of several that ended together start a microsecond apart
    later = [in_flight(trace, int(at) + 7 * 1_000) for at in trace.start_ns]
    assert later[6:] == [7] * 54
    assert len(set(trace.start_ns.tolist())) == 60


def test_an_open_loop_sends_at_its_rate_whatever_the_server_does() -> None:
    fast, slow = (
        simulate(Setting(requests=2000, concurrency=None, request_rate=50.0, output_tokens=(4, 0), slower=s))
        for s in (0.0, 1.0)
    )
    assert np.array_equal(fast.start_ns, slow.start_ns)
    assert fast.queue_ns.max() == 0
    between_s = np.diff(fast.start_ns) / 1e9
    assert between_s.mean() == pytest.approx(1 / 50, rel=0.1)
    assert between_s.std() == pytest.approx(1 / 50, rel=0.15)  # exponential: the deviation is the mean


def test_a_cap_holds_requests_back_in_the_client() -> None:
    setting = Setting(requests=120, concurrency=None, request_rate=100.0, cap=5)
    trace = simulate(setting)
    free = simulate(Setting(requests=120, concurrency=None, request_rate=100.0))
    assert np.array_equal(trace.start_ns - trace.queue_ns, free.start_ns)
    assert max(in_flight(trace, int(at)) for at in trace.start_ns) == 5
    assert trace.queue_ns[-1] > 10**9


def test_a_failed_request_has_no_token_and_frees_its_place() -> None:
    trace = simulate(Setting(requests=400, concurrency=3, failures=0.25, output_tokens=(5, 0)))
    assert 60 <= trace.failed.sum() <= 140  # 100 expected, 4.6 deviations either way
    assert np.array_equal(trace.output_tokens == 0, trace.failed)
    assert (trace.output_tokens[~trace.failed] == 5).all()


def test_ttft_grows_with_the_prompt() -> None:
    trace = simulate(Setting(requests=300, concurrency=1, input_tokens=(2000, 900)))
    assert np.corrcoef(trace.input_tokens, trace.first_ns)[0, 1] > 0.95


def test_a_queue_forms_when_more_are_sent_than_served() -> None:
    calm, full = (
        simulate(Setting(requests=300, concurrency=None, request_rate=rate)) for rate in (2.0, 60.0)
    )
    assert np.median(full.server_queue_ns) > 20 * np.median(calm.server_queue_ns)
    assert (full.server_queue_ns <= full.first_ns).all()


def test_a_spike_is_one_long_gap_in_the_share_of_requests_asked_for() -> None:
    trace = simulate(Setting(requests=2000, concurrency=16, output_tokens=(20, 5), spikes=0.01, spike_s=3.0))
    longest = np.array([np.diff(trace.tokens_ns(i)).max(initial=0) for i in range(2000)]) / 1e9
    assert 8 <= (longest >= 3.0).sum() <= 35  # 20 expected, 2.7 and 3.4 deviations
    assert ((longest >= 3.0) | (longest < 1.0)).all()


def test_without_chunked_prefill_long_prompts_stretch_the_tail_of_the_gaps_and_not_their_median() -> None:
    on, off = (
        gaps_s(
            simulate(Setting(requests=300, concurrency=16, input_tokens=(4000, 500), chunked_prefill=flag))
        )
        for flag in (True, False)
    )
    assert np.percentile(off, 99) > 4 * np.percentile(on, 99)
    assert np.median(off) < 1.2 * np.median(on)


def test_a_slower_engine_takes_longer_by_that_share() -> None:
    before, after = (simulate(Setting(requests=50, concurrency=1, slower=slower)) for slower in (0.0, 0.2))
    assert after.duration_ns / before.duration_ns == pytest.approx(1.2, abs=1e-6)
