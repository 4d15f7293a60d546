"""The audit of a policy about secrets: its neighbours are a household with and without events, as the policy's reading has it.

    sensitivity   how far the engine's exact totals of neighbours are apart at each step, against what the secrets are charged at
    attained      what the whole event loses by these totals and the noise that is planned, against the secret's ε
    exact         what the planned noise (and that of a ledger, if there is one) comes to for each secret, from its reading
    black box     the real path, run again and again on a household with and without the event
    silence       everything but the values must be the same for both: steps, times, losses, logs
    observer      what the promise leaves open: where exact values are published

Events are taken from the secrets as they were written, in kW and hours, and not from what the policy made of them. They are
placed where they lose most, once with the steps and once half a step later, and as readings that rounding moves farthest.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from halflife.audit.black_box import Pair
from halflife.audit.exact import pair_loss
from halflife.audit.notions.swellfish import worst_secret
from halflife.audit.policy.path import PublishingPath, Row, Totals, as_data, silence, totals_of
from halflife.audit.verdict import MARGIN, Finding, Verdict, audit_paths
from halflife.errors import InvalidInput
from halflife.ledger import ledger_exists, open_ledger
from halflife.notions import Swellfish
from halflife.numerics.arrays import Floats
from halflife.numerics.progress import Progress
from halflife.numerics.rounding import TOLERANCE
from halflife.parsing.documents import Document
from halflife.parsing.quantities import parse_quantity
from halflife.plans.swellfish.plan import SwellfishPlan
from halflife.policy import Channel, Policy, channels
from halflife.policy.promises.swellfish.secrets import Secrets
from halflife.publisher.drawing import due
from halflife.publisher.readable import in_output_units
from halflife.release import Release
from halflife.specifications import Specifications, read_specifications
from halflife.steps import parse_time, to_us

PLANNED, MOST_WINDOW, MOST_STEPS, MOST_NUMBERS, MOST_READINGS = 5_000, 2_000, 48, 480, 60
HOUSEHOLDS, MOST_SECRETS = 3, 50_000
COMPOSED = 5e-3
"""How much above the truth a composed loss distribution may lie, relatively."""
HOW = ("with the steps", "half a step later")
AVERAGING = ("sum", "mean")
"""Folds by which an event that covers a step in part counts in part."""
JUST = 0.002
"""By how much of a unit an event's reading lies above a whole number, so that rounding makes the most of it."""


class Placed(NamedTuple):
    """A household's events as an audit places them: the mean and the largest power that they add, by data time."""

    row: int
    how: str
    mean: Mapping[int, float]
    peak: Mapping[int, float]


class Tried(NamedTuple):
    """Placed events after the engine: exact totals without and with them from data time `first` on, and what they lose."""

    placed: Placed
    first: int
    totals: tuple[Totals, Totals]
    loss: float
    epsilon: float


def audit_secrets(
    policy: Policy, *, seconds: float, runs: int, processes: int, progress: Progress = lambda what, done, total: None
) -> Verdict:
    """Audit a policy with neighbours that are made from its secrets; see the module's text for what is tried."""
    end = time.monotonic() + seconds
    made = channels(policy)
    notion = policy.notion
    assert isinstance(notion, Swellfish)
    progress("neighbours", 0, 1)
    written, readings = written_secrets(policy)
    tried, findings = [], []
    for how in HOW:
        some = [_try(policy, p, readings) for p in _placed(policy, written, how)]
        if some:
            findings += [_sensitivity(c, some, how) for c in made]
            findings.append(_attained(some, how, notion))
            tried += some
    findings += list(_exact(policy, made, notion))
    cases: list[tuple[Pair, PublishingPath]] = []
    if len(written) > MOST_SECRETS:
        findings.append(_not_run(len(written)))
    elif tried:
        worst = _window(made, max(tried, key=lambda t: t.loss / t.epsilon))
        findings.append(silence(policy, {"no event": worst.totals[0], "event": worst.totals[1]}, _size(made, worst)[1]))
        cases = [_case(policy, worst, "a household with and without its events"), _one_step(policy, worst)]
    left = end - time.monotonic()
    findings += audit_paths(cases, seconds=left, runs=runs, chunk=100, processes=processes, progress=progress)
    return Verdict(policy.population.id, (*findings, *_open(made)))


