"""Small vLLM results, and how tests open them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from gate.model import Requests, Run
from gate.readers import knows, runs_of, vllm
from gate.readers.source import Source
from tests.conftest import FIXTURES

HERE = FIXTURES / "vllm"
TYPICAL = HERE / "typical" / "result.json.gz"


def source(path: Path, *, gaps: bool = False) -> Source:
    return Source(path, path.name, gaps=gaps)


def read(path: Path, *, gaps: bool = False) -> list[Run]:
    opened = source(path, gaps=gaps)
    assert knows(vllm, opened)
    return list(runs_of(vllm, opened))


def objects(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()
    try:
        whole = json.loads(text)
    except ValueError:
        return [json.loads(line) for line in text.splitlines()]
    return whole if isinstance(whole, list) else [whole]


def written(folder: Path, content: object, name: str = "result.json") -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def one(folder: Path, content: object, *, gaps: bool = False) -> Run:
    (run,) = read(written(folder, content), gaps=gaps)
    return run


def rows(run: Run) -> Requests:
    assert isinstance(run.evidence, Requests)
    return run.evidence


def notes(run: Run) -> str:
    return "\n".join(run.notes)


def detailed(**changed: Any) -> dict[str, Any]:
    """Four requests, all well: TTFT 0.1, 0.2, 0.3, 0.4 s; 0.4 s more for 5 tokens each."""
    base = {
        "date": "20261129-135905",
        "backend": "openai-chat",
        "model_id": "m",
        "tokenizer_id": "t",
        "num_prompts": 4,
        "request_rate": "inf",
        "burstiness": 1.0,
        "max_concurrency": 2,
        "duration": 2.0,
        "completed": 4,
        "failed": 0,
        "total_output_tokens": 20,
        "request_throughput": 2.0,
        "input_lens": [10, 10, 10, 10],
        "output_lens": [5, 5, 5, 5],
        "ttfts": [0.1, 0.2, 0.3, 0.4],
        "itls": [[0.1] * 4] * 4,
        "latencies": [0.5, 0.6, 0.7, 0.8],
        "errors": [""] * 4,
    }
    return {k: v for k, v in {**base, **changed}.items() if v is not ...}


def aggregate(**changed: Any) -> dict[str, Any]:
    base = detailed(
        **dict.fromkeys(("input_lens", "output_lens", "ttfts", "itls", "latencies", "errors"), ...)
    )
    for metric, ms in {"ttft": 100.0, "tpot": 20.0, "itl": 21.0, "e2el": 900.0}.items():
        base |= {f"mean_{metric}_ms": ms, f"median_{metric}_ms": ms, f"p99_{metric}_ms": 2 * ms}
    base["total_output_tokens"] = 4 * 41  # (900 - 100) / 20 steps
    return {k: v for k, v in {**base, **changed}.items() if v is not ...}
