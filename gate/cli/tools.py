"""`slo-gate tools`: which result files are read, what each can prove, and each tool's own definitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from ..errors import Exit
from ._completing import completed, tools
from ._shared import columns

if TYPE_CHECKING:
    from ..readers import Reader


@click.command(name="tools")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=completed(tools))
@click.option("-v", "--verbose", is_flag=True, help="Show of every tool what NAME shows of one.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def command(names: Sequence[str], verbose: bool, as_json: bool, debug: bool) -> int:
    """List the result files that are read, and what TTFT, TPOT, ITL and E2E mean in each tool."""
    from .. import readers

    chosen = [readers.by_name(name, "slo-gate tools") for name in names] or readers.READERS
    text = _text if names or verbose else _brief
    click.echo(_json(chosen) if as_json else "\n".join(text(chosen)))
    return Exit.PASS


def _json(readers: Sequence[Reader]) -> str:
    import json

    from msgspec import to_builtins

    from ..readers.files import SIDE_FILES
    from ..readers.formats import definitions, formats, running

    tools = [
        {
            "name": reader.NAME,
            "title": reader.TITLE,
            **dict(zip(("run_with", "pass_on"), running(reader), strict=True)),
            "formats": to_builtins(formats(reader)),
            "definitions": dict(definitions(reader)),
            "side_files": dict(SIDE_FILES.get(reader.NAME, {})),
        }
        for reader in readers
    ]
    return json.dumps({"schema_version": 1, "tools": tools}, indent=2, ensure_ascii=False)


def _brief(readers: Sequence[Reader]) -> Iterator[str]:
    from ..emit.layout import prose
    from ..readers.formats import running

    size, width = max(len(reader.NAME) for reader in readers), max(60, columns())
    yield f"{'tool':{size}}  run it with"
    for reader in readers:
        yield from prose(_plain(running(reader)[0]), width, f"{reader.NAME:{size}}  ")
    yield from (
        "",
        "`slo-gate tools NAME`: the files to pass, what they prove, and what TTFT and TPOT mean there",
    )


def _text(readers: Sequence[Reader]) -> Iterator[str]:
    from ..emit.layout import prose
    from ..model import METRICS
    from ..readers.formats import definitions, formats, running

    width = max(60, columns())
    for number, reader in enumerate(readers):
        if number:
            yield ""
        yield from prose(reader.TITLE, width, f"{reader.NAME}  ")
        for lead, text in zip(("run with", "pass"), running(reader), strict=True):
            yield from prose(_plain(text), width, f"  {lead:17}")
        for one in formats(reader):
            yield from prose(f"{_plain(one.files)}: {one.evidence}", width, "  ")
            yield from prose(_plain(one.reads), width, "    reads          ")
            yield from prose(_plain(one.cannot), width, "    cannot judge   ")
            yield from prose(_plain(one.traps), width, "    traps known    ")
        own = definitions(reader)
        if own:
            yield "  its own definitions"
        for metric in METRICS:
            if metric in own:
                yield from prose(own[metric], width, f"    {metric.upper():15}")


def _plain(text: str) -> str:
    """A cell of the docs, without the marks of Markdown."""
    return text.replace("`", "")
