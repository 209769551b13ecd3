"""`slo-gate check --max-growth`: a gate on growth against a baseline, without a policy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import ROOT, Process

CHAT = ROOT / "examples" / "chat"
BASE = f"{CHAT}/good/c016_run0*"
AGAIN = [str(CHAT / "good" / f"c016_run{n}.json.gz") for n in range(11, 21)]


def report(slo_gate: Process, *words: str) -> tuple[int, dict]:  # type: ignore[type-arg]
    done = slo_gate("check", *words, "--format", "json")
    return done.returncode, json.loads(done.stdout)


def test_a_slower_build_fails_by_growth_alone_and_the_report_names_the_policy(slo_gate: Process) -> None:
    code, found = report(slo_gate, str(CHAT / "regressed"), "--baseline", BASE, "--max-growth", "10%")
    assert (code, found["verdict"]) == (1, "fail")
    assert found["headline"].startswith("FAIL growth (blocked): ")
    assert found["policy"]["path"] == "built-in:growth"
    levels = {one["id"]: one["level"] for one in found["objectives"]}
    assert levels == {
        **{f"regression.{m}.{p}": "block" for m in ("ttft", "tpot", "e2e") for p in ("p50", "p90")},
        **{f"regression.{m}.p99": "info" for m in ("ttft", "tpot", "e2e")},
        "error_rate": "block",
    }
    assert found["goodput"] is None
    notes = " ".join(found["notes"])
    assert "no policy was given: the built-in one of --max-growth 10%" in notes
    assert "goodput is not judged" in notes
    assert "as --same-session states" in notes
    assert "--max-growth 10%" in found["provenance"]["reproduce"]


def test_the_same_build_passes_and_a_wide_limit_lets_the_slower_one_through(slo_gate: Process) -> None:
    code, found = report(slo_gate, *AGAIN, "--baseline", BASE, "--max-growth", "10%")
    assert (code, found["verdict"]) == (0, "pass")
    # it is 15 % slower, and some of its requests fail (0.4 %)
    assert report(slo_gate, str(CHAT / "regressed"), "--baseline", BASE, "--max-growth", "30%")[0] == 0


def test_metrics_that_the_baseline_lacks_are_said_and_those_that_the_results_lost_block(
    slo_gate: Process, tmp_path: Path
) -> None:
    def rows(name: str, ttft: bool) -> None:
        head = "start_s,ttft_s,e2e_s,output_tokens" if ttft else "start_s,e2e_s,output_tokens"
        lines = [
            f"{n},{0.1 + 0.001 * (n % 7) + 0.0001 * (len(name) + n % 3)}," * ttft
            + f"{n},{1 + 0.01 * (n % 11)},50"[len(f"{n},") * ttft :]
            for n in range(200)
        ]
        (tmp_path / name).write_text("\n".join([head, *lines]) + "\n")

    rows("old.csv", ttft=False)
    rows("candidate.csv", ttft=True)
    code, found = report(slo_gate, "candidate.csv", "--baseline", "old.csv", "--max-growth", "10%")
    assert code == 0
    assert {one["metric"] for one in found["objectives"]} == {"e2e", "error_rate"}
    assert any("not in the baseline, so not compared: TTFT, TPOT" in note for note in found["notes"])
    code, found = report(slo_gate, "old.csv", "--baseline", "candidate.csv", "--max-growth", "10%")
    assert (code, found["verdict"]) == (4, "inconclusive")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--max-growth", "10%"), "none is given"),
        (("--max-growth", "10", "--baseline", BASE), 'write "10 %"'),
        (("--max-growth", "0%", "--baseline", BASE), "a percentage above 0%"),
        (("--max-growth", "10%", "--baseline", BASE, "--preset", "chat"), "excludes --preset"),
        (("--max-growth", "10%", "--baseline", BASE, "--profile", "pr"), "excludes --profile"),
    ],
)
def test_what_makes_no_sense_with_it_is_a_sentence_and_exit_2(
    words: tuple[str, ...], said: str, slo_gate: Process
) -> None:
    done = slo_gate("check", *AGAIN, *words)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_policy_of_regressions_alone_judges_with_a_baseline_and_blocks_without(
    slo_gate: Process, tmp_path: Path
) -> None:
    (tmp_path / "slo.yaml").write_text(
        "version: 1\nregression: {ttft: {p50: {max: 10%}}}\nevidence: {warmup: auto}\n"
    )
    against = ("--baseline", BASE, "--same-session")
    assert slo_gate("check", CHAT / "regressed", *against).returncode == 1
    assert slo_gate("check", *AGAIN, *against).returncode == 0
    done = slo_gate("check", *AGAIN)
    assert done.returncode == 4
    assert "--baseline" in done.stdout


@pytest.mark.parametrize(("old", "new", "who"), [(12, 150, "baseline"), (150, 12, "new build")])
def test_a_side_that_is_too_short_is_named_as_the_cause(
    old: int, new: int, who: str, slo_gate: Process, tmp_path: Path
) -> None:
    for name, number in (("old.csv", old), ("new.csv", new)):
        rows = [f"{n},{0.1 + 0.001 * (n * number % 17)},{1 + 0.01 * (n % 11)},50" for n in range(number)]
        (tmp_path / name).write_text("\n".join(["start_s,ttft_s,e2e_s,output_tokens", *rows]) + "\n")
    code, found = report(slo_gate, "new.csv", "--baseline", "old.csv", "--max-growth", "10%")
    assert (code, found["verdict"]) == (4, "inconclusive")
    assert found["next_action"].startswith(
        f"measure the {who} with 100 requests or more after warm-up: it has 12"
    )
    grown = [one["reason"] for one in found["objectives"] if one["id"].startswith("regression.")]
    (said,) = {reason.split("; ")[1] for reason in grown}
    assert said == f"the baseline has {old} requests and the results {new}: too few for an interval"
