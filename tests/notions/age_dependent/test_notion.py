"""Age-dependent privacy: what an account says against the enumeration of every output, and the witnesses of what is unsound."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halflife import (
    Accountant,
    AgeDependent,
    AutoRegressive,
    BudgetExceeded,
    GeometricMixing,
    InvalidInput,
    MarkovChain,
    PeriodicMarkovChain,
    Release,
)
from halflife.errors import UnboundedLoss
from halflife.notions.age_dependent.fading import AnyPrior
from halflife.notions.age_dependent.skip import WINDOW
from halflife.notions.gaussian_dp import gaussian_epsilon
from halflife.processes import Process
from halflife.processes.contraction import EVERYTHING, NOTHING

COIN = MarkovChain([[0.9, 0.1], [0.1, 0.9]])


def walk(states=6):
    """Left, stay, right with a third each, held at the ends."""
    matrix = np.zeros((states, states))
    for i in range(states):
        for move in (-1, 0, 1):
            matrix[i, min(max(i + move, 0), states - 1)] += 1 / 3
    return MarkovChain(matrix)


def account(notion, schedule, loss=0.5):
    """The account after releases at (step, age), in this order."""
    made = Accountant(notion)
    for step, age in schedule:
        made.admit(Release(step, loss, age))
    return made


def periodic(age, period, releases=8):
    return [(1 + age + k * period, age) for k in range(releases)]


def attained(chain, charges, now, queries=None):
    """The worst |ln ratio| about X_now over every output of randomised responses on the given (data time, ε), by enumeration.

    Each response is about whether the state lies in a set; all sets are tried that `queries` gives for each of them.
    """
    charges = sorted(charges)
    queries = queries or [(set(range(chain.states // 2)),)] * len(charges)
    worst = 0.0
    for sets in itertools.product(*queries):
        for answers in itertools.product((0, 1), repeat=len(charges)):
            told, last = np.ones(chain.states), None
            for (time, loss), inside, answer in zip(charges, sets, answers, strict=True):
                told = told if last is None else chain.kernel(time - last) @ told
                yes = np.array([(z in inside) == answer for z in range(chain.states)])
                told, last = told * np.where(yes, math.exp(loss), 1.0), time
            told = chain.kernel(now - last) @ told
            worst = max(worst, math.log(told.max() / told.min()))
    return worst


def test_proposition_7_outputs_that_are_merged_tell_no_more():
    """Two releases have four outputs. Whatever a reader makes of them, the law of the result is that of sets of outputs."""
    chain = MarkovChain([[0.8, 0.2], [0.3, 0.7]])
    back, yes = chain.kernel(2), np.array([[math.e, 1.0], [1.0, math.e]]) / (1 + math.e)
    outputs = np.array([back @ (yes[a] * (back @ yes[b])) for a, b in itertools.product((0, 1), repeat=2)])
    found = account(AgeDependent(9.0, chain), [(4, 2), (4, 0)], loss=1.0)
    risk = found.risk(6)
    for kept in itertools.product((0.0, 1.0), repeat=4):
        merged = np.array(kept) @ outputs
        assert merged.max() <= merged.min() * math.exp(risk) * (1 + 1e-12)
    single = np.log(outputs.max(axis=1) / outputs.min(axis=1)).max()
    assert single == pytest.approx(risk, rel=1e-9)


# The enumeration of every output ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("age", "period", "risk", "paper", "any_prior"),
    [(2, 4, 0.508608, 0.7990, 0.533), (0, 1, 1.75867, 2.8676, 1.98), (6, 2, 0.288277, None, None)],
)
def test_eight_releases_cost_what_the_enumeration_says(age, period, risk, paper, any_prior):
    """Holds Definitions 9 and 10, T4."""
    schedule = periodic(age, period)
    last = schedule[-1][0]
    found = account(AgeDependent(3.0, COIN), schedule).risk(last)
    assert found == pytest.approx(risk, abs=1e-5)
    assert found == pytest.approx(attained(COIN, [(s - a, 0.5) for s, a in schedule], last), abs=1e-9)
    if paper is not None:
        assert account(AgeDependent(3.0, COIN, bound="paper"), schedule).risk(last) == pytest.approx(paper, abs=1e-4)
        other = account(AgeDependent(3.0, COIN, adversary="any-prior"), schedule).risk(last)
        assert other == pytest.approx(any_prior, abs=1e-3)


schedules = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 5), st.sampled_from([0.1, 0.5, 1.5])), min_size=1, max_size=6
)


def released(gaps):
    """(step, age, loss), steps not going back, ages as they come: equal and older data times included."""
    step, made = 6, []
    for gap, age, loss in gaps:
        step += gap
        made.append((step, age, loss))
    return made


@given(gaps=schedules, later=st.integers(0, 4), stay=st.floats(0.55, 0.99))
@settings(max_examples=60, deadline=None)
def test_a_symmetric_chain_is_accounted_for_exactly_whatever_the_ages(gaps, later, stay):
    chain = MarkovChain([[stay, 1 - stay], [1 - stay, stay]])
    made, acct = released(gaps), Accountant(AgeDependent(100.0, chain))
    for step, age, loss in made:
        acct.admit(Release(step, loss, age))
    charges = {}
    for step, age, loss in made:
        charges[step - age] = charges.get(step - age, 0.0) + loss
    now = made[-1][0] + later
    assert acct.risk(now) == pytest.approx(attained(chain, charges.items(), now), rel=1e-9, abs=1e-9)


@given(gaps=schedules, seed=st.integers(0, 10**6), bound=st.sampled_from(["tight", "paper"]))
@settings(max_examples=40, deadline=None)
def test_no_chain_is_ever_under_reported(gaps, seed, bound):
    rng = np.random.default_rng(seed)
    states = int(rng.integers(2, 4))
    matrix = rng.dirichlet(np.full(states, rng.choice([0.3, 1.0])), size=states) * 0.98 + 0.02 / states
    chain, made = MarkovChain(matrix), released(gaps[:4])
    acct = Accountant(AgeDependent(100.0, chain, bound=bound))
    for step, age, loss in made:
        acct.admit(Release(step, loss, age))
    subsets = [set(c) for n in range(1, states) for c in itertools.combinations(range(states), n)]
    queries = [[subsets[int(rng.integers(len(subsets)))] for _ in range(2)] for _ in made]
    best = attained(chain, [(s - a, x) for s, a, x in made], made[-1][0], queries)
    assert acct.risk(made[-1][0]) >= best - 1e-12


def test_one_release_is_exact_on_any_chain():
    """Holds Definition 4."""
    chain = MarkovChain([[0.7, 0.2, 0.1], [0.05, 0.8, 0.15], [0.3, 0.3, 0.4]])
    sets = [{0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}]
    for age in (1, 3, 9):
        found = account(AgeDependent(9.0, chain), [(10, age)], loss=2.0).risk(10)
        assert found == pytest.approx(attained(chain, [(10 - age, 2.0)], 10, [sets]), rel=1e-9)


@given(gaps=schedules, about=st.integers(1, 12), stay=st.floats(0.6, 0.95))
@settings(max_examples=40, deadline=None)
def test_the_past_is_as_exposed_as_enumeration_says(gaps, about, stay):
    chain = MarkovChain([[stay, 1 - stay], [1 - stay, stay]])
    made, acct = released(gaps), Accountant(AgeDependent(100.0, chain))
    charges = {}
    for step, age, loss in made:
        acct.admit(Release(step, loss, age))
        charges[step - age] = charges.get(step - age, 0.0) + loss
    about = min(about, made[-1][0])
    back = [(t, x) for t, x in charges.items() if t <= about]
    ahead = [
        (2 * about - t, x) for t, x in charges.items() if t > about
    ]  # a symmetric chain looks the same in a mirror
    truth = sum(attained(chain, side, about) for side in (back, ahead) if side)
    assert acct.retrospective(made[-1][0], about) == pytest.approx(truth, rel=1e-9, abs=1e-9)


def test_later_releases_expose_an_earlier_step_further():
    notion = AgeDependent(9.0, COIN)
    assert account(notion, periodic(0, 1, 4)).retrospective(4, about=4) == pytest.approx(1.42, abs=0.005)
    assert account(notion, periodic(0, 1, 8)).retrospective(8, about=4) == pytest.approx(2.49, abs=0.005)
    long = account(notion, periodic(0, 1, 120))
    assert long.retrospective(120, about=60) == pytest.approx(3.12, abs=0.005)
    assert long.risk(120) == pytest.approx(1.81, abs=0.005)


def test_the_past_of_a_chain_that_is_not_reversible_is_not_under_reported():
    ring = MarkovChain([[0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.8, 0.1, 0.1]])
    acct = account(AgeDependent(20.0, ring), [(k, 0) for k in range(1, 6)], loss=0.7)
    worst = 0.0
    for answers in itertools.product((0, 1, 2), repeat=5):  # three-valued randomised response at each step
        seen = [np.where(np.arange(3) == a, math.exp(0.7), 1.0) for a in answers]
        back, ahead = np.ones(3), np.ones(3)
        for f in seen[:2]:
            back = ring.kernel(1) @ (back * f)
        for f in reversed(seen[3:]):
            ahead = ring.matrix @ (ahead * f)
        told = back * seen[2] * ahead
        worst = max(worst, math.log(told.max() / told.min()))
    assert worst <= acct.retrospective(5, about=3) <= 1.6 * worst


# Witnesses: what is unsound, or diverges ----------------------------------------------------------------------------


def theorem_3_as_printed(age, period, loss=0.5, releases=8):
    """ε(t) by publication time: ε(S_n − A_n) counts only what was published by then (erratum A1)."""
    steps = [1 + age + k * period for k in range(releases)]

    def risk(t):
        done = [s for s in steps if s <= t]
        if not done:
            return 0.0
        return math.log1p(0.8 ** (t - done[-1] + age) * math.expm1(loss + risk(done[-1] - age)))

    return risk(steps[-1])


@pytest.mark.parametrize(("age", "printed", "true"), [(3, 0.6148, 0.7573), (5, 0.2832, 0.4713)])
def test_theorem_3_as_printed_under_reports_where_ages_exceed_the_period(age, printed, true):
    """A1."""
    assert theorem_3_as_printed(age, 1) == pytest.approx(printed, abs=1e-4)
    schedule = periodic(age, 1)
    last = schedule[-1][0]
    assert attained(COIN, [(s - age, 0.5) for s, _ in schedule], last) == pytest.approx(true, abs=1e-4)
    for bound in ("tight", "paper"):
        assert account(AgeDependent(9.0, COIN, bound=bound), schedule).risk(last) >= true - 1e-4


def test_a_walk_between_neighbours_needs_leaps():
    """T4a."""
    schedule = periodic(0, 1, 200)
    leaping = account(AgeDependent(200.0, walk()), schedule).risk(200)
    stepwise = account(AgeDependent(200.0, walk(), bound="paper"), schedule).risk(200)
    assert leaping == pytest.approx(6.27, abs=0.005)
    assert stepwise == pytest.approx(100, rel=1e-6)


def test_pairs_of_states_told_apart_are_tighter():
    """T4b."""
    schedule = periodic(0, 1, 30)
    pairs = account(AgeDependent(200.0, walk(), bound="pairwise"), schedule).risk(30)
    assert pairs == pytest.approx(4.98, abs=0.02)  # mathematics: 5.04 after 200 releases, where 6.27 without pairs
    told = np.ones(6)
    for k in range(30):  # an answer that points to the upper half each time
        told = (walk().kernel(1) @ told if k else told) * np.where(np.arange(6) < 3, 1.0, math.exp(0.5))
    assert math.log(told.max() / told.min()) <= pairs


@pytest.mark.parametrize(("low", "truth"), [(0.0, 0.7886), (2.0, 0.9253), (4.0, 1.0668)])
def test_the_recursion_is_unsound_for_an_autoregressive_process_on_a_span(low, truth):
    """φ = 0.9, σ = span = ε = 1, twenty releases: the recursion says 0.525. Outputs that say "high" each time tell more.

    The more so the farther the span lies from the mean, as states between leave it.
    """
    process = AutoRegressive(0.9, 1.0, 1.0)
    recursed = 0.0
    for _ in range(20):
        recursed = process.contract(1.0 + recursed, 1)
    grid = np.linspace(-14, 14, 1401)
    kernel = np.exp(-((grid[None, :] - 0.9 * grid[:, None]) ** 2) / 2)
    kernel /= kernel.sum(axis=1, keepdims=True)
    high, told = np.exp(np.clip(grid, low, low + 1)), np.ones(len(grid))
    for _ in range(20):
        told = kernel @ (told * high)
        told /= told.max()
    found = math.log(np.interp(low + 1, grid, told) / np.interp(low, grid, told))
    acct = account(AgeDependent(20.0, process), periodic(1, 1, 20), loss=1.0)
    assert recursed == pytest.approx(0.525, abs=0.002)
    assert found == pytest.approx(truth, abs=0.002)
    assert recursed < found <= acct.risk(21)


class Forgotten(Process):
    """A process of which single lags are known: nothing of X_{t−1} or of X_{t−2} is left at t."""

    name = "forgotten"
    composes = "once"
    last_lag = 10

    def frontier(self, t, direction="back"):
        return NOTHING if 0 < t <= 10 and direction == "back" else EVERYTHING

    def parameters(self):
        return {}


def test_amplified_losses_do_not_add_up_without_the_markov_property():
    """X_t = X_{t−1} ⊕ X_{t−2}, fair coins: each lag alone tells nothing, both together tell 0.434 at ε = 1."""
    keep = math.e / (1 + math.e)
    same = keep**2 + (1 - keep) ** 2
    truth = math.log(same / (1 - same))
    assert truth == pytest.approx(0.434, abs=5e-4)
    acct = account(AgeDependent(9.0, Forgotten(), horizon=10), [(3, 2), (3, 1)], loss=1.0)
    assert truth <= acct.risk(3) == pytest.approx(1.0)


def test_people_who_move_together_tell_about_each_other():
    """Five followers share a fresh bit that the leader takes over a step later: each chain forgets at once, and yet 5 ε is
    told."""
    fresh = MarkovChain([[0.5, 0.5], [0.5, 0.5]])
    assert fresh.amplify(0.5, 1) < 1e-12
    keep = math.exp(0.5) / (1 + math.exp(0.5))
    assert math.log(keep**5 / (1 - keep) ** 5) == pytest.approx(5 * 0.5)
    assert any("move together" in text for text in AgeDependent.not_protected)
    assert any("independent" in text for text in AgeDependent.assumptions)


def test_an_adversary_who_knows_more_learns_more():
    """From a prior that is not the stationary law the risk passes the stationary bound, and never that for any prior."""
    chain, loss, gap = MarkovChain([[0.9, 0.1], [0.4, 0.6]]), 1.0, 3
    ahead = chain.kernel(gap, "ahead")
    stationary, free = chain.amplify(loss, gap), chain.amplify(loss, gap, adversary="any-prior")
    worst = 0.0
    for p in np.linspace(0.001, 0.999, 999):
        joint = np.array([p, 1 - p])[:, None] * ahead
        back = (joint / joint.sum(axis=0)).T
        for told in ([math.exp(loss), 1.0], [1.0, math.exp(loss)]):
            left = back @ np.array(told)
            worst = max(worst, abs(math.log(left[0] / left[1])))
    assert stationary < worst <= free
    assert worst == pytest.approx(free, rel=1e-4)


# Gaussian noise -----------------------------------------------------------------------------------------------------


def hockey_stick(first, second, cell, epsilon):
    """max over both orders of ∫ (p − e^ε q)⁺."""
    growth = math.exp(epsilon)
    return max(float(np.maximum(a - growth * b, 0).sum()) * cell for a, b in ((first, second), (second, first)))


def test_gaussian_releases_keep_their_delta():
    """Two Gaussian releases about a symmetric chain: the true δ at the account's ε, by integrating their joint density."""
    mu, delta = 1.2, 0.02
    acct = Accountant(AgeDependent(9.0, COIN, delta=delta))
    for step in (1, 4):
        acct.admit(Release(step, mu, noise="gaussian"))
    grid = np.linspace(-9, 10, 1200)
    cell = float(grid[1] - grid[0]) ** 2
    seen = [np.exp(-((grid - mu * state) ** 2) / 2) / math.sqrt(2 * math.pi) for state in (0, 1)]
    density = []
    for now in (0, 1):
        back = COIN.kernel(2)[now]
        before = COIN.kernel(3)
        density.append(sum(back[z] * np.outer(before[z] @ np.array(seen), seen[z]) for z in (0, 1)))
    assert density[0].sum() * cell == pytest.approx(1, abs=1e-6)
    assert hockey_stick(*density, cell, acct.risk(6)) <= delta
    assert acct.risk(6) <= gaussian_epsilon(mu * math.sqrt(2), delta) * (1 + 1e-9)
    assert hockey_stick(*density, cell, acct.risk(6) / 4) > delta  # and the account is not idle


