"""Every printed command of a recipe with its real client, against two streaming servers: `make test-clients`.

The servers' TTFT and TPOT are far apart from a busy machine's delays, so that 30 % is no noise; what may grow
is in the middle, 15 %. A third of the answers would end early: only what the recipe switches off keeps the
declared lengths.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.clients.conftest import CLIENTS, COLUMNS, ROWS, Client
from tests.conftest import ROOT

POLICY = """\
version: 1
name: clients
workload:
  model: loopback
  hardware: a-laptop
  load: {{concurrency: 16{sweep}}}
  input_tokens: {{mean: 60, stddev: 12, tolerance: 10%}}
  output_tokens: {{mean: 24, stddev: 5, tolerance: 10%}}
goodput:
  min: 90%
  request: {{ttft: 5s, tpot: 500ms}}
regression:
  ttft: {{p50: {{max: 15%, and_at_least: 10ms}}}}
  tpot: {{p50: {{max: 15%, and_at_least: 1ms}}}}
evidence:
  tool: {{version: required}}
  prompts: varied
  warmup: auto
profiles:
  pr: {{evidence: {{runs: {{min: 3}}, requests_per_run: {{min: 100}}}}}}
"""
SERVER = ("--ttft-ms", 300, "--tpot-ms", 12, "--spread", 0.05, "--cold", 20, "--early-rate", 0.3)
RUNS, SLOWER = 3, 1.3


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
    rules = [one for one in report["objectives"] if one["id"].startswith(("workload.", "evidence."))]
    missed = [one["id"] for one in rules if one["verdict"] != "pass" and one["level"] != "info"]
    left_out = [one["id"] for one in rules if one["verdict"] != "pass" and one["level"] == "info"]
    conformance = ", ".join(missed) or "no miss"
    return {
        "version": str(runs[0]["tool_version"]),
        "parses": "yes",
        "runs": str(len(runs)),
        "files": str(len(report["inputs"])),
        "verdict": report["verdict"],
        "provenance": "complete" if all(stated) else "incomplete",
        "conformance": f"{conformance}; left out: {', '.join(left_out)}" if left_out else conformance,
    }


def test_every_client_that_installs_has_a_nightly_job_of_its_own() -> None:
    path = ROOT / ".github" / "workflows" / "clients.yml"
    matrix = yaml.safe_load(path.read_text("utf-8"))["jobs"]["recipe"]["strategy"]["matrix"]["client"]
    assert sorted(matrix) == sorted(
        [*(name for name, one in CLIENTS.items() if "cannot" not in one), "workflow"]
    )


def row_of(client: Client) -> dict[str, str]:
    """The row of a client in the table; until its first report its command line has not parsed."""
    row = ROWS[client.name]
    if "reason" in row:
        row = ROWS[client.name] = dict.fromkeys(COLUMNS[1:], "-") | {"parses": "no"}
    return row


def said(row: dict[str, str], report: dict[str, Any], case: str) -> None:
    """Put a report into the row; verdicts are those of all cases."""
    before = [] if row["verdict"] == "-" else [row["verdict"]]
    row |= facts(report)
    row["verdict"] = ", ".join([*before, f"{case}: {report['verdict']}"])
    changes = (report["baseline"] or {"changes": []})["changes"]
    row["pairs"] = changes[0]["method"] if changes else "none"


def both(server: Callable[..., str], slower: float) -> dict[str, str]:
    """What is in the environment of a recipe's commands: a baseline and a candidate so many times as slow."""
    urls = {"BASE_URL": server(*SERVER), "URL": server(*SERVER, "--slower", slower)}
    return {**urls, "HARDWARE": "a-laptop"}


@pytest.mark.parametrize("slower", [SLOWER, 1.0], ids=["slower", "equal"])
def test_a_slower_candidate_fails_and_an_equal_one_passes(
    slower: float, client: Client, recipe: Callable[[str], None], server: Callable[..., str]
) -> None:
    recipe(", sweep: [50%, 100%]" if slower > 1 else "")
    loads = 2 if slower > 1 else 1
    servers = both(server, slower)
    row = row_of(client)

    done = client.shell("bash bench.sh", **servers)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    report = client.report(client.printed("Gate:"), **servers)
    said(row, report, f"{slower:g} x")

    wanted = "fail" if slower > 1 else "pass"
    assert report["verdict"] == wanted, report["headline"]
    growth = [one for one in report["objectives"] if one["id"].startswith("regression.")]
    assert {one["verdict"] for one in growth} == {wanted}
    assert (row["runs"], row["provenance"]) == (str(RUNS * loads), "complete")
    assert row["conformance"].partition(";")[0] == "no miss"
    assert row["pairs"] == f"{RUNS} paired runs"


def test_the_printed_run_until_certain_fails_a_slower_candidate(
    client: Client, recipe: Callable[[str], None], server: Callable[..., str]
) -> None:
    recipe("")
    servers = both(server, SLOWER)
    row = row_of(client)

    line = client.printed("Or both, until the verdict is certain:")
    for name, given in (("BASE_URL", "http://base:8000"), ("URL", "http://server:8000")):
        line = line.replace(f"{name}={given}", f"{name}={servers[name]}")
    report = client.report(line, **servers)
    said(row, report, "run")
    assert report["verdict"] == "fail", report["headline"]
