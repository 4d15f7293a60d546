"""How the losses of independent releases add up against one pair of neighbours: purely, or exactly with a δ.

`Pure` adds losses (Theorem 5 of the discounted paper: Σρ ≤ ε implies ε-DP), in whole units, without error. `Exact` keeps
how often each loss occurred and asks for the loss distribution of all of them together. Both give *charges* that add and
subtract, so that a notion need not know which of them it uses.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np

from halflife.errors import InvalidInput, UnboundedLoss, missing_extra
from halflife.notions.gaussian_dp import gaussian_epsilon, gaussian_epsilons, pure_as_gaussian
from halflife.numerics.forms import read_form
from halflife.numerics.parameters import real, whole
from halflife.numerics.rounding import (
    TOLERANCE,
    UNIT_BITS,
    down,
    float_down,
    float_up,
    ratio_up,
    read_units,
    to_units,
    up,
)  # fmt: skip
from halflife.numerics.search import largest
from halflife.release import Release

SMALLEST_DELTA = 1e-10
"""Loss distributions are convolved by FFT in doubles; below this δ their rounding could no longer be told from a loss."""

CHECKPOINTS = 32
"""How many points of a series of risks are computed; between them it is rounded up to the next."""

ACCOUNTABLE = (1e-100, 300.0)
"""The Laplace losses that have a loss distribution in doubles; any other counts as its pure sum, which at such losses is all
but exact."""

MOST_POINTS = 1e6
"""How many points of its grid a Gaussian's loss distribution, which reaches to μ²/2 + 10μ, may take."""

MOST_GROUPS = 24
"""Distinct Laplace losses kept apart; beyond these the smallest count as Gaussian, which only adds to the risk."""


class Composition(Protocol):
    """The arithmetic of charges: `Pure` or `Exact`."""

    zero: Any

    def charge(self, release: Release) -> Any: ...  # noqa: D102
    def epsilon(self, charge: Any) -> float: ...  # noqa: D102
    def within(self, charge: Any, epsilon: float) -> bool: ...  # noqa: D102
    def headroom(self, charge: Any, epsilon: float) -> float: ...  # noqa: D102
    def part(self, charge: Any, fraction: Fraction) -> Any: ...  # noqa: D102
    def fold(self, charge: Any) -> Any: ...  # noqa: D102
    def dump(self, charge: Any) -> object: ...  # noqa: D102
    def load(self, data: Any) -> Any: ...  # noqa: D102
    def running_risks(self, charges: Sequence[Any]) -> list[float]: ...  # noqa: D102
    def window_risks(self, charges: Sequence[Any], w: int) -> list[float]: ...  # noqa: D102


