"""The report as a PR or MR comment: decision first, failures in a table, passes folded away.

Every value goes through `format.markdown` on its way out (jinja2's `finalize`), so that a name from
a file or a policy is text and never a mention, a link, a table cell or HTML.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..model import AnyReport, Check, ErrorReport, Report, Verdict
from . import attribution as a, bars as b, format as f, tables as t
from .templates import markup, render

if TYPE_CHECKING:
    from markupsafe import Markup

LIMIT = 60_000  # characters: GitHub refuses a comment above 65 536, and a marker is added to it
_BRIEF = 30  # checks a section and notes kept when a comment would be longer than that


def emit(report: AnyReport) -> str:
    """The report as GitHub and GitLab Markdown; shortened, and saying so, above LIMIT characters."""
    if isinstance(report, ErrorReport):
        return _rendered("error.md.j2", report=report)
    text = _render(report, brief=False)
    return text if len(text) <= LIMIT else _render(report, brief=True)


def subject(report: AnyReport) -> str:
    """Which benchmark it is, for a row among others: policy, model, hardware and load of the judged runs."""
    if isinstance(report, ErrorReport):
        return f.markdown((report.policy and (report.policy.name or report.policy.path)) or "a policy")
    profile = f" ({report.policy.profile})" if report.policy.profile else ""
    judged = [run for run in report.runs if run.at_target] or report.runs
    facts = [
        {str(one) for run in judged if (one := getattr(run, name))} for name in ("model", "hardware", "load")
    ]
    measured = ", ".join(" and ".join(sorted(known)) for known in facts if 0 < len(known) < 3)
    return f.markdown(f"{report.policy.name}{profile}{': ' * bool(measured)}{measured}")


def _render(report: Report, *, brief: bool) -> str:
    most = _BRIEF if brief else len(report.checks) + len(report.notes)
    return _rendered(
        "report.md.j2",
        report=report,
        a=a,
        f=f,
        t=t,
        sections=f.sections(report),
        growth=t.growth_table(report),
        bounds=_bounds(report),
        tells=_tells,
        checks=lambda section: t.check_table(section.checks[:most], report),
        table=_table,
        verbatim=_verbatim,
        pictures=_pictures(report),
        loads=b.load_bars(report),
        most=most,
        brief=brief,
    )


def _bounds(report: Report) -> tuple[Check, ...]:
    """What did not pass, less what the table of growth has."""
    changes = report.baseline.changes if report.baseline else ()
    grown = {f"regression.{one.metric}.{one.statistic}" for one in changes}
    open_ = [one for one in f.sections(report) if one.title not in ("Passes", "Not judged")]
    return tuple(check for section in open_ for check in section.checks if check.id not in grown)


def _tells(check: Check) -> bool:
    """Whether its sentence says more than its row: why it failed, what is missing, who waived it."""
    return (
        check.verdict != Verdict.FAIL
        or check.misses is None
        or check.metric == "error_rate"
        or bool(check.waived)
    )


def _pictures(report: Report) -> dict[str, Any]:
    """A Mermaid chart and the same as bars, for mails and for forges that draw no Mermaid."""
    bars = [*b.load_bars(report, unicode=True), *b.latency_bars(report, unicode=True)]
    return {"chart": markup(b.mermaid(report)), "bars": bars} if bars else {}


def _rendered(template: str, **context: Any) -> str:
    """One blank line between blocks: GitHub ends an HTML block at a blank line and needs no more."""
    text = render(Path(__file__).with_name(template), f.markdown, **context)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def _table(table: t.Table) -> Markup:
    return markup(t.as_markdown(table))


def _verbatim(text: str) -> Markup:
    """For <pre>, where no mention is looked for and a command must be copied as it is."""
    import html  # here, not above: it costs start-up time

    return markup(html.escape(f.plain(text), quote=False))
