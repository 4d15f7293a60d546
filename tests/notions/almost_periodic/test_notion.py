"""Almost-periodic privacy: what reused noise costs, what it leaves open, and what is false in the paper."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halflife import (
    Accountant,
    BudgetExceeded,
    Classical,
    ExponentialDiscount,
    HyperbolicDiscount,
    InvalidInput,
    Release,
    WEvent,
)
from halflife.errors import UnboundedLoss
from halflife.notions.almost_periodic.notion import AlmostPeriodic
from halflife.plans.almost_periodic import corollary_8_loss
from halflife.steps import Steps


def history(plan, steps):
    return [release for k in range(1, steps + 1) for release in plan.releases_at(k)]


def laplace_loss(moves, scales):
    """What independent Laplace noises lose if their values move so far: Σ |move|/scale."""
    return float(np.sum(np.abs(moves) / scales))


# What it costs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strong", [False, True])
def test_a_century_costs_what_a_period_costs(strong):
    """Holds Definition 4."""
    notion = AlmostPeriodic(1.0, 5, strong=strong)
    plan, account, seen = notion.plan(), Accountant(AlmostPeriodic(1.0, 5, strong=strong)), []
    for k in range(1, 500):
        account.admit(*plan.releases_at(k))
        seen.append(account.risk(k))
    assert seen[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert set(seen[5:]) == {seen[4]}


def test_c1_loses_epsilon_about_the_pattern_and_about_any_period_of_variations():
    """y(t) = f(x(t)) + v(t mod T) + u(t), from its definition: v absorbs a change of z, u one of w; both together are 2 ε.

    Holds Definitions 3, 4, 6 and 7.
    """
    plan = AlmostPeriodic(0.7, 6, strong=True).plan(sensitivity=2.0, variation_sensitivity=0.5)
    reused = np.array([plan.pattern_scale(k) for k in range(1, 7)])
    fresh = np.array([plan.scale(k) for k in range(1, 61)])
    assert laplace_loss(np.full(6, 2.0), reused) == pytest.approx(0.7)
    for start in range(55):
        moves = np.zeros(60)
        moves[start : start + 6] = 0.5
        assert laplace_loss(moves, fresh) == pytest.approx(0.7)
    assert plan.std(1) == pytest.approx(math.sqrt(2) * math.hypot(6 * 2.0 / 0.7, 6 * 0.5 / 0.7))


@given(
    periods=st.integers(2, 12),
    z=st.floats(0.1, 5.0),
    w=st.floats(0.1, 5.0),
    epsilon=st.floats(0.1, 3.0),
)
def test_p1_corollary_8_loses_more_with_every_period(periods, z, w, epsilon):
    """T = 1, by its definition: y(1) = z + w(1) + v, y(k) = y(1) − w(1) + w(k) + u(k), a change of w(1) by Δf_w.

    Given y(1), which moves by Δf_w under v, every later y(k) moves by −Δf_w under a noise u(k) of its own.
    """
    scales = np.array([(z + w) / epsilon] + [w / epsilon] * (periods - 1))
    assert laplace_loss(np.full(periods, w), scales) == pytest.approx(corollary_8_loss(epsilon, z, w, periods))


def test_p1_has_the_numbers_that_were_found():
    assert corollary_8_loss(1.0, 1.0, 1.0, 2) == 1.5
    assert corollary_8_loss(1.0, 1.0, 1.0, 10) == 9.5


def paper_strong(values, noise, fresh):
    """Corollary 8 with T = 1 for runs × periods: y(1) = f + v, y(k) = y(1) − f(w(1)) + f(w(k)) + u(k); z = 0 here."""
    first = values[:, :1] + noise
    return np.concatenate([first, first - values[:, :1] + values[:, 1:] + fresh[:, 1:]], axis=1)


@pytest.mark.parametrize("periods", [4, 16, 64, 256])
def test_averaging_periods_recovers_a_first_period_variation_from_corollary_8_and_not_from_c1(periods):
    """The attacker knows later variations, takes them off and averages: what is left is z + v, and y(1) less that is w(1)."""
    rng, runs = np.random.default_rng(periods), 4000
    w = rng.normal(size=(runs, periods + 1))
    v, u = rng.laplace(0, 2.0, (runs, 1)), rng.laplace(0, 1.0, (runs, periods + 1))

    def error(y):
        guess = y[:, 0] - (y[:, 1:] - w[:, 1:]).mean(axis=1)
        return float(np.std(guess - w[:, 0]))

    assert error(paper_strong(w, v, u)) == pytest.approx(math.sqrt(2 / periods), rel=0.05)
    assert error(w + v + u) == pytest.approx(math.sqrt(2 + 2 / periods), rel=0.05)


def test_p4_a_clip_that_binds_tells_everything():
    """Clip at 1, z = 0.9 or 0.5, w = (0, 0.3): with reused noise y(2) − y(1) is exactly 0.1 or 0.3, and never the other."""
    v = 0.123
    told = {z: round(min(z + 0.3, 1.0) + v - (min(z, 1.0) + v), 12) for z in (0.9, 0.5)}
    assert told == {0.9: 0.1, 0.5: 0.3}


# What other notions say ---------------------------------------------------------------------------------------------


def test_read_classically_a_weak_history_is_infinite_from_the_second_period_on():
    releases = history(AlmostPeriodic(1.0, 3).plan(), 4)
    assert Accountant.replay(Classical(1.0), releases[:3]).risk() == pytest.approx(1.0)
    lens = Accountant.replay(Classical(1.0), releases)
    assert lens.risk() == math.inf
    assert "difference of the two values is exact" in lens.why_unbounded


def test_read_classically_a_strong_history_costs_its_fresh_noise_for_both_parts():
    """Nine values move by Δf_z + Δf_w = 2 under fresh noise of scale 3. That a pattern was never published alone cannot be seen
    from its release, so it counts as well, and where data times count there is no bound from the second period on."""
    releases = history(AlmostPeriodic(1.0, 3, strong=True).plan(), 9)
    assert Accountant.replay(Classical(9.0), releases).risk() == pytest.approx(1.0 + 9 * 2 / 3)
    assert Accountant.replay(ExponentialDiscount(9.0, alpha=1.0), releases).risk() == pytest.approx(1.0 + 9 * 2 / 3)
    assert Accountant.replay(WEvent(9.0, 3), releases[:6]).risk() == pytest.approx(1.0 + 2.0)
    assert Accountant.replay(WEvent(9.0, 3), releases).risk() == math.inf


def strong_loss(periods, z, w, moves):
    """The largest loss, on a grid, of y_k = f_k + v + u_k if each f_k moves by ±(Δf_z + Δf_w): T = 1, ε = 1, summed over v."""
    v = np.linspace(-400, 400, 8001)
    worst = 0.0
    for y in itertools.product((-60.0, 0.0, 60.0), repeat=periods):
        told = [
            np.logaddexp.reduce(
                -np.abs(v) / z - sum(np.abs(a - m * s * (z + w) - v) / w for a, s in zip(y, moves, strict=True))
            )
            for m in (0.0, 1.0)
        ]
        worst = max(worst, abs(told[0] - told[1]))
    return worst


@pytest.mark.parametrize(("periods", "attained"), [(1, 1.25), (2, 10.0), (3, 11.25)])
def test_what_a_strong_certificate_says_classically_is_no_less_than_what_is_attained(periods, attained):
    plan = AlmostPeriodic(1.0, 1, strong=True).plan(sensitivity=4.0, variation_sensitivity=1.0, horizon=periods)
    found = max(strong_loss(periods, 4.0, 1.0, s) for s in itertools.product((-1, 1), repeat=periods))
    assert found == pytest.approx(attained, abs=1e-6)
    assert found <= plan.certificate()["classical_risk"]["pure"] == pytest.approx(5.0 * periods)


def test_certificates_say_what_reused_noise_loses_classically():
    """A year of half hours at ε = 1 a day; both said 365."""
    weak = AlmostPeriodic(1.0, 48).plan().certificate()["classical_risk"]
    assert weak["pure"] is None
    assert "used again from step 49 on" in weak["why"]
    strong = AlmostPeriodic(1.0, 48, strong=True).plan(sensitivity=4.0, variation_sensitivity=1.0)
    assert strong.certificate()["classical_risk"] == {"steps": 17_520, "pure": pytest.approx(1825.0)}


def test_a_weak_plan_of_one_period_is_finite_classically():
    plan = AlmostPeriodic(1.0, 48).plan(horizon=48)
    assert plan.certificate()["classical_risk"] == {"steps": 48, "pure": pytest.approx(1.0)}
    renewed = AlmostPeriodic(1.0, 2, renew=1).plan(horizon=6)
    assert renewed.certificate()["classical_risk"]["pure"] == pytest.approx(1.0)
    assert "step 3 " in AlmostPeriodic(1.0, 2, renew=2).plan(horizon=6).certificate()["classical_risk"]["why"]
    october = Steps.of("1 h", "2026-10-25", "Europe/London")
    assert "step 3 " in AlmostPeriodic(1.0, 24, clock=october).plan(horizon=24).certificate()["classical_risk"]["why"]
    assert "step 5 " in AlmostPeriodic(1.0, 4).plan(every=2).certificate()["classical_risk"]["why"]


# What is refused ----------------------------------------------------------------------------------------------------


def test_reuse_without_fresh_noise_is_no_strong_promise():
    account = Accountant(AlmostPeriodic(1.0, 2, strong=True))
    account.admit(Release(1, 0.5, draw="phase 0"))
    assert account.copy().risk(2) == math.inf
    for release in (Release(3, 0.5, draw="phase 0"), Release(3, 0.5, atop="phase 0"), Release(1, 0.5, draw="phase 1")):
        with pytest.raises(UnboundedLoss, match="not published under fresh"):
            account.copy().admit(release)
    account.admit(Release(1, 0.5, atop="phase 0"))
    with pytest.raises(UnboundedLoss, match="without fresh noise atop"):
        account.admit(Release(3, 0.5, draw="phase 0"))


def test_a_pattern_counts_in_full_as_long_as_it_is_in_use():
    """Under a window shorter than a renewal the noise in use does not fade from the account."""
    notion = AlmostPeriodic(1.0, 2, renew=10, over=WEvent(1.0, 4))
    plan, account = notion.plan(), Accountant(notion)
    for k in range(1, 16):
        account.admit(*plan.releases_at(k))
    in_use = 2 * plan.loss(1)
    assert account.risk() == pytest.approx(in_use)
    assert account.headroom(15) == pytest.approx(1 - in_use)
    assert account.risk(15 + 2) == pytest.approx(in_use)
    assert account.risk(15 + 30) == pytest.approx(in_use)  # asked later: it left its use just now
    account.admit(Release(60, 0.01))
    assert account.risk(66) == 0


def test_noise_is_used_for_one_number_of_one_step():
    account = Accountant(AlmostPeriodic(1.0, 2))
    account.admit(Release(1, 0.5, sensitivity=1.0, scale=2.0, draw="p"))
    for release in (
        Release(1, 0.5, sensitivity=1.0, scale=2.0, draw="p"),
        Release(3, 0.5, sensitivity=10.0, scale=20.0, draw="p"),
    ):
        with pytest.raises(UnboundedLoss, match="tell each other apart"):
            account.copy().admit(release)
    with pytest.raises(InvalidInput, match="has no loss"):
        account.admit(Release(3, 0.0, draw="q"))


def test_the_worse_of_two_limits_is_reported_whole():
    account = Accountant(AlmostPeriodic(1.0, 2, strong=True, over=Classical(5.0)))
    account.admit(Release(1, 0.9))
    account.admit(Release(9, 0.9))
    account.admit(Release(17, 0.9))
    assert account.used() <= 1


def test_reused_noise_keeps_its_loss():
    account = Accountant(AlmostPeriodic(1.0, 2))
    account.admit(Release(1, 0.5, draw="phase 0"))
    with pytest.raises(UnboundedLoss, match="tell each other apart"):
        account.admit(Release(3, 0.25, draw="phase 0"))


def test_fresh_noise_without_a_pattern_tells_about_the_pattern_each_time():
    account = Accountant(AlmostPeriodic(1.0, 2))
    account.admit(Release(1, 0.5), Release(3, 0.5))
    with pytest.raises(BudgetExceeded):
        account.admit(Release(5, 0.01))


def test_fresh_noise_atop_a_pattern_that_is_not_known_counts_as_without():
    account = Accountant(AlmostPeriodic(1.0, 2, strong=True))
    account.admit(Release(1, 0.75, atop="phase 0"))
    assert account.headroom(9) == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: AlmostPeriodic(1.0, 0), "period must be at least 1"),
        (lambda: AlmostPeriodic(1.0, 10**6), "at most 100,000"),
        (lambda: AlmostPeriodic(1.0, 2, strong="yes"), "true or false"),
        (lambda: AlmostPeriodic(1.0, 2, over=Classical(1.0, 1e-6)), "over must be a pure notion"),
        (lambda: AlmostPeriodic(1.0, 2, over=AlmostPeriodic(1.0, 2)), "over must be a pure notion"),
        (lambda: AlmostPeriodic(1.0, 2).plan(variation_sensitivity=1.0), "for the strong notion"),
        (lambda: AlmostPeriodic(1.0, 2, strong=True).plan(variation_sensitivity=0.0), "above 0"),
        (lambda: AlmostPeriodic(1.0, 2).plan([1.0, 2.0]), "one sensitivity for ever"),
        (lambda: AlmostPeriodic(1.0, 2, strong=True).plan(method="paper"), "false from the second period on"),
        (lambda: AlmostPeriodic(1.0, 2, renew=3).plan(), "without bound"),
        (lambda: AlmostPeriodic(1.0, 2, renew=3, over=HyperbolicDiscount(1.0, 0.1)).plan(), "without bound"),
        (lambda: Accountant(AlmostPeriodic(1.0, 2)).admit(Release(1, 0.1, noise="gaussian")), "about Laplace noise"),
    ],
)
def test_what_cannot_be_kept_is_refused(make, words):
    with pytest.raises((InvalidInput, UnboundedLoss), match=words):
        make()


def test_the_first_period_of_corollary_8_is_sound():
    plan = AlmostPeriodic(1.0, 4, strong=True).plan(method="paper", horizon=4, variation_sensitivity=1.0)
    assert max(plan.risks(4)) == pytest.approx(1.0)


# Renewal ------------------------------------------------------------------------------------------------------------


@pytest.mark.diagonal
@pytest.mark.parametrize(
    ("over", "horizon"),
    [(ExponentialDiscount(1.0, alpha=0.97), None), (WEvent(1.0, 90), None), (WEvent(1.0, 7), None), (None, 600)],
)
@pytest.mark.parametrize("strong", [False, True])
def test_renewed_noise_keeps_the_promise_that_is_laid_over_it(over, horizon, strong):
    notion = AlmostPeriodic(1.0, 4, strong=strong, renew=5, over=over)
    plan, account = notion.plan(horizon=horizon), Accountant(notion)
    names, worst = set(), 0.0
    for k in range(1, 601):
        releases = plan.releases_at(k)
        account.admit(*releases)
        names |= {r.draw or r.atop for r in releases}
        worst = max(worst, account.risk(k))
    assert len(names) == 4 * 30
    assert 0.4 < worst <= 1 + 1e-9
    assert plan.risks(600).max() == pytest.approx(worst, rel=1e-9)
    assert len(account.draws) <= 9


def test_the_certificate_begins_with_what_is_published_exactly():
    weak = AlmostPeriodic(1.0, 48).plan().certificate()
    assert "published exactly" in weak["not_protected"][0]
    assert "raw data" in weak["not_protected"][0]
    strong = AlmostPeriodic(1.0, 48, strong=True).plan().certificate()
    assert "K·ε" in strong["not_protected"][0]
