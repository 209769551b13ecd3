"""`slo-gate init`: write a commented policy, from answers or from results."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import Exit, UsageError
from ._lines import show
from ._shared import (
    hopeless,
    jobs_option,
    named,
    named_here,
    quantity,
    read_results,
    reading_options,
    save,
)
from .recipe import TOOLS

if TYPE_CHECKING:
    from ..model import Load, Run
    from ..recipe.init import Answers, Lengths

_ROUNDS = 5
_LAW = "MEAN[:STDDEV]"
_STORE = "Take the limits of growth from the noise of the sessions in this store, and compare with them."
_FOR = ("chat", "chat-70b", "chat-enterprise", "one-shot", "voice", "agent", "code-completion", "batch")


@click.command(name="init")
@click.option(
    "--for", "interaction", type=click.Choice(_FOR), help="What users do with it: decides what is slow."
)
@click.option("--model", metavar="NAME", help="The model, or a glob of its names.")
@click.option("--hardware", metavar="TEXT", help="What serves it, such as 8xH100.")
@click.option("--concurrency", type=click.IntRange(1), metavar="N", help="Target load: N requests in flight.")
@click.option("--request-rate", metavar="RATE", help="Target load: an open loop, e.g. 8/s.")
@click.option(
    "--peak", type=click.IntRange(1), metavar="N", help="Expected peak concurrency; the target is twice it."
)
@click.option("--input-tokens", metavar=_LAW, help="Lengths of the prompts.")
@click.option("--output-tokens", metavar=_LAW, help="Lengths of the answers.")
@click.option(
    "--client",
    type=click.Choice(TOOLS),
    metavar="NAME",
    help="The benchmark client (see recipe --for): lengths it cannot draw are written as it draws them.",
)
@click.option(
    "--from",
    "results",
    multiple=True,
    type=named,
    metavar="FILE",
    help="Suggest bounds from these results, with headroom, and the sizes that they have.",
)
@click.option("--from-history", type=named, metavar="STORE", help=_STORE)
@reading_options
@jobs_option
@click.option(
    "-o",
    "--output",
    default="slo.yaml",
    show_default=True,
    type=named_here,
    metavar="FILE",
    help="Where to write; - is stdout.",
)
@click.option("--force", is_flag=True, help="Overwrite the file.")
def command(**options: Any) -> int:
    """Write a commented policy: bounds with their reasons, and the profiles pr, nightly and release."""
    path = options["output"]
    if options["client"] and options["results"]:
        hint = "leave out --client: the policy has the lengths of the results"
        raise UsageError("--client and --from exclude each other", "", hint)
    if path != "-" and Path(path).exists() and not options["force"]:
        raise UsageError(
            "is there already", path, "add --force to overwrite it, or name another with --output"
        )
    if not options["interaction"] or not _given(options):
        _ask(options)
    answers = _answers(options)
    text = _text(answers, path)
    client = options["client"] or _client(answers, text, path)
    if client and not answers.measured:
        answers, text = _as_drawn(answers, text, path, client)
    if path == "-":
        click.echo(text, nl=False)
        return Exit.PASS
    save(Path(path), text.encode(), "name another file")
    source = (
        f" from {answers.measured.runs} run{'s' * (answers.measured.runs > 1)}" if answers.measured else ""
    )
    at = f" at {answers.target}" if answers.load else ""
    profiles = "with the profiles pr (default), nightly and release"
    show(f"wrote {path} for {answers.interaction}{source}{at}, {profiles}")
    if answers.left_out:
        show(f"not in these files, so without a bound: {', '.join(answers.left_out).upper()}")
    for side, asked in answers.asked.items():
        made = getattr(answers, side)
        written = f"{asked.mean:g} +- {asked.stddev:g}: the policy has {made.mean:g} +- {made.stddev:g}"
        show(f"{answers.client} cannot draw {side.replace('_', ' ')} of {written}")
    for line in hopeless(path):
        show(line)
    show(f"next: {shlex.join(_next(answers, options, client))}")
    return Exit.PASS


def _client(answers: Answers, text: str, path: str) -> str:
    """The client that a recipe is best written for; empty where none can be yet."""
    from ..policy import parse
    from ..recipe import client

    return client(parse(text.encode(), path)) if answers.load and not answers.measured else ""


def _as_drawn(answers: Answers, text: str, path: str, name: str) -> tuple[Answers, str]:
    """The answers and their policy with what a client draws, where it cannot draw what was asked for."""
    from msgspec.structs import replace

    from ..policy import parse
    from ..recipe import TOOLS, drawable
    from ..recipe.init import Lengths

    for _ in range(_ROUNDS):  # one setting of both sides may move as one of them does
        drawn = drawable(parse(text.encode(), path), name)
        if not drawn:
            break
        asked = {**{side: getattr(answers, side) for side in drawn}, **answers.asked}
        made = {
            side: Lengths(float(f"{one.mean:.4g}"), float(f"{one.stddev:.3g}")) for side, one in drawn.items()
        }
        answers = replace(answers, client=TOOLS[name].title, asked=asked, **made)
        text = _text(answers, path)
    return answers, text


def _next(answers: Answers, options: dict[str, Any], client: str) -> list[str]:
    """The command that comes now: to judge the results, or to get a benchmark first, which can pass."""
    policy = [] if options["output"] == "slo.yaml" else ["--policy", options["output"]]
    if answers.load and not answers.measured:
        return ["slo-gate", "recipe", *policy, "--for", client]
    words = [word for key, name in _READING.items() for value in options[key] for word in (name, value)]
    tool = ["--tool", options["tool"]] if options["tool"] else []
    return ["slo-gate", "check", *(options["results"] or ["RESULTS"]), *policy, *tool, *words]


_READING = {"stated": "--set", "columns": "--map", "ignore": "--ignore"}

# ---- answers ------------------------------------------------------------------------------


def _given(options: dict[str, Any]) -> bool:
    """Whether anything but the interaction was said: then nothing more is asked."""
    return any(options[key] for key in options.keys() - {"interaction", "output", "force"})


def _ask(options: dict[str, Any]) -> None:
    """Questions for what no option says; an empty answer leaves it open. Raises UsageError off a terminal."""
    if not sys.stdin.isatty():
        if options["interaction"] or options["results"]:
            return  # the one thing that cannot be left open, unless the bounds are measured ones
        hint = f"add --for with one of {', '.join(_FOR)}; it decides which bounds are written"
        raise UsageError("--for is missing, and there is no terminal to ask on", "", hint)
    if not (options["interaction"] or options["results"]):
        options["interaction"] = click.prompt("What do users do with it", type=click.Choice(_FOR), err=True)
    if _given(options):
        return
    for key, question in (
        ("model", "Model, as the server names it"),
        ("hardware", "Hardware, such as 8xH100"),
        ("peak", "Requests in flight at the busiest minute"),
        ("input_tokens", "Tokens of a prompt: mean:stddev"),
        ("output_tokens", "Tokens of an answer: mean:stddev"),
    ):
        options[key] = click.prompt(
            f"{question} (empty: leave open)",
            default="",
            show_default=False,
            err=True,
            value_proc=partial(_answer, key),
        )


def _answer(key: str, text: str) -> object:
    """An answer as its option would be; click asks again when it makes no sense."""
    if not text.strip():
        return None
    if key == "peak":
        return click.types.convert_type(click.IntRange(1))(text)
    if key.endswith("tokens"):
        try:
            _lengths({key: text}, key)
        except UsageError as error:
            raise click.BadParameter(error.hint) from None
    return text


def _answers(options: dict[str, Any]) -> Answers:
    from .._schemas import load
    from ..recipe.init import Answers

    answers = Answers(
        interaction=options["interaction"] or "chat",
        schema=load("policy")["$id"],
        model=options["model"],
        hardware=options["hardware"],
        load=_load(options),
        input_tokens=_lengths(options, "input_tokens"),
        output_tokens=_lengths(options, "output_tokens"),
    )
    if options["from_history"]:
        answers = _from_history(answers, options["from_history"])
    return _from_results(answers, options) if options["results"] else answers


def _from_history(answers: Answers, store: str) -> Answers:
    """With the rules of growth that the noise of a store bears. Raises UsageError where it bears none."""
    from msgspec.structs import replace

    from ..advise.noise import noise, why_no_rule
    from .trend import sessions_of

    held = sessions_of(store, None)
    found = noise(held.records, held.store, held.branch, held.left_out)
    if why := why_no_rule(found):
        hint = f"see what is left out: `{shlex.join(['slo-gate', 'history', 'list', '--store', held.store])}`"
        raise UsageError(f"no rule of growth follows from these sessions: {why}", held.store, hint)
    return replace(answers, regression=found.regression, store=(held.store, held.branch))


def _text(answers: Answers, path: str) -> str:
    from .. import policy
    from ..recipe.init import policy_text

    text = policy_text(answers)
    policy.parse(text.encode(), path)  # every profile is checked
    return text


def _load(options: dict[str, Any]) -> tuple[str, float] | None:
    from ..units import RATE

    said = [key for key in ("concurrency", "request_rate", "peak") if options[key] is not None]
    if len(said) > 1:
        names = " and ".join("--" + key.replace("_", "-") for key in said)
        raise UsageError(f"{names} exclude each other", "", "a policy has one target load")
    if not said:
        return None
    if said[0] != "request_rate":
        return said[0], float(options[said[0]])
    rate = quantity(options["request_rate"], RATE, "--request-rate", "write it like 8/s")
    if not 0 < rate <= 1e6:
        raise UsageError(f"a rate of {rate:g}/s cannot be made", "--request-rate", "give one above 0")
    return "request_rate", rate


def _lengths(options: dict[str, Any], key: str) -> Lengths | None:
    """MEAN[:STDDEV] in tokens; a spread that is not given is 40 % of the mean, so that prompts vary."""
    from ..recipe.init import Lengths

    if not options[key]:
        return None
    option = "--" + key.replace("_", "-")
    first, _, second = options[key].partition(":")
    try:
        mean = float(first)
        spread = float(second) if second else float(f"{0.4 * mean:.3g}")
    except ValueError:
        message = f'expected {_LAW} in tokens, got "{options[key]}"'
        raise UsageError(message, option, "write it like 800:300") from None
    if not (0 < mean <= 1e7 and 0 < spread < mean):
        hint = "the spread lies above 0 and below the mean: prompts of one length measure the cache"
        raise UsageError(f"{options[key]} are no lengths", option, hint)
    return Lengths(mean, spread)


# ---- from results ---------------------------------------------------------------------------


def _from_results(answers: Answers, options: dict[str, Any]) -> Answers:
    """What the files say where no option did, and bounds above what they measured."""
    from datetime import date

    from msgspec.structs import replace

    from .. import policy
    from ..evaluate import evaluate
    from ..model import Kind
    from ..recipe.init import lengths, measured, policy_text

    names = ", ".join(options["results"])
    runs = read_results(options, "").runs
    if answers.load and all(run.load is None for run in runs) and not options["stated"]:
        # A file that does not say its load is of the one that is named: `check` is told so too.
        kind, value = answers.load
        options["stated"] = (
            f"request_rate={value:g}/s" if kind == "request_rate" else f"concurrency={answers.slots}",
        )
        runs = read_results(options, "").runs
    answers = replace(answers, load=answers.load or _main_load(runs, names))
    if not options["interaction"] and all(run.doubt("ttft") for run in runs):
        answers = replace(answers, interaction="one-shot")
    first = policy.parse(policy_text(answers).encode(), "init", profile="nightly")
    report = evaluate(first, runs, date.today())
    judged = [run for run, shown in zip(runs, report.runs, strict=True) if shown.at_target]
    if not judged:
        held = ", ".join(sorted({str(run.load or "a load that is not stated") for run in runs}))
        hint = "leave out the load, or name one that they have"
        raise UsageError(f"no run is at {first.workload.target}; the results are at {held}", names, hint)
    sizes = [shown.counts.attempted for shown in report.runs if shown.at_target and shown.counts]
    at = f", at {first.workload.target}" if first.workload.target else ""
    found = measured(first.objectives, report.checks, sizes, f"{names}{at}")
    if not found.observed_s:
        why = next((f": {doubt.why}" for run in judged if (doubt := run.doubt("e2e"))), "")
        hint = "pass files with one row a request, such as those of vLLM's --save-detailed"
        if all(run.tool == "generic" for run in judged):
            hint = "name a column of yours: `--map e2e_ms=YOURS`; `slo-gate tools generic` lists ours"
        raise UsageError(f"no percentile that a policy could bound can be read{why}", names, hint)
    bounded = {one.metric for one in first.objectives if one.kind is Kind.LATENCY}
    absent = bounded - {name.partition(".")[0] for name in found.observed_s}
    absent |= {metric for metric in bounded if all(run.doubt(metric) for run in judged)}
    return replace(
        answers,
        versioned=all(run.tool_version for run in judged),
        prompted=any(run.prompts for run in judged) or lengths(judged, "input_tokens") is not None,
        left_out=() if options["interaction"] else tuple(sorted(absent)),
        model=answers.model or _same(judged, "model"),
        hardware=answers.hardware or _same(judged, "hardware"),
        input_tokens=answers.input_tokens or lengths(judged, "input_tokens"),
        output_tokens=answers.output_tokens or lengths(judged, "output_tokens"),
        measured=found,
    )


def _main_load(runs: Sequence[Run], names: str) -> tuple[str, float] | None:
    """The load with the most runs, as the target of a sweep has; None where the files name none."""
    loads = Counter(run.load for run in runs)
    (most, number), *others = loads.most_common()
    if others and others[0][1] == number:
        said = ", ".join(sorted(str(load or "a load that is not stated") for load in loads))
        hint = "name the target with --concurrency N or --request-rate N/s"
        raise UsageError(f"the results have {len(loads)} loads: {said}", names, hint)
    return _as_answer(most)


def _as_answer(load: Load | None) -> tuple[str, float] | None:
    if load is None or load.burst or load.production:
        return None
    if load.concurrency is not None:
        return "concurrency", float(load.concurrency)
    return "request_rate", float(load.request_rate or 0)


def _same(runs: Sequence[Run], fact: str) -> str | None:
    said = {getattr(run, fact) for run in runs}
    return said.pop() if len(said) == 1 else None
