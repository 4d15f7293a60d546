"""Long series cut down to what a plot can show, in one pass and in bounded memory: extremes, or means, of stretches of steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from halflife.numerics.arrays import Floats, Integers


class Thinned(NamedTuple):
    """Points of one line: times in µs, values, and the lower and upper edge of their bands; NaN where a step is missing."""

    times: Integers
    values: Floats
    low: Floats
    high: Floats


def cut_points(points: Thinned, mine: NDArray[np.bool_]) -> Thinned:
    """Return some points of a line."""
    return Thinned(points.times[mine], points.values[mine], points.low[mine], points.high[mine])


MANY = 400
"""So many values have a middle of which a few noisy ones are no part."""


def find_range(lines: Sequence[Thinned], behind: Sequence[Thinned] = ()) -> tuple[float, float]:
    """Return the range that holds all values and bands, and what is drawn behind them as far as `value_range` lets it.

    Of many estimates it is that of the middle 90 %: before their first fit they are as noisy as what is drawn behind them, and
    would leave the rest a flat line. What lies beyond is then drawn as far as what is behind.
    """
    edges = np.concatenate([edge for points in lines for edge in (points.low, points.high)])
    if not behind:  # values too: those that repeat an earlier one have no band
        return value_range(np.concatenate([edges, *(points.values for points in lines)]))
    raw = np.concatenate([*(points.values for points in behind), edges])
    return value_range(np.nanpercentile(edges, (5, 95)) if len(edges) >= MANY else edges, raw)


def value_range(values: Floats, behind: Floats | None = None) -> tuple[float, float]:
    """Return the range that holds all values, with some room; of what is drawn behind them, three times that at most.

    >>> value_range(np.array([-1.0, 1.0]))
    (-1.08, 1.08)
    >>> value_range(np.array([-1.0, 1.0]), np.array([-2.5, 90.0]))
    (-2.72, 3.22)
    """
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    if behind is not None:
        height = high - low
        low, high = (
            min(low, max(low - height, float(np.nanmin(behind)))), max(high, min(high + height, float(np.nanmax(behind))))
        )  # fmt: skip
    room = 0.04 * (high - low) or 1.0
    return low - room, high + room


class Extremes:
    """The least and the largest value of every `size` steps, with the widest band there; each value itself if all fit.

    A plot of some thousand pixels shows the same as one of all values: each stretch spans what its values span.

    >>> x = Extremes(1, 100, lines=1, most=20)
    >>> steps = np.arange(1, 101)
    >>> x.feed(steps, 10 * steps, np.sin(steps / 5)[:, None], np.ones((100, 1)))
    >>> x.size, len(x.line(0).values), bool(x.line(0).values.max() == np.sin(steps / 5).max())
    (10, 20, True)
    """

    def __init__(self, first: int, last: int, lines: int, most: int) -> None:
        steps = last - first + 1
        self.first, self.size = first, 1 if steps <= most else -(-2 * steps // most)
        shape = (-(-steps // self.size), lines)
        self._low, self._high = np.full(shape, np.inf), np.full(shape, -np.inf)
        self._low_at, self._high_at = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        self._band = np.zeros(shape)

    def feed(self, steps: Integers, times: Integers, values: Floats, bands: Floats) -> None:
        """Take the next steps (ascending), when they start, and their values and bands: steps × lines."""
        places = (steps - self.first) // self.size
        if self.size == 1:
            self._low[places] = self._high[places] = values
            self._low_at[places] = self._high_at[places] = times[:, None]
            self._band[places] = bands
            return
        starts = np.flatnonzero(np.diff(places, prepend=-1))
        for begin, end in zip(starts, [*starts[1:], len(places)], strict=True):
            self._feed_stretch(int(places[begin]), times[begin:end], values[begin:end], bands[begin:end])

    def _feed_stretch(self, place: int, times: Integers, values: Floats, bands: Floats) -> None:
        each = np.arange(values.shape[1])
        for known, known_at, rows in (
            (self._low, self._low_at, np.argmin(values, axis=0)),
            (self._high, self._high_at, np.argmax(values, axis=0)),
        ):
            found = values[rows, each]
            better = found < known[place] if known is self._low else found > known[place]
            known[place] = np.where(better, found, known[place])
            known_at[place] = np.where(better, times[rows], known_at[place])
        self._band[place] = np.maximum(self._band[place], bands.max(axis=0))

    def line(self, j: int) -> Thinned:
        """Return the points of line j."""
        seen = np.flatnonzero(np.isfinite(self._low[:, j]))
        low, high, band = (x[seen, j] for x in (self._low, self._high, self._band))
        low_at, high_at = self._low_at[seen, j], self._high_at[seen, j]
        if self.size == 1:
            made = Thinned(low_at, low, low - band, low + band)
            gaps = np.flatnonzero(np.diff(seen) > 1) + 1  # nothing was published: the line breaks there
            return Thinned(np.insert(low_at, gaps, low_at[gaps]), *(np.insert(x, gaps, np.nan) for x in made[1:]))
        turned = high_at < low_at
        pairs = np.stack([np.where(turned, high_at, low_at), np.where(turned, low_at, high_at)], axis=1)
        values = np.stack([np.where(turned, high, low), np.where(turned, low, high)], axis=1)
        return Thinned(pairs.ravel(), values.ravel(), np.repeat(low - band, 2), np.repeat(high + band, 2))


class Means:
    """The mean of every `size` steps, for each of several numbers; each value itself if all fit.

    >>> m = Means(1, 4, numbers=1, most=2)
    >>> m.feed(np.arange(1, 5), np.arange(4), np.array([[1.0], [3.0], [5.0], [9.0]]))
    >>> m.result()[1].tolist()
    [[2.0], [7.0]]
    """

    def __init__(self, first: int, last: int, numbers: int, most: int) -> None:
        steps = last - first + 1
        self.first, self.size = first, -(-steps // most)
        count = -(-steps // self.size)
        self._sum, self._count, self._at = np.zeros((count, numbers)), np.zeros(count), np.zeros(count, dtype=np.int64)

    def feed(self, steps: Integers, times: Integers, values: Floats) -> None:
        """Take the next steps (ascending), when they start, and their numbers: steps × numbers."""
        places = (steps - self.first) // self.size
        fresh = self._count[places] == 0
        self._at[places[fresh][::-1]] = times[fresh][::-1]  # the first of a stretch is written last
        np.add.at(self._sum, places, values)
        np.add.at(self._count, places, 1)

    def result(self) -> tuple[Integers, Floats]:
        """Return when each stretch starts, and its means: stretches × numbers."""
        seen = self._count > 0
        return self._at[seen], self._sum[seen] / self._count[seen][:, None]
