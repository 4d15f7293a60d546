"""Streams ready to be published: steps, the query to an engine, sensitivity and plan of each.

Everything here follows from the policy and its public tables; no reading has been looked at.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from halflife import registry
from halflife.accountant import Accountant
from halflife.engines.base import LARGEST_TOTAL, LARGEST_UNITS, Question
from halflife.errors import InvalidInput, unknown
from halflife.ledger import ledger_plans
from halflife.local_time import (
    DAY,
    find_zone,
    naive_to_utc,
    parse_time,
)
from halflife.mechanisms import (
    HeldOutput,
    Mechanism,
    Request,
    ScheduledMechanism,
    TreeNodes,
    Turn,
    check_adaptive,
    record,
)
from halflife.noise import SMALLEST_LOSS
from halflife.numerics.arrays import Integers
from halflife.numerics.rounding import down
from halflife.outputs import Layout
from halflife.parsing.quantities import parse_quantity
from halflife.plans import Plan
from halflife.plans.base import STD_OF_UNIT_SCALE
from halflife.plans.solutions import Solutions
from halflife.policy.groups import read_groups, read_units
from halflife.policy.measure import read_measure
from halflife.policy.model import PolicyKeys, PostProcessing, SeasonalKeys, Source, StreamPart
from halflife.policy.outline import Outline, Sized
from halflife.policy.paths import check_files, check_key_place
from halflife.policy.promises import Adapter, find_adapter
from halflife.policy.times import find_pace, read_delay, read_steps, read_times
from halflife.policy.unused import refuse_unused
from halflife.policy.worth import Factors, Worth
from halflife.postprocessing import Kalman, LocalLevel, MovingAverage, Seasonal, Smoother, Truncate
from halflife.postprocessing.quantiles import TreeQuantiles
from halflife.postprocessing.running_total import RunningTotal
from halflife.postprocessing.structural.parameters import NAMES
from halflife.release import Noise, Release
from halflife.steps import Steps

MOST_CELLS = 10_000_000
FAR_TOTAL = 1_000
"""The noise of the running total at this step is told, or at the last."""
LONGEST_TREE = 2**20
"""Of how many steps totals must fit 64 bits, where a stream has no end: sixty years of half hours. Later they stay within."""


@dataclass(frozen=True, kw_only=True)
class Channel(Outline):
    """One stream, ready to be published: its `Outline` with its plan and mechanism.

    plan     the losses of its releases, `every` account steps apart at the least
    why      what the promise hides of one person in this stream
    promise  what its notion has to say about it
    begins   its first step that is published: later than 1 where an amendment added the stream to a ledger
    earlier  what a unit was worth before amendments, up to now: pairs of a first step and factors; empty without any
    """

    plan: Plan
    why: str
    promise: Adapter = field(repr=False, compare=False)
    begins: int = 1
    earlier: tuple[tuple[int, Factors], ...] = ()

    @property
    def layout(self) -> Layout:
        """The columns of the output: groups, and bins or quantiles."""
        unit, which = self.part.statistic.unit, tuple(map(float, self.measure.quantiles))
        return Layout(self.name, self.steps.zone, self.groups, () if which else self.bins, unit, which)

    @property
    def factor_of_cells(self) -> tuple[Fraction, ...]:
        """The value of one unit in the output, for each number of a step that gets noise, where the population is smallest."""
        return tuple(f for f in self.factors for _ in range(self.measure.numbers))

    @property
    def worth(self) -> Worth:
        """The value of one unit in each number that gets noise, step by step as its ledger has it."""
        if self.earlier:
            return Worth(self.earlier)
        parts = [(s.step, tuple(f for f in s.factors for _ in range(self.measure.numbers))) for s in self.sized]
        return Worth(tuple(p for k, p in enumerate(parts) if k == 0 or p[1] != parts[k - 1][1]))

    def factor_of_bins(self, step: int) -> tuple[Fraction, ...]:
        """The value of one unit in a step, for each number that an engine or a program counts: those that get noise, or a
        tree's bins."""
        return tuple(f for f in self.sized_at(step).factors for _ in range(max(1, len(self.bins))))

    @property
    def quantiles(self) -> TreeQuantiles | None:
        """How quantiles follow from the noisy numbers of a step; None for other statistics."""
        measure = self.measure
        if measure.tree is None:
            return None
        edges = tuple(float(measure.resolution * edge) for edge in measure.edges)
        return TreeQuantiles(measure.tree, edges, tuple(map(float, measure.quantiles)))

    def totals(self, sums: Integers, first: int) -> Integers:
        """Return the exact numbers of each step that get noise (steps × cells), from an engine's sums (steps × groups × bins).

        What all who are missing count as is added, and the bins of a tree become its nodes.

        first  the number of the first step
        """
        steps = range(first, first + len(sums)) if len(self.sized) > 1 else (first,)
        totals = sums + np.array([self.sized_at(k).offsets for k in steps], dtype=np.int64)[:, :, None]
        nodes = totals if self.measure.tree is None else self.measure.tree.add_up(totals)
        return nodes.reshape(len(sums), -1)

    def published_at(self, step: int) -> int:
        """Return when a step may be published, in µs: once it is over, and its delay and lateness too."""
        return self.account.end(int(self.release_steps(step, step)[0])) + self.wait

    def newest(self, now_us: int) -> int:
        """Return the newest step that may be published now, 0 if none may."""
        over = max(0, self.steps.last_over(now_us))
        most = over if self.last is None else min(over, self.last)
        return bisect_right(range(1, most + 1), now_us, key=self.published_at)

    def losses(self, first: int, last: int) -> list[float]:
        """Return what the plan gives to steps first … last."""
        return self.plan.losses_of_releases(first, last).tolist()  # type: ignore[no-any-return]

    def question(self, first: int, last: int) -> Question:
        """Return what to ask an engine for these steps."""
        source = self.part.source
        assert source is not None
        begin, end = self.steps.start(first), self.steps.end(last)
        measure, statistic = self.measure, self.part.statistic
        least, most = measure.readings or (-LARGEST_UNITS, LARGEST_UNITS)
        return Question(
            kind="count" if measure.kind == "count" else "histogram" if measure.edges else "sum",
            person=source.person or self.person,
            time=source.time,
            value="value" if source.wide else source.value,
            wide=source.wide,
            group=source.group if self.table is None and self.groups else None,
            epoch=source.epoch,
            time_format=source.time_format,
            local=naive_to_utc(source.zone, begin, end),
            buckets=self.steps.buckets(begin, end),
            first=first,
            last=last,
            groups=self.groups,
            table=self.table,
            most_groups=self.most_groups,
            weights=self.weights,
            units=self.units,
            multiply=measure.resolution.denominator,
            divide=measure.resolution.numerator,
            least=least,
            most=most,
            low=measure.low,
            high=measure.high,
            fold="count" if measure.kind == "events" else statistic.fold or "last",
            once=measure.kind == "count" or statistic.once,
            baseline=measure.missing,
            edges=measure.edges,
        )

    def make_mechanism(self) -> Mechanism:
        """Return a new mechanism for this stream, without state; refuse one that is not proved for its plan."""
        begin = int(self.release_steps(1, 1)[0]) - self.age
        made: Mechanism = registry.find_mechanism(self.mechanism).for_stream(
            self.plan, name=self.name, steps=self.steps, begin=begin, cells=self.cells, touched=self.sensitivity.touched
        )
        return made

    @property
    def held(self) -> HeldOutput | None:
        """The stream's mechanism if it repeats outputs, so that no step's noise is planned; else None."""
        mechanism = self.make_mechanism()
        return mechanism if isinstance(mechanism, HeldOutput) else None

    @property
    def tree(self) -> TreeNodes | None:
        """The stream's mechanism if it publishes a running total from nodes of a binary tree; else None."""
        mechanism = self.make_mechanism()
        return mechanism if isinstance(mechanism, TreeNodes) else None

    @property
    def as_planned(self) -> bool:
        """Whether each step's noise is that of its plan: not where a mechanism repeats outputs, or adds up nodes of a tree."""
        return not isinstance(self.make_mechanism(), HeldOutput | TreeNodes)

    @property
    def mechanism(self) -> str:
        """The name of the stream's mechanism."""
        return self.part.mechanism or self.plan.notion.mechanism

    def plan_steps(self, first: int, last: int) -> range:
        """Return the steps of the plan at which steps first … last are published."""
        every = self.plan.request.every
        return range(1 + (first - 1) * every, 2 + (last - 1) * every, every)

    def requests(self, mechanism: ScheduledMechanism, first: int, last: int) -> list[Request]:
        """Return what the stream's mechanism draws at steps first … last, with how many of the account's steps each covers."""
        wide: dict[tuple[Request, int], Request] = {}
        asked, spans = mechanism.requests(self.plan_steps(first, last)), self.spans(first, last).tolist()
        made = []
        for k, (request, span) in enumerate(zip(asked, spans, strict=True), start=first):
            if request is None:
                raise InvalidInput(f"step {k} of {self.name} has no budget: nothing can be published")
            same = mechanism.names_spans or request.span == span
            made.append(request if same else wide.setdefault((request, span), request._replace(span=span)))
        return made

    def plan_releases(self, last: int, first: int = 1) -> list[Release]:
        """Return what steps first … last are recorded as if they are the first, at the account's steps.

        A mechanism that chooses its draws from values or outputs has no such record, and is refused.
        """
        mechanism = self.make_mechanism()
        if not isinstance(mechanism, ScheduledMechanism):
            raise InvalidInput(
                f"{self.name}: what the mechanism {mechanism.name!r} draws depends on what it sees, and is not planned: "
                "what such a stream may still spend is known when its steps are published"
            )
        return record(map(Turn, self.release_steps(first, last).tolist(), self.requests(mechanism, first, last)))

    def smoothers(self) -> list[Smoother]:
        """Return new post-processors, without state; nodes of a tree become running totals, and nothing else."""
        if (tree := self.tree) is not None:
            return [RunningTotal(tree.endless)]
        fresh = not self.plan.notion.shares_draws
        a_day = steps_per_day(self.steps)
        return [_smoother(self.part, j, a_day, independent=fresh and j == 0) for j in range(len(self.part.post))]


