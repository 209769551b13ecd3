"""Reproducible large inputs for benchmarks/speed.py: `python benchmarks/make_inputs.py [FOLDER]`.

Seeded: the same arguments give the same bytes. The shapes are those of real files (vLLM 0.33 with
`--save-detailed`, AIPerf 0.13 profile_export.jsonl); the values are not meant to mean anything.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(__file__).resolve().parent / "data"
SEED = 20261129
_WORDS = np.array(("in", "he", "on", "of", "to", "are", "have", "this", "by", "be", "as", "an", "it", "was"))
_VLLM_HEAD = {
    "date": "20261129-135905",
    "endpoint_type": "openai-chat",
    "backend": "openai-chat",
    "label": None,
    "model_id": "mock-model",
    "tokenizer_id": "mock-tokenizer",
}
_MEGABYTE = 1_000_000
_SAMPLE = 64  # rows that are written to learn how long one is
_ROWS = 100_000  # written at a time


def vllm_detailed(path: Path, megabytes: float, latencies: bool = True) -> int:
    """Write one vLLM `bench serve --save-detailed` object of about that size; returns the requests.

    Without `latencies` it looks like vLLM <= 0.27, where E2E must be rebuilt as TTFT + sum of gaps.
    """
    sample = len(json.dumps(_vllm(np.random.default_rng(SEED), _SAMPLE, latencies)))
    requests = max(_SAMPLE, round(megabytes * _MEGABYTE * _SAMPLE / sample))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(_vllm(np.random.default_rng(SEED), requests, latencies)), encoding="ascii")
    return requests


def _vllm(rng: np.random.Generator, n: int, latencies: bool) -> dict[str, Any]:
    tokens = rng.integers(120, 480, n)
    # Differences of a monotonic clock, like the real ones: up to 20 digits of noise each.
    ttft = _clock(rng.gamma(4.0, 0.05, n), rng)
    gaps = [_clock(rng.gamma(9.0, 0.0008, size), rng).tolist() for size in tokens - 1]
    e2e = [first + sum(rest) for first, rest in zip(ttft.tolist(), gaps, strict=True)]
    duration, output = sum(e2e) / 64, int(tokens.sum())
    columns: dict[str, Any] = {
        "input_lens": rng.integers(400, 1200, n).tolist(),
        "output_lens": tokens.tolist(),
        "ttfts": ttft.tolist(),
        "itls": gaps,
    }
    if latencies:
        columns |= {
            "latencies": e2e,
            "start_times": np.sort(rng.uniform(0, duration, n) + 662.9).tolist(),
            "queue_times": _clock(rng.gamma(2.0, 0.001, n), rng).tolist(),
        }
    columns |= {"generated_texts": [_text(rng, size) for size in tokens], "errors": [""] * n}
    return {
        **_VLLM_HEAD,
        "num_prompts": n,
        "request_rate": "inf",
        "burstiness": 1.0,
        "max_concurrency": 64,
        "duration": duration,
        "completed": n,
        "failed": 0,
        "total_input_tokens": sum(columns["input_lens"]),
        "total_output_tokens": output,
        "request_throughput": n / duration,
        "request_goodput": None,
        "output_throughput": output / duration,
        **columns,
        **_statistics("ttft", ttft),
        **_statistics("e2el", np.array(e2e)),
    }


def _clock(seconds: np.ndarray[Any, np.dtype[np.float64]], rng: np.random.Generator) -> Any:
    start = rng.uniform(600, 700)
    return (start + np.round(seconds, 9)) - start


def _statistics(metric: str, values: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, float]:
    named = {"mean": values.mean(), "median": np.median(values), "std": values.std()}
    named["p99"] = np.percentile(values, 99)
    return {f"{name}_{metric}_ms": float(value) * 1000 for name, value in named.items()}


def _text(rng: np.random.Generator, words: int) -> str:
    return " ".join(_WORDS[rng.integers(0, len(_WORDS), words)])


def aiperf_jsonl(path: Path, megabytes: float) -> int:
    """Write an AIPerf profile_export.jsonl of about that size; returns the requests."""
    path.parent.mkdir(parents=True, exist_ok=True)
    left, count = megabytes * _MEGABYTE, 0
    with path.open("w", encoding="ascii") as file:
        for line in _aiperf(np.random.default_rng(SEED)):
            file.write(line)
            left, count = left - len(line), count + 1
            if left <= 0:
                return count
    raise AssertionError("the lines do not end")


def _aiperf(rng: np.random.Generator) -> Iterator[str]:
    start_ns, number = 1795960774671777530, 0
    while True:
        tokens = int(rng.integers(120, 480))
        ttft = round(float(rng.gamma(4.0, 50.0)), 6)
        gaps = np.round(rng.gamma(9.0, 0.8, tokens - 1), 6).tolist()
        start_ns += int(rng.integers(1_000_000, 20_000_000))
        yield json.dumps(_aiperf_record(number, start_ns, ttft, gaps), separators=(",", ":")) + "\n"
        number += 1


def _aiperf_record(number: int, start_ns: int, ttft: float, gaps: list[float]) -> dict[str, Any]:
    tokens, decode = len(gaps) + 1, sum(gaps)
    metrics: dict[str, tuple[Any, str]] = {
        "input_sequence_length": (800, "tokens"),
        "usage_completion_tokens": (tokens, "tokens"),
        "output_sequence_length": (tokens, "tokens"),
        "request_latency": (round(ttft + decode, 6), "ms"),
        "time_to_first_token": (ttft, "ms"),
        "usage_total_tokens": (800 + tokens, "tokens"),
        "usage_prompt_tokens": (800, "tokens"),
        "inter_chunk_latency": (gaps, "ms"),
        "output_token_count": (tokens, "tokens"),
        "http_req_chunks_received": (tokens + 2, "count"),
        "http_req_waiting": (ttft, "ms"),
        "http_req_receiving": (round(decode, 6), "ms"),
        "http_req_connection_reused": (0, "ratio"),
        "time_to_first_output_token": (ttft, "ms"),
        "time_to_second_token": (gaps[0], "ms"),
        "decode_duration": (round(decode, 6), "ms"),
        "inter_token_latency": (decode / (tokens - 1), "ms"),
        "e2e_output_token_throughput": (tokens / (ttft + decode) * 1000, "tokens/sec/user"),
        "output_token_throughput_per_user": (1000 * (tokens - 1) / decode, "tokens/sec/user"),
    }
    metadata = {
        "session_num": number,
        "x_request_id": f"{number:032x}",
        "x_correlation_id": f"{number:032x}",
        "conversation_id": f"session_{number:06d}",
        "turn_index": 0,
        "credit_issued_ns": start_ns - 6_070_355,
        "request_start_ns": start_ns,
        "request_ack_ns": start_ns + 30_899_280,
        "request_end_ns": start_ns + round((ttft + decode) * 1e6),
        "worker_id": "worker_f87e69e2",
        "record_processor_id": "record_processor_0d6b79ff",
        "benchmark_phase": "profiling",
        "was_cancelled": False,
    }
    values = {name: {"value": value, "unit": unit} for name, (value, unit) in metrics.items()}
    return {"metadata": metadata, "metrics": values}


def generic_jsonl(path: Path, requests: int) -> int:
    """Write generic rows with a burst, slow outliers and failures: something in every chart."""
    rng = np.random.default_rng(SEED)
    path.parent.mkdir(parents=True, exist_ok=True)
    start, prompt = np.sort(rng.uniform(0, 5000, requests)), rng.lognormal(6.5, 0.6, requests).astype(int) + 1
    output = rng.integers(20, 480, requests)
    burst = ((start > 2000) & (start < 2200)) * rng.gamma(3.0, 0.3, requests)
    ttft = rng.gamma(4.0, 0.05, requests) + prompt * 2e-4 + burst
    slow = np.where(rng.random(requests) < 0.01, 3, 1)
    e2e = ttft + rng.gamma(40.0, 5e-4, requests) * slow * (output - 1)
    failed = rng.random(requests) < 0.002
    with path.open("w", encoding="ascii") as file:
        for at in range(0, requests, _ROWS):  # batch by batch: the columns as Python's numbers are large
            columns = (each[at : at + _ROWS].tolist() for each in (start, prompt, ttft, e2e, output, failed))
            for began, asked, first, whole, made, lost in zip(*columns, strict=True):
                row: dict[str, Any] = {"start_s": began, "input_tokens": asked}
                row |= {"error": "503"} if lost else {"ttft_s": first, "e2e_s": whole, "output_tokens": made}
                file.write(json.dumps(row) + "\n")
    return requests


def generic_csv(path: Path, requests: int) -> int:
    """Write the same rows as a CSV."""
    lines = path.with_suffix(".jsonl.part")
    generic_jsonl(lines, requests)
    names = ("start_s", "input_tokens", "ttft_s", "e2e_s", "output_tokens", "error")
    with lines.open("rb") as rows, path.open("w", encoding="ascii") as file:
        file.write(",".join(names) + "\n")
        for row in map(json.loads, rows):
            file.write(",".join(str(row.get(name, "")) for name in names) + "\n")
    lines.unlink()
    return requests


def vllm_folder(folder: Path, files: int, megabytes: float) -> int:
    """Write a folder of vLLM results of about that size each, of one shape and of values of their own."""
    folder.mkdir(parents=True, exist_ok=True)
    sample = len(json.dumps(_vllm(np.random.default_rng(SEED), _SAMPLE, latencies=True)))
    rows = round(megabytes * _MEGABYTE * _SAMPLE / sample)
    doc = _vllm(np.random.default_rng(SEED), rows, latencies=True)
    large = {f'"@{key}"': json.dumps(doc[key]) for key in ("itls", "generated_texts")}
    for number in range(files):
        factor = 1 + number / files / 100  # no two runs have a request in common
        times = {key: [cell * factor for cell in doc[key]] for key in ("ttfts", "latencies")}
        text = json.dumps(doc | times | {"itls": "@itls", "generated_texts": "@generated_texts"})
        for mark, column in large.items():
            text = text.replace(mark, column)
        (folder / f"run{number:04}.json").write_text(text, encoding="ascii")
    return rows * files


INPUTS: Mapping[str, Callable[[Path], int]] = {
    "small.jsonl": lambda path: generic_jsonl(path, 200),
    "vllm_with_latencies.json": lambda path: vllm_detailed(path, 89),
    "vllm_without_latencies.json": lambda path: vllm_detailed(path, 89, latencies=False),
    "aiperf_72.jsonl": lambda path: aiperf_jsonl(path, 72),
    "aiperf_720.jsonl": lambda path: aiperf_jsonl(path, 720),
    "generic_1e4.jsonl": lambda path: generic_jsonl(path, 10**4),
    "generic_1e5.jsonl": lambda path: generic_jsonl(path, 10**5),
    "generic_1e6.jsonl": lambda path: generic_jsonl(path, 10**6),
    "generic_1e7.jsonl": lambda path: generic_jsonl(path, 10**7),
    "generic_1e6.csv": lambda path: generic_csv(path, 10**6),
    "vllm_1000": lambda path: vllm_folder(path, 1000, 1.77),
}


def made(name: str, folder: Path = DATA) -> Path:
    """The input of that name, written where it is not there yet."""
    path = folder / name
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"part_{name}")  # whoever stops this in the middle leaves no half of an input
        INPUTS[name](part)
        part.rename(path)
    return path


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DATA
    for name in sys.argv[2:] or INPUTS:
        print(made(name, folder))


if __name__ == "__main__":
    main()
