"""History for other tools: one row per run of every session."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..errors import UsageError
from ..model import (
    HISTORY_VERSION,
    METRICS,
    RecordedMetric,
    RecordedPolicy,
    RecordedRun,
    SessionRecord,
    Verdict,
)
from ..units import printable
from .stores import History

_COUNTS = ("attempted", "completed", "failed", "cancelled", "warmup")
_FACTS = ("input", "sha256", "tool", "tool_version", "model", "hardware", "session", "interaction")
_FORMULA = ("=", "+", "-", "@")  # what a spreadsheet would run


def _rows(history: History) -> Iterator[dict[str, Any]]:
    for record in history.records:
        session = _session(record, history.why_left_out(record))
        for run in record.runs:
            yield {**session, **_run(run)}


def _columns() -> list[str]:
    """The names of all columns, also of a store without a session."""
    run = RecordedRun(input="", sha256="", tool="", at_target=False)
    record = SessionRecord(
        schema_version=HISTORY_VERSION,
        time="",
        commit="",
        branch="",
        policy=RecordedPolicy("", ""),
        report_sha256="",
        verdict=Verdict.PASS,
        exit_code=0,
        objectives=(),
        runs=(run,),
    )
    return [*_session(record, ""), *_run(run)]


def _session(record: SessionRecord, left_out: str) -> dict[str, Any]:
    return {
        "time": record.time,
        "commit": record.commit,
        "branch": record.branch,
        "tags": " ".join(record.tags) or None,
        "id": record.id,
        "policy": record.policy.name,
        "policy_sha256": record.policy.sha256,
        "profile": record.policy.profile,
        "report_sha256": record.report_sha256,
        "verdict": record.verdict.value,
        "left_out": left_out or None,
    }


def _run(run: RecordedRun) -> dict[str, Any]:
    load = run.load
    none = RecordedMetric()
    return {
        **{name: getattr(run, name) for name in _FACTS},
        "concurrency": load.concurrency if load else None,
        "request_rate": load.request_rate if load else None,
        "burst": load.burst if load else None,
        "production": load.production if load else None,
        "at_target": run.at_target,
        **{name: getattr(run.counts, name) if run.counts else None for name in _COUNTS},
        "duration_s": run.duration_s,
        "error_rate": run.error_rate,
        "goodput": run.goodput,
        "input_tokens": run.input_tokens,
        "output_tokens": run.output_tokens,
        **{
            f"{metric}_{name}{'' if name == 'n' else '_s'}": getattr(
                run.metrics.get(f"{metric}_s", none), name
            )
            for metric in METRICS
            for name in RecordedMetric.__struct_fields__
        },
    }


def _csv(history: History) -> bytes:
    """A header and a row per run; text of strangers is inert in a spreadsheet and a terminal."""
    text = io.StringIO()
    writer = csv.DictWriter(text, _columns(), lineterminator="\n")
    writer.writeheader()
    for row in _rows(history):
        writer.writerow({name: _cell(value) for name, value in row.items()})
    return text.getvalue().encode()


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return value
    said = printable(value)
    return f"'{said}" if said.startswith(_FORMULA) else said


def _parquet(history: History) -> bytes:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        hint = "install the extra `columnar`: python -m pip install pyarrow; or write --format csv"
        raise UsageError(
            "parquet needs the extra `columnar`, which is not installed", "--format", hint
        ) from None
    buffer = io.BytesIO()
    rows = list(_rows(history))
    parquet.write_table(pyarrow.table({name: [row[name] for row in rows] for name in _columns()}), buffer)
    return buffer.getvalue()


FORMATS: Mapping[str, Callable[[History], bytes]] = {"csv": _csv, "parquet": _parquet}
