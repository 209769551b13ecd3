"""What several commands share: which policy, which outputs, how a report is written."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import reduce
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from .. import disk, remote
from ..errors import Exit, GateError, InputError, UsageError
from ._completing import completed, presets, profiles, tools
from ._lines import tell
from ._place import placed, policy_name, subject

if TYPE_CHECKING:
    from pathlib import Path

    from ..advise.plan import Plan
    from ..evaluate import Moved
    from ..model import AnyReport, Policy, PolicyName, Report, WhatIf
    from ..readers import Reading

_SIDECAR = ".slo.json"  # what `slo-gate run` writes beside a result
NO_MEMORY = "the results need more memory than this process may use: pass fewer or smaller files at once"
_FORMATS = click.Choice(("text", "json", "junit", "markdown", "github", "gitlab"))
FILES = {  # option -> emitter, and what it writes
    "json": ("json", "the report as JSON"),
    "junit": ("junit", "JUnit XML"),
    "markdown": ("markdown", "Markdown"),
    "html": ("html", "a page with charts (extra slo-gate[report])"),
    "codequality": ("gitlab", "a GitLab code-quality report"),
    "sarif": ("sarif", "a SARIF log for code scanning"),
    "metrics": ("openmetrics", "OpenMetrics text"),
    "summary": ("summary", "the lead lines and the exit code"),
}
# Option -> its key, of all that belong to the command that gives a verdict again.
_GIVEN = {
    "--policy": "policy_path",
    "--policy-from": "policy_from",
    "--preset": "preset",
    "--profile": "profile",
    "--tool": "tool",
}
_GIVEN |= {
    "--unproven": "unproven",
    "--set": "stated",
    "--map": "columns",
    "--ignore": "ignore",
    "--baseline": "baseline",
    "--allow-baseline": "allowed",
    "--history": "history",
    "--no-history": "no_history",
    "--base-branch": "base_branch",
    "--last": "last",
}
_DEFAULTS = {"--policy-from": "head", "--fail-on": "fail"}
_GIVEN |= {
    "--max-growth": "max_growth",
    "--same-session": "same_session",
    "--fail-on": "fail_on",
    "--report-only": "report_only",
}

# ---- options ------------------------------------------------------------------------------


def named(value: str) -> str:
    """The type of every option that names a file: an empty name would be the current folder, or no output.

    What a URL holds besides the place of the file is left out: it may be secret.
    """
    if not value:
        raise click.BadParameter("the name is empty: check the variable it comes from")
    try:
        return remote.shown(value)
    except UsageError as error:
        raise click.BadParameter(str(error)) from None


def named_here(value: str) -> str:
    """The same of what can be on this machine alone."""
    if remote.is_url(name := named(value)):
        raise click.BadParameter("a URL stands where only a file of this machine can")
    return name


def together(*options: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Several options as one, in this order in the help."""
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


_FROM = "Take --policy as a commit has it; base is the one that a pull request is made against."
policy_options = together(  # read by `chosen_policy`
    click.option(
        "-p",
        "--policy",
        "policy_path",
        type=named,
        metavar="FILE",
        help="The policy. Default: slo.yaml, .slo-gate.yaml or .github/slo.yaml.",
    ),
    click.option("--policy-from", default="head", metavar="head|base|COMMIT", help=_FROM),
    click.option(
        "--preset",
        metavar="NAME",
        shell_complete=completed(presets),
        help="Use an embedded policy instead of a file (slo-gate policy presets).",
    ),
    click.option(
        "--profile",
        metavar="NAME",
        shell_complete=completed(profiles),
        help="Use this profile of the policy, not its default_profile; none: the policy as it stands.",
    ),
)
_STATE = "State what the files do not: tool_version, model, hardware, interaction, concurrency, request_rate."
_IGNORE = "Leave out files of this name or path, results and baselines alike; the report says which."
_JOBS = "Read with N processes. Default: one a core (at most 8) from 200 MB on. The report is the same."
reading_options = together(  # read by `read_results`
    click.option(
        "--tool",
        metavar="NAME",
        shell_complete=completed(tools),
        help="Force a reader instead of recognising the file.",
    ),
    click.option("--set", "stated", multiple=True, metavar="KEY=VALUE", help=_STATE),
    click.option(
        "--map",
        "columns",
        multiple=True,
        metavar="OURS=THEIRS",
        help="Name a column of home-made rows, as in --map e2e_ms=latency_ms.",
    ),
    click.option("--ignore", multiple=True, type=named, metavar="GLOB", help=_IGNORE),
)
jobs_option = click.option("--jobs", type=click.IntRange(min=1), metavar="N", help=_JOBS)
output_options = together(  # read by `wanted_outputs`
    click.option("--format", "format_", type=_FORMATS, help="What goes to stdout. Default: text."),
    *(
        click.option(f"--{name}", type=named, metavar="FILE", help=f"Also write {what}; - is stdout.")
        for name, (_, what) in FILES.items()
    ),
)
length_options = together(  # read by `length`
    click.option("-v", "--verbose", is_flag=True, help="Show everything: notes, intervals, runs, hashes."),
    click.option("-q", "--quiet", is_flag=True, help="Show the lead lines alone."),
)
_CODES = click.Choice(("fail", "inconclusive", "warn"))
_MILDEST = "The mildest verdict that exits non-zero; only tightens the policy."
_UNPROVEN = (
    "Judge, and say so, although no row shows workload.input_tokens, .output_tokens or evidence.prompts."
)
_SHOWN = "Exit 0 whatever the verdict, and say so in every output."
verdict_options = together(
    click.option("--fail-on", type=_CODES, default="fail", show_default=True, help=_MILDEST),
    click.option("--unproven", multiple=True, metavar="RULE", help=_UNPROVEN),
    click.option("--report-only", is_flag=True, help=_SHOWN),
    click.option("--debug", is_flag=True, help="Show tracebacks."),
)


