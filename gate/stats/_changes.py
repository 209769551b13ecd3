"""Where series changed their level: E-divisive as Hunter and Apache Otava use it, for several at once.

A split is scored by the energy distance of its two sides (Matteson and James 2014, alpha 1), the best one
of a sliding window is tested, and splits that do not hold between their neighbours are dropped again,
weakest first (Fleming et al. 2023, "Hunter", doi 10.1145/3578244.3583719; Apache Otava 0.8.0).

What is of our own, since sessions on shared nodes are no Gaussian noise and several figures are looked at:
the level is shared by all figures and places, single bad sessions are pulled in, neighbours that are alike
count less, and a change of several figures is one change with a range. docs/trend.md shows the error rates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from msgspec import Struct

from ._beta import betainc
from ._counting import Floats
from ._relative import Shift, welch_shift

ALPHA = 0.02  # chance of any false change in all series of a family, of sessions that are independent
FEWEST = 3  # sessions on either side of a change; fewer are an outlier or not yet known
_WINDOW = 50  # that one split is looked for in; the next window starts half of it later (Otava's)
_WEAKER = 10.0  # times the level: what may be a change until its neighbours are known (Otava's)
_NEAR, _FAR = 5, 2.5  # neighbours on either side of a Hampel filter, and how many deviations are kept
_RANGE = 10.6  # twice the log-likelihood a place may lack and be in a 99 % range, Siegmund (1988)
_SAME = 15.2  # and in a 99.9 % range: changes of two figures that overlap are one
_TAILS = 4.0  # of the noise that a change is placed in
_LARGEST_SERIAL = 0.9


class Moved(Struct, frozen=True):
    """How one series moved at a change: the means on both sides, and the shift between them."""

    series: int
    before: float
    after: float
    shift: Shift


class ChangePoint(Struct, frozen=True):
    """The place that starts a new level; with 99 % confidence it is one of `first` to `last`."""

    at: int
    first: int
    last: int
    moved: tuple[Moved, ...]  # the clearest first


def find_changes(
    series: Sequence[Floats],
    least: Sequence[float] = (),
    starts: Sequence[int] | None = None,
    alpha: float = ALPHA,
) -> list[ChangePoint]:
    """Changes of the level of any of `series`, all over the same sessions; NaN where one lacks a figure.

    `least` is for each the standard deviation that its sessions have at least, as counts do; `starts` are
    the places where a change can be, such as those where another commit begins: one of them is preferred.
    """
    known = [np.flatnonzero(np.isfinite(values)) for values in series]
    floors = list(least) or [0.0] * len(series)
    tests = sum(places.size for places in known)
    found = []
    smooth = [_pulled(values) for values in series]
    serial = [1.0] * len(series)
    for index, places in enumerate(known):
        values = smooth[index][places]
        own = change_points(values, alpha / max(tests, 1), fewest=FEWEST, least=floors[index], serial=True)
        serial[index] = _serial(values, own)
        edges = [0, *own, places.size]
        for low, at, high in zip(edges, edges[1:], edges[2:], strict=False):
            p_value = p_split(values[low:at], values[at:high], floors[index], serial[index])
            ends = (int(places[low]), int(places[high - 1]) + 1)
            found.append(_Found(p_value, index, int(places[at]), ends))
    family = _Family(series, smooth, floors, serial, set(starts) if starts is not None else None)
    return _sized(sorted(family.joined(found), key=lambda change: change[0]), family)


class _Found(Struct, frozen=True, order=True):
    p_value: float
    series: int
    at: int
    ends: tuple[int, int]  # of the two levels on both sides


class _Family(Struct, frozen=True, eq=False):
    series: Sequence[Floats]
    smooth: Sequence[Floats]
    floors: Sequence[float]
    serial: Sequence[float]
    starts: set[int] | None

    def joined(self, found: list[_Found]) -> Iterator[tuple[int, int, int, list[int]]]:
        """(at, first, last, series) of each change, of what overlaps the clearest one first."""
        left = sorted(found)
        spans = {one: self._range((one,), _SAME)[1:] for one in left}
        while left:
            lead = left[0]
            first, last = spans[lead]
            same = {lead.series: lead}
            for one in left[1:]:
                low, high = spans[one]
                if low <= last + 1 and high >= first - 1:
                    same.setdefault(one.series, one)
            members = list(same.values())
            left = [one for one in left if one not in members]
            yield (*self._range(members, _RANGE), [one.series for one in members])

    def _range(self, members: Sequence[_Found], most: float) -> tuple[int, int, int]:
        """The likeliest place where these series changed together, and the first and last that may be it."""
        start, end = max(one.ends[0] for one in members), min(one.ends[1] for one in members)
        lack = sum(
            (
                _lack(self.series[one.series][start:end], one.at - start, self.floors[one.series])
                / self.serial[one.series]
                for one in members
            ),
            np.zeros(end - start - 1),
        )
        lack -= lack.min()
        at = int(lack.argmin()) + start + 1
        inside = np.flatnonzero(lack / self._alike(members, (start, end), at) <= most) + start + 1
        begun = [place for place in inside.tolist() if self.starts is None or place in self.starts]
        at = min(begun or [at], key=lambda place: lack[place - start - 1])
        return at, int(inside[0]), int(inside[-1])

    def _alike(self, members: Sequence[_Found], ends: tuple[int, int], at: int) -> float:
        """By how much a sum over series that vary together says too much: 1 + (m - 1) mean correlation."""
        if len(members) < 2:
            return 1.0
        rows = []
        for one in members:
            row = self.smooth[one.series][slice(*ends)].copy()
            for side in (row[: at - ends[0]], row[at - ends[0] :]):
                side -= np.nanmean(side) if np.isfinite(side).any() else 0.0
            row[~np.isfinite(row)] = 0.0
            rows.append(row / (math.sqrt(float((row**2).sum())) or 1.0))
        number = len(rows)
        total = float(np.square(np.sum(rows, axis=0)).sum())
        return max(1.0, total / number)


def _sized(changes: list[tuple[int, int, int, list[int]]], family: _Family) -> list[ChangePoint]:
    size = family.series[0].size if family.series else 0
    found = []
    for at, first, last, members in changes:
        moved = []
        for index in members:
            edges = [0, *(other[0] for other in changes if index in other[3]), size]
            place = edges.index(at, 1)
            left, right = (
                family.smooth[index][low:high]
                for low, high in ((edges[place - 1], at), (at, edges[place + 1]))
            )
            left, right = left[np.isfinite(left)], right[np.isfinite(right)]
            if min(left.size, right.size) < 2:
                continue
            shift = welch_shift(left, right)
            error = shift.error * math.sqrt(family.serial[index])
            wide = Shift(shift.estimate, error, shift.df)
            moved.append(Moved(index, float(left.mean()), float(right.mean()), wide))
        if moved:
            found.append(ChangePoint(at, first, last, tuple(moved)))
    return found


# ---- one series ---------------------------------------------------------------------------------


def best_split(values: Floats) -> tuple[int, float]:
    """Where `values` (two or more) are most unlike on both sides, and how much: E-divisive's q-hat.

    The largest m n / (m + n) (2 mean|x - y| - mean|x - x'| - mean|y - y'|) of x = values[:at] (n) and
    y = values[at:end] (m), over all `at` and `end`; means over pairs that differ.
    """
    size = values.size
    total = np.zeros((size + 1, size + 1))
    total[1:, 1:] = np.abs(values[:, None] - values).cumsum(axis=0).cumsum(axis=1)
    inside = np.diagonal(total)  # of the pairs before each place, either way round
    at, end = np.arange(1, size)[:, None], np.arange(2, size + 1)[None, :]
    n, m = at, np.maximum(end - at, 1)
    across = total[at, end] - inside[at]
    left, right = inside[at], inside[end] - inside[at] - 2.0 * across
    score = 2.0 * across - m * left / np.maximum(n - 1, 1) - n * right / np.maximum(m - 1, 1)
    score = np.where(end > at, score / (n + m), -np.inf)
    row, column = np.unravel_index(np.argmax(score), score.shape)
    return int(row) + 1, float(score[row, column])


def p_split(left: Floats, right: Floats, least: float = 0.0, serial: float = 1.0) -> float:
    """Two-sided p value of Student's t of two sides of like spread; 1 for fewer than three values.

    The spread is `least` or more; its square counts `serial` times where neighbours are alike.
    """
    df = left.size + right.size - 2
    if df < 1:
        return 1.0
    gap = float(right.mean() - left.mean())
    scale = max(float(np.abs(left).max()), float(np.abs(right).max()))
    inside = float(((left - left.mean()) ** 2).sum() + ((right - right.mean()) ** 2).sum()) / df
    spread = max(inside, least**2, (1e-12 * scale) ** 2) * serial
    if abs(gap) <= 1e-12 * scale:
        return 1.0
    square = gap * gap / (spread * (1 / left.size + 1 / right.size))
    return betainc(df / 2.0, 0.5, df / (df + square))


def change_points(
    values: Floats, level: float, *, fewest: int = 1, least: float = 0.0, serial: bool = False
) -> list[int]:
    """The places that start a new level of one series, each at least `fewest` values from the next.

    Hunter's method. `least` as in `p_split`; with `serial`, values that are like their neighbours count less.
    """
    found: set[int] = set()
    start = 0
    while start < values.size:
        end = min(start + _WINDOW, values.size)
        new = [start + at for at in _splits(values[start:end], level * _WEAKER)]
        found.update(new)
        start = max(*new, start + _WINDOW // 2) if new else start + _WINDOW // 2
    places = sorted(found)
    while places:
        edges = [0, *places, values.size]
        inflated = _serial(values, places) if serial else 1.0
        p_values = [
            2.0
            if min(at - low, high - at) < fewest
            else p_split(values[low:at], values[at:high], least, inflated)
            for low, at, high in zip(edges, edges[1:], edges[2:], strict=False)
        ]
        if max(p_values) < level:
            break
        del places[p_values.index(max(p_values))]
    return places


def _splits(values: Floats, level: float) -> list[int]:
    """Places of a window, the most unlike first, until one does not hold."""
    places: list[int] = []
    best: dict[tuple[int, int], tuple[float, int]] = {}
    while True:
        edges = [0, *places, values.size]
        spans = [(low, high) for low, high in pairwise(edges) if high - low > 1]
        for low, high in spans:
            if (low, high) not in best:
                at, score = best_split(values[low:high])
                best[low, high] = (score, low + at)
        if not spans:
            return places
        low, high = max(spans, key=lambda span: best[span][0])
        at = best[low, high][1]
        if p_split(values[low:at], values[at:high]) > level:
            return places
        places = sorted((*places, at))


def _serial(values: Floats, places: Sequence[int]) -> float:
    """By how much likeness of neighbours inflates the variance of a mean: (1 + r) / (1 - r).

    r is the first autocorrelation around the levels, its bias of about (1 + 3 r) / n and one level put back
    (Kendall 1954); one below 0 is none.
    """
    edges = [0, *places, values.size]
    sides = [values[low:high] for low, high in pairwise(edges)]
    rest = np.concatenate([side - side.mean() for side in sides if side.size]) if values.size else values
    total = float((rest**2).sum())
    if total <= 0.0:
        return 1.0
    r = float((rest[1:] * rest[:-1]).sum()) / total
    r += (1.0 + len(places) + 3.0 * max(r, 0.0)) / values.size
    r = min(max(r, 0.0), _LARGEST_SERIAL)
    return (1.0 + r) / (1.0 - r)


def _pulled(values: Floats) -> Floats:
    """Each value pulled towards the median of its neighbours where it is far from it (Hampel filter).

    Far is _FAR standard deviations, by the median of all distances; medians keep a step where it is.
    """
    places = np.flatnonzero(np.isfinite(values))
    kept = values[places]
    if kept.size <= 2 * _NEAR:
        return values
    padded = np.pad(kept, _NEAR, mode="reflect")
    middle = np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * _NEAR + 1), axis=1)
    spread = 1.4826 * float(np.median(np.abs(kept - middle)))
    if spread == 0.0:  # most are equal: which are far nobody knows
        return values
    found = values.copy()
    found[places] = middle + np.clip(kept - middle, -_FAR * spread, _FAR * spread)
    return found


def _lack(values: Floats, at: int, least: float) -> Floats:
    """Twice the log-likelihood that a step at each place after the first lacks; NaN is no value.

    The levels are the medians on both sides of `at`. The noise is Student's t with _TAILS degrees of freedom,
    its scale that of the median distance (Lange, Little and Taylor 1989): sessions of a quiet node say more
    than those of a noisy one.
    """
    known = np.isfinite(values)
    sides = [values[:at][known[:at]], values[at:][known[at:]]]
    levels = [float(np.median(side)) if side.size else 0.0 for side in sides]
    rest = np.concatenate([np.abs(side - level) for side, level in zip(sides, levels, strict=True)])
    scale = 1.4826 * float(np.median(rest)) or math.sqrt(float((rest**2).mean()))
    scale = max(scale, least, 1e-9 * max(map(abs, levels)), 1e-12)
    loss = [
        np.where(known, (_TAILS + 1.0) * np.log1p(((values - level) / scale) ** 2 / _TAILS), 0.0)
        for level in levels
    ]
    before, after = loss[0].cumsum()[:-1], loss[1][::-1].cumsum()[::-1][1:]
    return np.asarray(before + after, np.float64)
