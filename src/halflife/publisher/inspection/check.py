"""`check`: a private look at the readings beside the policy, before anything is spent.

It reads what `publish` would read and counts; it draws nothing, charges nothing, and writes to no ledger and no output. It needs
no ledger; of one that is there it takes the family of noise that it was begun with. What it says depends on the data, so it is
for the operator alone, and nothing that is published may depend on it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from halflife.engines import Engine, open_source
from halflife.engines.columns import MOST_SHOWN, is_header
from halflife.engines.duckdb.files import find_files
from halflife.engines.inspection import Inspection
from halflife.errors import InvalidInput, unknown
from halflife.ledger import ledger_scratch
from halflife.numerics.progress import Progress
from halflife.plans.base import STD_OF_UNIT_SCALE
from halflife.policy import Channel, GivenPolicy, Policy, channels
from halflife.policy.model import Source
from halflife.policy.ranges import total_range
from halflife.publisher.backfill import open_source_of
from halflife.publisher.holding import follow_own_ledger
from halflife.publisher.inspection.causes import Case, find_problems, noise_beside_range, promise_problems
from halflife.publisher.inspection.report import CheckReport, Noise, StreamReport, round_digits, say_duration
from halflife.publisher.inspection.times import common_shapes, guess_epoch

T = TypeVar("T")

EXAMPLES = 3
PARTS = 100
PATIENCE = 0.2
"""Seconds between two looks at how far the engine is."""
LATE = 2 * 86_400 * 1_000_000
"""A file that was changed longer than this after its newest reading, in µs, was copied: that says nothing of lateness."""


def check(
    policy: GivenPolicy,
    sources: Mapping[str, object] | None = None,
    *,
    show: bool = False,
    progress: Progress = lambda what, done, total: None,
    clock: Callable[[], float] = time.time,
) -> CheckReport:
    """Look at the readings of every stream beside what the policy says of them, for the operator alone.

    policy    a Policy, the path of its file, or a dict
    sources   pandas, Polars or Arrow frames by stream, instead of the policy's files
    show      keep some cells that could not be read as they stand, which are somebody's; else only their shapes
    progress  is told what is being done, how many parts of it are done, and how many there are: PARTS a stream
    clock     the time in seconds since 1970: it decides which steps are due

    Policies, files and columns that cannot be read are refused, as `publish` refuses them. What the data look like never is: it
    is in the report's `problems`. No program may publish or not by them: whether something is published would tell of the data.

    >>> check({"population": {"id": "town", "size": 300, "person": "home"}})
    Traceback (most recent call last):
    ...
    halflife.parsing.documents.PolicyError: policy: promise: missing: What is promised: a notion with its parameters, ...
    """
    loaded, frames = follow_own_ledger(Policy.of(policy)), dict(sources or {})
    streams = channels(loaded)
    for name in frames:
        if name not in [c.name for c in streams]:
            raise unknown("stream", name, [c.name for c in streams])
    now, reports, reached = int(clock() * 1_000_000), [], 0
    for done, channel in enumerate(streams):

        def move(what: str, share: float, done: int = done, name: str = channel.name) -> None:
            nonlocal reached  # DuckDB guesses anew with every statement: what was reached stays
            reached = max(reached, min(int(PARTS * (done + share)), PARTS * (done + 1)))
            progress(f"{name}: {what}", reached, PARTS * len(streams))

        move("opening", 0.0)
        with loaded.about("streams", channel.index, "source"):
            reports.append(_check_stream(loaded, channel, frames.get(channel.name), now, show, move))
    progress("looked", PARTS * len(streams), PARTS * len(streams))
    return CheckReport(loaded._document.name, tuple(reports), tuple(promise_problems(loaded)))


def _check_stream(
    policy: Policy, channel: Channel, frame: object, now: int, show: bool, move: Callable[[str, float], None]
) -> StreamReport:
    """Look at one stream; a stream that a program pushes has its noise alone."""
    looked = channel.newest(now)
    report = StreamReport(channel, policy.members.largest, looked, _noise(policy, channel, looked, None))
    if channel.part.source is None:
        if frame is not None:
            raise InvalidInput("the policy does not say which columns hold person, time and value: add a `source`")
        return replace(report, problems=tuple(noise_beside_range(report)))
    files = () if frame is not None else _list_files(policy, channel.part.source)
    engine = _open(policy, channel, frame)
    try:
        report = replace(report, files=tuple(map(str, files)), **_shown_columns(channel, engine))
        return _watch(engine, move, lambda: _inspect(policy, report, engine, files, show))
    finally:
        engine.close()


def _list_files(policy: Policy, source: Source) -> tuple[Path, ...]:
    """The files of a source on this machine; none of one that is on a server or a cluster."""
    elsewhere = source.database is not None or source.engine is not None
    return () if elsewhere else tuple(find_files([policy.path(f) for f in source.files]))


def _watch(engine: Engine, move: Callable[[str, float], None], look: Callable[[], T]) -> T:
    """Return what a look gives, taken in a thread of its own: meanwhile this one says how far the engine is, or breaks it off."""
    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(look)
        try:
            while not wait([looking], timeout=PATIENCE).done:
                move(*engine.progress())
        except BaseException:
            while not wait([looking], timeout=PATIENCE).done:  # said until it is heard
                engine.interrupt()
            raise
        return looking.result()


def _open(policy: Policy, channel: Channel, frame: object) -> Engine:
    """Open a stream's source. What is parsed goes beside the ledger, as when publishing, if there is such a folder."""
    beside = ledger_scratch(policy.ledger_url)
    scratch = beside if os.access(beside, os.W_OK | os.X_OK) else None
    if frame is not None:
        return open_source(frame, scratch=scratch)
    return open_source_of(policy, channel, scratch)


