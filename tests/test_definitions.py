"""docs/definitions.md in numbers: one run, four goodputs, and ours by counting."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np

from tests.conftest import ROOT, Process

TTFT_S, TPOT_S = 0.5, 0.02


def one_run() -> list[dict[str, object]]:
    """PEERS section 3.1: 1000 sent, 50 failed, 100 one-token answers, 850 longer ones, 800 of them good."""
    rows: list[dict[str, object]] = [
        {"ttft_s": None, "e2e_s": None, "output_tokens": 0, "error": "HTTP 500"}
    ] * 50
    rows += [{"ttft_s": 0.1, "e2e_s": 0.1, "output_tokens": 1, "error": None}] * 100
    rows += [{"ttft_s": 0.1, "e2e_s": 1.1, "output_tokens": 101, "error": None}] * 800
    return rows + [{"ttft_s": 0.1, "e2e_s": 9.1, "output_tokens": 101, "error": None}] * 50


def four_goodputs(rows: list[dict[str, object]]) -> dict[str, float]:
    """Each tool's own formula, written out (their sources are in docs/definitions.md)."""
    failed = np.array([row["error"] is not None for row in rows])
    ttft, e2e, tokens = (
        np.array([row[key] if row[key] is not None else np.nan for row in rows], dtype=float)
        for key in ("ttft_s", "e2e_s", "output_tokens")
    )
    single = ~failed & (tokens == 1)
    tpot = np.where(tokens > 1, (e2e - ttft) / np.maximum(tokens - 1, 1), np.nan)
    both = (ttft <= TTFT_S) & (tpot <= TPOT_S)
    completed = ~failed
    return {
        "vLLM": float(((ttft <= TTFT_S) & (np.where(single, 0.0, tpot) <= TPOT_S))[completed].mean()),
        "GuideLLM": float(both.sum() / (failed.sum() + (completed & ~single).sum())),
        "inference-perf": float(both[completed].mean()),
        "AIPerf": float(both.sum() / len(rows)),
    }


def test_one_run_gives_four_goodputs_in_four_tools() -> None:
    found = {tool: f"{share:.1%}" for tool, share in four_goodputs(one_run()).items()}
    assert found == {"vLLM": "94.7%", "GuideLLM": "88.9%", "inference-perf": "84.2%", "AIPerf": "80.0%"}
    page = (ROOT / "docs" / "definitions.md").read_text(encoding="utf-8")
    for tool, share in found.items():
        row = next(line for line in page.splitlines() if line.startswith(f"| {tool}"))
        assert share.replace("%", " %") in row


def test_ours_is_of_attempted_and_says_how_a_single_token_counts(tmp_path: Path, slo_gate: Process) -> None:
    rows = one_run()
    (tmp_path / "run.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    page = (ROOT / "docs" / "definitions.md").read_text(encoding="utf-8")
    for how, share in (("ignore", 0.9), ("miss", 0.8)):
        (tmp_path / "slo.yaml").write_text(
            "version: 1\n"
            f"goodput: {{min: 50%, request: {{ttft: {TTFT_S * 1e3:.0f}ms, tpot: {TPOT_S * 1e3:.0f}ms}}}}\n"
            f"semantics: {{single_token_tpot: {how}}}\nevidence: {{decide: point}}\n"
        )
        report = json.loads(slo_gate("check", "run.jsonl", "--format", "json").stdout)
        assert report["goodput"]["fraction"] == share
        assert report["goodput"]["attempted"] == 1000
        assert re.search(rf"`single_token_tpot: {how}` \| {share * 100:.1f} %", page)
