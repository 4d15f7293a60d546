"""Swellfish: the account against a brute force over all that was published, and the promise against neighbouring streams."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halflife import (
    Accountant,
    BudgetExceeded,
    InvalidInput,
    Release,
    Secret,
    Specification,
    Specifications,
    Swellfish,
    UnboundedLoss,
)
from halflife.notions.calibration import composed_epsilon
from halflife.notions.composition import Exact
from halflife.notions.gaussian_dp import gaussian_epsilon, gaussian_mu
from halflife.notions.swellfish import judge
from halflife.notions.swellfish import notion as swellfish

INTERPRETATIONS = ("one-event", "one-window", "all-events")
DELTA = 1e-5


@st.composite
def secrets(draw, first=1, last=14, longest=4):
    """A secret whose hiding interval lies in [first, last]."""
    duration = draw(st.integers(1, longest))
    start = draw(st.integers(first, last - duration + 1))
    end = draw(st.integers(start + duration - 1, min(last, start + duration + 4)))
    power = draw(st.sampled_from([0.1, 1.0, 2.5]))
    return Secret(power, duration, start, end, draw(st.sampled_from([0.1, 0.5, 1.0])))


def families(most=3, households=2):
    """One or two households with at least one secret."""
    one = st.lists(secrets(), max_size=most, unique=True)
    many = st.lists(one, min_size=1, max_size=households).filter(any)
    return many.map(lambda lists: Specifications([Specification(held, f"h{i}") for i, held in enumerate(lists)]))


def placements(s):
    """Every place of the event in its hiding interval."""
    return [range(a, a + s.duration) for a in range(s.start, s.end - s.duration + 2)]


def worst_share(many, x, interpretation, noise, limit):
    """The largest cost over limit of any secret, by plain loops; x maps data times to 1/λ or 1/σ²."""
    p, best = 1 if noise == "laplace" else 2, 0.0
    for spec in many:
        for s in spec.secrets:
            if interpretation == "one-event":
                cost = max(sum(s.power**p * x.get(t, 0.0) for t in w) for w in placements(s))
            elif interpretation == "one-window":
                cost = max(sum(spec.sensitivity(t) ** p * x.get(t, 0.0) for t in w) for w in placements(s))
            else:
                each = [
                    max(sum(o.power**p * x.get(t, 0.0) for t in w if s.relevant(t)) for w in placements(o))
                    for o in spec.secrets
                ]
                linear = sum(
                    max(
                        sum(o.power * spec.sensitivity(t) * x.get(t, 0.0) for t in w if s.relevant(t))
                        for w in placements(o)
                    )
                    for o in spec.secrets
                )
                cost = sum(each) if p == 1 else min(sum(map(math.sqrt, each)) ** 2, linear)
            best = max(best, cost / limit(s))
    return best


def limit_of(noise):
    """What a secret's cost must stay within."""
    return (lambda s: s.epsilon) if noise == "laplace" else (lambda s: gaussian_mu(s.epsilon, DELTA) ** 2)


def release(step, scale, age=0, noise="laplace"):
    """A release with this scale; its sensitivity plays no part."""
    return Release(step, 1 / scale, age, scale=scale, noise=noise)


# The account ----------------------------------------------------------------------------------------------------------


