"""The PR comment, read back with a Markdown parser."""

from __future__ import annotations

import re
from typing import Any

import pytest
from markdown_it import MarkdownIt
from msgspec.structs import replace

from gate.emit import format as f
from gate.emit.markdown import LIMIT, emit
from gate.model import AnyReport, Change, Comparison, Verdict
from tests.emit.reports import CASES, GOODPUT_FAIL, failing, inconclusive, make_check, make_report, sweep

PARSER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
OUR_TAGS = {"<details>", "</details>", "<pre>", "</pre>"}


def tokens(report: AnyReport) -> list[Any]:
    found = []
    for token in PARSER.parse(emit(report)):
        found += [token, *(token.children or ())]
    return found


def tables(text: str) -> list[list[int]]:
    """Cells in each row of each table."""
    found: list[list[int]] = []
    for token in PARSER.parse(text):
        if token.type == "table_open":
            found.append([])
        elif token.type == "tr_open":
            found[-1].append(0)
        elif token.type in ("td_open", "th_open"):
            found[-1][-1] += 1
    return found


def test_the_headline_is_the_first_line_and_the_action_the_next() -> None:
    lines = [line for line in emit(failing()).splitlines() if line]
    assert lines[0].startswith("### FAIL chat-70b (blocked): goodput 91.8% < 99%")
    assert lines[1].startswith("**Next:** Bring TTFT under 800 ms")
    assert lines[2].startswith("**Change:** P99 TTFT +18.2%")


def test_failures_are_open_and_passes_folded_away() -> None:
    text = emit(failing())
    rows = re.findall(r"^\| (\S+) \| .* \| (\w+) \|$", text[: text.index("<details>")], re.MULTILINE)
    assert rows[:4] == [
        ("metric", "verdict"),
        ("ttft.p99", "FAIL"),
        ("goodput", "FAIL"),
        ("ttft.p90", "WARN"),
    ]
    passes = text.index("<summary>Passes (3)</summary>")
    assert passes < text.index("| tpot.p99 |") < text.index("</details>", passes)


def test_a_failure_row_shows_rule_value_interval_and_misses() -> None:
    assert "| goodput | goodput ≥ 99% | 91.8% | 90.58% to 92.91% | 246 of 3,000 | slo.yaml:18 |" in emit(
        make_report(checks=(GOODPUT_FAIL,))
    )


def test_a_comparison_reads_as_one_in_raw_text_and_nothing_becomes_a_tag() -> None:
    text = f.markdown("P99 TTFT <= 800 ms, 5 < 6 > 4, >= 1 <b>x</b> a<5 < b > c <= d")
    assert text.startswith("P99 TTFT ≤ 800 ms, 5 < 6 > 4, ≥ 1 &lt;b&gt;")
    assert text.endswith("a&lt;5 &lt; b &gt; c &lt;= d")
    assert f.markdown("> 5") == "&gt; 5"  # not a quotation


def test_growth_is_a_table_of_base_head_and_what_is_allowed() -> None:
    change = Change("ttft", "p99", 0.5, 0.6, 0.2, (0.1, 0.3), "5 paired runs")
    other = Change("ttft", "p50", 0.2, 0.2, 0.0, None, "5 paired runs")
    compared = Comparison("main", None, (), "same session", 1, (5, 5), (other, change))
    rule = make_check(
        id="regression.ttft.p99", metric="ttft", statistic="p99", verdict=Verdict.FAIL, unit="ratio",
        bound=0.1, observed=0.2, interval=(0.05, 0.35), interval_of="ratio",
    )  # fmt: skip
    text = emit(replace(make_report(checks=(rule,)), baseline=compared))
    shown = text[: text.index("<details>")]
    head = "| metric | base | head | change | allowed | verdict |\n| --- | ---: | ---: | ---: | --- | --- |\n"
    assert (
        f"**Against main**\n\n{head}| P99 TTFT | 500 ms | 600 ms | +20% (+5% to +35%) | ≤ 10% | FAIL |\n"
        in shown
    )
    assert "| P50 TTFT | 200 ms | 200 ms | 0% | - | - |" in shown
    assert "regression.ttft.p99" not in shown  # said once
    assert "**Change:**" not in text


def test_an_unproven_objective_says_what_kind_and_whether_it_blocks() -> None:
    assert "**INCONCLUSIVE goodput:** (not enough data, blocks)" in emit(inconclusive())


def test_goodput_misses_and_percentiles_are_always_visible() -> None:
    text = re.sub(r"(?s)<details>.*?</details>", "", emit(failing()))
    assert "**Goodput:** 91.8% (2,754 of 3,000); interval 90.58% to 92.91%;" in text
    shown = "246: TTFT alone 175, failed 30, E2E alone 20, TPOT alone 12, several bounds 9"
    assert f"**Misses:** {shown}" in text
    assert "| E2E | 1.604 s | 2.211 s | 2.874 s | 2,970 |" in text


def test_the_command_can_be_copied_as_it_is() -> None:
    command = "slo-gate check --policy 'a & b@c.yaml' 'www.x/*.json' # <1>"
    report = make_report()
    text = emit(replace(report, provenance=replace(report.provenance, reproduce=command)))
    inside = text[text.rindex("<pre>") : text.rindex("</pre>")]
    assert "slo-gate check --policy 'a &amp; b@c.yaml' 'www.x/*.json' # &lt;1&gt;\n" in inside


@pytest.mark.parametrize("case", CASES)
def test_every_table_has_as_many_cells_in_each_row_as_in_its_head(case: str) -> None:
    report = CASES[case]()
    for rows in tables(emit(report)):
        assert len(set(rows)) == 1
    if case == "fail":
        assert [len(rows) for rows in tables(emit(report))] == [4, 5, 3, 2, 4, 2, 3, 3, 3]


@pytest.mark.parametrize("case", CASES)
def test_no_html_but_our_own_and_no_link_or_image(case: str) -> None:
    for token in tokens(CASES[case]()):
        assert token.type not in ("link_open", "image", "code_inline", "code_block", "s_open")
        assert (
            token.type != "fence" or token.info == "mermaid"
        )  # our own chart; test_bars holds it to our words
        assert token.type != "html_inline"
        if token.type == "html_block":
            tags = set(re.findall(r"<[^>]*>", token.content)) - {"<summary>", "</summary>"}
            assert tags <= OUR_TAGS


def test_a_folded_block_opens_and_closes() -> None:
    for make in CASES.values():
        text = emit(make())
        for tag in ("details", "summary", "pre"):
            assert text.count(f"<{tag}>") == text.count(f"</{tag}>")


def test_a_sweep_lists_twelve_runs_and_counts_the_rest() -> None:
    text = emit(sweep())
    assert "<summary>Runs (14)</summary>" in text
    assert "and 2 more runs; the JSON report has all" in text


def test_a_comment_too_long_for_github_is_shortened_and_says_so() -> None:
    failed = [replace(GOODPUT_FAIL, id=f"goodput.{number}") for number in range(100)]
    passed = [make_check(id=f"tpot.{number}") for number in range(900)]
    report = make_report(checks=(*failed, *passed), notes=("a note",) * 100)
    text = emit(report)
    assert len(text) < LIMIT
    assert "Shortened to fit a comment" in text
    assert "goodput.29 " in text
    assert "and 70 more; the JSON report has all" in text
    assert "tpot.1" not in text
    assert "Shortened" not in emit(failing())


def test_an_error_says_what_where_and_what_next() -> None:
    assert [line.split()[1] for line in emit(CASES["error"]()).splitlines() if line.startswith("- ")] == [
        "**What:**",
        "**Where:**",
        "**Next:**",
    ]
