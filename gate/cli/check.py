"""`slo-gate check`: the gate."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..errors import InputError, UsageError
from ._baseline import baseline_options, read_baseline
from ._history import history_baseline, history_options, shown, wanted
from ._place import placed, policy_name
from ._reading import progress
from ._shared import (
    jobs_option,
    judging,
    length,
    length_options,
    named,
    needs_gaps,
    output_options,
    policy_options,
    read_results,
    reading_options,
    reproducible,
    verdict_options,
    wanted_outputs,
    what_if,
    write,
    write_error,
)

if TYPE_CHECKING:
    from ..model import Baseline, Policy, Report, Run

_POLICY = {"policy": "policy_path"}
_GAPS_UP_TO = 32 << 20  # bytes: a page shows ITL unasked only where decoding gaps takes no second
_EXITS = """\b
Exit codes:
  0   pass, warn, and undecided where the policy lets it through
  1   a blocking objective failed
  2   usage or policy error
  3   result file missing, unreadable, unsupported or self-contradictory
  4   inconclusive, and the policy blocks on it
  5   warn, with --fail-on warn
  70  a bug in slo-gate; never 1"""


_GROWTH = (
    "Judge without a policy: how much P50 and P90 of TTFT, TPOT and E2E grew against --baseline, like 10%."
)


@click.command(name="check", epilog=_EXITS)
@click.argument("results", nargs=-1, type=named)
@policy_options
@reading_options
@jobs_option
@click.option(
    "--baseline",
    multiple=True,
    type=named,
    metavar="FILES",
    help="Compare with these results or saved JSON reports; may be given again.",
)
@click.option("--max-growth", metavar="PERCENT", help=_GROWTH)
@baseline_options
@history_options
@output_options
@click.option(
    "--junit-dialect",
    type=click.Choice(("generic", "gitlab", "github", "buildkite", "surefire")),
    default="generic",
    show_default=True,
    help="CI system that will read the JUnit XML.",
)
@click.option("--junit-timestamp", metavar="TIME", help="When it was measured, ISO 8601, for the JUnit XML.")
@length_options
@verdict_options
def command(**options: Any) -> int:
    """Judge benchmark RESULTS (files, folders, globs, URLs, or - for stdin) by a policy."""
    outputs = wanted_outputs(options)
    junit: dict[str, str | None] = {"dialect": options["junit_dialect"]}
    settings: dict[str, Mapping[str, object]] = {"junit": junit}
    try:
        settings |= length(options)
        if options["html"]:
            from ..emit import page

            page.warm_up()
        junit["timestamp"] = _time(options["junit_timestamp"])
        report = _judge(options)
    except Exception as error:
        write_error(error, outputs, settings, about=policy_name(options))
        raise
    write(report, outputs, settings)
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

    from ..evaluate import evaluate

    policy, baseline = _growth(options) if options["max_growth"] else (judging(options), None)
    gaps = needs_gaps(policy)
    with progress() as watch:
        reading = read_results(
            options,
            "name one: `slo-gate check RESULTS`",
            policy,
            gaps=gaps,
            gaps_up_to=_GAPS_UP_TO if options["html"] else 0,
            watch=watch,
            attempted=policy.evidence.attempted,
        )
    said: tuple[str, ...] = ()
    if baseline is None:
        baseline, said = _baseline(options, policy, reading.runs, gaps)
    report = evaluate(
        policy,
        reading.runs,
        date.today(),
        baseline=baseline,
        notes=(*reading.notes, *said),
        fail_on=options["fail_on"],
        report_only=options["report_only"],
        charts=what_if(options["html"]),
    )
    known = {**options, "history": options["history"] and shown(options["history"])}
    return reproducible(report, ("slo-gate", "check", *options["results"]), known)


def _growth(options: dict[str, Any]) -> tuple[Policy, Baseline]:
    """The built-in policy of --max-growth for what the baseline holds. Raises UsageError and InputError."""
    from msgspec.structs import replace

    from .. import policy
    from ..model import REQUEST_METRICS

    limit = options["max_growth"]
    if named := [
        f"--{name}"
        for name in ("policy", "preset", "profile", "unproven")
        if options[_POLICY.get(name, name)]
    ]:
        hint = "leave out --max-growth, or the policy"
        raise UsageError(f"--max-growth brings its own policy and excludes {named[0]}", "", hint)
    if options["history"]:
        hint = "name results of the old build instead: --baseline FILES"
        raise UsageError("--max-growth compares with --baseline, not with --history", "", hint)
    if not options["baseline"]:
        hint = "name the results of the old build: --baseline FILES"
        raise UsageError("--max-growth compares with a baseline, and none is given", "", hint)
    baseline = read_baseline(options["baseline"], options, gaps=False)
    has = [one for one in REQUEST_METRICS if not all(run.doubt(one) for run in baseline.runs)]
    try:
        found = policy.growth(limit, has or REQUEST_METRICS)
    except ValueError as error:
        raise UsageError(str(error), "--max-growth", "write it like 10%") from None
    # Files that name no session were measured alike: whoever asks for a limit says so (its help does).
    alike = baseline.same_session or not (baseline.reported or any(run.session for run in baseline.runs))
    return placed(found, ""), replace(baseline, same_session=alike)


def _baseline(
    options: dict[str, Any], policy: Policy, runs: Sequence[Run], gaps: bool
) -> tuple[Baseline | None, tuple[str, ...]]:
    """The baseline and notes about it; one that a policy requires and nobody can read is judged to be none

    (exit 4). Raises InputError where it cannot be read and is not required, and UsageError.
    """
    store = wanted(options, policy)
    try:
        if options["baseline"]:
            return read_baseline(options["baseline"], options, policy, gaps=gaps), ()
        if store and not options["same_session"]:
            return history_baseline(options, policy, runs, store, os.environ)
    except InputError as error:
        if not policy.requires_baseline:
            raise
        from ..model import Baseline

        return Baseline((), fault=str(error)), ()
    for name, key in (("--same-session", "same_session"), ("--allow-baseline", "allowed")):
        if options[key]:
            raise UsageError(f"{name} is about a baseline and none is given", "", "add --baseline FILES")
    return None, ()
