"""The shape of a policy: one population, one promise over it, and the streams of statistics that share it."""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PrivateAttr,
    Tag,
    ValidationError,
    WithJsonSchema,
)

from halflife.errors import HalflifeError, InvalidInput, unknown
from halflife.ledger import resolve_ledger
from halflife.libpq import NO_PASSWORD, find_passwords
from halflife.local_time import parse_time, to_us
from halflife.numerics.forms import JsonObject
from halflife.parsing.documents import Document, PolicyError, Problem, Where
from halflife.parsing.quantities import parse_quantity
from halflife.policy.members import Members, read_members


def _one_or_many(value: object) -> Any:
    return [value] if isinstance(value, str) else value


def read_number(value: object) -> Any:
    """Return a number as people write it: 1e6 is a million; yes and no are not numbers."""
    if isinstance(value, bool):
        raise ValueError("must be a number")
    try:
        exact = parse_quantity(value, None) if isinstance(value, str) else None
    except ValueError:
        return value
    return value if exact is None else int(exact) if exact.denominator == 1 else float(exact)


def _moment(value: object) -> Any:
    """Return a date or time object as text."""
    return value.isoformat() if isinstance(value, datetime.date) else value


def _sayable(text: str) -> str:
    if "\0" in text:
        raise ValueError("must not hold a null character")
    return text


Text = Annotated[str, Field(min_length=1, max_length=500), AfterValidator(_sayable)]
ONE_OR_MANY = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}
Texts = Annotated[
    list[Text], Field(min_length=1, max_length=10_000), BeforeValidator(_one_or_many), WithJsonSchema(ONE_OR_MANY)
]
Columns = Annotated[list[Text], Field(min_length=2, max_length=10_000)]
Moment = Annotated[Text, BeforeValidator(_moment)]
Positive = Annotated[int, Field(ge=1, le=10**12), BeforeValidator(read_number)]
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
"""How a path of a cluster's file system begins, such as hdfs://name/folder."""
KEYS, WORD = "[keys]", "[word]"
"""What pydantic calls the two forms of a key that has two: parts of its paths, not of the policy's."""


def _is_table(given: object) -> bool:
    return isinstance(given, str) and given.lower().endswith((".csv", ".parquet"))


Size = Annotated[
    Annotated[Positive, Tag(KEYS)] | Annotated[Text, Tag(WORD)],
    Discriminator(lambda given: WORD if _is_table(given) else KEYS),
]
PositiveReal = Annotated[float, Field(gt=0), BeforeValidator(read_number)]
KeyPlace = Annotated[Any, WithJsonSchema({"type": "string", "pattern": "^(file|env|keyring):.+"})]
"""Of any type, and checked by `paths.check_key_place`: pydantic's errors quote what they refuse, which may be a key."""
Share = Annotated[float, Field(gt=0, le=1), BeforeValidator(read_number)]


