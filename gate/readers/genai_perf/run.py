"""perf_analyzer's raw export: a timestamp for every buffer received, and the bodies as text; its summary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from ...model import Aggregate, Counts, Doubt, Floats, Requests, Why
from .. import clocks, kinds, nvidia, streams, tables
from ..loads import load
from ..nvidia_config import NO_PHASE, GenAIPerf
from ..source import BROKEN, Source
from ..told import Counted, Told
from . import KINDS, NAME, RAW, SUMMARY, TITLE, sums_up

_SAME = 0.01  # mean chunks and mean tokens a request closer than this: a chunk is a token
_LOADS = {"concurrency": "slots", "request_rate": "rate"}
_RAW_FILE = "the raw profile_export.json"
_INVISIBLE = "GenAI-Perf writes no file when a request fails: failures cannot be seen in its results"
_BY = "output tokens are counted by GenAI-Perf's tokenizer, not by the server"
_TAGS = {"ttft": "time_to_first_token", "tpot": "inter_token_latency", "e2e": "request_latency"}
_NO_TOKENS = (
    "the raw file has no token counts and {}, so TPOT is unknown; keep "
    "profile_export_genai_perf.json beside it, or let the server send usage with every answer"
)

_BARE = Told(
    format="",
    evidence=Aggregate({}),
    retries=0,  # a failure ends the run
    stream_with=nvidia.STREAM_WITH,
    notes=("no summary of GenAI-Perf beside it: its own percentiles are not shown",),
)


class _Body(msgspec.Struct, gc=False):
    response: str = ""


class _Inputs(msgspec.Struct, gc=False):
    payload: Any = None


class _Request(msgspec.Struct, gc=False):
    timestamp: nvidia.Ns
    response_timestamps: list[nvidia.Ns]
    response_outputs: list[_Body]
    request_inputs: msgspec.Raw = msgspec.Raw(b"null")  # the prompt: left undecoded


class _Setting(msgspec.Struct, gc=False):
    mode: str = ""
    value: float | None = None


class _Experiment(msgspec.Struct, gc=False):
    requests: list[_Request]
    experiment: _Setting = msgspec.field(default_factory=_Setting)


def decode(source: Source) -> Iterator[Told]:
    """One Told an experiment. Raises InputError for arrays of different length and broken bodies."""
    if kinds.result(source, KINDS, TITLE, f"give {_RAW_FILE}") is not RAW:
        yield _summary(source)
        return
    experiments, service = source.doc.get("experiments", list[_Experiment]), source.doc.text("service_kind")
    if service != "openai":
        why = f'service kind "{service}" is not supported'
        raise source.fail(why, "$.service_kind", "measure an OpenAI endpoint")
    if not experiments or not any(each.requests for each in experiments):
        raise source.fail("holds no request", "$.experiments", "run the benchmark again")
    beside = _beside(source) if len(experiments) == 1 else None
    facts = _facts(beside) if beside else None
    for number, each in enumerate(experiments):
        if each.requests:
            told = _told(source, f"$.experiments[{number}]", each, facts)
            yield told if told.load else replace(told, level=f"experiment {number + 1}")


def _beside(source: Source) -> Source | None:
    """The summary of a raw export: by prefix, or one that names it as its profile_export_file."""
    near = kinds.beside(source, KINDS, SUMMARY.name)
    if near is not None and kinds.kind_of(near, KINDS) is SUMMARY:
        return near
    usual = "profile_export" + SUMMARY.name
    other = source.beside(usual) or source.beside(f"{usual}.gz")
    fits = other is not None and kinds.kind_of(other, KINDS) is SUMMARY and sums_up(source, other)
    return other if fits else None


# ---- the run -------------------------------------------------------------------------------


def _answer(source: Source, at: str, request: _Request) -> streams.Answer:
    stamps, bodies = request.response_timestamps, request.response_outputs
    if len(stamps) != len(bodies):
        why = f"response_timestamps has {len(stamps)} values, response_outputs has {len(bodies)}"
        raise source.fail(why, at)
    try:
        return streams.answer(request.timestamp, stamps, [body.response for body in bodies])
    except BROKEN as error:
        raise source.fail(f"an answer is not readable: {error}", f"{at}.response_outputs") from None


def _told(source: Source, at: str, experiment: _Experiment, facts: tuple[Told, nvidia.Stats] | None) -> Told:
    answers = [
        _answer(source, f"{at}.requests[{number}]", request)
        for number, request in enumerate(experiment.requests)
    ]
    if not any(answer.choices or answer.embedding or answer.error for answer in answers):
        hint = "measure chat, completions or embeddings"
        raise source.fail("holds no chat or completion answer, and no embedding", at, hint)
    asked = experiment.experiment
    known, stats = facts or (_BARE, nvidia.Stats(source, lambda _: None))
    streamed = any(answer.streamed for answer in answers)
    chunks = np.array([len(answer.chunks_ns) for answer in answers], np.float64)
    tokens, notes, unknown = _tokens(answers, chunks, stats, streamed)
    rows = _requests(answers, tokens, streamed, gaps=source.gaps)
    counted = known.counts
    if (
        counted is not None
        and counted.completed == rows.counts.completed
        and all(a.visible_ns for a in answers)
    ):
        assert rows.e2e_s is not None
        nvidia.refuse_another_run(source, rows.e2e_s, known, stats.source.name)
    hidden = sum(bool(a.chunks_ns) and a.visible_ns != a.chunks_ns[0] for a in answers) if streamed else 0
    if hidden:
        notes += (
            f"{hidden} answers begin with reasoning or a tool call, which GenAI-Perf does not time: "
            "our TTFT is earlier than its own",
        )
    ends = np.array([answer.after_s(-1) for answer in answers])
    assert rows.start_s is not None
    return replace(
        known,
        format="genai-perf raw",
        evidence=rows,
        counts=None,
        counted=Counted(completed=counted.completed, where=f"{stats.source.name} beside it")
        if counted
        else None,
        duration_s=clocks.span_s(rows.start_s, rows.start_s + ends),
        load=load(**{_LOADS[asked.mode]: asked.value}) if asked.mode in _LOADS else None,
        model=known.model or _payload(experiment.requests[0]),
        date=clocks.day(min(answer.start_ns for answer in answers) / 1e9),
        streamed=streamed,
        has_gaps=streamed,
        pieces=np.where([answer.choices for answer in answers], chunks, np.nan),
        doubts=(Doubt(Why.ABSENT, ("tpot",), unknown),) if unknown and streamed else (),
        messages=[a.error or ("" if a.chunks_ns else "no content") for a in answers],
        notes=(_INVISIBLE, *notes, *known.notes),
    )


def _requests(
    answers: list[streams.Answer], tokens: Floats | None, streamed: bool, *, gaps: bool
) -> Requests:
    start = np.array([answer.start_ns for answer in answers], np.int64)
    prompts = [a.usage.prompt_tokens if a.usage else None for a in answers]
    return tables.requests(
        errors=np.array([bool(a.error) or not a.chunks_ns for a in answers], bool) | clocks.unset(start),
        ttft_s=np.array([answer.after_s(0) for answer in answers]) if streamed else None,
        e2e_s=np.array([answer.after_s(-1) for answer in answers]),
        output_tokens=tokens,
        input_tokens=tables.column(prompts),
        start_s=(start - start.min()) / 1e9,
        gaps=tables.gaps_between([a.chunks_ns for a in answers], 1e9) if gaps and streamed else None,
    )


def _tokens(
    answers: list[streams.Answer], chunks: Floats, stats: nvidia.Stats, streamed: bool
) -> tuple[Floats | None, tuple[str, ...], str]:
    """Output tokens of each request, a note on where they come from, and why there are none."""
    usage = tables.column(a.usage.completion_tokens if a.usage else None for a in answers)
    some, said = chunks > 0, stats.value("output_sequence_length")
    if any(answer.embedding for answer in answers):
        return np.full(len(answers), np.nan), (), ""
    if some.any() and np.isfinite(usage[some]).all():
        mean = usage[some].mean()
        note = f"output tokens are the server's usage ({mean:.4g} a request)"
        if said is not None and abs(said - mean) > tables.MISMATCH * mean:
            note += f"; GenAI-Perf's tokenizer says {said:.4g}: its inter_token_latency differs from our TPOT"
        return usage, (note,), ""
    if said is None:
        return None, (), _NO_TOKENS.format("no summary is beside it")
    mean = chunks[some].mean() if some.any() else 0.0
    if streamed and _one_token_a_chunk(chunks[some], stats.get("output_sequence_length")):
        note = f"output tokens are chunks with content: {mean:.4g} a request, as many as the summary's tokens"
        return chunks, (note,), ""
    why = f"its {mean:.4g} chunks a request are not the summary's {said:.4g} tokens"
    if abs(mean - said) <= _SAME * said:
        why = "its chunks are spread otherwise than the summary's tokens"
    return None, (), _NO_TOKENS.format(why)


def _one_token_a_chunk(chunks: Floats, length: nvidia.Stat | None) -> bool:
    if not len(chunks) or length is None:
        return False
    pairs = [(float(chunks.mean()), length.avg or 0.0, 0.0)]
    # Equal means can be chance; equal percentiles, to a token, hardly.
    pairs += [(float(np.percentile(chunks, p)), value, 1.0) for p, value in length.points]
    return all(abs(mine - its) <= max(_SAME * its, slack) for mine, its, slack in pairs)


def _payload(request: _Request) -> str | None:
    """The model named in the first prompt's body, itself JSON in a string."""
    try:
        body = msgspec.json.decode(request.request_inputs, type=_Inputs | None)
        payload = body.payload if body else None
        named = msgspec.json.decode(payload) if isinstance(payload, str) else payload
    except BROKEN:
        return None
    model = named.get("model") if isinstance(named, dict) else None
    return model if isinstance(model, str) else None