def work_out(policy: PolicyKeys) -> tuple[Channel, ...]:
    """Work out every stream of a policy, or refuse it with the line that is wrong."""
    clock = policy.clock
    with policy.about("clock", "zone"):
        find_zone(clock.zone)
    with policy.about("clock", "start"):
        start = parse_time(clock.start, clock.zone)
    account = read_steps(policy, ("clock", "step"), ("clock", "start"), start)
    with policy.about("promise", "notion"):
        adapter = find_adapter(policy.promise.notion)
    promise = adapter(policy, account)
    promise.check()
    _check_names(policy)
    check_key_place(policy)
    check_files(policy)
    refuse_unused(policy)
    times = [read_times(policy, i, account) for i in range(len(policy.streams))]
    for i, (steps, _) in enumerate(times):
        with policy.about("streams", i, "step"):
            _check_width(steps, promise)
    _check_members(policy, promise)
    rules = promise.accept_streams()
    units, noise = read_units(policy), _expected_noise(policy, promise)
    outlines = [_outline(policy, i, account, share, *times[i], units, noise) for i, share in enumerate(_shares(policy))]
    promise.check_streams(outlines)
    _check_ages(policy, outlines, promise)
    plans = _plans(policy, promise, outlines)
    made = tuple(
        Channel(**vars(outline), plan=plan, why=rule.why, promise=promise)
        for outline, plan, rule in zip(outlines, plans, rules, strict=True)
    )
    for channel in made:
        with policy.about("streams", channel.index, "mechanism"):
            mechanism = channel.make_mechanism()
            check_adaptive(mechanism, Accountant(promise.notion))
        if isinstance(mechanism, HeldOutput):
            _check_held(policy, channel)
        if isinstance(mechanism, TreeNodes):
            _check_tree(policy, channel)
    kept = [getattr(registry.find_mechanism(channel.mechanism), "keeps_noise", True) for channel in made]
    if policy.noise_key is not None and not any(kept):
        why = "no noise is kept to be used again under this promise, so there is nothing to seal: leave this out"
        raise policy.error((("noise_key",), why))
    return made


