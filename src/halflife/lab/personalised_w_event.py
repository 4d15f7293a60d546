"""Personalised w-event privacy, simulated: each person has a window and a limit of their own, and counts are of a sample of
people.

Person i is promised ε_i for whatever they do within any w_i steps (Du, Cheng, Chen, Shen, Lin, Xi: PVLDB 18(6), 2025). An
account here has one promise for everybody, so this is for the lab: nothing is drawn that may be published.

**One release** (Jorgensen, Yu, Cormode: ICDE 2015, the sample mechanism; known). Person i may lose b_i. For a threshold t they
are counted with probability 1 if b_i ≥ t, else p_i = (e^{b_i} − 1)/(e^t − 1); the count of those gets Laplace noise of scale
1/t. Then person i loses min(b_i, t). Proof: let i's datum be v or v′ in {0, 1}, and A, A′, B the density of the output, given
who else is counted, if i is counted with v, with v′, or is not, which is to count as 0. Each two of them are within a factor
e^t, so with q = 1 − p the ratio (pA + qB)/(pA′ + qB) is largest for B as small as it may be, e^{−t}A, and A as large, e^t A′:
it is at most p e^t + q = e^{b_i}. By symmetry that bounds it from below too. If b_i ≥ t, p = 1 and it is e^t.

**Over time** losses of independent samples and noises add up, for each person in their own window, and may be chosen from earlier
outputs. With half of ε_i for questions and half for outputs (BD and BA of Kellaris et al., one account a person; the estimate
is ours):

    uniform     every step has b_i = ε_i/w_i
    question    |estimate now − last output|, with b_i = ε_i/2w_i at every step; publish if it exceeds the error of a new output
    pbd         an output may use half of what is left of ε_i/2 in the last w_i steps
    pba         an output may use ε_i/2w_i for each step since person i's last one, w_i of them at most; having used n_i such
                parts, the next n_i − 1 steps of person i have none: they are in no sample

**The threshold** is the b_k for which (N/m)²(Σ p_k(1 − p_k)n_k + 2/t²) is least: from numbers of people alone, m = Σ p_k n_k the
expected size of the sample and N that of the population. The estimate is N/m times the noisy count: without bias if people with
different limits are alike in what is counted, and that is an assumption.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from halflife.errors import InvalidInput, unknown
from halflife.numerics.arrays import Floats, Integers

METHODS = ("uniform", "pbd", "pba")


class Wishes(NamedTuple):
    """Groups of people with the same wishes: how many they are, their windows w_k in steps, and their limits ε_k."""

    people: Integers
    windows: Integers
    epsilons: Floats

    @classmethod
    def of(cls, *groups: tuple[int, int, float]) -> Self:
        """Return the wishes of groups (people, w, ε)."""
        if not groups or not all(n >= 1 and w >= 1 and 0 < e < 100 for n, w, e in groups):
            raise InvalidInput(
                f"a group has people, a window and a limit, all above 0 and the limit below 100, not {groups}"
            )
        people, windows, epsilons = zip(*groups, strict=True)
        return cls(
            np.array(people, dtype=np.int64), np.array(windows, dtype=np.int64), np.array(epsilons, dtype=np.float64)
        )

    def strictest(self) -> Self:
        """Return the wishes of everybody if all had the longest window and the smallest limit."""
        same = np.ones_like(self.people)
        return type(self)(self.people, same * self.windows.max(), same * self.epsilons.min())


class Run(NamedTuple):
    """Simulated outputs (steps, lanes), and what each group's people lost at each step (steps, groups, lanes)."""

    outputs: Floats
    losses: Floats


class Sampled(NamedTuple):
    """An estimate of the total, what each group lost, and the standard deviation that public numbers lead to expect; by lane."""

    estimate: Floats
    losses: Floats
    error: Floats


