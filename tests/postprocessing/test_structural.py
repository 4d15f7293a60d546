"""Structural estimates against dense Gaussian conditioning, and their bands, fits and restarts."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import halflife as hl
from halflife import InvalidInput
from halflife.local_time import local_days
from halflife.postprocessing import Facts, Kalman, LocalLevel, Seasonal
from halflife.postprocessing.structural import fitting
from halflife.postprocessing.structural.combining import combine, find_density, find_median, trust_model
from halflife.postprocessing.structural.filtering import Filter, Model, look_back
from halflife.postprocessing.structural.fitting import find_cost, fit_parameters
from halflife.postprocessing.structural.harmonics import DAY, SIDE, WEEK, YEAR, Harmonics
from halflife.postprocessing.structural.parameters import PRIOR_SPREAD, Parameters, find_variances
from halflife.postprocessing.structural.windows import class_of, next_fit, share_out
from halflife.postprocessing.structural.windows import mix as mix_models


def dense(rows, gaps, model, before):
    """The covariance of the truth h·x at all steps, by moving every state on its own: x_s and x_t share what came before both."""
    times = np.cumsum(gaps)
    steps = len(rows)
    found = np.zeros((steps, steps))
    for j in range(rows.shape[1] - 1):
        variance = before[j] + model.moves[j] * np.minimum.outer(times, times)
        found += np.multiply.outer(rows[:, j], rows[:, j]) * variance
    far = np.abs(np.subtract.outer(times, times))
    return found + model.irregular * model.persistence**far


def a_case(seed, steps=40):
    rng = np.random.default_rng(seed)
    harmonics = Harmonics(4.0, phases=5 * (seed % 2))  # with reused noise, of variance 1.4, and without
    numbers = np.array(Parameters.middle(4.0).numbers) + rng.normal(0, 1, 8)
    found = find_variances(numbers[None], harmonics, 0.7)
    model = Model(found.moves[0] * 2, float(found.irregular[0] * 2), float(found.persistence[0]))
    gaps = rng.choice([1.0, 1.0, 1.0, 2.0, 7.0], steps)
    gaps[0] = 0.0
    noise = rng.choice([0.0, 0.5, 3.0, 20.0], steps)
    rows = harmonics.rows(np.cumsum(gaps) / 4, np.cumsum(gaps) % 7 - 1)  # not every step has reused noise
    values = rng.normal(5, 2, (steps, 3))
    return harmonics, numbers, model, found.before[0] * 2, rows, gaps, noise, values


def mix(predicted, variances, values, noise):
    """The best linear estimate of a prediction and a value, with its variance."""
    share = np.divide(variances, variances + noise, out=np.ones_like(variances + noise), where=noise > 0)
    return predicted + (share * (values - predicted).T).T, share * noise


@pytest.mark.parametrize("seed", range(4))
def test_filter_and_hindsight_are_those_of_dense_conditioning(seed):
    _, _, model, before, rows, gaps, noise, values = a_case(seed)
    truth = dense(rows, gaps, model, before)
    means = np.zeros((rows.shape[1], 3))
    means[0] = 4.0
    seen = Filter(means, np.diag(before)).meet(values, rows, noise, gaps, model)
    for t in range(len(rows)):
        known = truth[: t + 1, : t + 1] + np.diag(noise[: t + 1])
        weights = np.linalg.solve(known, truth[: t + 1, t])
        estimate, variance = mix(seen.predicted[t], seen.signal[t], values[t], noise[t])
        assert estimate == pytest.approx(4.0 + weights @ (values[: t + 1] - 4.0), rel=1e-6)
        assert variance == pytest.approx(truth[t, t] - weights @ truth[: t + 1, t], rel=1e-5, abs=1e-7)
    weights = np.linalg.solve(truth + np.diag(noise), truth)
    estimates, variances = mix(*look_back(seen, rows, noise), values, noise)
    assert estimates == pytest.approx(4.0 + weights.T @ (values - 4.0), rel=1e-6)
    assert variances == pytest.approx(np.diag(truth - truth @ weights), rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("seed", range(3))
def test_likelihood_is_that_of_the_dense_normal_distribution(seed):
    harmonics, numbers, _, _, rows, gaps, noise, values = a_case(seed)
    sets = np.array([numbers, numbers + 0.3])
    amplitudes, begin = np.array([1.0, 2.0, 0.5]), np.array([4.0, 5.0, 6.0])
    found = find_cost(sets, values, rows, noise + 0.1, gaps, amplitudes, begin, harmonics, 1.4)
    for k, these in enumerate(sets):
        total = 0.0
        for j, size in enumerate(amplitudes**2):
            variances = find_variances(these[None], harmonics, 1.4 / size)
            moves = variances.moves[0] * size
            model = Model(moves, float(variances.irregular[0] * size), float(variances.persistence[0]))
            known = dense(rows, gaps, model, variances.before[0] * size) + np.diag(noise + 0.1)
            moved = values[:, j] - begin[j]
            total += (np.linalg.slogdet(2 * np.pi * known)[1] + moved @ np.linalg.solve(known, moved)) / 2
        assert found[k] == pytest.approx(total, rel=1e-9)


def test_local_level_is_the_kalman_filter_of_its_drift():
    rng = np.random.default_rng(5)
    values, scales = np.cumsum(rng.normal(0, 0.3, (300, 1)), axis=0) + rng.laplace(0, 1, (300, 1)), np.ones(300)
    fitted = LocalLevel(4.0)
    fitted.estimate(values, scales)
    fit, filters = fitted._fits[0], fitted._filters[0]
    assert not fit.harmonics.irregular
    assert fit.share > 0.5
    drift = math.sqrt(math.exp(fit.parameters.numbers[0]) * 2.0 ** fitted._kinds[0])
    assert 0.15 < drift < 0.6  # it was 0.3
    (state,) = filters.values()
    assert state.means[0] == pytest.approx(Kalman(drift).smooth(values, scales)[0][-1], rel=1e-3, abs=1e-3)


def test_waves_that_steps_cannot_tell_apart_are_left_out():
    assert {kind for kind, _, _ in Harmonics(48).waves} == {DAY, WEEK, SIDE}
    assert {kind for kind, _, _ in Harmonics(1).waves} == {WEEK, YEAR}
    assert {kind for kind, _, _ in Harmonics(1 / 7).waves} == {YEAR}
    for steps_per_day in (1 / 30, 1 / 7, 1, 2, 3, 24, 48, 144):
        waves = Harmonics(steps_per_day).waves
        assert all(0 < cycles < steps_per_day / 2 for _, _, cycles in waves)
        assert len({cycles for _, _, cycles in waves}) == len(waves)


@pytest.mark.parametrize("share", [0.05, 0.3, 0.7, 0.95])
def test_estimates_are_medians_and_bands_hold_95_per_cent_with_laplace_noise(share):
    """By sums over a grid: the median has the least mean |error|, and 95 % of all errors lie within the band."""
    s, b = math.sqrt(share), math.sqrt((1 - share) / 2)
    x, noise = np.linspace(-6 * s, 6 * s, 801), np.linspace(-16 * b, 16 * b, 1601)
    for v in (0.4, 1.7):
        density = np.exp(-(x**2) / (2 * share) - np.abs(v - x) / b)
        middle = x[np.searchsorted(np.cumsum(density), density.sum() / 2)]
        assert find_median(np.array([v]), np.array([s]), np.array([b]))[0][0] == pytest.approx(middle, abs=0.02 * s)
    chances = np.multiply.outer(np.exp(-(x**2) / (2 * share)), np.exp(-np.abs(noise) / b)).ravel()
    values = np.add.outer(x, noise).ravel()
    values = values[:, None]
    found, bands = combine(
        np.zeros(values.shape), np.full(values.shape, share), values, np.full(values.shape, 1 - share), True,
        trust_model(len(values)),
    )  # fmt: skip
    inside = np.abs(found[:, 0] - np.repeat(x, noise.size)) <= bands[:, 0]
    assert chances[inside].sum() / chances.sum() == pytest.approx(0.95, abs=1e-3)


@pytest.mark.parametrize("laplace", [True, False])
def test_the_density_of_a_surprise_is_that_of_error_and_noise_together(laplace):
    """By a sum over the error, for errors far smaller and far larger than the noise."""
    for f, R in ((1e-3, 2.0), (0.5, 2.0), (2.0, 2.0), (60.0, 2.0)):
        x, b = np.linspace(-9, 9, 40_001) * math.sqrt(f), math.sqrt(R / 2)
        chance = np.exp(-(x**2) / (2 * f)) / math.sqrt(2 * math.pi * f) * (x[1] - x[0])
        for v in (0.0, 0.3, -4.0, 20.0):
            noise = (
                np.exp(-np.abs(v - x) / b) / (2 * b)
                if laplace
                else np.exp(-((v - x) ** 2) / 4) / math.sqrt(4 * math.pi)
            )
            found = find_density(np.array([v]), np.array([f]), np.array([R]), laplace)[0]
            assert found == pytest.approx(math.log(np.sum(chance * noise)), rel=1e-3)


def test_models_are_weighed_and_their_disagreement_is_in_the_band():
    assert share_out([10.0, 10.0 + math.log(3), 90.0]).tolist() == [0.75, 0.25, 0.0]
    means, variances = mix_models(
        [(np.array([1.0]), np.array([2.0])), (np.array([5.0]), np.array([4.0]))], [0.75, 0.25]
    )
    assert means[0] == 2.0
    assert variances[0] == 0.75 * (2 + 1) + 0.25 * (4 + 9)


@pytest.mark.parametrize("kind", [Seasonal, LocalLevel])
def test_bands_hold_where_noise_hides_what_kind_of_series_it_is(kind):
    """White values under Laplace noise whose scale is twice their deviation: no model is sure, and bands know."""
    rng, inside, several = np.random.default_rng(4), [], 0
    for _ in range(3):
        truth = rng.normal(10, 1, (500, 1))
        noisy = truth + rng.laplace(0, 2.0, truth.shape)
        estimator = kind(6.0)
        for found in (estimator.estimate(noisy, np.full(500, 2.0)), estimator.look_back(noisy, np.full(500, 2.0))):
            inside.append(np.mean(np.abs(found.values - truth)[200:] <= found.bands[200:]))
        several += len(estimator._fits) > 1
        again = kind(6.0)
        again.restore(json.loads(json.dumps(estimator.state())))
        assert again.state() == estimator.state()
    assert several
    assert (
        0.82 < np.mean(inside) < 0.98
    )  # less than 95 %: that nothing is remembered from step to step is far from what is expected


def draw_from_the_prior(rng, harmonics, steps):
    """A series as the prior expects it: parameters, then states, then values."""
    numbers = np.array(Parameters.middle(harmonics.steps_per_day, harmonics.seasons).numbers)
    found = find_variances((numbers + rng.normal(0, 1, 8) * PRIOR_SPREAD)[None], harmonics)
    states, truth = rng.normal(0, np.sqrt(found.before[0])), np.empty((steps, 1))
    for t, row in enumerate(harmonics.rows(np.arange(steps) / harmonics.steps_per_day)):
        if t:
            states[-1] *= found.persistence[0]
            states += rng.normal(0, np.sqrt(found.moves[0]))
        truth[t] = row @ states
    return truth


def test_bands_hold_95_per_cent_on_average_over_what_the_prior_expects():
    """What a band promises is the average over series; of one series under noise it may hold more or less."""
    inside, scale = [], 0.5
    for seed in range(100, 106):
        rng = np.random.default_rng(seed)
        truth = draw_from_the_prior(rng, Harmonics(6.0, seasons=False), 504)
        noisy, scales = truth + rng.laplace(0, scale, truth.shape), np.full(504, scale)
        for found in (LocalLevel(6.0).estimate(noisy, scales), LocalLevel(6.0).look_back(noisy, scales)):
            inside.append(np.mean(np.abs(found.values - truth)[168:] <= found.bands[168:]))
    assert 0.93 < np.mean(inside) < 0.97


def test_bands_follow_the_time_of_day():
    """Half of every day is five times as restless as the other: both halves are covered, and live bands differ."""
    rng = np.random.default_rng(21)
    loud = np.arange(1120) % 8 >= 4
    truth = 5 + rng.normal(0, np.where(loud, 1.5, 0.3))[:, None]
    noisy, scales = truth + rng.laplace(0, 0.5, truth.shape), np.full(1120, 0.5)
    facts = Facts(days=np.arange(1120) / 8)
    for found in (LocalLevel(8.0).estimate(noisy, scales, facts), LocalLevel(8.0).look_back(noisy, scales, facts)):
        inside = (np.abs(found.values - truth) <= found.bands)[:, 0]
        for half in (loud, ~loud):
            assert 0.92 < inside[400:][half[400:]].mean() < 0.985
        assert found.bands[400:][loud[400:]].mean() > 1.4 * found.bands[400:][~loud[400:]].mean()


def test_windows_of_a_series_learn_from_each_other_by_a_model_with_two_levels():
    """By dense conditioning: μ ~ N(0, 1 − D), windows at μ + N(0, D), each told with its own variance."""
    there, apart = np.arange(9) < 1, fitting.APART
    told, said = np.array([0.3, 1.0, 4.0]), np.array([0.5, -1.0, 2.0])
    learnt = fitting.NOTHING
    for variance, mean in zip(told, said, strict=True):
        learnt = learnt.add(
            fitting.NOTHING.learn(there, np.array([mean]), np.array([1 / (1 + 1 / variance)]), np.ones(1))
        )
    known = np.full((3, 3), 1 - apart) + np.diag(apart + told)
    weights = np.linalg.solve(known, np.full(3, 1 - apart))
    mean, variance = learnt.expect()
    assert mean[0] == pytest.approx(weights @ said, rel=1e-9)
    assert variance[0] == pytest.approx(1 - weights.sum() * (1 - apart), rel=1e-9)
    assert (mean[1:] == 0).all()
    assert (variance[1:] == 1).all()


def test_sizes_of_a_likelihood_are_squares_of_amplitudes_and_found_where_noise_hides_them():
    harmonics, numbers, _, _, rows, gaps, noise, values = a_case(1)
    amplitudes, begin = np.array([1.0, 2.0, 0.5]), np.array([4.0, 5.0, 6.0])
    plain = find_cost(numbers[None], values, rows, noise + 0.1, gaps, 2 * amplitudes, begin, harmonics, 1.4)
    moved = find_cost(
        numbers[None], values, rows, noise + 0.1, gaps, amplitudes, begin, harmonics, 1.4, sizes=np.array([4.0])
    )
    assert moved == pytest.approx(plain, rel=1e-12)
    rng, level = np.random.default_rng(12), Harmonics(6.0, seasons=False, irregular=False)
    truth = np.cumsum(rng.normal(0, 0.3, (900, 1)), axis=0)
    given = truth + rng.laplace(0, 1.0, truth.shape), level.rows(np.arange(900) / 6), np.full(900, 2.0), np.ones(900)
    drifts = []
    for told, hidden in ((truth.std(), 0.0), (6 * truth.std(), 2.0)):
        found = fit_parameters(*given, np.full(1, told), truth[0], level, laplace=True, hidden=hidden)
        drifts.append(math.exp(found.parameters.numbers[0] / 2) * math.sqrt(found.size) * told)
    assert drifts == pytest.approx([0.3, 0.3], rel=0.2)


def series(seed, steps=224, cells=1, scale=1.0, season=2.0, flat=0.5):
    """A series of four steps a day with a level that drifts and a day that every weekend is flatter."""
    rng = np.random.default_rng(seed)
    days = np.arange(1, steps + 1) / 4
    weekend = 1 - flat * (np.floor(days) % 7 >= 5)
    level = 10 + np.cumsum(rng.normal(0, 0.05, (steps, cells)), axis=0)
    truth = level + (season * weekend * np.sin(2 * np.pi * days))[:, None] + rng.normal(0, 0.1, (steps, cells))
    return truth, truth + rng.laplace(0, scale, (steps, cells))


@pytest.mark.parametrize("kind", [Seasonal, LocalLevel])
def test_cuts_and_restarts_change_no_bit(kind):
    _, noisy = series(1, cells=2, scale=0.7)
    noisy[:, 1] = noisy[:, 1] * 8 + 3
    scales = np.full(len(noisy), 0.7)
    scales[100:110] = 0.0
    facts = Facts(steps=np.arange(1, 225) + (np.arange(224) > 60) * 5, worth=np.array([1.0, 8.0]))

    def part(k):
        return Facts(steps=facts.steps[k], worth=facts.worth)

    whole = kind(4.0).estimate(noisy, scales, facts)
    running, start = kind(4.0), 0
    for length in (1, 30, 1, 0, 60, 20, 112):
        k = slice(start, start + length)
        found = running.estimate(noisy[k], scales[k], part(k))
        assert found.values.tobytes() == whole.values[k].tobytes()
        assert found.bands.tobytes() == whole.bands[k].tobytes()
        state = json.loads(json.dumps(running.state()))
        running = kind.from_facts(json.loads(json.dumps(running.to_facts())))
        running.restore(state)
        start += length
    assert start == len(noisy)
    assert (whole.values[100:110] == noisy[100:110]).all()
    assert (whole.bands[100:110] == 0).all()
    assert (whole.values[:31] == noisy[:31]).all()  # a warm-up that does not pretend to know
    assert whole.bands[:31, 0] == pytest.approx(0.7 * math.log(20))


def test_a_state_of_an_earlier_version_goes_on():
    """It has chances of sizes in its fits, and nothing of weeks: those are learnt from here on."""
    _, noisy = series(1)
    earlier = LocalLevel(4.0)
    earlier.estimate(noisy[:100], np.ones(100))
    state = json.loads(json.dumps(earlier.state()))
    del state["sizes"], state["learnt"]
    state["fit"]["chances"] = [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    later = LocalLevel(4.0)
    later.restore(state)
    found = later.estimate(noisy[100:], np.ones(124))
    assert (found.bands < math.log(20)).mean() > 0.9
    assert "sizes" in later.state()


def test_most_of_the_noise_is_taken_out_and_bands_hold():
    inside, errors = [], []
    for seed in range(2):
        truth, noisy = series(seed, scale=1.0)
        scales = np.ones(len(truth))
        estimator = Seasonal(4.0)
        for found in (estimator.estimate(noisy, scales), estimator.look_back(noisy, scales)):
            late = slice(112, None)
            inside.append(np.mean(np.abs(found.values - truth)[late] <= found.bands[late]))
            errors.append(np.abs(found.values - truth)[late].mean())
    raw = 1.0
    live, revised = np.mean(errors[::2]), np.mean(errors[1::2])
    assert live < 0.4 * raw
    assert revised < 0.9 * live
    assert (
        np.mean(inside[::2]) > 0.93
    )  # with so few values they are wide: little is known of how fast the season changes
    assert np.mean(inside[1::2]) > 0.93


def test_bands_are_neither_too_narrow_nor_too_wide_where_the_model_is_true():
    """Values drawn from the model itself, with its own parameters: of 20,000 estimates 95 % lie within the band."""
    rng, steps, cells = np.random.default_rng(8), 100, 400
    public = Seasonal(4.0, {"level": 0.1, "irregular": 0.3}, amplitude=2.0)
    found = find_variances(np.array([public.public.numbers]), public.models[0])
    rows, size = public.models[0].rows(np.arange(1, steps + 1) / 4), 4.0
    states = rng.normal(0, np.sqrt(found.before[0] * size)[:, None], (rows.shape[1], cells))
    truth = np.empty((steps, cells))
    for t, row in enumerate(rows):
        if t:
            states[-1] *= found.persistence[0]
            states += rng.normal(0, np.sqrt(found.moves[0] * size)[:, None], states.shape)
        truth[t] = row @ states
    noisy, scales = truth + rng.laplace(0, 2.0, truth.shape), np.full(steps, 2.0)
    for made in (public.estimate(noisy, scales), public.look_back(noisy, scales)):
        inside = np.mean(np.abs(made.values - truth)[50:] <= made.bands[50:])
        assert 0.945 < inside < 0.957


@pytest.mark.parametrize("share", [0.01, 0.001])
def test_where_noise_is_small_nothing_gets_worse(share):
    truth, noisy = series(3, scale=10 * share)
    scales = np.full(len(truth), 10 * share)
    for found in (hl.Seasonal(4.0).smooth(noisy, scales), hl.Seasonal(4.0).revise(noisy, scales)):
        assert np.abs(found[0] - truth).mean() < 1.01 * np.abs(noisy - truth).mean()


def test_scales_that_vary_gaps_and_exact_values_do_no_harm():
    """Noise of three sizes and none by turns, a week without values, a day of 25 hours: errors halve, bands hold."""
    rng = np.random.default_rng(60)
    truth = series(6, steps=600, cells=4, flat=0.0)[0]
    steps = np.arange(1, 601) + 28 * (np.arange(600) >= 300)
    scales = np.tile([0.0, 0.5, 1.0, 4.0, 1.0], 120)
    noisy = truth + rng.laplace(0, 1.0, truth.shape) * scales[:, None]
    facts = Facts(steps=steps, days=steps / 4 + 1 / 24 * (steps > 450))
    late = (np.arange(600) > 200) & (scales > 0)
    for found in (Seasonal(4.0).estimate(noisy, scales, facts), Seasonal(4.0).look_back(noisy, scales, facts)):
        off = np.abs(found.values - truth)
        assert (off[scales == 0] == 0).all()
        assert (found.bands[scales == 0] == 0).all()
        assert off[late].mean() < 0.45 * np.abs(noisy - truth)[late].mean()
        assert 0.91 < np.mean(off[late] <= found.bands[late]) < 0.99


def test_gaussian_noise_has_bands_of_its_own():
    rng = np.random.default_rng(70)
    truth = series(7, steps=600, cells=2, flat=0.0)[0]
    noisy = truth + rng.normal(0, 1.0, truth.shape)
    for found in (
        Seasonal(4.0).estimate(noisy, np.ones(600), Facts(std=1.0)),
        Seasonal(4.0).look_back(noisy, np.ones(600), Facts(std=1.0)),
    ):
        off = np.abs(found.values - truth)[200:]
        assert off.mean() < 0.5 * np.abs(noisy - truth)[200:].mean()
        assert np.mean(off <= found.bands[200:]) > 0.93  # wide: of so few values little is known


def test_work_grows_with_classes_of_amplitude_and_not_with_groups(monkeypatch):
    """Updates of a covariance, counted: of 300 groups there are not 300 times as many; fits are pooled over four at most."""
    updates, lanes = [], []
    meet, cost = Filter.meet, fitting.find_cost
    monkeypatch.setattr(
        Filter, "meet", lambda self, values, *rest: (updates.append(len(values)), meet(self, values, *rest))[1]
    )
    monkeypatch.setattr(
        fitting,
        "find_cost",
        lambda numbers, values, *rest: (lanes.append(values.shape[1]), cost(numbers, values, *rest))[1],
    )
    truth, _ = series(4, steps=120)
    for groups in (1, 300):
        updates.clear()
        noisy = truth + np.random.default_rng(1).laplace(0, 0.1, (120, groups))
        Seasonal(4.0).estimate(noisy, np.full(120, 0.1))
        if groups == 1:
            alone = sum(updates)
    assert sum(updates) < 8 * alone
    assert max(lanes) <= 4


@pytest.mark.parametrize("what", ["walk", "white"])
def test_without_a_season_it_is_as_good_as_the_better_of_raw_and_a_fitted_kalman_filter(what):
    worse = []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        truth = rng.normal(0, 1, (300, 1))
        truth = np.cumsum(truth * 0.4, axis=0) if what == "walk" else truth
        noisy, scales = truth + rng.laplace(0, 1.0, truth.shape), np.ones(300)
        errors = [np.abs(v - truth)[100:].mean() for v in (noisy, LocalLevel(6.0).smooth(noisy, scales)[0])]
        worse.append(np.abs(Seasonal(6.0).smooth(noisy, scales)[0] - truth)[100:].mean() / min(errors))
    assert np.mean(worse) < 1.02


@pytest.mark.parametrize("period", [4, 7])  # a day, and what is none
def test_reused_noise_is_carried_undiminished_and_fresh_noise_is_taken_out(period):
    truth, noisy = series(2, cells=40)
    draws = np.random.default_rng(9).laplace(0, 2.0, (period, 40))
    phases = np.arange(224) % period
    both = Facts(fresh=np.ones(224), reused=np.full(224, 2.0), shared=[f"phase {k}" for k in phases])
    kept = truth + draws[phases]  # what no average tells from the truth
    estimator = Seasonal(4.0)
    given = noisy + draws[phases], np.full(224, math.hypot(1, 2)), both
    live = estimator.estimate(*given)
    for found, most in ((live, 0.48), (estimator.look_back(*given), 0.42)):
        assert (found.bands >= 2 * math.log(20) * 0.999).all()
        assert np.abs(found.values - kept)[112:].mean() < most  # of 1
        inside = np.abs(found.values - truth)[112:] <= found.bands[112:]
        assert 0.93 < inside.mean() < 0.98
    again = Seasonal(4.0)
    for part in (slice(0, 100), slice(100, 224)):
        one = Facts(np.arange(1, 225)[part], fresh=both.fresh[part], reused=both.reused[part], shared=both.shared[part])
        found = again.estimate(given[0][part], given[1][part], one)
        state = json.loads(json.dumps(again.state()))
        again = Seasonal(4.0)
        again.restore(state)
    assert found.values.tobytes() == live.values[100:].tobytes()


def test_where_all_noise_is_reused_values_stay_as_they_are():
    truth, _ = series(2)
    exact = truth + np.tile(np.random.default_rng(9).laplace(0, 2.0, 4), 56)[:, None]
    alone = Facts(fresh=np.zeros(224), reused=np.full(224, 2.0), shared=["a", "b", "c", "d"] * 56)
    same = Seasonal(4.0).estimate(exact, np.full(224, 2.0), alone)
    assert (same.values == exact).all()
    assert same.bands == pytest.approx(2 * math.log(20))


def test_days_go_by_the_local_clock():
    hours = np.arange(24 * 60)
    start = 1_364_083_200_000_000  # 24 March 2013, a week before London's clocks change
    days = local_days((start + hours * 3_600_000_000).tolist(), "Europe/London")
    change = 7 * 24 + 1
    assert days[change] - days[change - 1] == pytest.approx(2 / 24)  # a day of 23 hours
    assert np.diff(days[:change]) == pytest.approx(1 / 24)
    assert days[0] % 7 == pytest.approx(6)  # a Sunday
    autumn = local_days([1_382_832_000_000_000 + h * 3_600_000_000 for h in range(4)], "Europe/London")  # 27 October
    assert np.round(autumn % 1 * 24).tolist() == [1, 1, 2, 3]


def test_parameters_are_public_or_fitted_at_public_times():
    assert [next_fit(n, 1 / 7) for n in (0, 32, 1000, 1024)] == [32, 64, 1024, 2048]
    noisy = series(1)[1]
    public = Seasonal(4.0, {"level": 0.05, "irregular": 0.1}, amplitude=1.5)
    values, _ = public.smooth(noisy, np.ones(len(noisy)))
    again = Seasonal.from_facts(public.to_facts())
    assert again.smooth(noisy, np.ones(len(noisy)))[0].tobytes() == values.tobytes()
    assert public.to_facts()["parameters"]["level"] == pytest.approx(0.05)
    with pytest.raises(InvalidInput, match="give both, or none"):
        Seasonal(4.0, {"level": 0.05})
    with pytest.raises(InvalidInput, match="persistence must be a number above 0 and below 1"):
        Seasonal(4.0, {"persistence": 1.0}, amplitude=1.0)
    with pytest.raises(InvalidInput, match="steps_per_day"):
        Seasonal(0)
    with pytest.raises(InvalidInput, match="in order"):
        Seasonal(4.0).smooth(noisy[:2], np.ones(2), Facts(steps=np.array([2, 2])))


def test_amplitudes_of_noise_alone_are_not_held_to_be_nothing():
    kinds = class_of(np.array([1.0, 0.0]), 1.0, 100.0)
    assert 2.0 ** kinds[0] == pytest.approx(math.sqrt(5 / 100) / 2, rel=0.5)
    assert class_of(np.array([0.0]), 0.0, 10.0)[0] < -900  # a constant that is published exactly
    constant = Seasonal(4.0).estimate(np.full((120, 1), 3.0), np.zeros(120))
    assert (constant.values == 3.0).all()
