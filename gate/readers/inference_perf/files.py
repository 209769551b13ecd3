"""Which of inference-perf's files belong to one run, and what they say of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import msgspec

from ...model import Load
from ..source import BROKEN, Source

REQUESTS = "per_request_lifecycle_metrics.json"
_TAILS = re.compile(r"(?:stage_-?\d+|summary|per_request)_lifecycle_metrics\.json(?:\.gz)?$")
_MOST_STAGES = 1000
_Sane = Annotated[float, msgspec.Meta(le=1e9)]


class Stage(msgspec.Struct):
    """One load point as the configuration declares it."""

    rate: Annotated[float, msgspec.Meta(le=1e9)] | None = (
        None  # requests/s; of a concurrent load it is filled with num_requests
    )
    duration: Annotated[float, msgspec.Meta(le=1e9)] | None = None  # s
    num_requests: int | None = None
    concurrency_level: int | None = None

    def requests(self) -> int | None:
        """How many requests it sends."""
        if self.concurrency_level is not None:
            return self.num_requests
        if self.rate is None or self.duration is None:
            return None
        return round(self.rate * self.duration)

    def load(self) -> Load | None:
        """By concurrency where there is one: its rate means nothing."""
        if self.concurrency_level:
            return Load(concurrency=self.concurrency_level)
        return Load(request_rate=self.rate) if self.rate is not None and self.rate > 0 else None


class _Load(msgspec.Struct):
    stages: list[Stage] = []
    sweep: Any = None
    request_retries: int = 0


class _Server(msgspec.Struct):
    model_name: str | None = None


class _Goodput(msgspec.Struct):
    constraints: dict[str, float] | None = None


class _Report(msgspec.Struct):
    goodput: _Goodput | None = None


class Config(msgspec.Struct):
    """The part of config.yaml that says what was measured."""

    load: _Load | None = None
    server: _Server | None = None
    report: _Report | None = None

    def stages(self) -> list[Stage]:
        """Declared stages; none where a sweep chose them."""
        return self.load.stages if self.load and self.load.sweep is None else []

    def retry_note(self) -> tuple[str, ...]:
        """What a retry hides: a request is failed only when its last try is."""
        tries = self.load.request_retries if self.load else 0
        return (f"inference-perf was set to retry a failed request {tries} times",) if tries else ()


def place(source: Source) -> tuple[Path, str]:
    """Folder and `report_file_prefix` that the files of one run share."""
    path = source.path or Path(source.name)
    found = _TAILS.search(path.name)
    return path.parent, path.name[: found.start()] if found else path.name


def stages_beside(source: Source) -> list[Source]:
    """The stage files of the run, in order."""
    prefix, found = place(source)[1], []
    for number in range(_MOST_STAGES):
        name = f"{prefix}stage_{number}_lifecycle_metrics.json"
        stage = source.beside(name) or source.beside(f"{name}.gz")
        if stage is None:
            break
        found.append(stage)
    return found


def config_beside(source: Source) -> Config:
    """What config.yaml beside it says; nothing where it is not there or not what inference-perf writes."""
    prefix = place(source)[1]
    file = source.beside(f"{prefix}config.yaml") or source.beside("config.yaml")
    if file is None:
        return Config()
    import yaml  # not at start-up: only this tool's side file needs it

    try:
        return msgspec.convert(yaml.safe_load(bytes(file.data)), Config)
    except (*BROKEN, yaml.YAMLError, ValueError, TypeError):
        return Config()  # it only adds facts: the results do not depend on it


def day_beside(source: Source, number: int) -> str | None:
    """The day of a stage: only the partial llm-d report has a wall clock."""
    file = source.beside(f"{place(source)[1]}inference-perf.partial.stage_{number}.yaml")
    found = re.search(r"^\s+start: '?(\d{4}-\d\d-\d\d)T", file.head, re.MULTILINE) if file else None
    return found[1] if found else None
