"""`compare`: errors of mechanisms, notions, plans and post-processors on one stream, with what each history costs.

Only simulation noise is drawn, from a seed: nothing here is a release. Choosing a mechanism by looking at one's own data is a
query on it, and not free: compare on public or old data.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from halflife.errors import InvalidInput
from halflife.lab.compare.contestants import Common, Contestant, list_contestants
from halflife.lab.compare.errors import join_scores, summarise
from halflife.lab.compare.expectations import expected_error
from halflife.lab.compare.files import LARGEST
from halflife.lab.compare.lenses import list_lenses, name_lens
from halflife.lab.compare.posts import check_posts
from halflife.lab.compare.runs import Block, Clock, Job, group_contestants, run_all
from halflife.lab.compare.streams import Stream, find_stream
from halflife.lab.compare.tables import format_table, list_notes
from halflife.lab.views.text import describe_promise
from halflife.notions import Classical, Notion, WEvent
from halflife.numerics.arrays import Floats
from halflife.numerics.forms import JsonObject
from halflife.numerics.parameters import real, whole
from halflife.numerics.progress import Progress
from halflife.plans import Plan

MOST_RUNS = 1_000_000
"""More repetitions are not listed: a time limit would be over before the first of them."""
NOTHING = {
    "mae": None, "mae_se": None, "mre": None, "mre1": None, "rmse": None, "rmse_over_max": None, "mae_median": None,
    "mae_q10": None, "mae_q90": None, "worst_step": None, "by_time_of_day": None, "coverage": None,
}  # fmt: skip
"""The errors of a row that the time limit left without a repetition."""


@dataclass(frozen=True, eq=False, repr=False)
class Compared:
    """What a comparison found.

    rows        one a contestant, in the order asked for, as plain data; see docs/compare.md for each key
    settings    ε, w, Δ, seed, how many repetitions were asked for, and how outputs were judged
    stream      what they ran on;  outputs  of the first repetition, a row each, None where there is none
    """

    rows: list[JsonObject]
    settings: JsonObject
    stream: Stream
    outputs: list[Floats | None] = field(default_factory=list)

    @property
    def truth(self) -> Floats:
        """What outputs are judged against: the stream, or its running totals."""
        return np.cumsum(self.stream.values) if self.settings["totals"] else self.stream.values

    @property
    def notes(self) -> list[str]:
        """What must be known to read the rows."""
        return list_notes(self.rows, self.settings, self.stream)

    def to_json(self) -> str:
        """Return everything but outputs as one JSON object; infinite risks are the text "inf"."""
        stream = self.stream
        about = {
            "name": stream.name, "title": stream.title, "steps": len(stream.values), "real": stream.real,
            "unit": stream.unit, "about": stream.about,
        }  # fmt: skip
        whole_of = {"rows": self.rows, "settings": self.settings, "series": about, "notes": self.notes}
        return json.dumps(_finite(whole_of), indent=2, ensure_ascii=False, allow_nan=False)

    def __str__(self) -> str:
        return format_table(self.rows, self.settings, self.stream)

    def __repr__(self) -> str:
        return f"<Compared: {len(self.rows)} rows on {self.stream.title}>"


def _finite(value: Any) -> Any:
    """Plain data in which an infinite number is the text "inf", as in releases."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return "inf" if isinstance(value, float) and value == math.inf else value


def compare(
    mechanisms: Iterable[object] | None = None,
    series: Stream | str | Path | Sequence[float] | Floats = "sine",
    *,
    notions: Iterable[str | Notion | Plan] = (),
    post: Sequence[str] = (),
    w: int = 20,
    epsilon: float = 1.0,
    sensitivity: float | None = None,
    repetitions: int = 100,
    seed: int = 1,
    jobs: int = 1,
    time_limit: float | None = None,
    totals: bool = False,
    truncate: bool = False,
    delta: float | None = None,
    column: str | None = None,
    time: str | None = None,
    data: Path | None = None,
    progress: Progress = lambda what, done, total: None,
) -> Compared:
    """Return errors, closed forms, coverage and costs of contestants on one stream, a row each, in the order asked for.

    mechanisms   names (`"bd"`, `"uniform+kalman"`), classes of mechanisms, notions or plans; None: all that answer values
    series       a file, a name (london, taxis, flu, sine, …), or values;  column, time  of a file, the columns' names
    notions      more contestants: planned noise of notions, as objects or texts (`"exponential,half_life=48"`)
    post         chains of post-processors; each adds a row to every contestant
    w, epsilon   of the w-event mechanisms, and of notions that say nothing else;  sensitivity  Δ; None: the stream's own, else 1
    repetitions  how often each runs;  seed  of all noise;  jobs  processes (a row does not depend on them)
    time_limit   seconds after which it stops: a row says on how many repetitions it rests
    totals       judge running totals, published or added up;  truncate  noisy values become max(0, round(·))
    delta        δ of running totals with Gaussian noise (toeplitz, toeplitz-unbounded)
    data         folder of the open streams

    >>> found = compare(["uniform", "sample"], [10.0] * 50, w=5, repetitions=200)
    >>> [(row["mechanism"], round(row["mae"]), row["expected_mae"]) for row in found.rows]
    [('uniform', 5, 5.0), ('sample', 1, 1.0)]
    """
    stream = find_stream(series, column=column, time=time, data=data, seed=whole("seed", seed, least=0))
    moved = stream.sensitivity if sensitivity is None else real("sensitivity", sensitivity, positive=True)
    approximate = None if delta is None else real("delta", delta, positive=True, limit=1.0)
    runs, processes = _count_runs(repetitions), whole("jobs", jobs, least=1)
    limit = None if time_limit is None else real("time_limit", time_limit, positive=True)
    promised, window = real("epsilon", epsilon, positive=True), whole("w", w, least=1)
    if not window * (moved / promised) <= LARGEST:
        raise InvalidInput(
            f"noise of scale {window} × {moved:g} / {promised:g} has errors beyond doubles: "
            "choose another unit, or a larger epsilon",
            about="epsilon",
        )
    common = Common(promised, window, moved, len(stream.values), totals, approximate, truncate)
    contestants = list_contestants(mechanisms, notions, post, common)
    for one in contestants:
        check_posts(one.posts, one.label, one.producer.schedule, stream.steps_per_day)
        if one.posts and one.producer.cumulative:
            raise InvalidInput(
                f"{one.label}: running totals are compared as they are published, without post-processing"
            )
    settings: JsonObject = {
        "epsilon": promised, "w": window, "sensitivity": moved, "delta": approximate, "repetitions": runs, "seed": seed,
        "totals": totals, "truncate": truncate, "time_limit": limit,
    }  # fmt: skip
    return run_comparison(contestants, stream, common, settings, processes, progress)


