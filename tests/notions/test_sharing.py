"""Shared draws under notions of independent noise: what is reported covers what is attained, or there is no bound."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halflife import (
    Accountant,
    AgeDependent,
    Classical,
    ExponentialDiscount,
    GaussianDiscount,
    HyperbolicDiscount,
    InvalidInput,
    MarkovChain,
    Release,
    ReleaseDraw,
    Secret,
    Specification,
    Swellfish,
    UnboundedLoss,
    WEvent,
)
from halflife.audit.exact import worst_loss
from halflife.notions.gaussian_dp import gaussian_epsilon
from halflife.notions.sharing import load_draws

HOME = MarkovChain([[0.9, 0.1], [0.1, 0.9]])
WITNESS = (Release(1, 0.001, scale=1000.0, draw="v"), Release(2, 1.0, scale=1.0, atop="v"))


# What is attained: densities of what was published, from their definition -----------------------------------------------


def log_weights(moves, releases, outputs):
    """Return ln of the (unnormalised) probability of each output if the values moved so far: discrete Laplace noise, one `v` for
    all releases that name it. Without a release of v alone it is summed over all that it can be."""
    noise = outputs - np.asarray(moves, dtype=np.float64)
    scales = np.array([r.scale for r in releases])
    named = np.array([r.draw is not None or r.atop is not None for r in releases])
    alone = [i for i, r in enumerate(releases) if r.draw is not None]
    if alone:
        return _given(noise, noise[:, alone[0]], scales, named, alone)
    if not named.any():
        return -(np.abs(noise) / scales).sum(axis=1)
    shared = np.arange(-96.0, 97.0, 8.0)  # any law will do for noise that nobody sees
    each = [_given(noise, np.full(len(noise), v), scales, named, []) - abs(v) / 8.0 for v in shared]
    return np.logaddexp.reduce(each, axis=0)


def _given(noise, v, scales, named, alone):
    own = np.where(named, noise - v[:, None], noise)
    for i in alone:
        own[:, i] = noise[:, i]
    return -(np.abs(own) / scales).sum(axis=1)


def attained(releases, reach):
    """Return the largest loss seen on a grid of outputs, over all ways to move release k by −reach_k, 0 or reach_k."""
    outputs = np.array(list(itertools.product((-32.0, -12.0, 0.0, 12.0, 32.0), repeat=len(releases))))
    still = log_weights([0.0] * len(releases), releases, outputs)
    moved = itertools.product(*((-x, 0.0, x) if x else (0.0,) for x in reach))
    return max(float(np.abs(log_weights(m, releases, outputs) - still).max()) for m in moved)


def test_the_witness_attains_what_was_not_reported():
    assert attained(WITNESS, [1.0, 1.0]) == pytest.approx(2.001)


@pytest.mark.parametrize(
    "notion",
    [
        Classical(9.0),
        ExponentialDiscount(9.0, alpha=1.0),
        HyperbolicDiscount(9.0, 0.0),
        ExponentialDiscount(9.0, alpha=0.9),
    ],
    ids=str,
)
def test_fresh_noise_atop_a_published_draw_shows_both_values(notion):
    """y₁ = f₁ + v, y₂ = f₂ + v + u: the difference moves by Δ₁ + Δ₂ under u alone."""
    account = Accountant(notion)
    account.admit(*WITNESS)
    fade = 0.9 if getattr(notion, "alpha", None) == 0.9 else 1.0
    assert account.risk() == pytest.approx(2.0 + fade * 0.001, rel=1e-7)
    assert account.risk() >= attained(WITNESS, [fade, 1.0]) * (1 - 1e-12)
    assert Accountant.replay(notion, WITNESS).risk() == account.risk()
    assert Accountant.replay(notion, [Release(1, 0.001, draw="v"), Release(2, 1.0, atop="v")]).risk() == account.risk()


@pytest.mark.parametrize(
    "notion",
    [
        WEvent(9.0, 5),
        WEvent(9.0, 5, 1e-6),
        AgeDependent(9.0, HOME),
        Swellfish(Specification([Secret(1.0, 2, 1, 9, 9.0)])),
    ],
    ids=["w-event", "w-event with a delta", "age-dependent", "swellfish"],
)
def test_where_data_times_count_a_draw_that_was_published_about_another_one_has_no_bound(notion):
    account = Accountant(notion)
    account.admit(WITNESS[0])
    before = account.to_json()
    with pytest.raises(UnboundedLoss, match="tells about that time again"):
        account.admit(WITNESS[1])
    assert account.to_json() == before
    assert Accountant.replay(notion, WITNESS).risk() == math.inf


def test_a_window_that_holds_only_the_first_value_loses_with_every_later_one():
    """Why there is no bound: w = 1, and nothing but the data of step 1 moves."""
    history = [WITNESS[0], *(Release(k, 1.0, scale=1.0, atop="v") for k in (2, 3, 4))]
    assert attained(history, [1.0, 0.0, 0.0, 0.0]) == pytest.approx(3.001)


@pytest.mark.parametrize("notion", [WEvent(9.0, 5), AgeDependent(9.0, HOME)], ids=["w-event", "age-dependent"])
def test_about_one_data_time_the_difference_is_charged(notion):
    account = Accountant(notion)
    account.admit(WITNESS[0], Release(1, 1.0, scale=1.0, atop="v"))
    assert account.risk() == pytest.approx(2.001)


def test_secrets_have_no_bound_for_a_difference():
    notion = Swellfish(Specification([Secret(1.0, 2, 1, 9, 9.0)]))
    assert Accountant.replay(notion, [WITNESS[0], Release(1, 1.0, scale=1.0, atop="v")]).risk() == math.inf


def test_gaussian_noise_adds_sensitivities_too():
    """μ² = (Δ₁/σ_v)² + ((Δ₁ + Δ₂)/σ_u)²."""
    history = [
        Release(1, 0.5, sensitivity=2.0, scale=4.0, noise="gaussian", draw="v"),
        Release(1, 0.25, sensitivity=1.0, scale=4.0, noise="gaussian", atop="v"),
    ]
    expected = gaussian_epsilon(math.hypot(0.5, 0.75), 1e-6)
    for notion in (Classical(9.0, 1e-6), WEvent(9.0, 2, 1e-6), GaussianDiscount(9.0, 1e-6, half_life=4)):
        assert Accountant.replay(notion, history).risk() == pytest.approx(expected, rel=1e-7)


def test_with_a_delta_the_two_losses_are_one_of_their_sum():
    """Two Laplace noises of losses 1 and 1 lose less at a δ than one of loss 2."""
    history = [Release(1, 1e-9, draw="v"), Release(2, 1.0, atop="v")]
    one = Accountant.replay(Classical(9.0, 1e-3), [Release(1, 2.0)]).risk()
    assert Accountant.replay(Classical(9.0, 1e-3), history).risk() == pytest.approx(one, rel=1e-6)
    assert one > Accountant.replay(Classical(9.0, 1e-3), [Release(1, 1.0), Release(2, 1.0)]).risk() * 1.0001


def test_noise_that_is_never_published_alone_costs_nothing():
    """Three values under fresh noise on one v: given v they are independent; the densities lose no more."""
    history = [Release(k, 0.5, sensitivity=4.0, scale=8.0, atop="v") for k in (1, 2, 3)]
    risk = Accountant.replay(Classical(9.0), history).risk()
    assert risk == pytest.approx(1.5)
    assert 1.0 - 1e-3 < attained(history, [4.0, 4.0, 4.0]) <= risk


def test_different_sensitivities_and_several_fresh_noises_add_up():
    history = [
        Release(1, 0.5, sensitivity=4.0, scale=8.0, draw="v"),
        Release(1, 0.25, sensitivity=2.0, scale=8.0, atop="v"),
        Release(3, 2.0, sensitivity=8.0, scale=4.0, atop="v"),
        Release(3, 0.125),
    ]
    account = Accountant(Classical(9.0))
    account.admit(*history)
    assert account.risk() == pytest.approx(4 / 8 + 6 / 8 + 12 / 4 + 0.125)
    assert attained(history[:3], [4.0, 2.0, 8.0]) == pytest.approx(4 / 8 + 6 / 8 + 12 / 4)


@pytest.mark.parametrize(
    ("history", "words"),
    [
        ([Release(1, 1.0, atop="v"), Release(1, 0.1, draw="v")], "lay under fresh noise before"),
        ([Release(1, 1.0, atop="v"), Release(9, 0.1, draw="v")], "lay under fresh noise before"),
        ([Release(1, 0.1, draw="v"), Release(1, 0.1, draw="v")], "was used before"),
        ([Release(1, 0.1, draw="v"), Release(1, 1.0, atop="v"), Release(2, 0.1, draw="v")], "was used before"),
        ([Release(1, 0.1, draw="v"), Release(1, 0.0, atop="v")], "is not known"),
        ([Release(1, 0.1, draw="v"), Release(1, 0.0, sensitivity=0.0, atop="v")], "is not known"),
        ([Release(1, 0.1, sensitivity=1e200, draw="v"), Release(1, 1.0, sensitivity=1e-200, atop="v")], "is not known"),
        ([Release(1, 0.1, draw="v"), Release(1, 0.1, noise="gaussian", atop="v")], "is not known"),
        ([Release(1, 0.1, draw="v"), Release(1, math.inf, scale=0.0, atop="v")], "exact value"),
    ],
)
@pytest.mark.parametrize("notion", [Classical(9.0, 1e-6), Classical(9.0), WEvent(9.0, 3)], ids=["δ", "pure", "w-event"])
def test_what_is_not_proved_has_no_bound(notion, history, words):
    account = Accountant(notion)
    account.admit(*history[:-1])
    before = account.to_json()
    with pytest.raises(UnboundedLoss, match=words):
        account.admit(history[-1])
    assert account.to_json() == before
    with pytest.raises(UnboundedLoss, match=words):
        Accountant(notion).admit(*history)
    assert words in Accountant.replay(notion, history).why_unbounded


def test_a_constant_atop_a_published_draw_shows_the_first_value():
    """f₂ is the same for everybody, and y₂ − y₁ still moves by Δ₁ under u."""
    history = [Release(1, 0.25, scale=4.0, draw="v"), Release(2, 0.0, sensitivity=0.0, scale=2.0, atop="v")]
    assert Accountant.replay(Classical(9.0), history).risk() == pytest.approx(0.75)
    assert attained(history, [1.0, 0.0]) == pytest.approx(0.75)


def test_a_shared_draw_does_not_lie_atop_another():
    with pytest.raises(InvalidInput, match="cannot itself lie atop"):
        Release(1, 0.1, draw="v", atop="w")


@pytest.mark.parametrize("split", [0, 1, 2])
def test_a_saved_account_knows_what_was_published_alone(split):
    account = Accountant(Classical(9.0))
    history = [WITNESS[0], Release(1, 0.1, atop="w"), WITNESS[1]]
    account.admit(*history[:split])
    account = Accountant.from_json(account.to_json())
    account.admit(*history[split:])
    assert account.risk() == pytest.approx(2.101)
    assert account.agrees(Accountant.replay(Classical(9.0), history))
    assert account.draws == {"v"}
    with pytest.raises(UnboundedLoss, match="lay under fresh noise"):
        Accountant.from_json(account.to_json()).admit(Release(3, 0.1, draw="w"))


@pytest.mark.parametrize(
    "draws",
    ["v", [1], [["v", 1.0]], [["v", -1.0, 1, "laplace"]], [["v", 1.0, 1, "cauchy"]], ["v", ["v"]], ["v"], [[]], None],
)
def test_damaged_names_are_refused(draws):
    with pytest.raises(InvalidInput):
        load_draws(draws)


def test_release_grade_draws_are_charged_the_same():
    account = Accountant(Classical(9.0))
    draw = ReleaseDraw(account)
    with draw.step(1) as d:
        d("v", 1.0, scale=4.0, lattice=0.5)
    with draw.step(2) as d:
        d(None, 1.0, scale=2.0, lattice=0.5, atop=("v", 1.0, 4.0))
    assert account.risk() == pytest.approx(1 / 4 + 2 / 2, rel=1e-3)
    assert account.risk() >= 1.25
    again = ReleaseDraw(account)
    again.restore(draw.state())
    with again.step(3) as d:
        d(None, 1.0, scale=2.0, lattice=0.5, atop=("v", 1.0, 4.0))
    assert account.risk() >= 2.25


SCALES = st.sampled_from([4.0, 8.0])
RELEASES = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["draw", "atop", "atop", None]), st.sampled_from([4.0, 8.0]), SCALES),
    min_size=1,
    max_size=3,
)


@given(RELEASES)
@settings(max_examples=60, deadline=None)
def test_no_history_of_shared_draws_loses_more_than_is_reported(chosen):
    """Against densities summed on a grid, over all neighbours of each notion; a name that is published alone twice is skipped, as
    its difference is exact."""
    step, history = 1, []
    for gap, use, sensitivity, wanted in chosen:
        step += gap
        scale = 8.0 if use == "draw" else wanted
        name = {} if use is None else {use: "v"}
        history.append(Release(step, sensitivity / scale, sensitivity=sensitivity, scale=scale, **name))
    notions = (Classical(99.0), WEvent(99.0, 1), WEvent(99.0, 2), ExponentialDiscount(99.0, alpha=0.5))
    if sum(r.draw is not None for r in history) > 1:
        assert all(Accountant.replay(n, history).risk() == math.inf for n in notions)
        return
    full = np.array([r.sensitivity for r in history])
    steps = np.array([r.step for r in history])
    assert Accountant.replay(notions[0], history).risk() >= attained(history, full) - 1e-9
    assert Accountant.replay(notions[3], history).risk() >= attained(history, full * 0.5 ** (step - steps)) - 1e-9
    for notion in notions[1:3]:
        reported = max(Accountant.replay(notion, history[:i]).risk() for i in range(1, len(history) + 1))
        for first in steps:
            inside = (steps >= first) & (steps < first + notion.w)
            assert reported >= attained(history, full * inside) - 1e-9


NAMED = st.tuples(
    st.integers(0, 1),
    st.integers(0, 1),
    st.sampled_from(["draw", "atop", None]),
    st.sampled_from("vw"),
    st.integers(1, 3),
)


@given(st.lists(NAMED, max_size=6))
@settings(max_examples=100, deadline=None)
def test_the_second_derivation_agrees(chosen):
    step, history = 1, []
    for gap, age, use, name, sensitivity in chosen:
        step += gap
        history.append(Release(step, 0.25, age, sensitivity=sensitivity, **({use: name} if use else {})))
    for notion in (Classical(99.0), WEvent(99.0, 2), ExponentialDiscount(99.0, alpha=0.5)):
        worst = max((Accountant.replay(notion, history[:i]).risk() for i in range(1, len(history) + 1)), default=0.0)
        assert worst_loss(notion, history) == pytest.approx(worst, rel=1e-9)