def length(options: Mapping[str, Any]) -> Settings:
    """How much text goes to stdout. Raises UsageError."""
    if options["verbose"] and options["quiet"]:
        raise UsageError("--verbose and --quiet exclude each other", "", "name one of them")
    return {"text": {name: options[name] for name in ("verbose", "quiet")}}


def chosen_policy(options: dict[str, Any]) -> Policy:
    """The policy the options name, or the one that is found. Raises PolicyError and UsageError.

    A commit it is taken from is in `options` by its full SHA afterwards: what it is called may move on.
    """
    from .. import policy

    if options["policy_path"] and options["preset"]:
        raise UsageError("--policy and --preset exclude each other", "", "name one of them")
    if options["policy_from"] != "head":
        from ._revision import Revision

        if not options["policy_path"]:
            why = "a preset is in no commit" if options["preset"] else "no policy file is named"
            raise UsageError(why, "--policy-from", "name the file with --policy")
        revision = Revision(options["policy_path"], options["policy_from"])
        options["policy_from"] = revision.commit
        return revision.policy(options["profile"])
    if options["preset"]:
        return placed(policy.preset(options["preset"], profile=options["profile"]), "")
    path = options["policy_path"] or policy.find(results=options.get("results") or ())
    return placed(policy.load(path, profile=options["profile"]), path)


def judging(options: dict[str, Any]) -> Policy:
    """The chosen policy, for a verdict, with what --unproven names. Raises PolicyError and UsageError."""
    from .. import policy

    return policy.unproven(chosen_policy(options), options["unproven"])


def read_results(
    options: Mapping[str, Any], example: str, policy: Policy | None = None, **how: Any
) -> Reading:
    """The results the options name; `example` shows how to name one. Raises UsageError and InputError."""
    from .. import readers

    if not options["results"]:
        raise UsageError("no result file is named", "", example)
    return readers.read(options["results"], **how_read(options, policy), **how)


def how_read(options: Mapping[str, Any], policy: Policy | None) -> dict[str, Any]:
    """How files are read, results and baselines alike."""
    from ..engine import elsewhere

    said = {name: options[name] for name in ("tool", "stated", "columns")}
    return {**said, "ignore": ignored(options, policy), "elsewhere": elsewhere(options.get("jobs"))}


def ignored(options: Mapping[str, Any], policy: Policy | None) -> tuple[str, ...]:
    """Patterns of files to leave out, the caller's and the policy's."""
    return (*options["ignore"], *(policy.evidence.ignore if policy else ()))


def needs_gaps(policy: Policy) -> bool:
    """Whether an objective is about ITL: only then are gaps decoded."""
    return any(objective.metric == "itl" for objective in policy.objectives)


def what_if(wanted: object) -> Moved | None:
    """What computes the what-if of a page; imported only where a page is wanted."""
    if not wanted:
        return None
    from ..advise.whatif import whatif

    return whatif


def quantity(text: str, unit: str, option: str, hint: str = "") -> float:
    """A quantity that an option states. Raises UsageError."""
    from ..units import parse

    try:
        return parse(text, unit)
    except ValueError as error:
        raise UsageError(str(error), option, hint) from None


