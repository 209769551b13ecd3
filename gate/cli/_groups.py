"""Groups of commands: alone they print their help, and a name that is nearly one is answered with it."""

from __future__ import annotations

import click

from ..errors import UsageError


class Helpful(click.Group):
    """A group that is asked for nothing says what there is, and exits 0."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """The arguments; without any, the help."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of the first word. Raises UsageError, with the near one, where there is none."""
        name = args[0]
        if name.startswith("-") or self.get_command(ctx, name) is not None:
            return super().resolve_command(ctx, args)
        from difflib import get_close_matches  # only when something is wrong: costs start-up time

        known = self.list_commands(ctx)
        near = get_close_matches(name.lower(), known, 1)
        hint = f"one of {', '.join(known)}"
        if near:
            hint = f'did you mean "{near[0]}"? see `{ctx.command_path} {near[0]} --help`'
        raise UsageError(f'there is no command "{name}"', ctx.command_path, hint)