@given(
    families(),
    st.sampled_from(INTERPRETATIONS),
    st.sampled_from(["laplace", "gaussian"]),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.floats(0.3, 1.2)), min_size=1, max_size=14),
)
@settings(max_examples=40)
def test_the_account_is_the_brute_force_over_all_that_was_published(many, interpretation, noise, moves):
    """Ages that go back and several releases a step; each is refused exactly if some secret would lose too much.

    Holds Definitions 7 and 8.
    """
    notion = Swellfish(many, DELTA if noise == "gaussian" else 0.0, interpretation, noise)
    account, x, step, limit = Accountant(notion), {}, 1, limit_of(noise)
    for gap, age, part in moves:
        step += gap
        time = step - age
        hidden = notion.sensitivity.at(time) > 0
        least = account.least_scale(step, 1.0, age)
        if not hidden:
            assert least == 0
            account.admit(Release(step, math.inf, age, scale=0.0, noise=noise))
            account.admit(release(step, 1e-3, age, noise))
            continue
        power = 1 if noise == "laplace" else 2
        scale = least / part if least < math.inf else 1.0
        tried = {**x, time: x.get(time, 0.0) + scale**-power}
        share = worst_share(many, tried, interpretation, noise, limit)
        if share > 1 + 1e-6:
            with pytest.raises(BudgetExceeded):
                account.admit(release(step, scale, age, noise))
        elif share < 1 - 1e-6:
            account.admit(release(step, scale, age, noise))
            x = tried
            assert account._state.worst.share == pytest.approx(share, rel=1e-6)
        assert worst_share(many, x, interpretation, noise, limit) <= 1 + 1e-6
    risk, peak, ceiling = account.exposure()
    assert risk == peak
    assert risk <= ceiling * (1 + 1e-9)
    copy = Accountant.from_json(account.to_json())
    assert copy._state == account._state
    assert copy.exposure() == account.exposure()


@given(families(), st.sampled_from(INTERPRETATIONS), st.lists(st.floats(0.2, 0.9), min_size=7, max_size=7))
@settings(max_examples=20)
def test_the_least_scale_is_exact(many, interpretation, parts):
    """A hair more noise than the least is admitted and brings some secret to its limit; a hair less is refused."""
    notion = Swellfish(many, neighbours=interpretation)
    account, x = Accountant(notion), {}
    for step, part in enumerate(parts, start=1):
        least = account.least_scale(step, 1.0)
        if 0 < least < math.inf:
            with pytest.raises(BudgetExceeded):
                account.copy().admit(release(step, least * (1 - 1e-6)))
            account.copy().admit(release(step, least))
            full = {**x, step: x.get(step, 0.0) + 1 / least}
            changed = [
                worst_share(Specifications(spec), full, interpretation, "laplace", lambda s: s.epsilon)
                for spec in many
                if spec.secrets
            ]
            assert max(changed) == pytest.approx(1.0, rel=1e-6)
            account.admit(release(step, least / part))
            x[step] = part / least


def test_releases_about_one_step_add_up():
    account = Accountant(Swellfish(Specification([Secret(2.0, 2, 1, 6, 1.0)])))
    account.admit(release(1, 8.0), release(1, 8.0))
    assert account.risk() == pytest.approx(2 / 8 + 2 / 8)
    account.admit(release(2, 8.0))
    assert account.risk() == pytest.approx(0.75)
    assert account.least_scale(2, 1.0) == pytest.approx(8.0)
    account.admit(release(5, 4.0))  # another window: it does not add up, and the worst stays
    assert account.risk() == pytest.approx(0.75)


def test_gaussian_releases_add_up_in_squares():
    notion = Swellfish(Specification([Secret(2.0, 3, 1, 6, 1.0)]), DELTA, noise="gaussian")
    account = Accountant(notion)
    account.admit(release(1, 60.0, noise="gaussian"), release(2, 80.0, noise="gaussian"))
    assert account.risk() == pytest.approx(gaussian_epsilon(math.hypot(2 / 60, 2 / 80), DELTA), rel=1e-6)


def test_old_data_counts_with_what_was_published_after_it():
    """Under all-events an interval that begins long after the late data still counts, if the hiding interval reaches it."""
    held = [Secret(1.0, 2, 400, 700, 1.0), Secret(3.0, 2, 600, 800, 1.0)]
    account = Accountant(Swellfish(Specification(held, "a"), neighbours="all-events"))
    account.admit(release(650, 20.0))
    assert account.risk() == pytest.approx(4 / 20)
    account.admit(release(651, 5.0, age=151))
    assert account.risk() == pytest.approx(1 / 5 + 3 / 20)