def inclusion(budgets: Floats, threshold: Floats) -> Floats:
    """Return the probabilities with which people of these budgets are counted at a threshold.

    >>> inclusion(np.array([0.0, 0.5, 1.0, 2.0]), np.array(1.0)).round(4).tolist()
    [0.0, 0.3775, 1.0, 1.0]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.expm1(np.minimum(budgets, threshold)) / np.expm1(threshold)
    return np.where(budgets >= threshold, 1.0, part)


def sample(counts: Integers, budgets: Floats, people: Integers, rng: np.random.Generator) -> Sampled:
    """Return a noisy estimate of the total of these counts from a sample of people; budgets are (groups, lanes).

    >>> rng = np.random.default_rng(1)
    >>> got = sample(np.array([300, 300]), np.array([[0.1], [1.0]]), np.array([500, 500]), rng)
    >>> bool(abs(got.estimate[0] - 600) < 100), got.losses[:, 0].tolist()
    (True, [0.1, 1.0])
    """
    threshold, error = _choose_threshold(budgets, people)
    chance = inclusion(budgets, threshold)
    scale = people.sum() / (people[:, None] * chance).sum(axis=0)
    counted = rng.binomial(counts[:, None], chance).sum(axis=0)
    noisy = counted + rng.laplace(0, 1 / threshold)
    return Sampled(scale * noisy, np.minimum(budgets, threshold), error)


def _choose_threshold(budgets: Floats, people: Integers) -> tuple[Floats, Floats]:
    """The budget that is the best threshold, lane by lane, and the standard deviation at it."""
    total = people.sum()
    errors = np.full(budgets.shape, np.inf)
    for k, threshold in enumerate(budgets):
        usable = threshold > 0
        safe = np.where(usable, threshold, 1.0)
        chance = inclusion(budgets, safe)
        size = (people[:, None] * chance).sum(axis=0)
        spread = (people[:, None] * chance * (1 - chance)).sum(axis=0) + 2 / safe**2
        errors[k] = np.where(usable, (total / size) ** 2 * spread, np.inf)
    best = errors.argmin(axis=0)
    lanes = np.arange(budgets.shape[1])
    return budgets[best, lanes], np.sqrt(errors[best, lanes])


def simulate(method: str, series: Integers, wishes: Wishes, seed: int, lanes: int = 1) -> Run:
    """Return simulated estimates of the total of a series (steps, groups) of how many of each group's people count at a step.

    >>> wishes = Wishes.of((500, 20, 0.2), (500, 10, 1.0))
    >>> series = np.full((200, 2), 250)
    >>> own, strict = (simulate("pba", series, w, seed=1, lanes=20) for w in (wishes, wishes.strictest()))
    >>> bool(np.abs(own.outputs - 500).mean() < 0.8 * np.abs(strict.outputs - 500).mean())
    True
    """
    if method not in METHODS:
        raise unknown("method", method, METHODS)
    values = np.asarray(series)
    groups = len(wishes.people)
    if values.ndim != 2 or values.shape[1] != groups or (values < 0).any() or (values > wishes.people).any():
        raise InvalidInput(
            f"a series has a row for each step and {groups} counts in it, each of at most its group's people"
        )
    rng, shape = np.random.default_rng(seed), (groups, lanes)
    state = _State(wishes, np.zeros((len(values), *shape)), np.full(shape, -1.0), np.ones(shape))
    asked = np.zeros((len(values), *shape))
    outputs = np.zeros((len(values), lanes))
    for t, counts in enumerate(values.astype(np.int64)):
        budgets = _offer(method, state, t)
        publish = (budgets > 0).any(axis=0)
        if method != "uniform" and t > 0:
            question = sample(counts, np.repeat(_part(wishes), lanes, axis=1), wishes.people, rng)
            asked[t] = question.losses
            _, error = _choose_threshold(np.where(publish, budgets, 1.0), wishes.people)
            publish = publish & (np.abs(question.estimate - outputs[t - 1]) > error)
        new = sample(counts, np.where(publish, budgets, 1.0), wishes.people, rng)
        outputs[t] = np.where(publish, new.estimate, outputs[t - 1] if t else 0.0)
        _record(state, t, np.where(publish, new.losses, 0.0))
    return Run(outputs, state.spent + asked)


class _State(NamedTuple):
    """What outputs have cost (steps, groups, lanes), and the newest that each group paid for: its step, and how many parts."""

    wishes: Wishes
    spent: Floats
    at: Floats
    paid: Floats


def _part(wishes: Wishes) -> Floats:
    """ε_k/2w_k."""
    part: Floats = (wishes.epsilons / (2 * wishes.windows))[:, None]
    return part


def _offer(method: str, state: _State, t: int) -> Floats:
    """What each group may pay for an output at step t, counted from 0."""
    wishes, shape = state.wishes, state.spent.shape[1:]
    if method == "uniform":
        return np.broadcast_to((wishes.epsilons / wishes.windows)[:, None], shape).copy()
    if method == "pbd":
        used = np.array([state.spent[max(0, t - w + 1) : t, k].sum(axis=0) for k, w in enumerate(wishes.windows)])
        return np.asarray(np.maximum(0.0, wishes.epsilons[:, None] / 2 - used) / 2)
    free = np.clip(t - state.at - (state.paid - 1), 0, wishes.windows[:, None])
    return np.asarray(free * _part(wishes))


def _record(state: _State, t: int, losses: Floats) -> None:
    """Remember what an output cost; parts that it used only in part count as used. Who paid nothing stays blocked as before."""
    state.spent[t] = losses
    state.at[:] = np.where(losses > 0, t, state.at)
    state.paid[:] = np.where(losses > 0, np.ceil(losses / _part(state.wishes) - 1e-9), state.paid)
