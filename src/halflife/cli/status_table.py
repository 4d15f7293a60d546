"""A policy's status for a terminal: words and a table, times by the policy's wall clock and how long ago or ahead they are."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import TYPE_CHECKING

from halflife.lab.views.text import describe_promise, text_table, three_figures
from halflife.publisher.operator_log import BEGUN, FAILED, Run

if TYPE_CHECKING:
    from rich.console import Group

    from halflife.publisher.leaving import Left
    from halflife.publisher.standing import Passing, Status, StreamStatus

LABEL, COLUMN = 18, 30
"""The widths of the first column and of a stream's, about."""


def status_table(found: Status, width: int = 80) -> Group:
    """Return a status as lines of words, and a table with a column for each stream; as many tables as the width asks for."""
    from rich.console import Group
    from rich.table import Table

    head = Table.grid(padding=(0, 2))
    for label, words in _facts(found):
        head.add_row(label, words)
    at_once = max(1, (width - LABEL) // COLUMN)
    tables = []
    for first in range(0, len(found.streams), at_once):
        columns = [_column(stream, found) for stream in found.streams[first : first + at_once]]
        rows = [(label, *(column[label] for column in columns)) for label in columns[0]]
        heads = ("stream", *(stream.name for stream in found.streams[first : first + at_once]))
        tables.append(text_table(heads, rows, left=range(len(heads))))
    return Group(head, "", *tables)


def _facts(found: Status) -> Iterator[tuple[str, str]]:
    """What holds of all streams together."""
    yield "promise", describe_promise(found.promise)
    worst = f", worst from now on {three_figures(found.peak)}" if found.peak > found.risk else ""
    planned = ", as the plan intends: it never takes more" if found.used > 0.999999 else ""
    yield "used", f"{100 * found.used:.4g} %{planned}: risk {three_figures(found.risk)} of {found.limit:g} nats{worst}"
    if not found.begun:
        yield "ledger", f"{found.ledger}: nothing is published yet"
    else:
        when = "" if found.committed is None else f", the newest committed {moment_and_age(found.committed, found.now)}"
        yield "ledger", f"{found.ledger}: {found.entries:,} steps{when}"
    if found.older is not None:
        yield "WRONG", found.older
    elif found.marks:
        yield "marks", f"{', '.join(found.marks)}: the ledger holds all that they say was published"
    yield "last run", describe_run(found.last_run, found.writer, found.now)
    yield "now", f"{moment(found.now)} in {found.zone}"
    for line in found.warnings:
        yield "WARNING", line
    if found.left is not None:
        yield from _tell_left(found.left, found)


def _tell_left(left: Left, found: Status) -> Iterator[tuple[str, str]]:
    """What is still exposed of a person who left."""
    yield "", ""
    yield "who left", f"{moment(left.at)}: {left.releases:,} published steps are about data from before"
    worst = f", worst from now on {three_figures(left.peak)}" if left.peak > left.risk else ""
    yield "still exposed", f"risk {three_figures(left.risk)} of {left.limit:g} nats{worst}"
    for share, when in left.falls.items():
        label = f"below {float(share) * left.limit:g}"
        yield label, "never, under this promise" if when is None else f"from {moment_and_age(when, found.now)} on"
    for stream, step in left.first_steps.items():
        yield "not about them", f"{stream} from step {step:,} on"
    if left.to_come:
        yield "still to come", f"{left.to_come:,} steps that began before, and are not published yet"
    yield "not undone", "what was published stays published: leaving takes nothing back"


def describe_run(run: Run | None, writer: str | None, now: datetime.datetime) -> str:
    """Say how the last run ended, and whether somebody publishes now."""
    if writer is not None:
        return f"publishing now ({writer})"
    if run is None:
        return "none is recorded in the operator's file, or you may not read it"
    steps = ", ".join(f"{name} {count:,}" for name, count in run.steps.items())
    published = f"; steps published: {steps}" if steps else ""
    if run.outcome == BEGUN:
        began = "" if run.began is None else f" {_moment_of(run.began, now)}"
        return f"begun{began}, and no end was written: it was killed"
    ended = "" if run.ended is None else f" {_moment_of(run.ended, now)}"
    why = f": {run.error}" if run.outcome == FAILED and run.error else ""
    return f"{run.outcome}{ended}{published}{why}"


def _column(stream: StreamStatus, found: Status) -> dict[str, str]:
    """What there is to say of a stream, by label."""
    now, unit = found.now, f" {stream.unit}" if stream.unit else ""
    column = {
        "newest step": _step(stream.newest or None, stream.end, now) or "none",
        **({"not published": _skipped(stream)} if any(s.skipped or s.passed_over for s in found.streams) else {}),
        "lag": "none",
        "next due": _step(stream.next_step, stream.next_due, now) or "none: the last step is due",
        "next loss": "-",
        "expected error": "-",
        "publishes until": "no end" if stream.ends.verdict == "never" else _passing(stream.ends, now),
    }
    if stream.due_since is not None:
        steps = f"{stream.lag:,} {'step' if stream.lag == 1 else 'steps'}"
        column["lag"] = f"{steps}, oldest due\n{moment(stream.due_since)}\n{ago(stream.due_since, now)}"
    if stream.loss is not None and stream.error is not None and stream.band is not None:
        room = "" if stream.headroom is None else f"\nroom for {stream.headroom:.4g}"
        column["next loss"] = f"{stream.loss:.4g} nats{room}"
        column["expected error"] = (
            f"{three_figures(stream.error)}{unit}\n95 % within ± {three_figures(stream.band)}{unit}"
        )
    elif stream.planned is not None:
        column["next loss"] = column["expected error"] = f"by the rule of {stream.mechanism}"
    if stream.error_passes is not None:
        column[f"error above {found.asked:g}"] = _passing(stream.error_passes, now)
    return column


def _skipped(stream: StreamStatus) -> str:
    """How many steps are not published, and never will be."""
    said = [f"{stream.skipped:,} skipped for good"] if stream.skipped else []
    if stream.skipped_since is not None:
        said.append(f"all from step {stream.skipped_since:,} on")
    if stream.passed_over:
        said.append(f"{stream.passed_over:,} passed over by a restore")
    return "\n".join(said) or "none"


def _step(step: int | None, time: datetime.datetime | None, now: datetime.datetime) -> str:
    return "" if step is None or time is None else f"step {step:,}\n{moment(time)}\n{ago(time, now)}"


def _passing(found: Passing, now: datetime.datetime) -> str:
    if found.verdict == "over":
        return "over: nothing more is published"
    return _step(found.step, found.time, now) or found.verdict


# Time in words ------------------------------------------------------------------------------------------------------


def moment(time: datetime.datetime) -> str:
    """Return a time as a wall clock and a calendar show it.

    >>> moment(datetime.datetime(2026, 3, 1, 7, 30))
    'Sun 1 Mar 2026, 07:30'
    """
    return f"{time:%a} {time.day} {time:%b} {time.year}, {time:%H:%M}"


def ago(time: datetime.datetime, now: datetime.datetime) -> str:
    """Return how long ago a time is, or how far ahead.

    >>> noon = datetime.datetime(2026, 3, 1, 12)
    >>> ago(datetime.datetime(2026, 3, 1, 9, 55), noon), ago(datetime.datetime(2026, 3, 4), noon)
    ('2 h 5 min ago', 'in 2 days 12 h')
    >>> ago(datetime.datetime(2030, 3, 1), noon), ago(datetime.datetime(2026, 3, 1, 11, 59, 40), noon)
    ('in 4 years', '20 s ago')
    """
    seconds = round(abs((time - now).total_seconds()))
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86_400
    if days >= 730:
        words = f"{days / 365.25:.3g} years"
    elif days >= 14:
        words = f"{days:,} days"
    elif days:
        rest = f" {hours % 24} h" if hours % 24 else ""
        words = f"{days} {'day' if days == 1 else 'days'}{rest}"
    elif hours:
        words = f"{hours} h{f' {minutes % 60} min' if minutes % 60 else ''}"
    else:
        words = f"{minutes} min" if minutes else f"{seconds} s"
    return f"{words} ago" if time <= now else f"in {words}"


def moment_and_age(time: datetime.datetime, now: datetime.datetime) -> str:
    """Return a time with how long ago it is."""
    return f"{moment(time)} ({ago(time, now)})"


def _moment_of(text: str, now: datetime.datetime) -> str:
    """A time from its ISO form, in the zone of now."""
    return moment_and_age(datetime.datetime.fromisoformat(text).astimezone(now.tzinfo), now)
