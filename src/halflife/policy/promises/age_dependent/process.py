"""The process of an age-dependent promise: written out, read from a file, or fitted on a declared design sample.

    process: {name: markov-chain, matrix: [[0.9, 0.1], [0.1, 0.9]]}
    process: {file: home.json}                       # what `halflife process fit` writes
    process: {name: markov-chain, fit: {files: design.parquet, person: id, time: ts, value: kwh, states: 6, whose: other people}}

A kernel that was fitted on private data is itself a release of that data. So a fitted process says whose readings it was fitted
on, and those of the people who are protected are refused.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError

from halflife.engines.samples import Sample, read_sample
from halflife.errors import HalflifeError, InvalidInput, unknown
from halflife.numerics.arrays import Floats
from halflife.numerics.forms import JsonObject
from halflife.numerics.rounding import ratio_up
from halflife.parsing.documents import Where, read_regular
from halflife.parsing.quantities import parse_quantity
from halflife.policy.model import (
    Columns,
    Part,
    PolicyKeys,
    Positive,
    Text,
    Texts,
    find_culprit,
    name_problems,
    read_number,
)
from halflife.policy.unused import find_unused_in_source
from halflife.processes import (
    PROCESSES,
    AutoRegressive,
    EmpiricalProcess,
    MarkovChain,
    PeriodicMarkovChain,
    Process,
    ProcessFamily,
)
from halflife.processes.sequences import InvalidSequence
from halflife.steps import Steps

LARGEST_FILE = 100_000_000
LONGEST = 500
"""How much of what is wrong with a file is said."""
KINDS: Mapping[str, Any] = {
    "markov-chain": MarkovChain,
    "process-family": ProcessFamily,
    "periodic-markov-chain": PeriodicMarkovChain,
    "empirical": EmpiricalProcess,
}
"""What can be fitted."""
WHOSE = ("other people", "public")
DECLARE = (
    "a kernel fitted on private data is itself a release of it: fit it on readings of other people (`whose: other people`) or on "
    "public ones (`whose: public`), never on those of the people who are protected"
)
AT: Where = ("promise", "process")

Number = Annotated[float, Field(ge=0), BeforeValidator(read_number)]


class Fit(Part):
    """A design sample, and how a process is fitted on it. Paths are relative to the policy file."""

    files: Texts = Field(description="A file, a pattern, or a list of them: not those of the people who are protected.")
    format: Literal["parquet", "csv", "duckdb", "sqlite"] | None = Field(
        None, description="If the ending does not say."
    )
    table: Text | None = Field(None, description="The table of a DuckDB or SQLite file.")
    columns: Columns | None = Field(
        None, description="The names of the columns of a CSV file without a header, in order."
    )
    delimiter: Literal[",", ";", "tab", "|"] | None = Field(
        None, description="What stands between the fields of a line of such a file, if no comma."
    )
    person: Text | None = Field(None, description="The column that identifies a person, if it differs here.")
    time: Text = Field(description="The column with the time of a reading.")
    value: Text = Field(description="The column with the reading.")
    zone: Text = Field("UTC", description="The zone of times that carry none.")
    epoch: Literal["s", "ms", "us"] | None = Field(None, description="If times are numbers since 1970.")
    time_format: Text | None = Field(
        None, description="How times are written as text, such as %m/%d/%y %H:%M, if not as 2026-01-31 13:30."
    )
    step: Text | None = Field(None, description="How wide a step of the process is: the clock's step.")
    states: Annotated[int, Field(ge=2, le=200), BeforeValidator(read_number)] | None = Field(
        None, description="How many states, with equally many readings each."
    )
    edges: (
        Annotated[list[Annotated[float, BeforeValidator(read_number)]], Field(min_length=1, max_length=199)] | None
    ) = Field(
        None,
        description="The inner edges between states, in the unit of the readings, instead of a number of them.",
    )
    categories: Annotated[list[Text], Field(min_length=2, max_length=200)] | None = Field(
        None, description="The states, in order, where readings are text such as home, work; others count as missing."
    )
    smoothing: Number | None = Field(None, description="What is added to each count of transitions; 0 if not given.")
    slots: Positive | None = Field(
        None, description="Of periodic-markov-chain: steps in a cycle; a day's if not given."
    )
    lags: Positive | None = Field(None, description="Of empirical: the largest lag, in steps.")
    whose: Literal["other people", "public"] = Field(description=f"Whose readings these are: {DECLARE}.")


def read_process(policy: PolicyKeys, given: object, account: Steps) -> Process:
    """Return the process that a policy names; one about a number in whole resolutions of the streams, as the account is."""
    made = _read(policy, given, account)
    return _in_resolutions(policy, made) if isinstance(made, AutoRegressive) else made


def _in_resolutions(policy: PolicyKeys, process: AutoRegressive) -> Process:
    """An AR(1) process whose numbers are multiples of the streams' resolution, the span rounded up and σ down: the wider the span
    beside σ, the more is left of a loss.

    Streams that round one number differently are refused: the process is about one number, in one unit, and what several streams
    tell about one time is proved to be in proportion to its move if they round it alike.
    """
    found: list[tuple[Fraction, str | None]] = []
    for i, stream in enumerate(policy.streams):
        unit, resolution = stream.statistic.unit, stream.statistic.resolution
        if resolution is None:
            continue
        with policy.about("streams", i, "statistic", "resolution"):
            found.append((parse_quantity(resolution, unit), unit))
            if found[-1] != found[0]:
                raise InvalidInput(
                    "an autoregressive process is about one number: all streams must have the same unit and resolution as the "
                    f"first, {float(found[0][0]):g} {found[0][1] or ''}".rstrip()
                )
    if not found or found[0][0] <= 0:
        return process  # no stream has a number, or none that could be: whoever reads the streams says so
    span, sigma = (Fraction(repr(x)) / found[0][0] for x in (process.span, process.sigma))
    made = AutoRegressive(
        process.rho, -ratio_up(-sigma.numerator, sigma.denominator), ratio_up(span.numerator, span.denominator)
    )
    return made if process.checked is None else made.with_check(process.checked)


def _read(policy: PolicyKeys, given: Any, account: Steps) -> Process:
    if isinstance(given, Process):
        return _check_declared(policy, given, None, account)
    if not isinstance(given, Mapping):
        raise policy.error((AT, f"must be a mapping with a name or a file, not {str(given)[:80]!r}"))
    if "file" in given:
        _refuse_others(policy, given, ("file", "whose"))
        return _check_declared(policy, _from_file(policy, given["file"]), given, account)
    name = _name(policy, given)
    if "fit" in given:
        _refuse_others(policy, given, ("name", "fit"))
        return _check_declared(policy, _fit(policy, name, given["fit"]), None, account)
    whose = {key: given[key] for key in ("whose",) if key in given}
    return _check_declared(
        policy, _make(policy, name, {k: v for k, v in given.items() if k != "whose"}), whose, account
    )


def _refuse_others(policy: PolicyKeys, given: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in given:
        if key not in known:
            raise policy.error(((*AT, str(key)), str(unknown("key beside " + known[-2], key, known))))


def _name(policy: PolicyKeys, given: Mapping[str, Any]) -> str:
    if given.get("name") is None:
        raise policy.error(((*AT, "name"), f"missing: one of {', '.join(sorted(PROCESSES))}; or `file`"))
    with policy.about(*AT, "name"):
        if given["name"] not in PROCESSES:
            raise unknown("process", given["name"], PROCESSES)
    return str(given["name"])


# Written out --------------------------------------------------------------------------------------------------------


def _make(policy: PolicyKeys, name: str, given: Mapping[str, Any]) -> Process:
    """Return the named process with these parameters, numbers as people write them; an error names the key."""
    known = inspect.signature(PROCESSES[name].__init__).parameters
    wanted = [p for p in known if p != "self"]
    for key in given:
        with policy.about(*AT, str(key)):
            if key not in (*wanted, "name", "checked"):
                raise unknown(f"parameter of {name}", key, [*wanted, "fit", "file"])
    for key in wanted:
        if key not in given and known[key].default is inspect.Parameter.empty:
            raise policy.error(((*AT, key), f"missing: {name} needs it"))
    try:
        return Process.from_dict({key: value if key == "name" else read_value(value) for key, value in given.items()})
    except HalflifeError as error:
        raise policy.error(((*AT, *find_culprit(error, given)), str(error))) from error


def read_value(value: object) -> Any:
    """Return text that reads as a number or truth value as that, inside lists and mappings too; other text stays.

    >>> read_value([["0.9", "1e-1"], {"good": "true", "verdict": "fine"}])
    [[0.9, 0.1], {'good': True, 'verdict': 'fine'}]
    """
    if isinstance(value, Mapping):
        return {key: read_value(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [read_value(part) for part in value]
    if not isinstance(value, str):
        return value
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    try:
        exact = parse_quantity(value, None)
    except InvalidInput:
        return value
    return int(exact) if exact.denominator == 1 else float(exact)


# From a file --------------------------------------------------------------------------------------------------------


def _from_file(policy: PolicyKeys, name: object) -> Process:
    with policy.about(*AT, "file"):
        if not isinstance(name, str):
            raise InvalidInput(f"must be the path of a process, not {name!r}")
        return read_process_file(policy.path(name), name)


def read_process_file(path: Path, name: str | None = None) -> Process:
    """Read a process that `halflife process fit` wrote; errors name the file as it was given."""
    try:
        content = read_regular(path, LARGEST_FILE + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise InvalidInput(f"{path} cannot be read: {why}: `halflife process fit` writes one") from None
    if len(content) > LARGEST_FILE:
        raise InvalidInput(f"{path} is larger than {LARGEST_FILE:,} bytes: `halflife process fit` writes smaller ones")
    return load_process(content, str(path) if name is None else name)


def load_process(content: bytes, name: str) -> Process:
    """Read a process from the JSON of `Process.to_dict`; errors name the file, and quote only so much of it."""
    try:
        data = json.loads(content, object_pairs_hook=_refuse_repeated_keys, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        said = str(error) if isinstance(error, ValueError) else "nested too deeply"
        raise InvalidInput(f"{name} is not JSON: {said[:LONGEST]}") from None
    try:
        return Process.from_dict(data)
    except InvalidInput as error:
        said = str(error)
        raise InvalidInput(f"{name}: {said if len(said) <= LONGEST else said[:LONGEST] + ' …'}") from None


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> JsonObject:
    """Return the pairs of a JSON object as a dict; refuse a key that occurs twice."""
    result: JsonObject = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"{key!r} stands twice: keep one")
        result[key] = value
    return result


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number: leave it out")


# Fitted -------------------------------------------------------------------------------------------------------------


def _fit(policy: PolicyKeys, name: str, data: object) -> Process:
    at = (*AT, "fit")
    if name not in KINDS:
        raise policy.error((at, f"{name} cannot be fitted, give its parameters: only {', '.join(sorted(KINDS))} can"))
    try:
        fit = Fit.model_validate(data)
    except ValidationError as error:
        found = name_problems(Fit, error)
        raise policy.error(*(((*at, *where), _declaration(where, text)) for where, text in found)) from None
    for key, kind in (("slots", "periodic-markov-chain"), ("lags", "empirical")):
        if getattr(fit, key) is not None and name != kind:
            raise policy.error(((*at, key), f"is about {kind}, not about {name}: leave it out"))
    unused = list(find_unused_in_source(fit))
    if unused:
        raise policy.error(*(((*at, *where), text) for where, text in unused))
    if [fit.states, fit.edges, fit.categories].count(None) != 2:
        raise policy.error(
            ((*at, "states"), "give either a number of states, or the edges between them, or categories of text")
        )
    with policy.about(*at):
        sample = read_sample(
            [policy.path(f) for f in fit.files], person=fit.person or policy.population.person, time=fit.time, value=fit.value,
            step=fit.step or policy.clock.step, format=fit.format, table=fit.table, zone=fit.zone, epoch=fit.epoch,
            time_format=fit.time_format, columns=fit.columns, delimiter=fit.delimiter,
            categories=fit.categories or False,
        )  # fmt: skip
        return fit_process(
            name, sample, fit.states or fit.edges, step=fit.step or policy.clock.step, whose=fit.whose,
            smoothing=fit.smoothing, slots=fit.slots, lags=fit.lags,
        )  # fmt: skip


def _declaration(where: Where, text: str) -> str:
    return f"{text}: {DECLARE}" if where == ("whose",) and "missing" not in text else text


def fit_process(
    name: str,
    sample: Sample,
    states: object,
    *,
    step: str,
    whose: str | None = None,
    smoothing: float | None = None,
    slots: int | None = None,
    lags: int | None = None,
) -> Process:
    """Return a process fitted on a sample, with the step width and, if given, whose readings they were.

    name  markov-chain, process-family, periodic-markov-chain or empirical;  states  how many, or the edges between them; of a
    sample of categories these are the states
    """
    if name not in KINDS:
        raise unknown("kind of process that can be fitted", name, KINDS)
    options: dict[str, Any] = {}
    if name == "empirical":
        if smoothing is not None:
            raise InvalidInput("an empirical process has no smoothing: leave it out")
        options["lags"] = lags
    elif smoothing is not None:
        options["smoothing"] = smoothing
    if name == "periodic-markov-chain":
        options["slots"] = sample.slots if slots is None else slots
        if options["slots"] is None:
            raise InvalidInput(f"a step of {step} does not divide a day: say with slots how many steps a cycle has")
    if sample.categories:
        states = [i + 0.5 for i in range(len(sample.categories) - 1)]
    if name == "process-family":
        sample = _leave_out(sample, states, options.get("smoothing", 0.0))
    left_out = sample.left_out
    try:
        made = KINDS[name].fit(list(sample.sequences), states, **options)
    except InvalidSequence as error:
        raise error.without_number() from None
    facts = made.to_dict()
    own = {"step": step, "whose": whose, "left_out": left_out, "categories": list(sample.categories)}
    return Process.from_dict({**facts, "fitted": {**facts["fitted"], **{key: x for key, x in own.items() if x}}})


def _leave_out(sample: Sample, states: object, smoothing: float) -> Sample:
    """A sample without the people of whom no chain can be fitted: their own readings do not say where each state leads."""
    refusals = {i: e for i, s in enumerate(sample.sequences) if (e := _refuse_chain(s, states, smoothing)) is not None}
    kept = [i for i in range(len(sample.people)) if i not in refusals]
    if not kept:
        raise InvalidInput(f"no chain can be fitted of any of {len(refusals):,} people; of one, as {refusals[0]}")
    return sample._replace(
        people=tuple(sample.people[i] for i in kept),
        sequences=tuple(sample.sequences[i] for i in kept),
        starts=tuple(sample.starts[i] for i in kept),
        left_out=sample.left_out + len(refusals),
    )


def _refuse_chain(sequence: Floats, states: object, smoothing: float) -> InvalidInput | None:
    try:
        MarkovChain.fit([sequence], states, smoothing)
    except InvalidSequence as error:
        return error.without_number()
    except InvalidInput as error:
        return error
    return None


# Whose readings, and how wide a step --------------------------------------------------------------------------------


def _check_declared(policy: PolicyKeys, process: Process, given: Mapping[str, Any] | None, account: Steps) -> Process:
    """Return the process; refuse a fitted one without `whose` readings it was fitted on, or with steps unlike the clock's."""
    fitted = getattr(process, "fitted", None)
    whose = (given or {}).get("whose")
    if whose is not None:
        with policy.about(*AT, "whose"):
            if whose not in WHOSE:
                raise InvalidInput(f"{unknown('value', whose, WHOSE)}: {DECLARE}")
    if fitted is None and whose is not None:
        raise policy.error(
            ((*AT, "whose"), "the process was written out, not fitted on anybody's readings: leave this out")
        )
    if fitted is None:
        return process
    with policy.about(*AT):
        width = fitted.get("step")
        if width is not None and not account.same_width(Steps.of(width, "1970-01-01", account.zone)):
            raise InvalidInput(
                f"the process was fitted on steps of {width}, and the clock's are {policy.clock.step}: fit it on those"
            )
    said = whose or fitted.get("whose")
    if said not in WHOSE:
        raise policy.error(((*AT, "whose"), f"missing: whose readings the process was fitted on: {DECLARE}"))
    facts = process.to_dict()
    return Process.from_dict({**facts, "fitted": {**fitted, "whose": said}})


def process_schema() -> JsonObject:
    """Return the JSON Schema of a process: read from a file, fitted, or a name with what it takes."""
    return {
        "description": "of age-dependent: how one person's data moves: a name with parameters, a name with `fit`, or a file",
        "properties": {
            "name": {"enum": sorted(PROCESSES)},
            "file": {"type": "string", "description": "JSON, as `halflife process fit` writes it."},
            "whose": {"enum": list(WHOSE), "description": "Whose readings a process in a file was fitted on."},
            "fit": Fit.model_json_schema(),
        },
    }
