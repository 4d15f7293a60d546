"""Error models: against enumeration, numerical integration, simulation, and what the paper prints."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from halflife.errors import InvalidInput
from halflife.lab.age_dependent.staleness import AutoRegressiveMSE, MeasuredError, TwoStateFailureRate, TwoStateMSE
from halflife.processes import AutoRegressive, MarkovChain

P, Q = 0.15, 0.3


def two_states(people: int, t: int) -> list[tuple[float, int, float, int]]:
    """Every start and end of a few people: (probability, people up at the start, mean now, of z)."""
    chain = MarkovChain([[1 - P, P], [Q, 1 - Q]])
    ahead, law = chain.kernel(t, "ahead"), chain.stationary
    found = []
    for start in itertools.product((0, 1), repeat=people):
        for end in itertools.product((0, 1), repeat=people):
            chance = math.prod(law[x] * ahead[x, y] for x, y in zip(start, end, strict=True))
            mean = 2 * sum(end) / people - 1
            found.append((chance, sum(start), mean, int(mean >= 0)))
    return found


@pytest.mark.parametrize("people", [1, 3, 4])
@pytest.mark.parametrize("t", [0, 1, 5])
def test_the_mean_squared_error_is_that_of_every_start_and_end(people: int, t: int) -> None:
    """Holds Example 1."""
    stale = sum(chance * (2 * up / people - 1 - mean) ** 2 for chance, up, mean, _ in two_states(people, t))
    for epsilon in (0.3, 2.0):
        noise = stats.laplace(scale=2 / (epsilon * people)).var()
        assert TwoStateMSE(P, Q, people)(t, epsilon) == pytest.approx(stale + noise, rel=1e-9)
        printed = stats.laplace(scale=1 / (epsilon * people)).var()
        assert TwoStateMSE(P, Q, people, as_printed=True)(t, epsilon) == pytest.approx(stale + printed, rel=1e-9)
    assert TwoStateMSE(P, Q, people)(t, math.inf) == pytest.approx(stale, abs=1e-12)


@pytest.mark.diagonal
@pytest.mark.parametrize("people", [1, 3, 4])
@pytest.mark.parametrize("t", [0, 1, 5])
@pytest.mark.parametrize("rule", ["likelihood", "posterior"])
def test_the_failure_rate_is_that_of_numerical_integration(people: int, t: int, rule: Any) -> None:
    cases = two_states(people, t)
    up_chance = sum(chance for chance, _, _, z in cases if z)
    for epsilon in (0.4, 3.0):
        outputs = np.linspace(-40, 40, 160_001)
        joint = np.zeros((2, len(outputs)))
        for (up, z), group in itertools.groupby(sorted(cases, key=lambda c: (c[1], c[3])), key=lambda c: (c[1], c[3])):
            density = stats.laplace.pdf(outputs, 2 * up / people - 1, 2 / (epsilon * people))
            joint[z] += sum(c[0] for c in group) * density
        weight = (1.0, 1.0) if rule == "posterior" else (1 / (1 - up_chance), 1 / up_chance)
        guess = joint[1] * weight[1] >= joint[0] * weight[0]
        wrong = np.where(guess, joint[0], joint[1]).sum() * (outputs[1] - outputs[0])
        assert TwoStateFailureRate(P, Q, people, rule=rule)(t, epsilon) == pytest.approx(wrong, abs=2e-4)


def test_the_failure_rate_is_that_of_a_simulation() -> None:
    rng, draws, people, t, epsilon = np.random.default_rng(5), 200_000, 20, 3, 1.0
    moved = 0.5 * (1 - 0.8**t)
    start = rng.random((draws, people)) < 0.5
    end = start ^ (rng.random((draws, people)) < moved)
    output = 2 * start.mean(axis=1) - 1 + rng.laplace(scale=2 / (epsilon * people), size=draws)
    error = TwoStateFailureRate(0.1, 0.1, people)
    wrong = (output >= error.threshold(t, epsilon)) != (2 * end.mean(axis=1) - 1 >= -1e-12)
    assert error(t, epsilon) == pytest.approx(wrong.mean(), abs=5 * 0.5 / math.sqrt(draws))
    few = start.sum(axis=1) == 13
    given = TwoStateFailureRate(0.1, 0.1, people, initial=13)
    assert given(t, epsilon) == pytest.approx(wrong[few].mean(), abs=5 * 0.5 / math.sqrt(few.sum()))


def test_the_average_is_over_every_start() -> None:
    rates = [TwoStateFailureRate(P, Q, 6, initial=k)(4, 0.7) for k in range(7)]
    chances = stats.binom.pmf(range(7), 6, P / (P + Q))
    assert TwoStateFailureRate(P, Q, 6)(4, 0.7) == pytest.approx(float(chances @ rates), rel=1e-9)


def test_with_time_the_failure_rate_goes_to_one_half_as_in_figure_5() -> None:
    """As eq. 50 is written it would go to Pr[z = 0] = 0.412: a mean of 0 counts as z = 1."""
    tie = stats.binom.pmf(10, 20, 0.5)
    for t in (60, 90, 100, 150, 1000, 10_000):
        assert TwoStateFailureRate(0.1, 0.1, 20)(t, 1.0) == pytest.approx(0.5, abs=1e-4)
        assert TwoStateFailureRate(0.1, 0.1, 20, rule="posterior")(t, 1.0) == pytest.approx((1 - tie) / 2, abs=1e-4)


def test_figure_5_as_the_average_has_no_gain_from_aging_and_for_one_start_it_has() -> None:
    """At equal risk by Theorem 1: averaged over the start fresh data is best; given 16 of 20 people up it is not."""

    def gain(error: TwoStateFailureRate, risk: float) -> float:
        losses = [math.log1p(math.expm1(risk) / 0.8**t) for t in range(8)]
        rates = [error(t, loss) for t, loss in enumerate(losses)]
        return 1 - min(rates) / rates[0]

    for risk in (0.1, 0.2, 0.5):
        assert gain(TwoStateFailureRate(0.1, 0.1, 20, as_printed=True), risk) == 0
    assert gain(TwoStateFailureRate(0.1, 0.1, 20, as_printed=True, initial=16), 0.1) > 1 / 3


@pytest.mark.parametrize(
    "error",
    [
        TwoStateMSE(P, Q, 20),
        TwoStateFailureRate(0.1, 0.1, 20),
        TwoStateFailureRate(P, Q, 7, rule="posterior"),
        AutoRegressiveMSE(0.8, 1.0, 10, 2.0),
        MeasuredError(np.sin(np.arange(50) / 4), 0.1),
    ],
)
def test_models_grow_with_the_age_and_fall_with_the_loss(error: Any) -> None:
    values = np.array([[error(t, e) for e in (0.05, 0.2, 1.0, 5.0, 700.0, math.inf)] for t in (0, 0.5, 1, 3, 10, 40)])
    assert np.all(np.diff(values, axis=0) >= -1e-12)
    assert np.all(np.diff(values, axis=1) <= 1e-12)
    assert np.all(values[-1, 2:] > values[0, 2:] * 1.01)


def test_the_autoregressive_error_is_that_of_what_is_published() -> None:
    """Erratum A3: x_0 is published, not its forecast: 4.96, not 2.75."""
    assert AutoRegressiveMSE(0.8, 1.0, 1, 1.0)(10, math.inf) == pytest.approx(4.96, abs=0.005)
    assert AutoRegressiveMSE(0.8, 1.0, 1, 1.0, as_printed=True)(10, math.inf) == pytest.approx(2.75, abs=0.005)
    rng, process = np.random.default_rng(3), AutoRegressive(0.8, 1.0, 1.0)
    now = rng.normal(scale=1 / math.sqrt(1 - 0.64), size=200_000)
    stale = float(np.mean((process.age(now, 10, rng) - now) ** 2))
    assert stale == pytest.approx(AutoRegressiveMSE(0.8, 1.0, 1, 1.0)(10, math.inf), rel=0.02)
    model = AutoRegressiveMSE(0.8, 1.5, 5, 3.0)
    assert model(4, 0.7) - model(4, math.inf) == pytest.approx(stats.laplace(scale=3 / (0.7 * 5)).var())
    printed = AutoRegressiveMSE(0.8, 1.0, 5, 3.0, as_printed=True)
    assert printed(4, 0.7) - printed(4, math.inf) == pytest.approx(1 / (0.7 * 5) ** 2)


def test_a_measured_error_is_the_worst_mean_squared_change_so_far() -> None:
    series = [1.0, 3.0, math.nan, 2.0, None, 7.0, 7.5]
    known = {i: x for i, x in enumerate(series) if x is not None and not math.isnan(x)}
    error, worst = MeasuredError(series, 0.5), 0.0
    for lag in range(7):
        changes = [(known[i + lag] - x) ** 2 for i, x in known.items() if i + lag in known]
        worst = max(worst, sum(changes) / len(changes))
        assert error(lag, math.inf) == pytest.approx(worst)
        assert error(lag, 0.2) == pytest.approx(worst + 2 * (0.5 / 0.2) ** 2)
    assert error.last_age == 6
    assert error(1.5, math.inf) == error(2, math.inf)
    with pytest.raises(InvalidInput, match=r"no two readings 7 steps apart.*longer series"):
        error(7, 1.0)
    gap = MeasuredError([1.0, None, None, 2.0], 1.0)
    assert gap.last_age == 0
    with pytest.raises(InvalidInput, match="no two readings 1 steps apart"):
        gap(1, 1.0)


def test_a_daily_pattern_does_not_make_day_old_data_look_fresh() -> None:
    error = MeasuredError(np.tile([0.0, 0.0, 1.0, 1.0], 10), 0.1)
    assert error(4, math.inf) == error(2, math.inf) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: TwoStateMSE(0, 0.1, 5), "p must be above 0"),
        (lambda: TwoStateMSE(0.7, 0.6, 5), "p \\+ q"),
        (lambda: TwoStateMSE(0.1, 0.1, 0), "people must be at least 1"),
        (lambda: TwoStateMSE(0.1, 0.1, 5)(-1, 1.0), "age"),
        (lambda: TwoStateMSE(0.1, 0.1, 5)(1, 0.0), "epsilon must be above 0"),
        (lambda: TwoStateMSE(0.1, 0.1, 5)(1, math.nan), "NaN"),
        (lambda: TwoStateFailureRate(0.1, 0.1, 5, rule="likelyhood"), "did you mean 'likelihood'"),  # type: ignore[arg-type]
        (lambda: TwoStateFailureRate(0.1, 0.1, 5, initial=6), "at most the 5 people"),
        (lambda: TwoStateFailureRate(0.1, 0.1, 5000), "at most 2,000"),
        (lambda: AutoRegressiveMSE(1.0, 1.0, 5, 1.0), "rho must be below 1"),
        (lambda: AutoRegressiveMSE(0.5, 0.0, 5, 1.0), "sigma must be above 0"),
        (lambda: MeasuredError([None, None], 1.0), "at least one number"),
        (lambda: MeasuredError(["a"], 1.0), "no number"),  # type: ignore[list-item]
        (lambda: MeasuredError([1.0, 2.0], 0.0), "sensitivity must be above 0"),
    ],
)
def test_bad_input_is_refused(make: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        make()
