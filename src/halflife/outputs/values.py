"""The published values of one stream, to be added up: totals, means, calendar periods, and any weighted sum of rows."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Literal

import numpy as np

from halflife.errors import InvalidInput, unknown
from halflife.local_time import find_zone, from_us, offsets, parse_time, to_us
from halflife.numerics.arrays import Bools, Floats, Integers
from halflife.outputs.combining import Combination, Noises, Source, add_up
from halflife.outputs.layout import clock
from halflife.outputs.noise_facts import Layer, NoiseFacts

if TYPE_CHECKING:
    import pyarrow as pa

Moment = str | datetime.datetime
Period = Literal["day", "week", "month", "year"]
PERIODS: dict[Period, str] = {"day": "D", "week": "W", "month": "M", "year": "Y"}
"""Calendar periods, and what NumPy calls them; its weeks begin on Thursdays, as 1970 did."""
TO_MONDAY = 4

BEFORE = "the sum of the values before post-processing, whose band is smaller than that of estimates"

RUNNING = "running_total"
"""The post-processing that makes running totals, as files name it."""
REPEATED = (
    "none: {:,} of the steps {} no band: an earlier output is repeated there, or filtered, and its error is not known"
)

_readings = count(1)


@dataclass(frozen=True, eq=False)
class PublishedValues:
    """The rows of one stream's output.

    frame   the rows as they are published: step, start, end, group, bins, value and error_band, as an Arrow table
    name    of the output;  stream, unit, zone  as far as it says
    facts   what is known of its noise, None if nothing is;  why_unknown  says why, in words
    people  of means by group: how many people each group has; empty where groups add up, None if neither is known
    before  the same rows before post-processing, where they are known

    `total`, `mean` and `by` are weighted sums, which `combine` works out for any weights. Times without an offset are by the
    clock of the output's zone; `start` is within a stretch and `end` is not.
    """

    frame: pa.Table
    name: str
    stream: str = ""
    unit: str = ""
    zone: str | None = None
    facts: NoiseFacts | None = None
    why_unknown: str = ""
    people: Mapping[str, int] | None = None
    before: PublishedValues | None = None

    def __post_init__(self) -> None:
        if "quantile" in self.frame.column_names:
            raise InvalidInput(
                f"{self.name} holds quantiles, which cannot be added up: the median of a month follows from no medians of its "
                "days; publish a stream of wider steps"
            )
        if not len(self.frame):
            raise InvalidInput(f"{self.name} holds no step yet: publish first")
        if len(np.unique(np.stack([self._steps, self._cells], axis=1), axis=0)) < len(self.frame):
            raise InvalidInput(f"{self.name} holds a row twice: it is not as halflife wrote it")
        object.__setattr__(self, "_reading", next(_readings))

    def __repr__(self) -> str:
        first, last = self._say(int(self._starts.min())), self._say(int(self._ends.max()))
        return f"PublishedValues({self.name!r}: {len(self.frame):,} rows from {first} to {last})"

    # Any weights ----------------------------------------------------------------------------------------------------

    def combine(self, weights: Sequence[float] | Floats) -> Combination:
        """Return Σ a_i y_i with its error, a weight for each row of `frame`.

        Where values before post-processing are known and their sum has the smaller band, it is that sum, and `covers` says so.
        Which of the two is smaller is public.
        """
        a = np.asarray(weights, dtype=np.float64)
        if a.shape != (len(self.frame),) or not np.isfinite(a).all():
            raise InvalidInput(f"{len(self.frame):,} rows need as many finite weights, not {a.shape}")
        rows = np.flatnonzero(a)
        noises, bound, remarks = self._errors(rows, a[rows])
        steps = len(np.unique(self._steps[rows]))
        value = float(a[rows] @ self._values[rows])
        found = Combination(value, self.unit, steps, 0, None, None, noises, bound, remarks)
        if self.before is None or not bound:
            return found
        other = self.before.combine(a)
        return replace(other, remarks=(*other.remarks, BEFORE)) if other.band < found.band else found

    def _errors(self, rows: Integers, a: Floats) -> tuple[dict[Source, Noises], float, tuple[str, ...]]:
        """The noises of the raw ones of these rows, the bands of all others added up, and why."""
        bands, raw = np.abs(a) * self._bands[rows], self._raw[rows]
        bound, noises, remarks = float(bands[~raw].sum()), {}, self._remarks(self._steps[rows][~raw])
        if math.isinf(bound):
            repeated = len(np.unique(self._steps[rows][np.isinf(bands)]))
            return {}, bound, (REPEATED.format(repeated, "has" if repeated == 1 else "have"),)
        if raw.any():
            assert self.facts is not None
            assert self._layers is not None
            rows, a = rows[raw], a[raw]
            cells, known = self._cells[rows], int(self._cells.max()) + 1
            numbers = [layer.numbers[self._place[rows]] * known + cells for layer in self._layers]
            scales = [a * self._bands[rows] * layer.share for layer in self._layers]
            source = Source(self.stream or self.name, self.facts.family, self._reading)  # type: ignore[attr-defined]
            noises[source] = add_up(np.concatenate(numbers), np.concatenate(scales))
        return noises, bound, remarks

    def _remarks(self, steps: Integers) -> tuple[str, ...]:
        """Why the bands of rows of these steps were added up."""
        if not len(steps):
            return ()
        if self.facts is None or self._layers is None:
            return (f"bands were added up, which holds however errors are correlated: {self.why_unknown}",)
        chains = sorted({self.facts.find_post(step) for step in np.unique(steps).tolist()})
        told = " and ".join(", ".join(chain) for chain in chains)
        lean = ", or lean to one side" if any("truncate" in chain for chain in chains) else ""
        return (f"estimates ({told}), whose errors are correlated{lean}: bands were added up",)

    # Stretches of time ----------------------------------------------------------------------------------------------

    def total(
        self, start: Moment | None = None, end: Moment | None = None, group: str | None = None, bin: float | None = None
    ) -> Combination:
        """Return the sum of the values from start to end, of one group or all of them together.

        start, end  a date or time, such as 2026-01-31 or 2026-01-31T13:30; the output's first or last if it is not given
        bin         the low edge of a bin, where the output has bins; else all of them together
        """
        self._refuse_totals()
        return self._add_stretch(*self._stretch(start, end), self._weigh(group, bin))

    def mean(
        self, start: Moment | None = None, end: Moment | None = None, group: str | None = None, bin: float | None = None
    ) -> Combination:
        """Return the total over the number of steps that the output holds: see `total`."""
        whole = self.total(start, end, group, bin)
        return whole / whole.steps

    def by(
        self,
        period: Period,
        start: Moment | None = None,
        end: Moment | None = None,
        group: str | None = None,
        bin: float | None = None,
    ) -> list[Combination]:
        """Return the total of each calendar day, week (from Monday), month or year with steps from start to end: see `total`.

        The first and the last are cut at `start` and `end` if they are given; else whole, with steps that the output lacks.
        """
        if period not in PERIODS:
            raise unknown("period", period, PERIODS)
        self._refuse_totals()
        zone, weights, (first, last) = self._need_zone(), self._weigh(group, bin), self._stretch(start, end)
        within = (weights > 0) & (self._starts < last) & (self._ends > first)
        if not within.any():
            return [self._add_stretch(first, last, weights)]  # which says so
        stretches = [calendar_stretch(period, n, zone) for n in np.unique(self._labels(period, zone)[within]).tolist()]
        least, most = first if start is not None else stretches[0][0], last if end is not None else stretches[-1][1]
        return [self._add_stretch(max(a, least), min(b, most), weights) for a, b in stretches]

    def _refuse_totals(self) -> None:
        """Refuse to add up running totals: each of them is a sum already, and they share noise."""
        if self.facts is not None and any(RUNNING in names for _, names in self.facts.post):
            raise InvalidInput(
                f"{self.name} holds running totals, which are not to be added up: each is the sum of all steps before it. What a "
                "time comes to is the total at its end less the one before it (`combine`)"
            )

    def _stretch(self, start: Moment | None, end: Moment | None) -> tuple[int, int]:
        """From when to when, in µs; all of the output if neither is given."""
        first = int(self._starts.min()) if start is None else self._read_time(start)
        return first, int(self._ends.max()) if end is None else self._read_time(end)

    def _labels(self, period: Period, zone: str) -> Integers:
        """The period that each row begins in, by a zone's clock: a number."""
        known = offsets(zone, int(self._starts.min()), int(self._starts.max()))
        changes, added = (np.array(column, dtype=np.int64) for column in zip(*known, strict=True))
        local = self._starts + added[np.searchsorted(changes, self._starts, side="right") - 1]
        days = local.astype("datetime64[us]").astype("datetime64[D]") - (TO_MONDAY if period == "week" else 0)
        labels: Integers = days.astype(f"datetime64[{PERIODS[period]}]").astype(np.int64)
        return labels

    def _add_stretch(self, first: int, last: int, weights: Floats) -> Combination:
        """The weighted sum of the rows from first to last, in µs."""
        chosen = weights > 0
        across = chosen & (self._starts < last) & (self._ends > first)
        inside = across & (self._starts >= first) & (self._ends <= last)
        if (across & ~inside).any():
            row = int(np.flatnonzero(across & ~inside)[0])
            begin, end = (self._say(int(us[row])) for us in (self._starts, self._ends))
            raise InvalidInput(
                f"{self.name}: step {self._steps[row]} lasts from {begin} to {end}, and only a part of it lies between "
                f"{self._say(first)} and {self._say(last)}: begin and end where steps do"
            )
        if not inside.any():
            begin, end = (self._say(int(us)) for us in (self._starts[chosen].min(), self._ends[chosen].max()))
            raise InvalidInput(
                f"{self.name} has no step from {self._say(first)} to {self._say(last)}: it holds those from {begin} to {end}"
            )
        found = self.combine(np.where(inside, weights, 0.0))
        width = float(np.mean(self._ends - self._starts))  # months are of different lengths
        missing = max(0, round((last - first) / width) - found.steps)
        zone = self.zone or "UTC"
        return Combination(
            found.value, found.unit, found.steps, missing, from_us(first, zone), from_us(last, zone), found.noises,
            found.bound, found.remarks,
        )  # fmt: skip

    def _weigh(self, group: str | None, bin: float | None) -> Floats:
        """The weight of each row: 1 for those of this group and bin, 0 for others; of means, all groups count by their people."""
        weights = np.ones(len(self.frame))
        if group is not None and "group" not in self.frame.column_names:
            raise InvalidInput(f"{self.name} has no groups: leave the group out")
        if "group" in self.frame.column_names:
            codes = self.frame["group"].combine_chunks().dictionary_encode()
            names = codes.dictionary.to_pylist()
            weights = self._weigh_groups(names, group)[codes.indices.to_numpy()]
        if bin is not None:
            if "bin_low" not in self.frame.column_names:
                raise InvalidInput(f"{self.name} has no bins: leave the bin out")
            edges = self.frame["bin_low"].to_numpy()
            if bin not in edges:
                raise unknown("low edge of a bin", f"{bin:g}", [f"{edge:g}" for edge in np.unique(edges)])
            weights = np.where(edges == bin, weights, 0.0)
        return weights

    def _weigh_groups(self, names: list[str], group: str | None) -> Floats:
        """The weight of each group, one of them or all together."""
        if group is not None:
            if group not in names:
                raise unknown("group", group, names)
            return np.array([float(name == group) for name in names])
        if self.people is None and len(names) > 1:
            raise InvalidInput(
                f"{self.name} does not say whether its groups add up, or are means, which count by their people: name a group "
                f"({', '.join(names[:3])}…), or give the policy"
            )
        if not self.people:
            return np.ones(len(names))
        missing = [name for name in names if name not in self.people]
        if missing:
            raise InvalidInput(f"{self.name}: it is not known how many people {missing[0]!r} has: name a group")
        people = np.array([float(self.people[name]) for name in names])
        shares: Floats = people / people.sum()
        return shares

    # Columns --------------------------------------------------------------------------------------------------------

    @cached_property
    def _steps(self) -> Integers:
        return self.frame["step"].to_numpy()  # type: ignore[no-any-return]

    @cached_property
    def _starts(self) -> Integers:
        return self._moments("start")

    @cached_property
    def _ends(self) -> Integers:
        return self._moments("end")

    def _moments(self, name: str) -> Integers:
        return self.frame[name].cast("int64").to_numpy()  # type: ignore[no-any-return]

    @cached_property
    def _values(self) -> Floats:
        return self.frame["value"].to_numpy()  # type: ignore[no-any-return]

    @cached_property
    def _bands(self) -> Floats:
        return self.frame["error_band"].to_numpy()  # type: ignore[no-any-return]

    @cached_property
    def _cells(self) -> Integers:
        """Which of a step's cells each row is."""
        cells = np.zeros(len(self.frame), dtype=np.int64)
        for name in ("group", "bin_low"):
            if name in self.frame.column_names:
                codes = self.frame[name].combine_chunks().dictionary_encode()
                cells = cells * len(codes.dictionary) + codes.indices.to_numpy()
        return cells

    @cached_property
    def _place(self) -> Integers:
        """The place of each row's step among all steps."""
        return np.unique(self._steps, return_inverse=True)[1]

    @cached_property
    def _layers(self) -> list[Layer] | None:
        """The noises of each step, None if they are not known."""
        steps, rows = np.unique(self._steps, return_index=True)
        return None if self.facts is None else self.facts.layers(steps, self._starts[rows], self._ends[rows], self.zone)

    @cached_property
    def _raw(self) -> Bools:
        """Whether it is known what noises a row carries."""
        if self.facts is None or self._layers is None:
            return np.zeros(len(self.frame), dtype=np.bool_)
        raw = [not self.facts.find_post(step) for step in np.unique(self._steps).tolist()]
        return np.array(raw, dtype=np.bool_)[self._place] & np.isfinite(self._bands)

    # Times ----------------------------------------------------------------------------------------------------------

    def _need_zone(self) -> str:
        if self.zone is None:
            raise InvalidInput(
                f"{self.name} does not name the zone of its clock: give the zone, such as Europe/London, or its policy"
            )
        return self.zone

    def _read_time(self, moment: Moment) -> int:
        if isinstance(moment, str):
            parse_time(moment)  # refuses what is no time
            moment = datetime.datetime.fromisoformat(moment.strip())
        return to_us(moment if moment.tzinfo is not None else moment.replace(tzinfo=find_zone(self._need_zone())))

    def _say(self, us: int) -> str:
        return clock(us, self.zone or "UTC")


def calendar_stretch(period: Period, label: int, zone: str) -> tuple[int, int]:
    """Return when a calendar period begins and ends by a zone's clock, in µs; `label` counts them as NumPy does, from 1970.

    >>> [str(from_us(us, "Europe/London")) for us in calendar_stretch("month", 12 * 43 + 2, "Europe/London")]
    ['2013-03-01 00:00:00+00:00', '2013-04-01 00:00:00+01:00']
    """
    shift = TO_MONDAY if period == "week" else 0
    days = np.array([label, label + 1]).astype(f"datetime64[{PERIODS[period]}]").astype("datetime64[D]") + shift
    first, last = (to_us(parse_time(str(day), zone)) for day in days)
    return first, last
