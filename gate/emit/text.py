"""The report for a terminal and a CI log: plain ASCII layout, first line the decision.

The three lead lines are never wrapped, so `head -3` is the summary. Prose below is wrapped at
`width`; a table that does not fit becomes one block a row. No name and no number is ever cut.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence

from ..model import AnyReport, Check, ErrorReport, Report
from . import _attribution as a
from . import _format as f
from . import _tables as t

_STYLES = {
    "bold red": "FAIL|ERROR",
    "bold magenta": "INCONCLUSIVE",
    "bold yellow": "WARN|WAIVED",
    "bold green": "PASS",
    "dim": "SKIPPED|INFO",
}
_GAP = "  "
_HANG = 24  # columns: a mark and the id of a rule without a condition
_UNIT_GAP = re.compile(r"(?<=\d) (?=(?:us|ms|s|pt|req/s|tok/s)\b)")  # no line ends inside a quantity


def emit(report: AnyReport, *, color: bool = False, width: int = 100) -> str:
    """The report as text with a trailing newline; `color` adds ANSI colours to the verdict words."""
    lines = _error(report, width) if isinstance(report, ErrorReport) else _report(report, width)
    text = "".join(line.rstrip() + "\n" for line in lines)
    return _colored(text) if color else text


def _report(report: Report, width: int) -> list[str]:
    lines = [f.plain(report.headline)]
    leads = {"Next": f.next_action(report), "Change": f.plain(report.change)}
    lines += [f"{name}: {lead}" for name, lead in leads.items() if lead]
    for section in f.sections(report):
        lines += ["", f"{section.title} ({len(section.checks)})"]
        if section.title == "Passes":
            counted = [check for check in section.checks if check.n is not None]
            rules = [check for check in section.checks if check.n is None]
            for checks in filter(None, (counted, rules)):
                lines += _table(t.pass_table(checks), width)
        else:
            lines += _blocks(section.checks, report, width)
    lines += ["", *_goodput(report, width)]
    lines += ["", "Latency of completed requests", *_table(t.latency_table(report), width)]
    for note in f.latency_notes(report.metrics):
        lines += _prose(note, width, _GAP)
    lines += _attribution(report, width)
    return lines + _runs(report, width) + _tail(report, width)


def _blocks(checks: Sequence[Check], report: Report, width: int) -> list[str]:
    """Rule and value one above the other, then the reason."""
    lines = []
    for check in checks:
        lines.append(f"  {f.mark(check)}  {f.plain(check.id)}  {f.place(check, report)}")
        facts = {
            "expected": f.expected(check),
            "observed": f.seen(check),
            "headroom": f.headroom(check),
            "unproven": f.weight(check),
            "why": f.why(check),
        }
        for name, fact in facts.items():
            if fact:
                lines += _prose(fact, width, f"        {name:8}  ")
    return lines


def _goodput(report: Report, width: int) -> list[str]:
    lines = []
    if line := f.goodput_line(report):
        lines += _prose(line, width, "Goodput   ")
    if line := f.misses_line(report):
        lines += _prose(line, width, "Misses    ")
    if len(report.runs) == 1:
        lines += _prose(f.requests_line(report.runs[0]), width, "Requests  ")
    return lines


def _attribution(report: Report, width: int) -> list[str]:
    """Who missed, by length and one by one; then what the data could not show."""
    lines = []
    for title, table in a.length_tables(report):
        lines += ["", *_prose(title, width, ""), *_table(table, width)]
    if worst := a.worst_table(report):
        lines += ["", f"Worst completed requests ({len(worst.rows)})", *_table(worst, width)]
    if told := a.lines(report):
        lines += ["", *(line for one in told for line in _prose(one, width, "  - "))]
    if report.measure_next:
        lines += ["", *_prose(f.plain(report.measure_next), width, "Measure   ")]
    return lines


def _runs(report: Report, width: int) -> list[str]:
    if len(report.runs) < 2:
        return []
    lines = []
    if len(report.loads) > 1:
        lines += ["", f"Loads ({len(report.loads)})", *_table(t.load_table(report), width)]
    lines += ["", f"Runs ({len(report.runs)})", *_table(t.run_table(report), width)]
    rest = f.more(len(report.runs), "runs")
    return lines + ([_GAP + rest] if rest else [])


def _tail(report: Report, width: int) -> list[str]:
    lines = [""]
    if report.notes:
        lines.append(f"Notes ({len(report.notes)})")
        for note in report.notes:
            lines += _prose(f.plain(note), width, "  - ")
        lines.append("")
    lines += _prose(f.plain(report.provenance.line), width, "Measured  ")
    lines += _prose(f.policy_line(report), width, "Policy    ")
    if report.provenance.reproduce:
        lines += ["", "Reproduce", _GAP + f.plain(report.provenance.reproduce)]
    else:
        lines += ["", "SHA-256"]
    lines += [_GAP + line for line in f.digests(report)]
    rest = f.more(len(report.inputs), "files", f.FILES)
    return lines + ([_GAP + rest] if rest else [])


def _error(report: ErrorReport, width: int) -> list[str]:
    lines = [headline := f.plain(report.headline)]
    for name, text in {"what": report.message, "where": report.where, "next": report.hint}.items():
        if text and f.plain(text) not in headline:
            lines += _prose(f.plain(text), width, f"  {name:5}  ")
    return lines


# ---- layout -------------------------------------------------------------------------------


def _prose(text: str, width: int, lead: str) -> list[str]:
    """`text` after `lead`, its further lines indented as deep; words longer than a line stay whole."""
    wrapped = textwrap.wrap(
        _UNIT_GAP.sub("\0", text),
        max(width, len(lead) + 20),
        initial_indent=lead,
        subsequent_indent=" " * len(lead),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace("\0", " ") for line in wrapped] or [lead]


def _table(table: t.Table, width: int) -> list[str]:
    """Aligned columns where they fit, else one block a row. A file name at the end may stick out.

    A first cell longer than _HANG gets a line of its own where that makes the others fit.
    """
    sizes = [max(map(len, column)) for column in zip(table.headers, *table.rows, strict=True)]
    if table.headers[-1] == "input":
        sizes[-1] = 0
    room = width - sum(sizes[1:]) - len(_GAP) * len(sizes)
    if sizes[0] > room:
        sizes[0] = max((len(row[0]) for row in table.rows if len(row[0]) <= _HANG), default=_HANG)
    if sizes[0] > room:
        return _stacked(table, width)
    right = [name in table.numbers for name in table.headers]
    lines = []
    for first, *rest in (table.headers, *table.rows):
        if len(first) > sizes[0]:
            lines.append(_GAP + first)
            first = ""
        lines.append(_GAP + _GAP.join(_align((first, *rest), sizes, right)))
    return lines


def _align(row: Iterable[str], sizes: Iterable[int], right: Iterable[bool]) -> Iterable[str]:
    for cell, size, to_right in zip(row, sizes, right, strict=True):
        yield cell.rjust(size) if to_right else cell.ljust(size)


def _stacked(table: t.Table, width: int) -> list[str]:
    lines = []
    for first, *rest in table.rows:
        lines.append(_GAP + first)
        cells = (f"{name} {cell}" for name, cell in zip(table.headers[1:], rest, strict=True) if cell != "-")
        lines += _prose("; ".join(cells), width, "        ")
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