def _count_runs(repetitions: int) -> int:
    """Return the number of repetitions, if it is one that can be listed."""
    if whole("repetitions", repetitions, least=1) > MOST_RUNS:
        raise InvalidInput(f"repetitions must be at most {MOST_RUNS:,}, not {repetitions:,}", about="repetitions")
    return repetitions


def run_comparison(
    contestants: Sequence[Contestant],
    stream: Stream,
    common: Common,
    settings: JsonObject,
    jobs: int,
    progress: Progress,
    clock: Clock = time.monotonic,
) -> Compared:
    """Run contestants and put their rows together."""
    groups = group_contestants(contestants)
    lenses = list_lenses(common.w, common.epsilon, [producer.notion for producer, _ in groups])
    limit = settings["time_limit"]
    end = math.inf if limit is None else clock() + limit
    job = Job(groups, stream, settings["seed"], lenses, common.totals, settings["truncate"], end)
    labels = [describe_producer(one, contestants) for one, _ in groups]
    blocks = run_all(job, settings["repetitions"], jobs, progress, labels, clock)
    if not any(blocks.values()):
        raise InvalidInput(
            f"nothing was done within {limit:g} s: give more time (--time-limit), fewer mechanisms or a shorter series"
        )
    rows, outputs = [], []
    for one in contestants:
        number = next(i for i, (producer, _) in enumerate(groups) if producer is one.producer)
        row, first = make_row(one, groups[number][1].index(one.posts), blocks[number], job, common)
        rows.append(row)
        outputs.append(first)
    return Compared(rows, settings, stream, outputs)


def describe_producer(producer: object, contestants: Sequence[Contestant]) -> str:
    """Return the label of the first row of a producer."""
    return next(one.label for one in contestants if one.producer is producer)


def make_row(
    one: Contestant, chain: int, blocks: Sequence[Block], job: Job, common: Common
) -> tuple[JsonObject, Floats | None]:
    """Return the row of a contestant, and its first outputs; errors are None where no repetition was done."""
    producer, stream = one.producer, job.stream
    found = join_scores([block.scores[chain] for block in blocks]) if blocks else None
    truth = np.cumsum(stream.values) if job.totals else stream.values
    errors = NOTHING if found is None else summarise(found, truth, stream)
    plain = not (one.posts or job.counts or job.totals)
    expected = expected_error(producer.schedule, truth) if plain and producer.schedule is not None else None
    lenses = join_risks(blocks, producer.adaptive)
    risks = {name: found["risk"] for name, found in lenses.items()}
    row = {
        "mechanism": one.label,
        "promise": describe_promise(producer.notion.reference()),
        "adaptive": producer.adaptive,
        "repetitions": 0 if found is None else len(found.mae),
        **errors,
        "expected_mae": expected,
        "epsilon_own": risks.get(name_lens(producer.notion)),
        "epsilon_classical": risks.get(name_lens(Classical(common.epsilon))),
        "epsilon_w_event": risks.get(name_lens(WEvent(common.epsilon, common.w))),
        "lenses": lenses,
    }
    return row, blocks[0].first[chain] if blocks and blocks[0].first is not None else None


def join_risks(blocks: Sequence[Block], adaptive: bool) -> JsonObject:
    """Return the largest risk by lens, and how many repetitions it is the largest of: all, where all lose the same."""
    found: dict[str, JsonObject] = {}
    every = sum(len(block.scores[0].mae) for block in blocks)
    for block in blocks:
        for name, (risk, runs) in block.risks.items():
            before = found.get(name, {"risk": 0.0, "repetitions": 0})
            seen = before["repetitions"] + runs if adaptive else every
            found[name] = {"risk": max(before["risk"], risk), "repetitions": seen}
    return found
