"""The group that every command belongs to."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from halflife.cli.terminal import explain_failure, prepare_streams
from halflife.errors import HalflifeError, visible


@contextmanager
def _one_clear_line() -> Iterator[None]:
    """Whatever is refused, or fails in the system, ends with one clear line and exit status 1; wrong use of a command with 2.

    Ctrl-C ends with 130, as shells have it: nobody takes it for a refusal, or for what `verify` found.
    """
    try:
        yield
    except KeyboardInterrupt:
        click.echo("Stopped.", err=True)
        raise SystemExit(128 + signal.SIGINT) from None
    except HalflifeError as error:
        raise click.ClickException(visible(str(error))) from error
    except OSError as error:
        raise click.ClickException(visible(explain_failure(error))) from error
    except click.ClickException as error:
        vars(error)["message"] = visible(error.message)
        raise


class _Commands(click.Group):
    """A group whose commands end with one clear line when something is refused, on whatever screen there is."""

    def main(self, *args: Any, **extra: Any) -> Any:
        prepare_streams()
        return super().main(*args, **extra)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _one_clear_line():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _one_clear_line():
            return super().invoke(ctx)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="halflife", prog_name="halflife")
def main() -> None:
    """Private statistics about people's time series, step after step, for ever.

    Every command ends with status 0 if all is well, 1 if something is refused or wrong, 2 if it was called in a wrong way;
    `check` with 2 if something is refused, and with 1 only where asked. Ctrl-C ends with 130.

    \b
    Example:
      halflife demo --out halflife-demo
    """
