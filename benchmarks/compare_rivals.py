"""slo-gate beside other gates on the same files: the same build, a slower one, results that are no evidence.

The files are those of examples/chat (vLLM, concurrency 16, 120 requests a run). Each rival judges them in an
environment of its own, installed from the package index into .cache/rivals; what does not install is a row
with the reason. Prints docs/comparison.md, and writes it with `--docs`. `--quick` draws fewer splits.
"""

from __future__ import annotations

import argparse
import copy
import gzip
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import environments
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
HERE = Path(__file__).resolve().parent / "rivals"
CHAT = ROOT / "examples" / "chat"
Doc = dict[str, Any]
HISTORY = 20  # runs before the candidate, for what needs a history


class Rival(NamedTuple):
    """Another gate: its package, the module in benchmarks/rivals that asks it, and how it decides."""

    name: str
    package: str  # empty: nothing to install
    module: str
    how: str


RIVALS = (
    Rival("slo-gate", "", "slo_gate", "nine rules (P50, P90, P99 of TTFT, TPOT, E2E), `slo-gate check`"),
    Rival("inference-doctor", "inference-doctor==0.4.1", "inference_doctor",
          "median and P99 of three metrics, Welch on the tool's own summaries (it reads no P90)"),
    Rival("servebench check", "servebench==1.1.3", "servebench", "P50 of TTFT and TPOT, throughput,"
          " errors; no interval"),
    Rival("Apache Otava", "apache-otava==0.8.0", "otava",
          f"change points in a history of {HISTORY} runs, median and P99 of three metrics"),
    Rival("naive threshold", "", "", "any of nine pooled percentiles above the limit"),
)  # fmt: skip


class Job(NamedTuple):
    """One comparison that every gate is given."""

    kind: str  # of the table it counts in
    base: list[Doc]
    candidate: list[Doc]
    limit: float
    history: list[Doc]


# ---- the files ------------------------------------------------------------------------------


def docs(folder: str, load: str = "c016") -> list[Doc]:
    """The result files of a build."""
    files = sorted((CHAT / folder).glob(f"{load}_run*.json.gz"))
    return [json.loads(gzip.decompress(file.read_bytes())) for file in files]


def summed_up(doc: Doc) -> Doc:
    """The file with the tool's own summary of the rows that are there, as the tool would write it."""
    done = [not error for error in doc["errors"]]
    rows = [np.array([cell if cell is not None else np.nan for cell in doc[key]], float)[done]
            for key in ("ttfts", "latencies", "output_lens")]  # fmt: skip
    ttft, e2e, tokens = rows
    doc["completed"], doc["failed"] = sum(done), len(done) - sum(done)
    doc["num_prompts"] = len(done)
    doc["total_input_tokens"], doc["total_output_tokens"] = sum(doc["input_lens"]), int(tokens.sum())
    doc["request_throughput"] = sum(done) / doc["duration"]
    doc["output_throughput"] = float(tokens.sum()) / doc["duration"]
    with np.errstate(all="ignore"):
        tpot = (e2e - ttft)[tokens > 1] / (tokens - 1)[tokens > 1]
    for name, values in (("ttft", ttft), ("tpot", tpot), ("e2el", e2e)):
        known = values[np.isfinite(values)]
        for word, percent in (("median", 50), ("p50", 50), ("p90", 90), ("p99", 99)):
            doc[f"{word}_{name}_ms"] = 1e3 * float(np.percentile(known, percent)) if known.size else 0.0
        doc[f"mean_{name}_ms"] = 1e3 * float(known.mean()) if known.size else 0.0
    return doc


def each(change: Callable[[Doc], None]) -> Callable[[list[Doc]], list[Doc]]:
    """The same change in every run, and the summary made again."""

    def changed(runs: list[Doc]) -> list[Doc]:
        made = copy.deepcopy(runs)
        for doc in made:
            change(doc)
            summed_up(doc)
        return made

    return changed


def scaled(doc: Doc, factor: float) -> None:
    """Every time that many times as long."""
    for key in ("ttfts", "latencies"):
        doc[key] = [cell * factor for cell in doc[key]]
    doc["itls"] = [[gap * factor for gap in gaps] for gaps in doc["itls"]]
    doc["duration"] *= factor


def _zero(doc: Doc) -> None:
    doc["ttfts"] = [0.0] * len(doc["ttfts"])


def _no_ttft(doc: Doc) -> None:
    doc["ttfts"], doc["itls"] = list(doc["latencies"]), [[] for _ in doc["itls"]]