class Part(BaseModel):
    """The base class of all parts of a policy: immutable, and unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True, allow_inf_nan=False)


P = TypeVar("P", bound=Part)


class UnitTable(Part):
    """A public table that says whose each id of the data is: which household a meter belongs to."""

    file: Text = Field(description="CSV or Parquet.")
    id: Text = Field(description="The column with the ids as they stand in the data.")
    unit: Text = Field(description="The column with whom the id belongs to: who is protected as one.")


class Population(Part):
    """The people whom the promise is about."""

    id: Text = Field(description="A name for the population: its account is kept under it.")
    size: Size = Field(
        description="How many people there are. Public knowledge, never counted from the data. A number, or the path of a public "
        "table of numbers by date (….csv with columns from and size)."
    )
    person: Text = Field(description="The column that identifies a person.")
    units: UnitTable | None = Field(
        None, description="If the column names meters or cards, of which one person has several: whose each of them is."
    )
    neighbours: Literal["replace-one", "add-remove"] = Field(
        "replace-one", description="What is hidden: which data a person has, or whether they have any."
    )


class Promise(Part):
    """What is promised: a notion with its parameters, and the plan that keeps it."""

    model_config = ConfigDict(extra="allow")  # the notion's own keys: `policy/promises/` reads them

    notion: Text = Field(
        description="classical, w-event, exponential, hyperbolic, age-dependent, almost-periodic, swellfish, …"
    )
    plan: Text = Field("tight", description="How the budget is spread over time: tight, paper, constant, optimal.")
    noise: Literal["laplace", "gaussian"] | None = Field(None, description="Force a family of noise.")
    cap: Annotated[float, Field(gt=0), BeforeValidator(read_number)] | None = Field(
        None, description="The most that one release may cost (some plans)."
    )


class Clock(Part):
    """Steps in wall-clock terms."""

    step: Text = Field(description="The account's step: 30 min, 1 h, 1 day, 1 month.")
    start: Moment = Field(description="When step 1 begins, as 2026-01-31 or 2026-01-31T13:30.")
    end: Moment | None = Field(None, description="When the last step is over; without it the stream is for ever.")
    zone: Text = Field("UTC", description="Whose clock people read, and whose midnight begins a day.")
    late: Literal["now", "as-planned"] = Field(
        "now",
        description="From when on a late step counts, if the promise forgets: from now, or as if it had been on time, which "
        "replays the past.",
    )


class Source(Part):
    """The data source of a stream: files, or a table of a database, and columns. Paths are relative to the policy file."""

    files: Texts = Field(
        default_factory=list, description="A file, a pattern such as meters-*.csv.gz, or a list of them."
    )
    database: Text | None = Field(
        None,
        description="postgresql://HOST/DATABASE, instead of files: a server with a table of readings. No password.",
    )
    engine: Literal["spark"] | None = Field(
        None, description="Who reads and adds up: spark, a cluster, where the readings are; this process if not given."
    )
    master: Text | None = Field(
        None,
        description="Of spark, the cluster: spark://HOST:7077, yarn, k8s://…; else SPARK_MASTER, else what spark-defaults says.",
    )
    format: Literal["parquet", "csv", "duckdb", "sqlite"] | None = Field(
        None, description="If the ending does not say."
    )
    table: Text | None = Field(
        None, description="The table of a database, of a DuckDB or SQLite file, or of Spark's catalog."
    )
    columns: Columns | None = Field(
        None, description="The names of the columns of a CSV file without a header, in order."
    )
    delimiter: Literal[",", ";", "tab", "|"] | None = Field(
        None, description="What stands between the fields of a line of such a file, if no comma."
    )
    time: Text = Field(description="The column with the time of a reading.")
    wide: bool = Field(
        False, description="Whether every other column is one person's readings, named after the person."
    )
    value: Text | None = Field(None, description="The column with the reading; not needed to count people.")
    group: Text | None = Field(None, description="The column with the group, where a person's group may change.")
    person: Text | None = Field(None, description="The column that identifies a person, if it differs here.")
    zone: Text = Field("UTC", description="The zone of times that carry none.")
    epoch: Literal["s", "ms", "us"] | None = Field(None, description="If times are numbers since 1970.")
    time_format: Text | None = Field(
        None, description="How times are written as text, such as %m/%d/%y %H:%M, if not as 2026-01-31 13:30."
    )

    def locate(self, path: Callable[[str], Path]) -> str | list[str]:
        """Return where the readings are, as `open_source` takes it; `path` works out what a relative path starts from."""
        if self.engine == "spark":
            return [file if SCHEME.match(file) else f"file://{os.path.abspath(path(file))}" for file in self.files]
        return self.database or [str(path(file)) for file in self.files]

    def list_local(self) -> Iterator[tuple[int, str]]:
        """Yield the paths and patterns of this machine, with their places in `files`: others are a cluster's to look for.

        Spark also reads what is in a folder that is named, and its patterns have {a,b}, for which * stands here.
        """
        for n, file in enumerate(self.files):
            if self.engine is None:
                yield n, file
            elif file.startswith("file:") or not SCHEME.match(file):
                pattern = re.sub(r"\{[^}]*\}", "*", re.sub(r"^file:(//)?(?=/)", "", file))
                yield from ((n, pattern), (n, f"{pattern.rstrip('/')}/**"))


class Weights(Part):
    """A public table of each person's weight in a weighted sum."""

    file: Text = Field(description="CSV or Parquet.")
    person: Text = Field(description="The column that identifies a person.")
    weight: Text = Field(description="The column with the weight.")
    resolution: Text = Field("1", description="Weights are rounded to whole multiples of this.")
    largest: Text = Field(description="The largest weight that counts; larger ones are clipped.")


