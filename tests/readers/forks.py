"""What the tests of SGLang, TensorRT-LLM and InferenceX share: opening results, rebuilding statistics."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from gate.errors import InputError
from gate.model import Requests, Run, Status
from gate.readers import READERS, knows, runs_of
from gate.readers.source import Source

EXACT = 1e-12


def source(path: Path, *, gaps: bool = False) -> Source:
    return Source(path, path.name, gaps=gaps)


def read(reader: ModuleType, path: Path, *, gaps: bool = False) -> list[Run]:
    opened = source(path, gaps=gaps)
    assert knows(reader, opened)
    return list(runs_of(reader, opened))


def objects(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()
    try:
        whole = json.loads(text)
    except ValueError:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    return whole if isinstance(whole, list) else [whole]


def written(folder: Path, content: object, name: str = "result.json") -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def rows(run: Run) -> Requests:
    assert isinstance(run.evidence, Requests)
    return run.evidence


def notes(run: Run) -> str:
    return "\n".join(run.notes)


def values(run: Run) -> dict[str, np.ndarray]:
    """Completed values in seconds by metric, as the tools pool them."""
    r = rows(run)
    done = r.status == Status.COMPLETED
    assert r.e2e_s is not None
    found = {"e2e": r.e2e_s[done]}
    if r.ttft_s is not None:
        assert r.tpot_s is not None
        found |= {"ttft": r.ttft_s[done], "tpot": r.tpot_s[done & ~np.isnan(r.tpot_s)]}
    if r.gaps is not None:
        ends = r.gaps.offsets
        each = [r.gaps.values_s[ends[i] : ends[i + 1]] for i in np.flatnonzero(done)]
        found["itl"] = np.concatenate(each or [np.zeros(0)])
    return {metric: column for metric, column in found.items() if column.size}


def assert_statistics(said: Mapping[str, Any], run: Run, tolerance: Mapping[str, float]) -> int:
    """Every statistic the file states, rebuilt from our columns by numpy; returns how many there were."""
    ours, seen = values(run), 0
    for key, value in said.items():
        found = re.fullmatch(r"(mean|median|std|p([0-9.]+))_(ttft|tpot|itl|e2el|e2e_latency)_ms", key)
        if not found or (metric := "e2e" if found[3][:3] == "e2e" else found[3]) not in ours:
            continue
        x = ours[metric] * 1000
        named = {"mean": x.mean(), "median": np.median(x), "std": x.std()}
        mine = named[found[1]] if found[1] in named else np.percentile(x, float(found[2]))
        assert mine == pytest.approx(value, rel=tolerance.get(metric, EXACT), abs=1e-9), key
        seen += 1
    return seen


def assert_reported(said: Mapping[str, Any], run: Run) -> int:
    """The tool's own percentiles and means in seconds, as it states them in milliseconds."""
    seen = 0
    for metric, told in run.tool_reported.items():
        name = next(
            n for n in ({"e2e": "e2el"}.get(metric, metric), "e2e_latency") if f"median_{n}_ms" in said
        )
        for percent, value in told.percentiles:
            key = f"p{percent:g}_{name}_ms"
            stated = said[key] if key in said else said[f"median_{name}_ms"]
            assert value * 1000 == pytest.approx(stated, rel=EXACT)
            seen += 1
        if told.mean is not None:
            assert told.mean * 1000 == pytest.approx(said[f"mean_{name}_ms"], rel=EXACT)
    return seen


def good(run: Run, bounds_ms: Mapping[str, float]) -> int:
    """By the tools' rule: of completed requests, a single token counts as TPOT 0."""
    r = rows(run)
    assert r.tpot_s is not None
    columns = {"ttft": r.ttft_s, "e2el": r.e2e_s, "tpot": np.nan_to_num(r.tpot_s, nan=0.0)}
    met = r.status == Status.COMPLETED
    for metric, bound in bounds_ms.items():
        column = columns[metric]
        assert column is not None
        met &= column * 1000 <= bound
    return int(met.sum())


def assert_consistent(run: Run) -> None:
    counts = run.counts
    assert counts.attempted == counts.completed + counts.failed
    assert min(counts.attempted, counts.completed, counts.failed) >= 0
    if isinstance(run.evidence, Requests):
        assert len(run.evidence) == counts.attempted
        assert (run.evidence.status == Status.COMPLETED).sum() == counts.completed


def assert_input_error_or_consistent(reader: ModuleType, path: Path, *, gaps: bool = False) -> None:
    opened = source(path, gaps=gaps)
    refused: InputError | None = None
    runs: Sequence[Run] = ()
    try:
        runs = runs_of(reader, opened) if knows(reader, opened) else ()
    except InputError as error:
        refused = error
    for run in runs:
        assert_consistent(run)
    assert refused is None or (refused.message and path.name in refused.where)


def claimed(reader: ModuleType, shared: Path) -> set[str]:
    """Of every file of every tool, what this reader claims; no other reader claims it too."""
    others = [r for r in READERS if r.NAME not in (reader.NAME, "generic")]
    found = set()
    for path in sorted(p for root in ("results", "public-results") for p in (shared / root).rglob("*")):
        if not path.is_file():
            continue
        opened = source(path)
        try:
            mine = knows(reader, opened)
        except InputError:
            continue  # a file that is broken belongs to nobody
        if mine:
            assert not [r.NAME for r in others if knows(r, opened)], path
            found.add(str(path.relative_to(shared)))
    return found


JUNK: st.SearchStrategy[Any] = st.sampled_from(
    [
        *(..., None, True, -1, 0, 1.5, "x", "", "inf", float("nan"), float("inf"), 1e308, {}),
        *([], [None], [-1.0] * 4, ["x"] * 4, [[]] * 4, [1e308] * 4, [None] * 4, [[-1.0]] * 4, [0, 1, 2]),
    ]
)


def changes(*keys: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(keys), JUNK, min_size=1, max_size=3)


def without(content: Mapping[str, Any], changed: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in {**content, **changed}.items() if value is not ...}
