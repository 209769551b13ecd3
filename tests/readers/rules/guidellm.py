"""How the rules are broken in a GuideLLM report: with requests, with statistics only, as CSV."""

from __future__ import annotations

import copy
import csv
import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.conftest import FIXTURES
from tests.readers.rules import Change, Form

CASES = FIXTURES / "guidellm" / "typical"  # 150 requests at concurrency 6
JSON, CSV = "benchmarks.json", "benchmarks.csv"
Document = dict[str, Any]
ENDED = {"end_queuing_constraints": {"max_requests": {"metadata": {"max_requests": 150}}}}


def write(folder: Path) -> Sequence[str]:
    report = json.loads(gzip.decompress((CASES / f"{JSON}.gz").read_bytes()))
    report["benchmarks"][0]["scheduler_state"] = ENDED
    save(folder, report)
    return [JSON]


def write_statistics(folder: Path) -> Sequence[str]:
    write(folder)
    statistics(lambda benchmark: None)(folder)
    return [JSON]


def write_csv(folder: Path) -> Sequence[str]:
    (folder / CSV).write_bytes((CASES / CSV).read_bytes())
    asked = {"max_requests": {"type_": "max_requests", "args": {"kind": "max_requests", "count": 150}}}
    cells({(*LENGTH, "Std Dev"): 0.0, ("Benchmark", "Constraints", ""): asked})(folder)
    return [CSV]


def save(folder: Path, report: Document) -> None:
    (folder / JSON).write_text(json.dumps(report), encoding="utf-8")


def whole(change: Callable[[Document], object]) -> Change:
    """`change` applied to the benchmark."""

    def apply(folder: Path) -> None:
        report = json.loads((folder / JSON).read_text(encoding="utf-8"))
        change(report["benchmarks"][0])
        save(folder, report)

    return apply


def rows(change: Callable[[int, Document], object]) -> Change:
    """`change` applied to each successful request, by its number."""
    return whole(lambda b: [change(number, row) for number, row in enumerate(b["requests"]["successful"])])


def timings(row: Document) -> Document:
    found = row["info"]["timings"]
    assert isinstance(found, dict)
    return found


def totals(benchmark: Document) -> list[Document]:
    return [benchmark["metrics"]["request_totals"], benchmark["scheduler_metrics"]["requests_made"]]


def stat(benchmark: Document, name: str) -> Document:
    found = benchmark["metrics"][name]["successful"]
    assert isinstance(found, dict)
    return found


def halve(benchmark: Document) -> None:
    listed = benchmark["requests"]["successful"]
    del listed[75:]
    for counted in totals(benchmark):
        counted.update(successful=75, total=75)


def mark(share: int) -> Change:
    """One of `share` requests is in the list of errors."""

    def change(benchmark: Document) -> None:
        groups = benchmark["requests"]
        good, bad = [], list(groups["errored"])
        for number, row in enumerate(groups["successful"]):
            (bad if number % share == 0 else good).append(row)
        for row in bad:
            row.update(request_latency=None)
            row["info"]["error"] = "HTTPStatusError(\"Server error '503 x'\")"
        groups |= {"successful": good, "errored": bad}
        for counted in totals(benchmark):
            counted.update(successful=len(good), errored=len(bad))

    return whole(change)


def tokens(row: Document, number: int | None) -> None:
    row.update(output_tokens=number, output_metrics={"total_tokens": number})


def at_once(row: Document) -> None:
    """All tokens in the last 0.1 ms before the stream closes."""
    end = timings(row)["request_end"]
    timings(row).update(first_token_iteration=end - 1e-4, last_token_iteration=end - 1e-6)
    row["time_to_first_token_ms"] = row["request_latency"] * 1e3 - 0.1


def unstreamed(row: Document) -> None:
    row["time_to_first_token_ms"] = None
    timings(row).update(first_token_iteration=None, last_token_iteration=None, token_iterations=0)


def second(folder: Path) -> None:
    """A second level, none of whose requests meets a bound."""
    report = json.loads((folder / JSON).read_text(encoding="utf-8"))
    slow = copy.deepcopy(report["benchmarks"][0])
    slow["config"]["strategy"] |= {"streams": 64, "max_concurrency": 64}
    for row in slow["requests"]["successful"]:
        row["request_latency"] += 100
        row["time_to_first_token_ms"] += 99_000
    report["benchmarks"].append(slow)
    save(folder, report)


