"""Running contestants on a stream: repetitions as lanes, in blocks that processes share, seeded, and within a time limit.

Repetition number l draws from a source of its own (`LaneNoise`), the same for every contestant, so that a row depends on the seed
and on how many repetitions it has, and on nothing else: neither on other rows, nor on how many processes there are.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.synchronize import Event

import numpy as np

from halflife.accountant import Accountant
from halflife.errors import InvalidInput
from halflife.lab.compare.contestants import Contestant, FromMechanism, FromPlan, FromTotals, Producer
from halflife.lab.compare.errors import Scores, score
from halflife.lab.compare.lenses import largest_risk, largest_risks, name_lens, reads_arrays
from halflife.lab.compare.posts import Post, is_fitted, post_process
from halflife.lab.compare.streams import Stream
from halflife.mechanisms import LaneDraw, LaneNoise, ScheduleDraw, SimulatedDraw
from halflife.notions import Notion
from halflife.numerics.arrays import Floats
from halflife.numerics.progress import Progress
from halflife.release import Release

LANES, LANES_OF_FITS = 25, 2
"""Repetitions that run side by side; fewer where a filter is fitted for each of them, which takes seconds."""
MOST_NUMBERS = 4_000_000
"""So many outputs are held at once, at the most, whatever the stream's length."""
LOOKED_AT = 64
"""After so many steps the time is looked at."""

Clock = Callable[[], float]


class OutOfTime(Exception):
    """The time limit is reached: a block that is not done is dropped."""


@dataclass(frozen=True, eq=False)
class Job:
    """What every process is told: all contestants by producer, the stream, and how outputs are judged.

    groups    each producer with the chains of post-processors that its outputs go through
    lenses    notions by name;  end  when to stop, by the clock
    """

    groups: tuple[tuple[Producer, tuple[tuple[Post, ...], ...]], ...]
    stream: Stream
    seed: int
    lenses: dict[str, Notion]
    totals: bool = False
    counts: bool = False
    end: float = math.inf


@dataclass(frozen=True, eq=False)
class Block:
    """What some repetitions of a producer came to: scores of each chain, the largest risk by lens, and first outputs.

    risks    by lens: how much, over how many repetitions
    first    what each chain made of repetition 0, if it is among them
    """

    scores: tuple[Scores, ...]
    risks: dict[str, tuple[float, int]]
    first: tuple[Floats, ...] | None


@dataclass(frozen=True)
class Task:
    """Some repetitions of one group."""

    group: int
    first: int
    lanes: int


def group_contestants(contestants: Sequence[Contestant]) -> tuple[tuple[Producer, tuple[tuple[Post, ...], ...]], ...]:
    """Return each producer once, with the chains of all rows that begin with it: they share its outputs."""
    groups: list[tuple[Producer, list[tuple[Post, ...]]]] = []
    for one in contestants:
        known = next((chains for producer, chains in groups if producer is one.producer), None)
        if known is None:
            groups.append((one.producer, [one.posts]))
        elif one.posts not in known:
            known.append(one.posts)
    return tuple((producer, tuple(chains)) for producer, chains in groups)


