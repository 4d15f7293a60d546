"""What `check` found, for the operator alone: as an object, as JSON and as text."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from halflife.engines.inspection import Inspection
from halflife.local_time import from_us, say_months
from halflife.numerics.forms import JsonObject
from halflife.policy import Channel

FIRST_LINE = "Private: for the operator alone. Nothing of this may be published, or decide whether something is."
NOT_FREE = (
    "Looking is not free if it changes the policy: what a policy says is public and must not follow from people's data. Mend a "
    "mistake in how files are read; take bounds, sizes, groups and dates from public knowledge, not from this page."
)


@dataclass(frozen=True)
class Problem:
    """What looks wrong: in which stream, what was seen, the likely cause, and the key to write if one helps."""

    stream: str
    seen: str
    cause: str
    write: str | None = None


@dataclass(frozen=True, repr=False)
class Noise:
    """A stream's noise beside what it is added to, in the output's unit; standard deviations of the first and the newest step.

    low, high   the public range of a number, of the widest one if there are several
    mean        what the data themselves come to in a step with data, the mean over its numbers; None without data. Private
    drowned     the share of numbers whose own mean is less than the newest step's noise. Private
    """

    first: float
    newest: float
    low: float
    high: float
    mean: float | None = None
    drowned: float | None = None

    @property
    def of_range(self) -> float:
        """The newest step's noise as a share of the public range."""
        return self.newest / (self.high - self.low) if self.high > self.low else math.inf

    @property
    def of_mean(self) -> float | None:
        """The newest step's noise as a share of the data's own mean."""
        return None if self.mean is None else self.newest / abs(self.mean) if self.mean else math.inf


