"""A continuous-batching server and its client, one engine step at a time, in whole nanoseconds.

A step takes base + a bit for each sequence that decodes + a bit for each prompt token it prefills. With
chunked prefill a step shares its token budget between decoding and the head of the queue (vLLM V1,
Sarathi-Serve, arXiv 2403.02310); without, waiting prompts go whole and first, and decoding waits.
Constants are those of an 8B model on one large GPU, to the order of magnitude.
"""

from __future__ import annotations

import random
from collections import deque

import numpy as np

from ._trace import NS, Setting, Trace

BASE_NS = 8_000_000  # of a step
SEQUENCE_NS = 100_000  # more for each sequence that decodes
PROMPT_NS = 40_000  # more for each prompt token
BUDGET = 512  # tokens of a chunked step
LEAST_CHUNK = 16  # prompt tokens a step takes however many decode
WHOLE = 8192  # prompt tokens of a step without chunks
SLOTS = 64  # sequences in the batch
NOISE = 0.03  # stddev of the log of a step's time
SEND_NS = 1_000  # a client sends one request after another: no two of them start at once
FAIL_NS = 5_000_000  # how long an HTTP 500 takes


class _Request:
    """One request on its way."""

    __slots__ = (
        "failing",
        "held_ns",
        "input",
        "left",
        "output",
        "prefill_ns",
        "scheduled_ns",
        "spike",
        "start_ns",
        "tokens",
    )

    def __init__(self, draw: random.Random, setting: Setting) -> None:
        self.input = _length(draw, setting.input_tokens)
        self.output = _length(draw, setting.output_tokens)
        self.failing = draw.random() < setting.failures
        held = draw.random() < setting.spikes
        at = draw.randrange(max(1, self.output - 1)) + 1
        self.spike = at if held and self.output > 1 else 0  # held after this many tokens
        self.left = self.input  # prompt tokens still to prefill
        self.held_ns = self.scheduled_ns = self.start_ns = 0
        self.prefill_ns = -1
        self.tokens: list[int] = []


def _length(draw: random.Random, law: tuple[float, float]) -> int:
    return max(1, round(draw.gauss(*law)))


def simulate(setting: Setting) -> Trace:
    """The trace of a setting; the same setting gives the same trace on every machine.

    Lengths, failures and spikes depend on the seed alone, so that two servers or loads see one workload.
    """
    # random.Random and not numpy's: its streams are the same in every version of the libraries we allow.
    draw = random.Random(setting.seed)
    requests = [_Request(draw, setting) for _ in range(setting.requests)]
    if setting.request_rate is not None:
        at = 0.0
        for request in requests:
            request.scheduled_ns = round(at * NS)
            at += draw.expovariate(setting.request_rate)
    _Run(setting, requests, draw).all()
    return _trace(setting, requests)


