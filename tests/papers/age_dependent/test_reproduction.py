"""The age-dependent paper: its numbers and its errata by other means, the figures, London, and what the command writes."""

from __future__ import annotations

import csv
import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import entropy, norm

from halflife import AgeDependent, AutoRegressive, InvalidInput, Release
from halflife.cli import main
from halflife.lab.age_dependent.staleness import MeasuredError, TwoStateMSE
from halflife.lab.views.page import load_plotly
from halflife.papers import figures
from halflife.papers.age_dependent import errata, london, model, report, sequences
from halflife.papers.age_dependent import reproduction as paper
from halflife.plans.age_dependent.relaxed import proposition_3, proposition_4
from halflife.processes import GeometricMixing
from halflife.processes.contraction import contract

HOMES, DAYS = 9, 60


@pytest.fixture(scope="module")
def seen():
    return []


@pytest.fixture(scope="module")
def small(seen):
    """Everything, on a small generated town; `seen` holds what was told of the progress."""
    return paper.reproduce(london.generated_source(1, HOMES, DAYS), lambda *call: seen.append(call))


@pytest.fixture(scope="module")
def real(data_folder):
    """London's 40 homes, with kernels counted up to a day."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(london, "LAGS", london.A_DAY)
        yield london.fit(london.real_source(data_folder))


def figure(small, name):
    return {panel.name: panel for found in small.figures.values() for panel in found}[name]


# The two towns, and one release -------------------------------------------------------------------------------------


def test_the_two_towns_by_hand():
    assert model.odds(2.0) == pytest.approx(0.88, abs=5e-3)
    found = model.two_towns_data()
    assert [t.days for t in found] == [3, 6, 10]
    assert [round(100 * t.computed, 1) for t in found] == [69.5, 60.0, 54.1]
    assert [t.printed for t in found] == [0.65, 0.58, 0.53]
    for town in found:
        assert town.computed == pytest.approx(0.5 + (model.odds(2.0) - 0.5) * 0.8**town.days, rel=1e-12)
        assert town.tight == pytest.approx(town.computed, rel=1e-9), "T3 is attained"
        assert town.theorem_1 > town.computed + 0.05
        by_day = {t: 0.5 + (model.odds(2.0) - 0.5) * 0.8**t for t in range(1, 20)}
        assert min(by_day, key=lambda t: abs(by_day[t] - town.printed)) == town.fits
    assert [t.fits for t in found] == [4, 7, 11]


def test_figure_4_by_formulas_and_a_grid(small):
    """Holds Corollary 4."""
    loss, risk, best = (figure(small, name) for name in ("4a", "4b", "4c"))
    t = loss.x
    assert loss["paper, ε_C = 1"] == pytest.approx(0.1 * (1 - 0.8**t) + 2 / 20**2, rel=1e-12)
    assert loss["corrected (A2), ε_C = 1"] == pytest.approx(0.1 * (1 - 0.8**t) + 2 * (2 / 20) ** 2, rel=1e-12)
    assert risk["paper: Theorem 1, ε_C = 4"] == pytest.approx(np.log1p(0.8**t * math.expm1(4)), rel=1e-9)
    assert risk["ours: tight, ε_C = 4"] == pytest.approx(2 * np.arctanh(0.8**t * math.tanh(2)), rel=1e-9)
    ratio = np.log((1 + 0.8 ** t[1:]) / (1 - 0.8 ** t[1:]))
    assert risk["Theorem 2: any mechanism"][1:] == pytest.approx(ratio, rel=1e-9)
    assert (best.x == model.RISKS).all()
    error, epsilons = TwoStateMSE(0.1, 0.1, 20), np.geomspace(0.01, 30, 3000)
    for i in (0, 10, 20, 29):
        allowed = [
            error(age, float(epsilons[2 * np.arctanh(0.8**age * np.tanh(epsilons / 2)) <= best.x[i]].max()))
            for age in range(41)
        ]
        assert best["corrected: aging and noise, tight"][i] == pytest.approx(min(allowed), rel=1e-2)
    assert best["paper: noise only, 2/(ε²I²)"] == pytest.approx(2 / (best.x * 20) ** 2, rel=1e-12)
    assert best["paper: aging and noise, Theorem 1"].max() < 0.101
    assert best["corrected (A2): noise only"].max() > 40


def test_figure_5_a_third_less_loss_is_reached_for_some_x0_only(small):
    found = {r.initial: r for r in small.reductions}
    average, quarter = found[None], found[5]
    assert max(average[1:]) < 2e-3, "averaged over where people were, aging buys next to nothing"
    assert quarter.printed_theorem_1 == pytest.approx(0.2756, abs=2e-3)
    assert quarter.tight == pytest.approx(0.3319, abs=2e-3)
    assert found[0].tight > 0.8 > found[8].tight
    for one in found.values():
        assert one.tight >= one.theorem_1 - 1e-12
    panel = figure(small, "5a")
    assert (np.diff(panel["paper, ε_C = 1"]) > 0).all()
    assert panel["paper, ε_C = 1"][-1] == pytest.approx(0.5, abs=5e-3), "Figure 5(a) goes to one half"
    best, ages = figure(small, "5c"), figure(small, "5b")
    assert (best["ours: with aging, X₀ = 5"] <= ages["ours, age 1"] + 1e-12).all()
    assert (best["ours: with aging, X₀ = 5"] <= ages["ours, age 0"] + 1e-12).all()
    gain = 1 - best["ours: with aging, X₀ = 5"] / best["ours: noise only, X₀ = 5"]
    assert gain.max() == pytest.approx(quarter.tight, rel=1e-9)


def test_figure_8_by_covariances_and_by_integrals(small):
    loss, risk = figure(small, "8a"), figure(small, "8b")
    variance = 1 / (1 - 0.8**2) / 20
    t = loss.x
    stale = 2 * variance - 2 * 0.8**t * variance  # E[(x_0 − x_t)²] of the mean
    assert loss["corrected (A3), ε_C = 2"] == pytest.approx(stale + 2 * (2 / (2 * 20)) ** 2, rel=1e-9)
    assert loss["paper: eq. 92, ε_C = 2"] == pytest.approx((1 - 0.8 ** (2 * t)) * variance + 1 / 40**2, rel=1e-9)
    for age in (1, 5, 12):
        mean, std = 0.8**age * 2.0, math.sqrt((1 - 0.8 ** (2 * age)) / (1 - 0.8**2))
        x = np.linspace(-15, 15, 200_001)
        apart = float(np.abs(norm.pdf(x, mean, std) - norm.pdf(x, 0, std)).sum() * (x[1] - x[0]) / 2)
        assert risk["exact Δ, Theorem 1, ε_C = 4"][age] == pytest.approx(math.log1p(apart * math.expm1(4)), rel=1e-6)
        cut = np.linspace(-5, 8, 4001)
        half = np.log1p(math.expm1(4) * norm.sf(cut, mean, std)) - np.log1p(math.expm1(4) * norm.sf(cut, 0, std))
        assert risk["ours: tight, ε_C = 4"][age] == pytest.approx(half.max(), rel=1e-5)
    pinsker = risk["paper: Pinsker, Theorem 1, ε_C = 4"]
    assert pinsker[5] == pytest.approx(math.log1p(0.8**5 * 2 / 2 * math.expm1(4)), rel=1e-12)
    assert (pinsker >= risk["exact Δ, Theorem 1, ε_C = 4"]).all()
    assert AutoRegressive(0.8, 1.0, 2.0).amplify(1.0, 5) == risk["ours: tight, ε_C = 1"][5]


# Many releases ------------------------------------------------------------------------------------------------------


def by_paths(releases, step):
    """The risk about X_step of randomised response, summing over every path of states: slow, and nothing shared with the code."""
    times = sorted((r.step - r.age, r.loss) for r in releases if r.step <= step)
    moments = [t for t, _ in times] + [step]
    stay = [(1 + 0.8 ** (b - a)) / 2 for a, b in itertools.pairwise(moments)]
    worst = 0.0
    for outputs in itertools.product((0, 1), repeat=len(times)):
        likelihood = [0.0, 0.0]
        for path in itertools.product((0, 1), repeat=len(moments)):
            chance = 1.0
            for (a, b), same in zip(itertools.pairwise(path), stay, strict=True):
                chance *= same if a == b else 1 - same
            for (_, loss), state, out in zip(times, path, outputs, strict=False):
                chance *= math.exp(loss * (state == out)) / (1 + math.exp(loss))
            likelihood[path[-1]] += chance
        worst = max(worst, abs(math.log(likelihood[0] / likelihood[1])))
    return worst


def test_what_is_attained_by_a_sum_over_paths():
    releases = [Release(3, 0.5, 1), Release(5, 1.0, 0), Release(6, 0.3, 2), Release(9, 0.7, 4)]
    for step in (3, 6, 9, 11):
        assert sequences.attained_risk(model.CHAIN, releases, step) == pytest.approx(
            by_paths(releases, step), rel=1e-12
        )


def test_figure_2_is_theorem_3_and_ours_is_below_it(small):
    risk, age = figure(small, "2a"), figure(small, "2b")
    releases = [Release(step, loss, old) for step, old, loss in sequences.FIGURE_2]
    ours, theirs = risk["ours: tight (T4a)"], risk["paper: Theorem 3"]
    assert (ours <= theirs + 1e-12).all()
    for step in (4, 9, 16, 30):
        attained = sequences.attained_risk(model.CHAIN, releases, step)
        assert ours[step - 1] == pytest.approx(attained, rel=1e-9), "tight is exact on a symmetric chain of two states"
    first = math.log1p(0.8 * math.expm1(0.6))
    assert theirs[3] == pytest.approx(first, rel=1e-9)
    assert theirs[8] == pytest.approx(
        math.log1p(0.8**3 * math.expm1(1.0 + math.log1p(0.8**3 * math.expm1(0.6)))), rel=1e-9
    ), "ε(9) builds on ε(6), which is that of data 3 steps old"
    same = sequences.risks_over_time(AgeDependent(1e3, model.CHAIN, bound="paper"), releases, 30)
    assert theirs == pytest.approx(same, rel=1e-9), "where ages are shorter than gaps, data time and Theorem 3 agree"
    assert np.isnan(age["age of information"][:3]).all()
    assert age["age of information"][[3, 7, 8, 13, 19, 23]].tolist() == [1, 5, 3, 0, 5, 9]


def test_figure_3_goes_to_its_fixed_points(small):
    """Holds Corollary 5."""
    points = small.fixed_points
    delta, grown = 0.8**4, math.exp(0.5)
    assert points.proposition_3 == pytest.approx(math.log1p(0.8**2 * (grown - 1) / (1 - delta * grown)), rel=1e-9)
    assert points.proposition_3 == pytest.approx(0.8236, abs=1e-4)
    r = 0.0
    for _ in range(300):
        r = 2 * math.atanh(delta * math.tanh((0.5 + r) / 2))
    assert points.tight == pytest.approx(2 * math.atanh(0.8**2 * math.tanh((0.5 + r) / 2)), rel=1e-9)
    assert points.peaks_tight == pytest.approx(points.peaks_attained, rel=1e-9)
    assert points.peaks_tight[7] == pytest.approx(0.508608, abs=1e-6)
    assert points.peaks_theorem_3[7] == pytest.approx(0.7990, abs=1e-4)
    for peaks, limit in ((points.peaks_tight, points.tight), (points.peaks_theorem_3, points.proposition_3)):
        assert (np.diff(peaks) > 0).all()
        assert limit - 0.02 < peaks[-1] < limit
    panel = figure(small, "3")
    marks = panel["attained: every output enumerated"]
    assert np.flatnonzero(~np.isnan(marks)).tolist() == [4 * k - 1 for k in range(1, 11)]


def test_figure_6_a_larger_error_buys_less_risk_and_corollary_3_does_not_speak(small):
    """The paper says that its condition holds for the mean squared error. A move along a curve of equal risk contradicts it."""
    process, eps, more = GeometricMixing(1.0, 0.8), 1.0, 1.1
    periods = [proposition_4(process, e) for e in (eps, more)]
    ages = [8.0 - periods[0]]
    ages.append(ages[0] + math.log(math.expm1(more) / math.expm1(eps)) / math.log(1 / 0.8))
    assert ages[0] > 0
    risks = [proposition_3(process, e, a, s) for e, a, s in zip((eps, more), ages, periods, strict=True)]
    assert risks[0] == pytest.approx(risks[1], rel=1e-9)
    errors = [
        0.1 * (1 - 0.8 ** (a + s)) + 2 / (e * 20) ** 2 for e, a, s in zip((eps, more), ages, periods, strict=True)
    ]
    condition = small.conditions[0]
    assert not condition.holds
    assert (condition.before, condition.after) == pytest.approx(errors, rel=1e-9)
    assert errors[1] > 1.03 * errors[0]
    for name in ("6a", "6b"):
        for curve in figure(small, name).curves:
            known = curve.y[~np.isnan(curve.y)]
            assert len(known) >= 4
            assert (np.diff(known) < 0).all(), (name, curve.name)


def test_a_point_of_figure_6_by_trying_everything(small):
    panel = figure(small, "6a")
    for limit in (0.07, 0.09):
        best = math.inf
        for age, period in itertools.product(range(31), range(1, 21)):
            noise = limit - 0.1 * (1 - 0.8 ** (age + period))
            if noise > 0:
                eps = math.sqrt(2 / 20**2 / noise)
                left = 1 - 0.8**period * math.exp(eps)
                best = min(best, math.log1p(0.8**age * math.expm1(eps) / left) if left > 0 else math.inf)
        at = int(np.argmin(np.abs(panel.x - limit)))
        assert panel["paper: Prop. 3, eq. 48"][at] == pytest.approx(best, rel=1e-6)


# Artificial aging ---------------------------------------------------------------------------------------------------


def test_artificial_aging_by_hand(small):
    assert [row.age for row in small.aging] == [1, 2, 3, 6, 10]
    for row in small.aging:
        left, tanh = 0.8**row.age, math.tanh(0.5)
        assert (row.promised, row.true) == pytest.approx([2 * math.atanh(left * tanh)] * 2, rel=1e-9)
        assert row.slow == pytest.approx(2 * math.atanh(0.96**row.age * tanh), rel=1e-9), "Δ(t) of p = q = 0.02"
        assert row.frozen == 1.0 >= row.slow > row.promised
        assert row.theorem_1 == pytest.approx(math.log1p(left * math.expm1(1)), rel=1e-9)
        assert row.delayed == pytest.approx(0.1 * (1 - left) + 2 * 0.1**2, rel=1e-9)
        assert row.unbiased == pytest.approx((1 - left**2) / 20 / left**2 + 2 * (0.1 / left) ** 2, rel=1e-9)
        assert row.fresh == pytest.approx(2 * (0.1 / row.promised) ** 2, rel=1e-9)
        assert row.reader_fresh == pytest.approx(1 / (20 + 1 / row.fresh), rel=1e-9), "precisions add up"
        assert row.reader_aged == pytest.approx(1 / (20 + 1 / row.unbiased), rel=1e-9)
        assert row.fresh < row.unbiased
        assert row.reader_fresh < row.reader_aged < 1 / 20
        assert 1 < row.break_even < row.most < 3
        assert (row.delayed < row.fresh) == (row.age >= 3), (
            "left as it is, aged data is better, where nothing would be as well"
        )
        assert row.age < 3 or row.delayed > 1 / 20
    panel = figure(small, "aging")
    assert panel["delayed or aged, model true"][[1, 2, 3, 6, 10]] == pytest.approx([r.delayed for r in small.aging])
    assert panel["fresh, noise of K_t"][[1, 2, 3, 6, 10]] == pytest.approx([r.fresh for r in small.aging])
    assert panel["reader corrects: fresh"][0] == pytest.approx(panel["reader corrects: delayed or aged"][0])


# The errata ---------------------------------------------------------------------------------------------------------


def test_the_errata_by_their_witnesses(small):
    a1 = {row.age: row for row in errata.a1_data()}
    assert (a1[3].printed, a1[3].attained) == pytest.approx((0.6148, 0.7573), abs=1e-4)
    assert (a1[5].printed, a1[5].attained) == pytest.approx((0.2832, 0.4713), abs=1e-4)
    assert all(row.tight == pytest.approx(row.attained, rel=1e-9) for row in a1.values())
    assert errata.a2_loss(0.7) == pytest.approx(1.4)
    assert errata.a3_data() == pytest.approx((2.75, 4.96), abs=5e-3)
    printed, right = errata.a4_loop(True), errata.a4_loop(False)
    assert printed == (0, 0.0)
    assert right.age == pytest.approx(math.log(1 - 0.06 / 0.1) / math.log(0.8), abs=2e-4)
    said, true = errata.a8_data()
    assert (said, true) == pytest.approx((0.0, 1.0), abs=1e-6)
    assert not errata.DE_BRUIJN.reversible
    table = {row.name: row for row in small.errata}
    names = [row.name for row in small.errata if row.name != "ours"]
    assert list(dict.fromkeys(names)) == [f"A{k}" for k in range(1, 10)]
    assert names.count("A5") == 6
    assert "0.6148" in table["A1"].printed
    assert "0.7573; 0.4713" in table["A1"].computed
    assert table["A9"].computed == "69.5 %, 60.0 %, 54.1 %"
    assert table["A8"].printed == "Δ(1) = 0"


def test_a5_the_slips_by_their_numbers(small):
    """Eq. 61's step (b) by a loop over states, which must not lie above (c); eq. 85 against SciPy's divergence."""
    chain = np.linalg.matrix_power(np.array([[0.95, 0.05], [0.2, 0.8]]), 20)
    step_b, step_c, exact = errata.a5_steps()
    assert step_b == pytest.approx(
        max(chain[z, x] / chain[z, y] - 1 for z, x, y in itertools.product((0, 1), repeat=3))
    )
    law, off = np.array([0.8, 0.2]), 0.75**20
    assert step_c == pytest.approx(
        max(math.sqrt((1 - p) / p) * off / (p - math.sqrt((1 - p) / (4 * p)) * off) for p in law)
    )
    assert exact == pytest.approx(
        max(math.log(chain[x, z] / chain[y, z]) for x, y, z in itertools.product((0, 1), repeat=3))
    )
    assert exact < step_c < step_b
    printed, right = errata.a5_divergence()
    assert right == pytest.approx(entropy([0.9, 0.1], [0.5, 0.5]))
    assert printed == pytest.approx(-entropy([0.5, 0.5], [0.9, 0.1]))
    slips = {row.about: row for row in small.errata if row.name == "A5"}
    assert slips["Eq. 61: step (c) is said to bound step (b)"].computed == "3.0159"


# Homes --------------------------------------------------------------------------------------------------------------


def brute_left(kernel, epsilon):
    """K by every pair of rows and every set of states."""
    states = len(kernel)
    sets = np.array(list(itertools.product((0.0, 1.0), repeat=states)))
    weights = np.log1p(math.expm1(epsilon) * (kernel @ sets.T))
    return float((weights.max(axis=0) - weights.min(axis=0)).max())


def test_a_row_of_the_table_by_counting():
    source = london.generated_source(2, homes=3, days=40)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(london, "LAGS", 12)
        patch.setattr(london, "STATES", 6)
        fitted = london.fit(source)
        (row,) = london.table_data(fitted, [2.0], [9])
    left, chains = [], []
    for home in source.homes:
        edges = np.quantile(home, np.arange(1, 6) / 6)
        state = np.searchsorted(edges, home, side="right")
        counts = np.zeros((2, 6, 6))
        for k, lag in enumerate((9, 1)):
            np.add.at(counts[k], (state[lag:], state[:-lag]), 1)
        kernel, back = (c / c.sum(axis=1, keepdims=True) for c in counts)
        left.append(brute_left(kernel, 2.0))
        ahead = counts[1].T / counts[1].T.sum(axis=1, keepdims=True)
        chains.append(ahead)
        assert back.shape == (6, 6)
    assert (row.median, row.worst) == pytest.approx((np.median(left), max(left)), rel=1e-9)
    variation, first, tight = 0.0, 0.0, 0.0
    for ahead in chains:
        values, vectors = np.linalg.eig(ahead.T)
        law = np.real(vectors[:, np.argmax(np.real(values))])
        law /= law.sum()
        reverse = (law[:, None] * np.linalg.matrix_power(ahead, 9)).T / law[:, None]
        apart = np.abs(reverse[:, None] - reverse[None]).sum(axis=2).max() / 2
        variation, tight = max(variation, apart), max(tight, brute_left(reverse, 2.0))
        first = max(first, np.sqrt((1 - law) / law).max() * np.sort(np.abs(values))[-2] ** 9)
    assert row.exact == pytest.approx(math.log1p(variation * math.expm1(2)), rel=1e-6)
    assert row.tight == pytest.approx(tight, rel=1e-6)
    assert row.eq_55 == pytest.approx(math.log1p(min(1, first) * math.expm1(2)), rel=1e-6)


def test_the_table_keeps_its_order(small):
    assert len(small.rows) == 3 * london.LAGS
    for row in small.rows:
        assert row.tight <= row.exact + 1e-12
        assert row.median <= row.worst <= row.promised <= row.epsilon * (1 + 1e-12)
    shown = paper.printed_rows(small.rows)
    assert len(shown) == 2 * len(paper.TABLE_HOURS)
    assert {row.epsilon for row in shown} == {1.0, 4.0}
    assert (shown[0].hours, shown[-1].hours) == (1.0, 48.0)


def test_above_the_median_of_the_time_of_day():
    days = np.tile(np.arange(48.0), (4, 1))
    days[1::2] += 100.0
    days[3, 5] = np.nan
    above = london.above_median(days.ravel())
    assert np.isnan(above[3 * 48 + 5])
    assert london.same_time(above, 48) == pytest.approx(1.0)
    assert london.same_time(np.zeros(100), 10) == 0.0
    two = np.array([1.0, 1, 0, 1, 0, 0, 1, np.nan, 1, 0])
    then, now = two[:-1], two[1:]
    high = [a for a, b in zip(then, now, strict=True) if b == 1 and not math.isnan(a)]
    low = [a for a, b in zip(then, now, strict=True) if b == 0 and not math.isnan(a)]
    assert london.same_time(two, 1) == pytest.approx(abs(np.mean(high) - np.mean(low)))


def test_figure_7_is_the_series_and_the_table(small):
    source, loss = small.source, figure(small, "7a")
    measured = MeasuredError(source.mean, source.sensitivity)
    assert loss["ε_C = 2"][1] == pytest.approx(measured(1, 2.0), rel=1e-9)
    assert (loss["ε_C = 2"] - loss["without noise"]) == pytest.approx(2 * (5.0 / HOMES / 2) ** 2, rel=1e-9)
    assert loss["without noise"][48] < loss["without noise"][24], "a day ago is more like now than half a day ago"
    risk = figure(small, "7b, ε_C = 4")
    rows = [row for row in small.rows if row.epsilon == 4]
    assert risk["model: tight"].tolist() == [4.0, *(row.tight for row in rows)]
    assert risk["counted, no model: worst home"].tolist() == [4.0, *(row.worst for row in rows)]
    best = figure(small, "7c")
    assert (best["model: tight"] <= best["model: exact Δ, Theorem 1"] * (1 + 1e-12)).all()
    assert (best["counted, no model: worst home"] <= best["noise only"] * (1 + 1e-12)).all()


@pytest.mark.soak
def test_london_by_the_numbers_of_mathematics(real):
    """Figure 7 at 18 hours, and finding A7."""
    assert real.source.homes.shape == (40, 17_520)
    assert np.isfinite(real.source.homes).sum(axis=1).min() >= 17_000
    (row,) = london.table_data(real, [4.0], [36])
    assert (row.eq_55, row.exact, row.tight) == pytest.approx((2.67, 1.58, 0.57), abs=6e-3)
    assert row.worst > row.median > 2 * row.tight, "the model under-reports"
    model_, counted, day, week, chance = london.distance_data(real)
    assert model_.worst == pytest.approx(0.0143, abs=1e-4)
    assert (counted.median, counted.worst) == pytest.approx((0.63, 0.87), abs=6e-3)
    assert (day.median, day.worst) == pytest.approx((0.22, 0.62), abs=6e-3)
    assert (week.median, week.worst) == pytest.approx((0.17, 0.49), abs=6e-3)
    assert chance.median < 0.02
    assert chance.worst < 0.1
    first = london.EmpiricalProcess.fit([real.source.homes[0]], 6, 48)
    assert [contract(first.estimate(lag), 1.0) for lag in (24, 48)] == pytest.approx([0.109, 0.577], abs=1e-3)
    assert london.reversible_data(real) == (0, 39)
    assert real.check.outcome == "under-reports"
    assert real.check.factor > 10
    for one in london.chance_data(real):
        (at_a_day,) = london.table_data(real, [one.epsilon], [48])
        assert one.median < 0.2 * at_a_day.median, "what is counted is not chance"


# What is written ----------------------------------------------------------------------------------------------------


def test_everything_is_written(small, tmp_path):
    written = report.write_all(small, tmp_path / "new")
    assert [p.name for p in written] == ["report.html", "tables.md", "risks.csv", "numbers.json"]
    assert {p.name for p in (tmp_path / "new").iterdir()} == {p.name for p in written}
    page, tables, rows, numbers = (p.read_text(encoding="utf-8") for p in written)
    assert page.count("plotly.js v") == 1
    assert page.count('class="plot"') == 21 + len(report.check_data(small.check))
    for text in (
        "not valid here, A8",
        "Figure 7c",
        "generated homes",
        "no bound (A8)",
        "69.5 %",
        "Figure 5d",
        "nobody moves",
    ):
        assert text in page
    assert page.index("What to know first") < page.index("Figure 7a")
    assert small.check.verdict in tables
    assert "| A4 |" in tables
    lines = list(csv.DictReader(rows.splitlines()))
    assert len(lines) == len(small.rows)
    assert float(lines[5]["tight"]) == small.rows[5].tight
    found = json.loads(numbers, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert list(found["figures"]) == ["2", "3", "4", "5", "6", "7", "8", "aging"]
    assert found["figures"]["3"]["3"]["curves"]["ours: fixed point"][0] == small.fixed_points.tight
    assert found["figures"]["2"]["2b"]["curves"]["age of information"][:4] == [None, None, None, 1.0]
    assert found["risks_by_age"][0] == small.rows[0]._asdict()


def test_the_plots_show_the_numbers(small):
    load_plotly()
    for found in small.figures.values():
        for panel in found:
            drawn = figures.plot(panel)
            assert len(drawn.data) == len(panel.curves)
            for line, curve in zip(drawn.data, panel.curves, strict=True):
                assert np.array_equal(line.y, curve.y, equal_nan=True)
                assert np.array_equal(line.x, panel.x)
                assert np.isfinite(curve.y).any()


def test_names_of_curves_are_read_strictly(small):
    with pytest.raises(InvalidInput, match="curve of figure 3"):
        figure(small, "3")["ours"]


def test_progress_goes_forward_to_the_end(small, seen):
    assert [done for _, done, _ in seen] == list(range(len(seen)))
    assert {total for *_, total in seen} == {len(seen)}


def test_a_folder_that_cannot_be_made_is_named(small, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="choose another folder"):
        report.write_all(small, tmp_path / "file" / "out")


def test_the_command_on_generated_homes(small, tmp_path, monkeypatch):
    monkeypatch.delenv("HALFLIFE_DATA", raising=False)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    asked = []
    quick = replace(
        report.PAPER,
        generated_source=lambda seed: asked.append(seed) or small.source,
        reproduce=lambda source, seed, progress: small,
    )
    monkeypatch.setattr(report, "PAPER", quick)
    result = CliRunner().invoke(main, ["reproduce", "age-dependent", "--out", "made", "--seed", "3"])
    assert result.exit_code == 0, result.output
    assert asked == [3]
    assert "London Datastore" in result.stderr
    assert "not valid" in result.stdout
    assert small.check.verdict in result.stdout
    at_18 = next(row for row in small.rows if row.epsilon == 4 and row.hours == 18)
    assert paper.risk_cells(at_18)[4] in result.stdout
    assert (tmp_path / "here" / "made" / "report.html").is_file()
    refused = CliRunner().invoke(main, ["reproduce", "age-dependent", "--data", str(tmp_path), "--out", "other"])
    assert refused.exit_code == 1
    assert "holds no lcl_2013" in refused.stderr
    assert not (tmp_path / "here" / "other").exists()


def test_the_risks_of_the_table_are_rounded_up():
    row = london.Row(1.0, 18.0, 0.35901, 0.117, 0.1031, 0.32, 0.86, 1.0, 0.5)
    assert paper.risk_cells(row)[2:5] == ("0.360", "0.117", "0.104")


@pytest.mark.soak
def test_eq_55_says_something_from_9_hours_or_from_20_by_what_12_intervals_are(real):
    """The paper says 18 hours. On its own long homes neither meaning gives that either."""
    found = {(c.homes[:6], c.states[:5]): c.hours for c in london.crossing_data(real)}
    assert found["London", "quant"] == pytest.approx(8.594, abs=1e-3)
    assert found["London", "equal"] == pytest.approx(19.672, abs=1e-3)
    chains = london.chains_of(real.model)
    assert london.eq_55(chains, 17) == 1 > london.eq_55(chains, 18)
    assert london.eq_55(real.equal, 39) == 1 > london.eq_55(real.equal, 40)
    if real.source.long:
        assert (found["5 othe", "quant"], found["5 othe", "equal"]) == pytest.approx((12.224, 28.032), abs=1e-3)


def test_states_of_equal_width_are_cut_over_the_range_of_all_homes():
    """By hand: of 0 … 12 each interval is 1 wide; one home goes 0 → 3 → 12 → 0 → 3, the other stays in the first."""
    moving, still = london.cut_equally([np.array([0.0, 3.5, 12.0, 0.2, 3.1]), np.array([0.1, 0.9, 0.5])])
    assert moving.matrix.tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]
    assert still.states == 1
