"""Data frames in memory: pandas, Polars and Arrow through Narwhals.

Columns become plain whole numbers and doubles without nulls (person codes, moments, values), where every kind of null, NaN and
text is dealt with once; the costly part, one number for each person, step and group, is Narwhals' group-by on the frame's own
library. What leaves Narwhals' common ground is done on columns in Arrow and NumPy; text is read by DuckDB with the one grammar.

**Sums are exact however many rows there are.** No memory holds 2³⁸ rows, so sums of numbers below 2²² fit 64 bits; larger numbers
are added in two halves. Either way the sum is the same. What a library says of a cell is not passed on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from halflife.engines.arrow import drop_bad_text, is_text
from halflife.engines.base import (
    LARGEST_TOTAL,
    LATEST,
    ONCE_MATTERS,
    TALLIES,
    Answer,
    Question,
    bounds_before_fold,
    empty_answer,
    most_added,
)
from halflife.engines.columns import check_columns, people_of_columns
from halflife.engines.grammar import (
    EXACT,
    SECONDS,
    as_text,
    has_offset,
    number_of_text,
    time_of_number,
    time_of_text,
)
from halflife.engines.inspection import Inspection
from halflife.engines.time_format import NEEDS_TEXT, is_absolute, time_of_format
from halflife.errors import InvalidInput
from halflife.local_time import DAY, Piece
from halflife.numerics.arrays import Floats, Integers

if TYPE_CHECKING:
    from halflife.engines.duckdb.engine import DuckEngine

T = TypeVar("T")

BAD = -(2**63)
"""Stands for a time that is none."""

KEYS = ("p", "k", "g")

SMALL = 2**22
"""Numbers below this add up within 64 bits, as many as memory may hold: 2³⁸."""

HALF = 2**20
"""A reading less the least one, up to 2⁴¹, is added up as its quotient and remainder by this."""


def _parse(text: object, **columns: str) -> list[Any]:
    """Run SQL expressions of `c` over an Arrow column, in order."""
    import duckdb
    import pyarrow as pa

    with duckdb.connect(config={"autoload_known_extensions": False}) as duck:
        duck.execute("SET TimeZone = 'UTC'")
        duck.register("cells", pa.table({"c": text}))
        sql = ", ".join(f"{expression} AS {column}" for column, expression in columns.items())
        found = duck.execute(f"SELECT {sql} FROM cells").fetchnumpy()
    return [found[column] for column in columns]


def _people(column: Any) -> tuple[Integers, list[str]] | None:
    """Codes of persons or groups, −1 for none; and the name of each code."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_floating(kind):
        x = column.to_numpy(zero_copy_only=False).astype(np.float64)
        whole = np.isfinite(x) & (np.floor(x) == x) & (np.abs(x) < EXACT)
        column = pa.array(np.where(whole, x, 0).astype(np.int64), mask=~whole).cast(pa.string())
    elif pa.types.is_integer(kind) or pa.types.is_null(kind):
        column = column.cast(pa.string())
    elif not is_text(kind):
        return None
    coded = column.dictionary_encode()
    names = coded.dictionary.to_pylist()
    codes = coded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    if "" in names:
        codes = np.where(codes == names.index(""), -1, codes)
    return codes, names


def _units(codes: Integers, ids: list[str], units: Mapping[str, str]) -> tuple[Integers, list[str]]:
    """Codes of the people whom ids belong to, −1 for none, and each one's name; the last is nobody, whose the unknown ids are."""
    names = [*dict.fromkeys(units.values()), ""]
    number = {name: i for i, name in enumerate(names)}
    return np.array([*(number[units.get(id_, "")] for id_ in ids), -1], dtype=np.int64)[codes], names


def _values(column: Any) -> NDArray[np.float64] | None:
    """Doubles, NaN for what is no number."""
    import pyarrow as pa

    kind = column.type
    if is_text(kind):
        (x,) = _parse(column, x=number_of_text("c"))
        return np.ma.filled(x.astype(np.float64), np.nan)
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif not (
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind)
    ):
        return None
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)


def _scaled(numbers: Integers, scale: int) -> Integers:
    """numbers · scale, BAD beyond ±2⁶²."""
    fits = np.abs(np.where(numbers == BAD, 0, numbers)) <= LATEST // scale
    return np.where(fits & (numbers != BAD), np.where(fits, numbers, 0) * scale, BAD)


