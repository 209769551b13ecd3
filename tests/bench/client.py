"""A light benchmark client: a closed loop of streamed chat requests, written as generic rows.

    python tests/bench/client.py --url http://127.0.0.1:8000 --out result.jsonl --concurrency 4 --requests 100

Standard library only. It speaks HTTP/1.0, where a stream ends with its connection, so that every line of the
answer is a line of the stream.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")


async def post(url: str, body: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send a POST; the answer is still to be read."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    head = f"POST {parts.path} HTTP/1.0\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    await writer.drain()
    return reader, writer


async def ask(url: str, prompt: list[str], tokens: int, origin_s: float) -> dict[str, Any]:
    """One request, as a row."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    row: dict[str, Any] = {"start_s": round(begun - origin_s, 6), "input_tokens": len(prompt)}
    message = [{"role": "user", "content": " ".join(prompt)}]
    body = json.dumps({"model": "loopback", "messages": message, "max_tokens": tokens, "stream": True})
    stamps: list[float] = []
    try:
        reader, writer = await post(f"{url}/v1/chat/completions", body.encode())
        status = (await reader.readline()).split()
        if status[1:2] != [b"200"]:
            raise ConnectionError(f"HTTP {status[1].decode() if len(status) > 1 else '?'}")
        stamps = [loop.time() async for line in reader if line.startswith(b"data: {")]
        writer.close()
    except (OSError, IndexError) as error:
        return row | {"ttft_s": None, "e2e_s": None, "output_tokens": 0, "error": str(error) or "broken"}
    if not stamps:
        return row | {"ttft_s": None, "e2e_s": None, "output_tokens": 0, "error": "no token"}
    ends = {"ttft_s": stamps[0] - begun, "e2e_s": stamps[-1] - begun, "output_tokens": len(stamps)}
    gaps = [round(later - sooner, 6) for sooner, later in pairwise(stamps)]
    return row | ends | {"error": None, "itl_s": gaps}


async def measure(asked: argparse.Namespace) -> list[dict[str, Any]]:
    """`concurrency` workers share the requests."""
    rng = random.Random(asked.seed)
    prompts = [rng.choices(WORDS, k=rng.randint(10, 60)) for _ in range(asked.requests)]
    rows: list[dict[str, Any]] = []
    origin_s = asyncio.get_running_loop().time()
    waiting = iter(prompts)

    async def work() -> None:
        for prompt in waiting:
            tokens = max(2, round(rng.gauss(asked.tokens, asked.tokens / 5)))
            rows.append(await ask(asked.url, prompt, tokens, origin_s))

    await asyncio.gather(*(work() for _ in range(asked.concurrency)))
    facts = {"concurrency": asked.concurrency, "model": "loopback", "tool": "loopback-client"}
    return [row | facts for row in rows]


async def restart(url: str) -> None:
    """Let the server forget everything, as a crash would."""
    reader, writer = await post(f"{url}/restart", b"")
    await reader.read()
    writer.close()


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--tokens", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--crash-if", help="while this file exists, crash the server once and remove the file"
    )
    parser.add_argument("--drop", type=int, default=0, help="leave this many rows out of the file")
    asked = parser.parse_args()
    rows = asyncio.run(measure(asked))
    if asked.crash_if and Path(asked.crash_if).exists():
        Path(asked.crash_if).unlink()
        asyncio.run(restart(asked.url))
    kept = rows[: len(rows) - asked.drop]
    Path(asked.out).write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")
    done = sum(row["error"] is None for row in rows)
    print(f"{done} of {len(rows)} requests completed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
