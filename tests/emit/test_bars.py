"""Pictures made of characters, and of Mermaid in a comment."""

from __future__ import annotations

import re

import numpy as np
import pytest
from msgspec.structs import replace

from gate import saved
from gate.emit import EMITTERS, bars, markdown, text
from gate.model import Counts, Goodput, Load, LoadReport, MetricStats, Report
from tests.emit.reports import CASES, METRICS, failing, hostile, make_check, make_report


def stats(p50: float, p90: float, p99: float) -> MetricStats:
    return MetricStats(100, p50, p90, p99, p50, p50, p99, None)


def loads(*fractions: float) -> tuple[LoadReport, ...]:
    return tuple(
        LoadReport(
            Load(concurrency=4 * place), place == 1, 1, Counts(10, 10, 0),
            Goodput(fraction, None, None, None, None, None, None), METRICS,
        )
        for place, fraction in enumerate(fractions, 1)
    )  # fmt: skip


def test_a_bar_reaches_each_percentile_and_the_bound_where_they_are() -> None:
    report = make_report(
        metrics={"ttft_s": stats(0.2, 0.4, 0.5), "tpot_s": None, "e2e_s": None},
        checks=(make_check(id="ttft.p99", metric="ttft", bound=1.0, observed=0.5),),
    )
    legend, bar = bars.latency_bars(report, width=40)
    assert legend == "# to P50, = to P90, - to P99, | bound"
    assert bar == "TTFT  " + "#" * 8 + "=" * 8 + "-" * 4 + " " * 19 + "|" + "  1 s"


def test_a_tail_beyond_its_bound_shows_the_bound_inside_the_bar() -> None:
    report = make_report(
        metrics={"ttft_s": stats(0.1, 0.5, 1.0), "tpot_s": None, "e2e_s": None},
        checks=(make_check(id="ttft.p99", metric="ttft", bound=0.75, observed=1.0),),
    )
    assert bars.latency_bars(report, width=20)[1] == "TTFT  ##========-----|----  1 s"


def test_a_bound_of_some_requests_is_no_bound_of_the_bar() -> None:
    report = make_report(checks=(make_check(id="tpot.p99[output_tokens<300]"),))
    assert not any("|" in line for line in bars.latency_bars(report))


@pytest.mark.parametrize("odd", [-1.0, -1e308, 1e308, 5e-324, float("inf"), float("nan")])
@pytest.mark.parametrize("place", ["p50", "p90", "p99", "bound", "fraction"])
def test_odd_numbers_of_a_saved_report_give_bars_of_the_usual_width_or_none(place: str, odd: float) -> None:
    values = {"p50": 0.2, "p90": 0.4, "p99": 0.5, "bound": 1.0, "fraction": 0.9, place: odd}
    report = make_report(
        metrics={"ttft_s": stats(values["p50"], values["p90"], values["p99"]), "tpot_s": None, "e2e_s": None},
        checks=(make_check(id="ttft.p99", metric="ttft", bound=values["bound"]),),
        loads=loads(values["fraction"], 0.5, 0.4),
    )
    for line in bars.latency_bars(report, width=40)[1:]:
        assert len(line.split("  ", 1)[0] + line[6:46]) >= 40
        assert set(line[6:46]) <= set("#=-| ")
    for line in bars.load_bars(report, width=40):
        assert line.count("#") <= 40


def test_without_percentiles_there_is_no_bar() -> None:
    assert bars.latency_bars(make_report(metrics=dict.fromkeys(METRICS), runs=())) == []


def test_a_terminal_that_shows_blocks_gets_blocks_and_a_log_ascii() -> None:
    report = failing()
    assert "\u2588" in text.emit(report, unicode=True, verbose=True)
    assert text.emit(report, verbose=True).isascii()
    shape = str.maketrans("\u2588\u2593\u2591\u2503", "#=-|")
    assert text.emit(report, unicode=True, verbose=True).translate(shape) == text.emit(report, verbose=True)


@pytest.mark.parametrize("width", [20, 43, 44, 60, 100])
def test_a_bar_is_left_out_rather_than_cut(width: int) -> None:
    lines = text.emit(failing(), width=width, verbose=True).splitlines()
    bars = [line for line in lines if re.match(r"  (TTFT|TPOT|E2E)\s+#", line)]
    assert len(bars) == (3 if width >= 44 else 0)
    assert all(len(line) <= width for line in bars)


def test_goodput_by_load_has_a_bar_as_long_as_its_share_and_never_a_full_one_below_all() -> None:
    lines = bars.load_bars(make_report(loads=loads(1.0, 0.999, 0.5)), width=10)
    assert lines == [
        "concurrency 4  ##########  100%",
        "concurrency 8  #########   99.9%",
        "concurrency 12 #####       50%",
    ]


def test_the_chart_of_a_comment_is_goodput_against_load_where_there_are_loads() -> None:
    lines = bars.mermaid(make_report(loads=loads(1.0, 0.98996, 0.5))).splitlines()
    assert lines[0] == "```mermaid"
    assert lines[2] == "xychart-beta"
    assert lines[4:8] == [
        '    x-axis "concurrency" ["4", "8", "12"]',
        '    y-axis "good requests (%)"',
        "    line [100, 98.996, 50]",  # never rounded to its target, 99
        "    line [99, 99, 99]",
    ]


def test_a_chart_has_at_most_twenty_points() -> None:
    lines = bars.mermaid(make_report(loads=loads(*np.linspace(1, 0.5, 95).tolist()))).splitlines()
    axis = next(line for line in lines if "x-axis" in line)
    assert 10 <= axis.count(",") + 1 <= 20


def bounded(*known: tuple[str, float, float]) -> Report:
    """(statistic, observed, bound) of TTFT."""
    return make_report(
        checks=tuple(
            make_check(
                id=f"ttft.{name}",
                metric="ttft",
                statistic=name,
                observed=at,
                bound=bound,
                of_bound=at / bound,
            )
            for name, at, bound in known
        )
    )


def test_at_one_load_the_chart_is_each_percentile_against_its_bound() -> None:
    lines = bars.mermaid(bounded(("p90", 0.3, 0.4), ("p99", 0.9, 0.8))).splitlines()
    assert lines[4] == '    x-axis "percentile" ["P90 TTFT", "P99 TTFT"]'
    assert lines[6:8] == ["    bar [75, 112.5]", "    line [100, 100]"]
    assert bars.mermaid(bounded(("p90", 0.3, 0.4))) == ""


def test_a_comment_has_the_chart_folded_away_with_its_bars_as_text_and_so_has_a_saved_report() -> None:
    report = bounded(("p90", 0.3, 0.4), ("p99", 0.9, 0.8))
    found = markdown.emit(report)
    at = found.index("```mermaid")
    assert found.rindex("<details>", 0, at) < at < found.index("<pre>", at) < found.index("</details>", at)
    assert found.index("| TTFT |") < at
    assert markdown.emit(saved.load(EMITTERS["json"](report).encode(), "r.json")) == found


@pytest.mark.parametrize("case", CASES)
def test_a_chart_holds_only_our_words_and_numbers(case: str) -> None:
    report = CASES[case]() if case != "hostile" else replace(hostile(), loads=loads(0.9, 0.5))
    if not isinstance(report, Report):
        return
    words = re.findall(r"[A-Za-z]{2,}", bars.mermaid(report))
    ours = (
        "mermaid init themeVariables xyChart plotColorPalette xychart beta title axis line",
        "Goodput against load and its target concurrency good requests per second",
        "Percentiles in percent of their bound percentile bar TTFT TPOT",
    )
    assert set(words) <= set(" ".join(ours).split())
