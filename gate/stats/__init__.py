"""Quantiles, intervals and sample planning: numpy in, floats out. Imports nothing else of ours.

Every absolute rule is a counting question: "P99 TTFT <= 800 ms" is "at least 99 % of the attempted
requests had a TTFT <= 800 ms". Requests of a server under load are not independent: one slow minute
spoils hundreds of neighbours. So the sample is first shrunk to the number of independent requests it
is worth (n_eff = n / deff, deff from runs or blocks as clusters), then an exact binomial test is asked:
the Korn-Graubard interval of survey statistics (Korn and Graubard 1998; SAS SURVEYFREQ; R svyciprop
"beta"). docs/statistics.md says it in plain words and shows the error rates measured.
"""

from __future__ import annotations

from ._beta import beta_quantile, betainc, normal_quantile, t_quantile
from ._counting import (
    MIN_RUNS,
    Level,
    Series,
    Units,
    count_runs,
    merge,
    nearest_rank,
    needed,
    second_level,
    share_met,
    units,
    units_from_counts,
)
from ._planning import MIN_EFFECTIVE, MIN_REQUESTS, more_requests, zero_miss_minimum
from ._relative import Shift, band_shift, holm_levels, paired_shift, sturdier, welch_shift
from ._room import MOST_SHARE, RoomTest, room_test
from ._verdict import ShareTest, t_interval, test_share

__all__ = [
    "MIN_EFFECTIVE",
    "MIN_REQUESTS",
    "MIN_RUNS",
    "MOST_SHARE",
    "Level",
    "RoomTest",
    "Series",
    "ShareTest",
    "Shift",
    "Units",
    "band_shift",
    "beta_quantile",
    "betainc",
    "count_runs",
    "holm_levels",
    "merge",
    "more_requests",
    "nearest_rank",
    "needed",
    "normal_quantile",
    "paired_shift",
    "room_test",
    "second_level",
    "share_met",
    "sturdier",
    "t_interval",
    "t_quantile",
    "test_share",
    "units",
    "units_from_counts",
    "welch_shift",
    "zero_miss_minimum",
]