# The secrets, as they were written -----------------------------------------------------------------------------------


def written_secrets(policy: Policy) -> tuple[Specifications, Secrets]:
    """Return the secrets in their own unit and length, in the same order as in the promise, and where they came from."""
    given = (policy.promise.model_extra or {})["specifications"]
    data = given if isinstance(given, Mapping) else {"files": given}
    wanted = Secrets.model_validate(data)
    account, end = channels(policy)[0].account, policy.clock.end
    found = read_specifications(
        Document("policy", {"households": data["households"]}, {})
        if wanted.files is None
        else [policy.path(name) for name in wanted.files],
        steps=account,
        last=None if end is None else max(1, account.last_over(to_us(parse_time(end, policy.clock.zone)))),
        unit=wanted.unit,
        zone=wanted.zone or policy.clock.zone,
        skip=wanted.unreadable == "skip",
    ).specifications
    if len(found) != len(_promise(channels(policy)[0]).specifications):
        raise InvalidInput("the specifications have changed while the policy was read: audit it again")
    return found, wanted


def _promise(channel: Channel) -> Swellfish:
    notion = channel.plan.notion
    assert isinstance(notion, Swellfish)
    return notion


def _begin(channel: Channel) -> int:
    """The data time of a stream's first step."""
    assert isinstance(channel.plan, SwellfishPlan)
    return channel.plan.begin


def _covered(made: Sequence[Channel], s: Specifications) -> tuple[int, int]:
    """The data times that every stream publishes, no further than a plan is looked at."""
    first = max(_begin(c) for c in made)
    ends = [_begin(c) + c.last - 1 for c in made if c.last is not None]
    return first, min([first + PLANNED - 1, max(first, s.last_step), *ends])


def _chosen(made: Sequence[Channel], written: Specifications) -> list[int]:
    """The worst secret of some households by the certificate; the smallest, which rounding matters to most; the longest."""
    c = made[0]
    first, last = _covered(made, written)
    notion = _promise(c)
    s = notion.specifications
    rows = np.flatnonzero((s.start >= first) & (s.end <= last) & (written.duration <= MOST_WINDOW))
    if not len(rows):
        return []
    n = last - _begin(c) + 1
    shares = (notion.losses_of_secrets(c.plan.scales(n), _begin(c)) / s.epsilon)[rows]
    order = rows[np.argsort(-shares, kind="stable")]
    _, firsts = np.unique(s.household[order], return_index=True)
    worst = order[np.sort(firsts)[:HOUSEHOLDS]].tolist()
    smallest = rows[np.argmin(written.power[rows] * written.duration[rows])]
    longest = rows[np.argmax(written.duration[rows])]
    return list(dict.fromkeys([*worst, int(smallest), int(longest)]))


def _placed(policy: Policy, written: Specifications, how: str) -> Iterator[Placed]:
    """Place events of some secrets where they lose most, as the reading allows."""
    made = channels(policy)
    for row in _chosen(made, written):
        first, last = int(written.start[row]), int(written.end[row])
        weight = np.array([sum(1 / s for s in _scales_at(made, t) if s > 0) for t in range(first, last + 1)])
        reading = _promise(made[0]).neighbours
        begin, stop = written.rows(int(written.household[row]))
        near = [i for i in range(begin, stop) if written.start[i] <= last and written.end[i] >= first]
        mean, peak = np.zeros(len(weight)), np.zeros(len(weight))
        if reading == "all-events":
            for i in near:
                part, whole = _place(weight, first, written, i, how)
                mean, peak = mean + part, peak + whole
        else:
            times = np.arange(first, last + 1)
            change = np.full(len(weight), written.power[row])
            if reading == "one-window":
                change = sum(written.power[i] * ((times >= written.start[i]) & (times <= written.end[i])) for i in near)
            one = written._with({"power": np.ones(len(written))})
            part, whole = _place(weight * change, first, one, row, how)
            mean, peak = change * part, change * whole
        at = [(first + k, float(m), float(p)) for k, (m, p) in enumerate(zip(mean, peak, strict=True)) if p]
        if at:
            yield Placed(row, how, {t: m for t, m, _ in at}, {t: p for t, _, p in at})


