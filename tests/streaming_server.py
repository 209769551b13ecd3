"""A loopback server that speaks the OpenAI API and streams, with times that are known.

    python tests/streaming_server.py --port 0 --ttft-ms 50 --tpot-ms 5 --capacity 8 --error-rate 0.01

prints its address. `--log FILE` gets a JSON line for each request that was answered: status, tokens, and
the seconds from its arrival to the first token and to the end. `capacity` requests are served at once; others
wait in line, so that TTFT grows with load as it does in a real engine. What happens to a request follows from
the seed and its prompt alone, so that two servers treat the same prompts alike, in whatever order they come.
/metrics is Prometheus text under vLLM's
names; POST /restart forgets everything.

Standard library only, but for `--tokenizer FOLDER`: with it, usage counts the prompt's tokens as a client
with the same tokenizer does (package tokenizers); without it, words.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

WORDS = (" the", " of", " is", " and", " to", " a")  # one token each to the clients' tokenizer
COLD = 3.0  # times as slow is a request that finds no caches
Reader, Writer = asyncio.StreamReader, asyncio.StreamWriter


@dataclass
class Server:
    """What is served, and what has been counted."""

    ttft_s: float = 0.05
    tpot_s: float = 0.005
    spread: float = 0.0  # sigma of a lognormal factor on both
    slower: float = 1.0  # factor on both
    cold: int = 0  # requests after the start that are COLD times as slow
    error_rate: float = 0.0
    early_rate: float = 0.0  # of requests without ignore_eos: the answer ends before its length
    chunk: int = 1  # tokens of an event
    capacity: int = 64
    model: str = "loopback"
    seed: int = 1
    tokens: Callable[[str], int] = lambda text: len(text.split())
    log: str | None = None
    counted: dict[str, int] = field(default_factory=dict)
    prompts: Counter[str] = field(default_factory=Counter)
    started_s: float = field(default_factory=time.time)

    def __post_init__(self) -> None:
        self.slots = asyncio.Semaphore(self.capacity)

    # ---- HTTP ---------------------------------------------------------------------------------

    async def serve(self, reader: Reader, writer: Writer) -> None:
        """One connection, which may carry several requests."""
        try:
            while (request := await _request(reader)) is not None:
                method, path, version, body = request
                await self.answer(method, path, version, body, writer)
                if version == "HTTP/1.0":
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client went away
        finally:
            writer.close()

    async def answer(self, method: str, path: str, version: str, body: bytes, writer: Writer) -> None:
        """One request."""
        path = path.partition("?")[0]
        if path == "/metrics":
            await _plain(writer, 200, self.metrics(), "text/plain; version=0.0.4")
        elif path == "/restart" and method == "POST":
            self.counted, self.prompts, self.started_s = {}, Counter(), time.time()
            await _plain(writer, 200, "{}")
        elif path == "/v1/models":
            entry = {"id": self.model, "object": "model", "created": 0, "owned_by": "tests"}
            await _plain(writer, 200, json.dumps({"object": "list", "data": [entry]}))
        elif path in ("/v1/chat/completions", "/v1/completions"):
            await self.complete(json.loads(body), path.endswith("chat/completions"), version, writer)
        elif path in ("/health", "/"):
            await _plain(writer, 200, "{}")
        else:
            await _plain(writer, 404, json.dumps({"error": {"message": f"no {path} here"}}))

    def metrics(self) -> str:
        """What a witness reads."""
        lines = [
            "# TYPE process_start_time_seconds gauge",
            f"process_start_time_seconds {self.started_s:.6f}",
        ]
        for name, reason in (
            ("request_success", 'finished_reason="length",'),
            ("num_preemptions", ""),
            ("prefix_cache_queries", ""),
            ("prefix_cache_hits", ""),
        ):
            value = self.counted.get(name, 0)
            lines += [
                f"# TYPE vllm:{name} counter",
                f'vllm:{name}_total{{{reason}model_name="{self.model}"}} {value}.0',
            ]
        return "\n".join(lines) + "\n"

    def count(self, name: str, n: int = 1) -> None:
        """Count up."""
        self.counted[name] = self.counted.get(name, 0) + n

    # ---- completions --------------------------------------------------------------------------

    async def complete(self, asked: dict[str, Any], chat: bool, version: str, writer: Writer) -> None:
        """Wait in line, think, stream."""
        arrived_s = time.monotonic()
        prompt = _prompt(asked, chat)
        self.prompts[prompt] += 1
        draw = random.Random(f"{self.seed} {self.prompts[prompt]} {prompt}")
        failed, early, factor = (
            draw.random() < self.error_rate,
            draw.random() < self.early_rate,
            self.slower,
        )
        factor *= draw.lognormvariate(0, self.spread) if self.spread else 1.0
        factor *= COLD if self.prompts.total() <= self.cold else 1.0
        if failed:
            await _plain(writer, 503, json.dumps({"error": {"message": "overloaded"}}))
            self.note(status=503)
            return
        tokens = int(asked.get("max_completion_tokens") or asked.get("max_tokens") or 16)
        if early and not asked.get("ignore_eos"):
            tokens = math.ceil(tokens * draw.random())
        usage = {"prompt_tokens": self.tokens(prompt), "completion_tokens": tokens}
        usage["total_tokens"] = sum(usage.values())
        self.count("prefix_cache_queries", usage["prompt_tokens"])
        self.count("prefix_cache_hits", usage["prompt_tokens"] if self.prompts[prompt] > 1 else 0)
        async with self.slots:
            await asyncio.sleep(self.ttft_s * factor)
            first_s = time.monotonic() - arrived_s
            if asked.get("stream"):
                await self.stream(tokens, usage, asked, chat, factor, version, writer)
            else:
                await asyncio.sleep(self.tpot_s * factor * (tokens - 1))
                text = "".join(WORDS[at % len(WORDS)] for at in range(tokens))
                piece = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
                choice = {"index": 0, "finish_reason": "length", **piece}
                await _plain(writer, 200, json.dumps(self.envelope(chat, [choice], "") | {"usage": usage}))
        self.count("request_success")
        said = {"input_tokens": usage["prompt_tokens"], "output_tokens": tokens, "ttft_s": round(first_s, 6)}
        self.note(status=200, **said, e2e_s=round(time.monotonic() - arrived_s, 6))

    def note(self, **facts: float) -> None:
        """A line of the log."""
        if self.log:
            with Path(self.log).open("a", encoding="utf-8") as file:
                file.write(json.dumps(facts) + "\n")

    async def stream(
        self,
        tokens: int,
        usage: dict[str, int],
        asked: dict[str, Any],
        chat: bool,
        factor: float,
        version: str,
        writer: Writer,
    ) -> None:
        """One event a piece, on a clock of its own so that lateness does not add up."""
        chunked = version != "HTTP/1.0"
        head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
        head += "Transfer-Encoding: chunked\r\n\r\n" if chunked else "Connection: close\r\n\r\n"
        writer.write(head.encode())
        loop = asyncio.get_running_loop()
        begun = loop.time()
        for at in range(0, tokens, self.chunk):
            last = min(at + self.chunk, tokens)
            if at:  # a piece comes when its last token is made
                await asyncio.sleep(begun + (last - 1) * self.tpot_s * factor - loop.time())
            text = "".join(WORDS[number % len(WORDS)] for number in range(at, last))
            piece: dict[str, Any] = {"delta": {"content": text}} if chat else {"text": text}
            if chat and at == 0:
                piece["delta"]["role"] = "assistant"
            choice = {"index": 0, "finish_reason": "length" if last == tokens else None, **piece}
            await _event(writer, self.envelope(chat, [choice], ".chunk"), chunked)
        if (asked.get("stream_options") or {}).get("include_usage"):
            await _event(writer, self.envelope(chat, [], ".chunk") | {"usage": usage}, chunked)
        await _event(writer, "[DONE]", chunked)
        if chunked:
            writer.write(b"0\r\n\r\n")
            await writer.drain()

    def envelope(self, chat: bool, choices: list[dict[str, Any]], end: str) -> dict[str, Any]:
        """What every answer is wrapped in."""
        kind = f"chat.completion{end}" if chat else "text_completion"
        return {"id": "cmpl-1", "object": kind, "created": 0, "model": self.model, "choices": choices}


def _prompt(asked: dict[str, Any], chat: bool) -> str:
    """The text of a request: of its messages, or of its prompt (a text, or token ids)."""
    if not chat:
        prompt = asked.get("prompt", "")
        return prompt if isinstance(prompt, str) else json.dumps(prompt)
    parts = []
    for message in asked.get("messages", ()):
        content = message.get("content") or ""
        parts += [content] if isinstance(content, str) else [one.get("text", "") for one in content]
    return "\n".join(parts)


def _counter(folder: str) -> Callable[[str], int]:
    """Counts tokens with the tokenizer of a folder."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