# ---- the summary, JSON or CSV: evidence of its own, or facts about the raw export beside it ---


def _facts(source: Source) -> tuple[Told, nvidia.Stats]:
    """What a summary says. Raises InputError for a result of the wrong type."""
    stats, config, _, notes = nvidia.statement(source, {}, GenAIPerf)
    number = stats.count("request_count")
    streamed = _streamed(stats, config)
    told = nvidia.aggregate_run(
        stats,
        _TAGS if streamed else {metric: tag for metric, tag in _TAGS.items() if metric != "ttft"},
        NAME,
        "summary",
        _RAW_FILE,
        counts=None if number is None else Counts(number, number, 0),
        model=", ".join(config.model_names or config.model or []) or None,
        streamed=streamed,
        goodput=_goodput(stats, config),
        notes=notes,
        **(NO_PHASE if stats.rounded else config.asked),  # a CSV has no configuration
    )
    return told, stats


def _summary(source: Source) -> Told:
    told, _ = _facts(source)
    return replace(told, notes=(_INVISIBLE, _BY, *told.notes))


def _streamed(stats: nvidia.Stats, config: GenAIPerf) -> bool:
    """As configured; without streaming a CSV leaves TTFT out and a JSON repeats the latency for it."""
    if config.streamed is not None:
        return config.streamed
    ttft = stats.get("time_to_first_token")
    return ttft is not None and ttft != stats.get("request_latency")


def _goodput(stats: nvidia.Stats, config: GenAIPerf) -> str:
    rate = stats.value("request_goodput")
    if rate is None:
        return ""
    by = f"by its own --goodput ({nvidia.bounds(config.slos)})"
    if rate < 0:
        return f"could not be computed {by}: an SLO names no metric of its own"
    return f"{rate:.4g} good req/s, {by}, which pairs the wrong values once a request has one token"
