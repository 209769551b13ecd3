"""A file of inference-perf as runs, one a stage."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ...model import Load, Run
from ..source import Source
from . import DEFINITIONS, NAME, NOT_RESULTS, aggregate, files, kind, requests
from .files import REQUESTS, place


def read(source: Source) -> Sequence[Run]:
    """One Run a stage. Raises InputError for a file that is broken or contradicts itself."""
    found = kind(source)
    if found == "requests" or (found is None and source.shape == "array"):
        return requests.read(source)
    if found in ("stage", "summary"):
        return [_aggregate(source, found)]
    if fault := source.fault():
        raise fault
    what = f"holds inference-perf's {NOT_RESULTS[found]}, not a result" if found else "is not a result of it"
    raise source.fail(what, hint=f"give {REQUESTS} or stage_N_lifecycle_metrics.json")


def companions(sources: Sequence[Source]) -> Mapping[Source, str]:
    """Aggregates of requests or stages that are there too; what is no result where there is one."""
    kinds = {source: kind(source) for source in sources}
    results = any(k not in NOT_RESULTS for k in kinds.values())
    there = {(k, place(source)): source for source, k in kinds.items()}
    found = {}
    for source, k in kinds.items():
        rows = there.get(("requests", place(source)))
        if k in NOT_RESULTS and results:
            found[source] = f"holds inference-perf's {NOT_RESULTS[k]}, not a result"
        elif k in ("stage", "summary") and rows is not None:
            found[source] = f"summarises {rows.name}, which is read"
        elif k == "summary" and ("stage", place(source)) in there:
            found[source] = "it pools the stages, which are read one by one"
    return found


def _aggregate(source: Source, found: str) -> Run:
    told = aggregate.told(source)
    load, pooled = (
        (aggregate.load(source, told), False) if found == "stage" else _load_of_summary(source, told)
    )
    config, counts = files.config_beside(source), told.counts
    constraints = config.report.goodput.constraints if config.report and config.report.goodput else None
    number = re.search(r"stage_(\d+)_", source.path.name if source.path else source.name)
    reasons = aggregate.unsuitable(told, pooled=pooled)
    return Run(
        input=source.name,
        sha256=source.sha256,
        format=f"inference-perf {found}",
        tool=NAME,
        evidence=aggregate.evidence(source, told),
        counts=counts,
        model=config.server.model_name if config.server else None,
        load=load,
        duration_s=told.duration_s,
        date=files.day_beside(source, int(number[1]) if number else 0),
        total_output_tokens=aggregate.output_tokens(told) if counts.completed else None,
        streaming=bool(told.stat("ttft")) if counts.completed else None,
        definitions=DEFINITIONS,
        tool_reported=aggregate.reported(told),
        unsuitable=reasons,
        notes=(
            *aggregate.failure_note(told),
            *aggregate.token_notes(told),
            *config.retry_note(),
            *aggregate.notes(told, counts, constraints),
            *((aggregate.POOLED,) if pooled else ()),
        ),
    )


def _load_of_summary(source: Source, told: aggregate.Told) -> tuple[Load | None, bool]:
    """The load of the only stage, and whether there may be others."""
    stages = files.stages_beside(source)
    if len(stages) == 1:
        stage = aggregate.told(stages[0])
        if stage.counts == told.counts:
            return aggregate.load(stages[0], stage), False
    declared = files.config_beside(source).stages()
    if not stages and len(declared) == 1:
        return declared[0].load(), False
    return None, True
