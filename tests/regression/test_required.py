"""`regression.required`: a baseline that shows nothing is no baseline, whatever is wrong with it."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Process

POLICY = """\
version: 1
name: reg
undecided: UNDECIDED
slo: {ttft: {p50: 5s}}
regression: {required: true, ttft: {p50: {max: 10%}}}
"""
LOST = {"error": "HTTP 503", "ttft_s": None, "e2e_s": None, "output_tokens": 0}


def rows(n: int, seed: int = 1, **more: Any) -> list[dict[str, Any]]:
    """Measured requests: TTFT 100 to 200 ms, E2E about a second more."""
    noise = random.Random(seed)
    made = [(noise.uniform(0.1, 0.2), noise.uniform(0.9, 1.1)) for _ in range(n)]
    return [
        {"start_s": i * 0.05, "ttft_s": t, "e2e_s": t + d, "output_tokens": 50, "input_tokens": 60, **more}
        for i, (t, d) in enumerate(made)
    ]


def jsonl(file: Path, lines: list[dict[str, Any]]) -> None:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def failing(n: int, failed: int) -> list[dict[str, Any]]:
    return [{**row, **LOST} if i < failed else row for i, row in enumerate(rows(n, seed=2))]


def report(folder: Path, **run: Any) -> str:
    metrics = {"ttft_s": {"p50": 0.14, "p90": 0.2, "p99": 0.3, "n": 600}}
    counts = {"attempted": 600, "completed": 600, "failed": 0, "cancelled": 0, "warmup": 0}
    known = {"input": "x.jsonl", "tool": "generic", "counts": counts, "metrics": metrics, **run}
    return json.dumps({"schema_version": 1, "verdict": "pass", "inputs": [], "runs": [known]})


USELESS: dict[str, Callable[[Path], object]] = {
    "missing": lambda file: None,
    "empty": lambda file: file.write_text(""),
    "cut": lambda file: file.write_text('{"ttfts": [0.1, 0.2'),
    "unknown": lambda file: file.write_text('{"weather": "fine"}'),
    "all failed": lambda file: jsonl(file, failing(600, 600)),
    "mostly failed": lambda file: jsonl(file, failing(600, 301)),
    "too few": lambda file: jsonl(file, rows(99, seed=2)),
    "one row": lambda file: jsonl(file, rows(1, seed=2)),
    "no such metric": lambda file: jsonl(file, [{**row, "ttft_s": None} for row in rows(600, seed=2)]),
    "no runs": lambda file: file.write_text('{"schema_version": 1, "verdict": "pass", "runs": []}'),
    "an error": lambda file: file.write_text('{"schema_version": 1, "verdict": "error", "exit_code": 3}'),
    "nothing stated": lambda file: file.write_text(report(file, metrics={})),
    "null stated": lambda file: file.write_text(report(file, metrics={"ttft_s": None})),
    "no P50 stated": lambda file: file.write_text(report(file, metrics={"ttft_s": {"p90": 0.2}})),
    "contradicts itself": lambda file: file.write_text(
        report(file, counts={"attempted": 9, "completed": 9, "failed": 9})
    ),
}
UNREADABLE = ("missing", "empty", "cut", "unknown", "no runs", "an error", "contradicts itself")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    jsonl(tmp_path / "c.jsonl", rows(600))
    return tmp_path


def check(
    slo_gate: Process, folder: Path, *more: str, undecided: str = "block"
) -> subprocess.CompletedProcess[str]:
    (folder / "p.yaml").write_text(POLICY.replace("UNDECIDED", undecided), encoding="utf-8")
    return slo_gate("check", "c.jsonl", "-p", "p.yaml", "--format", "json", *more)


def rule(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    found = json.loads(done.stdout)["objectives"]
    return next(one for one in found if one["id"] == "regression.ttft.p50")


@pytest.mark.parametrize("name", USELESS)
def test_a_required_baseline_that_shows_nothing_blocks(name: str, folder: Path, slo_gate: Process) -> None:
    USELESS[name](folder / "b.json")
    done = check(slo_gate, folder, "--baseline", "b.json", undecided="allow")
    assert done.returncode == 4, done.stdout
    assert (rule(done)["cause"], rule(done)["level"], rule(done)["blocks"]) == ("evidence", "block", True)


@pytest.mark.parametrize("name", USELESS)
def test_so_it_does_in_the_same_session(name: str, folder: Path, slo_gate: Process) -> None:
    USELESS[name](folder / "b.json")
    done = check(slo_gate, folder, "--baseline", "b.json", "--same-session", undecided="lean")
    assert (done.returncode, rule(done)["cause"]) == (4, "evidence")


@pytest.mark.parametrize("name", ["none", "no match"])
def test_no_baseline_blocks(name: str, folder: Path, slo_gate: Process) -> None:
    more = () if name == "none" else ("--baseline", "nights/*.json")
    done = check(slo_gate, folder, *more, undecided="allow")
    assert (done.returncode, rule(done)["cause"]) == (4, "evidence")


def test_what_is_wrong_is_said(folder: Path, slo_gate: Process) -> None:
    said = {
        "missing": "the baseline cannot be used: b.json: no such file",
        "all failed": "the baseline is no measure: 600 of its 600 requests failed",
        "mostly failed": "301 of its 600 requests failed",
        "too few": "the baseline has 99 requests, and one that is required has 100 or more",
    }
    for name, why in said.items():
        (folder / "b.json").unlink(missing_ok=True)
        USELESS[name](folder / "b.json")
        done = check(slo_gate, folder, "--baseline", "b.json")
        assert why in rule(done)["reason"]
        asked = "check the name of the baseline" in json.loads(done.stdout)["next_action"]
        assert asked is (name == "missing")


@pytest.mark.parametrize("name", UNREADABLE)
def test_where_it_is_not_required_an_unreadable_baseline_exits_3(
    name: str, folder: Path, slo_gate: Process
) -> None:
    USELESS[name](folder / "b.json")
    (folder / "p.yaml").write_text(POLICY.replace("required: true, ", "").replace("UNDECIDED", "block"))
    done = slo_gate("check", "c.jsonl", "-p", "p.yaml", "--baseline", "b.json")
    assert (done.returncode, "b.json" in done.stderr) == (3, True)


def test_a_warning_that_requires_its_baseline_does_not_make_an_unreadable_one_pass(
    folder: Path, slo_gate: Process
) -> None:
    (folder / "p.yaml").write_text(
        POLICY.replace("max: 10%", "max: 10%, level: warn").replace("UNDECIDED", "block")
    )
    assert slo_gate("check", "c.jsonl", "-p", "p.yaml", "--baseline", "none.json").returncode == 3


def test_a_required_baseline_that_shows_something_still_only_warns_where_it_is_stored(
    folder: Path, slo_gate: Process
) -> None:
    jsonl(folder / "b.jsonl", [{**row, "ttft_s": row["ttft_s"] / 2} for row in rows(600, seed=2)])
    done = check(slo_gate, folder, "--baseline", "b.jsonl")
    assert (done.returncode, rule(done)["verdict"], rule(done)["level"]) == (0, "fail", "warn")


def test_a_candidate_that_answers_nothing_fails_against_a_required_baseline(
    folder: Path, slo_gate: Process
) -> None:
    """Stored sessions differ by 3 to 5 %: that is why they only warn, and no reason to wave this through."""
    jsonl(folder / "b.jsonl", rows(600, seed=2))
    jsonl(folder / "c.jsonl", failing(600, 600))
    done = check(slo_gate, folder, "--baseline", "b.jsonl")
    assert (done.returncode, rule(done)["verdict"], rule(done)["blocks"]) == (1, "fail", True)


# ---- the candidate's own measurement -------------------------------------------------------------


def vllm(seed: int, n: int = 400, **more: Any) -> dict[str, Any]:
    """A detailed result of vLLM, with the tool's own percentiles by hand: linear, as numpy has them."""
    noise = random.Random(seed)
    ttfts = [noise.uniform(0.1, 0.2) for _ in range(n)]
    whole = [ttft + noise.uniform(0.95, 1.0) for ttft in ttfts]
    own = {}
    for name, values in (("ttft", ttfts), ("e2el", whole)):
        ordered = sorted(1000 * value for value in values)

        def at(share: float, ordered: list[float] = ordered) -> float:
            place = share * (len(ordered) - 1)
            low = int(place)
            high = min(low + 1, len(ordered) - 1)
            return ordered[low] + (ordered[high] - ordered[low]) * (place - low)

        own |= {f"median_{name}_ms": at(0.5), f"p90_{name}_ms": at(0.9), f"p99_{name}_ms": at(0.99)}
        own[f"mean_{name}_ms"] = sum(ordered) / n
    return {
        "date": "20260101-120000", "endpoint_type": "openai-chat", "backend": "openai-chat", "model_id": "m",
        "tokenizer_id": "m", "num_prompts": n, "request_rate": "inf", "max_concurrency": 64,
        "burstiness": 1.0, "duration": 100.0, "completed": n, "failed": 0, "total_input_tokens": 60 * n,
        "total_output_tokens": 50 * n, "request_throughput": n / 100, "output_throughput": n / 2,
        **own, "input_lens": [60] * n, "output_lens": [50] * n, "ttfts": ttfts, "itls": [[0.0199] * 49] * n,
        "latencies": whole, "errors": [""] * n, **more,
    }  # fmt: skip


