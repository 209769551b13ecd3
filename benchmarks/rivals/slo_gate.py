"""Verdicts of `slo-gate check`, as the command gives them: jobs.json -> a JSON list on stdout."""

import contextlib
import io
import json
import sys
from pathlib import Path

from gate.cli import run

POLICY = """\
version: 1
name: rivals
workload: {{load: {{concurrency: 16}}}}
regression:
  ttft: {{p50: {{max: {0}}}, p90: {{max: {0}}}, p99: {{max: {0}}}}}
  tpot: {{p50: {{max: {0}}}, p90: {{max: {0}}}, p99: {{max: {0}}}}}
  e2e: {{p50: {{max: {0}}}, p90: {{max: {0}}}, p99: {{max: {0}}}}}
limits: {{error_rate: {{max: 1%}}}}
evidence: {{warmup: auto}}
"""
WORDS = {0: "pass", 1: "fail", 4: "undecided"}
found = []
for job in json.loads(Path(sys.argv[1]).read_text()):
    policy = Path(sys.argv[1]).with_name("slo.yaml")
    policy.write_text(POLICY.format(f"{100 * job['limit']:g}%"))
    words = ["check", job["candidate"], "--baseline", job["base"], "--same-session", "--policy", str(policy)]
    out, said = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
        code = run(words)
    found.append(WORDS.get(code, f"refused: {said.getvalue().strip()}"[:120]))
json.dump(found, sys.stdout)
