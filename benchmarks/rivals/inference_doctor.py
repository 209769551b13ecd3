"""Verdicts of inference-doctor, in its own environment: jobs.json -> a JSON list on stdout."""

import json
import sys
from pathlib import Path

del sys.path[0]  # this file has the name of the package

from inference_doctor.quality import QualityThresholds, load_and_compare_directories  # noqa: E402

METRICS = [f"{metric}_{name}_ms" for metric in ("ttft", "tpot", "e2el") for name in ("median", "p99")]
found = []
for job in json.loads(Path(sys.argv[1]).read_text()):
    thresholds = QualityThresholds(regression_percent=100 * job["limit"])
    try:
        report = load_and_compare_directories(
            Path(job["base"]), Path(job["candidate"]), metric=METRICS, thresholds=thresholds, format="vllm"
        )
        found.append({"PASS": "pass", "FAIL": "fail"}.get(report["result"], "undecided"))
    except Exception as error:  # whatever it says of bad input
        found.append(f"refused: {error}"[:120])
json.dump(found, sys.stdout)
