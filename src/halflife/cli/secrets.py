"""`secrets generate`, `secrets show`, `secrets check` and `secrets noise`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from halflife.cli.group import main
from halflife.cli.terminal import progress_bar, say, screen

if TYPE_CHECKING:
    from halflife.specifications import ParsedSpecifications
    from halflife.steps import Steps

F = TypeVar("F", bound=Callable[..., Any])
_PAGE = click.Path(dir_okay=False, path_type=Path)


@main.group()
def secrets() -> None:
    """What households want hidden (Swellfish): generate specifications, look at them, check them, and see what they cost.

    \b
    Example:
      halflife secrets check secrets/
      halflife secrets noise secrets/ --step "15 min" --start 2026-01-01 --zone Europe/Berlin --end 2026-02-01
    """


class _Fraction(click.ParamType[float]):
    """A number as people write small ones: 1e-8, or 1/117716237."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        from fractions import Fraction

        try:
            return float(Fraction(value))
        except (ValueError, ZeroDivisionError, OverflowError):
            self.fail(f"must be a number such as 1e-8 or 1/117716237, not {value!r}", param, ctx)


def _clock_options(command: F) -> F:
    """What secrets by the clock are read against."""
    options = [
        click.option(
            "--step", default="15 min", show_default=True, metavar="TIME", help="How wide a step is, with --start."
        ),
        click.option(
            "--start", metavar="TIME", help="When step 1 begins, as 2026-01-31; secrets by the clock need it."
        ),
        click.option("--zone", metavar="NAME", help="The zone of times that carry none, such as Europe/Berlin."),
        click.option(
            "--end", metavar="TIME", help="When the last step is over, for secrets that recur without an end."
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def _town_options(command: F) -> F:
    """How large a generated town is."""
    options = [
        click.option("--households", type=int, default=250, show_default=True, help="How many homes to generate."),
        click.option("--days", type=int, default=28, show_default=True, help="How many days of 15-minute steps."),
        click.option("--seed", type=int, default=1, show_default=True, help="Makes the homes repeatable."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def _steps(step: str, start: str | None, zone: str | None, end: str | None) -> tuple[Steps | None, int | None]:
    """The steps that the options describe, and the last of them, as far as they say so."""
    from halflife.local_time import parse_time, to_us
    from halflife.steps import Steps

    if start is None:
        if end is not None:
            raise click.UsageError("--end is about the clock: give --start too")
        return None, None
    steps = Steps.of(step, start, zone or "UTC")
    last = None if end is None else steps.last_over(to_us(parse_time(end, zone or "UTC")))
    if last is not None and last < 1:
        raise click.UsageError(f"--end {end} lies before the end of the first step, which begins {start}")
    return steps, last


class _Read(NamedTuple):
    """What was read, and the steps that it is about."""

    parsed: ParsedSpecifications
    steps: Steps | None
    last: int | None


def _read(files: tuple[str, ...], zone: str | None, skip: bool = False, **clock: Any) -> _Read:
    """Read specifications, with something to look at meanwhile."""
    from halflife.errors import InvalidInput
    from halflife.specifications import read_specifications

    steps, last = _steps(zone=zone, **clock)
    try:
        with screen(stderr=True).status("reading"):
            found = read_specifications(files, steps=steps, last=last, zone=zone, skip=skip)
    except InvalidInput as error:
        raise InvalidInput("\n".join([str(error), *_hints(error.about)])) from error
    return _Read(found, steps, last)


def _hints(about: str | None) -> list[str]:
    """Say which options secrets by the clock lack."""
    options = {"steps": '--step "15 min" --start 2026-01-01', "last": "--end 2027-01-01"}.get(about or "")
    return [f"Secrets by the clock are read with {options}, for example."] if options else []


@secrets.command()
@_town_options
@click.option("--out", type=_PAGE, default=Path("secrets.parquet"), show_default=True, metavar="FILE",
              help="Parquet, CSV, YAML or JSON, by its ending.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of words.")
def generate(households: int, days: int, seed: int, out: Path, as_json: bool) -> None:
    """Generate homes, and make every appliance cycle a secret, as in the Swellfish paper's evaluation. For the lab alone.

    ε is uniform in [0.1, 1], and the hiding interval reaches two cycle lengths beyond the cycle on both sides; fridge and freezer
    have no secrets.

    \b
    Example:
      halflife secrets generate --households 250 --days 28 --seed 1 --out secrets.parquet
    """
    from halflife.lab.swellfish import costs as lab
    from halflife.lab.swellfish.view import FOR_THE_LAB
    from halflife.specifications import write_specifications

    with screen(stderr=True).status("generating homes"):
        made, town = lab.generate_secrets(households, days, seed)
        facts = lab.overview(made, 96 * days)
        try:
            write_specifications(made, out)
        except OSError as error:
            raise click.ClickException(f"{out} cannot be written: {error.strerror or error}") from None
    if as_json:
        say(json.dumps({**facts._asdict(), "secrets_per_household_and_day": town.secrets_per_household_and_day}))
        return
    say(f"Wrote {out}: {facts.secrets:,} secrets of {facts.households:,} households, {days} days of 15-minute steps.")
    say(f"Longest cycle: {facts.longest} steps (the paper: {lab.PAPER_LONGEST}).")
    say(
        f"Largest temporal sensitivity: {facts.sensitivity:.4g} kW (the paper: {lab.PAPER_SENSITIVITY} kW); largest power of one "
        f"cycle: {facts.largest_power:.3g} kW."
    )
    say(FOR_THE_LAB)


@secrets.command()
@click.argument("files", nargs=-1, required=True, metavar="FILES...")
@_clock_options
@click.option("--html", type=_PAGE, metavar="FILE", help="Write a page with plots.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of words.")
def show(files: tuple[str, ...], html: Path | None, as_json: bool, **clock: Any) -> None:
    """Show what specifications hide: how many, how much, how long, and how much of the time.

    \b
    Example:
      halflife secrets show secrets/ --step "30 min" --start 2026-01-01 --zone Europe/Berlin --end 2026-02-01 --html secrets.html
    """
    from halflife.lab.swellfish import view as lab
    from halflife.lab.swellfish.costs import overview

    found = _read(files, **clock)
    held = found.parsed.specifications
    with screen(stderr=True).status("adding up"):
        facts = overview(held, found.last)
        if html is not None:
            lab.write_overview_page(held, html, facts, found.steps)
    if as_json:
        say(json.dumps({**facts._asdict(), "sha256": held.sha256}))
    else:
        console = screen()
        for name, value in lab.overview_rows(facts):
            console.print(f"{name + ':':<34}{value}")
        for text in lab.OPEN:
            console.print(f"- {text}")
    if html is not None:
        say(f"Page: {html}", err=as_json)


@secrets.command()
@click.argument("files", nargs=-1, required=True, metavar="FILES...")
@_clock_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of words.")
def check(files: tuple[str, ...], as_json: bool, **clock: Any) -> None:
    """Are these specifications? Names every problem with file, line and field, and ends with status 1 if there is one.

    \b
    Example:
      halflife secrets check secrets/*.yaml --step "15 min" --start 2026-01-01 --end 2027-01-01
    """
    found = _read(files, **clock, skip=True).parsed
    held = found.specifications
    if as_json:
        say(json.dumps({**held.summary(), "problems": list(found.problems)}, ensure_ascii=False))
    else:
        for line in (*found.problems, *_hints(found.about)):
            say(line, err=True)
        said = f"{len(held):,} secrets of {len(held.households):,} households"
        say(f"{said} could be read, the rest could not." if found.problems else f"{said}: all are good.")
    if found.problems:
        raise SystemExit(1)


@secrets.command()
@click.argument("files", nargs=-1, metavar="[FILES...]")
@_clock_options
@_town_options
@click.option("--neighbours", default="one-window", show_default=True, metavar="NAME",
              help="Which streams are neighbours: one-event, one-window or all-events.")  # fmt: skip
@click.option("--delta", type=_Fraction(), default="1/117716237", show_default=True, metavar="NUMBER",
              help="δ of the plans that have one, such as 1e-8; 0 leaves them out.")  # fmt: skip
@click.option("--methods", default="paper,tight,optimal", show_default=True, metavar="NAME,...", help="Which plans.")
@click.option("--steps", type=int, metavar="N", help="How many steps.  [default: up to the end of the last secret]")
@click.option("--html", type=_PAGE, metavar="FILE", help="Write a page with plots.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def noise(files: tuple[str, ...], households: int, days: int, seed: int, neighbours: Any, delta: float, methods: str,
          steps: int | None, html: Path | None, as_json: bool, **clock: Any) -> None:  # fmt: skip
    """Compare the noise of the plans for these secrets, and certify each of them under all three definitions of neighbours.

    Without FILES it generates homes, as `halflife secrets generate` does.

    \b
    Example:
      halflife secrets noise --households 50 --days 7
      halflife secrets noise secrets.parquet --neighbours all-events --delta 1e-8 --html noise.html
    """
    from halflife.lab.swellfish import view as lab
    from halflife.lab.swellfish.costs import compare, generate_secrets
    from halflife.lab.views.page import load_plotly

    if html is not None:
        load_plotly()  # a missing extra is reported before any work is done
    with progress_bar() as progress:
        progress("reading" if files else "generating homes", 0, 1)
        if files:
            reading, times, last = _read(files, **clock)
            held = reading.specifications
        else:
            held, times, last = generate_secrets(households, days, seed)[0], None, 96 * days
        wanted = [name.strip() for name in methods.split(",")]
        found = compare(
            held,
            neighbours=neighbours,
            delta=delta,
            methods=wanted,
            steps=last if steps is None else steps,
            progress=progress,
        )
        if html is not None:
            progress("writing the page", 0, 1)
            lab.write_noise_page(found, html, times)
    if as_json:
        say(json.dumps(lab.noise_json(found), indent=2, ensure_ascii=False))
    else:
        if not files:
            say(f"Generated homes. {lab.FOR_THE_LAB}\n")
        lab.print_noise(found, screen())
    if html is not None:
        say(f"Page: {html}", err=as_json)