@pytest.mark.parametrize("interpretation", ["one-event", "one-window"])
def test_late_data_counts_with_what_was_published_about_later_steps(interpretation):
    """An event of steps 9 to 11: once the two later ones are out, what comes about the first completes its window."""
    account = Accountant(Swellfish(Specification([Secret(1.0, 3, 1, 20, 1.0)], "a"), neighbours=interpretation))
    account.admit(release(10, 4.0), release(11, 4.0))
    with pytest.raises(BudgetExceeded):
        account.admit(release(12, 1.9, age=3))
    account.admit(release(12, 4.0, age=3))
    assert account.risk(12) == pytest.approx(0.75, rel=1e-9)


@pytest.mark.parametrize("interpretation", INTERPRETATIONS)
def test_late_data_counts_with_all_that_was_published_before_it(interpretation):
    """Of two reaches nothing is forgotten: data two steps late shares windows with what came two steps before it."""
    held = [Secret(1.0, 3, 3 * k + 1, 3 * k + 3, 1.0) for k in range(9)] if interpretation == "all-events" else []
    account = Accountant(Swellfish(Specification(held or [Secret(1.0, 3, 1, 100, 1.0)]), neighbours=interpretation))
    for step, x in ((1, 0.1), (2, 0.1), (7, 0.4), (8, 0.4), (9, 0.1), (10, 0.01), (11, 0.01)):
        account.admit(release(step, 1 / x))
    assert account.headroom(11, age=2) == pytest.approx(0.1)
    with pytest.raises(BudgetExceeded):
        account.admit(release(11, 5.0, age=2))
    account.admit(release(11, 20.0, age=2))
    assert account.risk() == pytest.approx(0.95)


@pytest.mark.parametrize("delta", [0.0, DELTA])
def test_data_that_shares_a_window_with_what_is_forgotten_is_refused(delta, monkeypatch):
    """Events of 3 steps, the newest 6 steps remembered: about step 17 of 20, whose window begins with 15, it may be published."""
    monkeypatch.setattr(swellfish, "LEAST_MEMORY", 3)
    account = Accountant(Swellfish(Specification([Secret(1.0, 3, 1, 100, 1.0)]), delta, noise="laplace"))
    account.admit(*(release(step, 1e3) for step in (*range(1, 15), 16, 18, 20)))
    assert account._state.forgotten == 14
    for age in (4, 5, 7, 13):
        assert account.headroom(21, age=age + 1) == 0
        with pytest.raises(InvalidInput, match="up to 14"):
            account.admit(release(21, 1e3, age=age + 1))
    assert account.headroom(21, age=4) > 0
    account.admit(release(21, 1e3, age=4))


def test_a_longer_event_that_is_added_brings_nothing_back_that_was_forgotten(monkeypatch):
    """Half of ε in every step of windows of 2; about an old step nothing more may be published, however long new events are."""
    monkeypatch.setattr(swellfish, "LEAST_MEMORY", 2)
    old = Specification([Secret(1.0, 2, 1, 60, 1.0)], "a")
    account = Accountant(Swellfish(old))
    account.admit(*(Release(k, 0.5, scale=2.0) for k in range(1, 61)))
    longer = Swellfish([old, Specification([Secret(1.0, 50, 70, 130, 1.0)], "b")])
    later = account.with_notion(longer, 60)
    assert later.headroom(60, age=29) == 0
    with pytest.raises(InvalidInput, match="has forgotten"):
        later.admit(Release(60, 0.5, 29, scale=2.0))
    later.admit(*(Release(k, 1 / 50, scale=50.0) for k in range(70, 120)))
    replayed = Accountant.replay(longer, [Release(k, 0.5, scale=2.0) for k in range(1, 61)])
    assert replayed.agrees(account.with_notion(longer, 60))
    assert later.risk() == pytest.approx(1.0)


