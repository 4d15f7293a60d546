"""Exact accounting against closed forms, a second derivation, and the paper's numbers."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from halflife import Accountant, BudgetExceeded, Classical, InvalidInput, Release, WEvent
from halflife.notions.calibration import equal_split
from halflife.notions.composition import Exact, Losses, gaussian_losses, laplace_losses
from halflife.notions.gaussian_dp import gaussian_delta, gaussian_epsilon, gaussian_mu, pure_as_gaussian
from halflife.numerics.search import largest

DELTA = 1 / 117_716_237


def test_one_laplace_release_has_its_closed_form():
    """δ(ε) of Laplace noise of loss ρ is 1 − e^{(ε−ρ)/2}, so ε(δ) = ρ + 2 ln(1 − δ).

    Holds Definition 15 of the Swellfish paper.
    """
    for rho, delta in ((1.0, 1e-6), (0.1, 1e-3), (3.0, 0.05)):
        found = Exact(delta).epsilon(laplace_losses(rho))
        exact = rho + 2 * math.log1p(-delta)
        assert exact <= found <= exact * (1 + 1e-5)


def test_two_laplace_releases_by_integration():
    """P(L > ε) − e^ε P′(L > ε) with the loss of two independent releases, integrated over the outputs."""
    a, b, epsilon = 0.7, 0.4, 0.6

    def gap(y, x):
        p = math.exp(-abs(x) * a - abs(y) * b)
        q = math.exp(-abs(x - 1) * a - abs(y - 1) * b)
        return a * b / 4 * max(0.0, p - math.exp(epsilon) * q)

    delta = integrate.dblquad(gap, -25, 1, -40, 1, epsabs=1e-7)[0]
    for x0, x1, y0, y1 in ((1, 25, -40, 1), (-25, 1, 1, 40), (1, 25, 1, 40)):
        delta += integrate.dblquad(gap, x0, x1, y0, y1, epsabs=1e-7)[0]
    found = Exact(delta).epsilon(laplace_losses(b) + laplace_losses(a))
    assert found == pytest.approx(epsilon, rel=2e-3)


@given(st.floats(0.05, 3), st.floats(0.01, 5))
def test_gaussian_delta_against_normal_tails(mu, epsilon):
    direct = stats.norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * stats.norm.cdf(-epsilon / mu - mu / 2)
    assert gaussian_delta(mu, epsilon) == pytest.approx(direct, rel=1e-9, abs=1e-14)


@given(st.floats(0.01, 3), st.sampled_from([1e-3, 1e-6, 1e-9]))
def test_gaussian_epsilon_rounds_up_and_mu_rounds_down(mu, delta):
    epsilon = gaussian_epsilon(mu, delta)
    assert gaussian_delta(mu, epsilon) <= delta
    assert epsilon == 0 or gaussian_delta(mu, epsilon * (1 - 1e-6)) > delta
    if epsilon > 0:
        back = gaussian_mu(epsilon, delta)
        assert back <= mu * (1 + 1e-9)
        assert back == pytest.approx(mu, rel=1e-6)


@pytest.mark.parametrize("epsilon", [1e-300, 1e-7, 0.01, 0.7, 30.0, 1e6])
@pytest.mark.parametrize("delta", [1e-10, 1e-5, 0.3])
def test_mu_is_what_a_search_by_epsilon_alone_finds(epsilon, delta):
    """To the last bit, though nearly all of its steps are decided by a look at δ(ε)."""
    assert gaussian_mu(epsilon, delta) == largest(
        lambda mu: gaussian_epsilon(mu, delta) <= epsilon, 0.0, 2 * (epsilon + 10) + 10, 1e-12
    )


def test_gaussian_and_laplace_mix():
    """A Laplace release of hardly any loss changes nothing, and together they risk more than either."""
    exact = Exact(1e-6)
    alone = exact.epsilon(gaussian_losses(0.5))
    both = exact.epsilon(gaussian_losses(0.5) + laplace_losses(0.3, 2))
    hardly = exact.epsilon(gaussian_losses(0.5) + laplace_losses(1e-4))
    assert alone <= hardly <= alone * 1.002
    assert alone * 1.05 < both < alone + 0.6


@pytest.mark.parametrize(
    ("w", "noise", "printed"),
    [(65, "laplace", 363.45), (672, "laplace", 1195.8), (65, "gaussian", 372.88), (672, "gaussian", 1198.94)],
)
def test_t6_scales(w, noise, printed):
    assert 1 / equal_split(0.1, DELTA, w, noise) == pytest.approx(printed, rel=2e-4)


def test_t6_laplace_wins_up_to_10_and_gaussian_from_11():
    assert [WEvent(0.1, w, DELTA).plan().noise for w in (1, 10, 11, 65)] == [
        "laplace",
        "laplace",
        "gaussian",
        "gaussian",
    ]


def test_theorem_10_costs_only_half_of_what_it_claims():
    loss = WEvent(0.1, 65, DELTA).plan(method="paper").loss(1)
    assert 1 / loss == pytest.approx(650.6, abs=0.05)
    assert Exact(DELTA).epsilon(laplace_losses(loss, 65)) == pytest.approx(0.0542, abs=1e-4)
    assert 1 / WEvent(0.1, 672, DELTA).plan(method="paper").loss(1) == pytest.approx(2092.0, abs=0.05)


def test_s3_theorem_10_is_refused_where_it_fails():
    with pytest.raises(InvalidInput, match="erratum S3"):
        WEvent(60.0, 2000, 0.1).plan(method="paper")
    loss = 60 / (2 * math.sqrt(2000 * math.log(math.e + 60 / 0.1)))
    assert Exact(0.55).epsilon(laplace_losses(loss, 2000)) > 60 > Exact(0.63).epsilon(laplace_losses(loss, 2000))


def test_fold_only_adds_risk():
    exact = Exact(1e-6)
    many = sum((laplace_losses(0.001 * k) for k in range(1, 81)), Losses())
    folded = exact.fold(many)
    assert len(folded.laplace) == 24
    assert folded.pure == many.pure
    assert exact.epsilon(many) <= exact.epsilon(folded) * (1 + 1e-9) <= exact.epsilon(many) * 1.25


@given(st.floats(1e-4, 5), st.floats(1e-3, 0.999))
def test_a_pure_release_is_gaussian_dp(loss, alpha):
    """Its trade-off function max(1 − e^ρ α, e^−ρ(1 − α)) lies above the Gaussian one, and touches it at the kink."""

    def gaussian(a):
        return stats.norm.cdf(stats.norm.ppf(1 - a) - pure_as_gaussian(loss))

    kink = 1 / (1 + math.exp(loss))
    for a in (alpha, alpha * kink, kink):
        assert max(0.0, 1 - math.exp(loss) * a, math.exp(-loss) * (1 - a)) >= gaussian(a) - 1e-9
    assert gaussian(kink) == pytest.approx(kink, rel=1e-6)


def test_charges_add_and_subtract_without_a_trace():
    a = laplace_losses(0.1, 2) + laplace_losses(0.5) + gaussian_losses(0.3)
    b = laplace_losses(0.1) + laplace_losses(0.7, 3) + gaussian_losses(0.2, 2)
    assert (a + b) - b == a
    assert a.at_most(a + b)
    assert not (a + b).at_most(a)


@pytest.mark.parametrize("notion", [Classical(1.0, 1e-6), WEvent(1.0, 300, 1e-6)])
def test_an_account_with_delta_holds_more_than_the_pure_one_and_ends_where_the_plan_says(notion):
    """300 equal releases calibrated exactly are admitted, the 301st is not (w-event: within one window)."""
    loss = equal_split(1.0, 1e-6, 300, "laplace")
    assert loss > 2 / 300
    account = Accountant(notion)
    for step in range(1, 301):
        account.admit(Release(step, loss))
    with pytest.raises(BudgetExceeded):
        account.admit(Release(300, loss))
    assert account.used(300) == pytest.approx(1.0, rel=1e-4)


def test_headroom_with_delta_is_accepted_and_a_thousandth_more_is_not():
    account = Accountant(Classical(1.0, 1e-6))
    for step, (loss, noise) in enumerate([(0.2, "laplace"), (0.1, "gaussian"), (0.3, "laplace")], start=1):
        account.admit(Release(step, loss, noise=noise))
    room = account.headroom(4)
    assert 0.1 < room < 0.5
    account.copy().admit(Release(4, room))
    with pytest.raises(BudgetExceeded):
        account.copy().admit(Release(4, room * 1.001))


def test_randomised_response_enumeration_bounds_the_pure_sum():
    """Brute force: n binary randomised responses of loss ρ each attain Σρ, so the pure sum is not loose.

    Holds Definition 4, Theorem 5 of the discounted paper; Proposition 2 of the age-dependent paper.
    """
    losses = (0.3, 0.5, 0.2)
    worst = 0.0
    for outputs in itertools.product((0, 1), repeat=len(losses)):
        ratio = 1.0
        for rho, out in zip(losses, outputs, strict=True):
            p = math.exp(rho) / (1 + math.exp(rho))
            ratio *= (p if out else 1 - p) / (1 - p if out else p)
        worst = max(worst, math.log(ratio))
    account = Accountant(Classical(2.0))
    account.admit(*(Release(1, rho) for rho in losses))
    assert account.risk() == pytest.approx(worst, rel=1e-12)


def test_fold_counts_every_loss_it_moves_and_keeps_what_was_gaussian():
    exact = Exact(1e-6)
    many = sum((laplace_losses(0.001 * k, 3) for k in range(1, 31)), gaussian_losses(0.2, 2))
    folded = exact.fold(many)
    moved = [(loss, n) for loss, n in many.laplace if (loss, n) not in folded.laplace]
    assert len(moved) == 6
    exactly = 2 * 0.04 + sum(n * pure_as_gaussian(loss) ** 2 for loss, n in moved)
    assert folded.gaussian / 2**120 == pytest.approx(exactly, rel=1e-9)
    assert folded.gaussian / 2**120 >= exactly * (1 - 1e-15)
    assert (folded.pure, folded.gaussians) == (many.pure, many.gaussians)


def test_a_gaussian_charge_is_its_square_and_not_less():
    for mu, count in ((0.5, 3), (0.1, 1), (1.7, 7)):
        found = gaussian_losses(mu, count).gaussian
        assert count * mu * mu <= found / 2**120 * (1 + 1e-15)
        assert found / 2**120 == pytest.approx(count * mu * mu, rel=1e-12)


def test_large_and_tiny_pure_losses_as_gaussian_ones():
    assert pure_as_gaussian(10_000.0) == pytest.approx(2 * math.sqrt(2 * 10_000), rel=0.01)
    for loss in (1e-16, 1e-14, 1e-7, 1e-5):
        assert pure_as_gaussian(loss) >= math.sqrt(2 * math.pi) / 2 * loss * (1 - 1e-9)


def test_a_saved_account_that_contradicts_itself_is_refused():
    account = Accountant(Classical(1.0, 1e-6))
    account.admit(Release(1, 0.4))
    text = account.to_json()
    for change in (
        ('"pure": "0x', '"pure": "0x0", "x": "0x'),
        ("[[0.4, 1]]", "[[0.4, 1], [0.4, 1]]"),
        ("[[0.4, 1]]", "[]"),
    ):
        with pytest.raises(InvalidInput):
            Accountant.from_json(text.replace(*change))


def test_at_most_looks_at_every_number():
    base = laplace_losses(0.1, 2) + gaussian_losses(0.3, 2)
    assert base.at_most(base)
    for field, value in (("gaussian", base.gaussian - 1), ("pure", base.pure - 1), ("gaussians", 1)):
        assert not base.at_most(base._replace(**{field: value}))
    assert not base.at_most(base._replace(laplace=((0.1, 1),)))


@pytest.mark.parametrize("losses", [[0.2] * 9, [0.2, 0.1, 0.3, 0.2, 0.1, 0.1, 0.4]], ids=["equal", "irregular"])
def test_windows_and_running_risks_are_those_of_their_charges(losses):
    exact, w = Exact(1e-6), 3
    charges = [laplace_losses(x) for x in losses]
    windows, running = exact.window_risks(charges, w), exact.running_risks(charges)
    for t in range(len(losses)):
        window = sum(charges[max(0, t - w + 1) : t + 1], Losses())
        assert exact.epsilon(window) <= windows[t] * (1 + 1e-9)
        assert windows[t] <= exact.epsilon(window) * (1 + 1e-6)
        assert running[t] >= exact.epsilon(sum(charges[: t + 1], Losses())) * (1 - 1e-9)
    assert running[-1] == pytest.approx(exact.epsilon(sum(charges, Losses())), rel=1e-9)


def test_an_account_with_delta_stays_small_under_ever_new_losses():
    account = Accountant(Classical(1.0, 1e-6))
    for step in range(1, 200):
        account.admit(Release(step, 1e-3 / (step + 0.5)))
    assert len(json.loads(account.to_json())["state"]["laplace"]) == 24


@pytest.mark.parametrize("series", [(3, 3, 3), (3, 1, 2), (0, 0, 0)])
def test_laplace_noise_tells_one_persons_series_apart_by_the_sum_of_changes_over_scales(series):
    """Two data sets that differ in one person's series, which is 0 or this; the densities of all three reports on a grid.

    Holds Definitions 2 and 3, Theorem 6 of the discounted paper; Definition 1 of the age-dependent paper; Definitions 1 and 2
    of the Swellfish paper.
    """
    others, largest, scales = np.array([[1, 0, 2], [3, 3, 0]]), 3, (10.0, 15.0, 30.0)
    one, other = others.sum(axis=0), others.sum(axis=0) + series
    outputs = np.linspace(-40.0, 40.0, 81)
    logs = [(np.abs(outputs - a) - np.abs(outputs - b)) / scale for a, b, scale in zip(one, other, scales, strict=True)]
    told = np.abs(logs[0][:, None, None] + logs[1][:, None] + logs[2]).max()
    assert told == pytest.approx(sum(change / scale for change, scale in zip(series, scales, strict=True)), abs=1e-12)
    account = Accountant(Classical(1.0))
    account.admit(*(Release(k, largest / scale, scale=scale) for k, scale in enumerate(scales, start=1)))
    assert told <= account.risk(3) * (1 + 1e-12)
    assert account.risk(3) == pytest.approx(0.6, rel=1e-12)
