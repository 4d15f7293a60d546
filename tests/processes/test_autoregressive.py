"""AR(1): total variation, the best half-line, Gaussian noise on sequences, and what is refused."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from halflife import AutoRegressive, InvalidInput, MarkovChain, Process
from halflife.processes.contraction import NOTHING, contract

LOSSES = (1e-3, 0.5, 1.0, 4.0, 20.0, 100.0)


def laws(process, t):
    """The laws of X_{now−t} for two states that differ by the span, written down from Lemma 8."""
    std = process.sigma * math.sqrt((1 - process.rho ** (2 * t)) / (1 - process.rho**2))
    return stats.norm(process.rho**t * process.span, std), stats.norm(0.0, std)


@pytest.mark.parametrize("rho", [0.3, -0.7, 0.9, 0.99])
@pytest.mark.parametrize("t", [1, 2, 10])
def test_total_variation_is_half_the_area_between_the_densities(rho, t):
    """Holds Definitions 6 and 7, Lemma 8."""
    process = AutoRegressive(rho, 1.3, 2.0)
    one, other = laws(process, t)
    area, _ = integrate.quad(lambda z: abs(one.pdf(z) - other.pdf(z)), -40, 40, limit=400, points=[one.mean() / 2])
    assert process.total_variation(t) == pytest.approx(area / 2, rel=1e-6)
    assert process.frontier(t).variation == pytest.approx(area / 2, rel=1e-6)


@pytest.mark.parametrize("rho", [0.3, -0.9, 0.99])
@pytest.mark.parametrize("t", [1, 3, 50])
def test_the_contraction_is_the_best_half_line(rho, t):
    process = AutoRegressive(rho, 1.0, 1.5)
    one, other = laws(process, t)
    at = np.linspace(-45, 45, 60_001) * other.std()
    for epsilon in LOSSES:
        growth = math.expm1(epsilon)
        half_lines = [
            np.log1p(growth * one.sf(at)) - np.log1p(growth * other.sf(at)),
            np.log1p(growth * one.cdf(at)) - np.log1p(growth * other.cdf(at)),
        ]
        best = max(float(np.abs(side).max()) for side in half_lines)
        got = process.amplify(epsilon, t)
        assert best * (1 - 1e-12) - 1e-13 <= got <= best * (1 + 1e-6) + 1e-13
        assert got <= contract(process.frontier(t), epsilon) <= best * (1 + 1e-4) + 1e-13


@pytest.mark.parametrize("span", [5.0, 15.0, 25.0, 40.0, 80.0])
@pytest.mark.parametrize("epsilon", [0.5, 10.0, 40.0, 300.0])
def test_laws_far_apart_keep_their_digits(span, epsilon):
    """Where p is nearly 1 and q nearly 0, in logarithms throughout."""
    from scipy.special import log_ndtr

    process = AutoRegressive(0.5, 0.5, span)  # δ is the span, at t = 1
    a, log_growth = np.linspace(span / 2, span / 2 + 30, 20_001), epsilon + math.log(-math.expm1(-epsilon))
    losses = np.logaddexp(0, log_growth + log_ndtr(span - a)) - np.logaddexp(0, log_growth + log_ndtr(-a))
    best = float(losses.max())
    assert best * (1 - 1e-12) <= process.amplify(epsilon, 1) <= best * (1 + 1e-5)
    assert best * (1 - 1e-12) <= contract(process.frontier(1), epsilon) <= best * (1 + 1e-3)


def test_no_other_set_beats_the_half_line():
    """Brute force over all sets of cells of a grid of 12 cells per law."""
    process, t, epsilon = AutoRegressive(0.8, 1.0, 2.0), 2, 1.5
    one, other = laws(process, t)
    edges = np.concatenate([[-np.inf], np.linspace(-3, 5, 11), [np.inf]])
    p, q = np.diff(one.cdf(edges)), np.diff(other.cdf(edges))
    growth, bits = math.expm1(epsilon), (np.arange(2**12)[:, None] >> np.arange(12)) & 1
    best = (np.log1p(growth * bits @ p) - np.log1p(growth * bits @ q)).max()
    assert 0.95 * process.amplify(epsilon, t) < best <= process.amplify(epsilon, t)


@given(
    rho=st.floats(-0.999, 0.999).filter(lambda r: abs(r) > 1e-3),
    span=st.floats(1e-6, 1e4),
    t=st.integers(1, 2000),
    epsilon=st.floats(1e-6, 2000),
)
@settings(max_examples=80, deadline=None)
def test_tight_is_never_above_theorem_1_nor_the_loss(rho, span, t, epsilon):
    process = AutoRegressive(rho, 1.0, span)
    tight, first = process.amplify(epsilon, t), process.amplify(epsilon, t, "theorem1")
    assert 0 <= tight <= min(first, epsilon)
    assert contract(process.frontier(t), epsilon) >= tight * (1 - 1e-8)
    assert process.amplify(epsilon, t, "theorem2") == math.inf
    assert process.total_variation(t) <= process.total_variation(t, "pinsker") * (1 + 1e-9) + 1e-290


def test_a_finer_and_finer_chain_comes_near_it():
    """States in the middle of fine cells: the chain's K over pairs a span apart is that of the Gaussian laws."""
    process, epsilon = AutoRegressive(0.7, 1.0, 1.0), 2.0
    cells = np.arange(-6, 6.01, 0.1)
    middle, edges = cells, np.concatenate([[-np.inf], cells[:-1] + 0.05, [np.inf]])
    matrix = np.diff(stats.norm.cdf(edges[None, :] - 0.7 * middle[:, None]), axis=1)
    kernel = MarkovChain(matrix).kernel(2)
    near = np.flatnonzero(np.abs(middle) < 1.55)
    best = 0.0
    for x in near:
        other = kernel[np.argmin(np.abs(middle - middle[x] - 1.0))]
        order = np.argsort(-kernel[x] / other)
        growth = math.expm1(epsilon)
        ratio = (1 + growth * np.cumsum(kernel[x][order])) / (1 + growth * np.cumsum(other[order]))
        best = max(best, math.log(ratio.max()))
    assert best == pytest.approx(process.amplify(epsilon, 2), rel=0.02)