def _place(weight: Floats, first: int, s: Specifications, row: int, how: str) -> tuple[Floats, Floats]:
    """The mean and the largest power that an event adds at steps first, first + 1, …, where that weighs most.

    Half a step later it shows in one step more: in the first and last of them for half of the time.
    """
    lasts, mean, peak = int(s.duration[row]), np.zeros(len(weight)), np.zeros(len(weight))
    shape = np.ones(lasts) if how == HOW[0] else np.array([0.5, *[1.0] * (lasts - 1), 0.5])
    best = -1.0
    for at in range(int(s.start[row]) - first, int(s.end[row]) - first + 2 - len(shape)):
        low, high = max(0, at), min(len(weight), at + len(shape))
        part = shape[low - at : high - at] if high > low else shape[:0]
        cost = float((weight[low:high] * part).sum()) if high > low else -1.0
        if cost > best:
            best, mean, peak = cost, np.zeros(len(weight)), np.zeros(len(weight))
            mean[low:high], peak[low:high] = s.power[row] * part, s.power[row]
    return mean, peak


def _scales_at(made: Sequence[Channel], t: int) -> list[float]:
    return [c.plan.scale(t - _begin(c) + 1) for c in made]


# Readings, and what the engine makes of them ---------------------------------------------------------------------------


def _try(policy: Policy, placed: Placed, wanted: Secrets) -> Tried:
    """Run the engine of every stream on the household without and with the events."""
    made = channels(policy)
    notion = policy.notion
    assert isinstance(notion, Swellfish)
    first, last = min(placed.mean), max(placed.mean)
    both: list[Totals] = [{}, {}]
    for c in made:
        ks = first - _begin(c) + 1, last - _begin(c) + 1
        for which in (0, 1):
            both[which][c.name] = (
                totals_of(c, _readings(c, placed, wanted, which, *ks), *ks)
                if c.part.source is not None
                else _pushed(c, placed, which, *ks)
            )
    totals = (both[0], both[1])
    loss = _loss(made, totals, first, notion.delta)
    return Tried(placed, first, totals, loss, float(notion.specifications.epsilon[placed.row]))


def _pushed(c: Channel, placed: Placed, which: int, first: int, last: int) -> NDArray[np.int64]:
    """A program pushes these: its first number moves by as much as the secrets allow, in part where an event shows in part."""
    totals = np.zeros((last - first + 1, c.cells), dtype=np.int64)
    in_part = c.part.statistic.fold in AVERAGING
    for k in range(first, last + 1) if which else ():
        t = k + _begin(c) - 1
        part = placed.mean[t] / placed.peak[t] if in_part and t in placed.peak else float(t in placed.peak)
        totals[k - first, 0] = math.floor(part * _allowed(c, placed, t))
    return totals


