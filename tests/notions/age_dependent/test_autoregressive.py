"""AR(1) on rounded and clipped values: when a loss is in proportion to how far a value moved, and what is refused."""

import math

import numpy as np
import pytest
from scipy.special import ndtr

from halflife import Accountant, AgeDependent, AutoRegressive, InvalidInput, Release

NARROW = AutoRegressive(0.9, 0.1, 1.0)


def one_release(process, low, high, resolution, age, loss=1.0):
    """What Laplace noise on a value that is rounded, then clipped, tells in truth: the worst states, exactly.

    Of all outputs those beyond the clip tell most: their likelihood grows by e^{r/b} from one multiple to the next.
    """
    kept = process.rho**age
    spread = process.sigma * math.sqrt((1 - kept**2) / (1 - process.rho**2))
    values = np.arange(round(low / resolution), round(high / resolution) + 1) * resolution
    likelihood = np.exp((values - low) / (high - low) * loss)
    edges = np.concatenate([[-np.inf], values[:-1] + resolution / 2, [np.inf]])

    def told(mean):
        return np.diff(ndtr((edges - mean[:, None]) / spread), axis=1) @ likelihood

    means = np.linspace(low - kept * process.span - 2, high + 2, 4001)
    return float(np.log(told(means + kept * process.span) / told(means)).max())


def test_a_resolution_coarse_beside_the_conditional_spread_tells_more_than_is_reported():
    """ρ = .9, σ = .1, clip [20, 21], resolution 1, age 20: at least 0.195 is attained where 0.1216 is reported."""
    reported = Accountant.replay(AgeDependent(0.13, NARROW), [Release(1, 1.0, 20)]).risk()
    assert reported == pytest.approx(0.1216, abs=1e-4)
    assert one_release(NARROW, 20, 21, 1.0, 20) == pytest.approx(0.2097, abs=1e-4)
    assert NARROW.coarsest == pytest.approx(0.1 / math.sqrt(1.81) / 2)


@pytest.mark.parametrize("age", [1, 2, 5, 20])
@pytest.mark.parametrize("process", [NARROW, AutoRegressive(-0.9, 0.1, 1.0), AutoRegressive(0.3, 0.5, 1.0)])
def test_the_coarsest_resolution_loses_in_proportion(process, age):
    cells = math.ceil(1 / process.coarsest)
    reported = Accountant.replay(AgeDependent(9.0, process), [Release(1, 1.0, age)]).risk()
    mirrored = AutoRegressive(abs(process.rho), process.sigma, process.span)
    assert one_release(mirrored, 0, 1, 1 / cells, age) <= reported


@pytest.mark.parametrize("step", [0.01, 0.5, 3.0])
@pytest.mark.parametrize("spread", [0.3, 0.4, 0.5, 0.75, 1.0])
def test_rounding_costs_no_more_than_poissons_formula_allows(spread, step):
    """The steepest ln E e^{η round(m + sZ)}, over η, by summing: at most (1 + q)/(1 − q), and more than 1 if s is small."""
    j, m = np.arange(-14, 15), np.linspace(0, 1, 401)[:, None]
    density = np.exp(-(((j + 0.5 - m) / spread) ** 2) / 2) / (spread * math.sqrt(2 * math.pi))
    below, above = ndtr((j - 0.5 - m) / spread), ndtr((m - j - 0.5) / spread)
    mass = np.where(j > m, ndtr((m - j + 0.5) / spread) - above, ndtr((j + 0.5 - m) / spread) - below)
    steepest = (math.expm1(step) * density @ np.exp(step * j) / (mass @ np.exp(step * j)) / step).max()
    q = 2 * sum(math.exp(-2 * (math.pi * k * spread) ** 2) for k in range(1, 9))
    assert 1 + 0.1 * q < steepest <= (1 + q) / (1 - q) + 1e-12