DETAILS = ("input_lens", "output_lens", "ttfts", "itls", "latencies", "errors")
PER_REQUEST = ("input_lens", "output_lens", "ttfts", "itls", "latencies", "errors")


def part(result: dict[str, Any], keep: Callable[[int], bool]) -> dict[str, Any]:
    """Some requests of a result, with the totals that go with them."""
    kept = [i for i in range(result["num_prompts"]) if keep(i)]
    cut = {key: [result[key][i] for i in kept] for key in PER_REQUEST}
    n = len(kept)
    totals = {"num_prompts": n, "completed": n, "total_input_tokens": 60 * n, "total_output_tokens": 50 * n}
    return {**result, **cut, **totals}


def shuffled(result: dict[str, Any]) -> dict[str, Any]:
    order = list(range(result["num_prompts"]))
    random.Random(9).shuffle(order)
    return {**result, **{key: [result[key][i] for i in order] for key in PER_REQUEST}}


def rounded(result: dict[str, Any], digits: int, few: int = 0) -> dict[str, Any]:
    """Times of fewer digits, but for the first few."""
    times = {
        key: result[key][:few] + [round(value, digits) for value in result[key][few:]]
        for key in ("ttfts", "latencies")
    }
    return {**result, **times}


def mixed(result: dict[str, Any]) -> dict[str, Any]:
    """Another measurement with 20 of the requests in it."""
    other = vllm(77)
    return {**other, **{key: other[key][:380] + result[key][:20] for key in PER_REQUEST}}


