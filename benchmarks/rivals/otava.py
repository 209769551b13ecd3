"""Change points of Apache Otava, in its own environment: jobs.json -> a JSON list on stdout.

The series of each figure is a history of runs of the same server, then the candidate's; a change upwards at
the candidate, or one run beside it, is a FAIL. It has no other verdict: what it does not find passes.
"""

import json
import logging
import sys
from pathlib import Path

del sys.path[0]  # this file has the name of the package
logging.disable(logging.CRITICAL)

from otava.series import AnalysisOptions, Metric, Series  # noqa: E402

FIGURES = [f"{name}_{metric}_ms" for metric in ("ttft", "tpot", "e2el") for name in ("median", "p99")]
found = []
for job in json.loads(Path(sys.argv[1]).read_text()):
    options = AnalysisOptions()
    options.min_magnitude = job["limit"]
    try:
        files = [Path(file) for file in job["history"]]
        begin = len(files)
        files += sorted(Path(job["candidate"]).glob("*.json"))
        docs = [json.loads(file.read_text()) for file in files]
        data = {name: [float(doc[name]) for doc in docs] for name in FIGURES}
        if len(files) == begin:
            raise ValueError("no run")
        series = Series("t", None, list(range(len(files))), {name: Metric() for name in FIGURES}, data, {})
        slower = [
            point
            for points in series.analyze(options).change_points.values()
            for point in points
            if point.index >= begin - 1 and point.stats.mean_2 > point.stats.mean_1
        ]
        found.append("fail" if slower else "pass")
    except Exception as error:  # whatever it says of bad input
        found.append(f"refused: {error}"[:120])
json.dump(found, sys.stdout)