@dataclass(frozen=True, repr=False)
class StreamReport:
    """One stream: what was found, beside what its policy says.

    files, columns, hidden   the files; the columns with their types, and how many have names that are not shown
    looked                   how many steps are due now: those that were looked at
    found                    counts; None for a stream without a source
    shapes, examples         what cells look like that could not be read, by `time` and `value`; if asked, some as they stand
    arrival                  how late readings arrive, in words
    """

    channel: Channel = field(compare=False)
    size: int
    looked: int
    noise: Noise
    files: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    hidden: int = 0
    found: Inspection | None = field(default=None, compare=False)
    shapes: Mapping[str, tuple[tuple[str, float], ...]] = field(default_factory=dict)
    examples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    arrival: str = "not known"
    problems: tuple[Problem, ...] = ()

    @property
    def name(self) -> str:
        """The stream's name."""
        return self.channel.name

    def missing(self) -> float | None:
        """The share of the declared people without a reading, in the steps between the first and the last with data.

        None without data, and where one person counts in several groups of a step: entries are then no people.
        """
        i = self.found
        if (
            i is None
            or not i.steps
            or (self.channel.groups and not self.channel.fixed and self.channel.most_groups > 1)
        ):
            return None
        sizes = [
            self.channel.sized_at(k).size for k in (range(i.first, i.last + 1) if len(self.channel.sized) > 1 else (1,))
        ]
        return max(0.0, 1 - i.entries / (sum(sizes) / len(sizes) * (i.last - i.first + 1)))

    def empty(self) -> tuple[int, int, int]:
        """How many steps have no data: before the first that has, between, and after the last."""
        i = self.found
        if i is None or not i.steps:
            return self.looked, 0, 0
        return i.first - 1, i.last - i.first + 1 - i.steps, self.looked - i.last

    def day(self, us: int | None) -> str | None:
        """The day of a moment, on the stream's clock."""
        try:
            return None if us is None else from_us(us, self.channel.steps.zone).date().isoformat()
        except (OverflowError, ValueError):
            return "beyond the calendar"

    def typical(self) -> tuple[float, ...] | None:
        """Readings at the quantiles 5, 50 and 95 %, in the policy's unit, to two digits; None if they are too few."""
        i = self.found
        if i is None or i.typical is None or i.good < FEWEST:
            return None
        return tuple(round_digits(u * float(self.channel.measure.resolution)) for u in i.typical)

    def to_dict(self) -> JsonObject:
        """Return plain data for JSON; numbers that are of no one person, and shapes."""
        (
            i,
            before,
        ) = self.found, self.empty()
        known: JsonObject = {
            "stream": self.name,
            "files": list(self.files),
            "columns": dict(self.columns),
            "steps": {"due": self.looked, "without_data": dict(zip(("before", "between", "after"), before, strict=True))},
            "noise": {
                "first_step": _finite(self.noise.first), "newest_step": _finite(self.noise.newest),
                "public_range": [self.noise.low, self.noise.high], "of_range": _finite(self.noise.of_range),
                "own_mean": self.noise.mean, "of_own_mean": _finite(self.noise.of_mean),
                "numbers_below_noise": self.noise.drowned,
            },
        }  # fmt: skip
        if i is None:
            return known
        t = dict(i.tallies)
        return known | {
            "rows": {
                "all": i.rows,
                "before": i.before,
                "after": i.after,
                "good": i.good,
                "in_steps": t.pop("rows"),
                **t,
            },
            "first_day": self.day(i.earliest),
            "last_day": self.day(i.latest),
            "clipped": {
                "readings": {"low": i.low_readings, "high": i.high_readings},
                "entries": {"low": i.low, "high": i.high, "all": i.entries},
            },
            "people": {"seen": i.people, "declared": self.size, "missing_per_step": self.missing()},
            "typical_readings": self.typical(),
            "arrival": self.arrival,
            "shapes": {which: [list(pair) for pair in pairs] for which, pairs in self.shapes.items()},
            **({"examples": {k: list(v) for k, v in self.examples.items()}} if self.examples else {}),
        }

    def lines(self) -> Iterator[tuple[str, str]]:
        """Yield what was found, as a heading and a line of text each."""
        if self.found is None:
            yield "source", "none: a program pushes the aggregate, so there is no reading to look at"
        else:
            yield from self._source_lines()
            yield from self._step_lines(self.found)
            yield from self._row_lines(self.found)
            if self.found.good:
                yield from self._good_lines(self.found)
            yield "arrival", self.arrival
        yield from self._noise_lines()

    def _source_lines(self) -> Iterator[tuple[str, str]]:
        source = self.channel.part.source
        assert source is not None
        yield "files", _listed(self.files)
        roles = {source.person or self.channel.person: "person", source.time: "time", source.value: "value"}
        roles |= {source.group: "group"} if source.group else {}
        shown = [f"{name} ({kind}{', ' + roles[name] if name in roles else ''})" for name, kind in self.columns.items()]
        yield "columns", ", ".join(shown) + (f", and {self.hidden} more" if self.hidden else "")

    def _step_lines(self, i: Inspection) -> Iterator[tuple[str, str]]:
        steps = self.channel.steps
        first, last = (from_us(us, steps.zone) for us in (steps.start_us, steps.end(max(1, self.looked))))
        before, between, after = self.empty()
        yield "steps", f"{self.looked:,} due, from {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M}"
        empty = f"{before:,} before the first with data, {between:,} between, {after:,} after the last"
        yield "", f"without any data: {empty if i.steps else 'all of them'}"

    def _row_lines(self, i: Inspection) -> Iterator[tuple[str, str]]:
        t = i.tallies
        days = f", of {self.day(i.earliest)} to {self.day(i.latest)}" if i.earliest is not None else ""
        outside = f"before the first step {percent(i.before, i.rows)}, after the newest {percent(i.after, i.rows)}"
        yield "rows", f"{i.rows:,}{days}; {outside}; {percent(i.good, i.rows)} count"
        seen = {"time": t["bad_time"], "person": t["bad_person"], "value": t["bad_value"]}
        yield "unreadable", ", ".join(f"{name} {percent(n, i.rows)}" for name, n in seen.items())
        for which, pairs in self.shapes.items():
            listed = ", ".join(f"{repr(text) if text.strip() else 'blank'} {_share(n)}" for text, n in pairs)
            yield "", f"{which}s that cannot be read look like {listed}"
        for which, cells in self.examples.items():
            yield "", f"some of these {which}s, as they stand: " + ", ".join(map(repr, cells))
        yield "unknown", f"person {percent(t['unknown_person'], i.rows)}, group {percent(t['unknown_group'], i.rows)}"

    def _good_lines(self, i: Inspection) -> Iterator[tuple[str, str]]:
        t, missing = i.tallies, self.missing()
        yield "repeated", f"{percent(t['duplicates'], i.good)} of good readings, of one person at one moment"
        if self.channel.groups and not self.channel.fixed:
            several = percent(t["too_many_groups"], i.entries + t["too_many_groups"])
            yield "", f"{several} are in more groups of a step than one person may count in"
        yield from () if self.channel.measure.kind == "count" else self._clip_lines(i)
        gaps = "" if missing is None else f"; {_share(missing)} missing in a step"
        yield "people", f"{i.people:,} seen, {self.size:,} declared{gaps}"

    def _clip_lines(self, i: Inspection) -> Iterator[tuple[str, str]]:
        unit, typical = self.channel.part.statistic.unit or "", self.typical()
        if self.channel.measure.readings is not None:
            low, high = percent(i.low_readings, i.good), percent(i.high_readings, i.good)
            yield "clipped", f"single readings: low {low}, high {high}"
        low, high = percent(i.low, i.entries), percent(i.high, i.entries)
        yield "clipped", f"what a person comes to in a step: low {low}, high {high}"
        if typical is not None:
            least, middle, most = (f"{x:g} {unit}".rstrip() for x in typical)
            yield "", f"half of the readings are below {middle}, 90 % between {least} and {most}"

    def _noise_lines(self) -> Iterator[tuple[str, str]]:
        noise, unit, tree = self.noise, self.channel.unit, self.channel.measure.tree
        cells = self.channel.cells if tree is None else max(1, len(self.channel.groups))
        first, newest, low, high = (
            f"{round_digits(x, 3):g} {unit}".rstrip() for x in (noise.first, noise.newest, noise.low, noise.high)
        )
        size = f"standard deviation {first} at step 1, {newest} at step {max(1, self.looked):,}"
        if self.channel.held is not None:
            size = f"standard deviation {newest} at the least where {self.channel.mechanism} publishes an output of its own"
        whose = "" if tree is None else "of a median's rank, "
        yield "noise", f"{whose}{size}: {_share(noise.of_range)} of the public range, {low} to {high}"
        if noise.of_mean is not None:
            below = "" if cells == 1 else f"; {_share(noise.drowned or 0)} of {cells:,} numbers are below their noise"
            own = f"{noise.mean:g} {unit}".rstrip()
            beside = (
                f"{_share(noise.of_mean)} of the data's own mean, about {own}" if noise.mean else "the data come to 0"
            )
            yield "", f"{beside}{below} (private)"


