"""`slo-gate explain` knows every word that a report may say; docs/explain.md is made from the same source."""

from __future__ import annotations

import pytest

from gate import _schemas
from gate.cli.explain import entries
from gate.errors import Exit
from gate.model import METRICS, Kind, Verdict
from gate.model.doubts import Why
from gate.readers import facts
from tests.conftest import ROOT, Process

KNOWN = entries()
PAGE = ROOT / "docs" / "explain.md"


def page() -> str:
    """docs/explain.md."""
    lines = [
        "# What a word of a report means",
        "",
        "Made from `gate/cli/explain.yaml`, which `slo-gate explain NAME` prints; a test holds it to that.",
    ]
    for kind, words in KNOWN.items():
        lines += ["", f"## {kind.capitalize()}"]
        for word, (means, why, do) in words.items():
            lines += ["", f"### {word}", "", means, "", f"- **Why:** {why}", f"- **Do:** {do}"]
    return "\n".join(lines) + "\n"


def test_the_page_is_what_explain_says(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        PAGE.write_text(page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page(), "run pytest tests/test_explain.py --update-golden"


def test_every_code_verdict_doubt_objective_and_rule_has_its_entry() -> None:
    properties = _schemas.load("policy")["properties"]
    rules = {f"workload.{key}" for key in properties["workload"]["properties"]} | {"workload.sweep"}
    # settings, not rules
    facts_of_evidence = {"confidence", "decide", "warmup", "attempted", "ignore", "run_spread"}
    rules |= {f"evidence.{key}" for key in set(properties["evidence"]["properties"]) - facts_of_evidence}
    assert set(KNOWN["exit codes"]) == {str(int(code)) for code in Exit} | {"130"}
    assert set(KNOWN["verdicts"]) == {verdict.value for verdict in Verdict} | {"error"}
    assert set(KNOWN["doubts"]) == {why.value for why in Why}
    assert set(KNOWN["rules"]) == rules
    kinds = {kind.value for kind in Kind} - {"latency", "rule"}
    assert set(KNOWN["objectives"]) == {*METRICS, *kinds}
    assert set(KNOWN["causes"]) == {"evidence", "undecided"}


def test_no_entry_is_empty_and_names_are_said_once() -> None:
    names = [word for words in KNOWN.values() for word in words]
    assert len(names) == len(set(names))
    for words in KNOWN.values():
        for word, said in words.items():
            assert len(said) == 3, word
            assert all(text.strip().endswith(".") for text in said), word


def test_the_facts_of_set_are_one_list(slo_gate: Process) -> None:
    for text in (
        KNOWN["words"]["set"][0],
        slo_gate("check", "--help").stdout.replace("\n", " "),
        (ROOT / "docs" / "readers.md").read_text(encoding="utf-8").split("## Facts")[1],
    ):
        for key in facts.KEYS:
            assert key in text, key


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("ttft.p99", "ttft"),
        ("e2e.p99[output_tokens<300]", "e2e"),
        ("regression.tpot.p90", "regression"),
        ("ttft.mean", "mean"),
        ("evidence.runs", "evidence.runs"),
        ("goodput", "goodput"),
        ("4", "4"),
        ("INCONCLUSIVE", "inconclusive"),
        ("not_streamed", "not_streamed"),
    ],
)
def test_a_name_as_the_report_has_it_is_explained(name: str, word: str, slo_gate: Process) -> None:
    done = slo_gate("explain", name)
    assert done.returncode == 0
    said = " ".join(done.stdout.split())
    for text in next(words[word] for words in KNOWN.values() if word in words):
        assert text in said


def test_an_unknown_name_is_answered_with_the_near_one(slo_gate: Process) -> None:
    done = slo_gate("explain", "undecidd")
    assert done.returncode == 2
    assert "did you mean `slo-gate explain undecided`?" in done.stderr
    for word in ("ttft", "not_streamed", "evidence.runs"):
        assert word in slo_gate("explain").stdout
