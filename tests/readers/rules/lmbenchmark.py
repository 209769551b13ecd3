"""How the rules are broken in the CSVs of LMBenchmark and of the InferenceX multi-turn client."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.readers.rules import Alone, Change, Form, Write

N = 150
T0 = 1795960774.0
Line = dict[str, Any]
COMMAND = "bench.py -m m -p 8\n"


def seconds(number: int) -> Line:
    ttft, decode = 0.080 + number % 17 / 1000, 0.520 + number % 29 / 1000
    start = T0 + number * 0.5
    return {
        "prompt_tokens": 60 + number % 5,
        "generation_tokens": 40,
        "ttft": ttft,
        "generation_time": decode,
        "launch_time": start,
        "finish_time": start + ttft + decode,
    }


def milliseconds(number: int) -> Line:
    ttft, latency = 80.0 + number % 17, 600.0 + number % 29
    return {
        "start_time_ms": number * 100.0,
        "ttft_ms": ttft,
        "tpot_ms": (latency - ttft) / 39,
        "latency_ms": latency,
        "input_num_tokens": 60 + number % 5,
        "output_num_tokens": 40,
        "output_num_first_chunk_tokens": 1,
        "client_id": number % 8,
    }


def save(path: Path, lines: Sequence[Line]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


def write(name: str, line: Callable[[int], Line]) -> Write:
    def apply(folder: Path) -> Sequence[str]:
        save(folder / name, [line(number) for number in range(N)])
        (folder / "benchmark_command.txt").write_text(COMMAND, encoding="utf-8")
        return [name]

    return apply


def each(change: Callable[[int, Line], object]) -> Change:
    """`change` applied to each line, by its number."""

    def apply(folder: Path) -> None:
        (path,) = folder.glob("*.csv")
        with path.open(newline="", encoding="utf-8") as file:
            lines: list[Line] = list(csv.DictReader(file))
        for number, line in enumerate(lines):
            change(number, line)
        save(path, lines)

    return apply


def command(text: str) -> Change:
    return lambda folder: (folder / "benchmark_command.txt").write_text(text, encoding="utf-8") and None


NONE: Mapping[str, str] = {
    "lost rows": "does not say how many requests were asked for",
    "counts": "counts nothing beside its rows",
    "token totals": "states no total of output tokens",
    "falling percentiles": "states no percentiles",
    "tool's verdict": "has no word on the run as a whole",
    "several loads": "is one load a file",
    "repetitions": "has no column for it",
    "summary alone": "is one file",
    "retries": "has no row for a failed request, so no error rate is judged in any case",
    "retried": "has no row for a failed request, so no error rate is judged in any case",
}
JUDGES = ("ttft.p50", "tpot.p50", "e2e.p50", "goodput")  # failures have no row, so no error rate
BLANK = {"generation_tokens": 0, "ttft": 0.6, "generation_time": 0.6}


def blank(line: Line) -> None:
    """An answer without visible content gets the whole time in both columns."""
    line.update(BLANK, finish_time=float(line["launch_time"]) + 0.6)


KINDS = {
    "LMBenchmark": Form(
        write("LMBench_sharegpt_output_2.csv", seconds),
        JUDGES,
        {
            "failed": each(lambda n, line: n % 3 or blank(line)),
            "all failed": each(lambda n, line: blank(line)),
            "zero tokens": each(lambda n, line: line.update(generation_tokens=0)),
            "null tokens": each(lambda n, line: line.update(generation_tokens="", ttft="")),
            "half the tokens": each(lambda n, line: n % 2 or line.update(generation_tokens=0)),
            "one burst": each(lambda n, line: line.update(ttft=0.6, generation_time=0.0001)),
            "not streamed": each(lambda n, line: line.update(ttft="")),
            "zero time": each(lambda n, line: line.update(ttft=0)),
            "negative time": each(lambda n, line: n % 3 or line.update(generation_time=-1)),
        },
        {
            **NONE,
            "cut rows": "keeps neither chunks nor texts",
        },
        proves=False,
    ),
    "multi-turn": Form(
        write("metrics_client_metrics.csv", milliseconds),
        JUDGES,
        {
            "zero tokens": each(lambda n, line: line.update(output_num_tokens=0)),
            "null tokens": each(lambda n, line: line.update(output_num_tokens="", ttft_ms="")),
            "half the tokens": each(lambda n, line: n % 2 or line.update(output_num_tokens=0)),
            "one burst": each(lambda n, line: line.update(ttft_ms=float(line["latency_ms"]) - 0.1)),
            "not streamed": each(lambda n, line: line.update(ttft_ms="")),
            "not streamed: by its command": command("bench.py -m m -p 8 --no-stream\n"),
            "zero time": each(lambda n, line: line.update(ttft_ms=0)),
            "negative time": each(lambda n, line: n % 3 or line.update(latency_ms=-1)),
        },
        {
            **NONE,
            "failed": "has no row for a failed request",
            "all failed": "has no row for a failed request",
            "cut rows": "counts the tokens of the text that came, so a cut answer is a short one",
        },
        (
            Alone(
                "benchmark_command.txt",
                "says that answers were not streamed",
                ("not streamed: by its command",),
            ),
        ),
        proves=False,
    ),
}