def _shorter_prompts(doc: Doc) -> None:
    scaled(doc, 0.8)
    doc["input_lens"] = [max(1, cell // 2) for cell in doc["input_lens"]]


def _cut_outputs(doc: Doc) -> None:
    doc["latencies"] = [(t + e) / 2 for t, e in zip(doc["ttfts"], doc["latencies"], strict=True)]
    doc["output_lens"] = [max(2, cell // 2) for cell in doc["output_lens"]]
    doc["itls"] = [gaps[: len(gaps) // 2] for gaps in doc["itls"]]
    doc["duration"] /= 2


def _nan(doc: Doc) -> None:
    doc["ttfts"][60] = float("nan")


def _negative(doc: Doc) -> None:
    doc["ttfts"][60] = -0.02


def _failing(share: float) -> Callable[[Doc], None]:
    def change(doc: Doc) -> None:
        for row in range(int(len(doc["errors"]) * share)):
            doc["errors"][row], doc["ttfts"][row], doc["latencies"][row] = "503", 0.0, 0.0
            doc["output_lens"][row], doc["itls"][row] = 0, []

    return change


def _short(doc: Doc) -> None:
    for key, cells in doc.items():
        if isinstance(cells, list):
            doc[key] = cells[:20]


def _model(doc: Doc) -> None:
    doc["model_id"] = "another-model"


def _unit(doc: Doc) -> None:
    scaled(doc, 1e-3)
    doc["duration"] *= 1e3


TRAPS: dict[str, Callable[[list[Doc]], list[Doc]]] = {
    "a build 30 % slower": each(lambda doc: scaled(doc, 1.3)),
    "TTFT 0 in every row": each(_zero),
    "one run copied five times": lambda runs: [runs[0]] * 5,
    "the baseline given as the candidate": lambda runs: runs,  # the baseline's own, see `traps`
    "prompts half as long, 20 % faster": each(_shorter_prompts),
    "outputs cut in half": each(_cut_outputs),
    "a TTFT of NaN": each(_nan),
    "a negative TTFT": each(_negative),
    "half of the requests failed": each(_failing(0.5)),
    "every request failed": each(_failing(1.0)),
    "5 % of the requests failed": each(_failing(0.05)),
    "the first token comes with the last": each(_no_ttft),
    "20 requests a run": each(_short),
    "a single run": lambda runs: runs[:1],
    "no run at all": lambda runs: [],
    "a quarter of the load": lambda runs: docs("good", "c004")[:5],
    "another model": each(_model),
    "times a thousand times too small": each(_unit),
}


def jobs(splits: int) -> Iterator[Job]:
    """Every comparison, in order."""
    good, bad = docs("good"), docs("regressed")
    rng = np.random.default_rng(11)
    for runs in (3, 5):
        for _ in range(splits):
            order = rng.permutation(len(good))
            base, candidate = ([good[i] for i in order[a : a + runs]] for a in (0, runs))
            history = [good[i] for i in order[len(good) - HISTORY :]]
            for limit in (0.05, 0.1):
                yield Job(f"same {runs} {limit}", base, candidate, limit, history)
            slower = [bad[i] for i in rng.permutation(len(bad))[:runs]]
            yield Job(f"slower {runs}", base, slower, 0.05, history)
    base, rest = good[:5], good[5:]
    for name, change in TRAPS.items():
        candidate = base if name.startswith("the baseline") else change(rest[:5])
        yield Job(f"trap {name}", base, candidate, 0.1, rest[5:25])


# ---- the gates ------------------------------------------------------------------------------


def written(asked: list[Job], folder: Path) -> list[dict[str, Any]]:
    """The jobs as folders of result files."""
    kept: dict[int, Path] = {}

    def file_of(doc: Doc) -> Path:
        if id(doc) not in kept:
            kept[id(doc)] = folder / f"doc{len(kept)}.json"
            kept[id(doc)].write_text(json.dumps(doc), encoding="utf-8")
        return kept[id(doc)]

    made = []
    for number, job in enumerate(asked):
        sides = {}
        for side, runs in (("base", job.base), ("candidate", job.candidate)):
            place = folder / f"job{number}" / side
            place.mkdir(parents=True)
            for at, doc in enumerate(runs):
                (place / f"run{at}.json").symlink_to(file_of(doc))
            sides[side] = str(place)
        history = [str(file_of(doc)) for doc in job.history]
        made.append({**sides, "limit": job.limit, "history": history})
    return made


def verdicts(rival: Rival, asked: list[Job], file: Path) -> list[str]:
    """What it says of each job. Raises RuntimeError where it cannot be asked."""
    if not rival.module:
        return [naive(job) for job in asked]
    env = {**os.environ, "PYTHONPATH": "" if rival.package else str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    words = [
        environments.python_of(rival.package) if rival.package else sys.executable,
        str(HERE / f"{rival.module}.py"),
        str(file),
    ]
    done = subprocess.run(words, capture_output=True, text=True, env=env)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1][:200])
    found: list[str] = json.loads(done.stdout)
    return found


def naive(job: Job) -> str:
    """Any percentile of the pooled requests that grew by more than the limit."""
    for name in ("ttft", "tpot", "e2e"):
        sides = [pooled(runs, name) for runs in (job.base, job.candidate)]
        if not sides[1].size:
            return "refused: nothing there"
        growth = [np.percentile(sides[1], p) / np.percentile(sides[0], p) for p in (50, 90, 99)]
        if max(growth) > 1 + job.limit:
            return "fail"
    return "pass"


def pooled(runs: list[Doc], metric: str) -> np.ndarray:
    """One metric of all answers of a side, in s."""
    found = [np.array([])]
    for doc in runs:
        ttft, e2e, tokens = (np.array(doc[key], float) for key in ("ttfts", "latencies", "output_lens"))
        done = np.array([not error for error in doc["errors"]], bool)
        with np.errstate(all="ignore"):
            values = {"ttft": ttft, "e2e": e2e, "tpot": (e2e - ttft) / (tokens - 1)}[metric]
        found.append(values[done])
    return np.concatenate(found)


# ---- the page -------------------------------------------------------------------------------


HEAD = """\
# Comparison

Other gates on the same files. Every figure is printed by `make compare-rivals`, which installs each rival
into an environment of its own. The files are the real runs of examples/chat (vLLM, concurrency 16, 120
requests a run). One gate may ask for more than another: what each looks at stands in the last table.

## The same build, and one that is 15 % slower

{splits} random splits a column, in %. "Passes" is the same build cleared at a limit of 10 %, "false FAIL" the
same build failed at 5 %, "found" the build that is 15 % slower (0.4 % of its requests fail) failed at 5 %. A
gate without a third verdict passes whatever it does not fail.

| gate | passes, 3 + 3 runs | 5 + 5 | false FAIL, 3 + 3 | 5 + 5 | found, 3 + 3 | 5 + 5 |
|---|---|---|---|---|---|---|
"""
TRAPPED = """
## Results that are no evidence

Five runs of the baseline against five that something was done to, at a limit of 10 %. Nothing here should
pass. "Refused" is an error on reading, "undecided" a verdict that blocks.
"""
TAIL = """
What this does not show: servebench and Otava are not made for these files (servebench reads its own, so the
runs of a side are given to it as one; Otava watches a series over months, where it has more history than
here), and the requests of one server on one machine say little about others.
"""


def page(asked: list[Job], told: dict[str, list[str] | str], splits: int) -> str:
    """docs/comparison.md."""
    lines = HEAD.format(splits=splits).splitlines()
    columns = [
        ("same 3 0.1", "pass"),
        ("same 5 0.1", "pass"),
        ("same 3 0.05", "fail"),
        ("same 5 0.05", "fail"),
    ]
    columns += [("slower 3", "fail"), ("slower 5", "fail")]
    for name, verdict in told.items():
        if isinstance(verdict, str):
            lines.append(f"| {name} | not compared: {verdict} | | | | | |")
            continue
        cells = []
        for kind, wanted in columns:
            of = [said for job, said in zip(asked, verdict, strict=True) if job.kind == kind]
            cells.append(f"{100 * of.count(wanted) / len(of):.0f}" if of else "")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    known = {name: verdict for name, verdict in told.items() if not isinstance(verdict, str)}
    lines += [*TRAPPED.splitlines(), ""]
    lines += [f"| the candidate | {' | '.join(known)} |", f"|---|{'---|' * len(known)}"]
    passed = dict.fromkeys(known, 0)
    for number, job in enumerate(asked):
        if not job.kind.startswith("trap "):
            continue
        cells = [verdict[number].partition(":")[0] for verdict in known.values()]
        for name, cell in zip(known, cells, strict=True):
            passed[name] += cell == "pass"
        shown = ["**passes**" if cell == "pass" else {"fail": "fails"}.get(cell, cell) for cell in cells]
        lines.append(f"| {job.kind.removeprefix('trap ')} | {' | '.join(shown)} |")
    lines.append(f"| *passes, of {len(TRAPS)}* | {' | '.join(map(str, passed.values()))} |")
    lines += ["", "## What each looks at", "", "| gate | version | how it decides |", "|---|---|---|"]
    for rival in RIVALS:
        version = rival.package.partition("==")[2] or "this one" if rival.module else ""
        lines.append(f"| {rival.name} | {version} | {rival.how} |")
    return "\n".join([*lines, *TAIL.splitlines(), ""])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--docs", action="store_true", help="write docs/comparison.md")
    parser.add_argument("--quick", action="store_true", help="5 splits instead of 30")
    options = parser.parse_args()
    splits = 5 if options.quick else 30
    asked = list(jobs(splits))
    told: dict[str, list[str] | str] = {}
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "jobs.json"
        file.write_text(json.dumps(written(asked, Path(place))), encoding="utf-8")
        for rival in RIVALS:
            try:
                told[rival.name] = verdicts(rival, asked, file)
            except RuntimeError as why:
                told[rival.name] = str(why)
    text = page(asked, told, splits)
    print(text)
    for name, verdict in told.items():
        for job, said in zip(asked, verdict, strict=False):
            if job.kind.startswith("trap ") and said.startswith("refused"):
                print(f"{name}: {job.kind}: {said}", file=sys.stderr)
    if options.docs:
        (ROOT / "docs" / "comparison.md").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