def sequence(process, low, high, resolution, ages, now, loss=1.0):
    """What releases of these data times, all of which say high, tell about X_now: followed from state to state on a grid."""
    h, offset = 0.08, 0.5 * (round(resolution / 0.08) % 2 == 0)  # no point of the grid lies where values jump
    grid = h * (np.arange(math.floor((low - 9) / h), math.ceil((high + 9) / h)) + offset)
    value = np.clip(np.floor(grid / resolution + 0.5) * resolution, low, high)
    kernel = np.exp(-(((grid[None, :] - process.rho * grid[:, None]) / process.sigma) ** 2) / 2)
    kernel /= kernel.sum(axis=1, keepdims=True)
    told = np.ones(len(grid))
    for t in range(now):
        told = kernel @ (told * (np.exp((value - low) / (high - low) * loss) if t in ages else 1.0))
        told /= told.max()
    inside = (grid > low - 4) & (grid < high + 4)
    shift = round(process.span / h)
    return float(np.log(told[shift:] / told[:-shift])[inside[:-shift]].max())


def test_a_sequence_of_rounded_values_loses_in_proportion_if_the_resolution_is_fine():
    """Five releases, one a step: in proportion with resolutions up to the coarsest, and not with one as wide as the clip."""
    process = AutoRegressive(0.5, 1.0, 0.4)
    times = range(5)
    in_proportion = sum(0.5 ** (5 - t) for t in times) * process.span / 4  # of a clip 10 times as wide as the span
    fine, coarse = (sequence(process, 0.0, 4.0, r, times, now=5) for r in (0.4, 4.0))
    assert 0.4 <= process.coarsest < 4.0
    assert 0.8 * in_proportion < fine <= in_proportion
    assert coarse > 1.1 * in_proportion


def test_a_span_wider_than_the_sensitivity_is_refused():
    """A6: what is published is clipped to the span.

    Span 10, Δ 1, ρ = .9, a loss of 1.1 about the step before: 1.09998 is attained where 0.99 was reported.
    """
    process = AutoRegressive(0.9, 1.0, 10.0)
    assert one_release(process, 0, 1, 0.01, 1, loss=1.1) == pytest.approx(1.09998, abs=1e-5)
    account = Accountant(AgeDependent(2.0, process))
    for refused in (
        lambda: account.admit(Release(1, 1.1, 1)),
        lambda: account.admit(Release(1, 1.1, 1, sensitivity=9.99)),
        lambda: Accountant.replay(account.notion, [Release(1, 1.1, 1)]),
        lambda: account.least_scale(1, sensitivity=1.0),
        lambda: account.notion.plan(sensitivity=1.0),
        lambda: account.notion.plan(sensitivity=[10.0, 9.0]),
    ):
        with pytest.raises(InvalidInput, match=r"less than the process's span of 10.*sigma and span over n"):
            refused()
    account.admit(Release(1, 0.0), Release(1, 1.1, 1, sensitivity=10.0))
    assert account.risk() == pytest.approx(0.99)
    assert account.least_scale(1, sensitivity=10.0) == pytest.approx(10 / account.headroom(1))


@pytest.mark.parametrize("age", [0, 1, 5, 20])
def test_a_span_narrower_than_the_clip_costs_its_part_of_the_loss(age):
    """Clip 40, span 4, a loss of 1 over the clip: what is attained, exactly, is at most a tenth of ρ^age, and close to it."""
    process = AutoRegressive(0.9, 1.0, 4.0)
    reported = Accountant.replay(AgeDependent(9.0, process), [Release(1, 1.0, age, sensitivity=40.0)]).risk()
    first = Accountant.replay(AgeDependent(9.0, process, rules=1), [Release(1, 1.0, age, sensitivity=40.0)]).risk()
    attained = one_release(process, 0, 40, 0.25, age) if age else 4 / 40
    assert 0.95 * reported < attained <= reported * (1 + 1e-12)
    assert reported == pytest.approx(0.1 * 0.9**age)
    assert first > 3 * reported


@pytest.mark.parametrize("clip", [1.0, 2.0, 4.0])
def test_a_sequence_on_a_clip_wider_than_the_span_is_not_under_reported(clip):
    """Five releases, followed from state to state; each costs 4 over the clip, and all together are bounded by K at most."""
    process = AutoRegressive(0.5, 1.0, 0.4)
    losses = [Release(t + 1, 4.0, 0, sensitivity=clip) for t in range(5)]
    reported = Accountant.replay(AgeDependent(99.0, process), losses).risk(6)
    assert sequence(process, 0.0, clip, 0.2, range(5), now=5, loss=4.0) <= reported * (1 + 1e-9)


