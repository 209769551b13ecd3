"""The baseline that a command line names, and what it may differ in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..errors import UsageError
from ._shared import how_read, together

if TYPE_CHECKING:
    from ..model import Baseline, Policy

_SAME = "State that one job on one node measured both the baseline and the results."
_ALLOW = "Let the baseline differ in tool, model, hardware, interaction, load, input_tokens or output_tokens."
baseline_options = together(  # read by `read_baseline`
    click.option("--same-session", is_flag=True, help=_SAME),
    click.option("--allow-baseline", "allowed", multiple=True, metavar="KEY", help=_ALLOW),
)


def read_baseline(
    names: Sequence[str], options: Mapping[str, Any], policy: Policy | None = None, *, gaps: bool
) -> Baseline:
    """The baseline the options name. Raises InputError, and UsageError for an unknown key to allow."""
    from msgspec.structs import replace

    from ..readers.baseline import read_baseline as reader

    allowed = checked_allowed(options)
    found = reader(names, **how_read(options, policy), gaps=gaps)
    return replace(found, same_session=options["same_session"], allowed=allowed)


def checked_allowed(options: Mapping[str, Any]) -> frozenset[str]:
    """What a baseline may differ in. Raises UsageError for an unknown key."""
    from ..evaluate import ALLOWABLE

    for key in options["allowed"]:
        if key not in ALLOWABLE:
            hint = f"one of {', '.join(ALLOWABLE)}"
            raise UsageError(f'"{key}" is nothing a baseline may differ in', "--allow-baseline", hint)
    return frozenset(options["allowed"])
