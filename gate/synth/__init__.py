"""Seeded synthetic results: one trace of a small serving simulator, as home-made rows or as vLLM writes them.

For demos, docs and tests that need a cause to be known: a queue, prefill by prompt length, decoding with
tail spikes, failures, chunked prefill on and off. It is a model of a server, not a measurement of one.
Times are whole nanoseconds, so that every shape holds the same trace exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ._engine import simulate
from ._shapes import generic, vllm
from ._trace import Setting, Trace

Shape = Callable[[Trace, str], Mapping[str, bytes]]

# Each gives the content of its files by name, for a run of that name.
SHAPES: Mapping[str, Shape] = {"generic": generic, "vllm": vllm}

__all__ = ["SHAPES", "Setting", "Shape", "Trace", "simulate"]