class Grid(Part):
    """Bins of one width, instead of `edges`. Public, not from the data."""

    low: Text = Field(description="The lowest edge; what lies below counts in the first bin.")
    high: Text = Field(description="The highest edge; what lies above counts in the last bin.")
    bins: Annotated[int, Field(ge=1, le=10_000), BeforeValidator(read_number)] = Field(description="How many bins.")


class Statistic(Part):
    """The statistic that is computed at each step."""

    kind: Literal["count", "events", "sum", "mean", "histogram", "quantile", "weighted sum"] = Field(
        description="count (of people with a reading), events (rows, so many of a person), sum, mean, histogram, quantile or "
        "weighted sum."
    )
    most_events: Annotated[int, Field(ge=1, le=10**9), BeforeValidator(read_number)] | None = Field(
        None,
        description="Of events: the most of one person that count in a step (and group). Public, not from the data.",
    )
    unit: Text | None = Field(None, description="What the values are in, such as kWh.")
    resolution: Text | None = Field(None, description="Readings become whole multiples of this, such as 1 Wh.")
    clip: Annotated[list[Text], Field(min_length=2, max_length=2)] | None = Field(
        None,
        description="The least and the largest that one person counts as in a step, after `fold`. Public, not from the data.",
    )
    clip_readings: Annotated[list[Text], Field(min_length=2, max_length=2)] | None = Field(
        None,
        description="The least and the largest that a single reading counts as, before `fold`. Public, not from the data.",
    )
    fold: Literal["sum", "mean", "first", "last", "min", "max"] | None = Field(
        None, description="How several readings of one person in a step become one."
    )
    duplicates: Literal["once", "each"] | None = Field(
        None,
        description="Whether readings of one person at one moment count once (the largest does) or each. If not given, events "
        "count each, all else once.",
    )
    missing: Text | None = Field(None, description="What a person without a good reading counts as; 0 if not given.")
    edges: Annotated[list[Text], Field(min_length=2, max_length=10_001)] | None = Field(
        None, description="The edges of a histogram's bins; the first and last bin take what lies beyond."
    )
    grid: Grid | None = None
    quantiles: Annotated[list[Text], Field(min_length=1, max_length=1_000)] | None = Field(
        None, description="Of kind quantile: which, as 0.5 or 95 %, in ascending order. All of them are one release."
    )
    weights: Weights | None = None

    @property
    def once(self) -> bool:
        """Whether readings of one person at one moment count once; each of several events is one, if nothing else is said."""
        return (self.duplicates or ("each" if self.kind == "events" else "once")) == "once"


class GroupTable(Part):
    """A public table that fixes each person's group for ever."""

    file: Text = Field(description="CSV or Parquet.")
    person: Text = Field(description="The column that identifies a person.")
    group: Text = Field(description="The column with the person's group.")


class Groups(Part):
    """A public list of groups: all are published, empty ones too."""

    names: Annotated[list[Text], Field(min_length=1, max_length=100_000)] | None = Field(
        None, description="The list; from the table if there is one."
    )
    table: GroupTable | None = Field(None, description="Fixes each person's group for ever.")
    most_per_person: Positive | None = Field(
        None, description="Without a table: in how many groups a person may count within one step."
    )
    sizes: dict[str, Positive] | None = Field(None, description="Public sizes, for means of groups without a table.")


