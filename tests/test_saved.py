"""A saved report renders as the one it was written from, and a broken one is refused, not rendered."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from gate import saved
from gate.emit import EMITTERS
from gate.errors import InputError
from tests.emit.reports import CASES, failing


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", EMITTERS)
def test_a_saved_report_gives_the_same_bytes_in_every_format(name: str, case: str) -> None:
    report = CASES[case]()
    back = saved.load(EMITTERS["json"](report).encode(), "report.json")
    assert EMITTERS[name](back) == EMITTERS[name](report)


def test_keys_of_a_later_version_are_ignored() -> None:
    document = json.loads(EMITTERS["json"](failing()))
    document["new"] = document["runs"][0]["new"] = document["objectives"][0]["new"] = {"x": 1}
    back = saved.load(json.dumps(document).encode(), "report.json")
    assert EMITTERS["text"](back) == EMITTERS["text"](failing())


def test_a_report_of_another_version_is_refused() -> None:
    document = {**json.loads(EMITTERS["json"](failing())), "schema_version": 2}
    with pytest.raises(InputError, match="not a report of slo-gate"):
        saved.load(json.dumps(document).encode(), "report.json")


def test_a_file_of_many_megabytes_is_refused_unread() -> None:
    with pytest.raises(InputError, match="too many for a report"):
        saved.load(b" " * (saved.MOST_BYTES + 1), "report.json")


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from leaves(item, (*path, key))


DOCUMENT = json.loads(EMITTERS["json"](failing()))
LEAVES = list(leaves(DOCUMENT))
ODD = [None, True, -1, 0, 1e308, 10**400, float("nan"), float("inf"), "", "x" * 99, [], {}, [1, 2], {"a": 1}]


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(LEAVES), st.sampled_from(ODD))
def test_whatever_an_artifact_holds_it_is_rendered_or_refused(path: tuple[Any, ...], odd: Any) -> None:
    document = copy.deepcopy(DOCUMENT)
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = odd
    try:
        report = saved.load(json.dumps(document).encode(), "report.json")
    except InputError:
        return
    assert "chat-70b" in EMITTERS["markdown"](report) or path[0] in ("headline", "policy", "verdict")