class _Run:
    """The state of client and server between two steps."""

    def __init__(self, setting: Setting, requests: list[_Request], draw: random.Random) -> None:
        self.setting = setting
        self.draw = draw
        self.now_ns = self.freed_ns = self.sent_ns = 0
        self.limit = setting.concurrency if setting.request_rate is None else setting.cap
        self.unsent = deque(requests)
        self.waiting: deque[_Request] = deque()
        self.prefilling: deque[_Request] = deque()
        self.running: list[_Request] = []
        self.failing: deque[_Request] = deque()

    def all(self) -> None:
        """Until the last request is done."""
        self._send()
        while self.unsent or self._in_flight():
            while self.waiting and len(self.running) + len(self.prefilling) < SLOTS:
                self.prefilling.append(self.waiting.popleft())
            decoding = [request for request in self.running if request.held_ns <= self.now_ns]
            if self.prefilling or decoding:
                self._step(decoding)
            else:
                self._idle()

    def _in_flight(self) -> int:
        return len(self.waiting) + len(self.prefilling) + len(self.running) + len(self.failing)

    def _send(self) -> None:
        """What the client sends by now: on schedule, or when one in flight ends."""
        self._end_failing()
        while self.unsent and self.unsent[0].scheduled_ns <= self.now_ns:
            if self.limit is not None and self._in_flight() >= self.limit:
                return
            request = self.unsent.popleft()
            request.start_ns = max(request.scheduled_ns, self.freed_ns, self.sent_ns)
            self.sent_ns = request.start_ns + SEND_NS
            (self.failing if request.failing else self.waiting).append(request)
            self._end_failing()

    def _end_failing(self) -> None:
        while self.failing and self.failing[0].start_ns + FAIL_NS <= self.now_ns:
            self._free(self.failing.popleft().start_ns + FAIL_NS, 1)

    def _free(self, at_ns: int, ended: int) -> None:
        """A request ended: one that waited for it in the client starts then."""
        if self.limit is not None and self._in_flight() + ended >= self.limit:
            self.freed_ns = max(self.freed_ns, at_ns)

    def _step(self, decoding: list[_Request]) -> None:
        chunked = self.setting.chunked_prefill
        if self.prefilling and not chunked:
            decoding = []
        tokens, begun = self._prefill(max(BUDGET - len(decoding), LEAST_CHUNK) if chunked else WHOLE)
        work_ns = BASE_NS + SEQUENCE_NS * len(decoding) + PROMPT_NS * tokens
        noise = 2.718281828459045 ** self.draw.gauss(0.0, NOISE)
        self.now_ns += round(work_ns * (1 + self.setting.slower) * noise)
        self.running += begun
        self._send()  # before anything ends: those that found a free place
        for request in (*decoding, *begun):
            request.tokens.append(self.now_ns)
            if len(request.tokens) == request.spike:
                request.held_ns = self.now_ns + round(self.setting.spike_s * NS)
        going = [request for request in self.running if len(request.tokens) < request.output]
        ended, self.running = len(self.running) - len(going), going
        if ended:
            self._free(self.now_ns, ended)
        self._send()

    def _prefill(self, budget: int) -> tuple[int, list[_Request]]:
        """Prompt tokens taken from the head of the queue, and the requests whose prompt is then done."""
        taken, done = 0, []
        while self.prefilling and taken < budget:
            request = self.prefilling[0]
            if not self.setting.chunked_prefill and taken and taken + request.left > budget:
                break
            if request.prefill_ns < 0:
                request.prefill_ns = self.now_ns
            part = min(request.left, budget - taken) if self.setting.chunked_prefill else request.left
            request.left -= part
            taken += part
            if not request.left:
                done.append(self.prefilling.popleft())
        return taken, done

    def _idle(self) -> None:
        """Nothing to compute: on to the next thing that happens."""
        events = [request.held_ns for request in self.running]
        events += [request.start_ns + FAIL_NS for request in self.failing]
        events += [self.unsent[0].scheduled_ns] if self.unsent else []
        self.now_ns = max(self.now_ns, min((at for at in events if at > self.now_ns), default=self.now_ns))
        self._send()


def _trace(setting: Setting, requests: list[_Request]) -> Trace:
    starts = np.array([request.start_ns for request in requests], np.int64)
    lengths = np.array([len(request.tokens) for request in requests], np.int64)
    tokens = np.array([at for request in requests for at in request.tokens], np.int64)
    failed = np.array([request.failing for request in requests], bool)
    scheduled = np.array([request.scheduled_ns for request in requests], np.int64)
    prefill = np.array([request.prefill_ns for request in requests], np.int64)
    closed = setting.request_rate is None
    return Trace(
        setting,
        starts - starts[0],
        np.zeros_like(starts) if closed else starts - scheduled,
        np.where(failed, 0, np.maximum(prefill - starts, 0)),
        np.array([request.input for request in requests], np.int64),
        failed,
        tokens - np.repeat(starts, lengths),
        np.concatenate(([0], np.cumsum(lengths))),
    )