def test_pinsker_is_the_paper_s_and_says_nothing_at_age_zero():
    """Holds Lemma 9."""
    process = AutoRegressive(0.8, 2.0, 3.0)
    assert process.total_variation(4, "pinsker") == pytest.approx(0.8**4 * 3 / 4)
    assert process.total_variation(0, "pinsker") == process.total_variation(0) == 1.0
    assert AutoRegressive(0.9, 0.1, 5.0).total_variation(1, "pinsker") == 1.0
    for rho, sigma, span, t in itertools.product((0.3, 0.8, -0.6), (0.5, 2.0), (0.1, 1.0, 3.0), (1, 2, 7)):
        one = AutoRegressive(rho, sigma, span)
        apart = abs(rho) ** t * span / (sigma * math.sqrt((1 - rho ** (2 * t)) / (1 - rho**2)))
        assert one.total_variation(t, "pinsker") >= math.erf(apart / (2 * math.sqrt(2))), "2Φ(δ/2) − 1, exactly"


def test_a_process_without_memory_tells_nothing():
    process = AutoRegressive(0.0, 1.0, 1.0)
    assert process.frontier(1) is NOTHING
    assert process.amplify(3.0, 1) == process.total_variation(1) == 0.0
    assert process.amplify(3.0, 0) == 3.0


def test_the_sign_of_rho_does_not_matter_for_fading():
    for t in (1, 2, 9):
        assert AutoRegressive(-0.8, 1.0, 1.0).amplify(1.0, t) == AutoRegressive(0.8, 1.0, 1.0).amplify(1.0, t)


def test_very_old_data_tells_next_to_nothing_but_not_less_than_nothing():
    process = AutoRegressive(0.9, 1.0, 1.0)
    assert 0 < process.amplify(1.0, 10**7) < 1e-280


# Gaussian noise ---------------------------------------------------------------------------------------------------


def dense(process, times, stds, at):
    """μ = D √(cᵀ Σ⁻¹ c), with Σ from the covariances of a stationary AR(1)."""
    times = np.array(times)
    var = process.sigma**2 / (1 - process.rho**2)
    c = process.rho ** np.abs(at - times)
    cov = var * (process.rho ** np.abs(times[:, None] - times) - np.outer(c, c)) + np.diag(np.square(stds))
    return process.span * math.sqrt(c @ np.linalg.solve(cov, c))


@given(
    rho=st.sampled_from([0.9, -0.6, 0.3, 0.0]),
    releases=st.lists(st.tuples(st.integers(0, 30), st.floats(0.2, 9)), min_size=1, max_size=12),
    at=st.integers(0, 40),
)
@settings(max_examples=80, deadline=None)
def test_gaussian_noise_on_a_sequence_is_what_the_covariances_say(rho, releases, at):
    process = AutoRegressive(rho, 1.4, 2.0)
    times, stds = zip(*releases, strict=True)
    assert process.gaussian_mu(times, stds, at) == pytest.approx(dense(process, times, stds, at), rel=1e-8, abs=1e-12)


def test_a_thousand_noisy_releases_cost_no_more_than_printed():
    """mathematics.md, T4: ρ = 0.9, σ = 1, span 1, noise of standard deviation 4, every step: μ = 0.441, for ever."""
    process = AutoRegressive(0.9, 1.0, 1.0)
    mu = process.gaussian_mu(range(1, 1001), [4.0] * 1000, at=1000)
    assert mu == pytest.approx(0.441, abs=5e-4)
    assert mu == pytest.approx(dense(process, range(1, 1001), [4.0] * 1000, 1000), rel=1e-9)
    assert process.gaussian_mu(range(1, 20_001), [4.0] * 20_000, at=20_000) == pytest.approx(mu, rel=1e-9)


