"""`slo-gate trend`: what the sessions of a store say over commits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ..errors import Exit, InputError, UsageError
from ._shared import as_json, columns, named, save

if TYPE_CHECKING:
    from ..model import SessionRecord, Trend

_EXITS = """\b
Exit codes:
  0   shown, whatever moved: a trend gates nothing
  2   usage error
  3   the store cannot be read, or holds no session of the branch"""
_FORMATS = click.Choice(("text", "markdown", "json"))


@click.command(name="trend", epilog=_EXITS)
@click.argument("store", type=named, required=False)
@click.option("--branch", metavar="NAME", help="Whose sessions. Default: main, else the one that has most.")
@click.option("--last", type=click.IntRange(1), metavar="N", help="The newest N sessions alone.")
@click.option(
    "--format", "format_", type=_FORMATS, default="text", show_default=True, help="What goes to stdout."
)
@click.option(
    "--html", type=named, metavar="FILE", help="Also write a page with charts (extra slo-gate[report])."
)
@click.option("-v", "--verbose", is_flag=True, help="Show every line.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def command(**options: Any) -> int:
    """Show figures, change points and failures over commits; STORE is that of the policy by default."""
    from ..advise.trend import trend
    from ..emit import page

    if options["html"]:
        page.warm_up()
    held = sessions_of(options["store"], options["branch"], options["last"])
    found = trend(held.records, held.branch, held.left_out, held.notes)
    if options["html"] == "-":
        raise UsageError("a page goes to a file", "--html", "name one: `--html trend.html`")
    if options["html"]:
        save(Path(options["html"]), page.emit_trend(found).encode(), "name another file")
    click.echo(_shown(found, options), nl=False)
    return Exit.PASS


def _shown(found: Trend, options: dict[str, Any]) -> str:
    if options["format_"] == "json":
        from msgspec import to_builtins

        return as_json(to_builtins(found)) + "\n"
    from ..emit import trend as emitter

    if options["format_"] == "markdown":
        return emitter.markdown(found)
    from ._shared import blocks

    return emitter.text(found, width=max(60, columns()), unicode=blocks(), verbose=options["verbose"])


class Held(NamedTuple):
    """What a store holds of one branch, by time."""

    store: str
    branch: str
    records: Sequence[SessionRecord]
    left_out: Mapping[str, str]  # why no baseline has a session, by id
    notes: tuple[str, ...]


def sessions_of(name: str | None, branch: str | None, last: int | None = None) -> Held:
    """The sessions of a branch: by default main, else the one that has most.

    Raises UsageError where no store is known, and InputError where it has no session of the branch.
    """
    from ..history import load
    from ._history import HOW_ADDED, store_of

    store = store_of(name, "name one: a folder, git:BRANCH, or a URL such as s3://bucket/path")
    history = load(store)
    counted = Counter(record.branch for record in history.records)
    branch = branch or ("main" if counted["main"] else _most(counted))
    if not counted[branch]:
        held = ", ".join(f"{number} of {one}" for one, number in sorted(counted.items()) if number)
        hint = f"it holds {held}" if held else HOW_ADDED
        raise InputError(f"no session{f' of {branch}' if branch else ''} is there", store.name, hint)
    records = [one for one in history.records if one.branch == branch and one.id not in history.again]
    notes = list(history.notes)
    if again := counted[branch] - len(records):
        notes.append(f"{again} session{'s' * (again > 1)} left out: runs of a newer session are in it")
    records = records[-(last or 0) :]
    left_out = {one.id: why for one in records if (why := history.why_left_out(one))}
    return Held(store.name, branch, records, left_out, tuple(notes))


def _most(counted: Counter[str]) -> str:
    return min(counted, key=lambda one: (-counted[one], one), default="")