def repetitions(folder: Path) -> None:
    report = json.loads((folder / JSON).read_text(encoding="utf-8"))
    save(folder, report | {"aggregated_repetitions": 3})


def statistics(change: Callable[[Document], object]) -> Change:
    """Lists emptied, outputs of one length, and `change` applied."""

    def apply(benchmark: Document) -> None:
        benchmark["requests"] = {key: [] for key in ("successful", "errored", "incomplete")}
        stat(benchmark, "output_token_count").update(std_dev=0.0)
        change(benchmark)

    return whole(apply)


LOWER = ("p001", "p01", "p05", "p10", "p25", "p50")


def zero(block: Document, *, half: bool = False) -> None:
    block["percentiles"] |= dict.fromkeys(LOWER if half else block["percentiles"], 0.0)
    block.update(
        dict.fromkeys(("min", "median") if half else ("min", "median", "max", "mean", "std_dev"), 0.0)
    )


def none(benchmark: Document, *names: str) -> None:
    for name in names:
        stat(benchmark, name).update(count=0)
        zero(stat(benchmark, name))


def burst(benchmark: Document) -> None:
    e2e = stat(benchmark, "request_latency")
    ttft, tpot = stat(benchmark, "time_to_first_token_ms"), stat(benchmark, "inter_token_latency_ms")
    ttft["percentiles"] = {key: value * 1e3 - 0.1 for key, value in e2e["percentiles"].items()}
    ttft.update({key: e2e[key] * 1e3 - 0.1 for key in ("mean", "median", "min", "max")})
    tpot["percentiles"] = dict.fromkeys(tpot["percentiles"], 0.002)
    tpot.update(dict.fromkeys(("mean", "median", "min", "max"), 0.002))


def counted(**numbers: int) -> Change:
    return statistics(lambda b: [each.update(numbers) for each in totals(b)])


def cells(changes: dict[tuple[str, str, str], Any]) -> Change:
    """Cells of the table, by their three headers, set to the values."""

    def apply(folder: Path) -> None:
        with (folder / CSV).open(newline="", encoding="utf-8") as file:
            groups, names, parts, *lines = csv.reader(file)
        headers = list(zip(groups, names, parts, strict=True))
        for header, value in changes.items():
            if header not in headers:  # the fixture leaves out columns
                headers.append(header)
                for line, cell in zip((groups, names, parts, lines[0]), (*header, ""), strict=True):
                    line.append(cell)
            lines[0][headers.index(header)] = value if isinstance(value, str) else json.dumps(value)
        with (folder / CSV).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([groups, names, parts, *lines])

    return apply


def block(group: str, name: str, **values: Any) -> dict[tuple[str, str, str], Any]:
    return {(group, name, part.replace("_", " ")): value for part, value in values.items()}


E2E = ("Request Latency", "Successful Sec")
TTFT = ("Time to First Token", "Successful ms")
TPOT = ("Inter Token Latency", "Successful ms")
LENGTH = ("Token Metrics", "Successful Output Tokens")
EMPTY = {"Mean": 0.0, "Median": 0.0, "Std Dev": 0.0, "Percentiles": [0.0] * 11}


def nothing(*names: tuple[str, str]) -> dict[tuple[str, str, str], Any]:
    return {(group, name, part): value for group, name in names for part, value in EMPTY.items()}