def test_exact_values_are_for_steps_at_which_nobody_hides_anything():
    account = Accountant(
        Swellfish([Specification([Secret(1.0, 2, 3, 5, 1.0)], "a"), Specification([Secret(1.0, 1, 8, 8, 1.0)], "b")])
    )
    for step in (1, 2, 6, 7, 9, 100):
        account.copy().admit(Release(step, math.inf, scale=0.0))
    for step in (3, 4, 5, 8):
        with pytest.raises(UnboundedLoss, match=f"exact value of step {step}"):
            account.copy().admit(Release(step, math.inf, scale=0.0))
    with pytest.raises(UnboundedLoss, match="exact value of step 5"):
        account.copy().admit(Release(7, math.inf, 2, scale=0.0))
    account.copy().admit(Release(8, math.inf, 2, scale=0.0))


@pytest.mark.parametrize(("noise", "delta"), [("laplace", 0.0), ("gaussian", DELTA)])
def test_so_little_noise_that_its_square_overflows_is_refused(noise, delta):
    account = Accountant(Swellfish(Specification([Secret(1.0, 2, 1, 9, 1.0)]), delta, noise=noise))
    for scale in (1e-160, 1e-251, 1e-300):
        with pytest.raises(BudgetExceeded):
            account.admit(release(1, scale, noise=noise))
    assert account.risk() == 0


def test_a_release_without_a_scale_or_of_another_noise_is_refused():
    laplace = Accountant(Swellfish(Specification([Secret(1.0, 2, 1, 9, 1.0)])))
    gaussian = Accountant(Swellfish(Specification([Secret(1.0, 2, 1, 9, 1.0)]), DELTA, noise="gaussian"))
    with pytest.raises(UnboundedLoss, match="gaussian noise, and this promise is worked out for laplace"):
        laplace.admit(release(1, 100.0, noise="gaussian"))
    with pytest.raises(UnboundedLoss, match="laplace noise, and this promise is worked out for gaussian"):
        gaussian.admit(release(1, 100.0))
    with pytest.raises(InvalidInput, match="lacks its scale"):
        laplace.admit(Release(1, 0.1))
    laplace.admit(Release(1, 0.0))


def test_a_stated_loss_larger_than_the_scale_says_counts():
    account = Accountant(Swellfish(Specification([Secret(2.0, 2, 1, 9, 1.0)])))
    account.admit(Release(1, 0.5, sensitivity=2.0, scale=100.0))
    assert account.risk() == pytest.approx(0.5)


def test_what_nobody_hides_costs_nothing_however_old_it_is():
    account = Accountant(Swellfish(Specification([Secret(1.0, 2, 100, 110, 1.0)])))
    account.admit(release(50, 1.0))
    assert account.headroom(51, age=20) == math.inf
    account.admit(release(51, 1e-9, age=20), release(51, 1e-9, age=20))
    assert account.risk() == 0


def test_the_worst_secret_is_told_by_its_share():
    """0.9 of 1 is more than 0.5 lost of 2; the ε told is that of the worst, and it never fades."""
    account = Accountant(Swellfish(Specification([Secret(1.0, 1, 1, 1, 2.0), Secret(1.0, 1, 5, 5, 1.0)])))
    account.admit(release(1, 1 / 1.2))
    assert account.exposure() == pytest.approx((1.2, 1.2, 2.0))
    account.admit(release(5, 1 / 0.9))
    assert account.exposure() == pytest.approx((0.9, 0.9, 1.0))
    assert account.exposure(1000) == account.exposure(5)


def test_a_refused_release_leaves_the_account_as_it_was():
    account = Accountant(Swellfish(Specification([Secret(1.0, 2, 1, 9, 1.0)])))
    account.admit(release(1, 2.0))
    before = account.to_json()
    with pytest.raises(BudgetExceeded):
        account.admit(release(2, 4.0), release(2, 1.9))
    assert account.to_json() == before


