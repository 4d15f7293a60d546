"""The group that every command belongs to."""

from __future__ import annotations

from typing import Any

import click

from halflife.errors import HalflifeError


class _Commands(click.Group):
    """A group whose commands end with one clear line and exit status 1 when halflife refuses something."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except HalflifeError as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="halflife", prog_name="halflife")
def main() -> None:
    """Private statistics about people's time series, step after step, for ever.

    \b
    Example:
      halflife demo --out halflife-demo
    """