class Pure:
    """δ = 0: a charge is a whole number of units of 2⁻¹²⁰ nat, and the risk is the sum

    (Theorems 5 and 6 of the discounted paper; paper), (Proposition 2 of the age-dependent paper; paper).

    >>> pure = Pure()
    >>> total = pure.charge(Release(1, 0.1)) + pure.charge(Release(2, 0.2))
    >>> pure.epsilon(total), pure.within(total, 0.3), pure.headroom(total, 0.5)
    (0.30000000000000004, True, 0.19999999999999998)
    """

    zero = 0

    def charge(self, release: Release) -> int:
        """Return the loss in units."""
        _refuse_exact(release)
        if release.noise != "laplace":
            raise UnboundedLoss(
                f"step {release.step}: {release.noise} noise has no bounded pure loss: "
                "promise a delta above 0, or use Laplace noise",
                step=release.step,
            )
        return to_units(release.loss)

    def epsilon(self, charge: int) -> float:
        """Return the sum, rounded up."""
        return float_up(charge)

    def within(self, charge: int, epsilon: float) -> bool:
        """Whether the exact sum is at most ε, up to the stated tolerance."""
        return float_up(charge) <= epsilon * (1 + TOLERANCE)

    def headroom(self, charge: int, epsilon: float) -> float:
        """Return ε minus the sum, rounded down, at least 0."""
        numerator, denominator = epsilon.as_integer_ratio()
        return max(0.0, float_down((numerator << UNIT_BITS) // denominator - charge))

    def part(self, charge: int, fraction: Fraction) -> int:
        """Return what is lost if every value moves by this fraction of its sensitivity: that fraction of the loss, rounded up."""
        return -(-charge * fraction.numerator // fraction.denominator)

    def fold(self, charge: int) -> int:
        """Nothing to make smaller."""
        return charge

    def dump(self, charge: int) -> str:
        """Return the units in hexadecimal, exactly."""
        return hex(charge)

    def load(self, data: Any) -> int:
        """Read what `dump` gave."""
        return read_units(data)

    def running_risks(self, charges: Sequence[int]) -> list[float]:
        """Return the risk after each of the charges, rounded up."""
        return [float_up(total) for total in accumulate(charges)]

    def window_risks(self, charges: Sequence[int], w: int) -> list[float]:
        """Return the risk of each w charges in a row, by the last of them, rounded up."""
        totals = [0, *accumulate(charges)]
        return [float_up(totals[t] - totals[max(0, t - w)]) for t in range(1, len(totals))]


class Losses(NamedTuple):
    """A charge with a δ: what occurred, in numbers that add and subtract.

    laplace    how often each Laplace loss occurred, ascending
    gaussian   Σμ² of the Gaussian releases, in units
    pure       Σρ of the Laplace releases, in units
    gaussians  how many Gaussian releases there were: with none, `pure` bounds the risk too

    >>> (laplace_losses(0.1, 2) + laplace_losses(0.1) + laplace_losses(0.2)).laplace
    ((0.1, 3), (0.2, 1))
    """

    laplace: tuple[tuple[float, int], ...] = ()
    gaussian: int = 0
    pure: int = 0
    gaussians: int = 0

    def _merge(self, other: Losses, sign: int) -> Losses:
        counts = dict(self.laplace)
        for loss, n in other.laplace:
            counts[loss] = counts.get(loss, 0) + sign * n
        return Losses(
            tuple(sorted((loss, n) for loss, n in counts.items() if n)),
            self.gaussian + sign * other.gaussian,
            self.pure + sign * other.pure,
            self.gaussians + sign * other.gaussians,
        )

    def __add__(self, other: Losses) -> Losses:  # type: ignore[override]
        return self._merge(other, 1)

    def __sub__(self, other: Losses) -> Losses:
        return self._merge(other, -1)

    def scale_by(self, factor: float) -> Losses:
        """Return so many times the same losses (factor ≥ 1), counts rounded down and sums up."""
        laplace = tuple((loss, int(n * factor)) for loss, n in self.laplace)
        return Losses(laplace, math.ceil(self.gaussian * factor), math.ceil(self.pure * factor), self.gaussians)

    def at_most(self, other: Losses) -> bool:
        """Whether every number here is at most the one in `other`: then so is the risk."""
        counts = dict(other.laplace)
        return (
            self.gaussian <= other.gaussian
            and self.pure <= other.pure
            and self.gaussians <= other.gaussians
            and all(n <= counts.get(loss, 0) for loss, n in self.laplace)
        )

    def pure_risk(self) -> float:
        """Return Σρ rounded up, infinite if there was Gaussian noise."""
        return math.inf if self.gaussians else float_up(self.pure)


def laplace_losses(loss: float, count: int = 1) -> Losses:
    """Return the charge of so many Laplace releases of one loss."""
    return Losses(((loss, count),), pure=count * to_units(loss))


def gaussian_losses(mu: float, count: int = 1) -> Losses:
    """Return the charge of so many Gaussian releases of one μ = Δf/σ."""
    return Losses((), count * to_units(up(mu * mu)), gaussians=count)


class Exact:
    """δ > 0: the smallest ε such that everything together is (ε, δ)-DP (known: privacy loss distributions, T6).

    Gaussian releases alone are Gaussian DP with μ² = Σμ_k² and need no numerics (Dong, Roth, Su 2022). Otherwise
    dp-accounting convolves the loss distributions, rounded pessimistically on a grid that is fine against every loss
    (connect-the-dots; Doroshenko et al. 2022). A pure sum that is smaller is taken instead. Losses must not be chosen
    from outputs: distributions compose only for a schedule that is fixed beforehand.

    >>> Exact(1e-6).epsilon(gaussian_losses(1.0))
    4.886554...
    """

    zero = Losses()

    def __init__(self, delta: float) -> None:
        self.delta = delta
        self._kept: dict[float, list[Losses]] = {}
        self._broken: dict[float, list[Losses]] = {}

    def charge(self, release: Release) -> Losses:
        """Return the release as one loss of its kind."""
        _refuse_exact(release)
        if release.loss == 0:
            return self.zero
        return gaussian_losses(release.loss) if release.noise == "gaussian" else laplace_losses(release.loss)

    def epsilon(self, charge: Losses) -> float:
        """Return the smallest ε at this δ, rounded up."""
        return _epsilon(charge, self.delta)

    def within(self, charge: Losses, epsilon: float) -> bool:
        """Whether ε(δ) of the charge is at most ε; remembers answers, so that a long stream asks only a few times.

        Fewer releases never risk more, so a charge inside one that was within is within, and one that contains a
        charge that was not is not. A new charge is tried enlarged, up to twice, so that the next ones need no trial.
        """
        if not charge.laplace:
            return _epsilon(charge, self.delta) <= epsilon * (1 + TOLERANCE)
        if charge.pure_risk() <= epsilon * (1 + TOLERANCE):
            return True
        kept, broken = self._kept.setdefault(epsilon, []), self._broken.setdefault(epsilon, [])
        if any(charge.at_most(k) for k in kept):
            return True
        if any(b.at_most(charge) for b in broken):
            return False

        def holds(candidate: Losses) -> bool:
            if _epsilon(candidate, self.delta) <= epsilon * (1 + TOLERANCE):
                _remember(kept, candidate)
                return True
            _remember(broken, candidate)
            return False

        if not holds(charge):
            return False
        largest_count = max(n for _, n in charge.laplace)
        largest(
            lambda f: holds(charge.scale_by(f)), 1.0, 2.0, 0.4 / largest_count if len(charge.laplace) == 1 else 0.05
        )
        return True

    def headroom(self, charge: Losses, epsilon: float) -> float:
        """Return the largest Laplace loss that still fits, by bisection from below.

        One release alone may have ρ = ε − 2 ln(1 − δ): its δ at ε is 1 − e^{(ε−ρ)/2}.
        """

        def fits(loss: float) -> bool:
            return _epsilon(charge + laplace_losses(loss), self.delta) <= epsilon

        if _epsilon(charge, self.delta) >= epsilon:
            return 0.0
        low = max(0.0, down(epsilon - charge.pure_risk()))
        most = epsilon - 2 * math.log1p(-self.delta)
        return largest(lambda x: x <= low or fits(x), low, up(most), 1e-7, least=1e-9 * epsilon)

    def part(self, charge: Losses, fraction: Fraction) -> Losses:
        """Return what is lost if every value moves by this fraction of its sensitivity, for a charge that was not folded.

        Noise of the same scale then has a loss of that fraction: Laplace noise ρ·x, Gaussian noise μ·x, each rounded up.

        >>> Exact(1e-6).part(laplace_losses(0.5, 2), Fraction(1, 2)) == laplace_losses(0.25, 2)
        True
        """
        counts: Counter[float] = Counter()
        for loss, n in charge.laplace:
            smaller = Fraction(loss) * fraction
            counts[ratio_up(smaller.numerator, smaller.denominator)] += n
        laplace = tuple(sorted(counts.items()))
        gaussian = -(-charge.gaussian * fraction.numerator**2 // fraction.denominator**2)
        return Losses(laplace, gaussian, sum(n * to_units(loss) for loss, n in laplace), charge.gaussians)

    def fold(self, charge: Losses) -> Losses:
        """Return a charge of at most MOST_GROUPS distinct Laplace losses that dominates this one.

        The losses of least Σρ² are counted as Gaussian ones instead. A ρ-DP release is Gaussian DP with
        μ = −2Φ⁻¹(1/(1+e^ρ)), about 1.253 ρ: its trade-off function is piecewise linear with one kink, at 1/(1+e^ρ), where
        the two are equal, and the Gaussian one is convex and ends in the same corners, so it lies below (ours; a case of
        Dong, Roth, Su 2022). A loss is rounded up once, so nothing accumulates.

        >>> many = Losses()
        >>> for k in range(1, 90):
        ...     many += laplace_losses(0.01 * k)
        >>> len(Exact(1e-6).fold(many).laplace)
        24
        """
        if len(charge.laplace) <= MOST_GROUPS:
            return charge
        by_weight = sorted(charge.laplace, key=lambda group: group[1] * group[0] ** 2)
        spare = len(by_weight) - MOST_GROUPS
        gaussian = charge.gaussian + sum(n * to_units(up(pure_as_gaussian(loss) ** 2)) for loss, n in by_weight[:spare])
        return charge._replace(laplace=tuple(sorted(by_weight[spare:])), gaussian=gaussian)

    def dump(self, charge: Losses) -> object:
        """Return the charge as JSON can hold it, exactly."""
        return {
            "laplace": [list(pair) for pair in charge.laplace],
            "gaussian": hex(charge.gaussian),
            "pure": hex(charge.pure),
            "gaussians": charge.gaussians,
        }

    def load(self, data: Any) -> Losses:
        """Read what `dump` gave."""
        data = read_form("losses", data, ("laplace", "gaussian", "pure", "gaussians"))
        if not isinstance(data["laplace"], list):
            raise InvalidInput("losses must hold a list of Laplace losses")
        groups: list[tuple[float, int]] = []
        for pair in data["laplace"]:
            if not isinstance(pair, list) or len(pair) != 2:
                raise InvalidInput(f"a loss must be [loss, count], not {pair!r}")
            groups.append((real("loss", pair[0], positive=True), whole("count", pair[1], least=1)))
        sums = read_units(data["gaussian"]), read_units(data["pure"])
        known = sum(n * to_units(loss) for loss, n in groups)
        if len({loss for loss, _ in groups}) < len(groups) or sums[1] < known or (sums[1] > known and not sums[0]):
            raise InvalidInput("the losses of a saved account contradict each other: it was changed by hand")
        return Losses(tuple(sorted(groups)), *sums, whole("gaussians", data["gaussians"], least=0))

    def running_risks(self, charges: Sequence[Losses]) -> list[float]:
        """Return the risk after each of the charges; a few are computed, and stand for those before them too."""
        if not any(charge.laplace for charge in charges):
            squares = np.array([float_up(c.gaussian) for c in accumulate(charges)])
            return list(gaussian_epsilons(squares, self.delta).tolist())
        points = CHECKPOINTS if len(set(charges)) <= 2 else CHECKPOINTS // 4
        ends = {math.ceil(len(charges) * (i / points) ** 2) for i in range(1, points + 1)}
        risks: list[float] = []
        total = self.zero
        for t, charge in enumerate(charges, start=1):
            total = total + charge
            if t in ends or len(total.laplace) > 8 * MOST_GROUPS:
                total = self.fold(total)
            if t in ends:
                risks += [self.epsilon(total)] * (t - len(risks))
        return risks

    def window_risks(self, charges: Sequence[Losses], w: int) -> list[float]:
        """Return the risk of each w charges in a row, by the last of them.

        Where the windows that occur contain one another, as they do for equal losses, a few stand for those inside.
        """
        total, held = self.zero, []
        for t, charge in enumerate(charges):
            total = total + charge - (charges[t - w] if t >= w else self.zero)
            held.append(total)
        distinct = sorted(set(held), key=lambda c: (c.gaussian, c.pure))
        nested = all(a.at_most(b) for a, b in pairwise(distinct))
        stride = max(1, len(distinct) // CHECKPOINTS) if nested else 1
        risk: dict[Losses, float] = {}
        for end in range(len(distinct) - 1, -1, -stride):
            value = self.epsilon(self.fold(distinct[end]))
            risk |= dict.fromkeys(distinct[max(0, end - stride + 1) : end + 1], value)
        return [risk[c] for c in held]


def composition(delta: float) -> Composition:
    """Return how losses add up under this δ.

    >>> type(composition(0.0)).__name__, type(composition(1e-6)).__name__
    ('Pure', 'Exact')
    """
    return Exact(delta) if delta > 0 else Pure()


def check_delta(delta: object) -> float:
    """Return δ as 0 or a number that can be certified.

    >>> check_delta(1e-15)
    Traceback (most recent call last):
    ...
    halflife.errors.InvalidInput: delta = 1e-15 cannot be certified in double precision: give 0, or at least 1e-10
    """
    d = real("delta", delta)
    if d >= 1:
        raise InvalidInput(f"delta must be below 1, not {delta!r}: at 1 nothing is promised", about="delta")
    if 0 < d < SMALLEST_DELTA:
        raise InvalidInput(
            f"delta = {delta!r} cannot be certified in double precision: give 0, or at least {SMALLEST_DELTA:g}",
            about="delta",
        )
    return d


def _refuse_exact(release: Release) -> None:
    if release.loss == math.inf:
        raise UnboundedLoss(
            f"step {release.step}: the exact value was published, which has no bounded loss: add noise of a scale above 0",
            step=release.step,
        )


def _remember(memory: list[Losses], charge: Losses, most: int = 16) -> None:
    memory.append(charge)
    del memory[:-most]


@lru_cache(maxsize=4096)
def _epsilon(charge: Losses, delta: float) -> float:
    if not charge.laplace:
        return min(gaussian_epsilon(up(math.sqrt(float_up(charge.gaussian))), delta), charge.pure_risk())
    beyond = [(loss, n) for loss, n in charge.laplace if not ACCOUNTABLE[0] <= loss <= ACCOUNTABLE[1]]
    if beyond:
        pure = sum(n * to_units(loss) for loss, n in beyond)
        return min(up(float_up(pure) + _epsilon(charge - Losses(tuple(beyond), pure=pure), delta)), charge.pure_risk())
    spared = delta - min(1e-13, delta / 100)  # what FFT rounding may have hidden
    with np.errstate(over="ignore"):  # of e^ε, which then counts as infinite
        return min(float(_distribution(charge).get_epsilon_for_delta(spared)) * (1 + 1e-9), charge.pure_risk())


def _distribution(charge: Losses) -> Any:
    """Return dp-accounting's loss distribution of the charge, all parts on one grid.

    The grid is a thousandth of the spread √(Σnρ² + μ²) of the total loss, and a sixteenth of the smallest loss
    unless that is far below the spread; and no finer than MOST_POINTS allow.
    """
    finest = 2e-5 if len(charge.laplace) == 1 else 2e-4
    try:
        from dp_accounting.pld import privacy_loss_distribution as pld
    except ImportError:
        raise missing_extra("dp-accounting", "exact", "a promise with delta above 0") from None
    mu = math.sqrt(float_up(charge.gaussian))
    spread = math.sqrt(mu * mu + math.fsum(n * loss * loss for loss, n in charge.laplace))
    grid = max(min(1e-3 * spread, charge.laplace[0][0] / 16), finest * spread, (mu * mu / 2 + 10 * mu) / MOST_POINTS)
    total = None
    for loss, n in charge.laplace:
        part = pld.from_laplace_mechanism(down(1 / loss), value_discretization_interval=grid)
        part = part.self_compose(n) if n > 1 else part
        total = part if total is None else total.compose(part)
    if mu > 0:
        part = pld.from_gaussian_mechanism(down(1 / mu), value_discretization_interval=grid)
        total = total.compose(part) if total is not None else part
    return total
