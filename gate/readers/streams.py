"""An answer of an OpenAI-compatible endpoint, as the buffers of its response came."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Struct


class Usage(Struct, gc=False):
    """Tokens as the server counts them."""

    completion_tokens: Annotated[int, msgspec.Meta(ge=0)] | None = None
    prompt_tokens: Annotated[int, msgspec.Meta(ge=0)] | None = None


class _Text(Struct, gc=False):
    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    tool_calls: Any = None


class _Choice(Struct, gc=False):
    delta: _Text | None = None
    message: _Text | None = None
    text: str | None = None


class _Event(Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: Usage | None = None
    error: Any = None
    data: msgspec.Raw = msgspec.Raw(b"")  # embeddings
    results: msgspec.Raw = msgspec.Raw(b"")  # of a rerank


class Answer(Struct):
    """One answer: its content chunks, and what the server said about it."""

    start_ns: int
    chunks_ns: list[int]  # one an SSE event with content, reasoning or a tool call
    visible_ns: int | None = None  # the first with content: no reasoning and no tool call
    usage: Usage | None = None
    error: str = ""
    streamed: bool = False
    choices: bool = False
    embedding: bool = False

    def after_s(self, index: int) -> float:
        """Start to a chunk; NaN without any. Subtracted as integers, so exact to the nanosecond."""
        return (self.chunks_ns[index] - self.start_ns) / 1e9 if self.chunks_ns else np.nan


def answer(start_ns: int, stamps_ns: Iterable[int], texts: Iterable[str]) -> Answer:
    """The answer whose buffers came at these times. Raises what msgspec does where an event is no JSON."""
    known = Answer(start_ns, [])
    for at_ns, text in _whole(stamps_ns, texts):
        known.streamed |= text.startswith(_SSE)
        for event in _events(text):
            _take(known, at_ns, _DECODER.decode(event))
    return known


_NOTHING = (b"", b"null", b"[]")
_DECODER = msgspec.json.Decoder(_Event)
_SSE = ("data:", "event:", ":")  # how a line of server-sent events begins


def _whole(stamps: Iterable[int], texts: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Buffers as received; the rest of an event that was cut in two counts with its beginning."""
    at_ns, text = 0, ""
    for stamp, body in zip(stamps, texts, strict=True):
        if text and not body.startswith(_SSE):
            text += body
            continue
        if text:
            yield at_ns, text
        at_ns, text = stamp, body
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


def _take(answer: Answer, at_ns: int, event: _Event) -> None:
    if event.error:
        answer.error = "error in the stream"
    answer.usage = event.usage or answer.usage
    answer.choices |= event.choices is not None
    if any(bytes(value) not in _NOTHING for value in (event.data, event.results)):
        answer.embedding = True
        answer.chunks_ns.append(at_ns)
    for choice in event.choices or ():
        part = choice.delta or choice.message or _Text()
        visible = part.content or choice.text
        if visible or part.reasoning_content or part.reasoning or part.tool_calls:
            answer.chunks_ns.append(at_ns)
        if visible and answer.visible_ns is None:
            answer.visible_ns = at_ns
