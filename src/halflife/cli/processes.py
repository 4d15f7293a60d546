"""`process fit`, `process check` and `process show`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from halflife.cli.group import main
from halflife.cli.terminal import progress_bar, say, screen, write_whole

if TYPE_CHECKING:
    from halflife.engines.samples import Sample
    from halflife.processes import Process

KINDS = {
    "markov-chain": "markov-chain",
    "family": "process-family",
    "periodic": "periodic-markov-chain",
    "empirical": "empirical",
}
NOT_FREE = (
    "Looking is not free if it changes the policy: on the readings that you will publish of, what this says must not decide what "
    "the policy says. Look at readings of other people, or at public ones."
)
F = TypeVar("F", bound=Callable[..., Any])


@main.group()
def process() -> None:
    """How one person's data moves: fit a process for an age-dependent promise, check it against readings, look at it.

    \b
    Example:
      halflife process fit design.parquet --person id --time ts --value kwh --states 6 --output home.json
    """


def readings_options(command: F) -> F:
    """What commands that read a sample ask for."""
    options = [
        click.argument("readings", nargs=-1, required=True, metavar="READINGS..."),
        click.option("--person", required=True, metavar="COLUMN", help="The column that identifies a person."),
        click.option("--time", required=True, metavar="COLUMN", help="The column with the time of a reading."),
        click.option("--value", required=True, metavar="COLUMN", help="The column with the reading."),
        click.option(
            "--zone", default="UTC", show_default=True, metavar="NAME", help="The zone of times that carry none."
        ),
        click.option("--epoch", type=click.Choice(["s", "ms", "us"]), help="If times are numbers since 1970."),
        click.option("--time-format", metavar="FORMAT", help="How times are written, such as %d/%m/%y %H:%M."),
        click.option(
            "--format", "form", metavar="NAME", help="parquet, csv, duckdb or sqlite, if the ending does not say."
        ),
        click.option("--table", metavar="NAME", help="The table of a DuckDB or SQLite file."),
        click.option("--columns", metavar="NAME,NAME,...", help="The columns of a CSV file without a header."),
        click.option("--delimiter", type=click.Choice([",", ";", "tab", "|"]), help="Of such a file, if no comma."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def read_readings(
    readings: tuple[str, ...], step: str, person: str, time: str, value: str, zone: str, epoch: Any, form: str | None,
    table: str | None, time_format: str | None, columns: str | None, delimiter: Any, categories: list[str] | bool = False,
) -> Sample:  # fmt: skip
    """Read a sample, with something to look at meanwhile, and say that looking is not free."""
    from halflife.engines.samples import read_sample

    say(NOT_FREE, err=True)
    with screen(stderr=True).status("reading"):
        return read_sample(
            readings,
            person=person,
            time=time,
            value=value,
            step=step,
            format=form,
            table=table,
            zone=zone,
            epoch=epoch,
            time_format=time_format,
            columns=None if columns is None else columns.split(","),
            delimiter=delimiter,
            categories=categories,
        )


def say_left_out(count: int) -> None:
    """Say how many people were left out, never who."""
    if count:
        say(f"Left out: {count:,} people with too few readings.", err=True)


def _save(made: Process, path: Path) -> None:
    write_whole(path, json.dumps(made.to_dict(), ensure_ascii=False) + "\n")


def _step(made: Process, given: str | None) -> str:
    """How wide a step is: as given, as it was fitted, or half an hour."""
    fitted = getattr(made, "fitted", None) or {}
    return str(given or fitted.get("step") or "30 min")


@process.command()
@readings_options
@click.option("--kind", type=click.Choice(list(KINDS)), default="markov-chain", show_default=True,
              help="One chain for all; one a person; one kernel for each time of day; or each lag on its own.")  # fmt: skip
@click.option("--states", metavar="N|A,B,...",
              help="How many states, with equally many readings each; or what readings are, if they are text.")  # fmt: skip
@click.option(
    "--categories", is_flag=True, help="Readings are text: all categories that there are, sorted, are states."
)
@click.option("--edges", metavar="X,Y,...", help="The edges between states, instead of a number of them.")
@click.option(
    "--step",
    default="30 min",
    show_default=True,
    metavar="TIME",
    help="How wide a step is: that of the policy's clock.",
)
@click.option("--smoothing", type=float, metavar="S", help="What is added to each count of transitions.  [default: 0]")
@click.option("--slots", type=int, metavar="N", help="Of --kind periodic: steps in a cycle.  [default: a day's]")
@click.option("--lags", type=int, metavar="N", help="Of --kind empirical: the largest lag.  [default: a week at most]")
@click.option("--whose", type=click.Choice(["other people", "public"]),
              help="Whose readings these are; a policy asks for it.")  # fmt: skip
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="The process, as JSON.",
)
def fit(kind: str, states: str | None, categories: bool, edges: str | None, step: str, smoothing: float | None, slots: int | None,
        lags: int | None, whose: str | None, output: Path, **where: Any) -> None:  # fmt: skip
    """Fit a process on readings, and write it for a policy to name: `process: {file: home.json}`.

    A kernel fitted on private data is itself a release of that data: fit it on readings of other people, or on public ones.
    Looking is not free if it changes the policy.

    \b
    Example:
      halflife process fit design.parquet --person id --time ts --value kwh \\
        --states 6 --step "30 min" --kind family --whose "other people" --output home.json
    """
    from halflife.policy.promises.age_dependent.process import fit_process

    if (states is not None) + (edges is not None) + categories != 1:
        raise click.UsageError(
            "give either --states, such as --states 6 or --states home,work, or --edges, such as --edges 0.1,0.5, or --categories"
        )
    count, names = _states(states)
    for name, value, of in (("slots", slots, "periodic"), ("lags", lags, "empirical")):
        if value is not None and kind != of:
            raise click.UsageError(f"--{name} is about --kind {of}, not about {kind}")
    sample = read_readings(where.pop("readings"), step, categories=names or categories, **where)
    with screen(stderr=True).status("fitting"):
        made = fit_process(
            KINDS[kind], sample, count if edges is None else _edges(edges), step=step, whose=whose, smoothing=smoothing,
            slots=slots, lags=lags,
        )  # fmt: skip
    _save(made, output)
    fitted = getattr(made, "fitted", None) or {}
    left_out = int(fitted.get("left_out", 0))
    people = len(sample.people) + sample.left_out - left_out
    say(f"Wrote {output}: {kind} from {people:,} people. Next: halflife process check {output} READINGS...")
    if sample.categories:
        say(f"States: {', '.join(f'{i} {name}' for i, name in enumerate(sample.categories))}.")
    say_left_out(left_out)
    if whose is None:
        say("A policy will ask whose readings these were: `whose: other people`, or `whose: public`.", err=True)


def _states(text: str | None) -> tuple[int | None, list[str] | None]:
    """A number of states, or the categories that are states."""
    if text is None or text.strip().lstrip("+-").isdigit():
        return None if text is None else int(text), None
    if "," not in text:
        raise click.UsageError(f"--states must be a number, or categories with commas between, not {text!r}")
    return None, text.split(",")


def _edges(text: str) -> list[float]:
    try:
        return [float(x) for x in text.split(",")]
    except ValueError:
        raise click.UsageError(f"--edges must be numbers with commas between, such as 0.1,0.5, not {text!r}") from None


@process.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), metavar="PROCESS")
@readings_options
@click.option("--step", metavar="TIME", help="How wide a step is.  [default: as it was fitted, else 30 min]")
@click.option(
    "--report", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write a page with plots."
)
@click.option("--save", is_flag=True, help="Write the outcome into the process, so that its certificates carry it.")
def check(file: Path, step: str | None, report: Path | None, save: bool, **where: Any) -> None:
    """Does a process under-report on these readings? Ends with status 1 if it does.

    Compares its Δ(t) with what is counted directly, lag by lag up to two weeks, at any time and with the time of day held fixed.
    Looking is not free if it changes the policy: check on readings of other people, or on public ones.

    \b
    Example:
      halflife process check home.json design.parquet --person id --time ts --value kwh --report check.html --save
    """
    from halflife.policy.promises.age_dependent.process import read_process_file
    from halflife.processes.sequences import InvalidSequence

    made = read_process_file(file)
    names = (getattr(made, "fitted", None) or {}).get("categories")
    sample = read_readings(where.pop("readings"), _step(made, step), categories=names or False, **where)
    say_left_out(sample.left_out)
    with progress_bar() as show:
        try:
            found = made.check(
                list(sample.sequences), slots=sample.slots, step_minutes=sample.step_minutes, progress=show
            )
        except InvalidSequence as error:
            raise error.without_number() from None
    if report is not None:
        from halflife.lab.age_dependent.check_view import write_check

        write_check(found, report)
        say(f"Report: {report}", err=True)
    if save:
        _save(made.with_check(found), file)
        say(f"Saved in {file}: certificates of promises with this process say so.", err=True)
    say(str(found))
    if found.outcome == "under-reports":
        raise SystemExit(1)


@process.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), metavar="PROCESS")
@click.option("--step", metavar="TIME", help="How wide a step is.  [default: as it was fitted, else 30 min]")
def show(file: Path, step: str | None) -> None:
    """Show how fast a process forgets: Δ and what is left of a loss, by the age of the data.

    \b
    Example:
      halflife process show home.json
    """
    from halflife.lab.age_dependent.process_view import print_process
    from halflife.policy.promises.age_dependent.process import read_process_file

    made = read_process_file(file)
    print_process(made, _step(made, step), screen())
