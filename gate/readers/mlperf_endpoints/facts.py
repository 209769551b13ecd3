"""What a summary of MLPerf Endpoints states: counts, blocks of statistics, load, what it cannot say."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import msgspec

from ...model import Counts, Load, Summary
from ..source import BROKEN, Doc, Source

SETTLED_BY = "events.jsonl"
BLOCKS = {"ttft": "ttft", "tpot": "tpot", "e2e": "latency"}
_MANY_TOKENS = 1e7  # a mean above this is no number of tokens
_WHOLE = "run the benchmark again, or copy the file whole"
NOT_STREAMED = "no {} was recorded: the endpoint was not streamed; run with model_params.streaming on"
ONE_CHUNK = (
    "most first chunks come with the whole answer: decode time was not seen; check that the endpoint streams"
)
PARTIAL = (
    "the run is not whole (state {}, complete {}): what it finished is no fair sample; run again to its end"
)


class _Histogram(msgspec.Struct):
    counts: list[int]
    buckets: list[tuple[float, float]]


class Block(msgspec.Struct):
    """Statistics of one metric, in ns or tokens."""

    percentiles: dict[str, float]
    min: float
    max: float
    avg: float
    histogram: _Histogram
    total: float = 0.0
    early_stopping_percentiles: dict[str, float | None] | None = None


class _Pattern(msgspec.Struct):
    type: str = ""
    target_qps: float | None = None
    target_concurrency: int | None = None


class Digest(msgspec.Struct):
    """run_metadata.json, of which a submission is made: what older summaries do not state."""

    measured_total_requests: int | None = None
    concurrency: int | None = None
    run_date: str | None = None
    node_config: str | None = None


class _Config(msgspec.Struct):
    load_pattern: _Pattern | None = None


def digest(source: Source, issued: int) -> Digest:
    """The digest beside a result, if it is of the same run. Raises InputError when it is broken."""
    other = source.beside("run_metadata.json")
    if other is None or other.shape != "object":
        return Digest()
    fields = {name: other.doc.fields[name] for name in Digest.__struct_fields__ if name in other.doc}
    try:
        found = msgspec.convert({key: msgspec.json.decode(raw) for key, raw in fields.items()}, Digest)
    except BROKEN as error:
        raise other.fail(str(error)[:1].lower() + str(error)[1:]) from None
    return found if found.measured_total_requests == issued else Digest()


def counts(doc: Doc) -> Counts:
    """Every failed sample completes too (the tool emits its error first, then its completion)."""
    said = [doc.count(f"n_samples_{what}") for what in ("issued", "completed", "failed")]
    if None in said:
        raise doc.source.fail(
            "has no n_samples_issued, n_samples_completed or n_samples_failed", doc.at, _WHOLE
        )
    issued, completes, failed = (value or 0 for value in said)
    if issued == 0:
        raise doc.source.fail("holds no sample", doc.at, "run the benchmark again")
    if completes > issued or failed > issued:
        raise doc.source.fail(
            f"contradicts itself: {completes} completed and {failed} failed of {issued} issued", doc.at
        )
    completed = max(completes - failed, 0)
    unfinished = issued - completes if doc.text("state") == "interrupted" else 0
    return Counts(issued - unfinished, completed, issued - unfinished - completed, unfinished)


def block(doc: Doc, key: str) -> Block | None:
    """A metric's block, None where it is empty: the tool recorded no value of it."""
    if key not in doc:
        raise doc.source.fail(f"has no {key}", doc.at, _WHOLE)
    if not doc.any(key):
        return None
    return doc.get(key, Block)


def stats(doc: Doc, metric: str, block: Block) -> Summary:
    """A block in seconds. Raises InputError where it does not ascend, or lists differ in length."""
    at = f"{doc.at}.{BLOCKS[metric]}"
    try:
        values = tuple(sorted((float(p), value / 1e9) for p, value in block.percentiles.items()))
    except ValueError:
        raise doc.source.fail("has a percentile that is no number", at) from None
    if any(not 0 < percent < 100 for percent, _ in values):
        raise doc.source.fail("has a percentile outside 0 to 100", at)
    low, high, mean = block.min / 1e9, block.max / 1e9, block.avg / 1e9
    ordered = [low, *(value for _, value in values), high]
    if any(after < before for before, after in pairwise(ordered)):
        raise doc.source.fail("contradicts itself: minimum, percentiles and maximum do not ascend", at)
    if low < 0 or high > 1e12:
        raise doc.source.fail("expected times in nanoseconds", at)
    if any(count < 0 for count in block.histogram.counts):
        raise doc.source.fail("expected counts, got a negative number", f"{at}.histogram")
    if len(block.histogram.counts) != len(block.histogram.buckets):
        raise doc.source.fail("buckets and counts have different lengths", f"{at}.histogram")
    return Summary(values, mean, low, high, sum(block.histogram.counts))


