"""A simulator of an LLM server with continuous batching: traces whose true percentiles can be known.

One engine, one step at a time. Requests are admitted first come, first served, up to `slots` at once. A
step decodes one token of every request that has its first one, and prefills prompts that wait: up to
`chunk_tokens` beside the decoding (chunked prefill), or, with 0, whole prompts alone while all decoding
stands still. It takes

    (step_s + per_sequence_s x decoding + per_prefill_token_s x prefilled) x slow x speed x noise

seconds. Prompts and outputs are lognormal, arrivals Poisson, bursty (gamma) or a closed loop. Slow phases
come and go at random (a neighbour, a clock, a collection of garbage) and fail more requests. The figures of
docs/regression.md come from its eight scenarios; simulator.py is a later one, with a KV cache. Numba compiles
the loop: well under 1 us a request.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]

PROMPT = (500.0, 0.8, 8, 8000)  # median, sigma of the logarithm, least and most tokens
OUTPUT = (150.0, 0.7, 2, 3000)
PREFILL_MOST = 8192  # tokens of whole prompts in one step
CHUNK_LEAST = 16  # a full batch still leaves this much room for prefill
RAMP_S = 1e-4  # between the first requests of a closed loop


class Server(NamedTuple):
    """The engine, and what happens to it."""

    step_s: float = 8e-3
    per_sequence_s: float = 1e-4
    per_prefill_token_s: float = 4e-5
    slots: int = 64
    chunk_tokens: int = 512
    noise: float = 0.03
    slow_every_s: float = 0.0  # mean time between slow phases; 0 for none
    slow_for_s: float = 4.0
    slow_factor: float = 2.0
    failing: float = 0.001  # share of requests that fail
    failing_slow: float = 0.02  # in a slow phase
    speed: float = 1.0  # of this run: above 1 is slower


class Scenario(NamedTuple):
    """A server and the load it is under."""

    server: Server = Server()
    rate: float = 0.0  # requests/s, open loop
    burst: float = 1.0  # shape of the gaps between arrivals; 1 is Poisson
    in_flight: int = 0  # closed loop

    def at_speed(self, speed: float) -> Scenario:
        return self._replace(server=self.server._replace(speed=speed))


SCENARIOS = {
    "open, 30 % load": Scenario(rate=4.0),
    "open, 65 %": Scenario(rate=9.0),
    "open, 90 %": Scenario(rate=12.6),
    "open, 65 %, unchunked": Scenario(Server(chunk_tokens=0), rate=9.0),
    "open, slow phases": Scenario(Server(slow_every_s=40.0), rate=8.0),
    "open, bursts": Scenario(rate=9.0, burst=0.25),
    "closed, 32": Scenario(in_flight=32),
    "closed, 128 on 64 slots": Scenario(in_flight=128),
}


class Trace(NamedTuple):
    """Requests in order of submission, in seconds; a failed one has a TTFT, TPOT and E2E of infinity."""

    ttft_s: Floats
    tpot_s: Floats
    e2e_s: Floats


def simulate(scenario: Scenario, n: int, seed: int, warmup: int = 0) -> Trace:
    """n requests after `warmup` more that are thrown away; the same seed gives the same trace."""
    rng = np.random.default_rng(seed)
    total = n + warmup
    prompt, output = _lengths(rng, total, *PROMPT), _lengths(rng, total, *OUTPUT)
    if scenario.in_flight:
        arrival = np.full(total, np.inf)  # known when another request ends
        first = min(scenario.in_flight, total)
        arrival[:first] = RAMP_S * np.arange(first)
    else:
        arrival = np.cumsum(rng.gamma(scenario.burst, 1.0 / (scenario.burst * scenario.rate), total))
    first_s, last_s, failed = _serve(rng, scenario.server, arrival, scenario.in_flight > 0, prompt, output)
    ttft_s, e2e_s, tpot_s = first_s - arrival, last_s - arrival, (last_s - first_s) / (output - 1)
    return Trace(*(np.where(failed, np.inf, column)[warmup:] for column in (ttft_s, tpot_s, e2e_s)))


def _lengths(
    rng: np.random.Generator, n: int, median: float, sigma: float, least: int, most: int
) -> NDArray[np.int64]:
    drawn = np.exp(math.log(median) + sigma * rng.standard_normal(n))
    return np.clip(drawn, least, most).astype(np.int64)


@njit(cache=True)
def _prefill(
    server: Server, prompt: NDArray[np.int64], decoding: int, at: int, admitted: int, rest: int
) -> tuple[int, int, int]:
    """One step: tokens prefilled, the first request that still waits, and what is left of its prompt."""
    tokens = 0
    if server.chunk_tokens == 0:
        while at < admitted and (tokens == 0 or tokens + prompt[at] <= PREFILL_MOST):
            tokens += prompt[at]
            at += 1
        return tokens, at, 0
    room = max(server.chunk_tokens - decoding, CHUNK_LEAST)
    while room > 0 and at < admitted:
        left = rest if rest > 0 else prompt[at]
        taken = min(room, left)
        tokens, room, rest = tokens + taken, room - taken, left - taken
        if rest == 0:
            at += 1
    return tokens, at, rest


@njit(cache=True)
def _decode(
    now: float, decoding: int, owner: NDArray[np.int64], left: NDArray[np.int64], last_s: Floats
) -> int:
    """One token for each of the first `decoding` slots; ended ones are filled from the end."""
    slot = 0
    while slot < decoding:
        left[slot] -= 1
        if left[slot] > 0:
            slot += 1
            continue
        last_s[owner[slot]] = now
        decoding -= 1
        owner[slot], left[slot] = owner[decoding], left[decoding]
    return decoding


@njit(cache=True)
def _serve(
    rng: np.random.Generator,
    server: Server,
    arrival: Floats,
    closed: bool,
    prompt: NDArray[np.int64],
    output: NDArray[np.int64],
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """First and last token of each request in s, and which failed. Fills `arrival` of a closed loop."""
    n = arrival.size
    first_s, last_s, failed = np.zeros(n), np.zeros(n), np.zeros(n, np.bool_)
    owner, left = np.zeros(server.slots, np.int64), np.zeros(server.slots, np.int64)
    known = n if not closed else np.sum(np.isfinite(arrival))
    now, slow = 0.0, False
    switch = rng.standard_exponential() * server.slow_every_s if server.slow_every_s > 0 else np.inf
    admitted = at = rest = decoding = ended = 0
    while ended < n:
        while now >= switch:
            slow = not slow
            switch += rng.standard_exponential() * (server.slow_for_s if slow else server.slow_every_s)
        while admitted < known and arrival[admitted] <= now and decoding + admitted - at < server.slots:
            failed[admitted] = rng.random() < (server.failing_slow if slow else server.failing)
            admitted += 1
        if decoding == 0 and at == admitted:
            now = max(now, arrival[admitted])
            continue
        begun = at
        tokens, at, rest = _prefill(server, prompt, decoding, at, admitted, rest)
        stalled = server.chunk_tokens == 0 and tokens > 0
        seconds = server.step_s + server.per_prefill_token_s * tokens
        seconds += 0.0 if stalled else server.per_sequence_s * decoding
        seconds *= server.speed * (server.slow_factor if slow else 1.0)
        now += seconds * np.exp(server.noise * rng.standard_normal())
        still = decoding if stalled else _decode(now, decoding, owner, left, last_s)
        for _ in range(decoding - still if closed else 0):
            if known < n:
                arrival[known] = now
                known += 1
        ended, decoding = ended + decoding - still, still
        for request in range(begun, at):
            first_s[request] = now
            owner[decoding], left[decoding] = request, output[request] - 1
            decoding += 1
    return first_s, last_s, failed