def reproducible(report: Report, words: Sequence[str], options: Mapping[str, Any]) -> Report:
    """The report with the command that gives this verdict again: `words` and what `options` hold."""
    from msgspec.structs import replace

    more: list[str] = []
    for name, key in _GIVEN.items():
        value = options.get(key) or ()
        for item in value if isinstance(value, tuple) else (value,):
            more += [] if item == _DEFAULTS.get(name) else [name] if item is True else [name, str(item)]
    command = shlex.join((*words, *more))
    return replace(report, provenance=replace(report.provenance, reproduce=command))


def hopeless(file: str) -> Iterator[str]:
    """What the evidence that a policy file declares can never pass, a sentence a profile."""
    from .. import policy
    from ..advise.plan import never

    for name, found in policy.versions(policy.content(file), file).items():
        if blocked := never(found):
            words = ["slo-gate", "plan", "--policy", file, *(["--profile", name] if name else [])]
            profile = f"profile {name}: " if name else ""
            why = f"{', '.join(one.id for one in blocked)} can never pass with the evidence that is declared"
            yield f"{file}: {profile}{why}; {shlex.join(words)} says what it takes"


# ---- what is shown without a report --------------------------------------------------------


def as_json(document: Mapping[str, Any]) -> str:
    """A versioned JSON document."""
    import json

    text = json.dumps({"schema_version": 1, **document}, indent=2, allow_nan=False)
    # A CI runner obeys `##[command]` anywhere in a line; inside a JSON string \u0023 is the same #.
    return text.replace("##", "#\\u0023")


def advice_json(advice: Plan | WhatIf) -> str:
    """Advice as JSON, of its policy only what names it."""
    from msgspec import to_builtins

    document = to_builtins(advice, str_keys=True)
    document["policy"] = {key: document["policy"][key] for key in ("name", "path", "sha256", "profile")}
    return as_json(document)


def aligned(rows: Sequence[Sequence[str]], right: Container[int]) -> Iterator[str]:
    """Lines of cells as wide as their columns; those of `right` end alike."""
    sizes = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            cell.rjust(size) if at in right else cell.ljust(size)
            for at, (cell, size) in enumerate(zip(row, sizes, strict=True))
        )
        yield f"  {'  '.join(cells)}".rstrip()


def save(path: Path, content: bytes, hint: str) -> None:
    """A file in a folder that need not be there. Raises UsageError, also where it was read."""
    try:
        no_sidecar(str(path))
        path.parent.mkdir(parents=True, exist_ok=True)
        with disk.to_write(path) as file:
            disk.fill(file, content)
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror or error}", str(path), hint) from None


# ---- outputs ------------------------------------------------------------------------------


Outputs = Sequence[tuple[str, str]]  # (format, target); - is stdout
Settings = Mapping[str, Mapping[str, object]]  # of a format, options that only it has


def wanted_outputs(options: dict[str, Any]) -> list[tuple[str, str]]:
    """(format, target) pairs. Raises UsageError when two writers want stdout or one file."""
    outputs = [(name, str(options[option])) for option, (name, _) in FILES.items() if options.get(option)]
    if options["format_"] or all(target != "-" for _, target in outputs):
        outputs.append((options["format_"] or "text", "-"))
    try:
        keep_inputs(options, [target for _, target in outputs])
        for _, target in outputs:
            if disk.is_read(_place(target)):
                raise UsageError("the output would overwrite what is read", target, "name another file")
            no_sidecar(target)
    except UsageError as error:
        write_error(error, outputs, about=policy_name(options))
        raise
    places = [_place(target) or os.path.realpath(target) for _, target in outputs]
    for (_, target), place in zip(outputs, places, strict=True):
        if places.count(place) > 1:
            name = "stdout" if target == "-" else target
            double = UsageError(f"two outputs go to {name}", "", "give each format its own file")
            files = [one for at, one in enumerate(outputs) if places.index(places[at]) == at]
            write_error(double, [one for one in files if one[1] != "-"], about=policy_name(options))
            raise double
    return outputs


def no_sidecar(target: str) -> None:
    """Raises UsageError for the name of a sidecar: the next check would take it for facts of a result."""
    if target.endswith(_SIDECAR):
        result = target.removesuffix(_SIDECAR)
        raise UsageError(f"it would be read as the sidecar of {result}", target, "name another file")


