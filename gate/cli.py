"""The command line: the only module that prints, opens outputs and exits.

Only click and errors are imported here; each command imports what it uses.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import __version__
from .errors import Exit, GateError, UsageError

if TYPE_CHECKING:
    from .model import AnyReport, Policy, Report

FORMATS = ("text", "json", "junit", "markdown")
FILE_FORMATS = ("json", "junit", "markdown")

_EXITS = """\b
Exit codes:
  0   pass, warn, and undecided where the policy lets it through
  1   a blocking objective failed
  2   usage or policy error
  3   result file missing, unreadable, unsupported or self-contradictory
  4   inconclusive, and that blocks
  5   warn, with --fail-on warn
  70  a bug of ours; never 1"""


def run(arguments: Sequence[str]) -> int:
    """The whole program; returns the exit code (docs/exit-codes.md)."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = cli.main(args=list(arguments), prog_name="slo-gate", standalone_mode=False)
        return int(code or 0)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        _complain(error.format_message(), _context_of(error), "see slo-gate --help")
        return Exit.USAGE
    except (click.Abort, KeyboardInterrupt):
        return 130
    except GateError as error:
        _show(error)
        return error.exit
    except BrokenPipeError:  # the reader of a pipe left: nobody to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.BUG
    except Exception as error:
        return _bug(error)


def _bug(error: Exception) -> int:
    if "--debug" in sys.argv:
        raise error
    _complain(
        f"internal error: {type(error).__name__}: {error}",
        "",
        "run again with --debug and report the traceback",
    )
    return Exit.BUG


def _show(error: GateError) -> None:
    _complain(error.message, error.where, error.hint)


def _complain(message: str, where: str, hint: str) -> None:
    from .units import printable

    first, *rest = message.splitlines() or [""]
    lead = f"error: {printable(where)}: " if where else "error: "
    click.echo(lead + printable(first), err=True)
    for line in rest:  # never at the start of a line: a CI system may read commands there
        click.echo(f"  - {printable(line)}", err=True)
    if hint:
        click.echo(f"hint: {printable(hint)}", err=True)


def _context_of(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    return context.command_path if context else ""


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="slo-gate")
def cli() -> None:
    """Gate merges and deploys on what users of an LLM get: goodput and percentiles, not means."""


# ---- check --------------------------------------------------------------------------------


def _policy_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--profile", metavar="NAME", help="Use this profile of the policy."),
        click.option("--preset", metavar="NAME", help="Use an embedded policy instead of a file."),
        click.option(
            "-p", "--policy", "policy_path", metavar="FILE", help="The policy. Default: slo.yaml and kin."
        ),
    ):
        command = option(command)
    return command


@cli.command(epilog=_EXITS)
@click.argument("results", nargs=-1)
@_policy_options
@click.option("--tool", metavar="NAME", help="Force a reader instead of recognising the file.")
@click.option(
    "--set", "stated", multiple=True, metavar="KEY=VALUE", help="State a fact the files cannot hold."
)
@click.option("--format", "format_", type=click.Choice(FORMATS), help="What goes to stdout. Default: text.")
@click.option("--json", "json", metavar="FILE", help="Also write the report as JSON; - is stdout.")
@click.option("--junit", "junit", metavar="FILE", help="Also write JUnit XML; - is stdout.")
@click.option("--markdown", "markdown", metavar="FILE", help="Also write Markdown; - is stdout.")
@click.option(
    "--fail-on",
    type=click.Choice(("fail", "inconclusive", "warn")),
    default="fail",
    show_default=True,
    help="The mildest verdict that exits non-zero; only tightens the policy.",
)
@click.option("--report-only", is_flag=True, help="Exit 0 whatever the verdict, and say so in every output.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def check(**options: Any) -> int:
    """Judge benchmark RESULTS (files, folders, globs, or - for stdin) by a policy."""
    outputs = _outputs(options)
    try:
        report = _judge(options)
    except Exception as error:
        _write_error(error, outputs)
        raise
    _write(report, outputs)
    return report.exit_code


def _judge(options: dict[str, Any]) -> Report:
    from datetime import date

    from msgspec.structs import replace

    from . import readers
    from .evaluate import evaluate

    policy = _policy(options)
    if not options["results"]:
        raise UsageError("no result file is named", "", "slo-gate check results.json --policy slo.yaml")
    reading = readers.read(
        options["results"],
        tool=options["tool"],
        stated=options["stated"],
        gaps=any(objective.metric == "itl" for objective in policy.objectives),
    )
    report = evaluate(
        policy,
        reading.runs,
        date.today(),
        notes=reading.notes,
        fail_on=options["fail_on"],
        report_only=options["report_only"],
    )
    return replace(report, provenance=replace(report.provenance, reproduce=_command(options)))


def _policy(options: dict[str, Any]) -> Policy:
    from . import policy

    if options["policy_path"] and options["preset"]:
        raise UsageError("--policy and --preset exclude each other", "", "name one of them")
    if options["preset"]:
        return policy.preset(options["preset"], profile=options["profile"])
    return policy.load(options["policy_path"] or policy.find(), profile=options["profile"])


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
    words += ["--fail-on", options["fail_on"]] if options["fail_on"] != "fail" else []
    words += ["--report-only"] if options["report_only"] else []
    return shlex.join(words)


# ---- outputs ------------------------------------------------------------------------------


def _outputs(options: dict[str, Any]) -> list[tuple[str, str]]:
    """(format, target) pairs. Raises UsageError when two writers want stdout or one file."""
    outputs = [(name, str(options[name])) for name in FILE_FORMATS if options[name]]
    if options["format_"] or all(target != "-" for _, target in outputs):
        outputs.append((options["format_"] or "text", "-"))
    targets = [target for _, target in outputs]
    for target in targets:
        if targets.count(target) > 1:
            name = "stdout" if target == "-" else target
            raise UsageError(f"two outputs go to {name}", "", "give each format its own file")
    return outputs


def _write(report: AnyReport, outputs: Sequence[tuple[str, str]]) -> None:
    from .emit import EMITTERS

    for name, target in outputs:
        if target == "-":
            text = _terminal(report) if name == "text" else EMITTERS[name](report)
            click.echo(text, nl=not text.endswith("\n"), color=True)  # whether to colour is decided above
            continue
        try:
            Path(target).write_text(EMITTERS[name](report), encoding="utf-8", newline="")
        except OSError as error:
            raise UsageError(
                f"cannot write the {name} report: {error.strerror or error}",
                target,
                "name a file in a folder that exists",
            ) from None


def _terminal(report: AnyReport) -> str:
    from .emit import text

    color = not os.environ.get("NO_COLOR") and (bool(os.environ.get("FORCE_COLOR")) or sys.stdout.isatty())
    return text.emit(report, color=color, width=max(60, _columns()))


def _columns() -> int:
    """Of the terminal, or COLUMNS; shutil would know it too and costs start-up time."""
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said):
        return int(said)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):  # not a terminal
        return 100