def test_one_noisy_release_is_a_gaussian_mechanism():
    process = AutoRegressive(0.9, 1.0, 3.0)
    assert process.gaussian_mu([5], [2.0], at=5) == pytest.approx(3.0 / 2.0)
    assert process.gaussian_mu([5, 5], [2.0, 2.0], at=5) == pytest.approx(3.0 / 2.0 * math.sqrt(2))
    assert process.gaussian_mu([], [], at=5) == 0.0
    assert process.gaussian_mu([5], [2.0], at=9) == process.gaussian_mu([9], [2.0], at=5)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (([1, 2], [1.0], 3), "do not belong together"),
        (([1], [0.0], 3), "standard deviation of release 0"),
        (([1], [math.nan], 3), "standard deviation of release 0"),
        (([1.5], [1.0], 3), "data time 0"),
        (([1], [1.0], 3.5), "at must"),
    ],
)
def test_noise_that_is_none_is_refused(arguments, says):
    with pytest.raises(InvalidInput, match=says):
        AutoRegressive(0.9, 1.0, 1.0).gaussian_mu(*arguments)


# Data, disk, refusals ---------------------------------------------------------------------------------------------


def test_aged_values_follow_their_law_and_samples_are_stationary():
    process, rng = AutoRegressive(-0.8, 2.0, 1.0), np.random.default_rng(2)
    aged = process.age(np.full(40_000, 5.0), 3, rng)
    std = 2.0 * math.sqrt((1 - 0.8**6) / (1 - 0.64))
    assert stats.kstest(aged, stats.norm(-(0.8**3) * 5.0, std).cdf).pvalue > 1e-4
    assert stats.kstest(aged, stats.norm(0.8**3 * 5.0, std).cdf).pvalue < 1e-12
    assert process.age([1.0, 2.0], 0, rng).tolist() == [1.0, 2.0]
    path = process.sample(100_000, rng)
    assert path.std() == pytest.approx(2.0 / 0.6, rel=0.03)
    assert np.corrcoef(path[1:], path[:-1])[0, 1] == pytest.approx(-0.8, abs=0.01)
    with pytest.raises(InvalidInput, match="missing value"):
        process.age([math.nan], 1, rng)


@pytest.mark.parametrize("t", [1, 2, 5])
def test_lemma_7_the_process_back_is_the_process_ahead(t):
    """Bayes, with the process ahead alone: the law of the state t steps before a known one is what `age` draws."""
    process, known = AutoRegressive(-0.7, 1.3, 1.0), 1.5
    x = np.linspace(-15, 15, 20_001)
    ahead = stats.norm(0.0, 1.3)  # X_{k+1} − ρ X_k
    spread = 1.3 * math.sqrt(sum(0.49**k for k in range(t)))  # t steps of it
    law = stats.norm(0.0, ahead.std() / math.sqrt(1 - 0.49)).pdf(x) * stats.norm((-0.7) ** t * x, spread).pdf(known)
    back = np.cumsum(law) / law.sum()
    drawn = process.age(np.full(40_000, known), t, np.random.default_rng(t))
    assert stats.kstest(drawn, lambda at: np.interp(at, x, back)).pvalue > 1e-4
    assert stats.kstest(drawn * 1.1, lambda at: np.interp(at, x, back)).pvalue < 1e-4
    assert process.contract(1.0, t, "ahead") == process.contract(1.0, t, "back")


def test_it_can_be_written_down():
    process = AutoRegressive(-0.5, 1.0, 2.0)
    again = Process.from_dict(json.loads(json.dumps(process.to_dict())))
    assert again == process
    assert again.composes == "autoregressive"


def test_more_than_one_coefficient_is_refused_with_the_reason():
    with pytest.raises(InvalidInput, match=r"AR\(p\) with p ≥ 2.*last p values.*Markov chain"):
        AutoRegressive([0.5, 0.3], 1.0, 1.0)


def test_an_adversary_with_any_prior_is_refused_with_the_reason():
    with pytest.raises(InvalidInput, match="Gaussian densities has no bound"):
        AutoRegressive(0.5, 1.0, 1.0).amplify(1.0, 2, adversary="any-prior")


@pytest.mark.parametrize(
    ("rho", "sigma", "span", "says"),
    [
        (1.0, 1.0, 1.0, "rho must lie between"),
        (-1.0, 1.0, 1.0, "rho must lie between"),
        (math.nan, 1.0, 1.0, "rho is NaN"),
        (-math.inf, 1.0, 1.0, "rho must be finite"),
        ("a", 1.0, 1.0, "rho must be a number"),
        (0.5, 0.0, 1.0, "sigma"),
        (0.5, 1.0, -1.0, "span"),
        (0.5, 1.0, math.inf, "span"),
    ],
)
def test_parameters_that_mean_nothing_are_refused(rho, sigma, span, says):
    with pytest.raises(InvalidInput, match=says):
        AutoRegressive(rho, sigma, span)


def test_an_unknown_way_to_total_variation_is_refused():
    with pytest.raises(InvalidInput, match="did you mean 'pinsker'"):
        AutoRegressive(0.5, 1.0, 1.0).total_variation(1, "pinskr")
