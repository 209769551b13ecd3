"""What fits into a comment: marker and headline always, passing rows first to go."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings, strategies as st

from gate.emit import EMITTERS
from gate.publish import Place, Post, shorten
from gate.publish._body import BYTES, CHARACTERS, NONE, Marker, compose, marker, marker_of
from tests.emit.reports import TTFT_FAIL, failing, hostile, make_check, make_report

HERE = Place("https://api.example", "o/r", 7, "t", "0" * 40, "https://example/o/r/actions/runs/1")
MARK = Marker("0" * 16, "1" * 16, "2" * 16, NONE)
FOLDED = "<details>\n<summary>{}</summary>\n\n{}\n\n</details>\n\n"


def text_of(rows: int) -> str:
    return (
        "### FAIL chat\n\n**Next:** do\n\n| a |\n| --- |\n| fails |\n\n"
        + FOLDED.format(f"Passes ({rows})", "| row |\n" * rows)
        + FOLDED.format("Runs (9)", "| run |\n" * 20)
        + "**Policy:** slo.yaml\n"
    )


def test_what_fits_is_left_alone() -> None:
    assert shorten(text_of(3), 10_000, 10_000) == text_of(3)


def test_passing_rows_go_first() -> None:
    short = shorten(text_of(500), 2000, 2000)
    assert "Passes" not in short
    assert "Runs (9)" in short
    assert "passing rows are left out" in short


def test_then_all_that_is_folded_then_blocks_from_the_end() -> None:
    short = shorten(text_of(500), 250, 250)
    assert "Runs (9)" not in short
    assert "| fails |" in short
    shorter = shorten(text_of(500), 110, 110)
    assert shorter.startswith("### FAIL chat\n")
    assert "| fails |" not in shorter
    assert "all but the beginning is left out" in shorter


def test_a_fence_with_blank_lines_is_kept_or_left_out_as_one() -> None:
    text = "### FAIL\n\n```mermaid\nxychart\n\nline [1]\n```\n\n" + "word " * 400
    short = shorten(text, 300, 300)
    assert short.count("```") in (0, 2)


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=400), st.lists(st.integers(0, 600), min_size=5, max_size=5))
def test_tags_stay_balanced_and_the_headline_survives(name: str, rooms: list[int]) -> None:
    text = EMITTERS["markdown"](hostile(name))  # takes far longer than shortening it does
    for room in rooms:
        short = shorten(text, room, room)
        for tag in ("details", "pre"):
            assert short.count(f"<{tag}>") == short.count(f"</{tag}>")
        assert short.startswith("### FAIL")
        assert len(short) <= max(room, 600)


@pytest.mark.parametrize("char", ["x", "é", "模", "🌈"])
def test_a_report_of_any_size_and_script_fits_github(char: str) -> None:
    checks = tuple(
        make_check(
            **{**{n: getattr(TTFT_FAIL, n) for n in TTFT_FAIL.__struct_fields__}, "reason": char * 900}
        )
        for _ in range(200)
    )
    report = make_report(checks=checks, headline="FAIL " + char * 100)
    body = compose(MARK, EMITTERS["markdown"](report), HERE, CHARACTERS)
    assert len(body) <= CHARACTERS
    assert len(body.encode()) <= BYTES
    assert body.splitlines()[1].startswith("### FAIL " + char * 100)


def test_the_smallest_comment_is_marker_headline_and_origin() -> None:
    body = compose(MARK, EMITTERS["markdown"](failing()), HERE, 0)
    first, second, *_, last = body.rstrip().splitlines()
    parts = "job=0000000000000000 policy=1111111111111111 profile=2222222222222222 name=none"
    assert first == f"<!-- slo-gate:comment {parts} -->"
    assert second.startswith("### FAIL chat-70b")
    assert last.startswith("<sub>Commit 000000000000")
    assert len(body) < 1000


def test_a_headline_as_long_as_a_book_is_cut_at_no_entity() -> None:
    short = shorten("### FAIL " + "&#96;" * 30_000, 4000, 4000)
    assert len(short) <= 4000
    assert re.fullmatch(r"### FAIL (&#96;)+ \.\.\.", short.splitlines()[0])


@settings(max_examples=100, deadline=None)
@given(st.text(), st.text(), st.none() | st.text())
def test_no_name_can_end_or_forge_a_marker(job: str, key: str, name: str | None) -> None:
    mark = marker(Post("", job, key, policy=job, name=name, profile=name, green=False))
    part = "[0-9a-f]{16}"
    shape = rf"<!-- slo-gate:comment job={part} policy={part} profile={part} name=({part}|none) -->"
    assert re.fullmatch(shape, str(mark))
    assert marker_of(f"{mark}\nx") == mark
    assert marker_of(f" {mark}") is None


@pytest.mark.parametrize(
    "url", ["https://e.x/a b", "https://e.x/)[x](y", "javascript:x", "https://e.x/\n# x"]
)
def test_an_address_that_is_not_plain_is_not_linked(url: str) -> None:
    here = Place("https://api.example", "o/r", 7, "t", "../x", url)
    assert "<sub>" not in compose(MARK, "### x\n", here, CHARACTERS)


def test_a_place_never_shows_its_token() -> None:
    assert "secret" not in repr(Place("https://api.example", "o/r", 7, "secret"))