OWN: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "another date": lambda own: {"note": "x", **own, "date": "20251231-120000"},
    "shuffled": shuffled,
    "a part": lambda own: part(own, lambda i: i % 3 > 0),
    "mixed": mixed,
    "to the microsecond": lambda own: rounded(own, 6),
    "a part to the microsecond": lambda own: rounded(part(own, lambda i: i % 2 > 0), 6),
    "some to the microsecond": lambda own: rounded(own, 6, few=200),
    "to ten microseconds, shuffled": lambda own: rounded(shuffled(own), 5),
}
COMPARE = """\
version: 1
name: reg
slo: {ttft: {p50: 5s}}
regression: {required: true, ttft: {p50: {max: 10%}}}
evidence: {decide: confident, warmup: auto}
"""


@pytest.fixture
def own(tmp_path: Path) -> dict[str, Any]:
    result = vllm(1)
    (tmp_path / "c.json").write_text(json.dumps(result), encoding="utf-8")
    (tmp_path / "slo.yaml").write_text(COMPARE, encoding="utf-8")
    return result


def refused(done: subprocess.CompletedProcess[str]) -> None:
    assert (done.returncode, "among the results" in done.stderr) == (3, True), done.stdout + done.stderr


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("command", ["check", "compare"])
def test_the_candidates_own_measurement_is_no_baseline(
    command: str, name: str, own: dict[str, Any], tmp_path: Path, slo_gate: Process
) -> None:
    (tmp_path / "b.json").write_text(json.dumps(OWN[name](own)), encoding="utf-8")
    words = (
        ("compare", "b.json", "c.json")
        if command == "compare"
        else ("check", "c.json", "--baseline", "b.json")
    )
    refused(slo_gate(*words, "--same-session"))


