"""The report for a terminal and a CI log: plain ASCII layout, first line the decision.

At most MOST lines: what is not a pass in one line each, the passes and the percentiles in a table, and the
decision with its next action once more at the end, where a log is read from; `verbose` shows everything.
The lead lines are never wrapped, so `head -3` is the summary. Prose below is wrapped at `width`; a table
that does not fit becomes one block a row. No name and no number is ever cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..model import AnyReport, Check, ErrorReport, Report
from . import attribution as a, bars as b, format as f, tables as t
from .layout import GAP, MOST, prose, rows, table

NAMED = (
    5  # checks of which one thing is said; and runs whose percentiles are shown where they cannot be pooled
)
_STYLES = {
    "bold red": "FAIL|ERROR",
    "bold magenta": "INCONCLUSIVE",
    "bold yellow": "WARN|WAIVED",
    "bold green": "PASS",
    "dim": "SKIPPED|INFO",
}


def emit(
    report: AnyReport,
    *,
    color: bool = False,
    width: int = 100,
    unicode: bool = False,
    wrap: bool = False,
    verbose: bool = False,
    quiet: bool = False,
) -> str:
    """The report as text with a trailing newline.

    `color` adds ANSI colours to the verdict words, `unicode` draws bars with blocks instead of ASCII,
    `wrap` breaks the lead lines between words, where a terminal would break them inside of one;
    `verbose` shows everything and `quiet` the lead lines alone.
    """
    if isinstance(report, ErrorReport):
        lines = _error(report, width)
    elif quiet:
        lines = _leads(report)
    elif verbose:
        lines = [*_leads(report), *_report(report, width, unicode), "", *_leads(report)[:2]]
    else:
        lines = _short(report, width)
    if wrap:
        lines = [
            part for line in lines for part in (prose(line, width, "") if len(line) > width else (line,))
        ]
    text = "".join(line.rstrip() + "\n" for line in lines)
    return _colored(text) if color else text


def _leads(report: Report) -> list[str]:
    leads = {"Next": f.next_action(report), "Change": f.plain(report.change)}
    return [f.plain(report.headline), *(f"{name}: {lead}" for name, lead in leads.items() if lead)]


# ---- in forty lines -----------------------------------------------------------------------


def _short(report: Report, width: int) -> list[str]:
    """What is left over when the fixed parts are counted goes to what is not a pass, then to the passes."""
    leads = _leads(report)
    last = ["", *_last(report, width), "", *leads[:2]]
    latency = ["", *_latency(report, width), *_missed(report, width), *_loads(report, width)]
    room = MOST - sum(rows(line, width) for line in (*leads, *latency, *last)) - 2
    passes = [check for check in report.checks if f.mark(check) == "PASS"]
    least = min(3, len(passes))
    rest = [_one(alike, width) for alike in f.unlike(report)]
    said = list(_capped(rest, room - least, width))
    shown = _passes(passes, room - sum(rows(line, width) for line in said), width)
    return [*leads, *([""] if said else []), *said, *([""] if shown else []), *shown, *latency, *last]


def _one(alike: Sequence[Check], width: int) -> list[str]:
    """Checks that are no pass: their outcome, ids and one sentence, which may need a second line."""
    first = alike[0]
    said, shown = f.summary(first), NAMED if f.mark(first) != "SKIPPED" else 1
    name = ", ".join(f.plain(check.id) for check in alike[:shown])
    name += f" and {len(alike) - shown} more" if len(alike) > shown else ""
    weight = "" if first.blocks or f.mark(first) != "INCONCLUSIVE" else " (does not block)"
    name = "" if said.startswith(f"{name} ") else f"  {name}"
    return prose(f"{f.mark(first)}{weight}{name}  {said}", width, GAP, 8)


def _capped(blocks: Sequence[list[str]], room: int, width: int) -> Iterator[str]:
    """Blocks of lines while there is room for them, and how many there was none for."""
    for number, block in enumerate(blocks):
        left, size = len(blocks) - number, sum(rows(line, width) for line in block)
        if size + (left > 1) > room:
            what = "objectives that are" if left > 1 else "objective that is"
            yield f"{GAP}and {left} more {what} no pass: -v shows them"
            return
        room -= size
        yield from block


def _passes(passes: Sequence[Check], room: int, width: int) -> list[str]:
    """A table of those with numbers, and the names of the others."""
    counted = [check for check in passes if check.n is not None]
    rules = [f.plain(check.id) for check in passes if check.n is None]
    named = prose(f"PASS  {', '.join(rules)}", width, GAP, 8) if rules else []
    if len(named) > 1 and len(counted) + len(named) + 1 > room:
        named = [f"{GAP}PASS  {len(rules)} rules of workload and evidence: -v names them"]
    most = room - len(named) - 1
    if len(counted) > most:
        counted = counted[: max(most - 1, 0)]
    lines = table(t.short_passes(counted), width) if counted else []
    left = len(passes) - len(rules) - len(counted)
    lines += [f"{GAP}and {left} more pass{'es' * (left > 1)}: -v shows them"] if left else []
    whole = sum(rows(line, width) for line in (*lines, *named)) <= room
    return [*lines, *named] if whole else [f"{GAP}PASS  {len(passes)} objectives: -v shows them"]


def _latency(report: Report, width: int) -> list[str]:
    if len(report.loads) > 1 and not any(report.metrics.values()):
        return []  # the loads have them
    lines = table(t.latency_table(report, own=False, most=NAMED), width)
    rest = f.more(len(report.runs), "runs", NAMED) if not any(report.metrics.values()) else ""
    return [f.latency_title(report), *lines, *([GAP + rest] if rest else [])]


def _missed(report: Report, width: int) -> list[str]:
    line = f.misses_line(report)
    return prose(line, width, "Misses    ") if line not in ("", "0") else []


def _loads(report: Report, width: int) -> list[str]:
    """A row a load, and where the policy ends."""
    if len(report.loads) < 2:
        return []
    rest = f.more(len(report.loads), "loads")
    lines = ["Loads, of completed requests", *table(t.load_table(report, brief=True), width)]
    lines += [GAP + rest] if rest else []
    return lines + (prose(line, width, "") if (line := f.capacity_line(report)) else [])


def _last(report: Report, width: int) -> list[str]:
    """Where it comes from, and where the rest is."""
    notes = f"{len(report.notes)} note{'s' * (len(report.notes) > 1)}, " if report.notes else ""
    told = f"-v shows everything: {notes}intervals, runs, hashes"
    return [*prose(f.plain(report.provenance.line), width, "Measured  "), told]


# ---- everything ---------------------------------------------------------------------------


def _report(report: Report, width: int, unicode: bool) -> list[str]:
    lines = []
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
    lines += ["", f.latency_title(report), *table(t.latency_table(report), width)]
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
        for name, fact in {"": f.summary(check), **f.facts(check), "why": f.why(check)}.items():
            if fact:
                lines += prose(fact, width, f"        {name:8}  ")
    return lines


def _bars(report: Report, width: int, unicode: bool) -> list[str]:
    """How far the tails reach towards their bounds; nothing where a line would not fit."""
    room = min(b.WIDTH, width - 24)
    bars = b.latency_bars(report, unicode=unicode, width=room) if room >= 20 else []
    return ["", *(GAP + bar for bar in bars)] if bars else []


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
        lines += ["", *prose(f.plain(report.measure_next), width, "Then      ")]
    return lines


def _runs(report: Report, width: int) -> list[str]:
    if len(report.runs) < 2:
        return []
    lines = []
    if len(report.loads) > 1:
        lines += [
            "",
            f"Loads ({len(report.loads)}), of completed requests",
            *table(t.load_table(report), width),
        ]
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