def list_tasks(job: Job, repetitions: int) -> list[Task]:
    """Return blocks of repetitions, the first of every group before the second of any."""
    room = max(1, MOST_NUMBERS // len(job.stream.values))
    found = []
    for number, (_, chains) in enumerate(job.groups):
        most = min(LANES_OF_FITS if any(is_fitted(p) for chain in chains for p in chain) else LANES, room)
        starts = range(0, repetitions, most)
        found += [(first, Task(number, first, min(most, repetitions - first))) for first in starts]
    return [task for _, task in sorted(found, key=lambda pair: (pair[0], pair[1].group))]


# One block ----------------------------------------------------------------------------------------------------------


def run_block(job: Job, task: Task, clock: Clock = time.monotonic) -> Block | None:
    """Return what some repetitions of a group came to, None if the time was over before."""

    def check() -> None:
        now = clock()
        if now > job.end or now == math.inf:
            raise OutOfTime

    try:
        check()
        return _run_block(job, task, check)
    except OutOfTime:
        return None


def _run_block(job: Job, task: Task, check: Callable[[], None]) -> Block:
    producer, chains = job.groups[task.group]
    if isinstance(producer, FromTotals):
        ran = _simulate_totals(producer, job, task, check)
    else:
        noise = LaneNoise(job.seed, task.first, task.lanes)
        ran = run_producer(producer, job.stream.values, noise, task.lanes, check)
    schedule, truth = producer.schedule, job.stream.values
    scores, first = [], []
    for chain in chains:
        posts = (*chain, Post("counts")) if job.counts else chain
        values, bands = post_process(posts, ran.outputs, schedule, job.stream, check)
        if job.totals:
            values, bands = values if producer.cumulative else np.cumsum(values, axis=1), None
        scores.append(score(values, np.cumsum(truth) if job.totals else truth, bands))
        first.append(values[0].copy())
    risks = dict(read_risks(ran, producer, job.lenses, with_history=task.first == 0, check=check))
    return Block(tuple(scores), risks, tuple(first) if task.first == 0 else None)


@dataclass(frozen=True, eq=False)
class Ran:
    """Outputs, repetitions × steps; the losses of each step, × repetitions or × 1 if all have the same; one history.

    losses   None where noise is not fresh Laplace noise about the present step: then the history alone tells
    """

    outputs: Floats
    losses: Floats | None
    history: list[Release] = field(default_factory=list)


def _simulate_totals(producer: FromTotals, job: Job, task: Task, check: Callable[[], None]) -> Ran:
    """Simulate factored totals, a repetition at a time: each has a seed of its own."""
    totals, rows = producer.make(), []
    for lane in range(task.first, task.first + task.lanes):
        check()
        seed = int(np.random.SeedSequence([job.seed, lane]).generate_state(1, np.uint64)[0])
        rows.append(totals.simulate(job.stream.values, seed)[:, 0])
    return Ran(np.array(rows), None)


def run_producer(
    producer: FromMechanism | FromPlan, truth: Floats, noise: LaneNoise, lanes: int, check: Callable[[], None]
) -> Ran:
    """Run so many repetitions of a contestant on a stream, through draws that charge an account."""
    if isinstance(producer, FromPlan):
        return _run_plan(producer, truth, noise, lanes)
    if producer.cumulative and not producer.adaptive:
        return _run_one_account(producer, truth, noise, lanes, check)
    return _run_lanes(producer, truth, noise, lanes, check)


def _run_lanes(producer: FromMechanism, truth: Floats, noise: LaneNoise, lanes: int, check: Callable[[], None]) -> Ran:
    """Step by step with an account a lane, in an array."""
    mechanism, draw = producer.make(), LaneDraw(producer.notion, noise, lanes)
    outputs, losses = np.empty((len(truth), lanes)), np.zeros((len(truth), lanes))
    history: list[Release] = []
    for k, value in enumerate(truth.tolist()):
        if k % LOOKED_AT == 0:
            check()
        outputs[k] = draw.run(mechanism, k + 1, np.full(lanes, value))
        for charged in draw.charged:
            losses[k] += charged
            if charged[0] > 0:
                history.append(Release(k + 1, float(charged[0]), sensitivity=producer.sensitivity))
    return Ran(np.ascontiguousarray(outputs.T), losses, history)


def _run_one_account(
    producer: FromMechanism, truth: Floats, noise: LaneNoise, lanes: int, check: Callable[[], None]
) -> Ran:
    """Step by step with one account for all lanes, settled at the end: losses do not depend on outputs."""
    mechanism, draw = producer.make(), ScheduleDraw(producer.notion, noise, lanes)
    outputs = np.empty((len(truth), lanes))
    for k, value in enumerate(truth.tolist()):
        if k % LOOKED_AT == 0:
            check()
        outputs[k] = draw.run(mechanism, k + 1, np.full(lanes, value))
    draw.settle()
    return Ran(np.ascontiguousarray(outputs.T), None, draw.releases)


def _run_plan(producer: FromPlan, truth: Floats, noise: LaneNoise, lanes: int) -> Ran:
    """All steps at once: the noise of each is known beforehand. A step without a release repeats the output before it."""
    draw = SimulatedDraw([Accountant(producer.notion)], noise, lanes)
    truths = [np.full(lanes, value) for value in truth.tolist()]
    found = draw.run_batch(producer.make(), range(1, len(truth) + 1), truths)
    outputs = np.empty((len(truth), lanes))
    for k, output in enumerate(found):
        outputs[k] = outputs[k - 1] if output is None else output
    history = list(draw.releases)
    plain = producer.notion.mechanism == "planned" and producer.plan.noise == "laplace"
    losses = None
    if plain:
        losses = np.zeros((len(truth), 1))
        for release in history:
            losses[release.step - 1] += release.loss
    return Ran(np.ascontiguousarray(outputs.T), losses, history)


def read_risks(
    ran: Ran,
    producer: Producer,
    lenses: dict[str, Notion],
    *,
    with_history: bool,
    check: Callable[[], None] = lambda: None,
) -> Iterator[tuple[str, tuple[float, int]]]:
    """Yield the largest risk under each lens, and over how many repetitions: of losses in arrays, or of the first history.

    A notion with a δ is a lens for its own contestant alone, whose losses are planned: other histories would take minutes of
    exact accounting, and losses that follow outputs may not be composed so.
    """
    every = len(ran.outputs)
    if isinstance(producer, FromTotals):  # one Gaussian measurement of everything: σ is that of its own ε and δ
        pure = [name for name, notion in lenses.items() if not getattr(notion, "delta", 0.0)]
        yield from ((name, (math.inf, every)) for name in pure)
        yield name_lens(producer.notion), (producer.notion.epsilon, every)
        return
    for name, notion in lenses.items():
        if ran.losses is not None and reads_arrays(notion):
            yield name, (float(largest_risks(ran.losses, notion).max()), every)
            continue
        approximate = bool(getattr(notion, "delta", 0.0))
        if with_history and (not approximate or notion == producer.notion):
            check()
            if isinstance(producer, FromPlan) and approximate:
                risk = float(producer.plan.risks(len(ran.outputs[0])).max())
            else:
                risk = largest_risk(ran.history, notion)
            yield name, (risk, 1 if producer.adaptive else every)


# All of them --------------------------------------------------------------------------------------------------------

_told: tuple[Job, Event] | None = None
"""What this process was told, if it is one of several: the job, and whether somebody asked for an end."""


def _begin(job: Job, stop: Event) -> None:
    """Begin in a process of its own. Ctrl-C is for the one that started it, which then asks for an end."""
    global _told  # noqa: PLW0603
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _told = job, stop


def _run_task(task: Task) -> Block | None:
    assert _told is not None
    job, stop = _told
    return run_block(job, task, lambda: math.inf if stop.is_set() else time.monotonic())


def run_all(
    job: Job,
    repetitions: int,
    jobs: int = 1,
    progress: Progress = lambda what, done, total: None,
    labels: Sequence[str] = (),
    clock: Clock = time.monotonic,
) -> dict[int, list[Block]]:
    """Return the blocks of each group, in order and without a gap: what comes after one that was dropped is dropped too."""
    tasks = list_tasks(job, repetitions)
    made: dict[Task, Block | None] = {}
    for done, (task, block) in enumerate(_results(job, tasks, min(jobs, len(tasks)), clock), start=1):
        made[task] = block
        progress(labels[task.group] if labels else "", done, len(tasks))
    found: dict[int, list[Block]] = {number: [] for number in range(len(job.groups))}
    ended = set()
    for task in sorted(tasks, key=lambda t: (t.group, t.first)):
        block = made[task]
        if block is None:
            ended.add(task.group)
        elif task.group not in ended:
            found[task.group].append(block)
    return found


def _results(job: Job, tasks: Sequence[Task], jobs: int, clock: Clock) -> Iterator[tuple[Task, Block | None]]:
    """Yield each task with its block as they are done: here, or in processes that are started afresh."""
    if jobs <= 1:
        for task in tasks:
            yield task, run_block(job, task, clock)
        return
    context = get_context("spawn")
    stop = context.Event()
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin, initargs=(job, stop))
    try:
        waiting: dict[Future[Block | None], Task] = {pool.submit(_run_task, task): task for task in tasks}
        for future in as_completed(waiting):
            yield waiting[future], future.result()
    except BrokenProcessPool:
        raise InvalidInput(
            "a process ended before its work was done, perhaps for want of memory: give fewer jobs, or a shorter series"
        ) from None
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)
