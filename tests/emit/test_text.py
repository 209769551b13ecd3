"""The report on a terminal and in a log."""

from __future__ import annotations

import re
from functools import partial

import pytest

from gate.emit import text as text_emitter
from gate.model import Report
from tests.emit.reports import (
    CASES,
    E2E_PASS,
    GOODPUT_FAIL,
    failing,
    inconclusive,
    make_check,
    make_input,
    make_report,
    make_run,
    sweep,
    warning,
)

emit = partial(text_emitter.emit, verbose=True)  # everything; what is left out by default is tested below
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def test_the_first_three_lines_are_decision_action_and_change() -> None:
    report = failing()
    lines = emit(report, width=60).splitlines()
    assert lines[:3] == [report.headline, f"Next: {report.next_action}", f"Change: {report.change}"]


def test_a_label_that_the_action_brings_along_is_not_said_twice() -> None:
    assert emit(make_report(next_action="nothing to do")).splitlines()[1] == "Next: nothing to do"


def test_failures_come_first_and_passes_after_inconclusive_and_warnings() -> None:
    checks = (*warning().checks, *failing().checks, *inconclusive().checks)
    text = emit(make_report(checks=checks))
    places = [text.index(f"\n{title} (") for title in ("Failures", "Inconclusive", "Warnings", "Passes")]
    assert places == sorted(places)


def test_a_failure_shows_rule_value_interval_misses_and_line() -> None:
    text = emit(make_report(checks=(GOODPUT_FAIL,)))
    block = text[text.index("Failures") :].splitlines()[1:5]
    assert block == [
        "  FAIL  goodput  slo.yaml:18",
        "                  goodput 91.8% < 99%: 246 of 3,000 missed, 30 may",
        "        expected  goodput >= 99%",
        "        observed  91.8% (interval 90.58% to 92.91%); 246 of 3,000 missed",
    ]


def test_an_unproven_objective_says_what_kind_and_whether_it_blocks() -> None:
    text = emit(inconclusive())
    assert "cannot be judged from this data, blocks" in text
    assert "not enough data, blocks" in text


def test_a_rounded_interval_never_crosses_the_share_it_is_compared_with() -> None:
    # 98.9996 % rounds to 99 % in four digits, which would read as a pass.
    text = emit(make_report(checks=(make_check(verdict=GOODPUT_FAIL.verdict, interval=(0.97, 0.989996)),)))
    assert "interval 97% to 98.9996%, needs 99%" in text


@pytest.mark.parametrize("fraction", [0.99996, 0.9899996])
def test_goodput_is_never_rounded_to_all_or_across_its_target(fraction: float) -> None:
    good = make_report().goodput
    assert good is not None
    shown = re.search(
        r"^Goodput   ([0-9.]+)%",
        emit(make_report(goodput=good.__class__(fraction, None, None, None, None, None, None))),
        re.MULTILINE,
    )
    assert shown
    assert (float(shown[1]) < 99) == (fraction < 0.99)
    assert float(shown[1]) < 100


@pytest.mark.parametrize("width", [20, 60, 80, 100, 200])
@pytest.mark.parametrize("case", ["pass", "fail", "inconclusive", "sweep"])
def test_no_width_cuts_a_name_or_a_number(case: str, width: int) -> None:
    report = CASES[case]()
    assert isinstance(report, Report)
    text = emit(report, width=width)
    words = text.split()
    for check in report.checks:
        assert check.id in words
    for run in report.runs[:12]:
        assert run.input in words
    joined = re.sub(r"\s+", " ", text)
    quantity = re.compile(r"[\d.,]+ (?:ms|s|req/s|tok/s)(?= |$|[;,)\n])")
    assert quantity.findall(text) == quantity.findall(joined)


