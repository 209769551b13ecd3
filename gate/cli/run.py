"""`slo-gate run`: repeat a benchmark command until the verdict is certain."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import UsageError
from ..units import SECONDS
from ._place import policy_name
from ._progress import Progress
from ._shared import (
    Outputs,
    ignored,
    judging,
    length,
    length_options,
    named_here,
    needs_gaps,
    output_options,
    policy_options,
    quantity,
    reading_options,
    reproducible,
    verdict_options,
    wanted_outputs,
    what_if,
    write,
    write_error,
)

if TYPE_CHECKING:
    from ..bench.plan import Plan
    from ..bench.results import How
    from ..bench.session import Held, Judge, Session
    from ..model import Policy, Report

_RUNS = 30  # a side, where the policy names no number
_EXITS = """\b
Placeholders in COMMAND and --baseline-command:
  {out}   the file the result is written to     {load}  the policy's load, e.g. 64
  {dir}   the folder of this run                {seed}  other for each run, the same on both sides
  {run}   1, 2, 3, ...

\b
Exit codes: as check, and
  3    also when the command keeps failing
  130  interrupted; start the same command again to go on"""


@click.command(name="run", epilog=_EXITS, context_settings={"allow_interspersed_args": False})
@click.argument("words", nargs=-1, metavar="-- COMMAND...")
@policy_options
@click.option(
    "--dir",
    "folder",
    type=named_here,
    metavar="FOLDER",
    default="slo-gate-run",
    show_default=True,
    help="The session: results, logs, journal.",
)
@click.option(
    "--runs",
    type=click.IntRange(1),
    metavar="N",
    help="Budget: runs a side. Default: evidence.runs or 30.",
)
@click.option("--requests", type=click.IntRange(1), metavar="N", help="Budget: attempted requests, all runs.")
@click.option("--time", "wall", metavar="TIME", help="Budget: time of the runs, e.g. 45min.")
@click.option(
    "--timeout",
    default="60min",
    show_default=True,
    metavar="TIME",
    help="A run that takes longer failed.",
)
@click.option(
    "--max-failures",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    help="Give up after this many failed runs in a row.",
)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="{seed} of the first run.")
@click.option(
    "--looks",
    type=click.IntRange(1, 10),
    default=5,
    show_default=True,
    help="How often the verdict is looked at, at equal parts of the budget.",
)
@click.option(
    "--until",
    type=click.Choice(("verdict", "all")),
    default="verdict",
    show_default=True,
    help="Stop when the verdict is certain, or when every objective is decided.",
)
@click.option(
    "--baseline-command", metavar="COMMAND", help="Also benchmark this server, in turn: A, B, A, B."
)
@click.option(
    "--confirm",
    is_flag=True,
    help="Measure a regression that fails once more, with other seeds, before it counts.",
)
@click.option("--side-by-side", is_flag=True, help="Run both commands at once instead of in turn.")
@click.option("--witness", metavar="URL", help="Read the server's metrics before and after each run.")
@click.option("--baseline-witness", metavar="URL", help="The same for the baseline's server.")
@click.option("--image", metavar="DIGEST", help="Of the server's image, for the sidecars.")
@click.option("--baseline-image", metavar="DIGEST", help="The same for the baseline's server.")
@click.option(
    "--dataset", type=named_here, metavar="FILE", help="The prompts; their SHA-256 goes into the sidecars."
)
@reading_options
@click.option("--again", is_flag=True, help="Give the verdict of a finished session again; runs nothing.")
@output_options
@length_options
@verdict_options
def command(**options: Any) -> int:
    """Run a benchmark COMMAND again and again until the verdict is certain, and judge as check does.

    Stopped in the middle, by whatever, the same command goes on where it was.
    """
    outputs = wanted_outputs(options)
    _refuse_inside(outputs, Path(options["folder"]))
    progress = Progress()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a cancelled CI job ends its benchmark too
    try:
        shown = length(options)
        session = _session(options, progress)
        report = session.run()
    except Exception as error:
        progress.clear()
        write_error(error, outputs, about=policy_name(options))
        raise
    except KeyboardInterrupt:
        progress.clear()
        click.echo("slo-gate run: interrupted; complete runs are kept, the same command goes on", err=True)
        raise
    progress.clear()
    again = ("slo-gate", "run", "--again", "--dir", options["folder"])
    # What was read, and how, is in the session.
    write(reproducible(report, again, {**options, "tool": None, "stated": (), "ignore": ()}), outputs, shown)
    session.reported(report.exit_code)
    session.close()
    return report.exit_code


def _refuse_inside(outputs: Outputs, folder: Path) -> None:
    """Raises UsageError for an output among what the session keeps; the others say so."""
    from ..bench.journal import NAME
    from ..bench.plan import BASELINE, CANDIDATE, CONFIRM

    kept = (BASELINE, CANDIDATE, CONFIRM, "failed", "logs", "witness", NAME)
    own = [(folder / name).resolve() for name in kept]
    inside = [one for one in outputs if any(Path(one[1]).resolve().is_relative_to(place) for place in own)]
    if inside:
        hint = f"name a file elsewhere, such as {folder / 'report.json'}"
        error = UsageError("the output would overwrite what the session keeps", inside[0][1], hint)
        write_error(error, [one for one in outputs if one not in inside], about=None)
        raise error


def _session(options: dict[str, Any], progress: Progress) -> Session:
    """The session the options name, begun, gone on with, or opened again. Raises UsageError."""
    from ..bench.facts import gather
    from ..bench.journal import NAME, Journal
    from ..bench.session import Session
    from ..bench.state import past, terms

    policy, folder = judging(options), Path(options["folder"])
    if options["again"] and not (folder / NAME).is_file():
        raise UsageError("no session was ever started here", str(folder), "leave out --again")
    plan, how = (None, None) if options["again"] else _asked(options, policy)
    journal = Journal(folder)
    if plan is None or how is None:
        plan, how = past(journal.events, str(journal.path))
    session = Session(journal, plan, how, _judge(policy, plan, options), progress.tell, live=progress.live)
    facts = gather(options["dataset"]) if not options["again"] else None
    session.begin(terms(plan, policy.sha256, policy.profile, how), facts)
    if session.finished and not options["again"]:
        hint = "name another --dir for a new session, or add --again to see its verdict"
        raise UsageError("this session is finished and its verdict was given", str(folder), hint)
    if options["again"] and not session.stopped:
        raise UsageError("this session is not finished", str(folder), "leave out --again and it goes on")
    return session


def _asked(options: Mapping[str, Any], policy: Policy) -> tuple[Plan, How]:
    """What is to be run and read. Raises UsageError for what cannot be."""
    from ..bench import plan
    from ..bench.results import How

    words, base = tuple(options["words"]), _split(options["baseline_command"])
    if not words:
        hint = "slo-gate run --policy slo.yaml -- vllm bench serve ... --result-dir {dir}"
        raise UsageError("no benchmark command is given", "", hint)
    plan.check_command(words, "COMMAND")
    sides = [plan.Side(plan.CANDIDATE, words, options["witness"], options["image"])]
    if base:
        plan.check_command(base, "--baseline-command")
        side = plan.Side(plan.BASELINE, base, options["baseline_witness"], options["baseline_image"])
        sides.insert(0, side)
    for name in ("side_by_side", "confirm", "baseline_witness", "baseline_image"):
        if options[name] and not base:
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"{option} is about a baseline and none is run", "", "add --baseline-command")
    point = policy.evidence.decide == "point"
    wall_s = _seconds(options["wall"], "--time") if options["wall"] else None
    asked = plan.Plan(
        tuple(sides),
        plan.points(policy, [side.command for side in sides]),
        plan.Budget(options["runs"] or policy.evidence.runs_min or _RUNS, options["requests"], wall_s),
        options["seed"],
        1 if point else options["looks"],  # an estimate without an error rate is not looked at early
        options["until"],
        options["side_by_side"],
        _seconds(options["timeout"], "--timeout"),
        options["max_failures"],
        options["confirm"],
    )
    stated, columns = tuple(options["stated"]), tuple(options["columns"])
    return asked, How(options["tool"], stated, needs_gaps(policy), columns, ignored(options, policy))


def _split(command: str | None) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(command or ""))
    except ValueError as error:
        raise UsageError(
            f"cannot be split into words: {error}", "--baseline-command", "quote it as for a shell"
        ) from None


def _seconds(text: str, option: str) -> float:
    hint = "write it like 90s or 45min"
    value = quantity(text, SECONDS, option, hint)
    if value <= 0:
        raise UsageError("a time is more than 0", option, hint)
    return value


def _judge(policy: Policy, plan: Plan, options: Mapping[str, Any]) -> Judge:
    from datetime import date

    from ..evaluate import evaluate
    from ..model import Baseline

    today = date.today()

    def judge(first: Held, second: Held | None, notes: Sequence[str], last: bool) -> Report:
        return evaluate(
            policy,
            first[0],
            today,
            baseline=None if first[1] is None else Baseline(tuple(first[1])),
            again=None if second is None else (second[0], Baseline(tuple(second[1] or ()))),
            notes=notes,
            fail_on=options["fail_on"],
            report_only=options["report_only"],
            looks=plan.shares,
            charts=what_if(last and options["html"]),
        )

    return judge