def _place(target: str) -> disk.Identity | None:
    """The file that an output goes to, where it is there."""
    return disk.stream("stdout") if target == "-" else disk.identity(target)


def keep_inputs(options: Mapping[str, Any], targets: Sequence[str]) -> None:
    """Before anything is read: no output may land on what the options name or find, not even an error.

    Raises UsageError where stdout or stderr does.
    """
    there = {_place(target) for target in (*targets, "-")} | {disk.stream("stderr")}
    if there <= {None}:
        return  # nothing that could be written over: what is found need not be looked at
    from .. import policy, readers

    faults: list[UsageError] = []
    paths = [options[key] for key in ("policy_path", "dataset") if options.get(key)]
    paths += [name for name in policy.NAMES if not options.get("policy_path") and not options.get("preset")]
    # Also what --ignore leaves out: it may be a measurement.
    results, stored = (readers.files.candidates(options.get(key) or ()) for key in ("results", "baseline"))
    # The report of an earlier check is no input, but for a baseline.
    found = (path for path in results if disk.identity(path) not in there or not readers.ours.written(path))
    if "-" in (options.get("results") or ()):
        disk.keep_stdin()
    for path in (*paths, *stored, *found):
        for kept in (path, f"{path}{readers.sidecar.SUFFIX}"):
            try:
                disk.keep(kept, kept)
            except UsageError as error:
                faults.append(error)
    if faults:
        raise faults[0]


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
        write_error(error, outputs, settings, about=subject(report))
        raise
    for _, target, text in rendered:
        if target == "-":
            _to_stdout(text)


def _rendered(report: AnyReport, name: str, target: str, settings: Settings | None) -> str:
    from ..emit import EMITTERS

    said = (settings or {}).get(name, {})
    if target != "-" or name not in ("text", "github"):
        return EMITTERS[name](report, **said)
    return _terminal(report, **(settings or {}).get("text", {})) + (
        EMITTERS[name](report) if name == "github" else ""
    )


def _opened(name: str, target: str, stack: ExitStack) -> BinaryIO:
    """A file to write, made where it is not there, as long as it was. Raises UsageError."""

    try:
        return stack.enter_context(disk.to_write(target))
    except OSError as error:
        raise _unwritable(name, target, error) from None


def _fill(file: BinaryIO, name: str, target: str, text: str) -> None:
    """Raises UsageError, e.g. for a full disk."""
    try:
        disk.fill(file, text.encode("utf-8"))
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


def _terminal(report: AnyReport, **said: Any) -> str:
    from ..emit import text

    tty = sys.stdout.isatty()
    color = not os.environ.get("NO_COLOR") and (bool(os.environ.get("FORCE_COLOR")) or tty)
    return text.emit(report, color=color, width=max(60, columns()), unicode=blocks(), wrap=tty, **said)


def blocks() -> bool:
    """Whether stdout is a terminal that shows more than ASCII."""
    return sys.stdout.isatty() and (sys.stdout.encoding or "").lower().startswith("utf")


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
    error: Exception, outputs: Outputs, settings: Settings | None = None, *, about: PolicyName | None
) -> None:
    """On exit 2, 3 and 70 the requested files are still written: no stale report is read.

    A file that cannot be written is told on stderr and does not keep the others from it.
    """
    from ..model import ErrorReport

    error = InputError(NO_MEMORY) if isinstance(error, MemoryError) else error
    if isinstance(error, GateError):
        code, message, where, hint = error.exit, error.message, error.where, error.hint
    else:
        code, where, hint = Exit.BUG, "", "run again with --debug and report the traceback"
        message = f"internal error: {type(error).__name__}: {error}"
    at = f" ({where})" if where else ""
    headline = f"ERROR (exit {int(code)}, no verdict): {message}{at}"
    report = ErrorReport(int(code), headline, message, where, hint, about)
    for name, target in outputs:
        if target.endswith(_SIDECAR):
            continue
        if target != "-":
            _replace(report, name, target, settings, told=error)
        elif name != "text" and not disk.is_read(disk.stream("stdout")):
            _to_stdout(_rendered(report, name, target, settings))


def _replace(report: AnyReport, name: str, target: str, settings: Settings | None, told: Exception) -> None:
    from ..units import printable

    try:
        with ExitStack() as stack:
            _fill(_opened(name, target, stack), name, target, _rendered(report, name, target, settings))
    except UsageError as error:
        if (error.message, error.where) != (getattr(told, "message", ""), getattr(told, "where", "")):
            tell(f"error: {printable(target)}: {printable(error.message)}")
