"""Which of AIPerf's files belong to one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from .. import nvidia
from ..source import Source
from . import NOT_RESULTS, kind


def place(source: Source) -> tuple[Path, str]:
    """Folder and prefix that the files of one run share, whatever --profile-export-prefix was."""
    path = source.path or Path(source.name)
    name = nvidia.stem(path.name, ".jsonl", ".json", ".csv") or path.name
    return path.parent, name.removesuffix("_aiperf")


def aggregate_beside(source: Source) -> Source | None:
    """The aggregate of the run whose records `source` holds."""
    prefix = place(source)[1]
    names = (f"{prefix}_aiperf.json", f"{prefix}.json")
    return next((s for s in nvidia.beside(source, *names) if kind(s) == "aggregate"), None)


def companions(sources: Sequence[Source]) -> Mapping[Source, str]:
    """Aggregates of records that are there too, phase copies, time slices, raw responses."""
    kinds = {source: kind(source) for source in sources if source.path is not None}
    covers = {}
    for rank in ("csv", "aggregate", "records"):  # the richest last, so that it stands
        covers.update({place(source): source for source, k in kinds.items() if k == rank})
    results = any(k not in NOT_RESULTS for k in kinds.values())
    found = {}
    for source, k in kinds.items():
        folder, prefix = place(source)
        other = covers.get((folder, prefix), source)
        whole = covers.get((folder.parent.parent, prefix)) if folder.parent.name == "phases" else None
        if k in NOT_RESULTS and results:
            found[source] = f"holds AIPerf's {NOT_RESULTS[k]}, not a result"
        elif k in ("aggregate", "csv") and whole is not None:
            found[source] = f"is the copy for phase {folder.name} of {whole.name}, which is read"
        elif k in ("aggregate", "csv") and other is not source:
            found[source] = f"summarises {other.name}, which is read"
    return found
