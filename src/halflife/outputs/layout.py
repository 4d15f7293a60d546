"""What one stream's output looks like to its readers: the columns, the rows of a step, and their text in CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from halflife.errors import InvalidInput
from halflife.local_time import find_zone, from_us
from halflife.numerics.forms import JsonObject
from halflife.steps import MOST_STEPS

FIRST_US, LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The years 1 to 9999, which a calendar holds, in µs since 1970."""
LONGEST_NUMBERS = 256
"""More bytes than a row's step, two times and two doubles can take, with the names of their columns."""


@dataclass(frozen=True)
class Layout:
    """The public shape of one stream's output. It comes from the policy, so nothing in it depends on anyone's data.

    `zone` is whose clock the times are shown in. Without `groups` there is no group column, without `bins` (low and high
    edge of each) no bin columns, without `quantiles` no quantile column. A step has one row for each group and bin or quantile,
    within groups.

    >>> Layout("meters", "UTC", ("a", "b"), ((0.0, 1.0), (1.0, 2.0))).columns
    ('step', 'start', 'end', 'group', 'bin_low', 'bin_high', 'value', 'error_band')
    """

    stream: str
    zone: str
    groups: tuple[str, ...] = ()
    bins: tuple[tuple[float, float], ...] = ()
    unit: str | None = None
    quantiles: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        find_zone(self.zone)
        for name in self.groups:
            if not name or any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in name):
                raise InvalidInput(
                    f"stream {self.stream!r}: {name!r} cannot name a group in an output: a name is not empty and has no"
                    " line breaks, control characters or halves of surrogate pairs; rename it in the policy"
                )
        if len(set(self.groups)) < len(self.groups):
            raise InvalidInput(
                f"stream {self.stream!r}: two groups have one name, so their rows could not be told apart"
            )
        for low, high in self.bins:
            if not low < high:
                raise InvalidInput(
                    f"stream {self.stream!r}: a bin's low edge lies below its high one, not ({low}, {high})"
                )
        if len(set(self.bins)) < len(self.bins):
            raise InvalidInput(f"stream {self.stream!r}: a bin is given twice, so its rows could not be told apart")

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        group = ("group",) if self.groups else ()
        edges = ("quantile",) if self.quantiles else ("bin_low", "bin_high") if self.bins else ()
        return ("step", "start", "end", *group, *edges, "value", "error_band")

    @property
    def rows(self) -> int:
        """How many rows a step has."""
        return max(1, len(self.groups)) * max(1, len(self.bins), len(self.quantiles))

    @property
    def cells(self) -> list[tuple[Any, ...]]:
        """What stands in the columns of group, and of bin or quantile, of each of a step's rows."""
        groups: list[tuple[Any, ...]] = [(name,) for name in self.groups] or [()]
        bins: list[tuple[Any, ...]] = [(float(low), float(high)) for low, high in self.bins]
        bins = bins or [(float(q),) for q in self.quantiles] or [()]
        return [(*group, *edges) for group, edges in product(groups, bins)]


class Published(NamedTuple):
    """One step as readers see it: when it was (µs since 1970), and each cell's value and 95 % error band's half-width.

    A band is infinite where a value repeats an earlier one, and nobody knows how far the truth has moved since.
    """

    step: int
    start_us: int
    end_us: int
    values: NDArray[np.float64]
    bands: NDArray[np.float64]


class Block(NamedTuple):
    """Steps side by side: their numbers, starts and ends, and of each a row of values and a row of error bands."""

    steps: Sequence[int]
    starts: Sequence[int]
    ends: Sequence[int]
    values: NDArray[np.float64]
    bands: NDArray[np.float64]

    @classmethod
    def of(cls, items: Sequence[Published]) -> Block:
        """Return steps side by side, which have as many cells each."""
        steps, starts, ends, values, bands = list(zip(*items, strict=True)) or [(), (), (), (), ()]
        return cls(steps, starts, ends, np.array(values, np.float64), np.array(bands, np.float64))

    def items(self) -> list[Published]:
        """Return the steps one by one."""
        return [Published(*row) for row in zip(*self, strict=True)]

    def check(self, rows: int) -> None:
        """Refuse what cannot be shown, as `check_item` does for each step."""
        shape = (len(self.steps), rows)
        sound = self.values.shape == self.bands.shape == shape and all(1 <= k <= MOST_STEPS for k in self.steps)
        if not (sound and np.isfinite(self.values).all() and (np.isfinite(self.bands) | (self.bands > 0)).all()):
            for item in self.items():
                check_item(item, rows)


Find = Callable[[int], Published | None]
"""What the ledger holds for a step, or None."""
NextStep = Callable[[int], int | None]
"""The smallest step that the ledger holds and that is greater than this one, or None."""