async def _request(reader: Reader) -> tuple[str, str, str, bytes] | None:
    """(method, path, version, body), None when the client has hung up."""
    line = (await reader.readline()).decode("latin-1").split()
    if len(line) != 3:
        return None
    length = 0
    while (header := (await reader.readline()).strip()) != b"":
        name, _, value = header.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    body = await reader.readexactly(length) if length else b""
    return line[0], line[1], line[2], body


async def _plain(writer: Writer, status: int, text: str, kind: str = "application/json") -> None:
    body = text.encode()
    head = f"HTTP/1.1 {status} -\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()


async def _event(writer: Writer, what: object, chunked: bool) -> None:
    text = what if isinstance(what, str) else json.dumps(what)
    data = f"data: {text}\n\n".encode()
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n" if chunked else data)
    await writer.drain()


async def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--ttft-ms", type=float, default=50)
    parser.add_argument("--tpot-ms", type=float, default=5)
    parser.add_argument("--spread", type=float, default=0.0)
    parser.add_argument("--slower", type=float, default=1.0, help="factor on TTFT and TPOT, such as 1.3")
    parser.add_argument("--cold", type=int, default=0, help=f"first requests, {COLD:g} times as slow")
    parser.add_argument("--error-rate", type=float, default=0.0)
    parser.add_argument("--early-rate", type=float, default=0.0, help="answers that end early")
    parser.add_argument("--chunk", type=int, default=1, help="tokens of an event")
    parser.add_argument("--capacity", type=int, default=64)
    parser.add_argument("--model", default="loopback")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log", metavar="FILE", help="what was served, a line a request")
    parser.add_argument("--tokenizer", help="a folder with a tokenizer.json")
    asked = vars(parser.parse_args())
    port, folder = asked.pop("port"), asked.pop("tokenizer")
    asked |= {f"{name}_s": asked.pop(f"{name}_ms") / 1e3 for name in ("ttft", "tpot")}
    server = Server(**asked, **({"tokens": _counter(folder)} if folder else {}))
    listening = await asyncio.start_server(server.serve, "127.0.0.1", port)
    host, port = listening.sockets[0].getsockname()[:2]
    print(f"http://{host}:{port}", flush=True)
    async with listening:
        await listening.serve_forever()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        sys.exit(0)