def _check_held(policy: PolicyKeys, channel: Channel) -> None:
    """Refuse what nobody can say an error of, where a stream repeats outputs at steps that depend on what it published; and with
    a δ streams beside it, whose parts of it are not shown to leave room for whatever it comes to spend."""
    at, name = ("streams", channel.index), channel.mechanism
    if channel.plan.noise == "gaussian" and len(policy.streams) > 1:
        why = (
            f"with a delta {name} is proved for a policy of one stream: promise delta 0, or leave the other streams out"
        )
        raise policy.error(((*at, "mechanism"), why))
    if channel.part.absent == "skip":
        why = f"{name} goes on from its output of the step before, and is not proved for steps that are skipped: write missing"
        raise policy.error(((*at, "absent"), why))
    if channel.part.post:
        why = (
            f"{name} repeats outputs, and how far the truth has moved since is not known: no estimate can be told how far a "
            "value is from it; leave this out"
        )
        raise policy.error(((*at, "post"), why))
    if channel.quantiles is not None:
        why = f"{name} repeats outputs, whose errors are not known, and a quantile's error band follows from them: count in bins"
        raise policy.error(((*at, "statistic", "kind"), why))
    grows = channel.divides and policy.members.by_date  # a table grows without an amendment
    if grows or len(channel.worth.since) > 1:
        why = (
            f"{name} repeats outputs, and the total of a step would be divided by the people of another one: publish a sum, or "
            "leave the mechanism out"
        )
        raise policy.error(((*at, "mechanism"), why))


