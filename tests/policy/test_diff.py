"""What got looser or stricter between two policies, in words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gate import policy
from gate.policy.diff import Difference, diff
from tests.conftest import Process

BASE = """\
version: 1
name: chat
undecided: block
workload:
  model: llama
  load: {concurrency: 16, sweep: [50%, 100%]}
  input_tokens: {mean: 800, tolerance: 10%}
slo:
  ttft: {p99: 800ms}
  e2e: {p90: {max: 3s, when: output_tokens < 300}}
goodput: {min: 99%, request: {ttft: 800ms}}
limits: {error_rate: {max: 1%}, throughput: {min: 100 tok/s}}
regression: {ttft: {p99: {max: 10%, and_at_least: 20ms}}, required: true}
evidence: {confidence: 95%, runs: {min: 30}, tool: {version: required}, warmup: auto}
semantics: {cancelled: miss, single_token_tpot: miss}
"""


def compared(old: str, new: str) -> tuple[Difference, ...]:
    return diff(*(policy.versions(text.encode(), "slo.yaml") for text in (old, new)))


LOOSER = [
    ("p99: 800ms}\n  e2e", "p99: 900ms}\n  e2e", "ttft.p99", "P99 TTFT is <= 900 ms, was 800 ms"),
    ("p99: 800ms}\n  e2e", "p99: {max: 800ms, level: warn}}\n  e2e", "ttft.p99", "at level warn, was block"),
    ("  ttft: {p99: 800ms}\n", "", "ttft.p99", "P99 TTFT <= 800 ms is no longer asked"),
    ("min: 99%", "min: 98%", "goodput", "goodput is >= 98%, was 99%"),
    ("request: {ttft: 800ms}", "request: {ttft: 1s}", "goodput.request.ttft", "TTFT <= 1 s, was 800 ms"),
    ("error_rate: {max: 1%}", "error_rate: {max: 2%}", "error_rate", "error rate is <= 2%, was 1%"),
    ("100 tok/s", "90 tok/s", "throughput", "throughput is >= 90 tok/s, was 100 tok/s"),
    ("max: 10%, and", "max: 20%, and", "regression.ttft.p99", "growth of P99 TTFT is <= 20%, was 10%"),
    ("and_at_least: 20ms", "and_at_least: 50ms", "regression.ttft.p99", "fine below 50 ms, was 20 ms"),
    ("required: true", "required: false", "regression.ttft.p99", "a missing baseline no longer blocks"),
    ("runs: {min: 30}", "runs: {min: 5}", "evidence.runs", "evidence.runs is >= 5, was 30"),
    ("confidence: 95%", "confidence: 90%", "evidence.confidence", "hold with 90%, was 95%"),
    ("warmup: auto}", "warmup: auto, decide: point}", "evidence.decide", "is point, was confident"),
    ("undecided: block", "undecided: lean", "undecided", "is lean, was block"),
    ("cancelled: miss", "cancelled: exclude", "semantics.cancelled", "is exclude, was miss"),
    ("tpot: miss", "tpot: ignore", "semantics.single_token_tpot", "is ignore, was miss"),
    ("concurrency: 16", "concurrency: 8", "workload.load", "judged at concurrency 8, was at concurrency 16"),
    ("[50%, 100%]", "[100%]", "workload.sweep", "no longer asks for runs at 50% of the load"),
    ("tolerance: 10%", "tolerance: 30%", "workload.input_tokens", "may differ by 30%, was 10%"),
    ("mean: 800,", "mean: 400,", "workload.input_tokens", "mean length is 400 tokens, was 800"),
    ("  model: llama\n", "", "workload.model", "workload.model (llama) is no longer asked"),
    (
        "  e2e: {p90: {max: 3s, when: output_tokens < 300}}",
        "  e2e: {p90: {max: 3s, when: output_tokens < 100}}",
        "e2e.p90[output_tokens<100]",
        "is about requests with output_tokens<100, was about requests with output_tokens<300",
    ),
    (
        "semantics:",
        'waivers: [{objective: goodput, until: 2027-01-31, owner: me, reason: "later"}]\nsemantics:',
        "waivers.goodput",
        "a failure of goodput is waived until 2027-01-31 by me: later",
    ),
]


@pytest.mark.parametrize(("old", "new", "id_", "said"), LOOSER, ids=[row[3] for row in LOOSER])
def test_a_looser_policy_is_said_to_be_looser_and_its_return_stricter(
    old: str, new: str, id_: str, said: str
) -> None:
    changed = BASE.replace(old, new)
    assert changed != BASE
    found = [(one.effect, one.id, said in one.text) for one in compared(BASE, changed)]
    assert ("looser", id_, True) in found
    assert {effect for effect, _, _ in found} == {"looser"}
    assert {one.effect for one in compared(changed, BASE)} == {"stricter"}


DIFFERENT = [("warmup: auto", "warmup: 10"), ("model: llama", "model: qwen"), ("name: chat", "name: talk")]


@pytest.mark.parametrize(("old", "new"), DIFFERENT)
def test_what_is_neither_is_only_different(old: str, new: str) -> None:
    assert [one.effect for one in compared(BASE, BASE.replace(old, new))] == ["different"]


def test_the_same_policy_in_another_spelling_has_no_difference() -> None:
    other = BASE.replace("{p99: 800ms}", "{p99: {max: 0.8s}}").replace("max: 1%", "max: 1.0%")
    assert compared(BASE, other + "# a comment\n") == ()


def test_a_profile_that_alone_got_looser_is_named() -> None:
    profiles = "profiles: {{pr: {{goodput: {{min: {0}}}}}, night: {{undecided: allow}}}}\n"
    (one,) = compared(BASE + profiles.format("97%"), BASE + profiles.format("95%"))
    assert (one.effect, one.id, one.profile) == ("looser", "goodput", "pr")


@pytest.mark.parametrize(
    ("was", "now", "effect"),
    [
        ("", "pr", "looser"),
        ("pr", "", "stricter"),
        ("pr", "hard", "stricter"),
        ("hard", "pr", "looser"),
        ("", "hard", "stricter"),
        ("", "same", "different"),
        ("none", "", None),
    ],
)
def test_another_default_profile_is_as_loose_as_what_it_judges_by(
    was: str, now: str, effect: str | None
) -> None:
    profiles = "profiles: {pr: {undecided: lean}, hard: {goodput: {min: 99.5%}}, same: {undecided: block}}\n"
    old, new = (BASE + profiles + (f"default_profile: {name}\n" if name else "") for name in (was, now))
    found = compared(old, new)
    assert [(one.effect, one.id) for one in found] == ([(effect, "default_profile")] if effect else [])


def test_a_difference_that_all_profiles_share_is_said_once() -> None:
    profiles = "profiles: {pr: {undecided: lean}, night: {undecided: allow}}\n"
    found = compared(BASE + profiles, BASE.replace("p99: 800ms", "p99: 900ms") + profiles)
    assert [one.profile for one in found] == [None]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "old.yaml").write_text(BASE, encoding="utf-8")
    (tmp_path / "new.yaml").write_text(BASE.replace("p99: 800ms", "p99: 900ms"), encoding="utf-8")
    return tmp_path


def test_the_command_says_it_loudly_and_fails_only_when_asked_to(files: Path, slo_gate: Process) -> None:
    done = slo_gate("policy", "diff", "old.yaml", "new.yaml")
    assert (done.returncode, done.stdout.split(":")[0]) == (0, "LOOSER")
    assert "new.yaml:9: ttft.p99: P99 TTFT is <= 900 ms, was 800 ms" in done.stdout
    assert slo_gate("policy", "diff", "old.yaml", "new.yaml", "--fail-on-looser").returncode == 1
    assert slo_gate("policy", "diff", "new.yaml", "old.yaml", "--fail-on-looser").returncode == 0
    same = slo_gate("policy", "diff", "old.yaml", "old.yaml")
    assert (same.returncode, same.stdout.split(":")[0]) == (0, "SAME")


def test_the_json_names_every_difference(files: Path, slo_gate: Process) -> None:
    found = json.loads(slo_gate("policy", "diff", "old.yaml", "new.yaml", "--json").stdout)
    assert (found["looser"], [one["id"] for one in found["differences"]]) == (True, ["ttft.p99"])


def test_a_hostile_policy_drives_no_terminal(files: Path, slo_gate: Process) -> None:
    text = BASE.replace("model: llama", 'model: "x\\u001b[31m ##[error] y"').replace(
        "\\u001b", "\\n::error::"
    )
    (files / "new.yaml").write_text(text, encoding="utf-8")
    done = slo_gate("policy", "diff", "old.yaml", "new.yaml")
    assert done.returncode in (0, 2)
    assert not any(line.startswith(("::", "##")) for line in done.stdout.splitlines())
    assert "\x1b" not in done.stdout + done.stderr


def test_a_missing_policy_exits_2_with_its_name(files: Path, slo_gate: Process) -> None:
    done = slo_gate("policy", "diff", "old.yaml", "none.yaml")
    assert (done.returncode, "none.yaml" in done.stderr) == (2, True)


def test_an_endpoint_that_may_answer_without_tokens_is_asked_for_less() -> None:
    with_tokens = "version: 1\nslo: {e2e: {p99: 1s}}\nworkload: {model: a}\n"
    without = with_tokens.replace("model: a", "model: a, output_tokens: none")
    assert [(one.effect, one.id) for one in compared(with_tokens, without)] == [
        ("looser", "workload.output_tokens")
    ]
    assert [(one.effect, one.id) for one in compared(without, with_tokens)] == [
        ("stricter", "workload.output_tokens")
    ]


def test_a_bound_is_not_compared_with_the_growth_of_the_same_percentile() -> None:
    growth = "version: 1\nslo: {e2e: {p99: 1s}}\nregression: {ttft: {p99: {max: 90%}}}\n"
    bound = "version: 1\nslo: {e2e: {p99: 1s}, ttft: {p99: 500ms}}\n"
    assert [(one.effect, one.text) for one in compared(growth, bound)] == [
        ("looser", "growth of P99 TTFT <= 90% is no longer asked"),
        ("stricter", "P99 TTFT <= 500 ms is new, at level block"),
    ]
