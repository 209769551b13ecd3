"""How the rules are broken in scrapes of a server and its gateway."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.readers.rules import Change, Form
from tests.readers.scrapes import BEGAN, SGLANG, TOKENS, N, engine, gateway, save

NAMES = ["scrape-1795961600.prom", "scrape-1795961780.prom"]
E2E = r"vllm:e2e_request_latency_seconds"
TTFT = r"vllm:time_to_first_token_seconds"
TPOT = r"vllm:request_time_per_output_token_seconds"


def write(folder: Path) -> Sequence[str]:
    for times, name in enumerate(NAMES, 1):
        save(folder, name, engine(times) + gateway(times))
    return NAMES


def second(change: Callable[[str], str]) -> Change:
    """The later scrape with `change` applied to it."""
    return lambda folder: change_of(folder / NAMES[1], change)


def both(change: Callable[[str], str]) -> Change:
    def apply(folder: Path) -> None:
        for name in NAMES:
            change_of(folder / name, change)

    return apply


def change_of(path: Path, change: Callable[[str], str]) -> None:
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")


def value(series: str, number: float) -> Callable[[str], str]:
    """A scrape with the values of these series replaced."""
    return lambda text: re.sub(rf"(?m)^({series}\{{[^\n]*\}}) \S+$", rf"\g<1> {number}", text)


def outcomes(**counts: int) -> Change:
    """What became of the requests of the window."""
    total = {"stop": 700, "length": 130, "abort": 0}

    def apply(folder: Path) -> None:
        later = {reason: total[reason] + counts.get(reason, 0) for reason in total}
        save(folder, NAMES[1], engine(2, outcomes={k: v / 2 for k, v in later.items()}) + gateway(2))

    return apply


def without(*words: str) -> Callable[[str], str]:
    """A scrape without the lines that hold one of these words."""
    return lambda text: "".join(
        line for line in text.splitlines(True) if not any(word in line for word in words)
    )


def as_whole(tpot_s: float) -> Change:
    """On average TTFT takes as long as E2E."""

    def apply(folder: Path) -> None:
        for times, name in enumerate(NAMES, 1):
            text = (folder / name).read_text(encoding="utf-8")
            e2e = re.search(rf"{E2E}_sum\{{[^\n]*\}} (\S+)", text)
            assert e2e is not None
            text = value(f"{TTFT}_sum", float(e2e[1]))(text)
            save(folder, name, value(f"{TPOT}_sum", times * N * tpot_s)(text))

    return apply


def unstreamed(folder: Path) -> None:
    for times, name in enumerate(NAMES, 1):
        text = engine(times, tool=SGLANG, labels='is_streaming="false",')
        save(folder, name, text + gateway(times))


def no_sum(folder: Path) -> None:
    """Every TTFT of the window is 0."""
    change_of(folder / NAMES[0], value(f"{TTFT}_sum", 30.0))
    change_of(folder / NAMES[1], value(f"{TTFT}_sum", 30.0))


KINDS = {
    "scrapes": Form(
        write,
        ("ttft.p50", "tpot.p50", "e2e.p50", "error_rate", "goodput"),
        {
            "lost rows": lambda folder: save(folder, NAMES[1], engine(2) + gateway(4)) and None,
            "lost rows: restart": lambda folder: (
                save(folder, NAMES[1], engine(2, began=BEGAN + 700) + gateway(2)) and None
            ),
            "lost rows: no counter": both(without("gateway_requests_total")),
            "counts": second(value(f"{E2E}_count", 1)),
            "failed": outcomes(stop=423, length=130, abort=277),
            "all failed": outcomes(abort=N),
            "zero tokens": second(value("vllm:generation_tokens_total", TOKENS)),
            "null tokens": both(without("generation_tokens", TTFT, TPOT)),
            "half the tokens": second(value("vllm:generation_tokens_total", TOKENS + N // 2)),
            "one burst": as_whole(2e-6),
            "one burst: no time at all": as_whole(0.0),
            "not streamed": unstreamed,
            "zero time": no_sum,
            "negative time": second(value(f"{E2E}_sum", 1.0)),
            "falling percentiles": second(
                lambda text: re.sub(rf'({TTFT}_bucket\{{le="0.1".*\}}) \S+', r"\1 1", text)
            ),
        },
        {
            "token totals": "has one count of tokens",
            "cut rows": "has no single answer",
            "tool's verdict": "is no benchmark, and has no word on one",
            "retries": "counts a request that is sent again as one more",
            "retried": "counts a request that is sent again as one more",
            "several loads": "is the traffic there was, which is one load",
            "repetitions": "is no benchmark",
            "summary alone": "is one kind of file",
        },
        attempted="gateway_requests_total",
    ),
}
