"""Verdicts of `servebench check`, in its own environment: jobs.json -> a JSON list on stdout.

It compares one run with one: the runs of a side are given as one run of all their requests.
"""

import json
import sys
from pathlib import Path

del sys.path[0]  # this file has the name of the package

from servebench.check import CheckThresholds, evaluate_regression  # noqa: E402
from servebench.metrics import summarize  # noqa: E402
from servebench.results import LevelResult, RequestResult, RunResult  # noqa: E402


def side(folder):
    """The runs of a folder as servebench would hold them."""
    requests, seconds, value = [], 0.0, 0
    for file in sorted(Path(folder).glob("*.json")):
        doc = json.loads(file.read_text())
        seconds, value = seconds + doc["duration"], doc["max_concurrency"]
        rows = zip(
            doc["ttfts"], doc["latencies"], doc["output_lens"], doc["input_lens"], doc["errors"], strict=True
        )
        requests += [
            RequestResult(
                index=i, start=0.0, ok=not error, error=error or None, ttft=ttft, e2e=e2e,
                prompt_tokens=prompt, output_tokens=tokens, chunk_times=[ttft, e2e],
            )
            for i, (ttft, e2e, tokens, prompt, error) in enumerate(rows)
        ]  # fmt: skip
    level = LevelResult(
        mode="concurrency", value=value, duration=seconds, requests=requests,
        summary=summarize(requests, seconds),
    )  # fmt: skip
    return RunResult.model_construct(label=str(folder), levels=[level])


found = []
for job in json.loads(Path(sys.argv[1]).read_text()):
    percent = 100 * job["limit"]
    limits = CheckThresholds(max_ttft_pct=percent, max_tpot_pct=percent)
    try:
        report = evaluate_regression(side(job["candidate"]), side(job["base"]), limits)
        found.append("pass" if report.passed else "fail")
    except Exception as error:  # whatever it says of bad input
        found.append(f"refused: {error}"[:120])
json.dump(found, sys.stdout)
