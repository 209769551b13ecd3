"""What is simulated, and what came of it."""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ..model import Bools, Floats

Ints = NDArray[np.int64]
NS = 10**9  # per second


class Setting(Struct, frozen=True):
    """One run: its load, its workload and its server. Exactly one of concurrency and request_rate is set."""

    requests: int = 1000
    seed: int = 1
    concurrency: int | None = 32  # closed loop
    request_rate: float | None = None  # open loop, requests/s, Poisson
    cap: int | None = None  # most requests in flight of an open loop: the rest wait in the client
    input_tokens: tuple[float, float] = (800.0, 300.0)  # mean and stddev of a normal law, from 1 on
    output_tokens: tuple[float, float] = (150.0, 50.0)
    failures: float = 0.0  # share of requests answered with HTTP 500
    spikes: float = 0.0  # share of requests that are held once while they decode, as by preemption
    spike_s: float = 1.0  # how long
    chunked_prefill: bool = True  # else whole prompts go first and decoding waits for them
    slower: float = 0.0  # each step of the engine takes this share longer
    model: str = "synthetic"


class Trace(Struct, frozen=True, eq=False):
    """Requests in the order they were sent; the first is sent at 0. A failed one has no token."""

    setting: Setting
    start_ns: Ints
    queue_ns: Ints  # waited in the client before: scheduled at start - queue
    server_queue_ns: Ints  # from start until its prefill began
    input_tokens: Ints
    failed: Bools
    token_ns: Ints  # when each token came, after its request's start; of all requests, flat
    offsets: Ints  # tokens of request i: token_ns[offsets[i]:offsets[i + 1]]

    @property
    def output_tokens(self) -> Ints:
        """How many tokens each request got."""
        return np.diff(self.offsets)

    @property
    def first_ns(self) -> Ints:
        """Start to first token; 0 of a failed request."""
        return self._at(self.offsets[:-1])

    @property
    def last_ns(self) -> Ints:
        """Start to last token; 0 of a failed request."""
        return self._at(self.offsets[1:] - 1)

    def _at(self, places: Ints) -> Ints:
        found = np.zeros(self.start_ns.size, np.int64)
        found[~self.failed] = self.token_ns[places[~self.failed]]
        return found

    def tokens_ns(self, request: int) -> Ints:
        """When the tokens of one request came, after its start."""
        return self.token_ns[self.offsets[request] : self.offsets[request + 1]]

    @property
    def duration_ns(self) -> int:
        """First start to last token."""
        return int((self.start_ns + self.last_ns).max())


def seconds(of_ns: Ints) -> Floats:
    """Nanoseconds as the nearest double of seconds."""
    return of_ns / NS
