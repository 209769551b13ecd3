"""Synthetic benchmarks for the tests of the statistics."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import strategies as st

scipy_stats = pytest.importorskip("scipy.stats")

SHARES = (0.5, 0.9, 0.95, 0.99, 0.999)
RUNS = st.lists(
    st.lists(st.floats(0, 2) | st.just(math.inf), min_size=20, max_size=80).map(np.array),
    min_size=5,
    max_size=9,
)


def benchmark(rng, sizes, share, multiple=1.0, phi=0.9):
    """Runs of AR(1) scores that miss 1 with `multiple` times the odds that `share` allows."""
    odds = multiple * (1 - share) / share
    bound = scipy_stats.norm.isf(odds / (1 + odds))
    runs = []
    for size in sizes:
        z = rng.standard_normal(size)
        for i in range(1, size):
            z[i] = phi * z[i - 1] + math.sqrt(1 - phi * phi) * z[i]
        runs.append(np.exp(z - bound))
    return runs
