"""`slo-gate init`: write a commented policy, from answers or from results."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import Exit, UsageError
from ._lines import show
from ._shared import quantity

if TYPE_CHECKING:
    from ..model import Run
    from ..recipe.init import Answers, Lengths

_LAW = "MEAN[:STDDEV]"
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
    "--from",
    "results",
    multiple=True,
    metavar="FILE",
    help="Suggest bounds from these results, with headroom.",
)
@click.option(
    "-o",
    "--output",
    default="slo.yaml",
    show_default=True,
    metavar="FILE",
    help="Where to write; - is stdout.",
)
@click.option("--force", is_flag=True, help="Overwrite the file.")
def command(**options: Any) -> int:
    """Write a commented policy: bounds with their reasons, and the profiles pr, nightly and release."""
    path = options["output"]
    if path != "-" and Path(path).exists() and not options["force"]:
        raise UsageError(
            "is there already", path, "add --force to overwrite it, or name another with --output"
        )
    if not options["interaction"] or not _given(options):
        _ask(options)
    text = _text(options)
    if path == "-":
        click.echo(text, nl=False)
        return Exit.PASS
    try:
        Path(path).write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror or error}", path, "name another file") from None
    show(
        f"wrote {path}, with the profiles pr, nightly and release",
        f"next: slo-gate recipe --policy {shlex.quote(path)} --profile pr --for vllm",
    )
    return Exit.PASS


# ---- answers ------------------------------------------------------------------------------


def _given(options: dict[str, Any]) -> bool:
    """Whether anything but the interaction was said: then nothing more is asked."""
    return any(options[key] for key in options.keys() - {"interaction", "output", "force"})


def _ask(options: dict[str, Any]) -> None:
    """Questions for what no option says; an empty answer leaves it open. Raises UsageError off a terminal."""
    if not sys.stdin.isatty():
        if options["interaction"]:
            return  # the one thing that cannot be left open
        hint = f"add --for: one of {', '.join(_FOR)}"
        raise UsageError("what users do is not said, and there is nobody to ask: no SLO is made up", "", hint)
    if not options["interaction"]:
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


def _text(options: dict[str, Any]) -> str:
    from .. import policy
    from .._schemas import load
    from ..recipe.init import Answers, policy_text

    answers = Answers(
        interaction=options["interaction"],
        schema=load("policy")["$id"],
        model=options["model"],
        hardware=options["hardware"],
        load=_load(options),
        input_tokens=_lengths(options, "input_tokens"),
        output_tokens=_lengths(options, "output_tokens"),
    )
    if options["results"]:
        answers = _from_results(answers, options["results"])
    text = policy_text(answers)
    policy.parse(text.encode(), options["output"], profile="pr")  # every profile is checked
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


def _from_results(answers: Answers, names: Sequence[str]) -> Answers:
    """What the files say where no option did, and bounds above what they measured."""
    from datetime import date

    from msgspec.structs import replace

    from .. import policy, readers
    from ..evaluate import evaluate
    from ..recipe.init import lengths, measured, policy_text

    runs = readers.read(names).runs
    answers = replace(answers, load=answers.load or _only_load(runs, names))
    first = policy.parse(policy_text(answers).encode(), "init", profile="nightly")
    report = evaluate(first, runs, date.today())
    judged = [run for run, shown in zip(runs, report.runs, strict=True) if shown.at_target]
    if not judged:
        raise UsageError(f"no run at {first.workload.target}", ", ".join(names), "name a load the files hold")
    attempted = sum(shown.counts.attempted for shown in report.runs if shown.at_target and shown.counts)
    found = measured(
        first.objectives, report.checks, attempted, f"{', '.join(names)}, at {first.workload.target}"
    )
    if not found.observed_s:
        hint = "pass files with one row a request, such as those of --save-detailed"
        raise UsageError("no percentile that this policy bounds can be read", ", ".join(names), hint)
    return replace(
        answers,
        model=answers.model or _same(judged, "model"),
        hardware=answers.hardware or _same(judged, "hardware"),
        input_tokens=answers.input_tokens or lengths(judged, "input_tokens"),
        output_tokens=answers.output_tokens or lengths(judged, "output_tokens"),
        measured=found,
    )


def _only_load(runs: Sequence[Run], names: Sequence[str]) -> tuple[str, float]:
    loads = {
        str(run.load): run.load for run in runs if run.load and not run.load.burst and not run.load.production
    }
    if len(loads) == 1:
        (load,) = loads.values()
        if load.concurrency is not None:
            return "concurrency", float(load.concurrency)
        if load.request_rate is not None:
            return "request_rate", load.request_rate
    said = f"hold {len(loads)} loads: {', '.join(sorted(loads))}" if loads else "do not say their load"
    hint = "name the target with --concurrency or --request-rate"
    raise UsageError(f"the results {said}", ", ".join(names), hint)


def _same(runs: Sequence[Run], fact: str) -> str | None:
    said = {getattr(run, fact) for run in runs}
    return said.pop() if len(said) == 1 else None
