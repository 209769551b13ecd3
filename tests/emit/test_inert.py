"""Names from files, policies and command lines are text in every output, whatever is in them."""

from __future__ import annotations

import html
import json
import re
import unicodedata
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given, settings, strategies as st
from markdown_it import MarkdownIt

from gate.emit import EMITTERS, format, json_, junit, markdown, text
from tests.emit.reports import HOSTILE, hostile
from tests.emit.test_markdown import tables

PARSER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
ANY_TEXT = st.text(st.characters(), max_size=40)  # every code point, half surrogates too
PUNCTUATION = st.text("|`*_[]()<>!@#:%$~&\\-+=.>\"'{}x1 \n\t\r\x1b\u202e\ud800", max_size=30)
BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"


def visible(name: str) -> str:
    """What a reader of the rendered page sees of `name`."""
    (_, inline, _) = PARSER.parse(markdown_of(name))
    assert {child.type for child in inline.children or ()} <= {"text", "text_special"}
    return "".join(child.content for child in inline.children or ())


def markdown_of(name: str) -> str:
    return format.markdown(name)


def test_the_hostile_name_is_shown_letter_by_letter() -> None:
    escaped = markdown_of(HOSTILE)
    assert PARSER.render(escaped) == (
        "<p>a|b`x`@\u200bteam &lt;!-- slo-gate --&gt; &lt;script&gt; : :\u200berror::x %\u200b0A "
        "[l](http:\u200b//e) ![i](x)</p>\n"
    )
    assert "|" not in escaped
    assert "`" not in escaped
    assert "<" not in escaped


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("@team", "@\u200bteam"),
        ("org/repo#12", "org/repo#\u200b12"),
        ("#123", "#\u200b123"),
        ("GH-7", "GH-\u200b7"),
        ("!42", "!\u200b42"),
        ("https://e.x", "https:\u200b//e.x"),
        ("www.e.x", "www\u200b.e.x"),
        ("me@e.x", "me@\u200be.x"),
        (":tada:", ":\u200btada:"),
    ],
)
def test_what_a_forge_would_link_or_ping_is_broken_by_a_zero_width_space(name: str, broken: str) -> None:
    assert visible(name) == broken


@pytest.mark.parametrize(
    "name", ["# x", "- x", "+ x", "1. x", "2) x", "> x", "---", "===", "    x", "```x", "~~~", "* x", "| x"]
)
def test_no_name_opens_a_block(name: str) -> None:
    assert [token.type for token in PARSER.parse(markdown_of(name))] == [
        "paragraph_open",
        "inline",
        "paragraph_close",
    ]


def test_everyday_text_is_left_readable() -> None:
    for name in (
        "output_tokens<300",
        "948.4 ms",
        "meta-llama/Llama-3.3-70B-Instruct",
        "91.8% (2754 of 3000)",
    ):
        assert markdown_of(name) == name.replace("<", "&lt;")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a\x1b[31mb", r"a\x1b[31mb"),
        ("a\nb\r\nc\td", "a b  c d"),
        ("a\u2028b\x85c", "a b c"),
        ("a\u202eb", r"a\u202eb"),
        ("a\u200bb", r"a\u200bb"),
        ("a\ud800b", r"a\ud800b"),
        ("a\u00a0b", "a b"),
        ("a\x00b\x9bc", r"a\x00b\x9bc"),
        ("::error::x", ": :error::x"),
        ("a ::set-output x", "a : :set-output x"),
        ("a::b", "a::b"),
        ("##[error]x", "# #[error]x"),
        ("##vso[task]x", "# #vso[task]x"),
        ("模型-é", "模型-é"),
    ],
)
def test_plain_text_shows_control_characters_and_breaks_runner_commands(name: str, shown: str) -> None:
    assert format.plain(name) == shown


@settings(max_examples=60, deadline=None)
@given(ANY_TEXT | PUNCTUATION)
def test_json_gives_back_every_name(name: str) -> None:
    document = json.loads(json_.emit(hostile(name)))
    expected = re.sub("[\ud800-\udfff]", "\ufffd", name)
    assert document["policy"]["name"] == document["runs"][0]["model"] == expected
    assert json_.emit(hostile(name)).isascii()


@settings(max_examples=60, deadline=None)
@given(ANY_TEXT | PUNCTUATION)
def test_junit_parses_with_unique_names(name: str) -> None:
    root = ET.fromstring(junit.emit(hostile(name)).encode("utf-8"))
    cases = [(case.get("classname"), case.get("name")) for case in root.iter("testcase")]
    assert len(set(cases)) == len(cases) == 3


@settings(max_examples=60, deadline=None)
@given(ANY_TEXT | PUNCTUATION)
def test_markdown_tables_keep_their_columns_and_nothing_becomes_markup(name: str) -> None:
    found = markdown.emit(hostile(name))
    rows = tables(found)
    assert len(rows) >= 4
    assert all(len(set(cells)) == 1 for cells in rows)
    assert "<!--" not in found
    for token in PARSER.parse(found):
        for child in token.children or ():
            assert child.type in ("text", "strong_open", "strong_close", "text_special")


@settings(max_examples=60, deadline=None)
@given(ANY_TEXT | PUNCTUATION)
def test_a_name_renders_as_itself(name: str) -> None:
    rendered = PARSER.render(f"x{markdown_of(name)}")
    seen = html.unescape(re.sub(r"</?p>", "", rendered)).rstrip("\n").replace("\u200b", "")
    assert seen == f"x{format.plain(name)}".rstrip()


@settings(max_examples=60, deadline=None)
@given(ANY_TEXT | PUNCTUATION)
def test_text_holds_no_character_that_drives_a_terminal_or_a_runner(name: str) -> None:
    for found in (text.emit(hostile(name)), text.emit(hostile(name), width=30)):
        bad = [c for c in found if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
        assert bad == []
        assert not any(line.strip().startswith("::") for line in found.splitlines())
        assert not re.search(r"##\w*\[", found)


@pytest.mark.parametrize("name", EMITTERS)
def test_no_output_holds_bidi_controls_or_a_comment_marker(name: str) -> None:
    found = EMITTERS[name](hostile(f"a{BIDI}b <!-- slo-gate -->"))
    assert not set(BIDI) & set(found)
    rendered = name in ("junit", "markdown")  # the others are shown as they are, never as HTML
    assert not rendered or "<!--" not in found
