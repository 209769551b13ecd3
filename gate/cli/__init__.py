"""The command line: the only room that prints, opens outputs and exits.

A new command is one module here with a `command`, its name in COMMANDS, a section in docs/commands.md.
Only click and errors are imported at the top of these modules; each command imports what it uses.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

import click

from .. import __version__, disk
from ..errors import Exit, GateError, UsageError
from ._groups import Helpful
from ._lines import complain

COMMANDS = {  # and each in a line of a narrow terminal
    "check": "Judge results by a policy.",
    "comment": "Post a saved report as a comment.",
    "compare": "Show how percentiles moved between builds.",
    "completion": "Print the completion script of a shell.",
    "explain": "Say what a name in a report means.",
    "export": "Write results as one table of requests.",
    "history": "Remember sessions over commits.",
    "init": "Write a policy, also from results.",
    "inspect": "Show what results hold and can prove.",
    "plan": "Say how much a policy needs to decide.",
    "policy": "Check, show and compare policies.",
    "pull": "Fetch live metrics for check to read.",
    "recipe": "Print how to measure what a policy asks.",
    "run": "Measure until the verdict is decided.",
    "schema": "Print the JSON Schema of a file.",
    "synth": "Write results of a simulated server.",
    "tools": "List the tools whose results are read.",
    "trend": "Show figures and change points over commits.",
    "whatif": "Show goodput as the bounds move.",
}
_REPORTING = ("check", "run")  # those that write reports to files


class Commands(Helpful):
    """Imports the module of a command when it is asked for, not before."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, for help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """The command of that name; None where there is none."""
        if name not in COMMANDS:
            return None
        command: click.Command = import_module(f".{name}", __name__).command
        command.short_help = COMMANDS[name]
        return command


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="slo-gate")
def cli() -> None:
    """Gate merges and deploys on what users of an LLM get: goodput and percentiles, not means."""


def run(arguments: Sequence[str]) -> int:
    """The whole program; returns the exit code (docs/exit-codes.md)."""
    disk.forget()
    for name in ("stdout", "stderr"):
        # Closed by the caller: what is said goes nowhere, the code still counts.
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123
        stream = getattr(sys, name)
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = cli.main(args=list(arguments), prog_name="slo-gate", standalone_mode=False)
        return int(code or 0)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        _leave_no_stale_report(arguments, error)
        complain(error.format_message(), _context_of(error), _help_of(error))
        return Exit.USAGE
    except (click.Abort, KeyboardInterrupt):
        return 130
    except GateError as error:
        complain(error.message, error.where, error.hint)
        return error.exit
    except MemoryError:
        from ._shared import NO_MEMORY

        complain(NO_MEMORY, "", "")
        return Exit.INPUT
    except Exception as error:
        return _bug(error)
    finally:
        disk.forget()


def _leave_no_stale_report(arguments: Sequence[str], error: click.ClickException) -> None:
    """Click refuses a command line before the command sees it: the files it names say so."""
    from ._place import policy_name
    from ._shared import keep_inputs, write_error
    from ._words import stated_options, stated_outputs

    words = list(arguments)
    at = next((place for place, word in enumerate(words) if word in _REPORTING), None)
    command = cli.get_command(click.Context(cli), words[at]) if at is not None else None
    if at is None or command is None:
        return
    said = UsageError(error.format_message(), _context_of(error), _help_of(error))
    options, inputs = stated_options(command, words[at + 1 :])
    outputs = stated_outputs(options)
    with suppress(UsageError):
        named = {**options, "results": inputs, "baseline": [options.get("baseline", "")], "ignore": ()}
        keep_inputs(named, [target for _, target in outputs])
    write_error(said, outputs, about=policy_name(options))


def _bug(error: Exception) -> int:
    if "--debug" in sys.argv:
        import traceback

        traceback.print_exception(error)
    hint = "run again with --debug and report the traceback"
    complain(f"internal error: {type(error).__name__}: {error}", "", hint)
    return Exit.BUG


def _help_of(error: click.ClickException) -> str:
    return f"see `{_context_of(error) or 'slo-gate'} --help`"


def _context_of(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    return context.command_path if context else ""
