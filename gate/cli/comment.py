"""`slo-gate comment`: a saved report on the pull or merge request it is about."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .. import disk
from ..errors import Exit, InputError
from ._lines import show
from ._shared import named

if TYPE_CHECKING:
    from ..model import AnyReport, PolicyName
    from ..publish import Outcome, PublishError

SUMMARY_BYTES = 1_000_000  # GitHub drops a step summary above 1 MiB


def _number(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if value != "auto" and not re.fullmatch("[1-9][0-9]{0,17}", value):
        raise click.BadParameter('write a number, or "auto" for the request this job is about')
    return value


def _link(context: click.Context, parameter: click.Parameter, value: str) -> str:
    from ..publish import LINK

    if value and not re.fullmatch(LINK, value):
        raise click.BadParameter("write an address that begins with https://")
    return value


@click.command(name="comment")
@click.option(
    "--report", "path", type=named, metavar="FILE", required=True, help="What `check --json FILE` wrote."
)
@click.option(
    "--pr", default="auto", show_default=True, metavar="NUMBER", callback=_number,
    help="The pull or merge request; auto finds the one this job is about.",
)  # fmt: skip
@click.option(
    "--mode", type=click.Choice(("on-change", "always", "never")), default="on-change", show_default=True,
    help="on-change: when it is not green, or to bring an older comment up to date.",
)  # fmt: skip
@click.option(
    "--key", default="", metavar="TEXT", help="Keeps the comments of two uses of one policy in one job apart."
)
@click.option(
    "--job",
    metavar="TEXT",
    help="The job it is about; each has a comment. Default: the CI system's word.",
)
@click.option(
    "--join", is_flag=False, flag_value="", metavar="[NAME]",
    help="A row in one comment that all jobs with this --key share. NAME: what the row is called, by default"
    " policy, model, hardware and load.",
)  # fmt: skip
@click.option(
    "--page", default="", metavar="URL", callback=_link, help="Of the uploaded report page, to link to."
)
@click.option(
    "--trend",
    default="",
    metavar="URL",
    callback=_link,
    help="Of an uploaded `slo-gate trend --html`, likewise.",
)
@click.option("--check-run", is_flag=True, help="Also make a check run of the commit (GitHub).")
@click.option("--step-summary", is_flag=True, help="Also append the report to $GITHUB_STEP_SUMMARY.")
@click.option(
    "--timeout", type=click.FloatRange(min=0.1), default=20.0, show_default=True, metavar="SECONDS",
    help="For each answer of the API.",
)  # fmt: skip
def command(**options: Any) -> int:
    """Publish a saved report as one comment, made once and then kept up to date.

    On GitHub with $GITHUB_TOKEN, on GitLab with $GITLAB_TOKEN. The report is checked against its
    schema and rendered anew. What the forge refuses is a warning: the verdict was the exit code of
    `check`, and no comment changes it.
    """
    report = _load(options["path"])
    from ..emit import EMITTERS

    markdown = EMITTERS["markdown"](report)
    if options["step_summary"]:
        _summarise(markdown)
    if options["check_run"]:
        _check_run(report, markdown, options)
    outcome = _publish(report, markdown, options)
    if outcome is not None:
        show(f"{outcome.action} {outcome.url}".rstrip())
    return Exit.PASS


def _load(path: str) -> AnyReport:
    from .. import saved

    try:
        with disk.opened(path) as file:
            data = file.read(saved.MOST_BYTES + 1)  # one byte more shows that it is too large
    except OSError as error:
        hint = "write it with `slo-gate check RESULTS --json FILE`"
        raise InputError(f"cannot be read: {error.strerror or error}", path, hint) from None
    return saved.load(data, path)


def _publish(report: AnyReport, markdown: str, options: dict[str, Any]) -> Outcome | None:
    if options["mode"] == "never":
        return None
    from msgspec.structs import replace

    from .. import publish
    from ..model import Report, Verdict

    about, green = _about(report), getattr(report, "verdict", None) == Verdict.PASS
    named = None if options["join"] is None else _row_name(report, options["join"])
    word = report.verdict.name if isinstance(report, Report) else "ERROR"
    post = publish.Post(
        *(markdown, _job(options), options["key"], about.path, about.name, about.profile, green, word, named)
    )
    try:
        here, forge = publish.place(os.environ, options["pr"], options["timeout"])
        here = replace(here, page_url=options["page"], trend_url=options["trend"])
        return publish.publish(post, here, forge, options["mode"])
    except publish.PublishError as error:
        _warn("no comment was written", error, options["step_summary"])
        return None


def _row_name(report: AnyReport, name: str) -> str:
    from ..emit import format as words, markdown

    return words.markdown(name) if name else markdown.subject(report)


def _about(report: AnyReport) -> PolicyName:
    from ..model import PolicyName
    from ._place import subject

    return subject(report) or PolicyName(None, "", None)


def _check_run(report: AnyReport, markdown: str, options: dict[str, Any]) -> None:
    from .. import publish
    from ..emit import format as words, github

    about = _about(report)
    parts = ("slo-gate", about.path, about.profile, _job(options), options["key"])
    run = publish.CheckRun(
        words.plain(" / ".join(part for part in parts if part)),
        _conclusion(report),
        words.plain(report.headline),
        markdown,
        github.on_check_run(report),
    )
    try:
        click.echo(f"check-run {publish.create_check_run(run, os.environ, options['timeout'])}".rstrip())
    except publish.PublishError as error:
        _warn("no check run was made", error, options["step_summary"])


def _conclusion(report: AnyReport) -> str:
    """Green for what was shown to hold alone: what is let through unproven, or in spite of it, is neutral."""
    from ..model import ErrorReport, Verdict

    if isinstance(report, ErrorReport) or report.exit_code:
        return "failure"
    return "success" if report.verdict in (Verdict.PASS, Verdict.WARN) else "neutral"


def _job(options: dict[str, Any]) -> str:
    """This job in the words of its CI system; GitLab's name of a job holds its place in a matrix."""
    if options["job"] is not None:
        return str(options["job"])
    names = ("CI_JOB_NAME",) if os.environ.get("GITLAB_CI") else ("GITHUB_WORKFLOW", "GITHUB_JOB")
    return " / ".join(os.environ.get(name, "") for name in names)


