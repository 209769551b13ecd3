"""slo-gate: a gate on goodput and percentiles for LLM-serving benchmarks."""

__version__ = "0.1.0"
