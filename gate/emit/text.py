"""The report for a terminal and a CI log: plain ASCII layout, first line the decision.

The three lead lines are never wrapped, so `head -3` is the summary. Prose below is wrapped at
`width`; a table that does not fit becomes one block a row. No name and no number is ever cut.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..model import AnyReport, Check, ErrorReport, Report
from . import attribution as a, bars as b, format as f, tables as t
from .layout import GAP, prose, table

_STYLES = {
    "bold red": "FAIL|ERROR",
    "bold magenta": "INCONCLUSIVE",
    "bold yellow": "WARN|WAIVED",
    "bold green": "PASS",
    "dim": "SKIPPED|INFO",
}


def emit(report: AnyReport, *, color: bool = False, width: int = 100, unicode: bool = False) -> str:
    """The report as text with a trailing newline.

    `color` adds ANSI colours to the verdict words, `unicode` draws bars with blocks instead of ASCII.
    """
    lines = _error(report, width) if isinstance(report, ErrorReport) else _report(report, width, unicode)
    text = "".join(line.rstrip() + "\n" for line in lines)
    return _colored(text) if color else text


def _report(report: Report, width: int, unicode: bool) -> list[str]:
    lines = [f.plain(report.headline)]
    leads = {"Next": f.next_action(report), "Change": f.plain(report.change)}
    lines += [f"{name}: {lead}" for name, lead in leads.items() if lead]
    for section in f.sections(report):
        lines += ["", f"{section.title} ({len(section.checks)})"]
        if section.title == "Passes":
            counted = [check for check in section.checks if check.n is not None]
            rules = [check for check in section.checks if check.n is None]
            for checks in filter(None, (counted, rules)):
                lines += table(t.pass_table(checks), width)
        else:
            lines += _blocks(section.checks, report, width)
    lines += ["", *_goodput(report, width)]
    lines += ["", "Latency of completed requests", *table(t.latency_table(report), width)]
    for note in f.latency_notes(report.metrics):
        lines += prose(note, width, GAP)
    lines += _bars(report, width, unicode)
    lines += _attribution(report, width)
    return lines + _runs(report, width) + _tail(report, width)


def _blocks(checks: Sequence[Check], report: Report, width: int) -> list[str]:
    """Rule and value one above the other, then the reason."""
    lines = []
    for check in checks:
        lines.append(f"  {f.mark(check)}  {f.plain(check.id)}  {f.place(check, report)}")
        for name, fact in {**f.facts(check), "why": f.why(check)}.items():
            if fact:
                lines += prose(fact, width, f"        {name:8}  ")
    return lines


def _bars(report: Report, width: int, unicode: bool) -> list[str]:
    """How far the tails reach towards their bounds; nothing where a line would not fit."""
    room = min(b.WIDTH, width - 24)
    rows = b.latency_bars(report, unicode=unicode, width=room) if room >= 20 else []
    return ["", *(GAP + row for row in rows)] if rows else []


def _goodput(report: Report, width: int) -> list[str]:
    lines = []
    if line := f.goodput_line(report):
        lines += prose(line, width, "Goodput   ")
    if line := f.misses_line(report):
        lines += prose(line, width, "Misses    ")
    if len(report.runs) == 1:
        lines += prose(f.requests_line(report.runs[0]), width, "Requests  ")
    return lines


def _attribution(report: Report, width: int) -> list[str]:
    """Who missed, by length and one by one; then what the data could not show."""
    lines = []
    for title, cells in a.length_tables(report):
        lines += ["", *prose(title, width, ""), *table(cells, width)]
    if worst := a.worst_table(report):
        lines += ["", f"Worst completed requests ({len(worst.rows)})", *table(worst, width)]
    if told := a.lines(report):
        lines += ["", *(line for one in told for line in prose(one, width, "  - "))]
    if report.measure_next:
        lines += ["", *prose(f.plain(report.measure_next), width, "Measure   ")]
    return lines


def _runs(report: Report, width: int) -> list[str]:
    if len(report.runs) < 2:
        return []
    lines = []
    if len(report.loads) > 1:
        lines += ["", f"Loads ({len(report.loads)})", *table(t.load_table(report), width)]
        lines += prose(line, width, GAP) if (line := f.capacity_line(report)) else []
    lines += ["", f"Runs ({len(report.runs)})", *table(t.run_table(report), width)]
    rest = f.more(len(report.runs), "runs")
    return lines + ([GAP + rest] if rest else [])


def _tail(report: Report, width: int) -> list[str]:
    lines = [""]
    if report.notes:
        lines.append(f"Notes ({len(report.notes)})")
        for note in report.notes:
            lines += prose(f.plain(note), width, "  - ")
        lines.append("")
    lines += prose(f.plain(report.provenance.line), width, "Measured  ")
    lines += prose(f.policy_line(report), width, "Policy    ")
    if report.provenance.reproduce:
        lines += ["", "Reproduce", GAP + f.plain(report.provenance.reproduce)]
    else:
        lines += ["", "SHA-256"]
    lines += [GAP + line for line in f.digests(report)]
    rest = f.more(len(report.inputs), "files", f.FILES)
    return lines + ([GAP + rest] if rest else [])


def _error(report: ErrorReport, width: int) -> list[str]:
    lines = [headline := f.plain(report.headline)]
    for name, text in {"what": report.message, "where": report.where, "next": report.hint}.items():
        if text and f.plain(text) not in headline:
            lines += prose(f.plain(text), width, f"  {name:5}  ")
    return lines


def _colored(text: str) -> str:
    """Verdict words that begin a line, and nothing from a file, get a colour."""
    # Imported here: a plain text check must not pay for it at start-up.
    import io

    from rich.console import Console
    from rich.text import Text

    styled = Text(text)
    for style, words in _STYLES.items():
        for found in re.finditer(rf"(?m)^(?:  )?({words})\b", text):
            styled.stylize(style, *found.span(1))
    # The caller has decided on colour; nothing here may ask the environment again.
    console = Console(
        file=io.StringIO(), color_system="standard", force_terminal=True, no_color=False, _environ={}
    )
    with console.capture() as captured:
        console.print(styled, soft_wrap=True, end="")
    return captured.get()
