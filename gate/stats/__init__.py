"""Quantiles, intervals and sample planning: numpy in, floats out. Imports nothing else of ours.

Every absolute rule is a counting question: "P99 TTFT <= 800 ms" is "at least 99 % of the attempted
requests had a TTFT <= 800 ms". Requests of a server under load are not independent: one slow minute
spoils hundreds of neighbours. So the sample is first shrunk to the number of independent requests it
is worth (n_eff = n / deff, deff from runs or blocks as clusters), then an exact binomial test is asked:
the Korn-Graubard interval of survey statistics (Korn and Graubard 1998; SAS SURVEYFREQ; R svyciprop
"beta"). docs/statistics.md says it in plain words and shows the error rates measured.
"""

from __future__ import annotations

from ._beta import (
    beta_quantile as beta_quantile,
    betainc as betainc,
    normal_quantile as normal_quantile,
    t_quantile as t_quantile,
)
from ._changes import (
    ALPHA as ALPHA,
    FEWEST as FEWEST,
    ChangePoint as ChangePoint,
    Moved as Moved,
    best_split as best_split,
    change_points as change_points,
    find_changes as find_changes,
    p_split as p_split,
)
from ._components import (
    Components as Components,
    detectable as detectable,
    variance_components as variance_components,
)
from ._counting import (
    BLOCKS as BLOCKS,
    MIN_RUNS as MIN_RUNS,
    Level as Level,
    Series as Series,
    Units as Units,
    count_runs as count_runs,
    dependence as dependence,
    merge as merge,
    nearest_rank as nearest_rank,
    nearest_ranks as nearest_ranks,
    needed as needed,
    second_level as second_level,
    share_met as share_met,
    units as units,
    units_from_counts as units_from_counts,
)
from ._planning import (
    MIN_EFFECTIVE as MIN_EFFECTIVE,
    MIN_FAILING as MIN_FAILING,
    MIN_REQUESTS as MIN_REQUESTS,
    more_requests as more_requests,
    zero_miss_minimum as zero_miss_minimum,
)
from ._relative import (
    TRIM as TRIM,
    Shift as Shift,
    band_shift as band_shift,
    expected_quantiles as expected_quantiles,
    holm_levels as holm_levels,
    paired_shift as paired_shift,
    sturdier as sturdier,
    trimmed_shift as trimmed_shift,
    welch_shift as welch_shift,
)
from ._room import MOST_SHARE as MOST_SHARE, RoomTest as RoomTest, room_test as room_test
from ._tail import TAIL_EFFECTIVE as TAIL_EFFECTIVE, TailTest as TailTest, tail_test as tail_test
from ._verdict import (
    ShareTest as ShareTest,
    design_effect as design_effect,
    t_interval as t_interval,
    test_share as test_share,
)
