"""Every printed command of a recipe with its real client, against two streaming servers: `make test-clients`.

The servers' TTFT and TPOT are far apart from a busy machine's delays, so that 30 % is no noise. A third of
the answers would end early: only what the recipe switches off keeps the declared lengths. Prompts of
random ids are some tokens longer to a server that reads their text, whence the tolerance.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from tests.clients.conftest import COLUMNS, ROWS, Client

POLICY = """\
version: 1
name: clients
workload:
  model: loopback
  hardware: a-laptop
  load: {{concurrency: 8{sweep}}}
  input_tokens: {{mean: 64, stddev: 12, tolerance: 30%}}
  output_tokens: {{mean: 24, stddev: 5, tolerance: 20%}}
goodput:
  min: 90%
  request: {{ttft: 5s, tpot: 500ms}}
regression:
  ttft: {{p50: {{max: 12%, and_at_least: 10ms}}}}
  tpot: {{p50: {{max: 12%, and_at_least: 1ms}}}}
evidence:
  tool: {{version: required}}
  prompts: varied
  warmup: auto
profiles:
  pr: {{evidence: {{runs: {{min: 3}}, requests_per_run: {{min: 100}}}}}}
"""
SERVER = ("--ttft-ms", 300, "--tpot-ms", 12, "--spread", 0.05, "--cold", 20, "--early-rate", 0.3)
RUNS = 3


@pytest.fixture
def recipe(client: Client) -> Callable[[str], None]:
    def write(sweep: str) -> None:
        (client.folder / "slo.yaml").write_text(POLICY.format(sweep=sweep), encoding="utf-8")
        done = client.shell(f"slo-gate recipe -p slo.yaml --profile pr --for {client.name} -o .")
        assert done.returncode == 0, done.stderr

    return write


def facts(report: dict[str, Any]) -> dict[str, str]:
    """The cells of the table that a report fills."""
    runs = report["runs"]
    stated = [one["tool_version"] and one["model"] and one["hardware"] for one in runs]
    missed = [
        one["id"]
        for one in report["objectives"]
        if one["id"].startswith(("workload.", "evidence.")) and one["verdict"] not in ("pass", "info")
    ]
    return {
        "version": str(runs[0]["tool_version"]),
        "parses": "yes",
        "runs": str(len(runs)),
        "files": str(len(report["inputs"])),
        "verdict": report["verdict"],
        "provenance": "complete" if all(stated) else "incomplete",
        "conformance": ", ".join(missed) or "no miss",
    }


@pytest.mark.parametrize("slower", [1.3, 1.0], ids=["slower", "equal"])
def test_a_slower_candidate_fails_and_an_equal_one_passes(
    slower: float, client: Client, recipe: Callable[[str], None], server: Callable[..., str]
) -> None:
    recipe(", sweep: [50%, 100%]" if slower > 1 else "")
    loads = 2 if slower > 1 else 1
    servers = {
        "BASE_URL": server(*SERVER),
        "URL": server(*SERVER, "--slower", slower),
        "HARDWARE": "a-laptop",
    }
    row = ROWS[client.name] = dict.fromkeys(COLUMNS[1:], "-") | {"parses": "no"}

    done = client.shell("bash bench.sh", **servers)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    report = client.report(client.printed("Gate:"), **servers)
    row |= facts(report)

    wanted = "fail" if slower > 1 else "pass"
    assert report["verdict"] == wanted, report["headline"]
    growth = [one for one in report["objectives"] if one["id"].startswith("regression.")]
    assert {one["verdict"] for one in growth} == {wanted}
    row["pairs"] = report["baseline"]["changes"][0]["method"]
    assert (row["runs"], row["provenance"], row["conformance"]) == (str(RUNS * loads), "complete", "no miss")
    assert row["pairs"] == f"{RUNS} paired runs"

    if slower > 1 and not os.environ.get("SLO_GATE_CLIENTS_SHORT"):
        line = client.printed("Or both, until the verdict is certain:")
        for name, given in (("BASE_URL", "http://base:8000"), ("URL", "http://server:8000")):
            line = line.replace(f"{name}={given}", f"{name}={servers[name]}")
        until = client.report(line, **servers)
        row["verdict"] = f"{report['verdict']}, until certain {until['verdict']}"
        assert until["verdict"] == "fail", until["headline"]
