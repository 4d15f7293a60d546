"""Sample, BD and BA in the streams of policies: whatever they come to spend is admitted by the accounts they are made for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from halflife import (
    Accountant,
    AgeDependent,
    AlmostPeriodic,
    Classical,
    ExponentialDiscount,
    InvalidInput,
    MarkovChain,
    ReleaseDraw,
    WEvent,
)
from halflife.audit.black_box import Pair, attack
from halflife.mechanisms import BudgetAbsorption, BudgetDistribution, LaneDraw, PlannedNoise, Sample, Uniform
from halflife.mechanisms.budget_distribution import LONGEST
from halflife.mechanisms.fast import Fast
from halflife.mechanisms.held import Shape, find_window
from halflife.noise import SMALLEST_LOSS
from halflife.notions.gaussian_dp import gaussian_delta
from halflife.steps import Steps
from halflife.testing import check_mechanism

HELD = {"sample": Sample, "bd": BudgetDistribution, "ba": BudgetAbsorption, "fast": Fast}
HOURS = Steps.of("1 h", "2026-01-01", "UTC")


def for_stream(name, plan, cells=1, touched=1):
    return HELD[name].for_stream(plan, name="s", steps=HOURS, begin=1, cells=cells, touched=touched)


@st.composite
def promises(draw):
    """A promise with the plan of one of its streams: its window, how far steps are apart, and how many steps each covers."""
    epsilon, w = draw(st.sampled_from([0.1, 1.0, 3.0])), draw(st.integers(1, 9))
    every, share = draw(st.integers(1, 3)), draw(st.sampled_from([1.0, 0.3]))
    if draw(st.booleans()):
        horizon = (draw(st.integers(1, 40)) - 1) * every + 1
        notion = Classical(epsilon)
        return notion, notion.share(share).plan(sensitivity=3.0, horizon=horizon, every=every)
    if draw(st.integers(0, 2)) == 0:
        notion = WEvent(epsilon, w, 1e-6)
        return notion, notion.plan(sensitivity=3.0, every=every, noise="gaussian", age=draw(st.integers(0, 2)))
    notion, span = WEvent(epsilon, w), draw(st.integers(1, every))
    return notion, notion.share(share).plan(sensitivity=3.0, every=every, span=span, age=draw(st.integers(0, 2)))


@pytest.mark.parametrize("name", HELD)
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_no_pattern_of_outputs_is_ever_refused(name, data):
    """The account admits all charges, whichever steps publish, are late or are passed over, and never holds more than ε."""
    notion, plan = data.draw(promises())
    assume(plan.noise == "laplace" or HELD[name].takes_gaussian)
    cells = data.draw(st.sampled_from([1, 3])) if HELD[name].takes_vectors and plan.noise == "laplace" else 1
    mechanism, account = for_stream(name, plan, cells, touched=min(2, cells)), Accountant(notion)
    draw, every, span = ReleaseDraw(account), plan.request.every, plan.request.span
    last = 40 if plan.request.releases is None else plan.request.releases
    behind = data.draw(st.integers(0, 2)) if isinstance(notion, WEvent) else 0
    for number in range(1, last + 1):
        if data.draw(st.integers(0, 9)) == 0:
            continue  # passed over
        level = data.draw(st.sampled_from([0, 0, 1, 10**6, -(10**9)]))
        place = (number - 1) * every + 1
        late = min(behind, data.draw(st.integers(0, 2)))
        at = max(account.step, place + plan.request.age + late)
        with draw.step(at, late=at - place - plan.request.age, span=span) as d:
            output = mechanism.step(place, np.full(cells, level) if cells > 1 else level, d)
        assert np.all(np.isfinite(output))
        assert {r.data_time for r in draw.releases} <= {place}, "charged at the time that the data is about"
        risk, peak, limit = account.exposure()
        assert max(risk, peak) <= limit * (1 + 1e-12)


@pytest.mark.parametrize("w", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("name", ["bd", "ba"])
def test_every_pattern_of_outputs_keeps_every_window(name, w):
    """All 2^11 ways to publish or to repeat in 12 steps, side by side, each with an account that refuses what is too much."""
    lanes, notion = 2**11, WEvent(1.0, w)
    mechanism, draw = HELD[name](notion), LaneDraw(notion, seed=1, lanes=lanes)
    most = np.zeros(lanes)
    for step in range(1, 13):
        wanted = np.ones(lanes, bool) if step == 1 else (np.arange(lanes) >> (step - 2)) & 1 == 1
        mechanism.moved_far = lambda distance, loss, wanted=wanted: wanted & (loss > 0)
        draw.run(mechanism, step, np.zeros(lanes))
        most = np.maximum(most, 1.0 - draw.headroom())
    with draw.step(13) as d:
        most = np.maximum(most, 1.0 - d.headroom())
    assert most.max() <= 1.0
    assert most.max() > 0.7, "some patterns use up nearly all of it"


@pytest.mark.parametrize("name", HELD)
def test_it_keeps_the_contract_of_mechanisms_in_a_stream(name):
    notion = WEvent(1.0, 6)
    check_mechanism(lambda: for_stream(name, notion.plan(sensitivity=2.0)), notion)


def test_a_window_is_counted_in_the_steps_of_the_stream():
    assert find_window(WEvent(2.0, 48).plan(), "bd") == WEvent(2.0, 48)
    assert find_window(WEvent(2.0, 48).plan(every=48, span=48), "bd") == WEvent(2.0, 2), "a window may touch two days"
    assert find_window(WEvent(2.0, 48).plan(every=4, horizon=17), "bd") == WEvent(2.0, 5), "it ends with its fifth"
    assert find_window(Classical(2.0).plan(every=4, horizon=17), "bd") == WEvent(2.0, 5)


@pytest.mark.parametrize("name", HELD)
@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (ExponentialDiscount(1.0, half_life=48).plan(), "nobody has shown that an account of exponential"),
        (AgeDependent(1.0, MarkovChain([[0.9, 0.1], [0.2, 0.8]])).plan(), "nobody has shown that an account of age-dependent"),
        (AlmostPeriodic(1.0, period=24).plan(), "nobody has shown that an account of almost-periodic"),
        (WEvent(1.0, 6, 1e-6).plan(noise="laplace"), "proved for delta 0, and for Gaussian noise"),
        (Classical(1.0).plan(), "give the stream an end"),
        (WEvent(1.0, 6).plan(method="paper"), "not by a paper plan"),
        (WEvent(SMALLEST_LOSS / 2, 48).plan(), "promise a larger epsilon"),
    ],
)  # fmt: skip
def test_what_is_not_proved_is_refused_with_its_reason(name, plan, words):
    with pytest.raises(InvalidInput, match=words):
        for_stream(name, plan)


def test_what_fast_has_filtered_has_no_noise_of_a_known_scale():
    """A block of 40 steps samples its first three: the first is its noisy value, the others are filtered, the rest repeats."""
    notion = WEvent(1.0, 40)
    fast, draw = for_stream("fast", notion.plan()), ReleaseDraw(Accountant(notion))
    known = []
    for step in range(1, 42):
        draw.run(fast, step, 1000)
        known.append((len(draw.releases), len(fast.noise_in_output(draw.scales))))
    assert known == [(1, 1), (1, 0), (1, 0), *[(0, 0)] * 37, (1, 1)]


def test_a_window_that_is_too_long_to_keep_step_by_step_is_refused():
    """BD keeps a number for each step of a window, with every commit; the others keep a few, however long it is."""
    long = WEvent(1000.0, LONGEST + 1).plan()
    with pytest.raises(
        InvalidInput, match="a window has 1,000,001 steps of the stream: the most is 1,000,000; take ba"
    ):
        for_stream("bd", long)
    assert for_stream("bd", WEvent(1000.0, LONGEST).plan()).notion.w == LONGEST
    assert for_stream("bd", WEvent(1000.0, 10 * LONGEST).plan(every=10)).notion.w == LONGEST, (
        "in the stream's own steps"
    )
    assert all(for_stream(name, long).notion.w == LONGEST + 1 for name in HELD if name != "bd")


def test_a_mechanism_of_one_number_refuses_groups():
    with pytest.raises(InvalidInput, match="fast publishes one number a step, and the stream has 2"):
        for_stream("fast", WEvent(1.0, 6).plan(), cells=2)


class Losses:
    """Draws of Gaussian noise for many lanes, which remember ln p(y | first) − ln p(y | second) where values are `apart`."""

    def __init__(self, seed, apart):
        self._random, self._apart, self.losses = np.random.default_rng(seed), apart, 0.0
        self.squares, self._value, self.step = [], None, 0

    def __call__(self, key, sensitivity, *, loss, noise):
        assert noise == "gaussian"
        self._scale, self._drawn = sensitivity / np.where(loss > 0, loss, 1.0), loss > 0
        self.squares.append((self.step, np.where(self._drawn, loss, 0.0) ** 2))
        return self

    def __radd__(self, value):
        z = self._random.normal(size=np.shape(value))
        moved = self._apart(self.step, value) / self._scale
        self.losses = self.losses + np.where(self._drawn, moved * z + moved**2 / 2, 0.0)
        return np.where(self._drawn, value + self._scale * z, np.nan)

    __array_ufunc__ = None


@pytest.mark.parametrize("name", ["bd", "ba"])
def test_gaussian_losses_chosen_from_outputs_are_within_their_filter(name):
    """δ(ε) of all answers together, from the loss of each run itself: no more than that of one Gaussian of Σμ² = μ²."""
    lanes, w = 400_000, 3
    mechanism = HELD[name](WEvent(1.0, w))
    mechanism.noise, mechanism.budget = "gaussian", 4.0
    draw = Losses(5, lambda step, value: (step > 3) * np.ones(lanes))  # values, and distances, may all be 1 apart
    for draw.step in range(1, 4 + w - 1 + 1):
        mechanism.step(draw.step, np.full(lanes, 2.0 * (draw.step % 2)), draw)
    sums = sum(square for step, square in draw.squares if step > 3)
    assert sums.max() <= 4.0 * (1 + 1e-12)
    assert np.ptp(sums) > 0.1, "what is spent was chosen"
    for epsilon in (0.0, 1.0, 3.0):
        gains = np.maximum(0.0, 1 - np.exp(epsilon - draw.losses))
        found, error = gains.mean(), gains.std() / math.sqrt(lanes)
        assert found <= gaussian_delta(2.0, epsilon) + 5 * error
        spent_all = gaussian_delta(float(np.sqrt(sums.mean())), epsilon)
        assert found >= 0.8 * spent_all - 5 * error, "and not far below that of what was spent on average"


def test_gaussian_noise_is_for_one_number_and_what_fast_would_filter_is_not_proved():
    plan = WEvent(1.0, 6, 1e-6).plan(noise="gaussian")
    bd = for_stream("bd", plan)
    assert (bd.noise, bd.budget) == ("gaussian", pytest.approx(6 * plan.loss(1) ** 2, rel=1e-9))
    assert bd.most_loss == pytest.approx(math.sqrt(6 / 4) * plan.loss(1), rel=1e-9)
    assert "Σμ²" in bd.describe()["tail"]
    for name, cells in (("bd", 2), ("fast", 1)):
        with pytest.raises(InvalidInput, match="Gaussian noise for one number a step at the most"):
            for_stream(name, plan, cells)


def test_uniform_is_planned_noise_of_equal_losses():
    for plan in (WEvent(1.0, 6).plan(), WEvent(1.0, 6, 1e-6).plan(), Classical(1.0).plan(horizon=9)):
        made = Uniform.for_stream(plan, name="s", steps=HOURS, begin=1, cells=2, touched=1)
        assert type(made) is PlannedNoise
        assert len({request.loss for request in made.requests(range(1, 10))}) == 1
    with pytest.raises(InvalidInput, match="not classical for ever"):
        Uniform.for_stream(Classical(1.0).plan(), name="s", steps=HOURS, begin=1, cells=1, touched=1)


class Watched:
    """A draw that remembers the number it is added to, and what it was asked for: noise of 0."""

    def __init__(self):
        self.asked, self.values = [], []

    def __call__(self, key, sensitivity, *, loss, **shape):
        self.asked.append((sensitivity, loss, shape))
        return self

    def __radd__(self, value):
        self.values.append(value)
        return np.asarray(value, dtype=np.float64)

    __array_ufunc__ = None


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_one_person_moves_the_distance_by_no_more_than_its_l1_sensitivity(data):
    """Whole numbers however large, a last output that is none: by brute force in whole numbers, to the last bit."""
    cells, whole = data.draw(st.integers(1, 4)), st.integers(-(2**62), 2**62)
    first = data.draw(st.lists(whole, min_size=cells, max_size=cells))
    moves = data.draw(st.lists(st.integers(-5, 5), min_size=cells, max_size=cells))
    other = [min(2**62, x + m) for x, m in zip(first, moves, strict=True)]
    last = np.array(data.draw(st.lists(st.floats(-1e18, 1e18), min_size=cells, max_size=cells)))
    found = []
    for truth in (first, other):
        bd, draw = BudgetDistribution(WEvent(1.0, 2), 5.0 * cells), Watched()
        bd.shape = Shape(cells, cells)
        value = np.array(truth if cells > 1 else truth[0])
        bd.measure_distance({"last": last if cells > 1 else last[0]}, value, np.array(0.25), draw)
        assert draw.asked == [(5.0 * cells, 0.25, {})]
        assert type(draw.values[0]) is int, "exact"
        assert draw.values[0] == sum(abs(x - round(y)) for x, y in zip(truth, last.tolist(), strict=True))
        found.append(draw.values[0])
    assert abs(found[0] - found[1]) <= sum(abs(a - b) for a, b in zip(first, other, strict=True))


def test_numbers_of_a_step_are_one_decision_by_their_mean_distance():
    """Of d numbers the mean distance counts: at d·Δ/ε_t in all a step is published, and not a unit below."""
    for cells in (1, 2, 10):
        for beyond, published in ((0, False), (1, True)):
            bd = BudgetDistribution(WEvent(1.0, 2), 1.0)
            bd.shape, draw = Shape(cells, 1), Watched()
            zero = np.zeros(cells, np.int64) if cells > 1 else 0
            bd.step(1, zero, draw)
            there = np.zeros(cells, np.int64) if cells > 1 else np.zeros((), np.int64)
            there[(0,) if cells > 1 else ()] = 8 * cells + beyond  # ε_2 = (1/2 − 1/4)/2 = 1/8
            output = bd.step(2, there if cells > 1 else int(there), draw)
            assert bd.published is published
            assert np.array_equal(np.atleast_1d(output), np.atleast_1d(there if published else zero))


def test_an_output_that_could_only_have_next_to_no_budget_is_not_published():
    """BD halves what is left: after forty releases in a window no noise can be drawn, and the stream goes on all the same."""
    notion = WEvent(1.0, 60)
    bd, draw = for_stream("bd", notion.plan()), ReleaseDraw(Accountant(notion))
    losses = []
    for step in range(1, 61):
        draw.run(bd, step, 4**step if step < 31 else -(10**18) * (-1) ** step)
        losses += [r.loss for r in draw.releases]
    assert min(losses) >= SMALLEST_LOSS
    assert not bd.published


@pytest.mark.parametrize(("name", "far"), [("bd", 2.0), ("ba", 1.0)])
@pytest.mark.parametrize("asks", ["with noise", "without"])
def test_a_black_box_finds_no_more_than_epsilon_and_a_free_question(name, far, asks):
    """w = 2, one person apart within one window: outputs of 200,000 runs tell at most ε, and more if asking were free.

    After a repeated output at step 2, a step is published if it is further than `far` from it. Between `far` and `far` + 1 an
    output is so of 0, and not of 1: without noise in the question, that it is repeated tells for certain.
    """
    runs, notion = 200_000, WEvent(2.0, 2)
    streams = (np.array([0.0, 0.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0, 1.0]))

    def run(which):
        mechanism, draw = HELD[name](notion), LaneDraw(notion, seed=7 + which, lanes=runs)
        if asks == "without":
            mechanism.measure_distance = lambda lanes, truth, loss, draw: np.abs(truth - lanes["last"])
        outputs = np.array([draw.run(mechanism, k, np.full(runs, x)) for k, x in enumerate(streams[which], 1)]).T
        near = (far < outputs[:, 1]) & (outputs[:, 1] < far + 1) & (outputs[:, 0] == outputs[:, 1])
        return np.column_stack([outputs, near & (outputs[:, 1] == outputs[:, 2])])

    pair = Pair("", *(np.append(s, s[-1]) for s in streams), np.ones(5), notion.epsilon, sized=False)
    found = attack((run(0), run(1)), pair, 1e-6)
    assert (found.epsilon > notion.epsilon) is (asks == "without"), found


def test_each_mechanism_is_refused_by_its_own_smallest_draw():
    """BD and BA ask at every step for a 2w-th of ε; Sample draws all of it at once, FAST half of it over a block."""
    plan = WEvent(96 * 1.5 * SMALLEST_LOSS, 48).plan()
    assert all(for_stream(name, plan).notion.w == 48 for name in HELD)
    smaller = WEvent(96 * 0.5 * SMALLEST_LOSS, 48).plan()
    for name in ("bd", "ba"):
        with pytest.raises(InvalidInput, match="promise a larger epsilon"):
            for_stream(name, smaller)
    assert all(for_stream(name, smaller).notion.w == 48 for name in ("sample", "fast"))
