"""What each secret loses: the kernels against loops over every placement of every event."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halflife import Secret, Specification, Specifications
from halflife.notions.calibration import composed_epsilon, unit_scales
from halflife.notions.gaussian_dp import gaussian_epsilon
from halflife.notions.swellfish import losses
from halflife.notions.swellfish.certified import gaussian_losses, losses_at_worst, worst_by_step
from halflife.notions.swellfish.live import BLOCK, Live
from halflife.notions.swellfish.losses import Running, worst_costs
from halflife.notions.swellfish.required import cover_all_events, sufficient_scales
from halflife.specifications.neighbours import INTERPRETATIONS
from halflife.specifications.sweep import Timeline

NOISES = ("laplace", "gaussian")
INTERPRETATION = st.sampled_from(INTERPRETATIONS)
NOISE = st.sampled_from(NOISES)


@st.composite
def secrets(draw, first=-5, last=14, longest=5):
    """A secret whose hiding interval lies in [first, last]."""
    duration = draw(st.integers(1, longest))
    start = draw(st.integers(first, last - duration + 1))
    end = draw(st.integers(start + duration - 1, min(last, start + duration + 6)))
    power = draw(st.sampled_from([0.1, 1.0, 2.5, 1 / 3]))
    return Secret(power, duration, start, end, draw(st.sampled_from([0.1, 0.5, 1.0])))


def families(most=4, households=2):
    """Specifications with at least one secret."""
    one = st.lists(secrets(), max_size=most, unique=True)
    many = st.lists(one, min_size=1, max_size=households).filter(any)
    return many.map(lambda lists: Specifications([Specification(held, f"h{i}") for i, held in enumerate(lists)]))


COST = st.just(0.0) | st.floats(1e-6, 2)
NOISE_OF_STEPS = st.lists(st.sampled_from([0.0, 0.0, 0.125, 1.0, 1 / 3, 7.0, 1e-7, 1e6]), min_size=0, max_size=22)


# The definitions, word by word ----------------------------------------------------------------------------------------


def placements(s):
    """Every place of the event in its hiding interval, as sets of steps."""
    return [range(a, a + s.duration) for a in range(s.start, s.end - s.duration + 2)]


def delta(specification, step):
    """Definition 14, exactly."""
    return sum((Fraction(s.power) for s in specification.secrets if s.start <= step <= s.end), Fraction(0))


def brute_cost(specification, s, x, interpretation, noise):
    """The worst cost of s by all placements; x maps steps to noise, absent ones cost nothing."""
    p = 1 if noise == "laplace" else 2

    def total(steps, change):
        """Σ change^p x over the steps."""
        found = [(change(t), x.get(t, 0.0)) for t in steps]
        if any(v == math.inf for _, v in found):
            return math.inf
        return sum((c**p * Fraction(v) for c, v in found), Fraction(0))

    if interpretation == "one-event":
        return max(total(w, lambda t: Fraction(s.power)) for w in placements(s))
    if interpretation == "one-window":
        return max(total(w, lambda t: delta(specification, t)) for w in placements(s))
    each = []
    for other in specification.secrets:
        costs = [total([t for t in w if s.relevant(t)], lambda t: Fraction(other.power)) for w in placements(other)]  # noqa: B023
        each.append(max(costs))
    if any(c == math.inf for c in each):
        return math.inf
    if noise == "laplace":
        return sum(each, Fraction(0))
    linear = Fraction(0)  # no step is moved by more than Δ_t
    for other in specification.secrets:
        weight = [
            sum(Fraction(x.get(t, 0.0)) * Fraction(other.power) * delta(specification, t) for t in w if s.relevant(t))
            for w in placements(other)
        ]
        linear += max(weight)
    return min(float(sum(math.sqrt(c) for c in each)) ** 2, float(linear))


def brute_costs(many, x, first, interpretation, noise):
    held = dict(enumerate(list(x), start=first))
    result = []
    for i in range(len(many)):
        result.append(brute_cost(many.specification(many.name_of(i)), many.secret(i), held, interpretation, noise))
    return result


def close_from_above(found, wanted, rel=1e-9):
    """Never below (but for the last digits of a square root), and at most a part in 10⁹ above."""
    for f, w in zip(found, wanted, strict=True):
        if math.inf in (w, f):
            assert f == w
        elif isinstance(w, Fraction):
            assert Fraction(float(f)) >= w
            assert float(f) <= float(w) * (1 + rel) + 1e-300
        else:
            assert w * (1 - 1e-14) <= f <= w * (1 + rel) + 1e-300


# Sums -----------------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.floats(0, 1e12) | st.floats(0, 1e-9), max_size=30),
    st.integers(-9, 9),
    st.lists(st.tuples(st.integers(-15, 45), st.integers(-15, 45)), min_size=1, max_size=9),
)
def test_running_sums_are_the_exact_sums_rounded_up(terms, first, windows):
    low, high = (np.array(side) for side in zip(*windows, strict=True))
    found = Running(np.array(terms, dtype=np.float64), first).between(low, high).tolist()
    for (a, b), value in zip(windows, found, strict=True):
        exact = sum((Fraction(v) for t, v in enumerate(terms, start=first) if a <= t <= b), Fraction(0))
        assert Fraction(value) >= exact
        assert Fraction(value) <= exact * (1 + Fraction(1, 10**12)) + Fraction(1, 10**15)


def test_a_small_term_keeps_its_digits_beside_large_ones():
    """Steps of very different noise stand in one stream: 10¹² and 10⁻⁶ here."""
    terms = np.array([1e12] * 1000 + [1e-6] * 65)
    found = Running(terms, 0).between(np.array([1000]), np.array([1064]))[0]
    assert 65e-6 <= found <= 65e-6 * (1 + 1e-10)


# Costs ----------------------------------------------------------------------------------------------------------------


@given(families(), NOISE_OF_STEPS, st.integers(-8, 16), INTERPRETATION, NOISE)
def test_worst_costs_are_those_of_the_worst_placement(many, x, first, interpretation, noise):
    """Also where noise is known for part of the steps only, before, across or after the hiding intervals."""
    found = worst_costs(many, np.array(x, dtype=np.float64), first, interpretation, noise)
    close_from_above(found, brute_costs(many, x, first, interpretation, noise))


@given(families(), st.lists(st.sampled_from([0.0, 0.5, math.inf]), min_size=22, max_size=22), INTERPRETATION, NOISE)
def test_an_exact_value_in_the_hiding_interval_exposes_the_secret_and_elsewhere_it_does_not(
    many, x, interpretation, noise
):
    found = worst_costs(many, np.array(x), -6, interpretation, noise)
    held = dict(enumerate(x, start=-6))
    for i in range(len(many)):
        s = many.secret(i)
        assert (found[i] == math.inf) == any(held.get(t) == math.inf for t in range(s.start, s.end + 1))
    finite = [v if v < math.inf else 0.0 for v in x]
    wanted = brute_costs(many, finite, -6, interpretation, noise)
    close_from_above(found[np.isfinite(found)], [w for w, f in zip(wanted, found, strict=True) if f < math.inf])


@pytest.mark.parametrize("interpretation", INTERPRETATIONS)
@pytest.mark.parametrize("noise", NOISES)
def test_so_little_noise_that_doubles_overflow_is_no_noise(interpretation, noise):
    many = Specifications(Specification([Secret(1.0, 2, 1, 5, 1.0)], "a"))
    assert worst_costs(many, np.array([1e308, 1e308, 1e308]), 1, interpretation, noise).tolist() == [math.inf]
    assert worst_costs(many, np.array([1e308, 1.0]), 0, interpretation, noise) == pytest.approx([1.0])


@pytest.mark.parametrize("interpretation", INTERPRETATIONS)
def test_nothing_published_costs_nothing(interpretation):
    many = Specifications(Specification([Secret(1.0, 2, 1, 5, 1.0)], "a"))
    assert worst_costs(many, np.zeros(0), 3, interpretation) == pytest.approx([0.0], abs=1e-300)
    assert worst_costs(many, np.zeros(9), 1, interpretation) == pytest.approx([0.0], abs=1e-300)


def test_a_hiding_interval_that_was_over_before_costs_nothing():
    many = Specifications(Specification([Secret(2.0, 1, 1, 4, 1.0), Secret(2.0, 1, 30, 40, 1.0)], "a"))
    for interpretation in INTERPRETATIONS:
        assert worst_costs(many, np.ones(5), 10, interpretation) == pytest.approx([0.0, 0.0], abs=1e-300)


def test_other_households_events_do_not_count():
    one = Specification([Secret(1.0, 2, 1, 5, 1.0)], "a")
    other = Specification([Secret(9.0, 3, 2, 8, 1.0)], "b")
    x = np.full(10, 0.25)
    for interpretation in INTERPRETATIONS:
        for noise in NOISES:
            alone = worst_costs(Specifications(one), x, 1, interpretation, noise)
            assert worst_costs(Specifications([one, other]), x, 1, interpretation, noise)[0] == alone[0]


@given(families(), NOISE_OF_STEPS, INTERPRETATION, NOISE, st.integers(1, 7))
def test_looking_at_few_placements_at_a_time_changes_nothing(many, x, interpretation, noise, most):
    whole = worst_costs(many, np.array(x, dtype=np.float64), -4, interpretation, noise)
    before = losses.MOST_PLACES
    losses.MOST_PLACES = most
    try:
        assert worst_costs(many, np.array(x, dtype=np.float64), -4, interpretation, noise).tolist() == whole.tolist()
    finally:
        losses.MOST_PLACES = before


@given(
    st.lists(secrets(0, 8, 3), min_size=1, max_size=3, unique=True),
    st.lists(COST, min_size=9, max_size=9),
)
def test_under_all_events_the_gaussian_cost_bounds_every_joint_placement(held, x):
    """max over joint placements of Σ_t (Σ_s p 1[t ∈ W_s])² x_t within J: never above, and the same if no two events can meet."""
    spec = Specification(held, "a")
    found = worst_costs(Specifications(spec), np.array(x), 0, "all-events", "gaussian")
    order = Specifications(spec)
    for i in range(len(order)):
        s = order.secret(i)
        worst = 0.0
        for joint in itertools.product(*(placements(o) for o in spec.secrets)):
            change = [sum(o.power for o, w in zip(spec.secrets, joint, strict=True) if t in w) for t in range(9)]
            worst = max(worst, sum(c * c * x[t] for t, c in enumerate(change) if s.relevant(t)))
        assert found[i] >= worst * (1 - 1e-12)
        if len(held) == 1:
            assert found[i] == pytest.approx(worst, rel=1e-9, abs=1e-300)
    mu = sum(o.power * math.sqrt(sum(x)) for o in spec.secrets)
    assert (found <= mu**2 * (1 + 1e-9) + 1e-300).all()


def test_the_gaussian_bound_is_exact_where_hiding_intervals_are_apart():
    """Ten events of 3 kW with disjoint J in the J of a small one: μ² adds up, where the sum of the μ says ten times as much."""
    ten = [Secret(3.0, 10, 10 * k + 1, 10 * k + 10, 1.0) for k in range(10)]
    apart = Specifications(Specification([Secret(1e-9, 2, 1, 100, 1.0), *ten], "a"))
    costs = worst_costs(apart, np.full(100, 1e-4), 1, "all-events", "gaussian")
    assert costs.max() == pytest.approx(100 * 9 * 1e-4, rel=1e-6)


def test_the_gaussian_bound_is_exact_where_events_happen_at_once():
    """Two events that must lie on the same steps: (p + q)² T x."""
    both = Specifications(Specification([Secret(1.0, 3, 1, 3, 1.0), Secret(2.0, 3, 1, 3, 1.0)], "a"))
    assert worst_costs(both, np.full(3, 0.5), 1, "all-events", "gaussian") == pytest.approx([9 * 3 * 0.5] * 2, rel=1e-9)


@given(
    st.lists(secrets(0, 6, 3), min_size=1, max_size=3, unique=True),
    st.lists(COST, min_size=7, max_size=7),
)
def test_under_all_events_the_laplace_cost_is_the_worst_joint_placement(held, x):
    spec = Specification(held, "a")
    order = Specifications(spec)
    found = worst_costs(order, np.array(x), 0, "all-events")
    for i in range(len(order)):
        s = order.secret(i)
        worst = 0.0
        for joint in itertools.product(*(placements(o) for o in spec.secrets)):
            change = [sum(o.power for o, w in zip(spec.secrets, joint, strict=True) if t in w) for t in range(7)]
            worst = max(worst, sum(c * x[t] for t, c in enumerate(change) if s.relevant(t)))
        assert worst * (1 - 1e-12) <= found[i] <= worst * (1 + 1e-9) + 1e-300


# Step by step ---------------------------------------------------------------------------------------------------------


@given(families(), NOISE_OF_STEPS.filter(bool), st.integers(-6, 10), INTERPRETATION, NOISE)
def test_live_costs_are_those_of_the_windows_that_end_at_the_step(many, x, first, interpretation, noise):
    live = Live(many, interpretation, noise)
    for step in range(first, first + len(x)):
        held = {t: v for t, v in enumerate(x, start=first) if t <= step}
        rows, found = live.costs(step, np.array([held[t] for t in sorted(held)]), first)
        assert rows.tolist() == [i for i in range(len(many)) if many.secret(i).relevant(step)]
        for i, cost in zip(rows.tolist(), found.tolist(), strict=True):
            s, spec = many.secret(i), many.specification(many.name_of(i))
            if interpretation == "all-events":
                wanted = brute_cost(spec, s, held, interpretation, noise)
            else:
                window = range(max(s.start, step - s.duration + 1), step + 1)
                p = 1 if noise == "laplace" else 2
                change = {t: Fraction(s.power) if interpretation == "one-event" else delta(spec, t) for t in window}
                wanted = sum((change[t] ** p * Fraction(held.get(t, 0.0)) for t in window), Fraction(0))
            close_from_above([cost], [wanted])


@pytest.mark.parametrize("interpretation", INTERPRETATIONS)
@pytest.mark.parametrize("noise", NOISES)
def test_the_largest_live_cost_is_the_worst_cost(interpretation, noise):
    """Over the edges of the blocks in which secrets are picked, with intervals longer than a block."""
    rng = np.random.default_rng(3)
    held = []
    for _ in range(25):
        duration, start = int(rng.integers(1, 90)), int(rng.integers(BLOCK - 200, 2 * BLOCK + 100))
        end = start + duration - 1 + int(rng.integers(0, 2 * BLOCK if rng.random() < 0.2 else 60))
        held.append(Secret(float(rng.uniform(0.1, 3)), duration, start, end, 1.0))
    many = Specifications([Specification(held[:15], "a"), Specification(held[15:], "b")])
    x, first = rng.uniform(0, 1, 1900), BLOCK - 250
    live, best = Live(many, interpretation, noise), np.zeros(len(many))
    ends = np.unique(
        [
            *many.end,
            *range(BLOCK - 2, BLOCK + 3),
            *range(first, first + 1900, 1 if interpretation != "all-events" else 97),
        ]
    )
    for step in ends.tolist():
        if first <= step < first + len(x):
            rows, costs = live.costs(step, x[: step - first + 1], first)
            best[rows] = np.maximum(best[rows], costs)
    assert best == pytest.approx(worst_costs(many, x, first, interpretation, noise), rel=1e-9)


def test_old_data_under_all_events_counts_with_what_was_published_after_it():
    """The second interval begins in a later block than the data that comes late."""
    held = [Secret(1.0, 2, BLOCK - 90, BLOCK + 200, 1.0), Secret(3.0, 2, BLOCK + 50, BLOCK + 300, 1.0)]
    many = Specifications(Specification(held, "a"))
    x = np.zeros(300)
    x[20], x[180] = 1 / 5, 1 / 20  # steps BLOCK − 30, and BLOCK + 130
    rows, costs = Live(many, "all-events", "laplace").costs(BLOCK - 30, x, BLOCK - 50)
    assert rows.tolist() == [0]
    assert costs == pytest.approx([1 / 5 + 3 / 20])


@given(families(), NOISE_OF_STEPS.filter(bool), st.integers(-6, 10), INTERPRETATION, NOISE)
def test_the_worst_by_step_is_the_worst_window_that_ends_there(many, x, first, interpretation, noise):
    limits = many.epsilon
    shares, costs, epsilons = worst_by_step(many, limits, np.array(x), first, interpretation, noise)
    live = Live(many, interpretation, noise)
    for k in range(len(x)):
        rows, found = live.costs(first + k, np.array(x[: k + 1]), first)
        wanted = max((found / limits[rows]).tolist(), default=0.0)
        if interpretation == "all-events":  # the whole cost counts from the start on
            assert np.max(shares[: k + 1]) >= wanted * (1 - 1e-9)
        else:
            assert shares[k] == pytest.approx(wanted, rel=1e-9, abs=1e-300)
        if shares[k] > 0:
            assert costs[k] == pytest.approx(shares[k] * epsilons[k], rel=1e-9)
    if interpretation == "all-events":
        assert np.max(shares) == pytest.approx(
            np.max(worst_costs(many, np.array(x), first, interpretation, noise) / limits), abs=1e-300
        )


# How much noise suffices ----------------------------------------------------------------------------------------------


@given(families(), INTERPRETATION)
def test_the_sufficient_scale_is_the_formula_at_every_step(many, interpretation):
    asked = many.duration / many.epsilon if interpretation != "all-events" else cover_all_events(many, 0.0, "laplace")
    found = sufficient_scales(Timeline(many), interpretation, asked)
    for step in range(-8, 18):
        wanted = 0.0
        for spec in many:
            held = spec.relevant(step)
            for s in held:
                if interpretation == "one-event":
                    scale = s.power * s.duration / s.epsilon
                elif interpretation == "one-window":
                    scale = spec.sensitivity(step) * s.duration / s.epsilon
                else:
                    shared = {
                        o: len(set(range(s.start, s.end + 1)) & set(range(o.start, o.end + 1))) for o in spec.secrets
                    }
                    scale = sum(o.power * min(o.duration, n) for o, n in shared.items()) / s.epsilon
                wanted = max(wanted, scale)
        assert wanted * (1 - 1e-12) <= found.at(step) <= wanted * (1 + 1e-9)


@given(families(most=3, households=1))
@settings(max_examples=25)
def test_with_delta_all_events_are_covered_by_both_rules_and_no_less(many):
    spec = next(iter(many))
    gaussian = cover_all_events(many, 1e-5, "gaussian")
    laplace = cover_all_events(many, 1e-5, "laplace")
    for i in range(len(many)):
        s = many.secret(i)
        shared = {o: min(o.duration, min(s.end, o.end) - max(s.start, o.start) + 1) for o in spec.secrets}
        shared = {o: n for o, n in shared.items() if n > 0}
        unit = float(unit_scales([1], [s.epsilon], 1e-5, "gaussian")[0])
        most = float(max(delta(spec, t) for t in range(s.start, s.end + 1)))
        triangle = sum(o.power * math.sqrt(n) for o, n in shared.items())
        linear = math.sqrt(most * sum(o.power * n for o, n in shared.items()))
        assert gaussian[i] == pytest.approx(unit * min(triangle, linear), rel=1e-9)
        steps = min(s.end - s.start + 1, sum(shared.values()))
        pure = sum(o.power * n for o, n in shared.items()) / s.epsilon
        mixed = most * float(unit_scales([steps], [s.epsilon], 1e-5, "laplace")[0])
        assert laplace[i] == pytest.approx(min(pure, mixed), rel=1e-9)


# Losses at δ ----------------------------------------------------------------------------------------------------------

DELTA = 1e-5


@given(families(most=3), st.lists(st.sampled_from([0.0, 0.01, 0.02, 0.1]), min_size=20, max_size=20), INTERPRETATION)
def test_gaussian_losses_are_those_of_mu(many, unit, interpretation):
    found = losses_at_worst(many, np.array(unit), -5, interpretation, DELTA, "gaussian")
    wanted = [
        gaussian_epsilon(math.sqrt(c), DELTA)
        for c in brute_costs(many, np.array(unit) ** 2, -5, interpretation, "gaussian")
    ]
    assert found == pytest.approx(wanted, rel=1e-6, abs=1e-9)


def test_many_different_gaussian_losses_round_up_by_a_part_in_500_at_most():
    costs = np.append(np.geomspace(1e-6, 4.0, 2500), [0.0, math.inf])
    found = gaussian_losses(costs, DELTA)
    assert found[-2:].tolist() == [0.0, math.inf]
    some = slice(0, 2500, 50)
    exact = np.array([gaussian_epsilon(math.sqrt(c), DELTA) for c in costs[some].tolist()])
    assert (found[some] >= exact * (1 - 1e-12)).all()
    assert (found[some] <= exact * (1 + 1 / 400) + 1e-9).all()


def test_secrets_that_keep_their_limit_are_never_said_to_lose_more_however_many_there_are():
    rng = np.random.default_rng(0)
    n = 2600
    held = [Secret(1.0, int(rng.integers(1, 6)), 10 * i + 1, 10 * i + 8, float(rng.uniform(0.1, 1))) for i in range(n)]
    many = Specifications(Specification(held, "a"))
    scales = sufficient_scales(
        Timeline(many), "one-window", unit_scales(many.duration, many.epsilon, DELTA, "gaussian")
    )
    found = losses_at_worst(many, 1 / (scales.over(1, 10 * n) + 1e-300), 1, "one-window", DELTA, "gaussian")
    assert (found <= many.epsilon * (1 + 1e-12)).all()
    assert (found >= many.epsilon * 0.99).all()


def test_laplace_losses_with_delta_are_those_of_equal_releases_of_the_worst_step():
    """Below the calibrated loss a share of ε, above it composed; never more than the pure loss."""
    many = Specifications(Specification([Secret(1.0, 20, 1, 30, 0.5)], "a"))
    unit = float(unit_scales([20], [0.5], DELTA, "laplace")[0])
    for factor in (0.25, 0.5, 1.0, 2.0):
        found = losses_at_worst(many, np.full(30, factor / unit), 1, "one-window", DELTA, "laplace")[0]
        exact = composed_epsilon(20, factor / unit, DELTA, "laplace")
        assert exact * (1 - 1e-6) <= found <= min(20 * factor / unit, max(factor * 0.5, exact)) * (1 + 1e-6)
    assert losses_at_worst(many, np.full(30, 2 / unit), 1, "one-window", DELTA, "laplace")[0] > 2 * 0.5
    assert losses_at_worst(many, np.full(30, math.inf), 1, "one-window", DELTA, "laplace")[0] == math.inf
    one = np.zeros(30)
    one[4] = 0.03  # a single step: the pure loss is smaller than that of 20 such steps
    assert losses_at_worst(many, one, 1, "one-window", DELTA, "laplace")[0] == pytest.approx(0.03)


def test_laplace_losses_with_delta_under_all_events_are_a_share_of_the_cover_or_pure():
    held = [Secret(1.0, 20, 1, 30, 0.5), Secret(2.0, 20, 11, 40, 0.5)]
    many = Specifications(Specification(held, "a"))
    cover = cover_all_events(many, DELTA, "laplace")
    found = losses_at_worst(many, np.full(40, 0.5 / cover.max()), 1, "all-events", DELTA, "laplace")
    assert found == pytest.approx(0.25 * cover / cover.max(), rel=1e-9)
    pure = worst_costs(many, np.full(40, 0.3), 1, "all-events")
    assert losses_at_worst(many, np.full(40, 0.3), 1, "all-events", DELTA, "laplace").tolist() == pure.tolist()


def test_where_too_many_secrets_lose_too_much_their_pure_loss_is_told():
    rng = np.random.default_rng(5)
    held = [Secret(float(rng.uniform(1, 2)), 4, 10 * i + 1, 10 * i + 6, 0.1) for i in range(302)]
    many = Specifications(Specification(held, "a"))
    unit = np.full(3020, 0.5)
    found = losses_at_worst(many, unit, 1, "one-event", DELTA, "laplace")
    assert found.tolist() == worst_costs(many, unit, 1, "one-event").tolist()
    few = losses_at_worst(many.only(slice(0, 3)), unit, 1, "one-event", DELTA, "laplace")
    assert (few < found[:3]).all()