def test_one_gaussian_release_fades_by_theorem_1_at_half_of_delta():
    acct = Accountant(AgeDependent(9.0, COIN, delta=1e-6))
    acct.admit(Release(10, 0.3, 6, noise="gaussian"))
    own = gaussian_epsilon(0.3, 0.5e-6)
    assert acct.risk(10) == pytest.approx(math.log1p(0.8**6 * math.expm1(own)), rel=1e-9)
    assert acct.risk(10) < gaussian_epsilon(0.3, 1e-6) / 2


def test_delta_never_runs_out():
    acct = Accountant(AgeDependent(50.0, COIN, delta=1e-6))
    risks = []
    for step in range(1, 600, 6):
        acct.admit(Release(step, 0.1, noise="gaussian"))
        risks.append(acct.risk(step))
    assert risks[-1] < risks[30] * 1.001
    assert risks[-1] < gaussian_epsilon(0.1 * math.sqrt(len(risks)), 1e-6)
    assert all(c.delta + c.delta_before <= 1e-6 for c in acct._state[0].recent)


def test_gaussian_noise_without_a_delta_has_no_bound():
    with pytest.raises(UnboundedLoss, match="no bounded pure loss"):
        Accountant(AgeDependent(1.0, COIN)).admit(Release(1, 0.1, noise="gaussian"))