def unsuitable(doc: Doc, counts: Counts, blocks: Mapping[str, Block | None]) -> dict[str, str]:
    """What must not be judged by the summary, and why."""
    state, whole = doc.text("state"), doc.get("complete", bool)
    if state != "complete" or whole is not True:
        return dict.fromkeys(("ttft", "tpot", "itl", "e2e", "error_rate"), PARTIAL.format(state, whole))
    found = {}
    for metric, block in blocks.items():
        n = sum(block.histogram.counts) if block else 0
        if block is None and metric != "e2e":
            found[metric] = NOT_STREAMED.format("first chunk")
        elif n != counts.completed:
            why = "failed ones are among them" if n > counts.completed else "answers of one chunk have none"
            found[metric] = (
                f"{n} values stand behind {metric.upper()}, but {counts.completed} samples completed ({why});"
                f" {SETTLED_BY} has each request"
            )
    first, whole_answer = blocks["ttft"], blocks["e2e"]
    if (
        first
        and whole_answer
        and first.percentiles.get("50.0", 0.0) >= 0.99 * whole_answer.percentiles.get("50.0", float("inf"))
    ):
        found |= {"ttft": ONE_CHUNK, "tpot": ONE_CHUNK}
    return found


def tokens(doc: Doc, counts: Counts) -> tuple[float | None, tuple[str, ...]]:
    """Output tokens of completed samples, where they can be that."""
    if not doc.any("output_sequence_lengths"):
        return None, ("the tool counted no output tokens",)
    block = doc.get("output_sequence_lengths", Block)
    if block is None or not counts.completed:
        return None, ()
    if not 0 < block.avg <= _MANY_TOKENS or block.min < 0:
        return None, (
            f"output_sequence_lengths says {block.avg:.4g} tokens a sample, which cannot be: not used",
        )
    if sum(block.histogram.counts) != counts.completed:
        return None, ()
    return block.total, ()


def early_stopping(blocks: Mapping[str, Block | None]) -> tuple[str, ...]:
    """What the submission checker gates on: not the percentile, but its conservative estimate."""
    shown = []
    for metric, block in blocks.items():
        if block is None or block.early_stopping_percentiles is None:
            continue
        value = block.early_stopping_percentiles.get("99.0")
        shown.append(
            f"{metric.upper()} {'none (under 662 samples)' if value is None else f'{value / 1e6:.4g} ms'}"
        )
    if not shown:
        return ()
    return (
        f"MLPerf's submission checker takes the early-stopping estimates of P99 instead: {', '.join(shown)}",
    )


def clock(doc: Doc) -> tuple[str, ...]:
    """A note on the window of the tool's own requests per second."""
    window = doc.number("legacy_loadgen_window_duration_ns")
    qps = doc.number("qps")
    if window is None or qps is None:
        return ()
    return (
        f"the tool's {qps:.4g} req/s is (completed - 1) / {window / 1e9:.4g} s, the window to the end of the"
        " last-issued sample; slo-gate divides by the whole run",
    )


def duration(doc: Doc) -> float | None:
    """From the start of the measured window to its last completion, in seconds."""
    value = doc.number("duration_ns")
    if value is not None and not 0 <= value < 1e18:
        raise doc.source.fail(f"expected a time, got {value:g}", f"{doc.at}.duration_ns")
    return value / 1e9 if value else None


def load(doc: Doc | None, digest: Digest) -> tuple[Load | None, tuple[str, ...]]:
    """The load point by run_config, else by the digest; else a note that says so."""
    config = doc.get("run_config", _Config) if doc else None
    pattern = config.load_pattern if config else None
    if pattern is None and digest.concurrency is not None and digest.concurrency > 0:
        return Load(concurrency=digest.concurrency), ()
    if pattern is None:
        return None, ("the load is not stated (--set concurrency=N or request_rate=X)",)
    rate, slots = pattern.target_qps, pattern.target_concurrency
    if pattern.type == "poisson" and rate is not None and 0 < rate < 1e12:
        return Load(request_rate=rate), ()
    if slots is not None and slots > 0:
        return Load(concurrency=slots), ()
    if pattern.type == "max_throughput":
        return Load(burst=True), ()
    return None, (f'the load pattern "{pattern.type}" states neither a rate nor a concurrency',)


def model(source: Source) -> str | None:
    """The model by config.yaml, beside the file or one folder up, where it can be read."""
    if source.path is None:
        return None
    import yaml  # only here: no other file of this tool is YAML

    for folder in (source.path.parent, source.path.parent.parent):
        path = folder / "config.yaml"
        try:
            config = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else None
        except (OSError, ValueError, yaml.YAMLError, RecursionError):
            continue
        params = config.get("model_params") if isinstance(config, dict) else None
        name = params.get("name") if isinstance(params, dict) else None
        if isinstance(name, str):
            return name
    return None
