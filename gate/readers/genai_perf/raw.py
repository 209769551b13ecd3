"""perf_analyzer's raw export: a timestamp for every buffer received, and the bodies as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Struct

from ...model import Floats, Gaps, Load, Requests, Run, Status, Summary
from .. import tables
from ..source import BROKEN, Source
from . import DEFINITIONS, NAME
from . import summary as _summary

_SAME = 0.01  # mean chunks and mean tokens a request closer than this: a chunk is a token
_NO_TOKENS = (
    "the raw file has no token counts and {}, so TPOT is unknown; keep "
    "profile_export_genai_perf.json beside it, or let the server send usage with every answer"
)

_Ns = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]  # epoch: a double would lose 200 ns


class _Body(msgspec.Struct, gc=False):
    response: str = ""


class _Inputs(msgspec.Struct, gc=False):
    payload: Any = None


class _Request(msgspec.Struct, gc=False):
    timestamp: _Ns
    response_timestamps: list[_Ns]
    response_outputs: list[_Body]
    request_inputs: msgspec.Raw = msgspec.Raw(b"null")  # the prompt: left undecoded


class _Setting(msgspec.Struct, gc=False):
    mode: str = ""
    value: float | None = None


class _Experiment(msgspec.Struct, gc=False):
    requests: list[_Request]
    experiment: _Setting = msgspec.field(default_factory=_Setting)


class _Usage(msgspec.Struct, gc=False):
    completion_tokens: Annotated[int, msgspec.Meta(ge=0)] | None = None
    prompt_tokens: Annotated[int, msgspec.Meta(ge=0)] | None = None


class _Text(msgspec.Struct, gc=False):
    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    tool_calls: Any = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Text | None = None
    message: _Text | None = None
    text: str | None = None


class _Event(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None


class _Answer(Struct):
    """One request: its content chunks, and what the server said about it."""

    start_ns: int
    chunks_ns: list[int]  # one an SSE event with content, reasoning or a tool call
    visible_ns: int | None = None  # the first with content: what GenAI-Perf calls the first token
    usage: _Usage | None = None
    error: str = ""
    streamed: bool = False
    choices: bool = False

    def after_s(self, index: int) -> float:
        """Start to a chunk; NaN without any. Subtracted as integers, so exact to the nanosecond."""
        return (self.chunks_ns[index] - self.start_ns) / 1e9 if self.chunks_ns else np.nan


def read(source: Source, beside: Source | None) -> list[Run]:
    """One Run an experiment. Raises InputError for arrays of different length and broken bodies."""
    experiments = source.doc.get("experiments", list[_Experiment])
    kind = source.doc.text("service_kind")
    if kind != "openai":
        raise source.fail(
            f'service kind "{kind}" is not supported', "$.service_kind", "measure an OpenAI endpoint"
        )
    if not experiments or not any(each.requests for each in experiments):
        raise source.fail("holds no request", "$.experiments", "run the benchmark again")
    facts = _summary.told(beside) if beside and len(experiments) == 1 else None
    return [
        _run(source, f"$.experiments[{number}]", each, facts)
        for number, each in enumerate(experiments)
        if each.requests
    ]


# ---- one answer ----------------------------------------------------------------------------


def _answer(source: Source, at: str, request: _Request) -> _Answer:
    stamps, bodies = request.response_timestamps, request.response_outputs
    if len(stamps) != len(bodies):
        raise source.fail(
            f"response_timestamps has {len(stamps)} values, response_outputs has {len(bodies)}", at
        )
    answer = _Answer(request.timestamp, [])
    for at_ns, text in _whole(stamps, bodies):
        answer.streamed |= text.startswith(_SSE)
        for event in _events(text):
            try:
                _take(answer, at_ns, _DECODER.decode(event))
            except BROKEN as error:
                raise source.fail(f"an answer is not readable: {error}", f"{at}.response_outputs") from None
    return answer


_DECODER = msgspec.json.Decoder(_Event)
_SSE = ("data:", "event:", ":")  # how a line of server-sent events begins


def _whole(stamps: list[int], bodies: list[_Body]) -> Iterator[tuple[int, str]]:
    """Buffers as received; the rest of an event that was cut in two counts with its beginning."""
    at_ns, text = 0, ""
    for stamp, body in zip(stamps, bodies, strict=True):
        if text and not body.response.startswith(_SSE):
            text += body.response
            continue
        if text:
            yield at_ns, text
        at_ns, text = stamp, body.response
    if text:
        yield at_ns, text


def _events(text: str) -> Iterator[str]:
    """The JSON of each server-sent event in a buffer; the whole body where nothing was streamed."""
    if not text.startswith(_SSE):
        yield text
        return
    for line in text.splitlines():
        value = line[5:].strip() if line.startswith("data:") else ""
        if value and value != "[DONE]":
            yield value


def _take(answer: _Answer, at_ns: int, event: _Event) -> None:
    if event.error:
        answer.error = "error in the stream"
    answer.usage = event.usage or answer.usage
    answer.choices |= event.choices is not None
    for choice in event.choices or ():
        part = choice.delta or choice.message or _Text()
        visible = part.content or choice.text
        if visible or part.reasoning_content or part.reasoning or part.tool_calls:
            answer.chunks_ns.append(at_ns)
        if visible and answer.visible_ns is None:
            answer.visible_ns = at_ns


# ---- the run -------------------------------------------------------------------------------


def _run(source: Source, at: str, experiment: _Experiment, facts: _summary.Told | None) -> Run:
    answers = [
        _answer(source, f"{at}.requests[{number}]", request)
        for number, request in enumerate(experiment.requests)
    ]
    if not any(answer.choices or answer.error for answer in answers):
        raise source.fail("holds no chat or completion answer", at, "other endpoints have no tokens to time")
    streaming = any(answer.streamed for answer in answers)
    chunks = np.array([len(answer.chunks_ns) for answer in answers], np.float64)
    tokens, about, unknown = _tokens(answers, chunks, facts, streaming)
    rows = _requests(answers, tokens, streaming, gaps=source.gaps)
    counted = tables.counts(rows)
    _agree(source, facts, answers, counted.completed)
    total = tables.output_total(rows)
    if total is None and facts and (mean := facts.value("output_sequence_length")) is not None:
        total = mean * counted.completed
    return Run(
        input=source.name,
        sha256=source.sha256,
        format="genai-perf raw",
        tool=NAME,
        evidence=rows,
        counts=counted,
        model=(facts.model() if facts else None) or _payload(experiment.requests[0]),
        load=_load(experiment.experiment),
        duration_s=_span_s(answers),
        total_output_tokens=total,
        streaming=streaming,
        definitions=DEFINITIONS,
        tool_reported=facts.reported() if facts else {},
        unsuitable=_unsuitable(rows, streaming, unknown),
        notes=(
            *tables.failure_note(rows, [a.error or ("" if a.chunks_ns else "no content") for a in answers]),
            _summary.INVISIBLE,
            *about,
            *_notes(answers, rows, streaming, facts),
        ),
    )


def _requests(answers: list[_Answer], tokens: Floats | None, streaming: bool, *, gaps: bool) -> Requests:
    start = np.array([answer.start_ns for answer in answers], np.int64)
    lists = [np.diff(np.array(a.chunks_ns, np.int64)) / 1e9 for a in answers] if gaps and streaming else []
    lengths = np.cumsum([0, *(len(each) for each in lists)])
    prompts = [a.usage.prompt_tokens if a.usage else None for a in answers]
    return tables.requests(
        errors=np.array([bool(a.error) or not a.chunks_ns for a in answers], bool),
        ttft_s=np.array([answer.after_s(0) for answer in answers]) if streaming else None,
        e2e_s=np.array([answer.after_s(-1) for answer in answers]),
        output_tokens=tokens,
        input_tokens=np.array(prompts, np.float64),
        start_s=(start - start.min()) / 1e9,
        gaps=Gaps(np.concatenate(lists), lengths.astype(np.int64)) if lists else None,
    )


def _tokens(
    answers: list[_Answer], chunks: Floats, facts: _summary.Told | None, streaming: bool
) -> tuple[Floats | None, tuple[str, ...], str]:
    """Output tokens of each request, a note on where they come from, and why there are none."""
    usage = np.array([a.usage.completion_tokens if a.usage else None for a in answers], np.float64)
    some = chunks > 0
    if some.any() and np.isfinite(usage[some]).all():
        note = f"output tokens are the server's usage ({usage[some].mean():.4g} a request)"
        mean = facts.value("output_sequence_length") if facts else None
        if mean is None or abs(mean - usage[some].mean()) <= tables.MISMATCH * usage[some].mean():
            return usage, (note,), ""
        more = f"; GenAI-Perf's tokenizer says {mean:.4g}: its inter_token_latency differs from our TPOT"
        return usage, (note + more,), ""
    if not streaming or not some.any():
        return None, (), ""
    if facts is None or facts.value("output_sequence_length") is None:
        return None, (), _NO_TOKENS.format("no summary is beside it")
    if _one_token_a_chunk(chunks[some], facts):
        mean = chunks[some].mean()
        note = f"output tokens are chunks with content: {mean:.4g} a request, as many as the summary's tokens"
        return chunks, (note,), ""
    said = facts.value("output_sequence_length")
    why = f"its {chunks[some].mean():.4g} chunks a request are not the summary's {said:.4g} tokens"
    if said is not None and abs(chunks[some].mean() - said) <= _SAME * said:
        why = "its chunks are spread otherwise than the summary's tokens"
    return None, (), _NO_TOKENS.format(why)


def _one_token_a_chunk(chunks: Floats, facts: _summary.Told) -> bool:
    length = facts.stats["output_sequence_length"]
    pairs = [(float(chunks.mean()), length.avg or 0.0, 0.0)]
    # Equal means can be chance; equal percentiles, to a token, hardly.
    pairs += [(float(np.percentile(chunks, p)), value, 1.0) for p, value in length.percentiles()]
    return all(abs(mine - its) <= max(_SAME * its, slack) for mine, its, slack in pairs)


def _agree(source: Source, facts: _summary.Told | None, answers: list[_Answer], completed: int) -> None:
    """Requests that the summary counts and the raw file lacks were cut off: they must not vanish."""
    if facts is None:
        return
    whole = "copy both files of one run whole, or take the other one away"
    stated = facts.count()
    if stated is not None and stated > completed:
        raise source.fail(
            f"holds {completed} requests with content, but {facts.source.name} beside it counts {stated}",
            hint=whole,
        )
    said = facts.latencies().get("e2e", Summary()).mean
    ours = np.array([a.after_s(-1) for a in answers if a.chunks_ns])
    if said and stated == completed and all(a.visible_ns for a in answers) and not _close(ours.mean(), said):
        raise source.fail(
            f"has a mean request latency of {ours.mean():.6g} s, but {facts.source.name} says {said:.6g} s",
            hint=whole,
        )


def _close(mine: float, its: float) -> bool:
    return abs(mine - its) <= 1e-3 * its


def _load(setting: _Setting) -> Load | None:
    if setting.value is None or setting.value <= 0:
        return None
    if setting.mode == "concurrency":
        return Load(concurrency=int(setting.value))
    return Load(request_rate=setting.value) if setting.mode == "request_rate" else None


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


def _span_s(answers: list[_Answer]) -> float | None:
    """First start to last content, as GenAI-Perf measures its throughput."""
    ends = [answer.chunks_ns[-1] for answer in answers if answer.chunks_ns]
    span = max(ends) - min(answer.start_ns for answer in answers) if ends else 0
    return span / 1e9 if span > 0 else None


def _unsuitable(rows: Requests, streaming: bool, unknown: str) -> dict[str, str]:
    completed = rows.status == Status.COMPLETED
    if not completed.any():
        return {}
    if not streaming:
        return dict.fromkeys(("ttft", "tpot", "itl"), _summary.NOT_STREAMING)
    if rows.ttft_s is not None and rows.e2e_s is not None:
        several = completed if rows.output_tokens is None else completed & (rows.output_tokens > 1)
        at_once = (rows.e2e_s <= rows.ttft_s)[several]
        if at_once.size and at_once.mean() > 0.5:
            return dict.fromkeys(("tpot", "itl"), _summary.ONE_CHUNK)
    return {"tpot": unknown} if unknown else {}


def _notes(
    answers: list[_Answer], rows: Requests, streaming: bool, facts: _summary.Told | None
) -> tuple[str, ...]:
    hidden = sum(bool(a.chunks_ns) and a.visible_ns != a.chunks_ns[0] for a in answers)
    notes = []
    if hidden and streaming:
        notes.append(
            f"{hidden} answers begin with reasoning or a tool call, which GenAI-Perf does not time: "
            "our TTFT is earlier than its own"
        )
    if facts is None:
        notes.append("no summary of GenAI-Perf beside it: its own percentiles are not shown")
    return (*notes, *(facts.notes if facts else ()), *(_summary.goodput_note(facts) if facts else ()))
