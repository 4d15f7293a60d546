"""Mean squared errors of a mean over people: of delayed data, of states aged on purpose, and of fresh data with more noise.

Three ways to a number ε, for noise of loss ε_C about states t steps old and ε = K_t(ε_C):

    delayed  the data of t steps ago, published now:    ε about the present, if people move like the model
    aged     the present, aged by t steps on purpose:   ε classically, whatever people do (Corollary 1)
    fresh    the present, with noise of loss ε:         ε classically

If people move like the chain, delayed and aged err alike: (X_{−t}, X_0) has the same law in both. Over n people the variance of
noise is of order 1/n², that of drawn states 1/n, so from a few people on fresh data is better at the same loss: `break_even`.
"""

from __future__ import annotations

from typing import NamedTuple

from halflife.errors import InvalidInput
from halflife.lab.age_dependent.artificial_aging import (
    aged_loss,
    noise_scale,
    read_different,
    read_present,
    read_values,
    unbiased_values,
)
from halflife.numerics.arrays import Floats
from halflife.numerics.parameters import whole
from halflife.processes import MarkovChain


class AgedError(NamedTuple):
    """The mean squared error of an aged mean for given present states, in three parts.

    bias        the expected error, (1/n) Σ_i [(P̂_t w)(x_i) − v(x_i)], where w are the values that are published
    resampling  the variance of the aging, (1/n²) Σ_i Var of w under P̂_t(x_i, ·)
    noise       the variance of the noise, 2 (range of w/(n ε_C))²
    """

    bias: float
    resampling: float
    noise: float

    @property
    def total(self) -> float:
        """The mean squared error."""
        return self.bias**2 + self.resampling + self.noise


def aged_error(
    chain: MarkovChain, values: object, states: object, age: int, loss: float, unbiased: bool = False
) -> AgedError:
    """Return how far the aged mean is from the mean of the present states, for these states, whatever they follow.

    unbiased  publish `unbiased_values` in place of the values

    >>> chain = MarkovChain([[0.9, 0.1], [0.1, 0.9]])
    >>> error = aged_error(chain, [-1, 1], [0] * 20, 3, 1.0)
    >>> [round(part, 4) for part in (*error, error.total)]
    [0.488, 0.0369, 0.02, 0.295]
    >>> round(aged_error(chain, [-1, 1], [0] * 20, 3, 1.0, unbiased=True).total, 4)
    0.217
    """
    each, now, kernel = read_values(chain, values), read_present(chain, states), chain.kernel(age)
    if now.ndim != 1:
        raise InvalidInput("give the states of one set of people, one number each", about="states")
    published = unbiased_values(chain, each, age) if unbiased else each
    mean = kernel @ published
    variance = kernel @ published**2 - mean**2
    bias = 0.0 if unbiased else float((mean - each)[now].mean())
    return AgedError(bias, float(variance[now].mean()) / len(now), _noise(published, len(now), loss))


def delayed_error(chain: MarkovChain, values: object, people: int, age: int, loss: float) -> float:
    """Return E[(Y − mean of v now)²] = 2(s − c)/n + 2b² of data t steps old, if people move like the chain (ours).

    s = Var_π v, c = Cov_π(v(X_0), v(X_t)), b the noise scale. On two states it is eq. 49 with enough noise (A2). It also is
    that of states aged on purpose, averaged over present states from π.

    >>> round(delayed_error(MarkovChain([[0.9, 0.1], [0.1, 0.9]]), [-1, 1], 20, 3, 1.0), 4)
    0.0688
    """
    each, n = read_values(chain, values), whole("people", people, least=1)
    variance, covariance = _moments(chain, each, age)
    return 2 * (variance - covariance) / n + _noise(each, n, loss)


def fresh_error(values: object, people: int, epsilon: float) -> float:
    """Return 2(Δf/ε)², the error of the present mean with Laplace noise of loss ε (paper, section III-B).

    >>> round(fresh_error([-1, 1], 20, 0.4823), 4)
    0.086
    """
    return _noise(read_different(values), whole("people", people, least=1), epsilon)


def reader_error(chain: MarkovChain, values: object, people: int, age: int, loss: float) -> float:
    """Return the least mean squared error of a + B·Y, for a reader who knows the chain and that people follow it (ours).

    It is s/n − (c/n)²/(s/n + 2b²), with the letters of `delayed_error`: of data t steps old, or aged by as much. Age 0 is fresh
    data. It is never above s/n, the error of publishing nothing and taking the stationary mean.

    >>> chain = MarkovChain([[0.9, 0.1], [0.1, 0.9]])
    >>> round(reader_error(chain, [-1, 1], 20, 3, 1.0), 4), round(reader_error(chain, [-1, 1], 20, 0, 0.4823), 4)
    (0.0406, 0.0316)
    """
    each, n = read_values(chain, values), whole("people", people, least=1)
    variance, covariance = _moments(chain, each, age)
    return variance / n - (covariance / n) ** 2 / (variance / n + _noise(each, n, loss))


def break_even(chain: MarkovChain, values: object, age: int, loss: float) -> float:
    """Return the number of people above which fresh data with noise of loss K_t(ε_C) is better than aged data (ours).

    "Better" is for a reader who corrects linearly (`reader_error`). With N = 2(range of v)² that is where n s (s² − c²) exceeds
    c² N/K_t² − s² N/ε_C². On two states it is the same for `unbiased_values`. Below 1 fresh data is always better.

    >>> chain = MarkovChain([[0.9, 0.1], [0.1, 0.9]])
    >>> round(break_even(chain, [-1, 1], 3, 1.0), 3), round(break_even(chain, [-1, 1], 1, float("inf")), 3)
    (1.374, 2.946)
    """
    each, epsilon = read_values(chain, values), aged_loss(chain, loss, whole("age", age, least=1))
    s, c = _moments(chain, each, age)
    left = s * (s**2 - c**2)
    if epsilon == 0 or left <= 1e-9 * s**3:
        raise InvalidInput(
            f"after {age} steps this chain has forgotten all, or nothing: aged and fresh data are equally good",
            about="age",
        )
    return max(0.0, c**2 * _noise(each, 1, epsilon) - s**2 * _noise(each, 1, loss)) / left


def _noise(values: Floats, people: int, loss: float) -> float:
    """The variance of the noise."""
    return 2 * noise_scale(values, people, loss) ** 2


def _moments(chain: MarkovChain, values: Floats, age: int) -> tuple[float, float]:
    """Var_π v and Cov_π(v(X_0), v(X_t))."""
    centred = values - chain.stationary @ values
    then = chain.kernel(age) @ centred
    return float(chain.stationary @ centred**2), float(chain.stationary @ (centred * then))