@dataclass(frozen=True)
class Digests:
    """Where the digests of an output's files are kept, in the ledger, so that any changed byte is noticed.

    record  (file, last step, SHA-256, last step of what lies in its place) before a file is put in its place
    find    the digests of a file by its last step: of what lies in its place, and of what was about to
    """

    record: Callable[[str, int, bytes, int | None], None]
    find: Callable[[str], Mapping[int, bytes]]


NO_DIGESTS = Digests(lambda file, step, sha256, beside: None, lambda file: {})
"""For outputs whose files nobody keeps digests of: none are compared."""


@dataclass(frozen=True)
class Stored:
    """What the ledger holds of a stream: up to which step, what for a step, and how to cross a gap in one stride."""

    last: int
    find: Find
    next_step: NextStep | None = None
    digests: Digests = NO_DIGESTS

    def after(self, step: int, until: int) -> Published | None:
        """Return the first step that the ledger holds after this one, and up to `until`. Steps may be missing for good."""
        if step >= until:
            return None
        if self.next_step is None:
            return next((item for k in range(step + 1, until + 1) if (item := self.find(k)) is not None), None)
        k = self.next_step(step)
        return None if k is None or k > until else self.find(k)


class Output(Protocol):
    """Where a stream's steps go. It is a copy of what the ledger holds: a crash loses nothing, and nothing is redrawn."""

    last_step: int
    """The newest step whose rows are all in the output, for a reader to see; 0 if there is none."""

    def write(self, block: Block) -> None:
        """Append whole steps, in order, each newer than all before. A single Parquet file gathers them until `close`."""

    def close(self) -> None:
        """Let readers see all that was written. No file is held open between calls, so more may be written."""


def check_item(item: Published, rows: int) -> tuple[list[float], list[float]]:
    """Return a step's values and error bands as lists, or refuse what cannot be shown."""
    if not 1 <= item.step <= MOST_STEPS:
        raise InvalidInput(f"a step is a number from 1 to {MOST_STEPS}, not {item.step}")
    return _numbers(item, "values", item.values, rows), _numbers(item, "error bands", item.bands, rows)


def _numbers(item: Published, name: str, numbers: NDArray[np.float64], rows: int) -> list[float]:
    if np.shape(numbers) != (rows,):
        raise InvalidInput(
            f"step {item.step} has {name} of shape {np.shape(numbers)} for the {rows} rows of its layout"
        )
    found: list[float] = np.asarray(numbers, dtype=np.float64).tolist()
    unknown = name == "error bands" and all(band > 0 for band in found)
    if not all(map(math.isfinite, found)) and not unknown:
        raise InvalidInput(f"step {item.step} has {name} that are not finite: only numbers can be published")
    return found


def check_order(steps: Sequence[int], newest: int) -> None:
    """Refuse steps that are not in order or not newer than what was written before: each is published once."""
    for step in steps:
        if step <= newest:
            raise InvalidInput(f"step {step} cannot follow step {newest}: steps are written once, in order")
        newest = step


@lru_cache(maxsize=1024)
def clock(us: int, zone: str) -> str:
    """Return µs since 1970 as a zone's clock shows them; a number that no calendar holds as itself.

    >>> clock(1_372_635_000_000_000, "Europe/London")
    '2013-07-01T00:30:00+01:00'
    """
    try:
        return from_us(us, zone).isoformat()
    except OverflowError:
        return f"{us} µs"


def clocks(moments: Sequence[int], zone: str) -> list[str]:
    """Return what `clock` shows for each of many moments; whole seconds in UTC all at once.

    >>> clocks([1_372_635_000_000_000], "UTC") == [clock(1_372_635_000_000_000, "UTC")]
    True
    """
    us = np.array(moments, dtype=np.int64)
    if zone.upper() != "UTC" or (us % 1_000_000).any() or us.min() < FIRST_US or us.max() > LAST_US:
        return [clock(moment, zone) for moment in moments]
    return [f"{text}+00:00" for text in np.datetime_as_string(us.astype("datetime64[us]"), unit="s").tolist()]


class Null:
    """What JSON writes where there is no number."""

    def __repr__(self) -> str:
        return "null"