def _check_tree(policy: PolicyKeys, channel: Channel) -> None:
    """Refuse what a running total cannot be published of: its nodes add up earlier steps, which are read again each time."""
    at, name = ("streams", channel.index), channel.mechanism
    if channel.part.source is None:
        why = f"{name} adds up steps of the data anew, and a program pushes one step's value alone: give the stream a source"
        raise policy.error(((*at, "mechanism"), why))
    if channel.part.absent == "skip":
        why = f"{name} adds up every step, and none of them can be skipped: write missing"
        raise policy.error(((*at, "absent"), why))
    if channel.quantiles is not None:
        raise policy.error(((*at, "statistic", "kind"), f"{name} adds up steps, and quantiles do not add up"))
    if channel.part.post:
        why = f"{name} publishes running totals, which share their noise: no estimate is worked out for that; leave this out"
        raise policy.error(((*at, "post"), why))
    if policy.members.by_date:
        why = f"{name} adds up steps, and those of other populations would be added up as one's: give one size"
        raise policy.error((("population", "size"), why))
    if len(policy.streams) > 1 and _may_be_forgotten(policy, channel):
        why = (
            f"{name} is charged for steps that lie far back, which an account that other streams take on may have forgotten: "
            "beside others it needs an end, the clock's own start, a window of two steps or more, and sources for all; or "
            "publish it by a policy of its own"
        )
        raise policy.error(((*at, "mechanism"), why))
    last = channel.last or LONGEST_TREE
    widest = 1 << (last.bit_length() - 1)
    measure = channel.measure
    reach = measure.heaviest * max(abs(measure.low), abs(measure.high), abs(measure.missing)) * policy.members.largest
    if reach * widest >= LARGEST_TOTAL:
        why = f"the total of {widest:,} steps would not fit 64 bits: choose a coarser resolution, or give the stream an end"
        raise policy.error(((*at, "statistic", "resolution"), why))