class SeasonalKeys(Part):
    """Public parameters of a seasonal estimate, instead of fitted ones. Standard deviations count in the amplitude."""

    amplitude: Text = Field(
        description="How far the series swings about its mean (a standard deviation), such as 0.1 kWh."
    )
    level: PositiveReal | None = Field(None, description="By how much the level moves in one step.")
    day: PositiveReal | None = Field(None, description="By how much the day's first wave moves in one step.")
    week: PositiveReal | None = Field(None, description="By how much the week's first wave moves in one step.")
    side: PositiveReal | None = Field(
        None, description="By how much the day's shape on different weekdays moves in one step."
    )
    year: PositiveReal | None = Field(None, description="By how much the year's first wave moves in one step.")
    irregular: PositiveReal | None = Field(None, description="How large the irregular part is.")
    persistence: PositiveReal | None = Field(
        None, description="How much of the irregular part is left a step later, below 1."
    )
    decay: PositiveReal | None = Field(None, description="The k-th wave moves by k^-decay of the first one's variance.")


class PostProcessing(Part):
    """One step of post-processing: truncate, moving_average, kalman or seasonal; it costs no privacy."""

    truncate: Annotated[list[Text], Field(min_length=2, max_length=2)] | None = Field(
        None, description="Keep values within these bounds."
    )
    moving_average: Annotated[int, Field(ge=2, le=10_000), BeforeValidator(read_number)] | None = Field(
        None, description="The mean of the last so many published values."
    )
    above: Text | None = Field(
        None,
        description="With moving_average: only where the noise scale exceeds this, such as 0.5 kWh. Public, not from the data.",
    )
    kalman: Text | None = Field(
        None,
        description="A running estimate of a value that drifts by about this much in one step, such as 0.3 kWh (a standard "
        "deviation), public and not from the data; or `fitted`: by likelihood, on published values alone. The error band "
        "depends on it.",
    )
    seasonal: (
        Annotated[
            Annotated[SeasonalKeys, Tag(KEYS)] | Annotated[Literal["fitted"], Tag(WORD)],
            Discriminator(lambda given: KEYS if isinstance(given, dict | SeasonalKeys) else WORD),
        ]
        | None
    ) = Field(
        None,
        description="A running estimate of a series with a day and a week. `fitted`: its parameters follow from published values "
        "alone; or public ones.",
    )