@dataclass(frozen=True)
class Form:
    """A text format. A row is `lead` (step, start, end), its cell's own text, and `trail` (value, error band)."""

    layout: Layout
    header: bytes
    lead: str
    cells: tuple[str, ...]
    trail: str
    first: re.Pattern[bytes]
    read: Callable[[str], JsonObject]
    infinite: object = math.inf

    def render(self, item: Published) -> bytes:
        """Return all rows of a step. Doubles are written in the fewest digits that read back to the same double."""
        values, bands = check_item(item, len(self.cells))
        zone, trail = self.layout.zone, self.trail.format
        lead = self.lead.format(item.step, clock(item.start_us, zone), clock(item.end_us, zone))
        rows = [lead + c + trail(v, b) for c, v, b in zip(self.cells, values, self._show(bands), strict=True)]
        return "".join(rows).encode()

    def render_many(self, block: Block) -> bytes:
        """Return all rows of some steps: what `render` gives for each, but checked all at once."""
        lead, trail, zone, size = self.lead.format, self.trail.format, self.layout.zone, len(self.cells)
        block.check(size)
        leads = map(lead, block.steps, clocks(block.starts, zone), clocks(block.ends, zone))
        values, bands = block.values.ravel().tolist(), self._show(block.bands.ravel().tolist())
        if size == 1:
            texts = map(self.cells[0].join, zip(leads, map(trail, values, bands), strict=True))
        else:
            places = (a + c for a in leads for c in self.cells)
            texts = map(str.__add__, places, map(trail, values, bands))
        return "".join(texts).encode()

    def _show(self, bands: list[float]) -> list[Any]:
        """Bands as they are written: infinite ones as this format can."""
        return bands if math.inf not in bands else [self.infinite if band == math.inf else band for band in bands]

    def step(self, line: bytes) -> int | None:
        """Return the step that a line begins with, or None if it is no row of this format."""
        match = self.first.match(line)
        return int(match[1]) if match else None

    def fields(self, line: bytes) -> JsonObject:
        """Return a line's fields by column, as written; none if it is no row of this format."""
        try:
            return self.read(line.decode())
        except (ValueError, RecursionError, csv.Error):
            return {}

    @property
    def longest_step(self) -> int:
        """More bytes than any step can take."""
        return sum(LONGEST_NUMBERS + len(cell.encode()) for cell in self.cells)


def csv_line(row: Sequence[Any]) -> str:
    """Return a row of CSV by the rules of RFC 4180, but with a bare newline."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(row)
    return text.getvalue()


def csv_form(layout: Layout) -> Form:
    """Return the CSV format of a layout.

    >>> form = csv_form(Layout("s", "UTC", ('a "b", c',)))
    >>> print(form.render(Published(1, 0, 1_000_000, np.array([0.1]), np.array([2.0]))).decode(), end="")
    1,1970-01-01T00:00:00+00:00,1970-01-01T00:00:01+00:00,"a ""b"", c",0.1,2.0
    """
    cells = tuple(csv_line(cell)[:-1] + "," if cell else "" for cell in layout.cells)

    def read(line: str) -> JsonObject:
        return dict(zip(layout.columns, next(csv.reader([line])), strict=True))

    header = csv_line(layout.columns).encode()
    return Form(layout, header, "{},{},{},", cells, "{!r},{!r}\n", re.compile(rb"(\d{1,18}),"), read)


def json_form(layout: Layout, *, shared: bool = False) -> Form:
    """Return the JSON-lines format of a layout. JSON has no infinity: a bin without an edge has null there, and so has a value
    without an error band.

    Where streams share a place, as on the standard output, each row begins with the name of its stream.

    >>> form = json_form(Layout("s", "UTC", bins=((-math.inf, 0.0),)))
    >>> form.render(Published(1, 0, 1_000_000, np.array([0.1]), np.array([2.0]))).decode()[86:-1]
    '"bin_low": null, "bin_high": 0.0, "value": 0.1, "error_band": 2.0}'
    """
    names = layout.columns[3:-2]
    cells = tuple("".join(f'"{n}": {_json(v)}, ' for n, v in zip(names, c, strict=True)) for c in layout.cells)

    def read(line: str) -> JsonObject:
        row = json.loads(line, parse_float=str, parse_int=str)
        return row if isinstance(row, dict) and tuple(row) == columns else {}

    columns = ("stream", *layout.columns) if shared else layout.columns
    begin = stream_prefix(layout.stream) if shared else "{"
    lead = begin.replace("{", "{{").replace("}", "}}") + '"step": {}, "start": "{}", "end": "{}", '
    first = re.compile(re.escape(begin.encode()) + rb'"step": (\d{1,18}),')
    return Form(layout, b"", lead, cells, '"value": {!r}, "error_band": {!r}}}\n', first, read, Null())


def stream_prefix(stream: str = "") -> str:
    """Return how a row that names its stream begins; without a name, how all such rows do.

    >>> stream_prefix("meters"), stream_prefix()
    ('{"stream": "meters", ', '{"stream": "')
    """
    return f'{{"stream": {_json(stream)}, ' if stream else '{"stream": "'


def _json(value: object) -> str:
    open_edge = isinstance(value, float) and math.isinf(value)
    return json.dumps(None if open_edge else value, ensure_ascii=False)
