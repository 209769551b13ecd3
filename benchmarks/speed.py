"""The marks of a gate that costs nothing next to the benchmark, as ratios measured in one run.

`python benchmarks/speed.py [--peers] [--only WORDS] [--repeat N] [--docs]` (`make bench`, and with `--peers`
`make bench-peers`). A figure is the CPU time, user and system, of a whole process and of those it waited for,
by the system's own account; bytecode is cached as an installed package has it. The two sides of a ratio run
in turn, A B A B, and their medians are divided, so that a noisy machine disturbs both. Exits 1 when a bar is
missed. `--peers` shows other programs at the same work instead. `--docs` writes docs/performance.md.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import environments
import make_inputs

ROOT = Path(__file__).resolve().parent.parent
POLICY = """\
version: 1
name: speed
slo: {ttft: {p99: 2s}, tpot: {p99: 50ms}, e2e: {p99: 30s}}
goodput: {min: 95%}
"""
PAGE = ROOT / "docs" / "performance.md"
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
ENVIRONMENT |= {"PYTHONPATH": str(ROOT)}
MEGABYTE = 1 << 20  # of memory
SECONDS = 30.0  # of CPU that one mark may take before its pairs are enough

ORJSON = "import orjson, sys\nfor name in sys.argv[1:]: orjson.loads(open(name, 'rb').read())"
ORJSON_LINES = "import orjson, sys\nfor line in open(sys.argv[1], 'rb'): orjson.loads(line)"
DUCKDB = """\
import duckdb, sys
print(duckdb.sql(
    "select quantile_disc(ttft_s, [.5, .9, .99]), quantile_disc(e2e_s, [.5, .9, .99]), count(error), "
    "quantile_disc((e2e_s - ttft_s) / (output_tokens - 1), [.5, .9, .99]), "
    "avg((ttft_s <= 2 and e2e_s <= 30)::int) from '" + sys.argv[1] + "'"
).fetchall())
"""
REMEMBER = """\
import sys
from hashlib import sha256
from msgspec.structs import replace
from gate import history
report, store = sys.argv[1:]
first = history.record_of(open(report, "rb").read(), "0" * 40, "main", "2027-01-01T00:00:00Z")
def run(number, digest):  # no two of the same figures: what was measured once is one session
    more = 1 + (number % 997 + int(digest, 16) % 997 / 1_000) * 1e-5
    shown = {name: replace(m, p50=m.p50 * more, p90=m.p90 * more, p99=m.p99 * more, mean=m.mean * more)
             for name, m in first.runs[0].metrics.items() if m.p50}
    return replace(first.runs[0], sha256=digest, metrics=shown)
for number in range(1_000):
    digests = [sha256(f"{number} {run}".encode()).hexdigest() for run in range(5)]
    runs = tuple(run(number, digest) for digest in digests)
    when = f"2027-01-{number // 50 + 1:02}T{number % 24:02}:00:00Z"
    line = replace(first, time=when, commit=digests[0][:40], report_sha256=digests[0], runs=runs)
    data = history.encode(line)
    history.open_store(store).write({history.name_of(history.decode(data)): data})