# The account --------------------------------------------------------------------------------------------------------


def test_a_data_time_older_than_all_that_is_remembered_counts_in_full():
    acct = account(AgeDependent(50.0, COIN), [(k, 0) for k in range(1, WINDOW + 40)], loss=0.1)
    step = acct.step
    before = acct._state[0].before[0]
    acct.admit(Release(step, 0.3, step - 1))
    assert acct._state[0].before[0] == pytest.approx(before + 0.3)
    with pytest.raises(InvalidInput, match="remembers data times from"):
        acct.retrospective(step, about=2)


def test_older_data_may_be_published_again_for_less():
    acct = account(AgeDependent(1.0, COIN), [(1, 0)], loss=1.0)
    rooms = [acct.headroom(2, age) for age in range(6)]
    assert rooms[0] < rooms[1] < rooms[2]
    for age, room in enumerate(rooms):
        acct.copy().admit(Release(2, room, age))
        with pytest.raises(BudgetExceeded):
            acct.copy().admit(Release(2, room * 1.001, age))


def test_a_process_known_up_to_a_lag_promises_up_to_a_horizon():
    with pytest.raises(InvalidInput, match="horizon of at most 10"):
        AgeDependent(1.0, Forgotten())
    acct = Accountant(AgeDependent(1.0, Forgotten(), horizon=10))
    acct.admit(Release(10, 0.5))
    with pytest.raises(InvalidInput, match="beyond the promise's horizon"):
        acct.risk(11)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: AgeDependent(1.0, COIN, bound="loose"), "unknown bound 'loose'"),
        (lambda: AgeDependent(1.0, COIN, adversary="nobody"), "unknown adversary"),
        (lambda: AgeDependent(1.0, GeometricMixing(1.0, 0.5), adversary="any-prior"), "any prior"),
        (lambda: AgeDependent(1.0, GeometricMixing(1.0, 0.5), bound="pairwise"), "single Markov chain"),
        (lambda: AgeDependent(1.0, AutoRegressive(0.5, 1.0, 1.0), delta=1e-6), "delta above 0"),
        (lambda: AgeDependent(1.0, "a chain"), "a process must be"),
        (lambda: AgeDependent(-1.0, COIN), "epsilon"),
        (lambda: Accountant(AgeDependent(1.0, COIN)).retrospective(0, about=3), "lies after step"),
    ],
)
def test_what_cannot_be_kept_is_refused(make, words):
    with pytest.raises(InvalidInput, match=words):
        make()


