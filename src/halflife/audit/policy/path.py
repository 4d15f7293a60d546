"""The real publisher on exact totals that an audit made, run again and again, with all that it leaves behind thrown away."""

from __future__ import annotations

import atexit
import json
import logging
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halflife.audit.verdict import Finding
from halflife.engines.duckdb.engine import DuckEngine, open_arrow
from halflife.ledger import open_ledger
from halflife.numerics.arrays import Floats
from halflife.numerics.forms import JsonObject
from halflife.policy import Channel, Policy, channels
from halflife.processes import Process
from halflife.publisher.nodes import add_up_nodes
from halflife.publisher.secrets_at_rest import PassingKeys
from halflife.publisher.session import Session
from halflife.release import Release

Totals = dict[str, NDArray[np.int64]]
Row = tuple[str | None, int, Any, str | None]
"""A reading: whose, when in µs, how much, of which group."""
Stretch = tuple[Mapping[str, int], Totals]
"""Exact totals of consecutive steps, and which step they begin with, by stream; with step 1 if it is not there."""
FAR = 9e9
KEYS = PassingKeys()
"""The noise that runs keep is sealed as that of any ledger, with a key that is gone with them."""


@dataclass(frozen=True, eq=False)
class PublishingPath:
    """The real publisher on exact totals of one of two neighbours, with a new ledger for each run; values as they are written.

    first  which step the totals begin with, by stream; 1 if it is not there
    """

    policy: JsonObject
    folder: str
    totals: tuple[Totals, Totals]
    first: Mapping[str, int] = field(default_factory=dict)

    def __call__(self, which: int, runs: int) -> Floats:
        """Return the values that so many runs publish."""
        with tempfile.TemporaryDirectory(prefix="halflife-audit-", dir=fast_folder()) as place:
            policy = quiet_policy(self.policy, self.folder, Path(place))
            return np.array([self.run(policy, self.totals[which], Path(place)) for _ in range(runs)])

    def run(self, policy: Policy, totals: Totals, place: Path) -> Floats:
        """Publish once, and forget it."""
        return run_once(policy, [(self.first, totals)], place)


def run_once(policy: Policy, stretches: Sequence[Stretch], place: Path) -> Floats:
    """Publish stretches of steps once with a new ledger, forget it, and return the values, stream by stream."""
    publish_totals(policy, stretches)
    numbers = [_read_values(policy, c) for c in channels(policy)]
    for file in place.iterdir():
        file.unlink()
    return np.concatenate(numbers)


def publish_totals(policy: Policy, stretches: Sequence[Stretch]) -> None:
    """Publish steps of every stream with these exact totals, as `publish` does after reading; running totals, from step 1 on."""
    session = Session(policy, clock=lambda: FAR, keys=KEYS)
    try:
        with session.hold(10.0):
            for first, totals in stretches:
                begins = [(c, first.get(c.name, 1)) for c in session.channels]
                dues = [session.due(c, k, k + len(totals[c.name]) - 1) for c, k in begins]
                session.publish([(d, add_up_nodes(d.channel, totals[d.channel.name])) for d in dues])
    finally:
        session.close()


def _read_values(policy: Policy, channel: Channel) -> Floats:
    """The values that were written; for quantiles the noisy counts that they follow from, as they only hide something of them."""
    if channel.quantiles is not None:
        with open_ledger(policy.ledger_url, read_only=True) as book:
            return np.concatenate([entry.noisy for entry in book.entries(channel.name)])
    with policy.path(channel.part.output).open(encoding="utf-8") as lines:
        return np.array([json.loads(line)["value"] for line in lines])


def run_and_list(policy: Policy, totals: Totals) -> list[Release]:
    """Publish steps once with a new ledger, forget it, and return what was charged, in the order of the account's steps."""
    with tempfile.TemporaryDirectory(prefix="halflife-audit-", dir=fast_folder()) as place:
        quiet = quiet_policy(as_data(policy), str(policy.path(".")), Path(place))
        publish_totals(quiet, [({}, totals)])
        with open_ledger(quiet.ledger_url, read_only=True) as book:
            return sorted((r for e in book.entries() for r in e.releases), key=lambda r: r.step)


def fast_folder() -> str | None:
    """Return a folder in memory, where there is one: a run's ledger is thrown away at once."""
    return "/dev/shm" if Path("/dev/shm").is_dir() and shutil.disk_usage("/dev/shm").free > 2**28 else None


def quiet_policy(data: Mapping[str, object], folder: str, place: Path, *, post: bool = False) -> Policy:
    """Return the policy with ledger and outputs elsewhere, steps as planned, and post-processing, which only hides, if asked."""
    changed = json.loads(json.dumps(data))
    changed |= {"ledger": str(place / "audit.ledger"), "noise_key": None, "mark": None}
    changed["clock"]["late"] = "as-planned"
    for i, stream in enumerate(changed["streams"]):
        stream.update({"output": str(place / f"{i}.jsonl")}, **({} if post else {"post": []}))
    return Policy.from_dict(changed, folder)


def as_data(policy: Policy) -> JsonObject:
    """Return a policy as plain data; a process that was fitted as it is now, so that it is not fitted again.

    One that is written in the policy stays as it is: the account has that of a number in resolutions, which is another.
    """
    data = policy.model_dump(mode="json")
    data["population"]["size"] = policy.members.since[0][1]  # losses do not depend on it: noise is added in whole units
    promise, made = data["promise"], vars(policy.notion).items()
    promise |= {key: value.to_dict() for key, value in made if isinstance(value, Process) and "fit" in promise[key]}
    return data


