"""A result of MLPerf Endpoints as a run: every event, or a summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...model import Aggregate, Counts, Evidence, Run, ToolReported
from ..source import Doc, Source
from . import DEFINITIONS, NAME, TITLE, events, facts
from . import kind as kind_of
from .facts import NOT_STREAMED, ONE_CHUNK, PARTIAL, SETTLED_BY

METHOD = 'numpy "lower": sorted[floor(p * (n - 1))] over all completes, failed ones included'
_SIDES = {
    "report": "the printed report",
    "digest": "a digest of a summary",
    "snapshot": "a snapshot of counters",
}
_EVERY = ("ttft", "tpot", "itl", "e2e", "error_rate")
_NO_ITL = "gaps between chunks are in events.jsonl alone, and only with client.stream_all_chunks"
_NO_TOKENS = (
    "events.jsonl has the text of an answer and no token counts; give performance/result_summary.json alone"
    " for the tool's TPOT percentiles"
)


# ---- which files ----------------------------------------------------------------------------


def read(source: Source) -> Sequence[Run]:
    """The one run. Raises InputError when the file is broken, holds none or contradicts itself."""
    kind = kind_of(source)
    if kind == "events":
        return (_read_events(source),)
    if kind == "summary":
        return (_read_summary(source),)
    what = f"holds {_SIDES[kind]}, not a result" if kind else "is not a result of MLPerf Endpoints"
    raise source.fail(what, hint="give events.jsonl or performance/result_summary.json")


def companions(sources: Sequence[Source]) -> Mapping[Source, str]:
    """Summaries whose events are there too, printed reports, digests and snapshots."""
    kinds = {source: kind for source in sources if (kind := kind_of(source))}
    events = {
        source.path.parent: source for source, kind in kinds.items() if kind == "events" and source.path
    }
    results = any(kind not in _SIDES for kind in kinds.values())
    covered = {}
    for source, kind in kinds.items():
        parent = source.path.parent if source.path else None
        other = events.get(parent) or events.get(parent.parent) if parent else None
        if kind in _SIDES and results:
            covered[source] = f"holds {_SIDES[kind]}, not a result"
        elif kind == "summary" and other is not None:
            covered[source] = f"summarises {other.name}, which is read"
    return covered


def _summary_of(source: Source) -> Source | None:
    """The summary of the run whose events `source` holds: beside it or in performance/."""
    if source.path is None:
        return None
    for folder in (source.path.parent, source.path.parent / "performance"):
        for name in ("result_summary.json", "results_summary.json"):
            path = folder / name
            if path.is_file() and kind_of(found := Source(path, str(path))) == "summary":
                return found
    return None


# ---- the summary ---------------------------------------------------------------------------


def _read_summary(source: Source) -> Run:
    if source.shape != "object":
        raise source.fail("holds several JSON objects", hint="give the file as the tool wrote it")
    doc = source.doc
    counts = facts.counts(doc)
    blocks = {metric: facts.block(doc, key) for metric, key in facts.BLOCKS.items()}
    summaries = {metric: facts.stats(doc, metric, block) for metric, block in blocks.items() if block}
    unsuitable = {"itl": _NO_ITL, **facts.unsuitable(doc, counts, blocks)}
    tokens, token_notes = facts.tokens(doc, counts)
    issued, completes, failed = (
        doc.count(f"n_samples_{what}") or 0 for what in ("issued", "completed", "failed")
    )
    notes = []
    if failed or issued != completes:
        notes.append(
            f"{counts.failed} failed: the tool counts {issued} issued, {completes} completed (failed ones"
            f" included) and {failed} failed; slo-gate counts {counts.completed} completed, since a sample"
            " without an answer is a failure too"
        )
    return _run(
        source,
        "summary",
        doc,
        Aggregate(summaries, "linear", settled_by=SETTLED_BY),  # "lower" lies within what linear allows
        counts,
        unsuitable,
        duration_s=facts.duration(doc),
        tokens=tokens,
        notes=(*notes, *token_notes, *facts.early_stopping(blocks), *facts.clock(doc)),
    )


# ---- the events -----------------------------------------------------------------------------


def _read_events(source: Source) -> Run:
    table = events.read(source)
    beside = _summary_of(source)
    doc = beside.doc if beside else None
    notes = table.notes
    if doc is not None and doc.count("n_samples_issued") != table.issued:
        raise source.fail(
            f"contradicts {doc.source.name}: {table.issued} samples issued here,"
            f" {doc.count('n_samples_issued')} there",
            hint="keep the files of one run together",
        )
    if doc is not None and (failed := doc.count("n_samples_failed")) != table.counts.failed:
        notes += (f"the tool counts {failed} failed, slo-gate {table.counts.failed}: no answer is a failure",)
    unsuitable = {"tpot": _NO_TOKENS}
    if not table.has_gaps:
        unsuitable["itl"] = _NO_ITL
    if table.rows.ttft_s is None:
        unsuitable |= dict.fromkeys(("ttft", "tpot"), NOT_STREAMED.format("sample.recv_first"))
    elif table.one_chunk:
        unsuitable |= {"ttft": ONE_CHUNK, "tpot": ONE_CHUNK}
    if table.interrupted:
        unsuitable = dict.fromkeys(_EVERY, PARTIAL.format("interrupted", False))
    tokens, token_notes = facts.tokens(doc, table.counts) if doc else (None, ())
    return _run(
        source,
        "events",
        doc,
        table.rows,
        table.counts,
        unsuitable,
        duration_s=table.duration_s,
        tokens=tokens,
        notes=(*notes, *token_notes),
    )


# ---- both -----------------------------------------------------------------------------------


def _run(
    source: Source,
    kind: str,
    doc: Doc | None,
    evidence: Evidence,
    counts: Counts,
    unsuitable: Mapping[str, str],
    *,
    duration_s: float | None,
    tokens: float | None,
    notes: tuple[str, ...],
) -> Run:
    digest = facts.digest(source, counts.attempted)
    load, load_notes = facts.load(doc, digest)
    version = doc.text("version") if doc else None
    sha = doc.text("git_sha") if doc else None
    blocks = {metric: facts.block(doc, key) for metric, key in facts.BLOCKS.items()} if doc else {}
    reported = {m: facts.stats(doc, m, block) for m, block in blocks.items() if doc and block}
    return Run(
        input=source.name,
        sha256=source.sha256,
        format=f"{NAME} {kind}",
        tool=TITLE,
        evidence=evidence,
        counts=counts,
        tool_version=f"{version} ({sha})" if version and sha else version,
        model=facts.model(source),
        hardware=digest.node_config,
        load=load,
        duration_s=duration_s,
        date=digest.run_date,
        total_output_tokens=tokens,
        streaming=False if unsuitable.get("ttft", "").startswith(NOT_STREAMED[:3]) else None,
        definitions=DEFINITIONS,
        tool_reported={m: ToolReported(s.percentiles, METHOD, s.mean) for m, s in reported.items()},
        unsuitable=unsuitable,
        notes=(*notes, *load_notes),
    )