def test_an_account_comes_back_from_text_with_its_process():
    acct = account(AgeDependent(3.0, COIN, bound="pairwise"), periodic(0, 2, 5))
    other = Accountant.from_json(acct.to_json())
    assert other.notion == acct.notion
    assert other.exposure(12) == acct.exposure(12)


@pytest.mark.parametrize("spoil", ['"forgot": true', '"forgot": 7', '"past": [[1, 2]]', '"rule": "Once"'])
def test_a_spoilt_account_is_refused(spoil):
    text = account(AgeDependent(3.0, COIN), periodic(0, 2, 3)).to_json()
    key = spoil.split(":")[0]
    start = text.index(key)
    end = text.index("]]" if "past" in key else ",", start) + (2 if "past" in key else 0)
    if "forgot" in key:
        end = text.index("}", start)
    spoilt = text[:start] + spoil + text[end:]
    if spoil == '"forgot": true':
        assert Accountant.from_json(spoilt).risk(9) == Accountant.from_json(text).risk(9)
    else:
        with pytest.raises(InvalidInput):
            Accountant.from_json(spoilt)


def test_a_large_loss_against_any_prior_is_not_rounded_down():
    """Where both tanh are nearly 1 the plain formula loses digits: D = 150, ε = 75 leaves 75 but for 1e-15."""

    class Sharp(MarkovChain):
        def spread(self, t):
            return 150.0

    left = AnyPrior(Sharp([[0.9, 0.1], [0.1, 0.9]]))(np.array([1]), np.array([75.0]))
    assert left[0] >= 75.0 - 1e-9


def test_next_to_no_headroom_is_none():
    """The last room is less than the smallest normal double: it is 0, and no loss below that is tried."""
    chain = PeriodicMarkovChain([[[0.9, 0.1], [0.2, 0.8]], [[0.7, 0.3], [0.4, 0.6]]])
    account = Accountant(AgeDependent(2.0, chain, bound="paper"))
    account.admit(Release(1, account.headroom(1, 2), 2))
    assert account.headroom(1, 1) == 0.0