def _whole(column: Any) -> Integers:
    """An Arrow column of whole numbers, BAD for null and for what 64 bits do not hold."""
    import pyarrow as pa

    if pa.types.is_uint64(column.type):
        column = pa.array(
            np.minimum(column.fill_null(2**63).to_numpy(zero_copy_only=False), 2**63 - 1).astype(np.int64)
        )
    return np.asarray(column.cast(pa.int64()).fill_null(BAD).to_numpy(zero_copy_only=False))


def _moments(column: Any, question: Question) -> Integers | None:
    """µs since 1970 in UTC, BAD for what is no time."""
    import pyarrow as pa

    kind, epoch, time_format = column.type, question.epoch, question.time_format
    absolute: Any = epoch is not None or getattr(kind, "tz", None) is not None
    if pa.types.is_null(kind):
        return np.full(len(column), BAD)
    if time_format is not None:
        if not is_text(kind):
            return None
        absolute = is_absolute(time_format)
        t = np.ma.filled(_parse(column, t=time_of_format("c", time_format))[0].astype(np.int64), BAD)
    elif is_text(kind) and epoch is None:
        t, absolute = _parse(column, t=time_of_text("c"), absolute=has_offset("c"))
        t, absolute = np.ma.filled(t.astype(np.int64), BAD), np.ma.filled(absolute.astype(bool), True)
    elif epoch is not None and (is_text(kind) or pa.types.is_floating(kind)):
        x = f"({number_of_text('c')})" if is_text(kind) else "c::DOUBLE"
        t = np.ma.filled(_parse(column, t=time_of_number(x, epoch))[0].astype(np.int64), BAD)
    elif epoch is not None and pa.types.is_integer(kind):
        t = _scaled(_whole(column), SECONDS[epoch])
    elif epoch is None and pa.types.is_timestamp(kind):
        t = _whole(column)
        t = np.where(t == BAD, BAD, t // 1000) if kind.unit == "ns" else _scaled(t, SECONDS[kind.unit])
    elif epoch is None and pa.types.is_date(kind):
        t = _scaled(_whole(column.cast(pa.date32()).cast(pa.int32())), DAY)
    else:
        return None
    t = np.where(np.abs(np.where(t == BAD, 0, t)) <= LATEST, t, BAD)
    return np.where((t != BAD) & ~np.asarray(absolute), t + _adds(t, question.local), t)


def _rule_of_times(question: Question) -> str:
    """What a column of times must hold."""
    if question.time_format is not None:
        return NEEDS_TEXT
    need = "for numbers say epoch: s, ms or us" if question.epoch is None else "with an epoch, a number"
    return f"a time is a timestamp, a date or text; {need}"


def _adds(t: Integers, pieces: tuple[Piece, ...]) -> Integers:
    """What each moment's piece adds."""
    starts, adds = np.array(pieces, dtype=np.int64).T
    return np.asarray(adds[np.maximum(np.searchsorted(starts, t, side="right") - 1, 0)])


def _arrays(entries: Any, *columns: str) -> tuple[Integers, ...]:
    return tuple(np.asarray(entries[column].to_numpy(), dtype=np.int64) for column in columns)


def _folded_sum(frame: Any, question: Question) -> tuple[Integers, ...]:
    """p, k, g and fold of one that adds: with w = u − low ≥ 0, low the least u, n readings and Σw = Σhi · HALF + Σlo.

    sum    Σu = Σw + n · low, as high · HALF + rest with 0 ≤ rest < HALF. |high| is clipped at 2⁴², so that 64 bits hold
           high · HALF; beyond it Σu is outside the bounds, and stays there
    mean   low + ⌊(2Σw + n)/(2n)⌋; with Σhi = c · n + d it is low + c · HALF + ⌊(2(d · HALF + Σlo) + n)/(2n)⌋, d < n < 2³⁸
    """
    import narwhals as nw

    low, widest = _spread(frame)
    w = nw.col("u") - low
    hi, lo = (0 * w, w) if widest < SMALL else (w // HALF, w % HALF)
    split = frame.with_columns(hi=hi, lo=lo)
    entries = split.group_by(*KEYS).agg(nw.col("hi").sum(), nw.col("lo").sum(), n=nw.len())
    p, k, g, highs, lows, n = _arrays(entries, *KEYS, "hi", "lo", "n")
    if question.fold == "mean":
        return p, k, g, low + highs // n * HALF + (2 * (highs % n * HALF + lows) + n) // (2 * n)
    rest = lows + n * (low % HALF)
    high = np.clip(highs + n * (low // HALF) + rest // HALF, -(2**42), 2**42)
    return p, k, g, high * HALF + rest % HALF


def _spread(frame: Any) -> tuple[int, int]:
    """The least u of a frame, and how far the largest is from it."""
    if not len(frame):
        return 0, 0
    least = int(frame["u"].min())
    return least, int(frame["u"].max()) - least


def _fold(frame: Any, question: Question) -> tuple[Integers, ...]:
    """p, k, g and fold of each person, step and group, from columns p, k, g, us, u, as `halflife.engines.duckdb.sql` has it."""
    import narwhals as nw

    q, u, a = question, nw.col("u"), nw.col("a")
    if q.kind != "count" and q.fold == "count":
        return _arrays(frame.group_by(*KEYS).agg(v=nw.len()), *KEYS, "v")
    if q.kind == "count" or q.fold in ("min", "max"):
        return _arrays(frame.group_by(*KEYS).agg(v=u.min() if q.fold == "min" else u.max()), *KEYS, "v")
    if q.fold in ("sum", "mean"):
        return _folded_sum(frame, q)
    low, high = bounds_before_fold(q)
    adds, spread = [add for _, add in q.buckets.pieces], high - low + 1
    if (q.buckets.width + max(adds) - min(adds)) * spread >= 2**63:
        which = nw.col("us").max() if q.fold == "last" else nw.col("us").min()
        chosen = frame.join(frame.group_by(*KEYS).agg(at=which), on=list(KEYS))
        return _arrays(chosen.filter(nw.col("us") == nw.col("at")).group_by(*KEYS).agg(v=u.max()), *KEYS, "v")
    within = nw.col("us") + (max(adds) - (q.first - 1) * q.buckets.width) - nw.col("k") * q.buckets.width
    last = q.fold == "last"
    packed = frame.with_columns(a=within * spread + (u - low if last else high - u))
    entries = packed.group_by(*KEYS).agg(a=a.max() if last else a.min())
    return _arrays(entries.with_columns(v=a % spread + low if last else high - a % spread), *KEYS, "v")


def _added(place: tuple[Integers, ...], amounts: Integers, question: Question) -> Any:
    """Exact sums at each place, as Python's whole numbers; amounts below 2⁶², fewer than 2³¹ at a place."""
    high, low = empty_answer(question), empty_answer(question)
    np.add.at(high, place, amounts >> 31)
    np.add.at(low, place, amounts & (2**31 - 1))
    return high.astype(object) * 2**31 + low


def _totals(place: tuple[Integers, ...], v: Integers, weights: Integers, question: Question) -> Integers:
    """Σ w · (v − baseline) at each place, clipped to ±2⁶²; a large weight in two parts, so that the products fit 64 bits."""
    q, amounts = question, v - question.baseline
    if most_added(q) < SMALL:
        sums: Integers = empty_answer(q)
        np.add.at(sums, place, amounts * weights)
        return sums
    exact = _added(place, amounts * (weights & (2**20 - 1)), q)
    if q.weights is not None:
        exact = exact + 2**20 * _added(place, amounts * (weights >> 20), q)
    return np.asarray(np.clip(exact, -LARGEST_TOTAL, LARGEST_TOTAL), dtype=np.int64)


def _places(p: Integers, k: Integers, g: Integers) -> Integers:
    """For each entry, how many groups of the same person and step come before it on the list."""
    order = np.lexsort((g, k, p))
    new = np.r_[True, (np.diff(p[order]) != 0) | (np.diff(k[order]) != 0)]
    at = np.arange(len(order))
    places = np.empty_like(at)
    places[order] = at - np.maximum.accumulate(np.where(new, at, 0))
    return places


class FrameEngine:
    """One data frame. See `halflife.engines.base.Engine`."""

    def __init__(self, frame: Any) -> None:
        import narwhals as nw

        try:
            found = nw.from_native(frame)
        except TypeError as error:
            raise InvalidInput(f"no data frame that can be read: {error}") from None
        except nw.exceptions.DuplicateError:
            raise InvalidInput("the data frame has two columns of one name: give each column its own name") from None
        self._frame: Any = found.collect() if isinstance(found, nw.LazyFrame) else found

    def columns(self) -> Mapping[str, str]:
        """Return the frame's columns and their types."""
        return {str(column): str(kind) for column, kind in self._frame.schema.items()}

    def progress(self) -> tuple[str, float]:
        """Return that it is being read: how far it has come is not known."""
        return "reading", 0.0

    def interrupt(self) -> None:
        """Nothing: what is asked of a frame is finished."""

    def close(self) -> None:
        """Let go of the frame."""
        self._frame = self._frame.head(0)

    def _column(self, column: str) -> Any:
        """A column as one Arrow array; Python objects as the text that the grammars read."""
        import narwhals as nw
        import pyarrow as pa

        series = self._frame[column]
        if series.dtype == nw.Object or str(getattr(series.to_native(), "dtype", "")) == "object":
            return pa.array([as_text(cell) for cell in series.to_native()], pa.string())
        try:
            found = series.to_arrow()
        except UnicodeEncodeError:  # pandas holds Python's text in other columns too: half characters
            return pa.array([as_text(cell) for cell in series.to_native()], pa.string())
        found = drop_bad_text(found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found)
        return found.dictionary_decode() if pa.types.is_dictionary(found.type) else found

    def _need(self, found: object, column: str, rule: str) -> Any:
        if found is None:
            raise InvalidInput(f"the data frame's column {column!r} is {self.columns()[column]}, but {rule}")
        return found

    def check(self, question: Question) -> None:
        """Refuse columns that are missing, or of a type that cannot be read: what an empty frame of this schema would raise."""
        open_frame(self._frame.head(0)).aggregate(question)

    def aggregate(self, question: Question) -> Answer:
        """Answer a question. What Arrow or DuckDB say may quote a cell: they are not heard, and leave no context."""
        import duckdb
        import pyarrow as pa

        with contextlib.suppress(pa.ArrowException, duckdb.Error):
            return self._answer(question)
        raise InvalidInput("the data frame cannot be read: a column holds what its type cannot, check those asked for")

    def inspect(self, question: Question) -> Inspection:
        """Return what the frame holds beside what a question says of it, as DuckDB counts it."""
        q = question
        columns = self._frame.columns if q.wide else (q.person, q.time, q.value, q.group)
        return self._look(columns, lambda engine: engine.inspect(q))

    def bad_cells(self, question: Question, which: Literal["time", "value"]) -> list[str | None]:
        """Return some cells of text that are no time or no value, as they stand."""
        columns = (question.time, None if question.wide else question.value)
        return self._look(columns, lambda engine: engine.bad_cells(question, which))

    def typical_number(self, column: str) -> float | None:
        """Return about the middle of a column of numbers; None if it is of another type, or empty."""
        return self._look((column,), lambda engine: engine.typical_number(column))

    def _look(self, columns: Sequence[str | None], work: Callable[[DuckEngine], T]) -> T:
        """Return what some work on these columns gives, with each as one Arrow column behind DuckDB."""
        import pyarrow as pa

        from halflife.engines.duckdb.engine import open_arrow

        asked = list(dict.fromkeys(column for column in columns if column is not None))
        check_columns("the data frame", asked, self._frame.columns)
        with (
            contextlib.suppress(pa.ArrowException),
            contextlib.closing(open_arrow(pa.table({column: self._column(column) for column in asked}))) as engine,
        ):
            return work(engine)
        raise InvalidInput("the data frame cannot be read: a column holds what its type cannot, check those asked for")

    def _read(self, question: Question) -> tuple[Integers, Integers, list[str], Floats]:
        """Moments, ids as codes, the name of each, and values: one of each for every row, or for every cell of a wide frame."""
        q = question
        if q.wide:
            return self._read_wide(q)
        asked = [column for column in (q.person, q.time, q.value, q.group) if column is not None]
        check_columns("the data frame", asked, self._frame.columns)
        us = self._need(_moments(self._column(q.time), q), q.time, _rule_of_times(q))
        ids, people = self._need(_people(self._column(q.person)), q.person, "a person is text or a whole number")
        x = np.zeros(len(us))
        if q.value is not None:
            x = self._need(_values(self._column(q.value)), q.value, "a value is a number or text")
        return us, ids, people, x

    def _read_wide(self, question: Question) -> tuple[Integers, Integers, list[str], Floats]:
        q = question
        people = people_of_columns("the data frame", q.time, self._frame.columns)
        us = self._need(_moments(self._column(q.time), q), q.time, _rule_of_times(q))
        values = [_values(self._column(column)) for column in self._frame.columns if column != q.time]
        known = [x for x in values if x is not None]
        if len(known) < len(values):
            wrong = f"{len(values) - len(known)} of {len(people)} columns beside {q.time!r}"
            raise InvalidInput(f"the data frame: {wrong} hold no numbers: leave them out")
        codes = np.arange(len(people), dtype=np.int64)
        codes[[i for i, person in enumerate(people) if person == ""]] = -1
        return np.tile(us, len(people)), np.repeat(codes, len(us)), people, np.concatenate(known)

    def _answer(self, question: Question) -> Answer:
        import narwhals as nw

        q = question
        us, ids, people, x = self._read(q)
        p, people = (ids, people) if q.units is None else _units(ids, people, q.units)
        near = (us != BAD) & (np.abs(us) < 2 * LATEST)
        since = np.where(near, us, 0) + _adds(us, q.buckets.pieces) - (q.first - 1) * q.buckets.width
        asked = near & (since >= 0) & (since < q.shape[0] * q.buckets.width)
        k = since // q.buckets.width
        g, group_of = np.zeros(len(us), dtype=np.int64), np.zeros(len(people), dtype=np.int64)
        weight = np.array([1 if q.weights is None else q.weights.get(name, 0) for name in people], dtype=np.int64)
        known = np.array([name != "" and (q.weights is None or name in q.weights) for name in people] + [False])
        if q.table is not None:
            group_of = np.array([q.table.get(name, -1) for name in people], dtype=np.int64)
            known &= np.r_[group_of >= 0, False]
        elif q.group is not None:
            codes, names = self._need(_people(self._column(q.group)), q.group, "a group is text or a whole number")
            order = {name: i for i, name in enumerate(q.groups)}
            g = np.array([order.get(name, -1) for name in names] + [-1], dtype=np.int64)[codes]
        bad = [us == BAD, p < 0, ~np.isfinite(x), ~known[p], g < 0]
        why = np.where(asked | bad[0], np.select(bad, range(1, 6), 0), -1)
        tallies = dict.fromkeys(TALLIES, 0) | {"rows": int((why >= 0).sum())}
        for i, reason in enumerate(("bad_time", "bad_person", "bad_value", "unknown_person", "unknown_group"), start=1):
            tallies[reason] = int((why == i).sum())
        good = why == 0
        with np.errstate(over="ignore"):
            raw = np.floor(x[good] * float(q.multiply) / float(q.divide) + 0.5)
        if q.value is not None:
            tallies["clipped_readings"] = int(((raw < q.least) | (raw > q.most)).sum())
        u = np.clip(raw, *bounds_before_fold(q)).astype(np.int64)
        columns = {"p": p[good], "k": k[good], "g": g[good], "us": us[good], "u": u, "id": ids[good]}
        frame: Any = nw.from_dict(columns, backend=self._frame.implementation)
        moments = self._moments(frame, q) if q.once else frame
        tallies["duplicates"] = len(frame) - len(moments)
        pe, ke, ge, folded = _fold(moments if q.fold in ONCE_MATTERS else frame, q)
        v = np.clip(folded, q.low, q.high)
        kept = (
            _places(pe, ke, ge) < q.most_groups if q.group is not None and q.table is None else np.ones(len(pe), bool)
        )
        tallies["too_many_groups"] = int((~kept).sum())
        tallies["clipped"] = int((folded != v)[kept].sum()) if q.kind != "count" else 0
        b = np.zeros(len(v), dtype=np.int64)
        if q.kind == "histogram":
            b = np.minimum(np.searchsorted(q.edges, v, side="right") - 1, len(q.edges) - 2)
            kept &= (v >= q.edges[0]) & (v <= q.edges[-1])
        place = ke[kept], (ge if q.table is None else group_of[pe])[kept], b[kept]
        if q.kind == "sum":
            return Answer(_totals(place, v[kept], weight[pe][kept], q), tallies)
        sums = empty_answer(q)
        np.add.at(sums, place, 1)
        return Answer(sums, tallies)

    @staticmethod
    def _moments(frame: Any, question: Question) -> Any:
        """The largest reading of each id, moment and group."""
        import narwhals as nw

        which = [] if question.units is None else ["id"]
        return frame.group_by("p", *which, "g", "us", "k").agg(nw.col("u").max())


def open_frame(frame: Any) -> FrameEngine:
    """Open a pandas, Polars or Arrow frame, or a lazy one, which is collected."""
    return FrameEngine(frame)