def test_memory_does_not_grow_with_the_stream():
    """No more than two reaches of noise, or 200 steps: states and remembered blocks stay as large as they are."""
    for interpretation in INTERPRETATIONS:
        notion = Swellfish(Swellfish.examples()[1].specifications, neighbours=interpretation)
        plan = notion.plan()
        account, most = Accountant(notion), 0
        for step in itertools.chain(range(1, 130), range(50_000, 50_130)):
            account.admit(*plan.releases_at(step))
            most = max(most, len(account._state.x))
            assert len(notion._live.nearby(step // 512).rows) < 60
        kept = 2 * max(notion._live.reach, swellfish.LEAST_MEMORY)
        assert most <= kept
        assert len(account.to_json()) - len(json.dumps(notion.to_dict())) < 30 * kept + 500
        assert notion._live.nearby.cache_info().currsize <= 4


def test_the_cost_of_a_step_does_not_grow_with_the_stream(monkeypatch):
    """As many windows are looked at by a late step as by an early one."""
    notion = Swellfish(Swellfish.examples()[1].specifications)
    plan, account, looked = notion.plan(), Accountant(notion), []
    original = type(notion._live).costs

    def counted(self, step, x, first):
        looked.append((step, len(x), len(self.nearby(step // 512).rows)))
        return original(self, step, x, first)

    monkeypatch.setattr(type(notion._live), "costs", counted)
    for step in itertools.chain(range(1, 200), range(90_000, 90_200)):
        account.admit(*plan.releases_at(step))
    early, late = ([v for v in looked if (v[0] < 200) == side] for side in (True, False))
    assert len(early) <= 199
    assert len(late) <= 200
    assert max(v[1] for v in late) <= max(v[1] for v in early) + 1
    assert max(v[2] for v in late) <= 2 * max(v[2] for v in early)


def test_states_that_are_none_are_refused():
    notion = Swellfish(Specification([Secret(1.0, 2, 1, 9, 1.0)]))
    good = notion.dump(notion.record(notion.start(), [release(1, 4.0)]))
    assert notion.load(json.loads(json.dumps(good))) == notion.record(notion.start(), [release(1, 4.0)])
    for key, value in [
        ("x", [math.nan]), ("x", [-1.0]), ("x", [1e300]), ("x", None), ("first", None), ("first", 1.5),
        ("worst", [0.0]), ("worst", [0.1, -1.0, 1.0, 0]), ("worst", [math.nan, 0.1, 1.0, 0]), ("worst", None),
    ]:  # fmt: skip
        with pytest.raises(InvalidInput):
            notion.load({**good, key: value})
    with pytest.raises(InvalidInput):
        notion.load([])


# Laplace noise with δ: thresholds -------------------------------------------------------------------------------------


@given(families(), st.sampled_from(INTERPRETATIONS), st.integers(1, 14))
@settings(max_examples=25)
def test_with_delta_a_step_is_admitted_iff_its_scale_is_the_calibrated_one_of_every_relevant_secret(
    many, interpretation, step
):
    notion = Swellfish(many, DELTA, interpretation, "laplace")
    wanted = notion.sufficient.at(step)
    account = Accountant(notion)
    if wanted == 0:
        account.admit(Release(step, math.inf, scale=0.0))
        return
    assert account.least_scale(step, 1.0) == pytest.approx(wanted, rel=1e-6)
    account.copy().admit(release(step, wanted))
    with pytest.raises(BudgetExceeded):
        account.copy().admit(release(step, wanted * (1 - 1e-6)))
    room = account.headroom(step)
    account.admit(Release(step, room, scale=1 / room))
    assert account.risk() <= account.exposure().limit * (1 + 1e-9)
    with pytest.raises(UnboundedLoss, match="a second release about step"):
        account.admit(release(step, 1e9))
    assert account.headroom(step) == 0


def test_with_delta_no_loss_distribution_is_computed_when_a_release_is_admitted(monkeypatch):
    days = Swellfish.examples()[1].specifications
    for interpretation in INTERPRETATIONS:
        notion = Swellfish(days, 1e-6, interpretation, "laplace")
        plan = notion.plan()
        account = Accountant(notion)
        account.admit(*plan.releases_at(1))
        with monkeypatch.context() as patch:
            patch.setattr(Exact, "epsilon", lambda *_: pytest.fail("a loss distribution"))
            patch.setattr(judge, "composed_epsilon", lambda *_: pytest.fail("a loss distribution"))
            for step in range(2, 300):
                account.admit(*plan.releases_at(step))
                assert account.risk() <= 1
        for step in (300, 325):
            assert account.least_scale(step, 1.0) == pytest.approx(notion.sufficient.at(step), rel=1e-6)


def test_with_delta_the_risk_of_a_replayed_history_is_composed_where_it_is_above_the_promise():
    notion = Swellfish(Specification([Secret(1.0, 20, 1, 30, 0.5)]), DELTA, noise="laplace")
    least = notion.sufficient.at(1)
    for factor in (0.5, 2.0):
        account = Accountant.replay(notion, [release(k, least / factor) for k in range(1, 31)])
        exact = composed_epsilon(20, factor / least, DELTA, "laplace")
        assert exact * (1 - 1e-6) <= account.risk() <= max(exact, factor * 0.5) * (1 + 1e-6)
    assert account.used() > 2  # twice the loss is more than twice the ε


# The whole sequence at once -------------------------------------------------------------------------------------------


@pytest.mark.diagonal
@pytest.mark.parametrize(("noise", "delta"), [("laplace", 0.0), ("gaussian", DELTA), ("laplace", DELTA)])
@pytest.mark.parametrize("interpretation", INTERPRETATIONS)
@pytest.mark.parametrize("age", [0, 2])
def test_the_risk_of_a_sequence_is_the_accounts_step_by_step(noise, delta, interpretation, age):
    rng = np.random.default_rng(8)
    for _ in range(4):
        held = []
        for _ in range(5):
            duration, start = int(rng.integers(1, 5)), int(rng.integers(0, 20))
            end = start + duration - 1 + int(rng.integers(0, 9))
            held.append(Secret(float(rng.uniform(0.1, 3)), duration, start, end, float(rng.choice([0.1, 0.5, 2.0]))))
        many = [Specification(held[:3], "a"), Specification(held[3:], "b")]
        notion = Swellfish(many, delta, interpretation, noise)
        delta_t = notion.sensitivity.over(1 - age, 30 - age)
        scales = np.where(
            delta_t > 0, rng.uniform(0.4, 3, 30) * np.maximum(notion.sufficient.over(1 - age, 30 - age), 1e-9), 1.0
        )
        losses = np.where(delta_t > 0, delta_t / scales, 0.0) * (rng.random(30) < 0.8)
        risks, limits = notion.running_risks(losses, age)
        assert risks.tolist() == notion.risks(losses, age, noise).tolist()
        account = Accountant(notion)
        for k in range(1, 31):
            if losses[k - 1] > 0:
                x = Release(
                    k,
                    float(losses[k - 1]),
                    age,
                    sensitivity=float(delta_t[k - 1]),
                    scale=float(scales[k - 1]),
                    noise=noise,
                )
                account._charge(k, (x,))
            exposure = account.exposure(k)
            if interpretation == "all-events" and delta == 0:
                assert risks[k - 1] / limits[k - 1] >= exposure.risk / exposure.limit * (1 - 1e-9)
            elif interpretation != "all-events":
                assert (risks[k - 1], limits[k - 1]) == pytest.approx((exposure.risk, exposure.limit), rel=1e-6)
        if interpretation == "all-events" and noise == "laplace" and delta == 0:
            assert risks[-1] == pytest.approx(account.risk(), rel=1e-9)


# Parameters -----------------------------------------------------------------------------------------------------------


def test_bad_parameters_are_refused():
    one = Specification([Secret(1.0, 2, 1, 9, 1.0)])
    for bad in (
        {"neighbours": "any"},
        {"noise": "cauchy"},
        {"noise": "gaussian"},
        {"delta": -1e-9},
        {"delta": 1.0},
        {"delta": math.nan},
    ):
        with pytest.raises(InvalidInput):
            Swellfish(one, **bad)
    for bad in ([], Specification([], "a"), "secrets", 3, None, [Secret(1.0, 2, 1, 9, 1.0)]):
        with pytest.raises(InvalidInput):
            Swellfish(bad)
    with pytest.raises(InvalidInput, match="3,000,000 steps"):
        Swellfish(Specification([Secret(1.0, 3_000_000, 1, 3_000_000, 1.0)]))
    with pytest.raises(InvalidInput, match="hiding intervals of 3,000,000 steps"):
        Swellfish(Specification([Secret(1.0, 1, 1, 3_000_000, 1.0)]), neighbours="all-events")
    Swellfish(Specification([Secret(1.0, 1, 1, 3_000_000, 1.0)]))


def test_scales_that_are_none_are_refused():
    notion = Swellfish(Specification([Secret(1.0, 2, 1, 9, 1.0)]))
    for bad in ([math.nan, 1.0], [-1.0, 1.0], [[1.0]]):
        with pytest.raises(InvalidInput, match="scales must be"):
            notion.losses_of_secrets(np.array(bad))
    with pytest.raises(InvalidInput, match="neighbours"):
        notion.losses_of_secrets(np.ones(3), neighbours="all")
    assert notion.losses_of_secrets(np.array([math.inf, 4.0, 4.0])) == pytest.approx([0.5])
    assert notion.losses_of_secrets(np.array([4.0, 0.0])).tolist() == [math.inf]
    assert notion.losses_of_secrets(np.array([4.0, 1e-308])).tolist() == [math.inf]


def test_a_notion_is_read_back_from_what_it_wrote():
    other = Swellfish(Specification([Secret(0.1, 2, -3, 9, 1 / 3)], "a"), 1e-6, "all-events", "gaussian")
    for notion in (Swellfish.examples()[0], other):
        again = Swellfish.from_dict(json.loads(json.dumps(notion.to_dict())) | {"name": "swellfish"})
        assert again == notion
        assert Specifications.from_dict(json.loads(notion.attachment())) == notion.specifications
        assert notion.reference()["specifications"]["sha256"] == notion.specifications.sha256
        assert len(json.dumps(notion.reference(), allow_nan=False)) < 500


def test_shares_of_a_promise_compose_to_the_whole():
    """Theorem 5: two mechanisms that keep half of each ε keep all of it together."""
    notion = Swellfish(Specification([Secret(3.0, 2, 1, 6, 1.0), Secret(1.0, 4, 2, 9, 0.3)]))
    half = notion.share(0.5)
    assert half.specifications.epsilon == pytest.approx(notion.specifications.epsilon / 2)
    account = Accountant(notion)
    for step in range(1, 10):
        for _ in range(2):
            account.admit(*half.plan().releases_at(step))
    assert account.used() == pytest.approx(1.0, rel=1e-6)
    with pytest.raises(InvalidInput, match="one stream"):
        Swellfish(notion.specifications, DELTA, noise="laplace").share(0.5)
    gaussian = Swellfish(notion.specifications, DELTA, noise="gaussian").share(0.25)
    assert gaussian.delta == pytest.approx(DELTA / 4)


def test_the_baseline_has_the_longest_event_the_least_epsilon_and_the_largest_sensitivity():
    """Theorem 7, over all households."""
    many = [
        Specification([Secret(3.0, 2, 1, 4, 1.0), Secret(1.0, 9, 2, 20, 0.5)], "a"),
        Specification([Secret(3.5, 11, 1, 40, 2.0)], "b"),
    ]
    event, sensitivity = Swellfish(many).baseline()
    assert (event.w, event.epsilon, event.delta, sensitivity) == (11, 0.5, 0.0, 4.0)
    assert Swellfish(many, DELTA).baseline()[0].delta == DELTA
    with pytest.raises(InvalidInput, match="S1"):
        Swellfish(many, neighbours="all-events").baseline()


# Kept beside many accounts --------------------------------------------------------------------------------------------


def test_a_short_account_needs_its_secrets_and_no_others():
    notion = Swellfish(Specification([Secret(2.0, 3, 1, 9, 1.0)], "a"))
    account = Accountant(notion)
    account.admit(Release(1, 0.1, scale=20.0))
    short, kept = account.to_json(short=True), notion.attachment()
    assert "power" not in short
    assert Accountant.from_json(short, kept).to_json() == account.to_json()
    with pytest.raises(InvalidInput, match="household"):
        Accountant.from_json(short)
    other = Swellfish(Specification([Secret(2.0, 3, 1, 9, 2.0)], "a")).attachment()
    with pytest.raises(InvalidInput, match="not those that the promise was made with"):
        Accountant.from_json(short, other)
    with pytest.raises(InvalidInput, match="cannot be read"):
        Accountant.from_json(short, "{")


def test_an_account_goes_on_under_secrets_that_were_added():
    old = Specification([Secret(2.0, 3, 1, 9, 1.0)], "a")
    new = Specification([*old.secrets, Secret(1.0, 1, 6, 9, 0.5)], "a")
    account = Accountant(Swellfish(old))
    for step in range(1, 5):
        account.admit(Release(step, 0.1, scale=10.0))
    later = account.with_notion(Swellfish(new), published=4)
    assert later.risk() == account.risk()
    assert later.headroom(7) < account.headroom(7)
    with pytest.raises(InvalidInput, match="steps 6 to 7 are published already"):
        account.with_notion(Swellfish(new), published=7)
    with pytest.raises(InvalidInput, match="missing or changed"):
        later.with_notion(Swellfish(old), published=4)
    with pytest.raises(InvalidInput, match="the policy promises"):
        account.with_notion(Swellfish(new, neighbours="one-event"), published=4)


def test_under_all_events_old_data_needs_its_whole_hiding_interval(monkeypatch):
    """Step 25 is remembered, but what was published about steps 10 to 20 of its hiding interval is not."""
    monkeypatch.setattr(swellfish, "LEAST_MEMORY", 1)
    held = Specification([Secret(1.0, 2, 10, 29, 1.0), Secret(1.0, 2, 41, 60, 1.0)])
    account = Accountant(Swellfish(held, neighbours="all-events"))
    account.admit(*(release(step, 1e3) for step in range(10, 61)))
    assert account._state.forgotten == 20
    with pytest.raises(InvalidInput, match="up to 20"):
        account.admit(release(60, 1e3, age=35))
    assert account.headroom(60, age=35) == 0
    account.admit(release(60, 1e3, age=10))


def test_scales_calibrated_with_many_others_refuse_nothing_that_is_enough_by_itself():
    """Of 250 kinds of secrets some are asked for up to 1 % more together than alone; alone counts, and a hair less is refused."""
    epsilons = np.linspace(0.3, 0.6, 250).tolist()
    held = [Secret(1.0, 30, 100 * k + 1, 100 * k + 40, e) for k, e in enumerate(epsilons)]
    notion = Swellfish(Specification(held), 1e-5, noise="laplace")
    alone = [
        Swellfish(Specification(held[k : k + 1]), 1e-5, noise="laplace").sufficient.at(100 * k + 1) for k in range(12)
    ]
    together = [notion.sufficient.at(100 * k + 1) for k in range(12)]
    k = int(np.argmax(np.array(together) / np.array(alone)))
    assert together[k] > alone[k] * (1 + 1e-4)
    account = Accountant(notion)
    account.copy().admit(release(100 * k + 1, alone[k] * (1 + 1e-9)))
    with pytest.raises(BudgetExceeded):
        account.copy().admit(release(100 * k + 1, alone[k] * (1 - 1e-4)))