def _write_error(error: Exception, outputs: Sequence[tuple[str, str]]) -> None:
    """On exit 2, 3 and 70 the requested files are still written: no stale report is read."""
    from .model import ErrorReport

    if isinstance(error, GateError):
        code, message, where, hint = error.exit, error.message, error.where, error.hint
    else:
        code, where, hint = Exit.BUG, "", "run again with --debug and report the traceback"
        message = f"internal error: {type(error).__name__}: {error}"
    at = f" ({where})" if where else ""
    report = ErrorReport(
        int(code), f"ERROR (exit {int(code)}, no verdict): {message}{at}", message, where, hint
    )
    _write(report, [(name, target) for name, target in outputs if target != "-" or name != "text"])


# ---- policy, schema -----------------------------------------------------------------------


@cli.group(name="policy")
def policy_group() -> None:
    """Check and show policies."""


@policy_group.command(name="validate")
@click.argument("files", nargs=-1, required=True)
@click.option("--profile", metavar="NAME", help="Also check this profile.")
def policy_validate(files: Sequence[str], profile: str | None) -> int:
    """Check policy FILES against the rules and against the published schema."""
    from . import policy
    from .policy._published import faults

    for file in files:
        loaded = policy.load(file, profile=profile)
        for fault in faults(policy.document(Path(file).read_bytes(), file)):
            raise UsageError(f"valid for slo-gate, but not for the published schema: {fault}", file)
        click.echo(f"{file}: valid, {len(loaded.objectives)} objectives")
    return Exit.PASS


@policy_group.command(name="show")
@_policy_options
def policy_show(**options: Any) -> int:
    """Print the policy text of a preset, or the effective objectives of a policy."""
    from . import policy

    if options["preset"] and not options["profile"]:
        click.echo(policy.preset_text(options["preset"]), nl=False)
        return Exit.PASS
    loaded = _policy(options)
    for objective in loaded.objectives:
        click.echo(f"{loaded.path}:{objective.line}: {objective.level.value:5} {_describe(objective)}")
    return Exit.PASS


def _describe(objective: Any) -> str:
    from .evaluate import describe

    return f"{objective.id}: {describe(objective)}"


@cli.command()
@click.argument("name", type=click.Choice(("policy", "report")))
def schema(name: str) -> int:
    """Print the published JSON Schema of policies or of reports."""
    import json

    from ._schemas import load

    click.echo(json.dumps(load(name), indent=2, ensure_ascii=False))
    return Exit.PASS


@cli.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def completion(shell: str) -> int:
    """Print the completion script for a SHELL; source it from the shell's start-up file."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(cli, {}, "slo-gate", "_SLO_GATE_COMPLETE").source())
    return Exit.PASS