def _may_be_forgotten(policy: PolicyKeys, channel: Channel) -> bool:
    """Whether another stream may take the account on so far that the first step of a tree's widest node is forgotten (ours).

    Before the node of the first 2^k steps, from step f of the account on, the widest has 2^(k−1). The account reaches back by one
    less, and remembers as many data times more: when it is one step ahead of the tree, all but those up to f + 1 − w. A window
    with f begins with f + 1 − w, so that must be none: f < w. Trees that follow each other begin later and later.
    """
    if any(stream.source is None for stream in policy.streams):
        return True
    notion = channel.plan.notion
    return notion.by_data_time and (channel.last is None or (notion.memory or 0) <= channel.first)


def _check_members(policy: PolicyKeys, promise: Adapter) -> None:
    """Refuse sizes by date under a promise for which members are fixed."""
    if policy.members.by_date and promise.notion.shares_draws:
        why = (
            f"under {promise.notion.name} one noise is used in every period, and the difference of two values with the same "
            "noise shows what those who came or left add up to: members are fixed, so give their number"
        )
        raise policy.error((("population", "size"), why))


def _check_names(policy: PolicyKeys) -> None:
    """Refuse two streams of one name."""
    names: set[str] = set()
    for i, stream in enumerate(policy.streams):
        if stream.name in names:
            raise policy.error((("streams", i, "name"), f"{stream.name!r} stands twice: give each stream its own name"))
        names.add(stream.name)


def _shares(policy: PolicyKeys) -> list[float]:
    """Each stream's share of the promise: as given, read as decimals, or equal ones rounded down. They never exceed the whole."""
    given = [s.share for s in policy.streams]
    if all(s is None for s in given):
        return [1.0] if len(given) == 1 else [down(1 / len(given))] * len(given)
    for i, share in enumerate(given):
        if share is None:
            raise policy.error((("streams", i, "share"), "missing: some streams have a share, so each needs one"))
    total = sum(Fraction(str(s)) for s in given)
    if total > 1:
        raise policy.error(
            (("streams", 0, "share"), f"the shares add up to {float(total):g}, more than the whole promise")
        )
    return [float(s) for s in given if s is not None]


def _expected_noise(policy: PolicyKeys, promise: Adapter) -> Noise:
    """The family of noise that a tree of counts is shaped for: as it is written, else Gaussian where there is a δ.

    Plans choose the family later, from the sensitivity that follows from the tree. Any tree keeps the promise under either.
    """
    return policy.promise.noise or ("gaussian" if getattr(promise.notion, "delta", 0.0) > 0 else "laplace")


def _outline(
    policy: PolicyKeys,
    i: int,
    account: Steps,
    share: float,
    steps: Steps,
    last: int | None,
    units: Mapping[str, str] | None,
    noise: Noise,
) -> Outline:
    """Work out one stream as far as no notion is needed for it, but for the noise that the tree of a quantile expects."""
    part, at = policy.streams[i], ("streams", i)
    if part.source is not None:
        with policy.about(*at, "source", "zone"):
            find_zone(part.source.zone)
        with policy.about(*at, "source", "columns"):
            _check_names_of_columns(part.source, policy.population.person)
    groups, measure = read_groups(policy, i), read_measure(policy, i, noise)
    with policy.about(*at, "groups"):
        sensitivity = measure.sensitivity(policy, groups)
        sizes = [(step, size, measure.factors(groups, size)) for step, size in policy.members.by_step(steps)]
    with policy.about(*at, "statistic", "resolution"):
        sized = tuple(Sized(*found, measure.offsets(groups, found[1])) for found in sizes)
    for j in range(len(part.post)):
        with policy.about(*at, "post", j):
            _smoother(part, j, steps_per_day(steps), independent=True)
    cells = max(1, len(groups.names)) * measure.numbers
    if cells > MOST_CELLS:
        raise policy.error((at, f"a step has {cells:,} numbers (groups × bins): the most is {MOST_CELLS:,}"))
    every, widest = find_pace(steps, account, last)
    age, wait = read_delay(policy, i, account)
    return Outline(
        index=i, name=part.name, part=part, person=policy.population.person, share=share, steps=steps, last=last,
        account=account, age=age, wait=wait, every=every, widest=widest, measure=measure, sensitivity=sensitivity,
        groups=groups.names, bins=measure.bins, fixed=groups.fixed, sized=sized,
        most_groups=groups.most, table=groups.table, weights=measure.weights, units=units,
    )  # fmt: skip


