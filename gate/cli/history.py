"""`slo-gate history`: what sessions measured, remembered over commits."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..errors import Exit, UsageError
from ._groups import Helpful
from ._history import (
    HOW_ADDED,
    now,
    place,
    read_report,
    refuse_request,
    store_of,
    store_option,
    utc,
    why_not_written,
)
from ._lines import show, tell
from ._noise import command as noise
from ._shared import aligned, as_json, columns, named

if TYPE_CHECKING:
    from ..history import History
    from ..model import HistoryLine, SessionRecord

_JSON = click.option("--json", "json", is_flag=True, help="Print JSON.")
_DEBUG = click.option("--debug", is_flag=True, help="Show tracebacks.")
_SHORT = 12  # digits of a commit


@click.group(name="history", cls=Helpful)
def command() -> None:
    """Remember what sessions measured, over commits."""


_AUTO = "Add on a push to the default branch alone, as the CI job says; else say why not, and exit 0."
_WHEN = "When it was measured, ISO 8601. Default: now."


@command.command(name="add")
@click.argument("reports", nargs=-1, required=True, type=named)
@store_option
@click.option("--commit", metavar="SHA", help="What was measured. Default: as CI or git says.")
@click.option("--branch", metavar="NAME", help="Of which branch. Default: as CI or git says.")
@click.option("--time", "time", metavar="TIME", help=_WHEN)
@click.option(
    "--tag", "tags", multiple=True, metavar="NAME", help="A release, or any mark; may be given again."
)
@click.option("--auto", is_flag=True, help=_AUTO)
@_DEBUG
def history_add(reports: Sequence[str], **options: Any) -> int:
    """Add sessions: reports of `check --json`.

    REPORTS are files that `slo-gate check RESULTS --json FILE` wrote.
    """
    from ..history import add, record_of

    if options["auto"] and (why := why_not_written(os.environ)):
        show(f"nothing added: {why}")
        return Exit.PASS
    saved = [(path, read_report(path)) for path in reports]
    where = place(options["commit"], options["branch"], os.environ)
    time = utc(options["time"], "--time") if options["time"] else now()
    store = store_of(options["store"])
    records = [
        record_of(data, where.commit, where.branch, time, options["tags"], path=path) for path, data in saved
    ]
    new, there = add(store, records)
    again = f", {there} there already" if there else ""
    show(f"{store.name}: {_number(new)} of {where.commit[:_SHORT]} ({where.branch}) added{again}")
    return Exit.PASS


@command.command(name="list")
@store_option
@click.option("--branch", metavar="NAME", help="Only sessions of this branch.")
@click.option("--last", type=click.IntRange(1), metavar="N", help="Only the newest N.")
@_JSON
@_DEBUG
def history_list(store: str | None, branch: str | None, last: int | None, json: bool, debug: bool) -> int:
    """List the sessions of a store, and which a baseline leaves out."""
    held, history = _loaded(store)
    records = [one for one in history.records if branch in (None, one.branch)]
    records = records[-last:] if last else records
    if json:
        sessions = [_summary(one, history) for one in records]
        click.echo(as_json({"sessions": sessions, "notes": list(history.notes)}))
        return Exit.PASS
    _tell(held, history)
    if not records:
        show(f"{held}: no session{f' of {branch}' if branch else ''}; {HOW_ADDED}")
        return Exit.PASS
    show(*_table(records, history))
    left = sum(bool(history.why_left_out(one)) for one in records)
    show("", f"{_number(len(records))}, {len(records) - left} of them for a baseline")
    return Exit.PASS


@command.command(name="show")
@click.argument("commit")
@store_option
@_JSON
@click.option("-v", "--verbose", is_flag=True, help="Show every line.")
@_DEBUG
def history_show(commit: str, store: str | None, json: bool, verbose: bool, debug: bool) -> int:
    """Show the sessions of COMMIT, or the one whose id begins like that."""
    from msgspec import to_builtins

    from ..emit.layout import capped

    held, history = _loaded(store)
    records = _of(commit, held, history)
    if json:
        click.echo(as_json({"sessions": [_plain(to_builtins(one)) for one in records]}))
        return Exit.PASS
    _tell(held, history)
    lines = [line for record in records for line in ("", *_shown(record, history))][1:]
    show(*(lines if verbose else capped(lines, columns())))
    return Exit.PASS


@command.command(name="accept")
@click.argument("commit")
@click.option("--reason", default="", metavar="TEXT", help="Why it is fit for a baseline.")
@store_option
@_DEBUG
def history_accept(commit: str, reason: str, store: str | None, debug: bool) -> int:
    """Take the sessions of COMMIT that are left out into the baseline."""
    from ..history import add, load
    from ..model import HISTORY_VERSION, Acceptance

    refuse_request(os.environ, "accepts no session")
    found = store_of(store)
    history = load(found)
    records = _of(commit, found.name, history)
    if others := [history.again[one.id] for one in records if one.id in history.again]:
        why = f"holds runs of the session of {others[0]}, which is newer and counts"
        raise UsageError(why, commit, f"accept {others[0]}")
    records = [one for one in records if history.why_left_out(one)]
    if not records:
        show(f"{found.name}: nothing of {commit} is left out of a baseline")
        return Exit.PASS
    line = Acceptance(
        schema_version=HISTORY_VERSION,
        time=max(now(), *(one.time for one in records)),  # a reader from the newest end meets it first
        commit=records[0].commit,
        sessions=tuple(one.id for one in records),
        reason=reason,
    )
    add(found, [line])
    show(f"{found.name}: {_number(len(records))} of {records[0].commit[:_SHORT]} accepted")
    for one in records:
        show(f"  {one.id[:_SHORT]} was left out: {history.why_left_out(one)}")
    return Exit.PASS


@command.command(name="prune")
@click.option(
    "--keep", type=click.IntRange(1), required=True, metavar="N", help="Of each branch, the newest N."
)
@store_option
@_DEBUG
def history_prune(keep: int, store: str | None, debug: bool) -> int:
    """Take old sessions out of a store."""
    from ..history import load, name_of

    refuse_request(os.environ, "prunes no history")
    found = store_of(store)
    history = load(found)
    counted: dict[str, int] = {}
    old = []
    for record in reversed(history.records):
        counted[record.branch] = counted.get(record.branch, 0) + 1
        if counted[record.branch] > keep:
            old.append(record)
    gone = {one.id for one in (*old, *history.twice)}
    lines: list[HistoryLine] = [*old, *history.twice]
    lines += (one for one in history.acceptances if gone.issuperset(one.sessions))
    found.remove([name_of(one) for one in lines])
    show(f"{found.name}: {_number(len(old))} taken out, {len(history.records) - len(old)} kept")
    return Exit.PASS


_FORMATS = "parquet needs the extra `columnar` and a file."


@command.command(name="export")
@click.option("--format", "format_", type=click.Choice(("csv", "parquet")), required=True, help=_FORMATS)
@click.option("-o", "--output", type=named, metavar="FILE", help="Write to FILE; parquet needs it.")
@store_option
@_DEBUG
def history_export(format_: str, output: str | None, store: str | None, debug: bool) -> int:
    """Write one row per run of every session, for other tools."""
    from pathlib import Path

    from ..history import export
    from ._shared import save

    if format_ == "parquet" and output is None:
        raise UsageError("parquet is no text", "slo-gate history export", "name a file with --output")
    held, history = _loaded(store)
    data = export.FORMATS[format_](history)
    if output is None:
        click.echo(data.decode(), nl=False)
    else:
        save(Path(output), data, "name a file in a folder that can be written")
        runs = sum(len(one.runs) for one in history.records)
        show(f"{output}: {runs} runs of {_number(len(history.records))}")
    _tell(held, history)
    return Exit.PASS


# ---- what is shown -----------------------------------------------------------------------------


def _loaded(store: str | None) -> tuple[str, History]:
    from ..history import load

    found = store_of(store)
    return found.name, load(found)


def _tell(held: str, history: History) -> None:
    from ..units import printable

    for note in history.notes:
        tell(f"note: {printable(f'{held}: {note}')}")


def _of(commit: str, held: str, history: History) -> list[SessionRecord]:
    begun = commit.lower()
    found = [one for one in history.records if begun and one.commit.startswith(begun)]
    found = found or [one for one in history.records if begun and one.id.startswith(begun)]
    if not found:
        listed = f"`{shlex.join(('slo-gate', 'history', 'list', '--store', held))}` shows those there are"
        hint = listed if history.records else HOW_ADDED
        raise UsageError(f'holds no session of "{commit}"', held, hint)
    if len({one.commit for one in found}) > 1:
        raise UsageError(f'"{commit}" begins several commits', held, "write more of it")
    return found


def _number(sessions: int) -> str:
    return f"{sessions} session{'s' * (sessions != 1)}"


def _summary(record: SessionRecord, history: History) -> dict[str, Any]:
    """A session in a list; all of it is in `history show`."""
    judged = [run for run in record.runs if run.at_target]
    counts = [run.counts for run in judged if run.counts]
    known = len(counts) == len(judged)
    return {
        **{name: getattr(record, name) for name in ("id", "time", "commit", "branch", "tags")},
        "verdict": record.verdict.value,
        "policy": record.policy.name,
        "profile": record.policy.profile,
        "runs": len(record.runs),
        "judged": len(judged),
        "attempted": sum(one.attempted for one in counts) if known else None,
        "failed": sum(one.failed for one in counts) if known else None,
        "left_out": history.why_left_out(record) or None,
        "accepted": record.id in history.accepted,
    }


def _table(records: Sequence[SessionRecord], history: History) -> Iterator[str]:
    from ..emit.layout import prose

    rows = [("time", "commit", "branch", "verdict", "runs", "baseline")]
    for one in records:
        why = history.why_left_out(one)
        used = "left out" if why else "accepted" if one.id in history.accepted else "yes"
        time = one.time.replace("T", " ").removesuffix("Z")
        tags = f" {','.join(one.tags)}" if one.tags else ""
        rows.append(
            (time, one.commit[:_SHORT] + tags, one.branch, one.verdict.value, str(len(one.runs)), used)
        )
    head, *lines = aligned([[" ".join(cell.split()) for cell in row] for row in rows], {4})
    yield head
    for one, line in zip(records, lines, strict=True):
        yield line
        if why := history.why_left_out(one):
            yield from prose(why, columns(), "    ")


def _shown(record: SessionRecord, history: History) -> Iterator[str]:
    from ..emit.layout import table
    from ..emit.tables import Table
    from ..units import RATIO, SECONDS, SHARE, show as shown

    policy = record.policy
    profile = f", profile {policy.profile}" if policy.profile else ""
    yield f"{record.commit} ({record.branch}), {record.time}"
    yield f"  id        {record.id}"
    if record.tags:
        yield f"  tags      {', '.join(record.tags)}"
    yield f"  verdict   {record.verdict.value}, exit code {record.exit_code}, by {policy.name}{profile}"
    yield f"  policy    {policy.sha256}"
    yield f"  report    {record.report_sha256}"
    why = history.why_left_out(record)
    yield f"  baseline  {f'left out: {why}' if why else 'yes'}"
    rows = [("objective", "level", "verdict", "observed")]
    for one in record.objectives:
        unit = SHARE if one.unit == RATIO else one.unit  # of growth: its rule says percent too
        seen = shown(one.observed, unit) if one.observed is not None else "-"
        rows.append((one.id, one.level.value, one.verdict.value + (", waived" if one.waived else ""), seen))
    yield from aligned(rows, set())
    rows_ = [("load", "failed", "goodput", "P99 TTFT", "P99 TPOT", "P99 E2E", "input")]
    for run in record.runs:
        failed = f"{run.counts.failed:,} of {run.counts.attempted:,}" if run.counts else "-"
        share = shown(run.goodput, SHARE) if run.goodput is not None else "-"
        found = (run.metrics.get(f"{name}_s") for name in ("ttft", "tpot", "e2e"))
        p99 = [shown(one.p99, SECONDS) if one and one.p99 is not None else "-" for one in found]
        load = str(run.load) if run.load else "-"
        rows_.append((load, failed, share, p99[0], p99[1], p99[2], run.input))
    yield from table(Table(rows_[0], tuple(rows_[1:]), frozenset(rows_[0][1:-1])), columns())


def _plain(value: Any) -> Any:
    """Without what is null."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if item is not None}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


command.add_command(noise)
