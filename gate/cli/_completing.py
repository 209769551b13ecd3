"""Values that a shell completes: names of presets, profiles, tools and of what `explain` knows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import click


def completed(
    names: Callable[[click.Context], Iterable[str]],
) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """A completion by names that are looked up when they are asked for; none where that fails."""

    def complete(ctx: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
        try:
            return [name for name in names(ctx) if name.startswith(begun)]
        except Exception:  # a shell shows nothing of it, and a half-written command line is no error
            return []

    return complete


def presets(ctx: click.Context) -> Iterable[str]:
    """The embedded policies."""
    from .. import policy

    return policy.PRESETS


def profiles(ctx: click.Context) -> Iterable[str]:
    """Those of the policy that the command line names, or that is found."""
    from .. import policy

    said: dict[str, Any] = ctx.params
    if said.get("preset"):
        name, data = f"preset:{said['preset']}", policy.preset_text(said["preset"]).encode()
    else:
        name = said.get("policy_path") or policy.find()
        data = policy.content(name)
    return (profile or "none" for profile in policy.versions(data, name))


def tools(ctx: click.Context) -> Iterable[str]:
    """The readers."""
    from ..readers import READERS

    return (reader.NAME for reader in READERS)
