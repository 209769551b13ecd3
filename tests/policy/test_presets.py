"""The embedded policies: complete, justified, and equal to the figures they quote."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest

from gate import policy
from gate.model import Kind, Level

USE_CASES = [name for name in policy.PRESETS if not name.startswith("mlperf-")]
MLPERF = [name for name in policy.PRESETS if name.startswith("mlperf-")]


def test_the_list_of_presets_is_the_folder_of_presets() -> None:
    found = {path.name for path in files("gate").joinpath("presets").iterdir()}
    assert found == {f"{name}.yaml" for name in policy.PRESETS}


@pytest.mark.parametrize("name", policy.PRESETS)
def test_a_preset_loads_alone_under_its_own_name(name: str) -> None:
    loaded = policy.preset(name, profile="none")
    assert (loaded.name, loaded.path, loaded.profile) == (name, f"preset:{name}", None)
    assert loaded.evidence.warmup == "auto"
    assert loaded.workload.sweep == ()
    levels = {o.id: o.level for o in loaded.objectives if o.id.startswith("evidence.")}
    assert levels == {
        "evidence.runs": Level.WARN,
        "evidence.requests_per_run": Level.WARN,
        "evidence.tool": Level.WARN,
    }
    assert loaded.evidence.tool_version_required


@pytest.mark.parametrize("name", policy.PRESETS)
def test_every_bound_of_a_preset_has_a_comment_right_above_it(name: str) -> None:
    lines = policy.preset_text(name).splitlines()
    for objective in policy.preset(name, profile="none").objectives:
        assert lines[objective.line - 2].strip().startswith("#"), (objective.id, lines[objective.line - 1])


@pytest.mark.parametrize("name", USE_CASES)
def test_a_preset_asks_for_99_percent_in_production_and_95_in_a_canary(name: str) -> None:
    for profile, share in (
        ("none", 0.99),
        ("release", 0.99),
        ("nightly", 0.99),
        ("canary", 0.95),
        ("pr", 0.95),
    ):
        loaded = policy.preset(name, profile=profile)
        (goodput,) = [o for o in loaded.objectives if o.kind is Kind.GOODPUT]
        assert (goodput.bound, goodput.level) == (share, Level.BLOCK)
        p99 = [o.level for o in loaded.objectives if o.statistic == "p99"]
        assert set(p99) == {Level.BLOCK if share == 0.99 else Level.INFO}


@pytest.mark.parametrize("name", policy.PRESETS)
def test_every_preset_has_the_profiles_of_init_and_judges_by_pr(name: str) -> None:
    assert policy.preset(name) == policy.preset(name, profile="pr")
    for profile, undecided, level in (
        ("pr", "lean", Level.WARN),
        ("nightly", "allow", Level.BLOCK),
        ("release", "block", Level.BLOCK),
    ):
        loaded = policy.preset(name, profile=profile)
        sizes = {o.id: (o.bound, o.level) for o in loaded.objectives if o.statistic == "min"}
        runs = 5 if profile == "pr" else 30
        assert sizes["evidence.runs"] == (runs, level)
        assert sizes["evidence.requests_per_run"] == (300, level)
        assert loaded.undecided == undecided


def times(name: str) -> dict[str, float | None]:
    return {o.id: o.bound for o in policy.preset(name).objectives if o.kind is Kind.LATENCY}


@pytest.mark.parametrize(
    ("name", "bounds"),
    [  # DESIGN section 3, presets
        ("chat", {"ttft.p99": 0.5, "tpot.p99": 0.025, "e2e.p99": 3.0}),
        ("chat-70b", {"ttft.p99": 0.8, "tpot.p99": 0.025, "e2e.p99[output_tokens<300]": 3.0}),
        ("chat-enterprise", {"ttft.p99": 0.4, "ttft.p90": 0.2, "tpot.p99": 0.025, "e2e.p99": 10.0}),
        ("voice", {"ttft.p99": 0.3, "tpot.p99": 0.05}),
        ("agent", {"e2e.p99": 5.0, "ttft.p99": 2.0}),
        ("code-completion", {"e2e.p99": 2.0, "e2e.p90": 0.5}),
        ("batch", {"e2e.p99": 60.0}),
    ],
)
def test_the_bounds_of_a_preset_are_the_promised_ones(name: str, bounds: dict[str, float]) -> None:
    assert times(name) == bounds


@pytest.mark.parametrize(
    ("name", "ttft_ms", "tpot_ms"),
    [  # mlcommons/inference loadgen/mlperf.conf: ttft_latency, tpot_latency
        ("mlperf-llama2-70b-server", 2000, 200),
        ("mlperf-llama2-70b-interactive", 450, 40),
        ("mlperf-mixtral-8x7b-server", 2000, 200),
        ("mlperf-llama3.1-405b-server", 6000, 175),
        ("mlperf-llama3.1-405b-interactive", 4500, 80),
        ("mlperf-llama3.1-8b-server", 2000, 100),
        ("mlperf-llama3.1-8b-interactive", 500, 30),
        ("mlperf-deepseek-r1-server", 2000, 80),
        ("mlperf-deepseek-r1-interactive", 1500, 15),
        ("mlperf-gpt-oss-120b-server", 3000, 80),
    ],
)
def test_the_mlperf_presets_quote_loadgen(name: str, ttft_ms: int, tpot_ms: int) -> None:
    assert times(name) == {"ttft.p99": ttft_ms / 1000, "tpot.p99": tpot_ms / 1000}
    assert name in MLPERF


def test_the_mlperf_figures_are_those_of_the_format_notes(shared: Path) -> None:
    page = shared / "formats" / "mlperf-trtllm-inferencex-llmd-prometheus.md"
    table = dict(re.findall(r"^\| ([a-z0-9.-]+)[^|]*\| ([^|]+\|[^|]+)\|", page.read_text("utf-8"), re.M))
    for name in MLPERF:
        model, scenario = re.fullmatch(r"mlperf-(.+)-(server|interactive)", name).groups()  # type: ignore[union-attr]
        cell = table[model].split("|")[scenario == "interactive"]
        ttft_ms, tpot_ms = re.findall(r"\d+", cell)[:2]
        assert times(name) == {"ttft.p99": int(ttft_ms) / 1000, "tpot.p99": int(tpot_ms) / 1000}
