"""The summary: three lead lines and the exit code, small enough for a termination log."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gate.emit import EMITTERS
from tests.emit.reports import CASES, failed_to_read, failing

emit = EMITTERS["summary"]


def test_the_leads_of_the_text_report_and_the_exit_code() -> None:
    report = replace(failing(), change="P99 TTFT grew by 12% (3% to 21%)")
    leads = EMITTERS["text"](report).splitlines()[:3]
    assert emit(report).splitlines() == [*leads, "exit code 1"]


def test_an_error_says_what_and_what_next() -> None:
    assert emit(failed_to_read()).splitlines() == [
        "ERROR slo-gate: results/run-01.json: the JSON ends in the middle",
        "Next: run the benchmark again, or copy the file whole",
        "exit code 3",
    ]


@pytest.mark.parametrize("char", ["x", "\u00e9", "\u6a21", "\U0001f308"])
def test_it_fits_what_kubernetes_keeps_and_ends_with_the_exit_code(char: str) -> None:
    long = char * 9000
    text = emit(replace(failing(), headline=long, next_action=long, change=long))
    assert len(text.encode()) <= 4096
    assert text.endswith("\nexit code 1\n")


@pytest.mark.parametrize("case", CASES)
def test_no_name_adds_a_line(case: str) -> None:
    assert 2 <= len(emit(CASES[case]()).splitlines()) <= 4
