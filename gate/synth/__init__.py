"""Seeded synthetic results: one trace of a small serving simulator, in the shapes of several tools.

For demos, docs and tests that need a cause to be known: a queue, prefill by prompt length, decoding with
tail spikes, failures, chunked prefill on and off. It is a model of a server, not a measurement of one.
Times are whole nanoseconds, so that every shape holds the same trace exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ._engine import simulate
from ._shapes import generic, vllm
from ._summarised import genai_perf, llmperf
from ._trace import Setting, Trace

Shape = Callable[[Trace, str], Mapping[str, bytes]]

# Each gives the content of its files by name, for a run of that name. Raises UsageError for what the
# tool could not have measured.
SHAPES: Mapping[str, Shape] = {
    "generic": generic,
    "vllm": vllm,
    "genai-perf": genai_perf,
    "llmperf": llmperf,
}

__all__ = ["SHAPES", "Setting", "Shape", "Trace", "simulate"]
