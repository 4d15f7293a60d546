"""Events of secrets, taken from the specifications as they were written and placed where they lose most."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from halflife.errors import InvalidInput
from halflife.local_time import parse_time, to_us
from halflife.notions import Swellfish
from halflife.numerics.arrays import Floats
from halflife.parsing.documents import Document
from halflife.plans.swellfish.plan import SwellfishPlan
from halflife.policy import Channel, Policy, channels
from halflife.policy.promises.swellfish.secrets import Secrets
from halflife.specifications import Specifications, read_specifications

PLANNED, MOST_WINDOW, HOUSEHOLDS = 5_000, 2_000, 3
TIMINGS = ("with the steps", "half a step later")


class Placed(NamedTuple):
    """A household's events as an audit places them: the mean and the largest power that they add, by data time."""

    row: int
    how: str
    mean: Mapping[int, float]
    peak: Mapping[int, float]


def read_written_secrets(policy: Policy) -> tuple[Specifications, Secrets]:
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
    if len(found) != len(promise_of(channels(policy)[0]).specifications):
        raise InvalidInput("the specifications have changed while the policy was read: audit it again")
    return found, wanted


def promise_of(channel: Channel) -> Swellfish:
    """Return the promise that a stream's plan keeps, in the stream's units."""
    notion = channel.plan.notion
    assert isinstance(notion, Swellfish)
    return notion


def first_data_time(channel: Channel) -> int:
    """Return the data time of a stream's first step."""
    assert isinstance(channel.plan, SwellfishPlan)
    return channel.plan.begin


def _common_data_times(made: Sequence[Channel], s: Specifications) -> tuple[int, int]:
    """The data times that every stream publishes, no further than a plan is looked at."""
    first = max(first_data_time(c) for c in made)
    ends = [first_data_time(c) + c.last - 1 for c in made if c.last is not None]
    return first, min([first + PLANNED - 1, max(first, s.last_step), *ends])


def _choose_secrets(made: Sequence[Channel], written: Specifications) -> list[int]:
    """The worst secret of some households by the certificate; the smallest, which rounding matters to most; the longest."""
    c = made[0]
    first, last = _common_data_times(made, written)
    notion = promise_of(c)
    s = notion.specifications
    rows = np.flatnonzero((s.start >= first) & (s.end <= last) & (written.duration <= MOST_WINDOW))
    if not len(rows):
        return []
    n = last - first_data_time(c) + 1
    shares = (notion.losses_of_secrets(c.plan.scales(n), first_data_time(c)) / s.epsilon)[rows]
    order = rows[np.argsort(-shares, kind="stable")]
    _, firsts = np.unique(s.household[order], return_index=True)
    worst = order[np.sort(firsts)[:HOUSEHOLDS]].tolist()
    smallest = rows[np.argmin(written.power[rows] * written.duration[rows])]
    longest = rows[np.argmax(written.duration[rows])]
    return list(dict.fromkeys([*worst, int(smallest), int(longest)]))


def place_events(policy: Policy, written: Specifications, how: str) -> Iterator[Placed]:
    """Yield events of some secrets, placed where they lose most among what the promise calls neighbours."""
    made = channels(policy)
    for row in _choose_secrets(made, written):
        first, last = int(written.start[row]), int(written.end[row])
        weight = np.array([sum(1 / s for s in _scales_at(made, t) if s > 0) for t in range(first, last + 1)])
        mean, peak = _worst_change(promise_of(made[0]).neighbours, weight, first, written, row, how)
        at = [(first + k, float(m), float(p)) for k, (m, p) in enumerate(zip(mean, peak, strict=True)) if p]
        if at:
            yield Placed(row, how, {t: m for t, m, _ in at}, {t: p for t, _, p in at})


def _worst_change(
    neighbours: str, weight: Floats, first: int, written: Specifications, row: int, how: str
) -> tuple[Floats, Floats]:
    """The mean and the largest power by which a neighbour differs at steps first, first + 1, …: one event, one window or all."""
    last = first + len(weight) - 1
    begin, stop = written.rows(int(written.household[row]))
    near = [i for i in range(begin, stop) if written.start[i] <= last and written.end[i] >= first]
    if neighbours == "all-events":
        events = [_place(weight, first, written, i, how) for i in near]
        return sum(mean for mean, _ in events), sum(peak for _, peak in events)  # type: ignore[return-value]
    change = np.full(len(weight), written.power[row])
    if neighbours == "one-window":
        times = np.arange(first, last + 1)
        change = sum(written.power[i] * ((times >= written.start[i]) & (times <= written.end[i])) for i in near)
    mean, peak = _place(weight * change, first, written._with({"power": np.ones(len(written))}), row, how)
    return change * mean, change * peak


def _place(weight: Floats, first: int, s: Specifications, row: int, how: str) -> tuple[Floats, Floats]:
    """The mean and the largest power that an event adds at steps first, first + 1, …, where that weighs most.

    Half a step later it shows in one step more: in the first and last of them for half of the time.
    """
    lasts, mean, peak = int(s.duration[row]), np.zeros(len(weight)), np.zeros(len(weight))
    shape = np.ones(lasts) if how == TIMINGS[0] else np.array([0.5, *[1.0] * (lasts - 1), 0.5])
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
    return [c.plan.scale(t - first_data_time(c) + 1) for c in made]
