"""What init writes: a policy that loads with every profile, with the reason of every bound above it."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from hypothesis import given, strategies as st
from scipy.stats import norm, t as student

from gate import policy
from gate.errors import UsageError
from gate.model import Kind, Level, Objective
from gate.policy.schema import faults
from gate.recipe._policy_file import above
from gate.recipe.init import INTERACTIONS, Answers, Lengths, Measured, policy_text
from tests.conftest import ROOT

LOADS = (None, ("concurrency", 64.0), ("peak", 32.0), ("request_rate", 12.5))
PROFILES = ("pr", "nightly", "release")
PRESETS = sorted(set(INTERACTIONS) - {"one-shot"})


def written(
    interaction: str = "chat", load: tuple[str, float] | None = ("peak", 32.0), **more: object
) -> str:
    return policy_text(Answers(interaction, "urn:x", load=load, **more))  # type: ignore[arg-type]


def loaded(text: str, profile: str) -> policy.Policy:
    return policy.parse(text.encode(), "slo.yaml", profile=profile)


def by_id(found: policy.Policy) -> dict[str, Objective]:
    return {one.id: one for one in found.objectives}


@pytest.mark.parametrize("interaction", INTERACTIONS)
@pytest.mark.parametrize("load", LOADS)
def test_it_loads_with_every_profile_and_fits_the_published_schema(
    interaction: str, load: tuple[str, float] | None
) -> None:
    text = written(interaction, load, model="org/m", hardware="8xH100", input_tokens=Lengths(800, 300))
    for profile in PROFILES:
        assert loaded(text, profile).name == interaction
    assert list(faults(policy.document(text.encode(), "slo.yaml"))) == []


@pytest.mark.parametrize("name", PRESETS)
def test_its_bounds_are_those_of_the_preset_with_the_reason_of_each_above_it(name: str) -> None:
    text = written(name)
    ours, theirs = by_id(loaded(text, "release")), policy.preset(name, profile="none")
    for one in theirs.objectives:
        if one.kind is Kind.LATENCY:
            assert (ours[one.id].bound, ours[one.id].level) == (one.bound, one.level)
    assert {bound.metric: bound.max_s for bound in loaded(text, "pr").goodput_bounds} == {
        bound.metric: bound.max_s for bound in theirs.goodput_bounds
    }
    lines = text.splitlines()
    reasons = [line.strip() for line in policy.preset_text(name).split("goodput:")[0].splitlines()]
    for reason in (line for line in reasons[1:] if line.startswith("#")):
        assert any(line.strip() == reason for line in lines), reason


@pytest.mark.parametrize("interaction", INTERACTIONS)
def test_every_bound_and_every_rule_of_evidence_has_a_comment(interaction: str) -> None:
    text = written(interaction)
    section = ""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        section = line if re.match(r"\w", line) else section
        bare = re.match(r" +(p\d+|min|error_rate|headroom|runs|tool|prompts|warmup|load|\w+_per_run):", line)
        if bare and section in ("slo:", "goodput:", "limits:", "evidence:", "workload:"):
            assert lines[number - 1].strip().startswith("#"), line


def test_the_modeline_names_the_published_schema() -> None:
    said = json.loads((ROOT / "schemas" / "policy.schema.json").read_text())["$id"]
    text = policy_text(Answers("chat", said))
    assert text.splitlines()[0] == f"# yaml-language-server: $schema={said}"


# ---- profiles -----------------------------------------------------------------------------


def test_a_pull_request_blocks_on_what_few_requests_can_decide() -> None:
    pr = loaded(written(), "pr")
    rules = by_id(pr)
    assert pr.undecided == "lean"
    assert (rules["goodput"].bound, rules["goodput"].level) == (0.95, Level.BLOCK)
    for metric in ("ttft", "tpot", "e2e"):
        assert rules[f"{metric}.p99"].level is Level.INFO
        assert rules[f"{metric}.p90"].level is Level.BLOCK
        growth = rules[f"regression.{metric}.p90"]
        assert (growth.bound, growth.level) == (0.05, Level.BLOCK)
        assert growth.floor_s == pytest.approx(0.025 * (rules[f"{metric}.p99"].bound or 0), rel=0.05)
    assert rules["error_rate"].level is Level.BLOCK
    # max(300, 10 x 64); too little of it is a warning
    assert (pr.evidence.runs_min, pr.evidence.requests_per_run_min) == (5, 640)
    assert rules["evidence.runs"].level is rules["evidence.requests_per_run"].level is Level.WARN
    assert pr.workload.sweep == ()


@pytest.mark.parametrize(("profile", "undecided"), [("nightly", "allow"), ("release", "block")])
def test_night_and_release_ask_for_the_full_benchmark(profile: str, undecided: str) -> None:
    found = loaded(written(), profile)
    rules = by_id(found)
    assert found.undecided == undecided
    assert (rules["goodput"].bound, rules["ttft.p99"].level) == (0.99, Level.BLOCK)
    assert found.workload.sweep == (0.25, 0.5, 1.0, 1.5)
    assert found.evidence.runs_min == 30
    assert rules["evidence.runs"].level is rules["evidence.requests_per_run"].level is Level.BLOCK


def test_pr_judges_where_no_profile_is_named() -> None:
    text = written()
    assert policy.parse(text.encode(), "slo.yaml") == loaded(text, "pr")


@pytest.mark.parametrize(
    ("runs", "fewest", "asked"),
    [
        (1, 138, (1, 130)),
        (4, 299, (4, 290)),
        (5, 300, (5, 300)),
        (30, 88, (5, 88)),
        (30, 4000, (5, 300)),
        (1, 7, (1, 7)),
    ],
)
def test_sizes_are_those_of_the_results_up_to_what_a_pull_request_needs(
    runs: int, fewest: int, asked: tuple[int, int]
) -> None:
    seen = Measured({"ttft.p99": 0.2}, runs * fewest, "r", runs, fewest)
    text = written(load=("concurrency", 16.0), measured=seen)
    for profile, sizes in (("pr", asked), ("nightly", (30, 300)), ("release", (30, 300))):
        evidence = loaded(text, profile).evidence
        assert (evidence.runs_min, evidence.requests_per_run_min) == sizes


def test_a_version_that_the_results_do_not_state_is_not_warned_about_every_time() -> None:
    for versioned, level in ((True, Level.WARN), (False, Level.INFO)):
        assert by_id(loaded(written(versioned=versioned), "release"))["evidence.tool"].level is level
        assert by_id(loaded(written(prompted=versioned), "release"))["evidence.prompts"].level is level


def test_a_metric_that_the_results_lack_has_no_bound_and_the_file_says_so() -> None:
    text = written(left_out=("tpot", "ttft"))
    assert {one.metric for one in loaded(text, "pr").objectives if one.kind is Kind.LATENCY} == {"e2e"}
    assert "Not in these files, so without a bound: TPOT, TTFT." in text


@pytest.mark.parametrize(
    ("load", "least"),
    [(None, 300), (("concurrency", 16.0), 300), (("concurrency", 64.0), 640), (("peak", 50.0), 1000)],
)
def test_a_run_is_as_long_as_its_load_needs(load: tuple[str, float] | None, least: int) -> None:
    assert loaded(written(load=load), "nightly").evidence.requests_per_run_min == least


def test_the_error_rates_in_the_comments_are_those_of_the_statistics_page() -> None:
    text = " ".join(line.strip("# ") for line in written().splitlines())
    rows = (ROOT / "docs" / "statistics.md").read_text().splitlines()

    def row(share: str, runs: str) -> list[str]:
        (found,) = [r for r in rows if r.startswith(f"| {share} | 0.9 | 0.3 | {runs} |")]
        return [cell.strip() for cell in found.strip("|").split("|")]

    tenth, half, double, five = range(8, 12)
    assert f"five times the allowed misses ({float(row('90 %', '5 x 300')[five]):.0f} of 100 builds)" in text
    assert f"a tenth of the allowed misses {float(row('99 %', '5 x 300')[tenth]):.0f} of 100" in text
    night = row("99 %", "30 x 300")
    assert f"twice the allowed misses ({float(night[double]):.0f} of 100 builds)" in text
    assert f"a tenth of them ({float(night[tenth]):.0f} of 100)" in text
    assert f"half the allowed misses {100 - float(night[half]):.0f} of 100 stay undecided" in text
    import math

    # mid-P at 2.5 %: without a miss half of 0.99^n is at most 0.025
    least = math.log(0.05) / math.log(0.99) * (student.ppf(0.975, 4) / norm.ppf(0.975)) ** 2
    assert abs(least - 599) < 1
    assert "takes 599 requests" in text


# ---- answers ------------------------------------------------------------------------------


def test_without_an_interaction_there_is_no_slo() -> None:
    for name in ("", "website", "streaming"):
        with pytest.raises(UsageError, match="no SLO is known"):
            policy_text(Answers(name, "urn:x"))


@pytest.mark.parametrize("name", ['a"b', "a: b # c", "ümlaut 模型 😀", "*", "-x", "${{ x }}", "null", "1e3"])
def test_a_name_is_read_back_as_it_was_given(name: str) -> None:
    found = loaded(written(model=name, hardware=name), "pr").workload
    assert (found.model, found.hardware) == (name, name)


@pytest.mark.parametrize("name", ["a\nslo: {}", "a\x1b[31m", "a\u2028b", "x" * 201])
def test_a_name_that_yaml_cannot_hold_on_a_line_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="characters that no policy may have"):
        written(model=name)


# ---- measured -----------------------------------------------------------------------------


@given(st.floats(1e-5, 1e4))
def test_headroom_is_a_quarter_rounded_up_to_two_digits(seconds: float) -> None:
    bound = above(seconds)
    assert 1.25 * seconds * (1 - 1e-9) <= bound <= 1.25 * seconds * 1.1 + 1e-12
    assert len(re.sub(r"e.*|\.|^0+", "", f"{bound:.10g}".replace("0.", "", 1)).strip("0")) <= 2


def test_measured_bounds_say_on_which_side_of_the_preset_they_lie() -> None:
    seen = Measured(
        {"ttft.p99": 0.41, "ttft.p90": 0.2, "tpot.p99": 0.01, "tpot.p90": 0.008}, 1234, "r.json", 2, 617
    )
    text = written(measured=seen)
    rules = by_id(loaded(text, "release"))
    # 410 ms x 1.25 = 512.5, up to 520; 200 x 1.25 = 250; 10 x 1.25 = 12.5, up to 13; 8 x 1.25 = 10
    assert [rules[key].bound for key in seen.observed_s] == [0.52, 0.25, 0.013, 0.01]
    assert rules["e2e.p99"].bound == 3.0  # not measured: the preset's
    slo = text.split("\nslo:")[1].split("\ngoodput:")[0]
    assert "P99 measured 410 ms over 1,234 requests" in slo
    assert "This keeps today's level. It is Looser" in slo or "LOOSER" in slo.upper()
    assert "Tighter than what users are thought to need, 25ms" in slo
    assert yaml.safe_load(text)["slo"]["ttft"]["p99"] == "520ms"


def test_a_measured_p90_is_never_looser_than_the_p99() -> None:
    text = written(measured=Measured({"ttft.p99": 0.2, "ttft.p90": 0.2}, 100, "r", 1, 100))
    rules = by_id(loaded(text, "pr"))
    assert rules["ttft.p90"].bound == rules["ttft.p99"].bound == 0.25
