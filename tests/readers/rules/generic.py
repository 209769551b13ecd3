"""How the rules are broken in home-made rows."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.readers.rules import Change, Form

N = 150
Row = dict[str, Any]
FAILED = {"error": "HTTP 503", "ttft_s": None, "e2e_s": None, "output_tokens": None}


def row(number: int) -> Row:
    return {
        "start_s": number * 0.05,
        "ttft_s": 0.08 + number % 17 / 1000,
        "e2e_s": 0.6 + number % 29 / 1000,
        "output_tokens": 40,
        "input_tokens": 60 + number % 5,
        "error": None,
    }


def save(folder: Path, rows: Sequence[Row]) -> None:
    if (folder / "r.csv").exists():
        with (folder / "r.csv").open("w", encoding="utf-8", newline="") as file:
            table = csv.DictWriter(file, list(dict.fromkeys(key for row in rows for key in row)))
            table.writeheader()
            table.writerows(rows)
    else:
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / "r.jsonl").write_text(lines, encoding="utf-8")


def write_lines(folder: Path) -> Sequence[str]:
    save(folder, [row(number) for number in range(N)])
    return ["r.jsonl"]


def write_csv(folder: Path) -> Sequence[str]:
    (folder / "r.csv").touch()
    save(folder, [row(number) for number in range(N)])
    return ["r.csv"]


def each(change: Callable[[int, Row], Row]) -> Change:
    """The healthy rows, each with what `change` gives for it."""

    def apply(folder: Path) -> None:
        save(folder, [{**row(number), **change(number, row(number))} for number in range(N)])

    return apply


def second_level(folder: Path) -> None:
    save(
        folder,
        [
            {**row(number), "concurrency": 8 if number < N else 64, **({} if number < N else {"e2e_s": 90.0})}
            for number in range(2 * N)
        ],
    )


BREAKS: dict[str, Change] = {
    "failed": each(lambda n, _: {} if n % 3 else FAILED),
    "failed: err_msg": each(lambda n, _: {"error": "", "err_msg": "" if n % 3 else "HTTP 503"}),
    "failed: no error column": each(lambda n, _: {"error": None, "isFailed": n % 3 == 0}),
    "all failed": each(lambda n, _: FAILED),
    "zero tokens": each(lambda n, _: {"output_tokens": 0}),
    "null tokens": each(lambda n, _: {"output_tokens": None, "ttft_s": None}),
    "half the tokens": each(lambda n, _: {} if n % 2 else {"output_tokens": 0}),
    "one burst": each(lambda n, one: {"ttft_s": one["e2e_s"] - 1e-4}),
    "not streamed": each(lambda n, _: {"ttft_s": None}),
    "zero time": each(lambda n, _: {"ttft_s": 0.0}),
    "negative time": each(lambda n, _: {} if n % 3 else {"e2e_s": -1.0}),
    "retried": each(lambda n, _: {"retries": n % 2}),
    "several loads": second_level,
}
CANNOT = {
    "lost rows": "does not say how many requests were asked for",
    "counts": "has rows and no counts beside them",
    "token totals": "states no total of output tokens",
    "cut rows": "has the gaps only where ITL is asked for, and no text",
    "falling percentiles": "has rows and no statistics beside them",
    "tool's verdict": "has no word on the run as a whole",
    "retries": "is by its definition a row an attempt",
    "repetitions": "has rows and no statistics beside them",
    "summary alone": "is one file",
}
JUDGES = ("ttft.p50", "tpot.p50", "e2e.p50", "error_rate", "goodput")
NESTED = {"failed: nested": each(lambda n, _: {"response": {"status": 200 if n % 3 else 503}})}
KINDS = {
    "JSON lines": Form(write_lines, JUDGES, BREAKS | NESTED, CANNOT),
    "CSV": Form(write_csv, JUDGES, BREAKS, CANNOT),
}