def _check_names_of_columns(source: Source, person: str) -> None:
    """Refuse columns of a file without a header that are named twice, or among which one that is used is missing.

    Of a wide table they are refused altogether. There a name says whose readings a field holds, and the ledger does not keep the
    names: exchanged, the meters of one household would be clipped as those of two, and count twice.
    """
    if source.columns is not None:
        if source.wide:
            raise InvalidInput(
                "a wide table says itself whose readings each column holds: give it a header, and leave this out"
            )
        if len(set(source.columns)) < len(source.columns):
            raise InvalidInput("a name stands twice: give each column its own name")
        for name in (source.person or person, source.time, source.value, source.group):
            if name is not None and name not in source.columns:
                raise unknown("name of a column that is used,", name, source.columns)


def _plans(policy: PolicyKeys, promise: Adapter, outlines: list[Outline]) -> list[Plan]:
    """The plan of each stream; one that gives nothing to its first step is refused."""
    asked, notion = policy.promise, promise.notion
    with policy.about("promise", "noise"):
        if asked.noise not in (None, *notion.noises):
            raise unknown(f"noise for {notion.name}", asked.noise, notion.noises)
    with policy.about("promise", "plan"):
        try:
            promise.solutions = Solutions(ledger_plans(policy.ledger_url))
            with promise.solutions.at_hand():
                plans = promise.make_plans(outlines)
        except InvalidInput as error:
            if error.about != "cap":
                raise
            said = f"a {asked.plan} plan of {notion.name} has no cap: leave it out"
            raise policy.error((("promise", "cap"), said)) from error
        for outline, plan in zip(outlines, plans, strict=True):
            if plan.loss(1) < SMALLEST_LOSS * outline.sensitivity.touched:
                raise InvalidInput(
                    f"the {asked.plan} plan gives the first step next to no budget: nothing could be published"
                )
    return plans


def _check_width(steps: Steps, promise: Adapter) -> None:
    """Refuse steps wider than the clock's where it is not known what a release about several steps costs."""
    notion, account = promise.notion, promise.account
    if not steps.same_width(account) and not notion.charges_spans:
        raise InvalidInput(
            f"it is not worked out what a step that covers several of the clock's costs under {notion.name} as promised here: "
            "set clock.step to this width"
        )


def _check_ages(policy: PolicyKeys, outlines: list[Outline], promise: Adapter) -> None:
    """Refuse a stream whose releases reach so far back that the account has forgotten the time its data is about.

    The account remembers the notion's memory, more once a release has reached back further: until the first release of a late or
    wide stream none has. Within that memory it makes no difference which stream began first, or paused, and streams of one width
    remember each other's.
    """
    notion = promise.notion
    if not notion.by_data_time or notion.memory is None:
        return
    soonest = min(outlines, key=lambda c: c.age)
    for c in outlines:
        if c.age - soonest.age >= notion.memory:
            raise policy.error((
                ("streams", c.index, "delay"),
                f"{c.name!r} would publish {c.age - soonest.age} steps after {soonest.name!r}, and {notion.name} then no longer "
                f"remembers what was said about that time: two delays must differ by fewer than {notion.memory} steps",
            ))  # fmt: skip
        narrower = [other.age for other in outlines if other.steps.width < c.steps.width]
        span = c.widest if c.steps.months else int(c.spans(1, 1)[0])
        oldest, most = c.age + span - 1, notion.memory + min(narrower, default=0)
        if narrower and oldest >= most:
            raise policy.error((
                ("streams", c.index, "step"),
                f"the oldest data of a step of {c.name!r} is {oldest} steps of the clock old when it is published, and beside "
                f"streams of narrower steps {notion.name} then no longer remembers what was said about that time: it must be "
                f"less than {most}; choose narrower steps, or a longer window",
            ))  # fmt: skip