FEWEST = 100
"""Of fewer readings no quantile is shown: it would be one of them."""


@dataclass(frozen=True, repr=False)
class CheckReport:
    """What `check` found. All of it is private; print it, or take `problems`, to look.

    >>> CheckReport("policy.yaml", ())
    CheckReport('policy.yaml', private: for the operator alone)
    """

    policy: str
    streams: tuple[StreamReport, ...]
    promise: tuple[Problem, ...] = ()

    def __repr__(self) -> str:
        return f"CheckReport({self.policy!r}, private: for the operator alone)"

    @property
    def problems(self) -> tuple[Problem, ...]:
        """All that looks wrong, of the promise first, then by stream."""
        return (*self.promise, *(problem for stream in self.streams for problem in stream.problems))

    def to_dict(self) -> JsonObject:
        """Return plain data for JSON."""
        streams = [stream.to_dict() for stream in self.streams]
        return {
            "private": f"{FIRST_LINE} {NOT_FREE}",
            "policy": self.policy,
            "problems": [vars(problem) for problem in self.problems],
            "streams": streams,
        }

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> Iterator[str]:
        """Yield the report as text."""
        yield FIRST_LINE
        for stream in self.streams:
            yield ""
            yield f"{stream.name}"
            for heading, text in stream.lines():
                yield f"  {heading:<11}{text}"
        yield ""
        if not self.problems:
            yield "Nothing looks wrong."
        for number, problem in enumerate(self.problems, start=1):
            yield f"{number}. {problem.stream}: {problem.seen}"
            yield f"   likely: {problem.cause}"
            if problem.write is not None:
                yield f"   write:  {problem.write}"
        yield ""
        yield NOT_FREE


def percent(part: int, whole: int) -> str:
    """Return a share as people read it: neither 0 % of some nor 100 % of not all.

    >>> percent(0, 7), percent(1, 100_000), percent(998, 1000), percent(99_999, 100_000), percent(7, 7), percent(0, 0)
    ('0 %', 'under 0.1 %', '99.8 %', 'over 99.9 %', '100 %', '0 %')
    """
    return _share(part / whole) if whole else "0 %"


def _share(share: float) -> str:
    if 0 < share < 0.001:
        return "under 0.1 %"
    if 0.999 < share < 1:
        return "over 99.9 %"
    return f"{100 * share:.3g} %" if share < 10 else f"{100 * share:,.0f} %"


def round_digits(x: float, digits: int = 2) -> float:
    """Return a number to so many digits: how large something is, not what somebody's is.

    >>> round_digits(73313.37), round_digits(0)
    (73000.0, 0.0)
    """
    return float(f"{x:.{digits}g}")


def say_duration(us: float) -> str:
    """Return a time span in words, to about two digits.

    >>> say_duration(25 * 60e6), say_duration(3 * 86400e6)
    ('25 min', '3 days')
    """
    span = datetime.timedelta(microseconds=us)
    for width, name in (
        (datetime.timedelta(days=1), "days"),
        (datetime.timedelta(hours=1), "h"),
        (datetime.timedelta(minutes=1), "min"),
    ):
        if span >= 2 * width:
            return f"{span / width:.2g} {name}"
    return f"{span.total_seconds():.2g} s"


def next_width(us: float) -> str:
    """Return the next width of a step that people use, of at least about so many µs, as a policy writes it.

    >>> next_width(51 * 60e6), next_width(1800e6), next_width(30 * 86400e6), next_width(90 * 86400e6)
    ('1 h', '30 min', '1 month', '3 months')
    """
    minutes = {n: f"{n} min" for n in (1, 2, 5, 10, 15, 20, 30)}
    hours = {60 * n: f"{n} h" for n in (1, 2, 3, 4, 6, 8, 12)}
    months = {43_800 * n: say_months(n) for n in (1, 2, 3, 4, 6, 12)}
    known = {**minutes, **hours, 1440: "1 day", 10_080: "7 days", **months}
    return next((text for n, text in known.items() if n * 60e6 >= 0.95 * us), f"{round(us / 86_400e6)} days")


def _finite(x: float | None) -> float | None:
    return x if x is not None and math.isfinite(x) else None


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:3])
    return (
        f"{len(names):,}: {shown}" + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")
        if names
        else "a data frame"
    )