def _readings(c: Channel, placed: Placed, wanted: Secrets, which: int, first: int, last: int) -> list[Row]:
    """Readings of three ordinary homes and the audited one, with its events if `which` is 1."""
    names = _promise(c).specifications
    household, group = names.name_of(placed.row), (c.groups or ("",))[0]
    fold = c.part.statistic.fold
    count = min(wanted.readings or 1, MOST_READINGS) if fold == "sum" else 1
    units = float(c.units.get("divide", 1)) / float(c.units.get("multiply", 1))
    rows: list[Row] = []
    for k in range(first, last + 1):
        begin, end = c.steps.start(k), c.steps.end(k)
        t = k + _begin(c) - 1
        added = _in_units(c, placed.mean.get(t, 0.0), placed.peak.get(t, 0.0), (end - begin) / 3.6e9, wanted.unit)
        for i, part in enumerate(_split(added, count), start=1):
            at = begin + (end - begin) * i // (count + 1)
            value = max(c.units["low"], c.units.get("least", c.units["low"])) + 0.499 + (part if which else 0.0)
            rows.append((household, at, value * units, group))
        rows += [(f"other {i}", (begin + end) // 2, c.units["high"] / 2 * units, group) for i in range(3)]
    return rows


def _split(added: float, count: int) -> list[float]:
    """So many readings that add up to no more than this many units, each just above a whole number: rounding adds one to each."""
    small = [JUST if added >= JUST * i else 0.0 for i in range(2, count + 1)]
    rest = added - sum(small)
    return [*small, math.floor(rest - JUST) + JUST if rest >= JUST else max(0.0, rest)]


def _in_units(c: Channel, mean: float, peak: float, hours: float, unit: str) -> float:
    """How much an event adds to what one home reads in a step, in units: energy, mean power, or power at some moment."""
    statistic = c.part.statistic
    power = mean if statistic.fold in AVERAGING else peak
    try:
        value = power * float(parse_quantity(f"1 {unit}", statistic.unit or unit))
    except InvalidInput:
        value = power * hours * float(parse_quantity(f"1 {unit}h", statistic.unit))
    return value * float(c.units.get("multiply", 1)) / float(c.units.get("divide", 1))


def _allowed(c: Channel, placed: Placed, t: int) -> float:
    """How far the audited home can move a step as its secrets are charged: the event's power, or all that are relevant."""
    notion = _promise(c)
    s = notion.specifications
    if notion.neighbours == "one-event":
        return float(s.power[placed.row])
    begin, stop = s.rows(int(s.household[placed.row]))
    relevant = (s.start[begin:stop] <= t) & (t <= s.end[begin:stop])
    return float(s.power[begin:stop][relevant].sum())


def _moved(c: Channel, totals: tuple[Totals, Totals]) -> Floats:
    """How far apart the totals are at each step, in the norm that the noise needs."""
    moved = (totals[0][c.name] - totals[1][c.name]).astype(np.float64)
    found: Floats = np.abs(moved).sum(axis=1) if c.plan.noise == "laplace" else np.sqrt((moved * moved).sum(axis=1))
    return found


def _loss(made: Sequence[Channel], totals: tuple[Totals, Totals], first: int, delta: float) -> float:
    """What two sets of totals lose by the noise that the publisher would draw; infinite if they differ where it draws none."""
    releases: list[Release] = []
    moves: list[float] = []
    for c in made:
        k, moved = first - _begin(c) + 1, _moved(c, totals)
        for release, move in zip(due(c, k, k + len(moved) - 1, 0).releases, moved.tolist(), strict=True):
            if move and release.loss == math.inf:
                return math.inf
            if move:
                releases.append(release)
                moves.append(move)
    return pair_loss(releases, moves, delta)


# Findings -------------------------------------------------------------------------------------------------------------


def _sensitivity(c: Channel, some: Sequence[Tried], how: str) -> Finding:
    start, worst = time.perf_counter(), (-1.0, 0.0, 0.0)
    for tried in some:
        for k, found in enumerate(_moved(c, tried.totals).tolist()):
            allowed = _allowed(c, tried.placed, tried.first + k)
            worst = max(worst, (found / allowed, found, allowed))
    detail = (
        f"the engine's exact totals with and without the events of {len(some)} secrets, at the step that is nearest to what the "
        "secrets are charged at, in units"
    )
    _, found, allowed = worst
    return Finding(
        f"{c.name}: events {how}", "sensitivity", allowed, found, found > allowed, detail, time.perf_counter() - start
    )


def _attained(some: Sequence[Tried], how: str, notion: Swellfish) -> Finding:
    worst = max(some, key=lambda t: t.loss / t.epsilon)
    s, row = notion.specifications, worst.placed.row
    detail = (
        f"read as {notion.neighbours}: of {len(some)} secrets worst that of {s.name_of(row)!r} in steps {s.start[row]} to "
        f"{s.end[row]}"
    )
    name = f"a household with and without its events {how}"
    return _judged(name, "attained", worst.epsilon, worst.loss, detail, notion, 0.0)


def _judged(name: str, how: str, claimed: float, found: float, detail: str, notion: Swellfish, spent: float) -> Finding:
    slack = COMPOSED if notion.by_threshold else TOLERANCE + MARGIN
    return Finding(name, how, claimed, found, not found <= claimed * (1 + slack), detail, spent)


def _exact(policy: Policy, made: Sequence[Channel], notion: Swellfish) -> Iterator[Finding]:
    planned: list[Release] = []
    for c in made:
        last = min(PLANNED, c.last or max(1, notion.specifications.last_step - _begin(c) + 1))
        planned += due(c, 1, last, 0).releases
    yield _history("the plan's first steps", notion, planned)
    if ledger_exists(policy.ledger_url):
        with open_ledger(policy.ledger_url, read_only=True) as book:
            history = [r for e in book.entries() for r in e.releases]
        yield _history("what the ledger recorded", notion, history)


def _history(name: str, notion: Swellfish, releases: Sequence[Release]) -> Finding:
    start = time.perf_counter()
    worst = worst_secret(notion, releases)
    where = "" if worst.secret is None else f": worst {worst.household!r}, {worst.secret}"
    exact = sum(r.scale == 0 for r in releases)
    detail = f"{len(releases):,} releases, {exact:,} of them exact values, read as {notion.neighbours}{where}"
    return _judged(name, "exact", worst.epsilon, worst.loss, detail, notion, time.perf_counter() - start)


def _not_run(secrets: int) -> Finding:
    detail = (
        f"a run of the publisher keeps all {secrets:,} secrets in its ledger, and a black box needs hundreds of runs"
    )
    return Finding("the publisher was not run", "observer", math.nan, math.nan, False, detail, 0.0)


def _open(made: Sequence[Channel]) -> Iterator[Finding]:
    """Where exact values are published: the promise says so, and it is no fault."""
    for c in made:
        s = _promise(c).specifications
        steps = min(PLANNED, c.last or max(1, s.last_step - _begin(c) + 1))
        exact = int(np.count_nonzero(c.plan.scales(steps) == 0))
        detail = (
            f"of the first {steps:,} steps, {exact:,} lie outside all hiding intervals and are published without noise"
        )
        yield Finding(f"{c.name}: exact values", "observer", math.nan, exact / steps, False, detail, 0.0)


# The black box --------------------------------------------------------------------------------------------------------


def _window(made: Sequence[Channel], tried: Tried) -> Tried:
    """The steps to publish: at most so many, from the beginning of the events on."""
    room = max(1, min(MOST_STEPS, MOST_NUMBERS // sum(c.cells for c in made)))
    first, second = ({name: t[:room] for name, t in totals.items()} for totals in tried.totals)
    loss = _loss(made, (first, second), tried.first, _promise(made[0]).delta)
    return tried._replace(totals=(first, second), loss=loss)


def _size(made: Sequence[Channel], tried: Tried) -> tuple[int, dict[str, int]]:
    """How many steps there are, and which is the first of each stream."""
    return len(tried.totals[0][made[0].name]), {c.name: tried.first - _begin(c) + 1 for c in made}


def _case(policy: Policy, tried: Tried, name: str) -> tuple[Pair, PublishingPath]:
    """The pair as the black box sees it, all numbers of all streams, and the publisher on it."""
    made = channels(policy)
    steps, first = _size(made, tried)
    values: list[tuple[Floats, ...]] = []
    for c in made:
        k = first[c.name]
        scales = np.array([x.scale for x in due(c, k, k + steps - 1, 0).calibrations])
        exact = (t[c.name].astype(np.float64) for t in tried.totals)
        parts = (*exact, np.repeat(scales[:, None], c.cells, axis=1))
        values.append(tuple(in_output_units(x, c.factor_of_cells).ravel() for x in parts))
    a, b, sizes = (np.concatenate(x) for x in zip(*values, strict=True))
    plural = "s" if steps > 1 else ""
    pair = Pair(
        f"the publisher on {name}, {steps} step{plural}",
        a,
        b,
        sizes,
        tried.loss,
        made[0].plan.noise,
        _promise(made[0]).delta,
    )
    return pair, PublishingPath(as_data(policy), str(policy.path(".")), tried.totals, first)


def _one_step(policy: Policy, tried: Tried) -> tuple[Pair, PublishingPath]:
    """One step that moves as far as its noise's scale: no neighbours, but then a black box sees something."""
    made = channels(policy)
    c = made[0]
    at = int(np.argmax(_moved(c, tried.totals)))
    first = {d.name: tried.totals[0][d.name][at : at + 1] for d in made}
    cell = int(np.argmax(np.abs(tried.totals[1][c.name] - tried.totals[0][c.name])[at]))
    second = {name: t.copy() for name, t in first.items()}
    k = tried.first + at - _begin(c) + 1
    second[c.name][0, cell] += math.ceil(due(c, k, k, 0).calibrations[0].scale)
    totals = (first, second)
    loss = _loss(made, totals, tried.first + at, _promise(c).delta)
    moved = tried._replace(first=tried.first + at, totals=totals, loss=loss)
    return _case(policy, moved, "totals as far apart as the noise's scale")
