"""Clock readings of rows: how long a run took, and on which day it was."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..model import Bools, Floats

_EPOCH = (1e9, 1e10)  # 2001 to 2286: else no Unix time
_PAUSE_S = 0.9  # tools wait a second or more between stages
_RARE_GAP = 10  # times the median gap between starts: an open loop seldom pauses so long
_DAY = re.compile(r"(\d{4})-?(\d{2})-?(\d{2})")


def unset(readings: NDArray[Any]) -> Bools:
    """All of several readings of a clock that never left 0, else none: a time computed from it is none."""
    return np.full(len(readings), len(readings) > 1 and not (readings > 0).any())


def span_s(start_s: Floats, end_s: Floats) -> float | None:
    """First start to last end of those that are known; None where there is no such span."""
    first = np.min(start_s, where=np.isfinite(start_s), initial=np.inf)  # no copy of a column
    last = np.max(end_s, where=np.isfinite(end_s), initial=-np.inf)
    span = float(last - first) if np.isfinite(last) and np.isfinite(first) else 0.0
    return span if span > 0 else None


def pause_s(start_s: Floats, end_s: Floats) -> float:
    """The longest time without a request in flight, where it looks like one between stages; else 0.

    Starts ascend.
    """
    idle, gaps = start_s[1:] - np.maximum.accumulate(end_s)[:-1], np.diff(start_s)
    if not gaps.size:
        return 0.0
    long = idle[(idle > _PAUSE_S) & (gaps > _RARE_GAP * np.median(gaps))]
    return float(long.max()) if long.size else 0.0


def day(start_s: Floats | float | None) -> str | None:
    """YYYY-MM-DD, in UTC, of the first of these Unix times; None where they are none."""
    if start_s is None:
        return None
    known = np.atleast_1d(np.asarray(start_s, np.float64))
    known = known[np.isfinite(known)]
    first = float(known.min()) if len(known) else 0.0
    if not _EPOCH[0] < first < _EPOCH[1]:
        return None
    return f"{datetime.fromtimestamp(first, timezone.utc):%Y-%m-%d}"


def day_of(text: str | None) -> str | None:
    """YYYY-MM-DD of a text that begins with a date (2026-11-29T14:55:32, 20261129-145532)."""
    found = _DAY.match(text or "")
    return "-".join(found.groups()) if found else None
