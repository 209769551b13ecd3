"""The report as a PR or MR comment: decision first, failures in a table, passes folded away.

Every value goes through `format.markdown` on its way out (jinja2's `finalize`), so that a name from
a file or a policy is text and never a mention, a link, a table cell or HTML.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from ..model import AnyReport, ErrorReport, Report
from . import attribution as a
from . import bars as b
from . import format as f
from . import tables as t

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup

LIMIT = 60_000  # characters: GitHub refuses a comment above 65 536, and a marker is added to it
_BRIEF = 30  # checks a section and notes kept when a comment would be longer than that

_ERROR = """\
### {{ report.headline }}

- **What:** {{ report.message }}
{% if report.where %}
- **Where:** {{ report.where }}
{% endif %}
{% if report.hint %}
- **Next:** {{ report.hint }}
{% endif %}
"""

_REPORT = """\
### {{ report.headline }}

{% if report.next_action %}
**Next:** {{ f.next_action(report) }}

{% endif %}
{% if report.change %}
**Change:** {{ report.change }}

{% endif %}
{% for section in sections if section.title != "Passes" %}
#### {{ section.title }} ({{ section.checks | length }})

{% if section.title != "Not judged" %}
{{ table(checks(section)) }}

{% endif %}
{% for check in section.checks[:most] %}
- **{{ f.mark(check) }} {{ check.id }}:** {{ f.detail(check) }}
{% endfor %}
{% if section.checks[most:] %}
- and {{ section.checks[most:] | length }} more; the JSON report has all
{% endif %}

{% endfor %}
{% if f.goodput_line(report) %}
**Goodput:** {{ f.goodput_line(report) }}

{% endif %}
{% if f.misses_line(report) %}
**Misses:** {{ f.misses_line(report) }}

{% endif %}
{% if report.runs | length == 1 %}
**Requests:** {{ f.requests_line(report.runs[0]) }}

{% endif %}
**Latency of completed requests**

{{ table(t.latency_table(report)) }}

{% for note in f.latency_notes(report.metrics) %}
- {{ note }}
{% endfor %}

{% if pictures and not brief %}
<details>
<summary>{{ "Goodput against load, and latency" if loads else "Latency" }} as a chart</summary>

{% if pictures.chart %}
{{ pictures.chart }}

{% endif %}
<pre>
{% for line in pictures.bars %}
{{ verbatim(line) }}
{% endfor %}
</pre>

</details>

{% endif %}
{% if report.measure_next %}
**Measure next:** {{ report.measure_next }}

{% endif %}
{% for section in sections if section.title == "Passes" and not brief %}
<details>
<summary>Passes ({{ section.checks | length }})</summary>

{{ table(checks(section)) }}

</details>

{% endfor %}
{% if report.attribution and not brief %}
<details>
<summary>Which requests missed, by length and one by one</summary>

{% for title, lengths in a.length_tables(report) %}
**{{ title }}**

{{ table(lengths) }}

{% endfor %}
{% if a.worst_table(report) %}
**Worst completed requests**

{{ table(a.worst_table(report)) }}

{% endif %}
{% for line in a.lines(report) %}
- {{ line }}
{% endfor %}

</details>

{% endif %}

{% if report.loads | length > 1 %}
**Loads**

{{ table(t.load_table(report)) }}

{% if f.capacity_line(report) %}
{{ f.capacity_line(report) }}

{% endif %}

{% endif %}
{% if report.runs | length > 1 and not brief %}
<details>
<summary>Runs ({{ report.runs | length }})</summary>

{{ table(t.run_table(report)) }}

{{ f.more(report.runs | length, "runs") }}

</details>

{% endif %}
{% if brief %}
Shortened to fit a comment: passes, runs and further notes are in the JSON report.

{% endif %}
{% if report.notes %}
**Notes**

{% for note in report.notes[:most] %}
- {{ note }}
{% endfor %}

{% endif %}
**Measured:** {{ report.provenance.line }}

**Policy:** {{ f.policy_line(report) }}

<details>
<summary>{{ "Reproduce" if report.provenance.reproduce else "SHA-256" }}</summary>

<pre>
{% if report.provenance.reproduce %}
{{ verbatim(report.provenance.reproduce) }}
{% endif %}
{% for line in f.digests(report) %}
{{ verbatim(line) }}
{% endfor %}
</pre>

{{ f.more(report.inputs | length, "files", f.FILES) }}

</details>
"""


def emit(report: AnyReport) -> str:
    """The report as GitHub and GitLab Markdown; shortened, and saying so, above LIMIT characters."""
    if isinstance(report, ErrorReport):
        return _tidy(_template(_ERROR).render(report=report))
    text = _render(report, brief=False)
    return text if len(text) <= LIMIT else _render(report, brief=True)


def _render(report: Report, *, brief: bool) -> str:
    most = _BRIEF if brief else len(report.checks) + len(report.notes)
    return _tidy(
        _template(_REPORT).render(
            report=report,
            a=a,
            f=f,
            t=t,
            sections=f.sections(report),
            checks=lambda section: t.check_table(section.checks[:most], report),
            table=_table,
            verbatim=_verbatim,
            pictures=_pictures(report),
            loads=b.load_bars(report),
            most=most,
            brief=brief,
        )
    )


def _pictures(report: Report) -> dict[str, Any]:
    """A Mermaid chart and the same as bars, for mails and for forges that draw no Mermaid."""
    bars = [*b.load_bars(report, unicode=True), *b.latency_bars(report, unicode=True)]
    return {"chart": _markup(b.mermaid(report)), "bars": bars} if bars else {}


def _tidy(text: str) -> str:
    """One blank line between blocks: GitHub ends an HTML block at a blank line and needs no more."""
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def _table(table: t.Table) -> Markup:
    rule = tuple("---:" if name in table.numbers else "---" for name in table.headers)
    escaped = [tuple(map(f.markdown, row)) for row in (table.headers, *table.rows)]
    rows = (escaped[0], rule, *escaped[1:])
    return _markup("\n".join(f"| {' | '.join(row)} |" for row in rows))


def _verbatim(text: str) -> Markup:
    """For <pre>, where no mention is looked for and a command must be copied as it is."""
    import html  # here, not above: it costs start-up time

    return _markup(html.escape(f.plain(text), quote=False))


def _markup(text: str) -> Markup:
    from markupsafe import Markup

    return Markup(text)


@cache
def _template(source: str) -> Template:
    # Imported here: a check that writes no Markdown must not pay for it at start-up.
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    def finalize(value: Any) -> Markup:
        return value if isinstance(value, Markup) else Markup(f.markdown(str(value)))

    environment = Environment(
        autoescape=True,
        finalize=finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.from_string(source)