NEVER = {
    "retries": "the client never repeats a request",
    "retried": "the client never repeats a request",
    "tool's verdict": "has no word on the run as a whole",
}
NO_ROWS = {"token totals": "holds no rows to add up", "cut rows": "holds no rows"}
JUDGES = ("ttft.p50", "tpot.p50", "e2e.p50", "error_rate", "goodput")
KINDS = {
    "requests": Form(
        write,
        JUDGES,
        {
            "lost rows": whole(halve),
            "counts": whole(
                lambda b: [b.pop("scheduler_metrics"), b["metrics"]["request_totals"].update(successful=9)]
            ),
            "failed": mark(3),
            "all failed": mark(1),
            "zero tokens": rows(lambda n, row: tokens(row, 0)),
            "null tokens": rows(lambda n, row: [tokens(row, None), unstreamed(row)]),
            "half the tokens": rows(lambda n, row: n % 2 or tokens(row, 0)),
            "token totals": whole(
                lambda b: stat(b, "output_token_count").update(mean=stat(b, "output_token_count")["mean"] / 2)
            ),
            "cut rows": rows(lambda n, row: n % 10 or timings(row).update(token_iterations=4)),
            "one burst": rows(lambda n, row: at_once(row)),
            "not streamed": rows(lambda n, row: unstreamed(row)),
            "zero time": rows(lambda n, row: row.update(time_to_first_token_ms=0.0)),
            "negative time": rows(lambda n, row: n % 3 or row.update(request_latency=-1.0)),
            "falling percentiles": whole(
                lambda b: stat(b, "request_latency")["percentiles"].update(p99=0.001)
            ),
            "several loads": second,
            "repetitions": repetitions,
        },
        {**NEVER, "summary alone": "counts failures beside the lists"},
    ),
    "statistics": Form(
        write_statistics,
        JUDGES,
        {
            "lost rows": counted(successful=75, total=75),
            "counts": statistics(lambda b: stat(b, "request_latency").update(count=149)),
            "failed": counted(successful=100, errored=50),
            "all failed": counted(successful=0, errored=150),
            "zero tokens": statistics(lambda b: zero(stat(b, "output_token_count"))),
            "null tokens": statistics(
                lambda b: none(b, "output_token_count", "time_to_first_token_ms", "inter_token_latency_ms")
            ),
            "half the tokens": statistics(lambda b: zero(stat(b, "output_token_count"), half=True)),
            "one burst": statistics(burst),
            "not streamed": statistics(lambda b: none(b, "time_to_first_token_ms", "inter_token_latency_ms")),
            "zero time": statistics(lambda b: zero(stat(b, "time_to_first_token_ms"), half=True)),
            "negative time": statistics(lambda b: stat(b, "request_latency").update(min=-1.0)),
            "falling percentiles": statistics(
                lambda b: stat(b, "request_latency")["percentiles"].update(p99=0.001)
            ),
            "several loads": second,
            "repetitions": repetitions,
        },
        {**NEVER, **NO_ROWS, "summary alone": "is the summary, and counts failures"},
    ),
    "csv": Form(
        write_csv,
        JUDGES,
        {
            "lost rows": cells(
                {
                    ("Request Counts", "Successful", ""): 75,
                    ("Scheduler Metrics", "Requests Made Successful", ""): 75,
                }
            ),
            "failed": cells(
                {("Request Counts", "Successful", ""): 100, ("Request Counts", "Errored", ""): 50}
            ),
            "all failed": cells(
                {("Request Counts", "Successful", ""): 0, ("Request Counts", "Errored", ""): 150}
            ),
            "zero tokens": cells(nothing(LENGTH)),
            "null tokens": cells({**nothing(TTFT, TPOT), **dict.fromkeys(nothing(LENGTH), "")}),
            "half the tokens": cells(block(*LENGTH, Percentiles=[0.0] * 7 + [48.0] * 4)),
            "one burst": cells(
                {
                    **block(*E2E, Mean=0.6, Median=0.6, Percentiles=[0.6] * 11),
                    **block(*TTFT, Mean=599.9, Median=599.9, Percentiles=[599.9] * 11),
                    **block(*TPOT, Mean=0.002, Median=0.002, Percentiles=[0.002] * 11),
                }
            ),
            "not streamed": cells(nothing(TTFT, TPOT)),
            "zero time": cells(block(*TTFT, Median=0.0, Percentiles=[0.0] * 6 + [90.0] * 5)),
            "negative time": cells(block(*E2E, Percentiles=[-1.0] * 1 + [0.6] * 10)),
            "falling percentiles": cells(block(*E2E, Percentiles=[0.6] * 9 + [0.1, 0.7])),
        },
        {
            **NEVER,
            **NO_ROWS,
            "counts": "states one count of each kind",
            "several loads": "has one line a load",
            "repetitions": "has no column for it",
            "summary alone": "is the summary, and counts failures",
        },
    ),
}
