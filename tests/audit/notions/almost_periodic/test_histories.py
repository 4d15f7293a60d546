"""The audit of almost-periodic privacy: a second derivation that agrees with the account, and Corollary 8 caught."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halflife import Accountant, AlmostPeriodic, ExponentialDiscount, Release
from halflife.audit.black_box import attack
from halflife.audit.exact import worst_loss
from halflife.audit.notions.almost_periodic.faults import CorollaryEight, corollary_8_pair
from halflife.plans.almost_periodic import corollary_8_loss


@pytest.mark.parametrize("strong", [False, True])
@pytest.mark.parametrize("over", [None, ExponentialDiscount(1.0, alpha=0.9)])
def test_both_derivations_agree_on_plans(strong, over):
    notion = AlmostPeriodic(1.0, 4, strong=strong, renew=3, over=over)
    plan = notion.plan(horizon=96)
    releases = [r for k in range(1, 97) for r in plan.releases_at(k)]
    account, worst = Accountant(notion), 0.0
    for release in releases:
        account.admit(release)
        worst = max(worst, account.risk())
    assert worst_loss(notion, releases) == pytest.approx(worst, rel=1e-9)
    assert worst <= 1 + 1e-9


@given(
    releases=st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from([0.1, 0.3]), st.sampled_from([None, "a", "b"]), st.booleans()),
        max_size=12,
    )
)
@settings(max_examples=60, deadline=None)
def test_both_derivations_agree_on_any_history(releases):
    step, history = 1, []
    for gap, loss, name, atop in releases:
        step += gap
        history.append(
            Release(step, loss) if name is None else Release(step, loss, **{"atop" if atop else "draw": name})
        )
    for notion in (AlmostPeriodic(1.0, 3), AlmostPeriodic(1.0, 3, strong=True)):
        worst = max((Accountant.replay(notion, history[:i]).risk() for i in range(1, len(history) + 1)), default=0.0)
        again = worst_loss(notion, history)
        assert again == pytest.approx(worst, rel=1e-9) if worst < math.inf else again == math.inf


@pytest.mark.parametrize("periods", [2, 10])
def test_corollary_8_is_caught(periods):
    """It claims 1 and loses 1.5 after two periods, 9.5 after ten, which fewer runs show."""
    pair, path = replace(corollary_8_pair(periods), name="Corollary 8"), CorollaryEight(periods)
    runs = 20_000 if periods == 2 else 5_000
    found = attack((path(0, runs), path(1, runs)), pair, 1e-6)
    assert 1.0 < found.epsilon <= corollary_8_loss(1.0, 1.0, 1.0, periods)


def test_c1_is_not_accused():
    rng = np.random.default_rng(3)

    def c1(which, runs):
        pattern = rng.laplace(0.0, 1.0, (runs, 1))
        values = np.zeros((runs, 10))
        values[:, 0] = which
        return values + pattern + rng.laplace(0.0, 1.0, (runs, 10))

    first, second = (np.concatenate([y[:, :1], y[:, :1] - y[:, 1:]], axis=1) for y in (c1(0, 20_000), c1(1, 20_000)))
    assert attack((first, second), replace(corollary_8_pair(10), name="C1"), 1e-6).epsilon <= 1.0
