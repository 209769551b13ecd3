"""A simulator of an LLM server, whose true percentiles can be known: a full KV cache preempts, prefixes hit.

Continuous batching, one step at a time. Requests are admitted first come, first served while there is a slot
and room in the KV cache; a step decodes one token of each request that has its first one and prefills up to
`chunk_tokens` beside it (0: whole prompts alone, decoding stands still). Where the cache is full, the request
admitted last gives up its place and is computed again later (vLLM's recompute). A step takes

    (step_s + per_sequence_s x decoding + per_cached_token_s x cached + per_prefill_token_s x prefilled)
    x slow x speed x noise

seconds. Prompts are a mixture of two lognormals, outputs lognormal (a sigma above 1 is a heavy tail). A
prompt may begin with one of `prefixes` shared texts of Zipf popularity, which cost nothing while they were
used in the last `prefix_ttl_s`. Arrivals are a Poisson process whose rate switches between two states (MMPP),
or a closed loop. Numba compiles the loop: 1 to 2 us a request.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

RAMP_S = 1e-4  # between the first requests of a closed loop


class Work(NamedTuple):
    """What requests are made of."""

    prompt: float = 500.0  # median tokens
    prompt_sigma: float = 0.8
    long_share: float = 0.0  # of requests with a long prompt
    long_prompt: float = 4000.0
    output: float = 150.0
    output_sigma: float = 0.7
    prefixes: int = 0
    prefix_share: float = 0.6  # of the prompt
    prefix_ttl_s: float = 30.0


class Engine(NamedTuple):
    """The server."""

    step_s: float = 8e-3
    per_sequence_s: float = 1e-4
    per_cached_token_s: float = 0.0
    per_prefill_token_s: float = 4e-5
    slots: int = 64
    chunk_tokens: int = 512
    kv_tokens: int = 0  # 0: no limit
    noise: float = 0.03
    slow_every_s: float = 0.0
    slow_for_s: float = 4.0
    slow_factor: float = 2.0
    failing: float = 0.001
    failing_slow: float = 0.02


class Load(NamedTuple):
    """How requests come: `in_flight` of a closed loop, or `rate` a second."""

    in_flight: int = 0
    rate: float = 0.0
    burst_factor: float = 1.0  # rate in a burst over the mean rate
    burst_share: float = 0.2  # of the time
    burst_s: float = 5.0  # mean length of one


class Trace(NamedTuple):
    """Requests in order of submission, in s; inf for a failed one."""

    ttft_s: Floats
    tpot_s: Floats
    e2e_s: Floats


def simulate(
    engine: Engine, work: Work, load: Load, n: int, seed: int, *, warmup: int = 0, speed: float = 1.0
) -> Trace:
    """n requests after `warmup` more that are thrown away; the same seed gives the same trace."""
    rng = np.random.default_rng(seed)
    total = n + warmup
    median = np.where(rng.random(total) < work.long_share, work.long_prompt, work.prompt)
    prompt = _lengths(rng, median, work.prompt_sigma, 8, 12_000)
    output = _lengths(rng, np.full(total, work.output), work.output_sigma, 2, 4_000)
    group = np.minimum(rng.zipf(1.6, total) - 1, max(work.prefixes, 1) - 1)
    if load.in_flight:
        arrival = np.full(total, np.inf)  # known when another request ends
        first = min(load.in_flight, total)
        arrival[:first] = RAMP_S * np.arange(first)
    else:
        arrival = _arrivals(rng, load, total)
    args = (prompt, output, group, work.prefixes, work.prefix_share, work.prefix_ttl_s)
    first_s, last_s, failed = _serve(rng, engine, arrival, load.in_flight > 0, speed, *args)
    ttft_s, e2e_s, tpot_s = first_s - arrival, last_s - arrival, (last_s - first_s) / (output - 1)
    return Trace(*(np.where(failed, np.inf, column)[warmup:] for column in (ttft_s, tpot_s, e2e_s)))


def _lengths(rng: np.random.Generator, median: Floats, sigma: float, least: int, most: int) -> Whole:
    drawn = median * np.exp(sigma * rng.standard_normal(median.size))
    return np.clip(drawn, least, most).astype(np.int64)


def _arrivals(rng: np.random.Generator, load: Load, n: int) -> Floats:
    """MMPP: time runs through unit-rate Poisson arrivals, faster in bursts; the mean rate stays."""
    unit = np.cumsum(rng.standard_exponential(n))
    if load.burst_factor <= 1.0:
        return unit / load.rate
    high = load.rate * load.burst_factor
    low = load.rate * (1 - load.burst_share * load.burst_factor) / (1 - load.burst_share)
    quiet_s = load.burst_s * (1 - load.burst_share) / load.burst_share
    pairs = int(1.5 * n / load.rate / (load.burst_s + quiet_s)) + 50
    lasts = np.stack([rng.exponential(quiet_s, pairs), rng.exponential(load.burst_s, pairs)], 1).ravel()
    rates = np.tile([low, high], pairs)
    clock, done = np.cumsum(np.r_[0.0, lasts]), np.cumsum(np.r_[0.0, lasts * rates])
    return np.interp(unit, done, clock)


def capacity(engine: Engine, work: Work, n: int = 20_000) -> float:
    """Requests/s of a server that is never short of them."""
    trace = simulate(engine, work, Load(in_flight=6 * engine.slots), n, 99, warmup=0)
    done = np.sort(trace.e2e_s[np.isfinite(trace.e2e_s)])
    # closed loop: requests in flight = rate x mean E2E (Little)
    return 6 * engine.slots / float(np.mean(done[: int(0.999 * done.size)]))


@njit(cache=True)
def _serve(
    rng: np.random.Generator,
    engine: Engine,
    arrival: Floats,
    closed: bool,
    speed: float,
    prompt: Whole,
    output: Whole,
    group: Whole,
    prefixes: int,
    prefix_share: float,
    prefix_ttl_s: float,
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """First and last token of each request in s, and which failed. Fills `arrival` of a closed loop."""
    n = arrival.size
    first_s, last_s, failed = np.zeros(n), np.zeros(n), np.zeros(n, np.bool_)
    slots = engine.slots
    owner, left = np.zeros(slots, np.int64), np.zeros(slots, np.int64)
    cached, rest = np.zeros(slots, np.int64), np.zeros(slots, np.int64)  # KV held; prompt still to prefill
    back, back_left = np.zeros(slots, np.int64), np.zeros(slots, np.int64)  # preempted, last in first out
    used_s = np.full(max(prefixes, 1), -1e18)  # when each prefix was last used
    limit = engine.kv_tokens if engine.kv_tokens > 0 else 1 << 60
    known = n if not closed else np.sum(np.isfinite(arrival))
    now, slow = 0.0, False
    switch = rng.standard_exponential() * engine.slow_every_s if engine.slow_every_s > 0 else np.inf
    following = active = waiting = ended = held = 0
    while ended < n:
        while now >= switch:
            slow = not slow
            switch += rng.standard_exponential() * (engine.slow_for_s if slow else engine.slow_every_s)
        while active < slots:
            again = waiting > 0
            if not again and (following >= known or arrival[following] > now):
                break
            request = back[waiting - 1] if again else following
            made = output[request] - back_left[waiting - 1] if again else 0
            size = prompt[request] + made
            if held + size > limit and active > 0:
                break
            todo = size
            if again:
                waiting -= 1
                left[active] = back_left[waiting]
            else:
                following += 1
                left[active] = output[request]
                failed[request] = rng.random() < (engine.failing_slow if slow else engine.failing)
                if prefixes > 0:
                    if now - used_s[group[request]] < prefix_ttl_s:
                        todo = max(1, int(size * (1.0 - prefix_share)))
                    used_s[group[request]] = now
            owner[active], cached[active], rest[active] = request, size, todo
            held += size
            active += 1
        if active == 0:
            now = max(now, arrival[following])
            continue
        decoding = 0
        for slot in range(active):
            decoding += rest[slot] == 0
        while held + decoding > limit and active > 1:
            active -= 1
            held -= cached[active]
            decoding -= rest[active] == 0
            back[waiting], back_left[waiting] = owner[active], left[active]
            waiting += 1
        whole = engine.chunk_tokens == 0
        room = 8192 if whole else max(engine.chunk_tokens - decoding, 16)
        tokens = 0
        for slot in range(active):
            if rest[slot] > 0 and room > 0:
                taken = rest[slot] if whole and tokens == 0 else min(room, rest[slot])
                if whole and taken < rest[slot]:
                    break
                tokens, room = tokens + taken, room - taken
                rest[slot] -= taken
                if rest[slot] == 0:
                    rest[slot] = -1  # its prompt ends with this step
        stalled = whole and tokens > 0
        seconds = engine.step_s + engine.per_prefill_token_s * tokens + engine.per_cached_token_s * held
        seconds += 0.0 if stalled else engine.per_sequence_s * decoding
        seconds *= speed * (engine.slow_factor if slow else 1.0)
        now += seconds * np.exp(engine.noise * rng.standard_normal())
        kept = 0
        for slot in range(active):
            request = owner[slot]
            if rest[slot] < 0 or (rest[slot] == 0 and not stalled):
                if left[slot] == output[request]:
                    first_s[request] = now
                rest[slot] = 0
                left[slot] -= 1
                cached[slot] += 1
                held += 1
            if left[slot] == 0:
                last_s[request] = now
                held -= cached[slot]
                ended += 1
                if closed and known < n:
                    arrival[known] = now
                    known += 1
                continue
            if kept < slot:
                owner[kept], left[kept] = owner[slot], left[slot]
                cached[kept], rest[kept] = cached[slot], rest[slot]
            kept += 1
        active = kept
    return first_s, last_s, failed
