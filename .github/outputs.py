"""Print the step's outputs as NAME=VALUE lines from the JSON report. Values hold no line breaks."""

import json
import sys
from pathlib import Path

code, report_path, junit, markdown = sys.argv[1:]
try:
    report = json.loads(Path(report_path).read_text(encoding="utf-8"))
except (OSError, ValueError):  # the gate died before it could write: there is no verdict
    report = {"verdict": "error"}
goodput = (report.get("goodput") or {}).get("fraction")
outputs = {
    "verdict": report["verdict"],
    "exit-code": code,
    "goodput": "" if goodput is None else goodput,
    "report-json": report_path,
    "junit": junit,
    "markdown": markdown,
}
for name, value in outputs.items():
    print(f"{name}={' '.join(str(value).split())}")
