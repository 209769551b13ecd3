"""What is printed for people: a line at a time, with nothing in it that drives a terminal or a CI runner."""

from __future__ import annotations

import click

from .. import disk


def show(*lines: str) -> None:
    """Lines on stdout, whoever wrote what stands in them (a path, a policy, an API): one line stays one."""
    from ..emit.format import plain

    for line in lines:
        text = line.lstrip(" ")
        click.echo(" " * (len(line) - len(text)) + plain(text))


def complain(message: str, where: str, hint: str) -> None:
    """An error on stderr: what, where, and what to do next."""
    from ..units import printable

    first, *rest = message.splitlines() or [""]
    lead = f"error: {printable(where)}: " if where else "error: "
    tell(lead + printable(first))
    for line in rest:  # never at the start of a line: a CI system may read commands there
        tell(f"  - {printable(line)}")
    if hint:
        tell(f"hint: {printable(hint)}")


def tell(line: str) -> None:
    """A line on stderr; on stdout where stderr goes to a file that is read, and nowhere where both do."""
    aside = disk.is_read(disk.stream("stderr"))
    if not (aside and disk.is_read(disk.stream("stdout"))):
        click.echo(line, err=not aside)
