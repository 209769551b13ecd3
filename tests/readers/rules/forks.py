"""How the rules are broken in the JSON of vLLM's benchmark and of its forks, with its arrays and without."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.readers.rules import Change, Write

N = 150
TOKENS = 40
JUDGES = ("ttft.p50", "tpot.p50", "e2e.p50", "error_rate", "goodput")
Document = dict[str, Any]
ARRAYS = ("input_lens", "output_lens", "ttfts", "itls", "errors", "generated_texts", "latencies", "e2els")


def arrays(e2e: str) -> Document:
    """Of N requests, all well: TTFT 80 to 96 ms, 39 gaps of 13 ms and a little more."""
    ttfts = [0.080 + number % 17 / 1000 for number in range(N)]
    itls = [[0.013 + number % 29 / 1e5] * (TOKENS - 1) for number in range(N)]
    found: Document = {
        "input_lens": [60 + number % 5 for number in range(N)],
        "output_lens": [TOKENS] * N,
        "ttfts": ttfts,
        "itls": itls,
        "errors": [""] * N,
        "generated_texts": ["word " * TOKENS for _ in range(N)],
    }
    if e2e:
        found[e2e] = [ttft + sum(gaps) for ttft, gaps in zip(ttfts, itls, strict=True)]
    return found


def statistics(suffix: str = "_ms", e2e: str = "e2el") -> Document:
    """Mean, median and P99 of every metric; seconds where `suffix` is empty."""
    scale = 1000 if suffix else 1
    values = {"ttft": (0.088, 0.096), "tpot": (0.0131, 0.0133), "itl": (0.0131, 0.0133), e2e: (0.6, 0.615)}
    return {
        f"{name}_{metric}{suffix}": value * scale
        for metric, (middle, high) in values.items()
        for name, value in (("mean", middle), ("median", middle), ("p99", high))
    }


def write(name: str, document: Any) -> Write:
    def apply(folder: Path) -> Sequence[str]:
        (folder / name).write_text(json.dumps(document), encoding="utf-8")
        return [name]

    return apply


def changed(change: Callable[[Document], object]) -> Change:
    """The file with `change` applied to its object."""

    def apply(folder: Path) -> None:
        (path,) = folder.iterdir()
        document = json.loads(path.read_text(encoding="utf-8"))
        change(document)
        path.write_text(json.dumps(document), encoding="utf-8")

    return apply


def put(**values: Any) -> Change:
    return changed(lambda document: document.update(values))


def without(*keys: str, **values: Any) -> Change:
    """The file without these keys, with `values` besides."""
    return changed(lambda document: [document.pop(key, None) for key in keys] and document.update(values))


def rows(change: Callable[[int, Document], object], **values: Any) -> Change:
    """The file with `change` applied to each row, by its number; `values` are put beside the rows."""

    def apply(document: Document) -> None:
        for number in range(N):
            row = {name: document[name][number] for name in ARRAYS if name in document}
            change(number, row)
            for name, cell in row.items():
                document[name][number] = cell
        document.update(values)

    return changed(apply)


def e2e(row: Document) -> str:
    return next((name for name in ("latencies", "e2els") if name in row), "")


def fail(row: Document) -> None:
    blank = {"errors": "HTTP 503", "output_lens": 0, "ttfts": 0.0, "itls": [], "generated_texts": ""}
    row.update(blank, **({e2e(row): 0.0} if e2e(row) else {}))


def cut(row: Document) -> None:
    """An error inside the stream after four chunks: the tokens that were asked for stay."""
    row.update(itls=row["itls"][:3], generated_texts=row["generated_texts"][:20])
    if e2e(row):
        row[e2e(row)] = row["ttfts"] + sum(row["itls"])


def burst(row: Document) -> None:
    whole = row["ttfts"] + sum(row["itls"])
    row.update(ttfts=whole - 1e-4, itls=[1e-4 / (TOKENS - 1)] * (TOKENS - 1))


def whole(row: Document) -> None:
    """Not streamed: the one chunk is the answer."""
    row.update(ttfts=row["ttfts"] + sum(row["itls"]), itls=[])


def cut_arrays(document: Document) -> None:
    document.update({name: document[name][: N // 2] for name in ARRAYS if name in document})
    document.update(completed=N // 2, total_output_tokens=N // 2 * TOKENS)


def _slow(key: str, value: Any) -> Any:
    if key in ("ttfts", "latencies", "e2els"):
        return [40.0 + cell for cell in value]
    late = re.fullmatch(r"(mean|median|p99)_(ttft|e2e.*?)(_ms)?", key)
    return value + (40_000.0 if late[3] else 40.0) if late else value


def second(missing: Sequence[str] = (), **values: Any) -> Change:
    """The same run once more in the file, at another load, where every request misses."""

    def apply(folder: Path) -> None:
        (path,) = folder.iterdir()
        first = json.loads(path.read_text(encoding="utf-8"))
        slow = {key: _slow(key, value) for key, value in first.items()}
        both = [{k: v for k, v in one.items() if k not in missing} for one in (first, {**slow, **values})]
        path.write_text("\n".join(json.dumps(one) for one in both), encoding="utf-8")

    return apply


DETAILED: Mapping[str, Change] = {
    "lost rows": put(num_prompts=2 * N),
    "lost rows: cut from every array": changed(cut_arrays),
    "counts": put(completed=N - 9),
    "counts: more than there are rows": put(completed=N + 9),
    "failed": rows(lambda n, row: n % 3 or fail(row), completed=N - N // 3),
    "failed: that the tool took for completed": rows(lambda n, row: n % 3 or row.update(errors="HTTP 503")),
    "all failed": rows(lambda n, row: fail(row), completed=0, total_output_tokens=0),
    "zero tokens": rows(lambda n, row: row.update(output_lens=0), total_output_tokens=0),
    "null tokens": rows(lambda n, row: row.update(output_lens=None, ttfts=None), total_output_tokens=None),
    "half the tokens": rows(lambda n, row: n % 2 or row.update(output_lens=0)),
    "token totals": put(total_output_tokens=N * TOKENS / 2),
    "cut rows": rows(lambda n, row: n % 10 or cut(row)),
    "one burst": rows(lambda n, row: burst(row)),
    "not streamed": rows(lambda n, row: row.update(ttfts=None)),
    "not streamed: in one chunk": rows(lambda n, row: whole(row)),
    "zero time": rows(lambda n, row: row.update(ttfts=0.0)),
    "negative time": rows(lambda n, row: n % 3 or row.update({e2e(row) or "ttfts": -1.0})),
    "falling percentiles": put(p99_ttft_ms=1.0),
    "several loads": second(max_concurrency=16),
    "repetitions": put(aggregated_repetitions=3),
    "repetitions: in a second object": second(aggregation_method="median"),
}


def aggregate(suffix: str = "_ms") -> dict[str, Change]:
    """Of statistics alone, in milliseconds or, without a suffix, in seconds."""
    scale = 1000 if suffix else 1
    streamed = [f"{name}_{m}{suffix}" for name in ("mean", "median", "p99") for m in ("ttft", "tpot", "itl")]

    def say(**seconds: float) -> Change:
        return put(**{f"{key}{suffix}": value * scale for key, value in seconds.items()})

    return {
        "all failed": put(completed=0, total_output_tokens=0),
        "zero tokens": put(total_output_tokens=0),
        "null tokens": without(*streamed, total_output_tokens=None),
        "half the tokens": put(total_output_tokens=N / 2),
        "token totals": put(total_output_tokens=N * TOKENS / 2),
        "one burst": say(median_ttft=0.5999, p99_ttft=0.6149, median_tpot=2.6e-6, p99_tpot=2.6e-6),
        "not streamed": without(*streamed),
        "not streamed: TTFT alone is absent": without(*(key for key in streamed if "ttft" in key)),
        "zero time": say(median_ttft=0.0),
        "negative time": say(median_ttft=-1.0),
        "falling percentiles": say(p99_ttft=0.001),
        "several loads": second(max_concurrency=16),
        "repetitions": put(aggregated_repetitions=3),
        "repetitions: in a second object": second(aggregation_method="median"),
    }


NEVER = {
    "tool's verdict": "has no word on the run as a whole",
    "retries": "the client never repeats a request",
    "retried": "the client never repeats a request",
}
NO_ROWS = {
    **NEVER,
    "cut rows": "keeps neither chunks nor texts",
    "summary alone": "is the summary",
}
