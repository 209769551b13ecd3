"""What several commands share: which policy, which outputs, how a report is written."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import Exit, GateError, UsageError

if TYPE_CHECKING:
    from ..model import AnyReport, Baseline, Policy

FORMATS = ("text", "json", "junit", "markdown", "github", "gitlab")
FILE_FORMATS = {  # option -> emitter
    "json": "json",
    "junit": "junit",
    "markdown": "markdown",
    "html": "html",
    "codequality": "gitlab",
    "metrics": "openmetrics",
}


def policy_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--policy, --preset and --profile, read by `chosen_policy`."""
    for option in (
        click.option("--profile", metavar="NAME", help="Use this profile of the policy."),
        click.option("--preset", metavar="NAME", help="Use an embedded policy instead of a file."),
        click.option(
            "-p", "--policy", "policy_path", metavar="FILE", help="The policy. Default: slo.yaml and kin."
        ),
    ):
        command = option(command)
    return command


def chosen_policy(options: dict[str, Any]) -> Policy:
    """The policy the options name, or the one that is found. Raises PolicyError and UsageError."""
    from .. import policy

    if options["policy_path"] and options["preset"]:
        raise UsageError("--policy and --preset exclude each other", "", "name one of them")
    if options["preset"]:
        return policy.preset(options["preset"], profile=options["profile"])
    return policy.load(options["policy_path"] or policy.find(), profile=options["profile"])


def baseline_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--same-session and --allow-baseline, read by `read_baseline`."""
    for option in (
        click.option(
            "--allow-baseline",
            "allowed",
            multiple=True,
            metavar="KEY",
            help="Let the baseline differ in tool, model, hardware, interaction, load, input_tokens"
            " or output_tokens.",
        ),
        click.option(
            "--same-session",
            is_flag=True,
            help="State that one job on one node measured both the baseline and the results.",
        ),
    ):
        command = option(command)
    return command


def read_baseline(names: Sequence[str], options: dict[str, Any], *, gaps: bool) -> Baseline:
    """The baseline the options name. Raises InputError, and UsageError for an unknown key to allow."""
    from msgspec.structs import replace

    from ..evaluate import ALLOWABLE
    from ..readers._baseline import read_baseline as reader

    for key in options["allowed"]:
        if key not in ALLOWABLE:
            raise UsageError(
                f'"{key}" is nothing a baseline may differ in',
                "--allow-baseline",
                f"one of {', '.join(ALLOWABLE)}",
            )
    found = reader(names, tool=options["tool"], stated=options["stated"], gaps=gaps)
    return replace(found, same_session=options["same_session"], allowed=frozenset(options["allowed"]))


# ---- outputs ------------------------------------------------------------------------------


def wanted_outputs(options: dict[str, Any]) -> list[tuple[str, str]]:
    """(format, target) pairs. Raises UsageError when two writers want stdout or one file."""
    outputs = [(name, str(options[option])) for option, name in FILE_FORMATS.items() if options.get(option)]
    if options["format_"] or all(target != "-" for _, target in outputs):
        outputs.append((options["format_"] or "text", "-"))
    targets = [target for _, target in outputs]
    for target in targets:
        if targets.count(target) > 1:
            name = "stdout" if target == "-" else target
            raise UsageError(f"two outputs go to {name}", "", "give each format its own file")
    return outputs


def write(
    report: AnyReport,
    outputs: Sequence[tuple[str, str]],
    settings: Mapping[str, Mapping[str, object]] | None = None,
) -> None:
    """Every output to its target; `settings` are options that only one format has, by its name."""
    from ..emit import EMITTERS

    for name, target in outputs:
        said = (settings or {}).get(name, {})
        if target == "-":
            text = _terminal(report) if name in ("text", "github") else EMITTERS[name](report, **said)
            _to_stdout(text + EMITTERS[name](report) if name == "github" else text)
            continue
        try:
            Path(target).write_text(EMITTERS[name](report, **said), encoding="utf-8", newline="")
        except OSError as error:
            raise UsageError(
                f"cannot write the {name} report: {error.strerror or error}",
                target,
                "name a file in a folder that exists",
            ) from None


def _to_stdout(text: str) -> None:
    try:
        click.echo(text, nl=not text.endswith("\n"), color=True)  # whether to colour is decided elsewhere
        sys.stdout.flush()
    except BrokenPipeError:  # `| head`: the reader has left, the verdict still holds
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _terminal(report: AnyReport) -> str:
    from ..emit import text

    color = not os.environ.get("NO_COLOR") and (bool(os.environ.get("FORCE_COLOR")) or sys.stdout.isatty())
    blocks = sys.stdout.isatty() and (sys.stdout.encoding or "").lower().startswith("utf")
    return text.emit(report, color=color, width=max(60, columns()), unicode=blocks)


def columns() -> int:
    """Columns of the terminal, or COLUMNS; shutil would know it too and costs start-up time."""
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said):
        return int(said)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):  # not a terminal
        return 100


def write_error(
    error: Exception,
    outputs: Sequence[tuple[str, str]],
    settings: Mapping[str, Mapping[str, object]] | None = None,
) -> None:
    """On exit 2, 3 and 70 the requested files are still written: no stale report is read."""
    from ..model import ErrorReport

    if isinstance(error, GateError):
        code, message, where, hint = error.exit, error.message, error.where, error.hint
    else:
        code, where, hint = Exit.BUG, "", "run again with --debug and report the traceback"
        message = f"internal error: {type(error).__name__}: {error}"
    at = f" ({where})" if where else ""
    report = ErrorReport(
        int(code), f"ERROR (exit {int(code)}, no verdict): {message}{at}", message, where, hint
    )
    wanted = [(name, target) for name, target in outputs if target != "-" or name != "text"]
    write(report, wanted, settings)
