"""How the rules are broken in the files of MLPerf Endpoints."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.readers.mlperf_endpoints_files import event, session, typical
from tests.readers.rules import Alone, Change, Form

N = 150
EVENTS, SUMMARY = "events.jsonl", "result_summary.json"
Document = dict[str, Any]
Sample = list[Document]


def answers() -> list[Sample]:
    """Per sample its issue, its first chunk and its end: TTFT 50 to 66 ms, E2E 400 to 428 ms."""
    made = []
    for number in range(N):
        at, name = 10 + 20 * number, f"s{number}"
        times = (at, at + 50 + number % 17, at + 400 + number % 29)
        data = (["PromptData", "w"], None, ["TextModelOutput", ["some words ", "and more"], None, None])
        kinds = ("sample.issued", "sample.recv_first", "sample.complete")
        made.append([json.loads(event(*each)) for each in zip(kinds, times, [name] * 3, data, strict=True)])
    return made


def write_events(folder: Path) -> Sequence[str]:
    return save(folder, answers())


def save(folder: Path, samples: Sequence[Sample], *extra: str) -> Sequence[str]:
    lines = [json.dumps(one) for sample in samples for one in sample]
    (folder / EVENTS).write_text(session(*lines, *extra), encoding="utf-8")
    return [EVENTS]


def samples(change: Callable[[int, Sample], object]) -> Change:
    """The events with `change` applied to those of each sample."""

    def apply(folder: Path) -> None:
        made = answers()
        for number, sample in enumerate(made):
            change(number, sample)
        save(folder, made)

    return apply


def failed(sample: Sample) -> None:
    sample[-1]["data"] = ["ErrorData", "HTTPError", "500"]


def silent(sample: Sample) -> None:
    sample[-1]["data"] = ["TextModelOutput", "", None, None]


def late(sample: Sample, before_ns: int) -> None:
    sample[1]["timestamp_ns"] = sample[-1]["timestamp_ns"] - before_ns


def short_of(folder: Path) -> None:
    """The summary of the run beside events that lack half of its samples."""
    save(folder, answers()[: N // 2])
    (folder / SUMMARY).write_text(json.dumps(typical() | {"n_samples_issued": N}), encoding="utf-8")


def write_summary(folder: Path) -> Sequence[str]:
    (folder / SUMMARY).write_text(json.dumps(typical()), encoding="utf-8")
    return [SUMMARY]


def summary(change: Callable[[Document], object]) -> Change:
    """The summary with `change` applied to it."""

    def apply(folder: Path) -> None:
        content = typical()
        change(content)
        (folder / SUMMARY).write_text(json.dumps(content), encoding="utf-8")

    return apply


def tokens(content: Document, **values: float) -> None:
    content["output_sequence_lengths"].update(values)


NEVER = {
    "retries": "the client sends each request once",
    "retried": "the client sends each request once",
    "several loads": "is one load a folder",
    "repetitions": "has no such key",
    "cut rows": "counts no tokens of single answers",
}
KINDS = {
    "events": Form(
        write_events,
        ("ttft.p50", "e2e.p50", "error_rate", "goodput"),
        {
            "lost rows": short_of,
            "counts": short_of,
            "failed": samples(lambda n, sample: n % 3 or failed(sample)),
            "all failed": samples(lambda n, sample: failed(sample)),
            "zero tokens": samples(lambda n, sample: silent(sample)),
            "null tokens": samples(lambda n, sample: (silent(sample), sample.pop(1))),
            "half the tokens": samples(lambda n, sample: n % 2 or silent(sample)),
            "one burst": samples(lambda n, sample: late(sample, 100_000)),
            "not streamed": samples(lambda n, sample: sample.pop(1)),
            "zero time": samples(lambda n, sample: sample[1].update(timestamp_ns=sample[0]["timestamp_ns"])),
            "negative time": samples(lambda n, sample: n % 3 or sample[-1].update(timestamp_ns=1)),
            "tool's verdict": lambda folder: save(folder, answers(), event("session.interrupted", 8000)),
            "lost rows: no answer": samples(lambda n, sample: n % 2 or sample.__delitem__(slice(1, None))),
        },
        {
            **NEVER,
            "token totals": "counts no tokens of single answers",
            "falling percentiles": "states no percentiles",
            "summary alone": "keeps failures in its summary too",
        },
        (
            Alone(SUMMARY, "counts more samples than there are events", ("lost rows",)),
            Alone(
                "events.jsonl.gz", "is what is read, and has no TPOT, which the summary states", ("typical",)
            ),
        ),
    ),
    "summary": Form(
        write_summary,
        ("ttft.p50", "tpot.p50", "e2e.p50", "error_rate", "goodput"),
        {
            "lost rows": summary(lambda content: content.update(n_samples_issued=1600)),
            "counts": summary(lambda content: content.update(n_samples_completed=801)),
            "failed": summary(lambda content: content.update(n_samples_failed=266)),
            "all failed": summary(lambda content: content.update(n_samples_failed=800)),
            "zero tokens": summary(lambda content: tokens(content, total=0, avg=0, min=0, max=0)),
            "null tokens": summary(
                lambda content: content.update(output_sequence_lengths=None, ttft={}, tpot={})
            ),
            "half the tokens": summary(lambda content: tokens(content, min=0)),
            "one burst": summary(
                lambda content: content.update(
                    ttft=content["latency"],
                    tpot=content["tpot"] | {"percentiles": {"50.0": 1e4, "99.0": 2e4}, "min": 1.0},
                )
            ),
            "one burst: no TPOT": summary(lambda content: content.update(ttft=content["latency"], tpot={})),
            "not streamed": summary(lambda content: content.update(ttft={}, tpot={})),
            "zero time": summary(lambda content: content["ttft"]["percentiles"].update({"50.0": 0.0})),
            "negative time": summary(lambda content: content["latency"]["percentiles"].update({"1.0": -1.0})),
            "falling percentiles": summary(
                lambda content: content["ttft"]["percentiles"].update({"99.0": 1.0})
            ),
            "tool's verdict: complete": summary(lambda content: content.update(complete=False)),
            "tool's verdict: state": summary(lambda content: content.update(state="interrupted")),
            "tool's verdict: neither": summary(
                lambda content: (content.pop("state"), content.pop("complete"))
            ),
        },
        {
            **NEVER,
            "token totals": "has no rows to compare its total with",
            "summary alone": "is the summary",
        },
    ),
}
