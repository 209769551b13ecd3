"""What LLMeter writes into one folder, and which files belong together."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from ...model import Load
from .._source import Doc, Source

TTFT_CONTENT = "time_to_first_token: send to first visible content, after any reasoning"
TTFT_ANY = "time_to_first_token: send to first token of any kind, reasoning included"
NO_GAPS = (
    "LLMeter records no gaps between chunks; measure ITL with a tool that writes them,"
    " such as vllm bench serve --save-detailed"
)
NO_RESULT: Mapping[str, str] = {
    "summary": "is the summary of an LLMeter run and holds no latency",
    "config": "is the configuration of an LLMeter run",
}
_NAMES = ("responses.jsonl", "stats.json", "summary.json", "run_config.json")


class Facts(Struct, frozen=True):
    """What the files beside the rows say of the run; empty where there is none."""

    requests: int | None = None  # of the last level
    clients: int | None = None
    planned: int | None = None  # clients x requests of each
    duration_s: float | None = None
    model: str | None = None
    date: str | None = None
    max_retries: int | None = None  # by the SDK, inside a request
    visible_only: bool | None = None  # TTFT waits for visible content
    endpoint: str | None = None  # class of the client

    @property
    def load(self) -> Load | None:
        """Closed loop by the number of clients."""
        return Load(concurrency=self.clients) if self.clients else None


def place(source: Source) -> tuple[str, str] | str:
    """Folder and what stands before the file's usual name; the whole name where it is another."""
    if source.path is None:
        return source.name
    name = source.path.name.removesuffix(".gz")
    for usual in _NAMES:
        if name.endswith(usual):
            return str(source.path.parent), name.removesuffix(usual)
    return str(source.path)


def beside(source: Source, usual: str) -> Doc | None:
    """The object of the run's other file, None where there is none. Raises InputError when it is broken."""
    where = place(source)
    if isinstance(where, str):
        return None
    found = source.beside(where[1] + usual) or source.beside(where[1] + usual + ".gz")
    return None if found is None else found.doc


def facts(source: Source, stats: Doc | None) -> Facts:
    """What stats.json or summary.json, and run_config.json, say. Raises InputError for wrong types."""
    said, config = stats or beside(source, "summary.json"), beside(source, "run_config.json")
    endpoint, state = _endpoint(config)
    each = config.count("n_requests") if config else None
    clients = _first_count("clients", said, config)
    retries, visible = state.get("max_retries"), state.get("ttft_visible_tokens_only")
    return Facts(
        requests=said.count("total_requests") if said else None,
        clients=clients,
        planned=clients * each if clients and each else None,
        duration_s=(said.number("total_test_time") or None) if said else None,
        model=(said.text("model_id") if said else None) or _text(state.get("model_id")),
        date=day((said.text("start_time") if said else None) or ""),
        max_retries=retries if isinstance(retries, int) else None,
        visible_only=visible if isinstance(visible, bool) else None,
        endpoint=endpoint,
    )


def _first_count(key: str, *docs: Doc | None) -> int | None:
    return next((number for doc in docs if doc and (number := doc.count(key)) is not None), None)


def _endpoint(config: Doc | None) -> tuple[str | None, Mapping[str, Any]]:
    """Class and state of the client; until 0.1.12 the state stood where now the class stands too."""
    held = config.any("endpoint") if config else None
    if not isinstance(held, dict):
        return None, {}
    state = held.get("__llmeter_state__", held)
    name = _text(held.get("__llmeter_class__") or held.get("endpoint_type"))
    return (name.rpartition(".")[2] if name else None), state if isinstance(state, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def day(text: str) -> str | None:
    """The day of an ISO time, None for other texts."""
    found = re.match(r"\d{4}-\d{2}-\d{2}", text)
    return found[0] if found else None