def test_nor_is_it_under_another_load(own: dict[str, Any], tmp_path: Path, slo_gate: Process) -> None:
    (tmp_path / "b.json").write_text(json.dumps({**own, "max_concurrency": 32}), encoding="utf-8")
    refused(slo_gate("check", "c.json", "--baseline", "b.json", "--allow-baseline", "load"))


def test_nor_is_the_tools_summary_of_it(own: dict[str, Any], tmp_path: Path, slo_gate: Process) -> None:
    summary = {key: value for key, value in own.items() if key not in DETAILS}
    (tmp_path / "b.json").write_text(json.dumps(summary), encoding="utf-8")
    refused(slo_gate("check", "c.json", "--baseline", "b.json"))


def saved_reports(tmp_path: Path, slo_gate: Process, result: dict[str, Any]) -> Iterator[Path]:
    """Reports of the same measurement in another file, with and without warm-up."""
    (tmp_path / "again.json").write_text(json.dumps({**result, "date": "20251231-120000"}), encoding="utf-8")
    for warmup in ("auto", "0", "7"):
        (tmp_path / "p.yaml").write_text(COMPARE.replace("auto", warmup).replace("required: true, ", ""))
        slo_gate("check", "again.json", "-p", "p.yaml", "--json", f"saved-{warmup}.json")
        yield tmp_path / f"saved-{warmup}.json"


def test_nor_is_a_saved_report_of_it(own: dict[str, Any], tmp_path: Path, slo_gate: Process) -> None:
    same, without, other = saved_reports(tmp_path, slo_gate, own)
    refused(slo_gate("check", "c.json", "--baseline", same))
    refused(slo_gate("check", "c.json", "--baseline", without))
    # a third warm-up rule gives other percentiles: that is as much as a saved report can show
    assert slo_gate("check", "c.json", "--baseline", other).returncode == 0


def test_nor_is_a_saved_report_of_its_summary(own: dict[str, Any], tmp_path: Path, slo_gate: Process) -> None:
    summary = {key: value for key, value in own.items() if key not in DETAILS}
    (tmp_path / "c.json").write_text(json.dumps(summary), encoding="utf-8")
    refused(slo_gate("check", "c.json", "--baseline", next(saved_reports(tmp_path, slo_gate, summary))))


def test_another_measurement_of_the_same_build_is_a_baseline(
    own: dict[str, Any], tmp_path: Path, slo_gate: Process
) -> None:
    (tmp_path / "b.json").write_text(json.dumps(vllm(2)), encoding="utf-8")
    for form in ("b.json", next(saved_reports(tmp_path, slo_gate, vllm(2)))):
        done = slo_gate("check", "c.json", "--baseline", form, "--format", "json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["baseline"]["runs"] == {"baseline": 1, "candidate": 1}


def test_a_report_beside_the_results_it_is_of_is_counted_once(
    own: dict[str, Any], tmp_path: Path, slo_gate: Process
) -> None:
    (tmp_path / "b.json").write_text(json.dumps(vllm(2)), encoding="utf-8")
    slo_gate("check", "b.json", "--json", "saved.json")
    words = ("--baseline", "b.json", "--baseline", "saved.json", "--format", "json")
    found = json.loads(slo_gate("check", "c.json", *words).stdout)
    assert (found["baseline"]["runs"]["baseline"], found["baseline"]["sessions"]) == (1, 1)
    assert any("a report of results that are given too" in note for note in found["notes"])


@pytest.mark.parametrize("name", ["shuffled", "a part"])
def test_a_coarse_clock_hides_no_copy_and_makes_none(
    name: str, own: dict[str, Any], tmp_path: Path, slo_gate: Process
) -> None:
    """To a tenth of a millisecond, as many clients write; 400 requests of 1,000 x 1,500 of them."""
    (tmp_path / "c.json").write_text(json.dumps(rounded(own, 4)), encoding="utf-8")
    (tmp_path / "b.json").write_text(json.dumps(OWN[name](rounded(own, 4))), encoding="utf-8")
    refused(slo_gate("check", "c.json", "--baseline", "b.json", "--same-session"))
    (tmp_path / "b.json").write_text(json.dumps(rounded(vllm(2), 4)), encoding="utf-8")
    done = slo_gate("check", "c.json", "--baseline", "b.json", "--same-session")
    assert "among the results" not in done.stderr
    assert done.returncode != 3