class StreamPart(Part):
    """One stream of statistics."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")] = Field(
        description="A name of letters, digits, dot, dash and underscore."
    )
    share: Share | None = Field(None, description="Its share of the promise; equal shares if none is given.")
    source: Source | None = Field(None, description="Leave it out if a program pushes the aggregate.")
    statistic: Statistic
    step: Text | None = Field(None, description="A whole multiple of the clock's step, if it differs.")
    delay: Text | None = Field(
        None, description="How long after a step it is published: the age of the data, in whole steps."
    )
    lateness: Text | None = Field(
        None,
        description="How long readings may take to arrive: a step is closed, and published, so long after its delay. What comes "
        "later does not count.",
    )
    absent: Literal["missing", "skip"] = Field(
        "missing",
        description="What `publish --follow` does if the source cannot be reached when a step is closed: everybody counts as "
        "missing, or the step is never published.",
    )
    start: Moment | None = Field(None, description="When its step 1 begins, if not with the clock's.")
    end: Moment | None = Field(None, description="When its last step is over, if not with the clock's.")
    groups: Groups | None = None
    mechanism: Text | None = Field(
        None,
        description="How a value becomes an output: planned, reused; or uniform, sample, bd, ba, fast; or binary-tree for "
        "running totals; the promise's own if not given.",
    )
    post: list[PostProcessing] = Field(default_factory=list)
    output: Text = Field(
        description="….parquet, ….csv, ….jsonl, a folder ending in / for Parquet parts, or - for stdout."
    )


class Reconcile(Part):
    """A stream that is the sum over groups of another, live, or over its shorter steps, in revised series; it is free."""

    total: Text = Field(description="The stream of the total.")
    parts: Text = Field(description="The stream whose groups, or shorter steps, add up to it.")
    members: dict[str, list[Text]] | None = Field(
        None,
        description="Where the data names the groups of both: which groups of the parts lie in each group of the total.",
    )
    complete: bool = Field(
        False,
        description="That exact values do add up. Where the data names the groups: in every step all readings of a person lie in "
        "one of them. Over time: no clip takes away anything worth counting. Public knowledge, not from the data.",
    )
    non_negative: bool = Field(False, description="Whether no value is published below 0.")


class PolicyKeys(Part):
    """All keys of a policy with their positions in its file, validated one by one; `Policy` checks how they fit together."""

    halflife: Annotated[Literal[1], BeforeValidator(read_number)] = Field(1, description="The version of this format.")
    population: Population
    promise: Promise
    clock: Clock
    streams: Annotated[list[StreamPart], Field(min_length=1, max_length=1000)] = Field(
        description="What is published: one or more streams of statistics."
    )
    reconcile: list[Reconcile] = Field(
        default_factory=list, description="Which streams add up, and are published such that they do."
    )
    ledger: Text | None = Field(
        None,
        description="The file that remembers, beside the policy if not given; or postgresql://HOST/DATABASE?schema=NAME.",
    )
    mark: Text | None = Field(
        None,
        description="A second file for the mark of how much was published, by which an older copy of the ledger is noticed: on "
        "another disk.",
    )
    noise_key: KeyPlace = Field(
        None, description="Where the key to noise that is used again lies: file:PATH, env:NAME or keyring:SERVICE/USER."
    )

    _document: Document = PrivateAttr(default_factory=lambda: Document("policy", None, {}))
    _folder: Path = PrivateAttr(default_factory=lambda: Path().resolve())
    _begun: JsonObject | None = PrivateAttr(None)
    _members: Members | None = PrivateAttr(None)

    @property
    def members(self) -> Members:
        """How many people there are, at each time; a table is read once."""
        if self._members is None:
            size, clock = self.population.size, self.clock
            if isinstance(size, int):
                self._members = Members.of(size)
            else:
                with self.about("population", "size"):
                    begin = to_us(parse_time(clock.start, clock.zone))
                    self._members = read_members(self.path(size), clock.zone, begin)
        return self._members

    @property
    def begun(self) -> JsonObject | None:
        """What the ledger remembers of its promise, which the policy follows where it leaves something open; None if there is no
        ledger, or nobody has looked."""
        return self._begun

    @classmethod
    def from_document(cls, document: Document, folder: Path) -> Self:
        """Read a parsed file whose paths are relative to `folder`; an error names each key that is missing, unknown or wrong."""
        if not isinstance(document.data, dict):
            raise document.error(
                [((), "a policy is a mapping with population, promise, clock and streams: see `halflife init`")]
            )
        if passwords := list(find_passwords(document.data)):  # before anything else is said, which could quote one
            raise document.error([(where, NO_PASSWORD) for where in passwords])
        problems: dict[Where, str] = {where: f"is blank: {cls.describe_key(where)}" for where in document.blanks}
        try:
            policy = cls.model_validate(document.data)
        except ValidationError as error:
            for where, message in name_problems(cls, error):
                problems.setdefault(where, message)
        if problems:
            raise document.error(list(problems.items()))
        policy._document, policy._folder = document, folder
        return policy

    @classmethod
    def describe_key(cls, where: Where) -> str:
        """Return what a key is for."""
        return _about(cls, where)

    def error(self, *problems: Problem) -> PolicyError:
        """Return the error that names these problems, with line and column."""
        return self._document.error(list(problems))

    def name_place(self, *where: str | int) -> str | None:
        """Return where a key stands, or the nearest one around it, as file:line:column; None if the policy is no text."""
        return self._document.name_place(where) if self._document.places else None

    @contextmanager
    def about(self, *where: str | int) -> Iterator[None]:
        """Errors inside this block are about this key of the policy."""
        try:
            yield
        except PolicyError:
            raise
        except HalflifeError as error:
            raise self.error((where, str(error))) from error

    def read_part(self, model: type[P], data: object, *where: str | int) -> P:
        """Return data that stands at a key of the policy as a model of its own; an error names each key that is wrong."""
        try:
            return model.model_validate(data)
        except ValidationError as error:
            problems = name_problems(model, error)
        raise self.error(*(((*where, *key), text) for key, text in problems))

    def document_at(self, *where: str | int) -> Document:
        """Return the mapping around a key as a document with this key alone; its errors name the policy's lines."""
        data, around = self._document.data, len(where) - 1
        for key in where:
            data = data[key]
        places = {at[around:]: place for at, place in self._document.places.items() if at[:around] == where[:-1]}
        return Document(self._document.name, {where[-1]: data}, places)

    def path(self, name: str) -> Path:
        """Return a path of the policy, which is relative to its file."""
        try:
            return self._folder / Path(name).expanduser()
        except RuntimeError as error:
            raise InvalidInput(f"{name!r}: {str(error).rstrip('.').lower()}: write the folder out") from None

    @property
    def ledger_url(self) -> str:
        """Where the ledger is, as `open_ledger` takes it; a path is relative to the policy's file."""
        return resolve_ledger(self.ledger or f"{Path(self._document.name).stem}.ledger", self.path)