def test_what_all_releases_tell_together_counts_the_whole_clip():
    """K bounds a mechanism whatever the states were then: they may lie further apart than the span, so it has losses in full.

    An AR(1) process that forgets at once, a span of a thousandth of the clip: K of the span's part of the loss would say less
    than is attained.
    """
    process, loss = AutoRegressive(0.9, 10.0, 0.1), 8.0
    attained = one_release(process, 0, 100, 0.05, 1, loss)
    account = Accountant.replay(AgeDependent(99.0, process), [Release(1, loss, 1, sensitivity=100.0)])
    assert 0.9 * account.risk() < attained <= account.risk()
    assert process.amplify(loss * process.span / 100, 1) < 0.2 * attained


def test_headroom_and_scales_follow_from_the_span():
    notion = AgeDependent(0.1, AutoRegressive(0.9, 1.0, 4.0))
    plan = notion.plan(sensitivity=40.0, horizon=1)
    assert plan.scale(1) == pytest.approx(40.0)
    assert notion.plan(sensitivity=40.0).scale(1) == pytest.approx(4 / (0.1 * (1 - 0.9)), rel=1e-6)
    assert AgeDependent(0.1, notion.process, rules=1).plan(sensitivity=40.0, horizon=1).scale(1) == pytest.approx(400.0)
    account = Accountant(notion)
    assert account.least_scale(1, sensitivity=40.0) == pytest.approx(40.0)
    account.admit(*plan.releases_at(1))
    assert account.used() == pytest.approx(1.0)
    assert plan.risks(1) == pytest.approx([0.1])
    assert (
        "10 spans, are told apart 10 times as well: there a release costs 1" in plan.certificate()["not_protected"][1]
    )


def test_a_cap_is_for_a_move_by_the_span_unless_it_is_given():
    notion = AgeDependent(0.1, AutoRegressive(0.9, 1.0, 4.0))
    assert notion.plan(sensitivity=40.0, age=100).loss(1) == pytest.approx(4.0)
    assert notion.plan(sensitivity=40.0, age=100, cap=0.4).loss(1) == pytest.approx(0.4)


@pytest.mark.parametrize("horizon", [1, 5, None])
@pytest.mark.parametrize("age", [0, 8])
def test_an_account_admits_the_plan_of_a_clip_wider_than_the_span(age, horizon):
    notion = AgeDependent(0.5, AutoRegressive(0.8, 1.0, 1.0))
    plan = notion.plan(sensitivity=30.0, age=age, horizon=horizon)
    account, first = Accountant(notion), AgeDependent(0.5, notion.process, rules=1)
    for k in range(1, (horizon or 60) + 1):
        account.admit(*plan.releases_at(k))
    assert plan.risks(horizon or 60).max() <= 0.5 * (1 + 1e-9)
    assert account.used() > 0.9 or plan.loss(1) >= 4 * 0.5 * 30 * (1 - 1e-9)
    assert plan.loss(1) >= first.plan(sensitivity=30.0, age=age, horizon=horizon).loss(1)


def test_plans_and_headroom_of_a_wide_span_are_those_of_a_narrow_one():
    """Nothing but the ratio of span, σ and sensitivity counts."""
    wide, narrow = (AgeDependent(1.0, AutoRegressive(0.9, w, w)) for w in (5.0, 1.0))
    for age in (0, 3):
        assert Accountant(wide).headroom(1, age) == pytest.approx(Accountant(narrow).headroom(1, age), rel=1e-6)
        plan = wide.plan(sensitivity=5.0, age=age)
        assert plan.loss(1) == pytest.approx(narrow.plan(age=age).loss(1), rel=1e-6)
        account = Accountant(wide)
        for k in range(1, 50):
            account.admit(*plan.releases_at(k))


def test_releases_older_than_an_account_remembers_one_by_one_fade_as_they_did():
    """Where a process hardly forgets, most of the risk is about releases that were summed up: 400, of which it keeps 128."""
    process = AutoRegressive(0.999, 1.0, 1.0)
    account = Accountant.replay(AgeDependent(9.0, process), [Release(k, 0.001) for k in range(1, 401)])
    exact = math.fsum(0.001 * 0.999 ** (400 - k) for k in range(1, 401))
    assert exact <= account.risk(400) <= exact * (1 + 1e-9)
