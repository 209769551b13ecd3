"""`slo-gate check`: the gate."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from ..errors import UsageError
from ._reading import progress
from ._shared import (
    FORMATS,
    baseline_options,
    chosen_policy,
    policy_options,
    read_baseline,
    wanted_outputs,
    what_if,
    write,
    write_error,
)

if TYPE_CHECKING:
    from ..model import Baseline, Report

_GAPS_UP_TO = 32 << 20  # bytes: a page shows ITL unasked only where decoding gaps takes no second
_EXITS = """\b
Exit codes:
  0   pass, warn, and undecided where the policy lets it through
  1   a blocking objective failed
  2   usage or policy error
  3   result file missing, unreadable, unsupported or self-contradictory
  4   inconclusive, and that blocks
  5   warn, with --fail-on warn
  70  a bug of ours; never 1"""


@click.command(name="check", epilog=_EXITS)
@click.argument("results", nargs=-1)
@policy_options
@click.option("--tool", metavar="NAME", help="Force a reader instead of recognising the file.")
@click.option(
    "--set", "stated", multiple=True, metavar="KEY=VALUE", help="State a fact the files cannot hold."
)
@click.option(
    "--baseline",
    multiple=True,
    metavar="FILES",
    help="Compare with these results or saved JSON reports; may be given again.",
)
@baseline_options
@click.option("--format", "format_", type=click.Choice(FORMATS), help="What goes to stdout. Default: text.")
@click.option("--json", "json", metavar="FILE", help="Also write the report as JSON; - is stdout.")
@click.option("--junit", "junit", metavar="FILE", help="Also write JUnit XML; - is stdout.")
@click.option("--markdown", "markdown", metavar="FILE", help="Also write Markdown; - is stdout.")
@click.option(
    "--html", metavar="FILE", help="Also write a page with charts (extra slo-gate[report]); - is stdout."
)
@click.option("--codequality", metavar="FILE", help="Also write a GitLab code-quality report; - is stdout.")
@click.option("--metrics", metavar="FILE", help="Also write OpenMetrics text; - is stdout.")
@click.option(
    "--junit-dialect",
    type=click.Choice(("generic", "gitlab", "github", "buildkite", "surefire")),
    default="generic",
    show_default=True,
    help="Which reader the JUnit XML is for (docs/reports.md).",
)
@click.option("--junit-timestamp", metavar="TIME", help="When it was measured, ISO 8601, for the JUnit XML.")
@click.option(
    "--fail-on",
    type=click.Choice(("fail", "inconclusive", "warn")),
    default="fail",
    show_default=True,
    help="The mildest verdict that exits non-zero; only tightens the policy.",
)
@click.option("--report-only", is_flag=True, help="Exit 0 whatever the verdict, and say so in every output.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def command(**options: Any) -> int:
    """Judge benchmark RESULTS (files, folders, globs, or - for stdin) by a policy."""
    outputs = wanted_outputs(options)
    junit: dict[str, str | None] = {"dialect": options["junit_dialect"]}
    try:
        if options["html"]:
            from ..emit import page

            page.warm_up()
        junit["timestamp"] = _time(options["junit_timestamp"])
        report = _judge(options)
    except Exception as error:
        write_error(error, outputs, {"junit": junit})
        raise
    write(report, outputs, {"junit": junit})
    return report.exit_code


def _time(text: str | None) -> str | None:
    """`text` as it is, if it is an ISO 8601 time. Raises UsageError."""
    from datetime import datetime

    if text is not None:
        try:
            datetime.fromisoformat(text.replace("Z", "+00:00"))  # Python 3.10 does not know Z
        except ValueError:
            hint = "write it like 2027-01-12T08:00:00Z, or leave it out"
            raise UsageError(f'--junit-timestamp "{text}" is no ISO 8601 time', "", hint) from None
    return text


def _judge(options: dict[str, Any]) -> Report:
    from datetime import date

    from msgspec.structs import replace

    from .. import readers
    from ..evaluate import evaluate

    policy = chosen_policy(options)
    if not options["results"]:
        raise UsageError("no result file is named", "", "slo-gate check results.json --policy slo.yaml")
    gaps = any(objective.metric == "itl" for objective in policy.objectives)
    with progress() as watch:
        reading = readers.read(
            options["results"],
            tool=options["tool"],
            stated=options["stated"],
            gaps=gaps,
            gaps_up_to=_GAPS_UP_TO if options["html"] else 0,
            watch=watch,
            attempted=policy.evidence.attempted,
        )
    report = evaluate(
        policy,
        reading.runs,
        date.today(),
        baseline=_baseline(options, gaps),
        notes=reading.notes,
        fail_on=options["fail_on"],
        report_only=options["report_only"],
        charts=what_if(options["html"] or options["markdown"] or options["format_"] == "markdown"),
    )
    return replace(report, provenance=replace(report.provenance, reproduce=_command(options)))


def _baseline(options: dict[str, Any], gaps: bool) -> Baseline | None:
    if options["baseline"]:
        return read_baseline(options["baseline"], options, gaps=gaps)
    for name, given in (
        ("--same-session", options["same_session"]),
        ("--allow-baseline", options["allowed"]),
    ):
        if given:
            raise UsageError(f"{name} is about a baseline and none is given", "", "add --baseline FILES")
    return None


def _command(options: dict[str, Any]) -> str:
    """The command that gives this verdict again."""
    words = ["slo-gate", "check", *options["results"]]
    for name, key in (
        ("--policy", "policy_path"),
        ("--preset", "preset"),
        ("--profile", "profile"),
        ("--tool", "tool"),
    ):
        words += [name, options[key]] if options[key] else []
    for item in options["stated"]:
        words += ["--set", item]
    for name, key in (("--baseline", "baseline"), ("--allow-baseline", "allowed")):
        for item in options[key]:
            words += [name, item]
    words += ["--same-session"] if options["same_session"] else []
    words += ["--fail-on", options["fail_on"]] if options["fail_on"] != "fail" else []
    words += ["--report-only"] if options["report_only"] else []
    return shlex.join(words)