def _shown_columns(channel: Channel, engine: Engine) -> dict[str, Any]:
    """The columns with their types. Names that may be somebody's, or somebody's reading, are not shown: those of a wide table,
    and of a file without a header."""
    source, columns = channel.part.source, engine.columns()
    assert source is not None
    asked = [source.person or channel.person, source.time, source.value, source.group]
    shown = dict(columns)
    if not is_header(columns) or len(columns) > MOST_SHOWN or source.wide:
        shown = {name: kind for name, kind in columns.items() if name in asked}
    words = {name: "text" if kind == "VARCHAR" else kind for name, kind in shown.items()}
    return {"columns": words, "hidden": len(columns) - len(shown)}


def _inspect(policy: Policy, report: StreamReport, engine: Engine, files: tuple[Path, ...], show: bool) -> StreamReport:
    """Fill in what the readings look like, and what looks wrong with them."""
    channel, source = report.channel, report.channel.part.source
    assert source is not None
    question = channel.question(1, max(1, report.looked))
    number = engine.typical_number(question.time) if source.epoch is None else None
    if number is not None:
        guess = guess_epoch(number)
        write = "" if guess.write is None else f": write `{guess.write}`"
        raise InvalidInput(
            f"the column {question.time!r} holds numbers, and no `epoch` says what they count; {guess.cause}{write}"
        )
    found = engine.inspect(question)
    cells = {
        "time": engine.bad_cells(question, "time") if found.tallies["bad_time"] else [],
        "value": engine.bad_cells(question, "value") if found.tallies["bad_value"] else [],
    }
    report = replace(
        report,
        found=found,
        noise=_noise(policy, channel, report.looked, found),
        shapes={which: common_shapes(some) for which, some in cells.items() if some},
        examples={w: tuple(c for c in some if c)[:EXAMPLES] for w, some in cells.items() if some} if show else {},
        arrival=_arrival(found, files),
    )
    case = Case(policy, report, found, cells["time"], cells["value"])
    return replace(report, problems=find_problems(case))


def _noise(policy: Policy, channel: Channel, looked: int, found: Inspection | None) -> Noise:
    """A stream's noise beside the public range of its numbers, and beside what the data come to in a step that has any.

    Of quantiles it is that of a median's rank, beside all who are counted; where a mechanism decides, the least of an output.
    """
    plan, newest = channel.plan, 1 + (max(1, looked) - 1) * channel.plan.request.every
    tree = channel.measure.tree
    each, gain = (1, 1.0) if tree is None else (tree.bins, tree.rank_error)
    sized = channel.sized_at(max(1, looked))
    factors = np.array([float(f) for f in channel.factor_of_bins(max(1, looked))[::each]])
    bounds = np.array(total_range(channel, sized.size)[::each], dtype=float) * factors[:, None]
    widest = int(np.argmax(bounds[:, 1] - bounds[:, 0]))
    worst = float(factors.max()) * gain
    last = newest if plan.horizon is None else min(newest, plan.horizon)
    first = float(max(channel.sized_at(1).factors)) * gain
    begun, std, many = plan.std(1), plan.std(last), 1
    if (nodes := channel.tree) is not None:  # beside the running total of all steps that were looked at
        begun, std, many = nodes.std(1), nodes.std(min(max(1, looked), channel.last or looked)), max(1, looked)
        bounds = bounds * many
    elif (held := channel.held) is not None:
        begun = std = STD_OF_UNIT_SCALE[held.noise] * held.sensitivity / held.most_loss
    noise = Noise(first * begun, worst * std, *bounds[widest].tolist())
    if found is None or not found.steps:
        return noise
    offsets = np.array(sized.offsets, dtype=float)[:, None]
    own = (found.totals / found.steps + offsets).reshape(len(factors), -1).sum(axis=1) * factors * many
    below = float(np.mean(np.abs(own) < factors * gain * std))
    return replace(noise, mean=round_digits(float(np.mean(np.abs(own)))), drowned=below)


def _arrival(found: Inspection, files: tuple[Path, ...]) -> str:
    """How late readings arrive, as far as files tell: when one was changed last, beside its newest reading."""
    unknown_ = "not known: a row has the time of its reading, not of its arrival; `delay` must cover what arrives late"
    if not files or found.latest is None:
        return unknown_
    changed = max(path.stat().st_mtime_ns for path in files) // 1_000
    behind = changed - found.latest
    if not 0 <= behind <= LATE:
        return unknown_
    return (
        f"not known for each reading; the newest is {say_duration(behind)} older than the newest change of its files, which is "
        "how late it came if files are written as readings come; `delay` must cover what arrives late"
    )