def promised_epsilon(policy: Policy) -> float:
    """Return the ε that a policy promises: what its account holds the risk under."""
    notion = policy.notion
    return float(notion.exposure(notion.start(), 1).limit)


def make_loud(policy: Policy) -> Policy:
    """Return the policy with so large an ε that one step of its first stream loses about 1: then a black box sees something.

    The policy itself if its promise has no single ε.
    """
    data = as_data(policy)
    if "epsilon" not in data["promise"]:
        return policy
    channel = channels(policy)[0]
    first = channel.losses(1, 1)[0] if channel.tree is None else channel.plan_releases(1)[0].loss
    data["promise"]["epsilon"] = max(1.0, promised_epsilon(policy) / first)
    return Policy.from_dict(data, str(policy.path(".")))


def totals_of(channel: Channel, rows: Sequence[Row], first: int, last: int) -> NDArray[np.int64]:
    """Return the exact totals (steps × cells) of these readings, by the real engine."""
    return totals_of_stretches(channel, rows, [(first, last)])[0]


def totals_of_stretches(
    channel: Channel, rows: Sequence[Row], stretches: Sequence[tuple[int, int]]
) -> list[NDArray[np.int64]]:
    """Return the exact totals of each stretch, from its first step to its last; times are moments here, however written."""
    engine = _engine()
    engine.open_arrow(_table(channel, rows))
    questions = [replace(channel.question(first, last), time_format=None, wide=False) for first, last in stretches]
    answers = [engine.aggregate(question) for question in questions]
    return [channel.totals(a.sums, first) for a, (first, _) in zip(answers, stretches, strict=True)]


@cache
def _engine() -> DuckEngine:
    """The engine of files and Arrow tables, opened once in a process: to open it takes longer than what it is asked here."""
    import pyarrow as pa

    engine = open_arrow(pa.table({"nobody": pa.array([], pa.string())}))
    atexit.register(engine.close)
    return engine


def _table(channel: Channel, rows: Sequence[Row]) -> Any:
    """Readings as an Arrow table with the policy's columns."""
    import pyarrow as pa

    source = channel.part.source
    assert source is not None
    person, us, values, group = zip(*rows, strict=True) if rows else ((), (), (), ())
    scale = {"s": 10**6, "ms": 10**3, "us": 1}
    times = (
        pa.array(us, pa.timestamp("us", tz="UTC")) if source.epoch is None else [t // scale[source.epoch] for t in us]
    )
    columns: dict[str, Any] = {source.person or channel.person: pa.array(person, pa.string()), source.time: times}
    if source.value is not None or source.wide:
        columns[source.value or "value"] = pa.array(values, pa.float64())
    if source.group is not None:
        columns[source.group] = pa.array(group, pa.string())
    return pa.table(columns)


def compare_traces(policy: Policy, totals: Mapping[str, Totals], first: Mapping[str, int]) -> Finding:
    """Publish each variant once, and compare all that can be seen but the values: it may not depend on the readings."""
    start = time.perf_counter()
    variants = list(totals)
    seen = {variant: _traces(policy, (first, totals[variant])) for variant in variants}
    differ = [v for v in variants if seen[v] != seen[variants[0]]]
    told = "losses, noise scales" if all(c.held is None for c in channels(policy)) else "planned losses and scales"
    detail = f"rows, times, {told} and log lines are the same whatever the readings are"
    if differ:
        detail = f"what is published besides the values differs between {variants[0]} and {differ[0]} readings"
    spent = time.perf_counter() - start
    return Finding("refusal, timing and form", "silence", 0.0, float(len(differ)), bool(differ), detail, spent)


def _traces(policy: Policy, stretch: Stretch) -> list[Any]:
    """Everything that a run leaves, without values, hashes and the clock's time."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(f"{record.getMessage()} {getattr(record, 'fields', '')}")  # type: ignore[method-assign]
    logger = logging.getLogger("halflife")
    logger.addHandler(handler)
    try:
        with tempfile.TemporaryDirectory(prefix="halflife-audit-", dir=fast_folder()) as place:
            quiet = quiet_policy(as_data(policy), str(policy.path(".")), Path(place))
            publish_totals(quiet, [stretch])
            rows = [_read_rows(quiet, c) for c in channels(quiet)]
            with open_ledger(quiet.ledger_url, read_only=True) as book:
                free = {
                    c.name for c in channels(quiet) if c.held is not None
                }  # what they spend follows from noisy values
                facts = [
                    (
                        e.stream,
                        e.step,
                        e.release_step,
                        len(e.noisy),
                        *(() if e.stream in free else (e.releases, e.spread)),
                    )
                    for e in book.entries()
                ]
    finally:
        logger.removeHandler(handler)
    return [rows, facts, lines]


def _read_rows(policy: Policy, channel: Channel) -> list[JsonObject]:
    """The rows of an output without what follows from noisy values: of quantiles, and of what is repeated, error bands too."""
    hidden = {"value"} if channel.quantiles is None and channel.held is None else {"value", "error_band"}
    with policy.path(channel.part.output).open(encoding="utf-8") as lines:
        return [{key: x for key, x in json.loads(line).items() if key not in hidden} for line in lines]