def _warn(what: str, error: PublishError, in_summary: bool) -> None:
    from ..units import printable

    where = f" ({printable(error.where)})" if error.where else ""
    text = f"{what}: {printable(error.message)}{where}. The verdict stands."
    click.echo(f"warning: {text}", err=True)
    if error.hint:
        click.echo(f"hint: {printable(error.hint)}", err=True)
    if os.environ.get("GITHUB_ACTIONS"):
        from ..emit import github

        click.echo(github.command("warning", "slo-gate", f"{text} {error.hint}".rstrip()), nl=False)
    if in_summary:
        from ..emit import format as words

        _summarise(f"\n**Note:** {words.markdown(text)}\n")


def _summarise(markdown: str) -> None:
    path = os.environ.get("GITHUB_STEP_SUMMARY", "")
    if not path:
        return
    from ..publish import shorten

    if disk.is_read(disk.identity(path)):
        click.echo("warning: GITHUB_STEP_SUMMARY is the report that is read; it stays as it is", err=True)
        return
    file = Path(path)
    try:
        room = SUMMARY_BYTES - (file.stat().st_size if file.is_file() else 0)
        if room < len(markdown.encode()) and room < 1000:  # the step has used it up; GitHub would drop it all
            return
        with file.open("a", encoding="utf-8", newline="") as summary:
            summary.write(shorten(markdown, room, room))
    except OSError as error:  # the verdict and the comment do not depend on it
        click.echo(f"warning: GITHUB_STEP_SUMMARY cannot be written: {error.strerror}", err=True)