SAID = {
    "model_type": "must be a mapping of keys",
    "dict_type": "must be a mapping of keys",
    "list_type": "must be a list",
    "too_long": "must have at most {max_length} items",
    "too_short": "must have at least {min_length} items",
    "string_type": "must be text",
    "string_unicode": "must be text",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "must have letters, digits, dots, dashes and underscores alone, at most 64",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "greater_than": "must be above {gt:g}",
    "greater_than_equal": "must be at least {ge:,}",
    "less_than_equal": "must be at most {le:,}",
}
"""What pydantic finds, as a person would say it."""


def find_culprit(error: HalflifeError, given: Container[str]) -> tuple[str, ...]:
    """Return the key that an error is about, if it is one of those that were given."""
    about = error.about if isinstance(error, InvalidInput) else None
    return (about,) if about is not None and about in given else ()


def name_problems(model: type[BaseModel], error: ValidationError) -> list[Problem]:
    """Return what pydantic found wrong with a model's data, key by key, as a person would say it."""
    return [_in_words(model, e) for e in error.errors()]


def _in_words(model: type[BaseModel], error: Any) -> Problem:
    """Return one of pydantic's errors as a sentence, with the nearest valid name."""
    where: Where = tuple(part for part in error["loc"] if part not in ("[key]", KEYS, WORD))
    if error["type"] == "extra_forbidden":
        return where, str(unknown("key", where[-1], _find_part(model, where[:-1]).model_fields))
    if error["type"] == "missing":
        return where, f"missing: {_about(model, where)}"
    if error["input"] is None:
        return where, f"is blank: {_about(model, where)}"
    if error["type"] == "literal_error":
        expected = str(error["ctx"]["expected"])
        known = re.findall(r"'([^']*)'", expected) or [expected]
        return where, str(unknown("value", error["input"], known))
    kind, context = error["type"], error.get("ctx", {})
    said = SAID[kind].format(**context) if kind in SAID else str(context.get("error", error["msg"]))
    return where, f"{said}, not {context.get('actual_length', _short(error['input']))}"


def _short(value: Any) -> str:
    return repr(value if isinstance(value, int | float) else str(value)[:80])


def _about(model: type[BaseModel], where: Where) -> str:
    """Return the description of a key."""
    names = tuple(key for key in where if isinstance(key, str))
    known = _find_part(model, names[:-1]).model_fields.get(names[-1])
    if known is None:
        return "fill it in, or delete the line"
    return known.description or (_find_part(model, names).__doc__ or "").split("\n")[0]


def _find_part(model: type[BaseModel], where: Where) -> type[BaseModel]:
    """Return the model that a path of keys leads to, or the last one before the path leaves the known keys."""
    for key in where:
        waiting: list[Any] = [model.model_fields[key].annotation] if key in model.model_fields else []
        while waiting:
            kind = waiting.pop()
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                model = kind
                break
            waiting.extend(get_args(kind))
    return model