def steps_per_day(steps: Steps) -> float:
    """Return how many steps a day has, about."""
    return DAY / steps.width


def _smoother(part: StreamPart, j: int, a_day: float, independent: bool) -> Smoother:
    """A step of post-processing. What another step has changed, or noise that is reused, is not independent from step to step."""
    post, unit = part.post[j], "people" if part.statistic.kind == "histogram" else part.statistic.unit
    if [post.truncate, post.moving_average, post.kalman, post.seasonal].count(None) != 3:
        raise InvalidInput(
            "one step is one of truncate, moving_average, kalman and seasonal: write a list of such steps"
        )
    if post.above is not None and post.moving_average is None:
        raise InvalidInput("`above` says when a moving_average is taken: write it beside one, or leave it out")
    if post.truncate is not None:
        low, high = (float(parse_quantity(x, unit)) for x in post.truncate)
        return Truncate(low, high)
    if any(_is_fitted(before) for before in part.post[:j]):
        raise InvalidInput("an estimate has taken the noise out already: only truncate may follow it")
    if _is_fitted(post) and j:
        raise InvalidInput("an estimate needs values as they were published, whose noise is known: put it first")
    if post.moving_average is not None:
        above = None if post.above is None else float(parse_quantity(post.above, unit))
        return MovingAverage(post.moving_average, independent=independent, above=above)
    if post.kalman is not None:
        if post.kalman == "fitted":
            return LocalLevel(a_day)
        return Kalman(float(parse_quantity(post.kalman, unit)), independent=independent)
    if isinstance(post.seasonal, SeasonalKeys):
        known = {name: value for name in NAMES if (value := getattr(post.seasonal, name)) is not None}
        return Seasonal(a_day, known, float(parse_quantity(post.seasonal.amplitude, unit)))
    return Seasonal(a_day)


def _is_fitted(post: PostProcessing) -> bool:
    """Whether a step is an estimate that must see values as they were published."""
    return post.seasonal is not None or post.kalman == "fitted"


def explain(channel: Channel) -> Iterator[str]:
    """Say how far one person can move a stream's numbers, and why, and when it repeats outputs, from the policy alone."""
    yield from channel.promise.explain(channel, channel.plan, channel.why)
    if (tree := channel.tree) is not None:
        worth = float(max(channel.factors))
        far = min(FAR_TOTAL, channel.last or FAR_TOTAL)
        largest = max(tree.std(step) for step in range(1, far + 1))
        first, most = (f"{worth * std:.4g} {channel.unit}".rstrip() for std in (tree.std(1), largest))
        yield (
            f"{tree.name} {tree.rule}: the noise of a total has a standard deviation of {first} at step 1, and of {most} at "
            f"the most up to step {far:,}; totals share noise. Each node is added up from the data anew, so that its files must "
            "hold all steps from the stream's first on"
        )
    if (held := channel.held) is not None:
        least = STD_OF_UNIT_SCALE[held.noise] * held.sensitivity / held.most_loss * float(max(channel.factors))
        yield (
            f"{held.name} {held.rule}: a noisy value has noise with a standard deviation of {least:.4g} {channel.unit}".rstrip()
            + f" at the least; {held.others}"
        )
