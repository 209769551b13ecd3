"""`slo-gate pull`: the metrics that a deployment already exports, as a file that `check` reads."""

from __future__ import annotations

import os
import re
import sys
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from ..errors import Exit, UsageError
from ._lines import tell
from ._shared import named, save

if TYPE_CHECKING:
    from ..live import Pulled

_SPAN = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)\s*(ms|s|m|min|h|d|)")
_SECONDS = {"ms": 1e-3, "s": 1.0, "": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_SHORT_S = 60.0  # windows that are shorter are not independent
_EXITS = """\b
Exit codes:
  0   the file is written
  2   usage error
  3   the server does not answer, refuses, or has no metric of an engine
  70  a bug in slo-gate"""


@click.command(name="pull", epilog=_EXITS)
@click.argument("urls", nargs=-1, metavar="URL...")
@click.option("-o", "--output", default="-", type=named, metavar="FILE", help="Write there. Default: stdout.")
@click.option(
    "--match", default="", metavar="SELECTOR", help="Narrow a server's series: '{pod=~\"canary-.*\"}'."
)
@click.option(
    "--attempted", default="", metavar="COUNTER", help="The gateway's counter of all requests, pulled too."
)
@click.option(
    "--for", "length", metavar="TIME", help="How long: 30m, 2h. Default: 30m of a server, 10m of pages."
)
@click.option("--from", "begin", metavar="TIME", help="Of a server: since when, 2027-01-12T08:00:00Z.")
@click.option("--to", "end", metavar="TIME", help="Of a server: until when. Default: now.")
@click.option("--step", metavar="TIME", help="Of a server: a window. Default: 1m.")
@click.option("--every", metavar="TIME", help="Of pages: how often to look. Default: 1m.")
@click.option("--token-file", type=named, metavar="FILE", help="Holds a bearer token.")
@click.option("--ca-file", type=named, metavar="FILE", help="Certificates of authorities to trust (PEM).")
@click.option(
    "--timeout", type=click.FloatRange(min=0.1), default=10.0, show_default=True, metavar="SECONDS",
    help="For each answer.",
)  # fmt: skip
def command(**options: Any) -> int:
    """Fetch live metrics for `check`: from a Prometheus server, or from engines' /metrics pages.

    URL is a server such as http://prometheus:9090, or one page or more such as http://engine:8000/metrics.
    Credentials are taken from $SLO_GATE_PULL_TOKEN, or $SLO_GATE_PULL_USER and $SLO_GATE_PULL_PASSWORD.
    Nothing is judged here: `slo-gate pull URL | slo-gate check -`.
    """
    from ..live import Client
    from ..live.client import credentials

    urls = options["urls"]
    if not urls:
        raise UsageError("no server is named", "", "name one: `slo-gate pull http://prometheus:9090`")
    known = credentials(os.environ, options["token_file"] or "")
    client = Client(known, timeout_s=options["timeout"], ca_file=options["ca_file"] or "")
    pages = [url for url in urls if urlsplit(url).path.rstrip("/").endswith("/metrics")]
    if pages and len(pages) < len(urls):
        raise UsageError(
            "a server and a page are two ways to measure", urls[0], "name one server, or pages alone"
        )
    if not pages and len(urls) > 1:
        raise UsageError("several servers are named", urls[1], "name one, or pages that end in /metrics")
    pulled = _of_pages(client, options) if pages else _of_server(client, options)
    for note in pulled.notes:
        tell(f"note: {_plain(note)}")
    data = pulled.document() + b"\n"
    if options["output"] == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
    else:
        save(Path(options["output"]), data, "name a file in a folder that exists")
        _told(pulled, options)
    return Exit.PASS


def _of_server(client: Any, options: dict[str, Any]) -> Pulled:
    from ..live import Span, pull_server

    if options["every"]:
        hint = "of a server say --step; the URL of a page ends in /metrics"
        raise UsageError("is for pages, and the URL is that of a server", "--every", hint)
    if options["begin"] and options["length"]:
        raise UsageError("--from and --for say the same twice", "", "leave one out")
    now = round(time.time(), 3)  # as precise as a server answers
    end = _time(options["end"], "--to") if options["end"] else now
    begin = (
        _time(options["begin"], "--from")
        if options["begin"]
        else end - _seconds(options["length"] or "30m", "--for")
    )
    step = _seconds(options["step"] or "1m", "--step")
    if begin + step > end or end > now + 60:
        why = "ends in the future" if end > now + 60 else "is shorter than one step"
        raise UsageError(
            f"what is asked for {why}", "--from, --for, --to", "ask for two steps or more of the past"
        )
    _warn_short(step, "--step")
    span = Span(begin, end, step)
    return pull_server(
        client, options["urls"][0], span, match=options["match"], attempted=options["attempted"]
    )


def _of_pages(client: Any, options: dict[str, Any]) -> Pulled:
    from ..live import Span, pull_pages

    for name, key in (("--match", "match"), ("--from", "begin"), ("--to", "end"), ("--step", "step")):
        if options[key]:
            raise UsageError("only a Prometheus server can answer that", name, "for pages: --every and --for")
    step, length = (
        _seconds(options["every"] or "1m", "--every"),
        _seconds(options["length"] or "10m", "--for"),
    )
    if length < step:
        raise UsageError("is shorter than --every: two looks make a window", "--for", "ask for longer")
    _warn_short(step, "--every")
    begin = round(time.time(), 3)
    span = Span(begin, begin + length, step)
    return pull_pages(client, options["urls"], span, attempted=options["attempted"], progress=_looked)


def _looked(done: int, of: int) -> None:
    """A line that moves, in a terminal alone."""
    if sys.stderr.isatty():
        click.echo("\r\x1b[2K" + (f"look {done} of {of}" if done < of else ""), err=True, nl=False)


def _seconds(text: str, option: str) -> float:
    found = _SPAN.fullmatch(text.strip())
    seconds = float(found[1]) * _SECONDS[found[2]] if found else 0.0
    if not 0 < seconds <= 366 * 86400:
        raise UsageError(f'"{text[:40]}" is no length of time', option, "write it like 90s, 30m or 2h")
    return seconds


def _time(text: str, option: str) -> float:
    """ISO 8601, UTC where no zone is said, or s since 1970; as `history add --time` takes it."""
    if re.fullmatch(r"[0-9]{9,10}(\.[0-9]+)?", text):
        return float(text)
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise UsageError(f'"{text[:40]}" is no time', option, "write it like 2027-01-12T08:00:00Z") from None
    return (found if found.tzinfo else found.replace(tzinfo=timezone.utc)).timestamp()


def _warn_short(step: float, option: str) -> None:
    if step < _SHORT_S:
        tell(f"note: windows under a minute depend on one another: {option} 1m or longer proves more")


def _told(pulled: Pulled, options: dict[str, Any]) -> None:
    import shlex

    looks, output = pulled.looks, shlex.quote(options["output"])
    windows = max(len(looks) - 1, 0)
    tell(
        f"wrote {_plain(options['output'])}: {windows} windows of {len(pulled.answers)} series;"
        f" next: slo-gate check {output}"
    )


def _plain(text: str) -> str:
    from ..units import printable

    return printable(text)
