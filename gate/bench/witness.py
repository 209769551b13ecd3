"""The server's own metrics before and after a run: did it restart, and did it see what the client saw.

Network code beside gate.publish: it reads the metrics page that --witness names, and nothing else.
"""

from __future__ import annotations

import gzip
from pathlib import Path

from msgspec import Struct

from ..errors import GateError
from ..readers.prometheus.engines import Series
from ..readers.prometheus.scrapes import Scrape, Wanted, from_text
from ..readers.source import Source

_TIMEOUT_S = 10.0
_MOST_BYTES = 32 << 20
_ROUNDING = 2  # requests more than the file has: a tool's first one, to see whether the server is there
_SPREAD = 0.01

# What is compared, by canonical counter name (`_total` or not): vLLM, SGLang, TensorRT-LLM, Triton.
_FINISHED = (
    "vllm_request_success",
    "sglang_num_requests",
    "trtllm_request_success",
    "nv_inference_request_success",
)
_PREEMPTED = ("vllm_num_preemptions", "sglang_num_retractions", "sglang_num_retracted_requests")
_HITS = ("vllm_prefix_cache_hits", "vllm_gpu_prefix_cache_hits", "sglang_cached_tokens")
_ASKED = ("vllm_prefix_cache_queries", "vllm_gpu_prefix_cache_queries", "sglang_prompt_tokens")
_COUNTERS = frozenset((*_FINISHED, *_PREEMPTED, *_HITS, *_ASKED))
_CREATED = frozenset(f"{name}_created" for name in _FINISHED)
_START = "process_start_time_seconds"


class _Counters(Wanted, frozen=True, eq=False):
    """The counters that are compared, and when the processes began."""

    def takes(self, series: Series) -> bool:
        """Whether it is read."""
        return series.name in (_START, *_CREATED) or series.name.removesuffix("_total") in _COUNTERS


class WitnessError(GateError):
    """The server's metrics could not be read: the run has no witness."""


class Seen(Struct, frozen=True):
    """What the server did between two scrapes. None: it does not count that."""

    restarted: str = ""  # why it must have restarted; else empty
    finished: int | None = None
    preemptions: int | None = None
    cache_hit_share: float | None = None  # of prompt tokens


def scrape(url: str, path: Path) -> Scrape:
    """The metrics at `url`, kept at `path` (gzipped). Raises WitnessError."""
    import urllib3

    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with urllib3.PoolManager(timeout=_TIMEOUT_S, retries=urllib3.Retry(3, backoff_factor=0.3)) as pool:
            answer = pool.request("GET", url, preload_content=False, headers={"Accept": "text/plain"})
            body = answer.read(_MOST_BYTES)
            answer.release_conn()
    except (urllib3.exceptions.HTTPError, ValueError) as error:
        why = getattr(error, "reason", None) or error
        raise WitnessError(f"the server's metrics cannot be read: {why}", url) from None
    if answer.status != 200:
        raise WitnessError(f"the server's metrics cannot be read: HTTP {answer.status}", url)
    path.write_bytes(gzip.compress(body, 6))
    try:
        found = from_text(Source(path, url), _Counters())
    except GateError as error:
        raise WitnessError(f"the server's metrics cannot be read: {error.message}", url) from None
    if len(found) != 1 or not (found[0].values or found[0].starts):
        raise WitnessError("the page holds no metric of a server that slo-gate knows", url)
    return found[0]


def compare(before: Scrape, after: Scrape) -> Seen:
    """What happened in between."""
    counters = (_FINISHED, _PREEMPTED, _HITS, _ASKED)
    finished, preempted, hits, asked = (_change(before, after, names) for names in counters)
    return Seen(
        _restarted(before, after),
        None if finished is None else round(finished),
        None if preempted is None else round(preempted),
        None if hits is None or not asked else round(min(hits / asked, 1.0), 4),
    )


def _restarted(before: Scrape, after: Scrape) -> str:
    for process, began in before.starts.items():
        if process not in after.starts:
            return "a server process is gone"
        if after.starts[process] != began:
            return "the server restarted"
    for series, value in before.values.items():
        if series not in after.values:
            return f"{series.name} is gone from the server's metrics, as after a restart"
        now = after.values[series]
        if now != value if series.name in _CREATED else now < value:
            return f"{series.name} began anew, as after a restart"
    return ""


def _change(before: Scrape, after: Scrape, names: tuple[str, ...]) -> float | None:
    """The growth of the first of these counters that the server has, over all labels."""
    for name in names:
        known = [series for series in after.values if series.name.removesuffix("_total") == name]
        if known:
            return sum(after.values[series] - before.values.get(series, 0.0) for series in known)
    return None


def notes(readings: Seen, completed: int, sent: int) -> list[str]:
    """What the server's side says about the file's. The same words for every run, so that runs share a note.

    `sent` are all requests of the file: completed, failed, cancelled and warm-up.
    """
    found = []
    if readings.finished is not None and readings.finished < completed:
        found.append(
            "the server finished fewer requests than the file counts as completed:"
            " another server answered, or the file is of another run"
        )
    if readings.finished is not None and readings.finished > sent + max(_ROUNDING, _SPREAD * sent):
        found.append(
            "the server finished more requests than the file holds:"
            " other traffic, retries inside the client, or rows that are missing"
        )
    if readings.preemptions:
        found.append("the server preempted requests for want of KV cache; its preemptions are in the sidecar")
    return found
