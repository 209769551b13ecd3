"""`slo-gate policy`: check and show policies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..errors import Exit, GateError, UsageError
from ._groups import Helpful
from ._lines import complain, show
from ._shared import as_json, chosen_policy, hopeless, named, policy_options

if TYPE_CHECKING:
    from ..policy.diff import Difference

_SHOWN = 20  # faults of one file


@click.group(name="policy", cls=Helpful)
def command() -> None:
    """Check and show policies."""


@command.command(name="validate")
@click.argument("files", nargs=-1, required=True, type=named)
def policy_validate(files: Sequence[str]) -> int:
    """Check policy FILES, with every profile, against the rules and against the published schema."""
    code = Exit.PASS
    for file in files:
        try:
            show(f"{file}: valid, {_validated(file)}", *hopeless(file))
        except GateError as error:  # the others are looked at too
            complain(error.message, error.where, error.hint)
            code = error.exit
    return code


def _validated(file: str) -> str:
    """What a valid policy holds. Raises PolicyError, and UsageError where only its schema refuses it."""
    from .. import policy
    from ..policy.schema import faults

    data = policy.content(file)
    found = policy.versions(data, file)
    if wrong := faults(policy.document(data, file)):
        why = "valid for slo-gate, but not for the published schema: "
        raise UsageError(why + "\n".join(wrong[:_SHOWN]), file)
    profiles = [name for name in found if name is not None]
    named = f", profiles {', '.join(profiles)}" if profiles else ""
    named += f", default {found[None].default_profile}" if found[None].default_profile else ""
    return f"{len(found[None].objectives)} objectives{named}"


@command.command(name="presets")
def policy_presets() -> int:
    """List the embedded policies: what each is for, and its bounds at P99."""
    from .. import policy
    from ..model import Kind
    from ..units import show as shown

    for name in policy.PRESETS:
        about = policy.preset_text(name).partition("\n")[0].lstrip("# ").rstrip(".")
        bounds = [
            f"{one.metric.upper()} {shown(one.bound, one.unit)}"
            for one in policy.preset(name).objectives
            if one.statistic == "p99" and one.kind is Kind.LATENCY
        ]
        show(f"{name}: {', '.join(bounds)}", f"    {about}")
    show(
        "",
        "judge by one: `slo-gate check RESULTS --preset chat`",
        "read one: `slo-gate policy show --preset chat`",
    )
    return Exit.PASS


@command.command(name="show")
@policy_options
def policy_show(**options: Any) -> int:
    """Print the policy text of a preset, or the effective objectives of a policy."""
    from .. import policy
    from ..evaluate import describe

    if options["preset"] and not options["profile"]:
        click.echo(policy.preset_text(options["preset"]), nl=False)
        return Exit.PASS
    loaded = chosen_policy(options)
    named = "no profile" if loaded.profile is None else f"profile {loaded.profile}"
    by = ", its default_profile" if not options["profile"] and loaded.profile else ""
    show(f"{loaded.path}: {loaded.name}, {named}{by}; undecided: {loaded.undecided}")
    if rules := loaded.history:
        held = f"the last {rules.last} sessions of {rules.base_branch} in {rules.store}"
        show(f"{loaded.path}: compared with {held}")
    for objective in loaded.objectives:
        show(
            f"{loaded.path}:{objective.line}: {objective.level.value:5} {objective.id}: {describe(objective)}"
        )
    return Exit.PASS


@command.command(name="diff")
@click.argument("old", type=named)
@click.argument("new", type=named)
@click.option("--old-from", default="head", metavar="head|base|COMMIT", help="Take OLD as a commit has it.")
@click.option("--json", "json", is_flag=True, help="Print JSON.")
@click.option("--fail-on-looser", is_flag=True, help="Exit 1 when anything got looser.")
def policy_diff(old: str, new: str, old_from: str, json: bool, fail_on_looser: bool) -> int:
    """Say what got looser or stricter from policy OLD to policy NEW, profiles included."""
    from .. import policy
    from ..policy.diff import diff

    if old_from == "head":
        before = policy.versions(policy.content(old), old)
    else:
        from ._revision import Revision

        revision = Revision(old, old_from)
        old, before = str(revision), revision.versions()
    found = diff(before, policy.versions(policy.content(new), new))
    if json:
        click.echo(_diff_json(found))
    else:
        show(*_diff_text(found, old, new))
    looser = any(one.effect == "looser" for one in found)
    return Exit.FAIL if fail_on_looser and looser else Exit.PASS


def _diff_text(found: Sequence[Difference], old: str, new: str) -> Iterator[str]:
    number = {effect: sum(one.effect == effect for one in found) for effect in ("looser", "stricter")}
    names = f"{new} against {old}"
    if not found:
        yield f"SAME: {names} asks for the same"
        return
    word = "LOOSER" if number["looser"] else "STRICTER" if number["stricter"] else "DIFFERENT"
    yield f"{word}: {names}: {number['looser']} looser, {number['stricter']} stricter, {len(found)} in all"
    for one in found:
        where = f"{new}:{one.line}: " if one.line else ""
        profile = f" (profile {one.profile})" if one.profile else ""
        yield f"  {one.effect:9}  {where}{one.id}: {one.text}{profile}"


def _diff_json(found: Sequence[Difference]) -> str:
    from msgspec import to_builtins

    looser = any(one.effect == "looser" for one in found)
    return as_json({"looser": looser, "differences": to_builtins(found)})
