"""What a *_summary.json of LLMPerf states: counts, load, duration, and percentiles by its own definitions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise

from msgspec import Struct, field

from ...errors import InputError
from ...model import Counts, Load, Summary, ToolReported
from ..source import Doc

_METHOD = "pandas linear over completed requests"
FIELDS = {"ttft": "ttft_s", "e2e": "end_to_end_latency_s", "itl": "inter_token_latency_s"}
_PERCENTS = (25, 50, 75, 90, 95, 99)
SUFFIX = "_summary.json"
AS_WRITTEN = "use the file as LLMPerf wrote it"
_SAME = 1e-6  # relative; the summary is computed from the very rows


class Facts(Struct, frozen=True):
    """What the summary states of the run; nothing where there is none.

    Hardware, session and tool version are what the user gave with --metadata under these names.
    """

    notes: tuple[str, ...]
    tool_version: str | None = None
    model: str | None = None
    hardware: str | None = None
    session: str | None = None
    load: Load | None = None
    duration_s: float | None = None
    reported: Mapping[str, ToolReported] = field(default_factory=dict)


def facts(doc: Doc | None) -> Facts:
    """Of a summary, or of none. Raises InputError for a value of the wrong type."""
    if doc is None:
        return Facts((f"no *{SUFFIX} beside it: model and concurrency are not stated",))
    concurrency = doc.count("num_concurrent_requests")
    return Facts(
        _metadata_note(doc),
        tool_version=doc.text("tool_version"),
        model=doc.text("model"),
        hardware=doc.text("hardware"),
        session=doc.text("session"),
        load=Load(concurrency=concurrency) if concurrency else None,
        duration_s=_duration_s(doc),
        reported={metric: reported for metric in FIELDS if (reported := _reported(doc, metric))},
    )


def counts(doc: Doc) -> Counts:
    """Rows LLMPerf wrote, and how many failed. Raises InputError when they do not add up."""
    attempted = _required(doc, "results_num_requests_started")  # rows written, not requests sent
    failed = _required(doc, "results_number_errors")
    completed = _required(doc, "results_num_completed_requests")
    if completed + failed != attempted:
        why = f"{completed} completed and {failed} failed are not {attempted} requests"
        raise _contradiction(doc, "results_num_requests_started", why)
    rate = doc.number("results_error_rate")
    if rate is not None and attempted and abs(rate - failed / attempted) > _SAME:
        why = f"an error rate of {rate:g} is not {failed} of {attempted}"
        raise _contradiction(doc, "results_error_rate", why)
    return Counts(attempted, completed, failed)


def _contradiction(doc: Doc, key: str, why: str) -> InputError:
    return doc.source.fail(f"contradicts itself: {why}", f"{doc.at}.{key}", AS_WRITTEN)


def _required(doc: Doc, key: str) -> int:
    value = doc.count(key)
    if value is None:
        raise doc.source.fail(f"has no {key}", doc.at, AS_WRITTEN)
    return value


def percentiles(doc: Doc, metric: str) -> tuple[tuple[float, float], ...]:
    """(percent, seconds) of a metric in FIELDS, ascending. Raises InputError when they fall."""
    found = ((p, doc.number(f"results_{FIELDS[metric]}_quantiles_p{p}")) for p in _PERCENTS)
    values = tuple((float(p), value) for p, value in found if value is not None)
    if any(low > high for (_, low), (_, high) in pairwise(values)):
        key = f"results_{FIELDS[metric]}_quantiles"
        raise _contradiction(doc, key, "a higher percentile is below a lower one")
    return values


def summary(doc: Doc, metric: str, completed: int) -> Summary:
    """Percentiles, mean, min and max of a metric over `completed` requests, in seconds."""
    mean, low, high = (doc.number(f"results_{FIELDS[metric]}_{name}") for name in ("mean", "min", "max"))
    return Summary(percentiles(doc, metric), mean, low, high, completed)


def _reported(doc: Doc, metric: str) -> ToolReported | None:
    values = percentiles(doc, metric)
    if not values:
        return None
    what = ", of (TTFT + gaps) / tokens, which contains TTFT" if metric == "itl" else ""
    return ToolReported(values, _METHOD + what, doc.number(f"results_{FIELDS[metric]}_mean"))


def _duration_s(doc: Doc) -> float | None:
    """completed / (completed per minute) x 60: both are of the same window (metrics_summary)."""
    completed = doc.number("results_num_completed_requests")
    per_minute = doc.number("results_num_completed_requests_per_min")
    return 60 * completed / per_minute if completed and per_minute and per_minute > 0 else None


def frequency_note(doc: Doc, counts: Counts) -> tuple[str, ...]:
    """From a dict printed as text: "{500.0: np.int64(9), -1.0: np.int64(5)}", or without np.int64."""
    if not counts.failed:
        return ()
    text = doc.text("results_error_code_frequency") or ""
    kinds = re.findall(r"([^\s{,]+): (?:np\.int64\()?(\d+)", text)
    shown = ", ".join(f"error_code {code.removesuffix('.0')} x{number}" for code, number in kinds)
    return (f"{counts.failed} failed: {shown}" if shown else f"{counts.failed} failed",)


def _metadata_note(doc: Doc) -> tuple[str, ...]:
    ours = {"version", "name", "model", "timestamp", "hardware", "session", "tool_version"}
    lengths = ("results_", "mean_", "stddev_", "num_concurrent", "additional_sampling_params")
    others = [key for key in doc.fields if key not in ours and not key.startswith(lengths)]
    if not others:
        return ()
    return ("metadata: " + ", ".join(f"{key}={doc.text(key)}" for key in others),)
