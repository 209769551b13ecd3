"""What several commands share: which policy, which outputs, how a report is written."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from ..errors import Exit, GateError, UsageError

if TYPE_CHECKING:
    from ..evaluate import Moved
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


def what_if(wanted: object) -> Moved | None:
    """What computes the what-if of a page; imported only where a page is wanted."""
    if not wanted:
        return None
    from ..advise.whatif import whatif

    return whatif


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
    from ..readers.baseline import read_baseline as reader

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


Outputs = Sequence[tuple[str, str]]  # (format, target); - is stdout
Settings = Mapping[str, Mapping[str, object]]  # of a format, options that only it has


def wanted_outputs(options: dict[str, Any]) -> list[tuple[str, str]]:
    """(format, target) pairs. Raises UsageError when two writers want stdout or one file."""
    outputs = [(name, str(options[option])) for option, name in FILE_FORMATS.items() if options.get(option)]
    if options["format_"] or all(target != "-" for _, target in outputs):
        outputs.append((options["format_"] or "text", "-"))
    places = [target if target == "-" else os.path.realpath(target) for _, target in outputs]
    read = [options.get("policy_path"), *(options.get("results") or ()), *(options.get("baseline") or ())]
    for (name, target), place in zip(outputs, places, strict=True):
        if place in {os.path.realpath(path) for path in read if path and path != "-"}:
            raise UsageError(f"the {name} report would overwrite what is read", target, "name another file")
    for (_, target), place in zip(outputs, places, strict=True):
        if places.count(place) > 1:
            name = "stdout" if target == "-" else target
            error = UsageError(f"two outputs go to {name}", "", "give each format its own file")
            files = [one for at, one in enumerate(outputs) if places.index(places[at]) == at]
            write_error(error, [one for one in files if one[1] != "-"])
            raise error
    return outputs


def stated_outputs(command: click.Command, words: Sequence[str]) -> list[tuple[str, str]]:
    """The files that `words` ask for, where click could not make sense of them.

    A word after an option that is not known is taken for its value. Where options end at the first
    argument (`run`), that of another program is never taken for ours.
    """
    options = {name: one for one in command.params if isinstance(one, click.Option) for name in one.opts}
    found: dict[str, str] = {}
    left = iter(words)
    for word in left:
        if word == "--":
            break
        if not word.startswith("-") or word == "-":
            if command.context_settings.get("allow_interspersed_args", True):
                continue
            break
        name, given, value = word.partition("=")
        option = options.get(name)
        if not given and (option is None or not option.is_flag):
            value = next(left, "")
            if option is None and value.startswith("-"):  # an unknown flag
                left = chain((value,), left)
        if option is not None and option.name in FILE_FORMATS and value not in ("", "-"):
            found[option.name] = value
    return [(FILE_FORMATS[name], target) for name, target in found.items()]


def write(report: AnyReport, outputs: Outputs, settings: Settings | None = None) -> None:
    """Every output to its target, files first.

    Nothing is written before all of them are rendered and every file is open: where one cannot be
    written (UsageError) or an emitter has a bug, the others say so instead of a verdict.
    """
    try:
        rendered = [(name, target, _rendered(report, name, target, settings)) for name, target in outputs]
        with ExitStack() as stack:
            files = [(_opened(*one[:2], stack), *one) for one in rendered if one[1] != "-"]
            for file, name, target, text in files:
                _fill(file, name, target, text)
    except Exception as error:
        write_error(error, outputs, settings)
        raise
    for _, target, text in rendered:
        if target == "-":
            _to_stdout(text)


def _rendered(report: AnyReport, name: str, target: str, settings: Settings | None) -> str:
    from ..emit import EMITTERS

    said = (settings or {}).get(name, {})
    if target != "-" or name not in ("text", "github"):
        return EMITTERS[name](report, **said)
    return _terminal(report) + (EMITTERS[name](report) if name == "github" else "")


def _opened(name: str, target: str, stack: ExitStack) -> BinaryIO:
    """A file to write, made where it is not there, as long as it was. Raises UsageError."""

    def opener(path: str, flags: int) -> int:
        return os.open(path, flags & ~os.O_TRUNC, 0o666)

    try:
        return stack.enter_context(open(target, "wb", 0, opener=opener))
    except OSError as error:
        raise _unwritable(name, target, error) from None


def _fill(file: BinaryIO, name: str, target: str, text: str) -> None:
    """Raises UsageError, e.g. for a full disk."""
    left = memoryview(text.encode("utf-8"))
    try:
        if os.path.isfile(target):  # noqa: PTH113 - a pipe has no length
            file.truncate(0)
        while left:
            left = left[file.write(left) or 0 :]
    except OSError as error:
        raise _unwritable(name, target, error) from None


def _unwritable(name: str, target: str, error: OSError) -> UsageError:
    what = f"cannot write the {name} report: {error.strerror or error}"
    return UsageError(what, target, "name a file in a folder that exists")


def _to_stdout(text: str) -> None:
    try:
        click.echo(text, nl=not text.endswith("\n"), color=True)  # whether to colour is decided elsewhere
        sys.stdout.flush()
    except OSError as error:  # `| head` has left, or the disk is full: the verdict still holds
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            click.echo(f"warning: stdout cannot be written: {error.strerror}", err=True)


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


def write_error(error: Exception, outputs: Outputs, settings: Settings | None = None) -> None:
    """On exit 2, 3 and 70 the requested files are still written: no stale report is read.

    A file that cannot be written is told on stderr and does not keep the others from it.
    """
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
    for name, target in outputs:
        if target != "-":
            _replace(report, name, target, settings, told=error)
        elif name != "text":
            _to_stdout(_rendered(report, name, target, settings))


def _replace(report: AnyReport, name: str, target: str, settings: Settings | None, told: Exception) -> None:
    from ..units import printable

    try:
        with ExitStack() as stack:
            _fill(_opened(name, target, stack), name, target, _rendered(report, name, target, settings))
    except UsageError as error:
        if (error.message, error.where) != (getattr(told, "message", ""), getattr(told, "where", "")):
            click.echo(f"error: {printable(target)}: {printable(error.message)}", err=True)