@pytest.mark.parametrize("case", ["pass", "warn", "fail", "inconclusive", "error", "percentiles"])
def test_a_normal_report_fits_a_hundred_columns_below_its_lead(case: str) -> None:
    body = emit(CASES[case]()).split("\n\n", 1)[-1].rsplit("\n\n", 1)[0].splitlines()
    assert [line for line in body if len(line) > 100] == []


def test_columns_of_numbers_line_up_on_the_right() -> None:
    lines = emit(make_report()).splitlines()
    table = lines[lines.index("Latency of completed requests") + 1 :][:5]
    ends = {tuple(found.end() for found in re.finditer(r"P99|[\d.]+ m?s(?=  )", line))[-1] for line in table}
    assert len(ends) == 1


def test_a_long_objective_stands_on_its_own_line_so_that_the_numbers_still_line_up() -> None:
    long = make_check(id="e2e.p99[input_tokens>=1000 and output_tokens<300]")
    lines = emit(make_report(checks=(make_check(), long)), width=90).splitlines()
    at = lines.index(f"  PASS  {long.id}")
    assert lines[at + 1].strip().startswith("21.9 ms  <= 25 ms")
    assert lines[at - 1].index("<=") == lines[at + 1].index("<=")


def test_a_sweep_lists_twelve_runs_and_counts_the_rest() -> None:
    text = emit(sweep())
    assert "Runs (14)" in text
    assert "and 2 more runs" in text
    assert "results/c96/run-01.json" in text
    assert "results/c96/run-02.json" not in text


def test_without_a_judged_load_the_percentiles_are_shown_by_run() -> None:
    text = emit(sweep())
    assert "concurrency 16  912.1 ms   21.9 ms  2.874 s  results/c16/run-01.json" in text


def test_a_run_that_was_not_judged_is_marked_among_those_that_were() -> None:
    text = emit(make_report(runs=(make_run(), make_run(at_target=False, input="other.json"))))
    rows = [line.split() for line in text.splitlines() if line.startswith("  concurrency 64")]
    assert [row[2] for row in rows] == ["yes", "no"]


def test_p50_p90_p99_of_ttft_tpot_and_e2e_are_always_there() -> None:
    lines = emit(make_report(metrics=dict.fromkeys(make_report().metrics), runs=())).splitlines()
    assert [line.split() for line in lines if line.startswith(("  metric", "  TTFT", "  TPOT", "  E2E"))] == [
        ["metric", "P50", "P90", "P99", "n"],
        *([label, "-", "-", "-", "-"] for label in ("TTFT", "TPOT", "E2E")),
    ]


def test_the_digests_are_lines_that_sha256sum_checks() -> None:
    text = emit(make_report(inputs=(make_input("a b.json"),)))
    assert re.search(r"^  [0-9a-f]{64}  a b\.json$", text, re.MULTILINE)


def test_colour_changes_nothing_but_colour() -> None:
    for make in CASES.values():
        report = make()
        colored = emit(report, color=True)
        assert ANSI.sub("", colored) == emit(report)
    assert "\x1b[1;31mFAIL\x1b[0m chat-70b" in emit(failing(), color=True)


def test_colour_is_the_callers_decision_and_not_the_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b[1;31mFAIL" in emit(failing(), color=True)
    assert "\x1b" not in emit(failing())


def test_our_own_words_are_ascii() -> None:
    for make in CASES.values():
        assert emit(make()).isascii()


def test_an_error_is_short_and_says_nothing_twice() -> None:
    assert emit(CASES["error"]()) == (
        "ERROR slo-gate: results/run-01.json: the JSON ends in the middle\n"
        "  where  results/run-01.json: $.ttfts[1711]\n"
        "  next   run the benchmark again, or copy the file whole\n"
    )


def test_the_conditional_rule_is_readable_in_the_stacked_form() -> None:
    text = emit(make_report(checks=(E2E_PASS,)), width=40)
    assert "  PASS  e2e.p99[output_tokens<300]\n" in text
    assert "observed 2.874 s; rule <= 3 s;" in text
