"""A loopback server that speaks the OpenAI API and streams, with times that are known. Standard library only.

    python tests/bench/server.py --port 0 --ttft-ms 50 --tpot-ms 5 --capacity 8 --error-rate 0.01

prints its address. `capacity` requests are served at once; others wait in line, so that TTFT grows with load
as it does in a real engine. /metrics is Prometheus text under vLLM's names; POST /restart forgets everything.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from dataclasses import dataclass, field
from typing import Any

WORDS = ("tok", "ken", "ing", "the", "of", "to")
Reader, Writer = asyncio.StreamReader, asyncio.StreamWriter


@dataclass
class Server:
    """What is served, and what has been counted."""

    ttft_s: float = 0.05
    tpot_s: float = 0.005
    spread: float = 0.0  # sigma of a lognormal factor on both
    error_rate: float = 0.0
    capacity: int = 64
    model: str = "loopback"
    seed: int = 1
    counted: dict[str, int] = field(default_factory=dict)
    prompts: set[str] = field(default_factory=set)
    started_s: float = field(default_factory=time.time)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
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
            self.counted, self.prompts, self.started_s = {}, set(), time.time()
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
        if self.random.random() < self.error_rate:
            await _plain(writer, 503, json.dumps({"error": {"message": "overloaded"}}))
            return
        prompt = json.dumps(asked.get("messages") if chat else asked.get("prompt"))
        tokens = int(asked.get("max_completion_tokens") or asked.get("max_tokens") or 16)
        usage = {"prompt_tokens": len(prompt.split()), "completion_tokens": tokens}
        usage["total_tokens"] = sum(usage.values())
        self.count("prefix_cache_queries", usage["prompt_tokens"])
        self.count("prefix_cache_hits", usage["prompt_tokens"] if prompt in self.prompts else 0)
        self.prompts.add(prompt)
        async with self.slots:
            factor = self.random.lognormvariate(0, self.spread) if self.spread else 1.0
            await asyncio.sleep(self.ttft_s * factor)
            if asked.get("stream"):
                await self.stream(tokens, usage, asked, chat, factor, version, writer)
            else:
                await asyncio.sleep(self.tpot_s * factor * (tokens - 1))
                text = " ".join(WORDS[at % len(WORDS)] for at in range(tokens))
                piece = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
                choice = {"index": 0, "finish_reason": "length", **piece}
                await _plain(writer, 200, json.dumps(self.envelope(chat, [choice], "") | {"usage": usage}))
        self.count("request_success")

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
        """One event a token, on a clock of its own so that lateness does not add up."""
        chunked = version != "HTTP/1.0"
        head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
        head += "Transfer-Encoding: chunked\r\n\r\n" if chunked else "Connection: close\r\n\r\n"
        writer.write(head.encode())
        loop = asyncio.get_running_loop()
        begun = loop.time()
        for at in range(tokens):
            if at:
                await asyncio.sleep(begun + at * self.tpot_s * factor - loop.time())
            text = WORDS[at % len(WORDS)] + " "
            piece: dict[str, Any] = {"delta": {"content": text}} if chat else {"text": text}
            if chat and at == 0:
                piece["delta"]["role"] = "assistant"
            choice = {"index": 0, "finish_reason": "length" if at == tokens - 1 else None, **piece}
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
    parser.add_argument("--error-rate", type=float, default=0.0)
    parser.add_argument("--capacity", type=int, default=64)
    parser.add_argument("--model", default="loopback")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    server = Server(
        asked.ttft_ms / 1e3,
        asked.tpot_ms / 1e3,
        asked.spread,
        asked.error_rate,
        asked.capacity,
        asked.model,
        asked.seed,
    )
    listening = await asyncio.start_server(server.serve, "127.0.0.1", asked.port)
    host, port = listening.sockets[0].getsockname()[:2]
    print(f"http://{host}:{port}", flush=True)
    async with listening:
        await listening.serve_forever()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        sys.exit(0)