"""
JUDGED = 1_000_000  # requests
JUDGE = """\
import sys, time
from datetime import date
import numpy as np
from gate import policy
from gate.evaluate import evaluate
from gate.model import Counts, Load, Requests, Run
n = int(sys.argv[2])
rng = np.random.default_rng(1)
ttft = rng.lognormal(-1.0, 0.5, n)
tokens, prompts = (rng.integers(low, high, n).astype(float) for low, high in ((2, 400), (10, 2000)))
e2e, start = ttft + tokens * rng.lognormal(-4.0, 0.2, n), np.arange(n) / 100.0
asked = policy.parse(open(sys.argv[1], "rb").read(), "slo.yaml")
pairs = []
for _ in range(4):  # the first warms caches
    rows = Requests(np.zeros(n, np.uint8), ttft, e2e, tokens, prompts, start, order="start")
    run = Run("run", "0" * 64, "test", "vllm", rows, Counts(n, n, 0), load=Load(concurrency=64))
    began = time.process_time()
    evaluate(asked, [run], date(2026, 11, 29))
    judged = time.process_time()
    np.partition(ttft, [n // 2, n * 9 // 10, n * 99 // 100])
    pairs.append((judged - began, time.process_time() - judged))
print(*(sorted(side)[1] for side in zip(*pairs[1:])))
"""


@dataclass(frozen=True)
class Cost:
    cpu_s: float
    peak_mb: float


@dataclass(frozen=True)
class Mark:
    """Two commands, and what the first may cost of the second."""

    name: str
    ours: Sequence[str]
    bare: Sequence[str]
    bar: float
    peak_mb: float = math.inf  # that the first may take


@dataclass
class Table:
    """Rows as they are measured: printed at once, kept for the page."""

    rows: list[tuple[str, ...]] = field(default_factory=list)
    missed: int = 0

    def add(self, name: str, ours: str, bare: str, ratio: float, bar: float) -> None:
        late = ratio > bar
        self.missed += late
        row = (name, ours, bare, f"{ratio:.2f}", f"<= {bar:g}", "MISSED" if late else "")
        self.rows.append(row)
        print(f"{row[0]:62} {row[1]:>9} {row[2]:>9} {row[3]:>7}  {row[4]:8} {row[5]}", flush=True)


def spent(command: Sequence[str]) -> Cost:
    """What a command costs, itself and what it waited for. Raises SystemExit where it ends in no verdict."""
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, cwd=ROOT, env=ENVIRONMENT, stdout=said, stderr=said)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in ((0, 1, 4) if command[1:3] == ["-m", "gate"] else (0,)):
            said.seek(0)
            raise SystemExit(f"{command} exited {process.returncode}: {said.read().decode()}")
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / MEGABYTE)


def gate(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "gate", *map(str, words)]


def python(code: str, *words: str | Path, by: str = sys.executable) -> list[str]:
    return [by, "-c", code, *map(str, words)]


def check(results: str | Path, folder: Path, *words: str | Path) -> list[str]:
    return gate("check", results, "--policy", folder / "slo.yaml", *words)


def marks(folder: Path, wanted: Sequence[str]) -> Iterator[Mark]:
    made = make_inputs.made

    def asked(*words: str) -> bool:
        return not wanted or not set(wanted).isdisjoint(words)

    if asked("start"):
        small = made("small.jsonl")
        yield Mark("cold start of `check` / import click, numpy, yaml", check(small, folder),
                   python("import click, numpy, yaml"), 1.4)  # fmt: skip
        yield Mark("`--help` / import click", gate("--help"), python("import click"), 1.5)
    if asked("history"):
        small, store = made("small.jsonl"), folder / "store"
        other = folder / "other.jsonl"
        other.write_text('{"ttft_s": 0.3, "e2e_s": 1.5, "output_tokens": 100}\n' * 200, encoding="utf-8")
        spent(check(other, folder, "--json", folder / "other.json"))
        spent(python(REMEMBER, folder / "other.json", store))
        ours = check(small, folder, "--history", store)
        yield Mark("`check --history` of 1,000 sessions / `check`", ours, check(small, folder), 1.5)
    if asked("vllm"):
        for how, bar in (("with", 0.8), ("without", 1.2)):
            file = made(f"vllm_{how}_latencies.json")
            yield Mark(f"89 MB vLLM {how} latencies / orjson", check(file, folder), python(ORJSON, file), bar)
    if asked("aiperf"):
        for size, bar in ((72, 1.2), (720, 0.8)):
            file = made(f"aiperf_{size}.jsonl")
            bare = python(ORJSON_LINES, file)
            yield Mark(f"{size} MB AIPerf JSONL / orjson per line", check(file, folder), bare, bar)
    if asked("generic"):
        file = made("generic_1e6.jsonl")
        bare = python(ORJSON_LINES, file)
        yield Mark("generic JSONL, 1,000,000 rows / orjson per line", check(file, folder), bare, 3.0)
    if asked("csv"):
        file = made("generic_1e6.csv")
        bare = python(DUCKDB, file, by=environments.python_of("duckdb"))
        yield Mark("CSV, 1,000,000 rows / duckdb", check(file, folder), bare, 5.0)
    if asked("folder"):
        place = made("vllm_1000")
        bare = python(ORJSON, *sorted(place.iterdir()))
        yield Mark("1,000 files of 1.77 MB / orjson of them", check(place, folder), bare, 1.5, 300)
    if asked("page"):
        file = made("generic_1e5.jsonl")
        ours = check(file, folder, "--html", folder / "report.html")
        yield Mark("page with charts of 100,000 requests / `check` of them", ours, check(file, folder), 3.0)


def measure(mark: Mark, repeat: int, table: Table) -> None:
    ours, bare = [spent(mark.ours)], [spent(mark.bare)]
    if ours[0].cpu_s + bare[0].cpu_s < SECONDS / 2:
        ours, bare = [], []  # that was to warm caches
        while len(ours) < repeat and sum(cost.cpu_s for cost in (*ours, *bare)) < SECONDS:
            ours.append(spent(mark.ours))
            bare.append(spent(mark.bare))
    a, b = (statistics.median(cost.cpu_s for cost in side) for side in (ours, bare))
    table.add(mark.name, f"{a:.3f} s", f"{b:.3f} s", a / b, mark.bar)
    if mark.peak_mb < math.inf:
        peak = statistics.median(cost.peak_mb for cost in ours)
        table.add(f"{mark.name.partition(' / ')[0]}: peak", f"{peak:.0f} MB", "", peak, mark.peak_mb)


def growth(folder: Path, table: Table) -> None:
    """The steepest growth of time and memory over the decades of one format's rows."""
    costs = []
    for power in (4, 5, 6, 7):
        file = make_inputs.made(f"generic_1e{power}.jsonl")
        found = [spent(check(file, folder)) for _ in range(5 if power < 6 else 1)]
        cpu, peak = (
            statistics.median(getattr(cost, name) for cost in found) for name in ("cpu_s", "peak_mb")
        )
        costs.append(Cost(cpu, peak))
        print(f"  10^{power} requests: {cpu:.2f} s, peak {peak:.0f} MB", flush=True)
    for what in ("cpu_s", "peak_mb"):
        steps = [math.log10(getattr(b, what) / getattr(a, what)) for a, b in pairwise(costs)]
        first, last = getattr(costs[0], what), getattr(costs[-1], what)
        name, unit = ("time", "s") if what == "cpu_s" else ("memory", "MB")
        shown = f"{last:.1f} {unit}", f"{first:.1f} {unit}"
        table.add(f"growth of {name} from 10^4 to 10^7 requests, exponent", *shown, max(steps), 1.05)
    beyond = (costs[-1].peak_mb * MEGABYTE - make_inputs.made("generic_1e7.jsonl").stat().st_size) / 1e7
    table.add("memory of 10^7 requests beyond the file, bytes a request", f"{beyond:.0f}", "", beyond, 80)


def judging(folder: Path, table: Table) -> None:
    command = python(JUDGE, folder / "slo.yaml", str(JUDGED))
    said = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, check=True).stdout
    ours, bare = map(float, said.split())
    name = f"judging {JUDGED:,} requests / one np.partition"
    table.add(name, f"{ours:.3f} s", f"{bare:.3f} s", ours / bare, 20)


# ---- other programs -----------------------------------------------------------------------------

_POLARS = """\
import polars, sys
rows = polars.scan_ndjson(sys.argv[1], infer_schema_length=None)
at = [
    polars.col(name).quantile(q, "higher").alias(f"{name}{q}")
    for name in ("ttft_s", "e2e_s") for q in (.5, .9, .99)
]
print(rows.select(*at, polars.col("error").count()).collect())
"""
_PANDAS = """\
import pandas, sys
rows = pandas.read_json(sys.argv[1], lines=True)
print(rows[["ttft_s", "e2e_s"]].quantile([.5, .9, .99]), rows["error"].count())
"""
_JQ = "[inputs | .e2e_s // empty] | sort | (.5, .9, .99) as $q | .[length * $q | floor]"
_DOCTOR = """\
import sys
from pathlib import Path
from inference_doctor.quality import QualityThresholds, load_and_compare_directories
load_and_compare_directories(
    Path(sys.argv[1]), Path(sys.argv[2]), metric=["ttft_p99_ms", "tpot_p99_ms", "e2el_p99_ms"],
    thresholds=QualityThresholds(regression_percent=10), format="vllm",
)
"""
ROWS, SIX = "1,000,000 generic rows", "six vLLM files of 1.77 MB against six"


def peers(folder: Path) -> Iterator[tuple[str, str, Callable[[], Sequence[str]]]]:
    """Work, program, and its command, which may have to be installed first (RuntimeError)."""
    rows, files = make_inputs.made("generic_1e6.jsonl"), sorted(make_inputs.made("vllm_1000").iterdir())
    for side, runs in (("base", files[:6]), ("candidate", files[6:12])):
        (folder / side).mkdir()
        for file in runs:
            (folder / side / file.name).symlink_to(file)
    by = environments.python_of
    yield ROWS, "slo-gate check", lambda: check(rows, folder)
    yield ROWS, "orjson, line by line", lambda: python(ORJSON_LINES, rows)
    yield ROWS, "duckdb", lambda: python(DUCKDB, rows, by=by("duckdb"))
    yield ROWS, "polars", lambda: python(_POLARS, rows, by=by("polars"))
    yield ROWS, "pandas", lambda: python(_PANDAS, rows, by=by("pandas"))
    yield ROWS, "jq", lambda: ["jq", "-n", _JQ, str(rows)]
    both = folder / "base", folder / "candidate"
    yield (
        SIX,
        "slo-gate check --max-growth 10%",
        lambda: gate("check", both[1], "--baseline", both[0], "--max-growth", "10%"),
    )
    yield SIX, "inference-doctor", lambda: python(_DOCTOR, *both, by=by("inference-doctor==0.4.1"))


def beside(folder: Path, repeat: int) -> list[tuple[str, ...]]:
    """A row of each program: its CPU and peak memory, and the CPU over that of slo-gate."""
    found: list[tuple[str, ...]] = []
    first: dict[str, float] = {}
    for work, name, command in peers(folder):
        try:
            words = command()
            costs = [spent(words) for _ in range(repeat)]
        except (RuntimeError, OSError, SystemExit) as why:
            found.append((work, name, f"not measured: {str(why).splitlines()[-1][:80]}", "", ""))
            continue
        cpu = statistics.median(cost.cpu_s for cost in costs)
        peak = statistics.median(cost.peak_mb for cost in costs)
        share = cpu / first.setdefault(work, cpu)
        found.append((work, name, f"{cpu:.2f} s", f"{peak:.0f} MB", f"{share:.2f}"))
        print(*found[-1], sep="  ", flush=True)
    return found


def written(section: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Put a table between the two comments of its section in docs/performance.md."""
    begin, end = f"<!-- {section} -->\n", f"<!-- end of {section} -->"
    page = PAGE.read_text(encoding="utf-8")
    before, after = page[: page.index(begin) + len(begin)], page[page.index(end) :]
    lines = [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]
    PAGE.write_text(before + "\n".join(lines) + "\n" + after, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument(
        "--only", nargs="*", default=(), help="start history vllm aiperf generic csv folder page ..."
    )
    parser.add_argument("--peers", action="store_true", help="other programs at the same work")
    parser.add_argument("--docs", action="store_true", help="write docs/performance.md")
    options = parser.parse_args()
    table = Table()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "slo.yaml").write_text(POLICY, encoding="utf-8")
        if options.peers:
            rows = beside(folder, min(options.repeat, 3))
            if options.docs:
                written("peers", ("work", "program", "CPU", "peak memory", "CPU / slo-gate's"), rows)
            return 0
        print(f"{'mark':62} {'ours':>9} {'bare':>9} {'ratio':>7}  bar")
        for mark in marks(folder, options.only):
            measure(mark, options.repeat, table)
        if not options.only or "growth" in options.only:
            growth(folder, table)
        if not options.only or "judging" in options.only:
            judging(folder, table)
    if options.docs:
        written("marks", ("work", "slo-gate", "beside", "ratio", "bar", ""), table.rows)
    return 1 if table.missed else 0


if __name__ == "__main__":
    sys.exit(main())
