"""The risk about a set of past steps, against the enumeration of every path of small chains and of every answer about them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from halflife import (
    Accountant,
    AgeDependent,
    AutoRegressive,
    Classical,
    GeometricMixing,
    InvalidInput,
    MarkovChain,
    PeriodicMarkovChain,
    ProcessFamily,
    Release,
)
from halflife.notions.age_dependent.skip import WINDOW
from halflife.processes import Process
from halflife.processes.contraction import EVERYTHING, NOTHING
from thinning import keep

LAZY = np.array([[0.9, 0.1], [0.1, 0.9]])
RING = np.array([[0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.8, 0.1, 0.1]])
HOLED = np.array([[0.6, 0.4, 0.0], [0.2, 0.5, 0.3], [0.1, 0.0, 0.9]])


def law_of(matrix):
    """The stationary law, by solving π(P − 1) = 0, Σπ = 1."""
    equations = np.vstack([matrix.T - np.eye(len(matrix)), np.ones(len(matrix))])
    return np.linalg.lstsq(equations, np.append(np.zeros(len(matrix)), 1.0), rcond=None)[0]


class Paths:
    """Every path of steps 1 … n, the chance of each, and what outputs tell about assignments of states to some of the steps."""

    def __init__(self, kernels, steps, law, about):
        states = len(law)
        self.states, self.paths = states, np.array(list(itertools.product(range(states), repeat=steps)))
        self.chance = law[self.paths[:, 0]]
        for k in range(steps - 1):
            self.chance = self.chance * kernels[k % len(kernels)][self.paths[:, k], self.paths[:, k + 1]]
        self.about = self.code(about)
        self.prior = self.grouped(np.ones(len(self.paths)))
        self.possible = self.prior > 0

    def code(self, steps):
        """One number for the states at these steps, for each path."""
        return self.paths[:, np.array(steps) - 1] @ self.states ** np.arange(len(steps))

    def grouped(self, likelihood):
        """P(outputs, X_S = a) for each assignment a."""
        return np.bincount(self.about, likelihood * self.chance, self.about.max() + 1)

    def told(self, likelihood):
        """ln P(outputs | X_S = a) for each possible assignment a."""
        return np.log(self.grouped(likelihood)[self.possible] / self.prior[self.possible])

    def worst(self, releases, rng=None, rounds=4):
        """The range of `told` for the worst answers of ε-private releases (first, last, loss).

        The ratio of two assignments is a ratio of linear functions of each release's likelihood, which lies between 1 and e^ε at
        each path, so the worst is at a corner. Without `rng` all corners are tried; with it, some, each of which is made worse:
        for two assignments, the best corner of one release after the other, by the order of ratios (Neyman and Pearson).
        """
        codes = [self.code(range(first, last + 1)) for first, last, _ in releases]
        sizes = [self.states ** (last - first + 1) for first, last, _ in releases]
        growth = [math.exp(loss) for *_, loss in releases]
        if rng is None:
            corners = itertools.product(*(itertools.product((False, True), repeat=size) for size in sizes))
            tables = [[np.where(t, g, 1.0) for t, g in zip(corner, growth, strict=True)] for corner in corners]
        else:
            tables = [
                [np.where(rng.random(n) < 0.5, g, 1.0) for n, g in zip(sizes, growth, strict=True)] for _ in range(8)
            ]
        best = 0.0
        for table in tables:
            for _ in range(0 if rng is None else rounds):
                self._sharpen(table, codes, growth)
            told = self.told(np.prod([t[c] for t, c in zip(table, codes, strict=True)], axis=0))
            best = max(best, float(np.ptp(told)))
        return best

    def _sharpen(self, table, codes, growth):
        for k, (code, size) in enumerate(zip(codes, map(len, table), strict=True)):
            others = [t[c] for i, (t, c) in enumerate(zip(table, codes, strict=True)) if i != k]
            rest = np.prod(others, axis=0) if others else np.ones(len(code))
            told = np.full(len(self.prior), np.nan)
            told[self.possible] = self.told(rest * table[k][code])
            high, low = int(np.nanargmax(told)), int(np.nanargmin(told))
            up, down = (
                np.bincount(code[at], (rest * self.chance)[at], size) / self.prior[a]
                for a in (high, low)
                for at in [self.about == a]
            )
            order = np.argsort(-np.divide(up, down, out=np.full(size, np.inf), where=down > 0))
            ratios = [
                (up.sum() + (growth[k] - 1) * up[order[:n]].sum())
                / (down.sum() + (growth[k] - 1) * down[order[:n]].sum())
                for n in range(size + 1)
            ]
            table[k] = np.ones(size)
            table[k][order[: int(np.argmax(ratios))]] = growth[k]


def account_of(process, now, releases, **options):
    """The account after releases (first step, last step, loss), all of them published at `now`."""
    made = [Release(now, loss, now - last, span=last - first + 1) for first, last, loss in releases]
    return Accountant.replay(AgeDependent(99.0, process, **options), made)


def single(*times, loss=0.5):
    return [(t, t, loss) for t in times]


# Exactly ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("times", "about", "attained", "charged"),
    [
        ((1, 2, 3, 4), (1, 2, 3, 4), 2.0, 2.0),  # all data times: the sum of the losses
        ((2,), (1, 3), 0.4873, 0.4877),  # one release between: a block
        ((4,), (1, 7), 0.4028, 0.4049),
        ((2, 3, 4), (1, 5), 1.3649, 1.4505),
        ((3, 4, 8, 9), (1, 6), 1.4065, 1.4568),
        ((1, 3, 5), (1, 3, 5), 1.5, 1.5),
        ((1, 3, 5), (3,), 1.1322, 1.1322),
        ((2, 4, 6), (3, 4), 1.2131, 1.2131),  # outside alone
    ],
)
def test_a_symmetric_chain_by_enumeration(times, about, attained, charged):
    """Every answer of every question about a lazy two-state chain, ε = 0.5: bounds are met, or nearly."""
    paths = Paths([LAZY], max(*times, *about), law_of(LAZY), about)
    now, releases = max(*times, *about), single(*times)
    assert paths.worst(releases) == pytest.approx(attained, abs=6e-5)
    found = account_of(MarkovChain(LAZY), now, releases).retrospective(now, about)
    assert found == pytest.approx(charged, abs=6e-5)
    assert attained - 6e-5 <= found <= 1.064 * attained


@pytest.mark.parametrize(
    ("about", "attained", "charged"),
    [
        ((4,), 2.487, 2.487),
        ((3, 4, 5), 3.120, 3.120),
        ((1, 3, 5, 7), 3.859, 3.860),
        ((2, 7), 3.517, 3.699),
        ((1, 8), 3.224, 3.786),
    ],
)
def test_eight_releases_by_every_corner_of_their_likelihoods(about, attained, charged):
    """The table of docs/theory.md, with all 4^8 combinations of corners carried along together."""
    corners = np.array(list(itertools.product((1.0, math.exp(0.5)), repeat=2)))
    with_outputs, without = np.full((1, 1, 2), 0.5), np.full((1, 1, 2), 0.5)  # combination, assignment, state
    for step in range(1, 9):
        if step > 1:
            with_outputs, without = with_outputs @ LAZY, without @ LAZY
        with_outputs = (with_outputs[:, None] * corners[None, :, None, :]).reshape(-1, with_outputs.shape[1], 2)
        if step in about:
            with_outputs, without = (
                np.concatenate([x * np.eye(2)[0], x * np.eye(2)[1]], axis=1) for x in (with_outputs, without)
            )
    told = np.log(with_outputs.sum(axis=2) / without.sum(axis=2))
    assert np.ptp(told, axis=1).max() == pytest.approx(attained, abs=6e-4)
    assert eight().retrospective(8, about) == pytest.approx(charged, abs=6e-4)


def test_one_end_after_the_other_over_a_long_gap():
    """Four releases, four steps apart: each end is told as if the other one were known; enumerated along the gap."""
    attained, power = 0.0, np.linalg.matrix_power(LAZY, 4)
    for answers in itertools.product(itertools.product((1.0, math.exp(0.5)), repeat=2), repeat=4):
        joint = np.eye(2)
        for f in answers:
            joint = joint @ power * np.array(f)
        told = np.log(joint @ power / np.linalg.matrix_power(LAZY, 20))
        attained = max(attained, float(np.ptp(told)))
    account = account_of(MarkovChain(LAZY), 21, single(5, 9, 13, 17))
    found = account.retrospective(21, [1, 21])
    assert (attained, found) == (pytest.approx(0.6269, abs=6e-5), pytest.approx(0.6628, abs=6e-5))
    assert account.retrospective(21, (1,)) < found


def test_one_release_between_two_steps_by_its_formula():
    """4 atanh(c tanh(ε/4)) is charged, 2 atanh(c tanh(ε/2)) attained, c = (λ^u + λ^v)/(1 + λ^{u+v}), λ = 0.8."""
    for u, v, loss in [(1, 1, 0.5), (2, 5, 1.0), (6, 3, 2.0), (9, 9, 0.1)]:
        c = (0.8**u + 0.8**v) / (1 + 0.8 ** (u + v))
        found = account_of(MarkovChain(LAZY), 30, [(1 + u, 1 + u, loss)]).retrospective(30, [1, 1 + u + v])
        assert found == pytest.approx(4 * math.atanh(c * math.tanh(loss / 4)), rel=1e-9)
        assert found >= 2 * math.atanh(c * math.tanh(loss / 2))


@pytest.mark.parametrize("spans", [[(2, 3, 0.5)], [(2, 4, 0.5)], [(2, 3, 0.5), (3, 4, 0.3)], [(1, 5, 0.7)]])
@pytest.mark.parametrize("about", [(1, 5), (1, 3, 5), (1, 2), (5,)])
def test_releases_of_several_steps_by_enumeration(spans, about):
    """A release that covers one of the steps counts in full; within a gap at its oldest step one way, at its newest the other."""
    paths = Paths([LAZY], 5, law_of(LAZY), about)
    truth = paths.worst(spans, np.random.default_rng(3)) if sum(b - a > 1 for a, b, _ in spans) else paths.worst(spans)
    found = account_of(MarkovChain(LAZY), 5, spans).retrospective(5, about)
    assert truth <= found * (1 + 1e-12)
    assert found <= truth * 1.09
    if about == (1, 3, 5) and len(spans) == 1:
        assert found == pytest.approx(truth, rel=1e-12) == spans[0][2]


# Never too little ---------------------------------------------------------------------------------------------------


def random_case(rng, steps):
    """Releases (first, last, loss) about any of these steps, and a set of them to ask about."""
    releases = []
    for _ in range(int(rng.integers(2, 6))):
        last = int(rng.integers(1, steps + 1))
        first = max(1, last - int(rng.choice([0, 0, 0, 1, 2])))
        releases.append((first, last, float(rng.choice([0.1, 0.5, 1.0, 2.0]))))
    size = int(rng.integers(1, 4))
    return releases, sorted(rng.choice(np.arange(1, steps + 1), size, replace=False).tolist())


def random_matrix(rng, states):
    """A chain that is not reversible, some of them nearly frozen or with zeros."""
    matrix = rng.dirichlet(np.full(states, rng.choice([0.3, 1.0, 4.0])), size=states)
    if rng.random() < 0.3:
        matrix = np.where(rng.random((states, states)) < 0.25, 0.0, matrix) + np.roll(np.eye(states), 1, axis=1) * 0.2
        matrix = matrix + np.eye(states) * 0.1
    return 0.999 * matrix / matrix.sum(axis=1, keepdims=True) + 0.001 * np.eye(states)


OPTIONS = [{}, {"bound": "paper"}, {"bound": "pairwise"}, {"adversary": "any-prior"}]


@pytest.mark.parametrize("seed", keep(range(60), lambda seed: seed % 4 == 0))
def test_no_chain_tells_more_about_a_set(seed):
    """Random chains of 2 and 3 states, data times, ages, spans and sets: the worst answers found stay within every bound.

    An adversary with any prior starts from any law.
    """
    rng = np.random.default_rng(seed)
    states = int(rng.integers(2, 4))
    steps = int(rng.integers(4, 8 if states == 2 else 6))
    matrix, (releases, about) = random_matrix(rng, states), random_case(rng, steps)
    now = steps + int(rng.integers(0, 3))
    for law, options in [(law_of(matrix), OPTIONS), (rng.dirichlet(np.full(states, 0.5)), OPTIONS[3:])]:
        truth = Paths([matrix], steps, law, about).worst(releases, rng)
        for option in options:
            found = account_of(MarkovChain(matrix), now, releases, **option).retrospective(now, about)
            assert truth <= found * (1 + 1e-10) + 1e-14, option
            assert found <= math.fsum(loss for *_, loss in releases) * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_other_markov_processes_tell_no_more(seed):
    """A chain by the time of day, people with different chains, and a process of which distances alone are known."""
    rng = np.random.default_rng(1000 + seed)
    kernels = [random_matrix(rng, 2) for _ in range(2)]
    releases, about = random_case(rng, 5)
    law = law_of(kernels[0] @ kernels[1])
    truth = Paths(kernels, 5, law, about).worst(releases, rng)
    assert truth <= account_of(PeriodicMarkovChain(kernels), 5, releases).retrospective(5, about) * (1 + 1e-10)
    family = account_of(ProcessFamily([MarkovChain(m) for m in kernels]), 5, releases).retrospective(5, about)
    for matrix in kernels:
        assert Paths([matrix], 5, law_of(matrix), about).worst(releases, rng) <= family * (1 + 1e-10)
    lazy = account_of(GeometricMixing(1.0, 0.8), 5, releases).retrospective(5, about)
    assert Paths([LAZY], 5, law_of(LAZY), about).worst(releases, rng) <= lazy * (1 + 1e-10)


def test_questions_about_the_path_are_answered_whatever_is_believed_about_it():
    """ "Was she in state 1 at any of these steps" against "at none": mixtures over paths, with any weights on the set."""
    rng, about = np.random.default_rng(5), (2, 4, 5)
    paths = Paths([RING], 6, law_of(RING), about)
    releases = single(1, 3, 4, 6, loss=0.8)
    risk = account_of(MarkovChain(RING), 6, releases).retrospective(6, about)
    there = np.array([any(a // 3**i % 3 == 1 for i in range(3)) for a in range(27)])
    worst = 0.0
    for _ in range(300):
        answers = [np.where(rng.random(3) < 0.5, math.exp(0.8), 1.0) for _ in releases]
        likelihood = np.prod([f[paths.code([t])] for f, (t, *_) in zip(answers, releases, strict=True)], axis=0)
        told = np.exp(paths.told(likelihood))
        belief = rng.dirichlet(np.full(27, 0.1))
        yes, no = (np.average(told[e], weights=belief[e] + 1e-12) for e in (there, ~there))
        worst = max(worst, abs(math.log(yes / no)))
    assert 0.5 * risk < worst <= risk


def test_a_gap_without_a_bound_on_single_states_costs_the_sum():
    account = account_of(GeometricMixing(1.0, 0.5), 40, single(15, 20, 25))
    assert account.retrospective(40, [1, 40]) == pytest.approx(1.5, rel=1e-12)
    assert account.retrospective(40, [40]) < 1e-3, "of a single state the distances are known"


# Processes with rules of their own ----------------------------------------------------------------------------------


class Forgotten(Process):
    """Nothing of any single earlier state is left: what is known of X_t = X_{t−1} ⊕ X_{t−2} with fair coins."""

    name = "forgotten in sets"
    composes = "once"
    last_lag = 10

    def frontier(self, t, direction="back"):
        return NOTHING if 0 < t <= 10 and direction == "back" else EVERYTHING

    def parameters(self):
        return {}


def test_without_the_markov_property_all_losses_count():
    """X_2 = X_1 ⊕ X_3: known at both ends, the state between is certain, though a chain with those kernels would tell nothing."""
    paths = np.array([(a, b, a ^ b) for a in range(2) for b in range(2)])
    yes = np.where(paths[:, 1] == 1, math.exp(0.7), 1.0)
    assert math.log(yes.max() / yes.min()) == pytest.approx(0.7)  # one path for each X_1, X_3
    made = [Release(3, 0.7, 1)]
    fresh = Accountant.replay(AgeDependent(9.0, MarkovChain(np.full((2, 2), 0.5))), made)
    once = Accountant.replay(AgeDependent(9.0, Forgotten(), horizon=10), made)
    assert fresh.retrospective(3, [1, 3]) < 1e-9
    assert once.retrospective(3, [1, 3]) == once.retrospective(3, 2) == pytest.approx(0.7)


@pytest.mark.parametrize("rho", [0.9, -0.7])
@pytest.mark.parametrize(("start", "end"), [(0, 4), (0, 9), (2, 5)])
def test_an_autoregressive_process_between_two_known_states(rho, start, end):
    """Clipped values with Laplace noise, outputs far to the sides that tell most, integrated on a grid, for ends a span apart."""
    charges, f = {1: 1.0, 3: 0.5, 4: 0.25, 6: 1.0}, abs(rho)
    account = Accountant(AgeDependent(9.0, AutoRegressive(rho, 1.0, 1.0)))
    account.admit(*(Release(9, loss, 9 - t) for t, loss in charges.items()))
    grid = np.linspace(-8, 8, 321)
    density = np.exp(-((grid[None, :] - rho * grid[:, None]) ** 2) / 2)
    kernel = density / density.sum(axis=1, keepdims=True)  # ahead, and back as well

    def seen(t, values):  # of an output far above, or, where ρ < 0 at every other step, far below
        return np.exp((1 if rho > 0 else (-1) ** t) * charges.get(t, 0.0) * np.clip(values, -0.5, 0.5))

    def told(x, y):
        """ln P(outputs | X_start = x, X_end = y), up to a constant."""
        before = after = np.ones(len(grid))
        for t in range(start):
            before = kernel @ (before * seen(t, grid))
        for t in range(9, end, -1):
            after = kernel @ (after * seen(t, grid))
        between = plain = np.exp(-((grid - rho * x) ** 2) / 2) * np.ones(len(grid))
        for t in range(start + 1, end):
            between = between * seen(t, grid)
            if t + 1 < end:
                between, plain = between @ density, plain @ density
        last = np.exp(-((y - rho * grid) ** 2) / 2)
        outside = np.interp(x, grid, before) * seen(start, x) * seen(end, y) * np.interp(y, grid, after)
        return math.log(outside * (between @ last) / (plain @ last))

    worst = np.ptp([told(x, y) for x in (-0.5, 0.5) for y in (-0.5, 0.5)])
    charged, by_hand = account.retrospective(9, [start, end]), 0.0
    for t, loss in charges.items():
        u, v = abs(t - start), abs(end - t)
        by_hand += loss * ((f**u + f**v) / (1 + f ** (u + v)) if start < t < end else f ** min(u, v))
    assert charged == pytest.approx(by_hand, rel=1e-9)
    assert 0.25 * charged < worst <= charged * (1 + 1e-6)


@pytest.mark.parametrize("rho", [0.9, -0.7, 0.0])
def test_an_autoregressive_loss_is_in_proportion_to_how_far_known_states_move_the_others(rho):
    """By conditioning a Gaussian vector: E[X_τ | X_S] moves by Σ_s |w_s| D at most. Far from all clips ln f is linear, and then a
    loss of just that much is attained."""
    about, times, losses = [2, 5, 6, 11], np.arange(1, 14), np.linspace(0.1, 0.5, 13)
    account = Accountant(AgeDependent(9.0, AutoRegressive(rho, 1.0, 1.0)))
    account.admit(*(Release(13, x, 13 - t) for t, x in zip(times.tolist(), losses.tolist(), strict=True)))
    gaps = np.abs(np.subtract.outer(np.arange(1, 14), np.arange(1, 14)))
    law = rho**gaps / (1 - rho**2)
    known = np.array(about) - 1
    weights = np.linalg.solve(law[np.ix_(known, known)], law[known, :])
    moved = np.abs(weights).sum(axis=0)
    assert account.retrospective(13, about) == pytest.approx(float(losses @ moved), rel=1e-9)


def test_with_a_delta_nothing_is_said_about_sets():
    account = Accountant(AgeDependent(1.0, MarkovChain(LAZY), delta=1e-6))
    account.admit(Release(3, 0.1))
    with pytest.raises(InvalidInput, match="pure losses alone"):
        account.retrospective(3, [1, 2])


# What may be asked --------------------------------------------------------------------------------------------------


def eight():
    account = Accountant(AgeDependent(9.0, MarkovChain(LAZY)))
    account.admit(*(Release(k, 0.5) for k in range(1, 9)))
    return account


def test_a_set_of_one_step_is_that_step():
    for process, options in [
        (MarkovChain(RING), {}),
        (MarkovChain(RING), {"adversary": "any-prior"}),
        (GeometricMixing(1.0, 0.8), {"bound": "paper"}),
        (AutoRegressive(-0.8, 1.0, 1.0), {}),
    ]:
        account = account_of(process, 12, single(-2, 1, 4, 5, 9, 12, loss=0.3), **options)
        for s in (-5, -2, 0, 4, 6, 12):
            assert account.retrospective(12, [s]) == account.retrospective(12, s)
    assert eight().retrospective(8, {4}) == eight().retrospective(8, 4) == pytest.approx(2.49, abs=0.005)
    long = Accountant(AgeDependent(9.0, MarkovChain(LAZY)))
    long.admit(*(Release(k, 0.5) for k in range(1, 121)))
    assert long.retrospective(120, range(60, 61)) == pytest.approx(3.12, abs=0.005)


def test_the_order_and_kind_of_a_set_do_not_matter():
    account, found = eight(), eight().retrospective(8, [2, 7])
    for about in ([7, 2], (2, 7, 7, 2), {7, 2}, range(2, 8, 5), np.array([7, 2]), (k for k in (7, 2))):
        assert account.retrospective(8, about) == found
    assert account.retrospective(None, [0, -4]) == account.retrospective(None, 0), (
        "given X_0 the rest tells nothing of X_−4"
    )
    assert account.retrospective(8, range(-3, 9)) == account.retrospective(8, range(1, 9)) == 4.0


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ([], "about no step"),
        ((), "about no step"),
        ([3, 9], "about 9 lies after step 8"),
        (itertools.count(7), "about 9 lies after step 8"),
        (True, "whole number"),
        ([1, True], "whole number"),
        ([1.5], "whole number"),
        ("12", "whole number"),
        (b"12", "whole number"),
        (None, "whole number"),
        (np.array(3.0), "whole number"),
        ([[1, 2]], "whole number"),
        (-(10**30), "further back"),
        ([-(10**400), 4], "further back"),
    ],
)
def test_what_is_no_set_of_earlier_steps_is_refused(about, words):
    with pytest.raises(InvalidInput, match=words) as error:
        eight().retrospective(8, about)
    assert error.value.about == "about"


def test_a_set_that_reaches_into_what_was_forgotten_is_refused():
    for process in (MarkovChain(LAZY), AutoRegressive(0.9, 1.0, 1.0)):
        account = Accountant(AgeDependent(99.0, process))
        account.admit(*(Release(k, 0.01) for k in range(1, WINDOW + 40)))
        with pytest.raises(InvalidInput, match=r"cannot say what is known about step 2"):
            account.retrospective(None, [2, WINDOW + 10])
        assert account.retrospective(None, [40, WINDOW + 10]) > account.retrospective(None, [40])


def test_other_notions_and_accounts_without_a_bound_answer_as_about_one_step():
    account = Accountant(Classical(1.0))
    account.admit(Release(3, 0.1))
    with pytest.raises(InvalidInput, match="protects all times alike"):
        account.retrospective(3, [1, 2])
    exact = Accountant.replay(AgeDependent(1.0, MarkovChain(LAZY)), [Release(3, math.inf, scale=0.0)])
    assert exact.retrospective(3, [1, 2]) == math.inf


def test_a_restored_account_says_the_same():
    account = account_of(MarkovChain(HOLED), 9, [(2, 4, 0.3), (4, 4, 0.2), (6, 8, 0.1), (7, 7, 0.2)])
    again = Accountant.from_json(account.to_json())
    assert again.retrospective(9, [1, 5, 9]) == account.retrospective(9, [1, 5, 9])
