"""What looks wrong, in plain words: each rule compares what was counted with what the policy says, and names a likely cause.

Thresholds are ours, and only decide what is said to the operator. None of it may decide what is published.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from halflife.engines.grammar import SECONDS
from halflife.engines.inspection import TOO_SMALL, Inspection
from halflife.local_time import SECOND, from_us, offsets
from halflife.policy import Policy
from halflife.publisher.inspection.report import Problem, StreamReport, next_width, percent, say_duration
from halflife.publisher.inspection.times import guess_epoch, guess_times, guess_values
from halflife.publisher.inspection.units import likely_factors, name_unit
from halflife.publisher.promise_warnings import find_failed_checks

SOME, MANY, HOLES, HALF, NEARLY_ALL = 0.01, 0.05, 0.2, 0.5, 0.9
HOUR = 3600 * SECOND
OLDEST, NEWEST = 1e8 * 1e6, 4.1e9 * 1e6
"""Times before 1973 and after 2100 look like numbers of another unit, in µs since 1970."""


@dataclass(frozen=True)
class Case:
    """What the rules look at: the report so far, the counts, and some cells that could not be read."""

    policy: Policy
    report: StreamReport
    found: Inspection
    times: Sequence[str | None]
    values: Sequence[str | None]

    def problem(self, seen: str, cause: str, write: str | None = None) -> Problem:
        """Return a problem of this stream."""
        return Problem(self.report.name, seen, cause, write)


def unreadable(case: Case) -> Iterator[Problem]:
    """Times, persons and values that cannot be read."""
    i, t = case.found, case.found.tallies
    if not i.rows:
        yield case.problem("the files hold no rows", "is this the right file?", "files: …")
    if t["bad_time"] > SOME * i.rows:
        guess = guess_times(case.times)
        all_of_them = t["bad_time"] == i.rows
        seen = "no time could be read" if all_of_them else f"{percent(t['bad_time'], i.rows)} of times cannot be read"
        yield case.problem(f"{seen} ({t['bad_time']:,} of {i.rows:,} rows count as missing)", guess.cause, guess.write)
    if t["bad_person"] > SOME * i.rows:
        seen = f"{percent(t['bad_person'], i.rows)} of rows have no person"
        yield case.problem(seen, "the cell is empty: is it the right column?", "person: …")
    if t["bad_value"] > SOME * i.rows:
        cause = guess_values(case.values).cause if case.values else "the cells are empty or NaN: they count as missing"
        yield case.problem(f"{percent(t['bad_value'], i.rows)} of rows have no number as their value", cause)


def unknown(case: Case) -> Iterator[Problem]:
    """People and groups that are not on the public lists; of them the share alone is said."""
    i, t = case.found, case.found.tallies
    if t["unknown_person"] > SOME * i.rows:
        yield case.problem(
            f"{percent(t['unknown_person'], i.rows)} of rows are of people who are not in the public table",
            "the table is older than the data, or writes people otherwise (leading zeros, blanks, case)",
        )
    if t["unknown_group"] > SOME * i.rows:
        yield case.problem(
            f"{percent(t['unknown_group'], i.rows)} of rows have a group that is not on the list",
            "the list is not complete, or writes groups otherwise (blanks, case): such rows count nowhere",
            "groups: {names: […]}, all that there are by public knowledge",
        )
    several = t["too_many_groups"]
    if several > SOME * (i.entries + several):
        yield case.problem(
            f"{percent(several, i.entries + several)} of what people did in a step is in more groups than one person may count "
            f"in ({case.report.channel.most_groups})",
            "people change groups within a step: narrower steps, or a larger bound, which costs more noise",
            "groups: {most_per_person: …}",
        )


def outside(case: Case) -> Iterator[Problem]:
    """Readings that lie in none of the steps."""
    i, r = case.found, case.report
    beyond, timed = i.before + i.after, i.rows - i.tallies["bad_time"]
    if i.earliest is None or i.latest is None or beyond <= HALF * timed:
        return
    days = f"the data are of {r.day(i.earliest)} to {r.day(i.latest)}"
    odd = case.report.channel.part.source
    if odd is not None and odd.epoch is not None and (i.latest < OLDEST or i.earliest > NEWEST):
        guess = guess_epoch(i.latest / SECONDS[odd.epoch])
        cause, write = f"{days}: {guess.cause}", guess.write
    elif not r.looked:
        cause, write = f"{days}, and no step is due yet: is `start` too late?", "start: …"
    else:
        steps = r.channel.steps
        first, last = from_us(steps.start_us, steps.zone), from_us(steps.end(r.looked), steps.zone)
        cause = f"{days}; the steps that are due are of {first:%Y-%m-%d} to {last:%Y-%m-%d}"
        write = "start: …" if i.before >= i.after else "end: …"
    seen = (
        "no row lies in the steps that are due"
        if beyond == timed
        else f"{percent(beyond, timed)} of rows lie in no step that is due"
    )
    yield case.problem(seen, cause, write)


def empty_steps(case: Case) -> Iterator[Problem]:
    """Steps without any data, at either end and between."""
    i, r = case.found, case.report
    if not i.steps:
        return
    before, between, after = r.empty()
    few = max(1.0, 0.1 * r.looked)
    steps = r.channel.steps
    if after > few:
        stops, ends = from_us(steps.end(i.last) - 1, steps.zone), r.channel.last is not None
        cause = f"the data stop on {stops:%Y-%m-%d}: " + (
            "is a file missing, or `end` too late?" if ends else "is `end` missing?"
        )
        yield case.problem(
            f"no data in the last {after:,} of {r.looked:,} steps: noise alone would be published, and paid for",
            cause,
            f"end: {stops + datetime.timedelta(days=1):%Y-%m-%d} under `clock`, if that is publicly known to be the end",
        )
    if before > few:
        begins = from_us(steps.start(i.first), steps.zone)
        yield case.problem(
            f"no data in the first {before:,} of {r.looked:,} steps",
            f"the data begin on {begins:%Y-%m-%d}: is `start` too early, or a file missing?",
            "start: … under `clock`",
        )
    span = i.last - i.first + 1
    if between > HOLES * span:
        fine = i.gap is not None and i.gap >= 2
        cause, write = "the source has long holes: are files missing?", None
        if fine:
            cause, write = _too_fine("the data come", (i.gap or 0) * steps.width)
        seen = f"no data in {between:,} of the {span:,} steps between the first and the last with data"
        yield case.problem(seen, cause, write)


def _too_fine(what: str, us: float) -> tuple[str, str]:
    """The cause and the key where steps are finer than readings are apart."""
    return f"{what} about every {say_duration(us)}, the steps are finer", f"step: {next_width(us)}"


def shifted(case: Case) -> Iterator[Problem]:
    """Data that begin and stop as much too early, or too late, as two zones are apart."""
    i, r, source = case.found, case.report, case.report.channel.part.source
    steps = r.channel.steps
    if source is None or not r.looked or i.earliest is None or i.latest is None or source.zone == steps.zone:
        return
    if steps.months:  # they are far wider than any two zones are apart
        return
    apart = (
        offsets(source.zone, steps.start_us, steps.start_us)[0][1]
        - offsets(steps.zone, steps.start_us, steps.start_us)[0][1]
    )
    lead, lag = steps.start_us - i.earliest, steps.end(r.looked) - i.latest
    if apart and all(abs(x - apart) <= HOUR + steps.width for x in (lead, lag)):
        early = "early" if apart > 0 else "late"
        yield case.problem(
            f"the data begin and stop {say_duration(abs(apart))} too {early}, as far as {source.zone} is from {steps.zone}",
            f"times without a zone are read as {source.zone}, and the clock is {steps.zone}: one of the two is wrong",
            f"zone: {steps.zone} under `source`, if its times are local",
        )


def people(case: Case) -> Iterator[Problem]:
    """People seen beside the declared size, and whether the person looks like one."""
    i, r = case.found, case.report
    if i.people > 1.5 * r.size and i.people > NEARLY_ALL * i.good:
        yield case.problem(
            f"nearly every row has a person of its own ({i.people:,} in {i.good:,} rows; {r.size:,} are declared)",
            "the column is a row number or a device's message number: then the promise protects rows, not people",
            "person: …, the column that stays the same for one person",
        )
    elif i.people > r.size:
        wrong = "; a mean is divided by the size, and is then too large" if r.channel.measure.kind == "mean" else ""
        yield case.problem(
            f"{i.people:,} people seen, {r.size:,} declared",
            f"`population.size` is too small, or the column does not identify a person{wrong}",
            "population: {size: …}, from public knowledge, not from this count",
        )
    elif i.people and i.people < HALF * r.size:
        means = "; a mean counts the others as `missing`" if r.channel.measure.kind == "mean" else ""
        yield case.problem(
            f"{i.people:,} people seen, {r.size:,} declared", f"files are missing, or the size is of others{means}"
        )
    missing, holes = r.missing(), r.empty()[1] > HOLES * (i.last - i.first + 1)  # holes are said already
    if (
        r.channel.measure.kind == "mean"
        and missing is not None
        and missing > HOLES
        and not holes
        and i.people >= HALF * r.size
    ):
        cause, write = (
            "people are there for a part of the time, or their readings have gaps",
            "missing: …, what they count as",
        )
        if i.spacing is not None and i.spacing >= 1.9 * r.channel.steps.width:
            cause, write = _too_fine("a person has a reading", i.spacing)
        seen = (
            f"in a step {100 * missing:.3g} % of the declared people have no reading: the mean counts them as `missing`"
        )
        yield case.problem(seen, cause, write)


def repeats(case: Case) -> Iterator[Problem]:
    """Readings of one person at one moment."""
    i = case.found
    if i.tallies["duplicates"] > SOME * i.good:
        yield case.problem(
            f"{percent(i.tallies['duplicates'], i.good)} of readings repeat a person's moment: the largest counts",
            "files overlap, times are rounded, or each row is an event of its own",
            "duplicates: each, if every row counts",
        )


def clipped(case: Case) -> Iterator[Problem]:
    """Readings beyond the public bounds, and units that may be mistaken."""
    i, r = case.found, case.report
    statistic = r.channel.part.statistic
    unit = statistic.unit
    if not i.entries or r.channel.measure.kind == "count":
        return
    given = (key for key in ("edges", "grid", "clip", "most_events") if getattr(statistic, key) is not None)
    bounds = next(given, "clip_readings")
    whose = (i.low, i.high, i.entries)
    if (
        statistic.clip_readings is not None
        and (i.low_readings + i.high_readings) / i.good > (i.low + i.high) / i.entries
    ):
        bounds, whose = "clip_readings", (i.low_readings, i.high_readings, i.good)
    low, high, of = whose
    if high > HALF * of and bounds != "most_events":  # events have no unit to be mistaken
        fits = (n for n in likely_factors(unit) if i.shrunk.get(n, 0) > NEARLY_ALL * i.entries)
        factor = None if bounds == "clip_readings" and statistic.clip is not None else next(fits, None)
        yield case.problem(f"{percent(high, of)} clipped: nearly all lie above `{bounds}`", *_mistaken(unit, factor))
    elif high > MANY * of:
        yield case.problem(f"{percent(high, of)} clipped at the upper bound of `{bounds}`", *_too_narrow(bounds))
    if low > MANY * of:
        cause, write = _too_narrow(bounds)
        yield case.problem(
            f"{percent(low, of)} clipped at the lower bound of `{bounds}`",
            f"readings below it, or of another sign; {cause}",
            write,
        )
    other = name_unit(unit, TOO_SMALL, larger=True) or f"a unit that is {TOO_SMALL:,} times larger"
    says = f"the policy says {unit}" if unit else "the policy names no unit"
    if i.vanished > HALF * i.good:
        yield case.problem(
            f"{percent(i.vanished, i.good)} of readings are 0 once they are rounded to the resolution, {statistic.resolution}",
            f"readings look like {other}, {says}; or the resolution is too coarse",
            f"unit: {other}" if unit else "resolution: …",
        )
    elif i.grown > 0.99 * (i.entries - i.zeros) > 0:
        yield case.problem(
            f"nearly all are more than {TOO_SMALL:,} times below `{bounds}`, and the noise is as large as that asks for",
            f"readings look like {other}, {says}; or `{bounds}` is far too wide",
            f"unit: {other}" if unit else None,
        )


def _mistaken(unit: str | None, factor: int | None) -> tuple[str, str | None]:
    """The cause and the key where nearly everything lies above a bound."""
    if factor is None:
        return "another unit than the policy says, or another column: is `value` the right one?", None
    other = name_unit(unit, factor)
    if other is None:
        return f"readings look {factor:,} times too large for the policy's unit", "unit: …, with its bounds"
    return (
        f"readings look like {other}, the policy says {unit}",
        f"unit: {other}, and the units behind the numbers of its bounds and resolution",
    )


def _too_narrow(bounds: str) -> tuple[str, str]:
    return (
        f"`{bounds}` is narrower than what people do",
        f"{bounds}: {'…' if bounds == 'most_events' else '[…]'}, from public knowledge, not from these readings",
    )


def noise(case: Case) -> Iterator[Problem]:
    """Noise that drowns what it is added to."""
    yield from noise_beside_range(case.report)
    own = case.report.noise
    if own.of_mean is not None and own.of_mean > 1 and own.of_range <= 1:
        seen = (
            f"the noise is {own.of_mean:.3g} times the data's own mean"
            if own.mean
            else "the data come to 0, so all is noise"
        )
        yield case.problem(
            seen,
            "too little budget for so few people: wider steps, fewer groups or bins, narrower bounds, or a larger epsilon",
        )


def noise_beside_range(report: StreamReport) -> Iterator[Problem]:
    """Noise beyond all that a number can be: known from the policy alone."""
    n = report.noise
    if n.of_range > 1:
        yield Problem(
            report.name,
            f"the noise, {n.newest:.3g}, is larger than the whole public range, {n.low:g} to {n.high:g}",
            "too little budget for so few people: wider steps, fewer groups or bins, narrower bounds, or a larger epsilon",
        )


RULES: tuple[Callable[[Case], Iterator[Problem]], ...] = (
    unreadable, unknown, outside, shifted, empty_steps, people, repeats, clipped, noise,
)  # fmt: skip


def find_problems(case: Case) -> tuple[Problem, ...]:
    """Return all that looks wrong with a stream."""
    return tuple(problem for rule in RULES for problem in rule(case))


def promise_problems(policy: Policy) -> Iterator[Problem]:
    """Say what the promise assumes about people's data that no check supports, or that one contradicts."""
    for assumption, said in find_failed_checks(policy.notion):
        yield Problem("promise", f"its check FAILED: {assumption} ({said})", "the process is wrong: fit another")
    for _ in policy.notion.unchecked():
        yield Problem(
            "promise",
            "the process was never checked against readings",
            "it decides how fast data ages, so a wrong one breaks the promise",
            "halflife process check PROCESS READINGS… --save, on readings of other people",
        )
