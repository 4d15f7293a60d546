"""Noise: release-grade, from OpenDP's exact integer samplers; and simulated, from a seeded NumPy generator.

**The recipe.** A value f gets noise of scale b on the grid g = b/S, a spread of S = 2⁵⁶ units:

    y = g · (⌊f/g + ½⌋ + N),   N an integer, discrete Laplace or discrete Gaussian of scale S

⌊f/g + ½⌋ is computed exactly, in whole numbers. If one person moves f by at most Δ, it moves by at most m = ⌈Δ/g⌉ units, so
the loss is m/S as OpenDP's own map says: Δ/b plus at most one unit, 2⁻⁵⁶ nat (Definition 3 and Proposition 1 of the age-dependent
paper; paper), (Theorem 1 of the Swellfish paper; paper). All outputs for all inputs lie on one grid,
so the floating-point attack on textbook Laplace noise (Mironov 2012) has nothing to see. As S is the same for every
scale, any number of steps with different scales are drawn in one call. d values with a common L1 sensitivity Δ move by
at most ⌈Δ/g⌉ + d units, since each of them is rounded on its own.

Discrete Gaussian noise of 2⁵⁶ units is Gaussian DP with μ = m/S but for terms of order 2⁻¹¹² (Euler–Maclaurin: the hockey
stick vanishes at its kink, so the sum over the lattice differs from the integral by the derivative's term); μ is charged a
part in 10¹² higher.

Noise that is *shared* between releases needs more: if the same noise serves two values, rounding must move both
alike under a change of one person, or their difference tells. So shared noise lives on a lattice that the values
themselves lie on (whole multiples of the policy's unit), and nothing is rounded.

Noise is asked for by loss or by scale. By loss it has the least scale whose own map does not exceed the loss, so a plan
that spends all of ε is never refused over a rounding.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, islice
from typing import Any, ClassVar, NamedTuple

import numpy as np

from halflife.errors import InvalidInput, unknown
from halflife.numerics.arrays import Floats
from halflife.numerics.parameters import real, whole
from halflife.numerics.rounding import divide_up, ratio_up, up

SPREAD_BITS = 56
SPREAD = 1 << SPREAD_BITS
GAUSSIAN_MARGIN = 1e-12
FAMILIES = ("laplace", "gaussian")
LEAST_CHUNK = 2_000
"""A thread of its own draws at least so many numbers: fewer are drawn before it has begun."""
SMALLEST_LOSS = 2.0**-40
"""Below this a loss is fewer than 2¹⁶ units, and one unit would be too large a part of it."""


@dataclass(frozen=True)
class Calibration:
    """Noise before it is drawn: its family, scale, grid, sensitivity and privacy loss.

    `grid` g, `spread` S in grid units, `scale` b = g·S, and the `loss` that it is charged at. With a `lattice`, values are
    whole multiples of it, and so many grid units lie between two of them (`refinement`); else they are rounded to the grid.
    """

    family: str
    sensitivity: float
    size: int
    grid: float
    spread: float
    scale: float
    loss: float
    lattice: float | None = None
    refinement: int = 0


@dataclass(repr=False, slots=True)
class GridNoise:
    """Drawn release-grade noise. `value + noise` is the release; the noise alone is a secret and does not print.

    It can be added once, unless it is shared on purpose (`single=False`).
    """

    grid: float
    units: tuple[int, ...]
    lattice: float | None = None
    refinement: int = 0
    single: bool = True
    _used: bool = field(default=False, compare=False, init=False)

    __array_ufunc__: ClassVar[None] = None  # numpy leaves `array + noise` to us

    def __radd__(self, value: object) -> Any:
        """Return the value, on the grid, plus the noise: a float, or an array if the noise is of several numbers."""
        if type(value) is int:  # however large
            return self.add([value])[0]
        given = np.asarray(value)
        if given.dtype.kind not in "iu":
            given = given.astype(np.float64)
        sums = self.add(given.ravel().tolist() if given.ndim < 2 else [])
        return np.array(sums) if given.ndim else sums[0]

    def add(self, values: Sequence[float | int]) -> list[float]:
        """Return numbers, on the grid, plus the noise. Whole numbers are exact, however large."""
        if len(values) != len(self.units):
            raise InvalidInput(f"noise for {len(self.units)} numbers cannot be added to {len(values)}")
        if self.single and self._used:
            raise InvalidInput(
                "this noise was added to a value before: two values with one noise differ exactly; draw again"
            )
        self._used = True
        if self.grid == 0:  # exact
            return [float(v) for v in values]
        placed, grid = self._place(values), self.grid
        return [grid * (v + u) for v, u in zip(placed, self.units, strict=True)]

    __add__ = __radd__

    def _place(self, values: Sequence[float | int]) -> list[int]:
        """Return values in grid units: their multiples of the lattice, or else rounded to the grid. Whole numbers are exact."""
        u = self.lattice
        if u is None:
            return _nearest(values, self.grid)
        multiples = _nearest(values, u)
        for value, multiple in zip(values, multiples, strict=True):
            if abs(multiple * u - value) > 1e-6 * u + 1e-12 * abs(value):
                raise InvalidInput(f"shared noise needs values on its lattice, whole multiples of {u!r}")
        return [multiple << self.refinement for multiple in multiples]

    def under(self, fresh: GridNoise) -> GridNoise:
        """Return the exact sum of this noise and `fresh`, both on one lattice, on the finer of their two grids."""
        if self.lattice is None or self.lattice != fresh.lattice or len(self.units) != len(fresh.units):
            raise InvalidInput(
                "two noises add up exactly only on one lattice: draw both with the same lattice and size"
            )
        finest = max(self.refinement, fresh.refinement)
        a, b = finest - self.refinement, finest - fresh.refinement
        units = tuple((n << a) + (m << b) for n, m in zip(self.units, fresh.units, strict=True))
        return GridNoise(math.ldexp(self.lattice, -finest), units, self.lattice, finest)

    def __repr__(self) -> str:
        return "GridNoise(secret)"

    def __copy__(self) -> GridNoise:
        raise InvalidInput("noise cannot be copied: two values with one noise differ exactly")

    def __deepcopy__(self, memo: object) -> GridNoise:
        return self.__copy__()


def _nearest(values: Sequence[float | int], grid: float) -> list[int]:
    """Return ⌊value/grid + ½⌋ of each value, exactly.

    >>> _nearest([3, 2.5, -2.5], 1.0)
    [3, 3, -2]
    """
    r, s = grid.as_integer_ratio()
    twice_s, twice_r = 2 * s, 2 * r
    made = []
    for value in values:
        if type(value) is int:
            made.append((value * twice_s + r) // twice_r)
        elif math.isfinite(value):
            p, q = value.as_integer_ratio()
            made.append((p * twice_s + q * r) // (q * twice_r))
        else:
            raise InvalidInput(f"noise cannot be added to {value}: bad readings count as missing before they get here")
    return made


def by_loss(
    loss: float,
    sensitivity: float,
    family: str = "laplace",
    size: int = 1,
    lattice: float | None = None,
    touched: int | None = None,
) -> Calibration:
    """Return the noise of least scale whose loss, by its own map, is at most `loss`.

    With m = ⌊loss·S⌋ units to move, g = Δ/m, rounded up. Of `size` values one person can change `touched`, all if it is not
    given; if d > 1 of them change, each is rounded on its own: g = Δ/(m − d).

    >>> c = by_loss(0.5, 1.0)
    >>> c.loss, round(c.scale, 9)
    (0.5, 2.0)
    """
    rho, delta_f = real("loss", loss, positive=True), real("sensitivity", sensitivity, positive=True)
    n = whole("size", size, least=1)
    d = n if touched is None else min(n, whole("touched", touched, least=1))
    if rho < SMALLEST_LOSS * d:
        raise InvalidInput(f"a loss of {rho:g} is too small to draw noise for: the least is {SMALLEST_LOSS * d:g}")
    safe = rho * (1 - 2 * GAUSSIAN_MARGIN) if family == "gaussian" else rho
    p, q = safe.as_integer_ratio()
    if lattice is not None:
        u, refinement, moved = _refine(lattice, delta_f, delta_f / safe)
        return _on_lattice(family, delta_f, n, u, refinement, ratio_up(moved * q, p) * (1 + 1e-15))
    units = (p << SPREAD_BITS) // q - (d if d > 1 else 0)
    r, s = delta_f.as_integer_ratio()
    return _on_own_grid(family, delta_f, n, d, ratio_up(r, s * units))


def by_scale(
    scale: float, sensitivity: float, family: str = "laplace", size: int = 1, lattice: float | None = None
) -> Calibration:
    """Return the noise of this scale, with the loss that its own map gives it.

    >>> by_scale(2.0, 1.0).loss, by_scale(2.0, 1.0, lattice=0.001).loss
    (0.5, 0.5000000000000001)
    """
    b, delta_f = real("scale", scale, positive=True), real("sensitivity", sensitivity, positive=True)
    d = whole("size", size, least=1)
    if lattice is None:
        return _on_own_grid(family, delta_f, d, d, b / SPREAD)
    u, refinement, _ = _refine(lattice, delta_f, b)
    return _on_lattice(family, delta_f, d, u, refinement, divide_up(b, math.ldexp(u, -refinement)))


def exact(sensitivity: float, family: str = "laplace", size: int = 1) -> Calibration:
    """Return the calibration without noise: the exact value, at an infinite loss, for what a promise declares public.

    >>> 20.25 + draw(exact(1.0))
    20.25
    """
    return Calibration(family, sensitivity, size, 0.0, 0.0, 0.0, math.inf)


def _on_own_grid(family: str, sensitivity: float, size: int, touched: int, grid: float) -> Calibration:
    """Noise of spread S on a grid made for it; values are rounded to the grid, d that change by up to d units in all."""
    _check(family, grid)
    (p, q), (r, s) = sensitivity.as_integer_ratio(), grid.as_integer_ratio()
    moved = -((-p * s) // (q * r)) + (touched if touched > 1 else 0)
    spread = float(SPREAD)
    return Calibration(family, sensitivity, size, grid, spread, grid * spread, _loss(family, moved, spread))


def _on_lattice(
    family: str, sensitivity: float, size: int, lattice: float, refinement: int, spread: float
) -> Calibration:
    """Noise on the lattice's own grid u·2⁻ʲ: values are whole multiples of u already, so nothing is rounded."""
    grid = math.ldexp(lattice, -refinement)
    _check(family, grid)
    if spread > 2.0**57:
        raise InvalidInput(
            f"noise of {spread:g} grid units does not fit the sampler's 64 bits: use a coarser lattice than {lattice:g}"
        )
    moved = _multiples(sensitivity, lattice) << refinement
    return Calibration(
        family, sensitivity, size, grid, spread, grid * spread, _loss(family, moved, spread), lattice, refinement
    )


def _refine(lattice: float, sensitivity: float, scale: float) -> tuple[float, int, int]:
    """Return the lattice u, the j that puts at least 2³⁰ grid units u·2⁻ʲ into the scale, and Δ in such units."""
    u = real("lattice", lattice, positive=True)
    refinement = max(0, 30 - math.floor(math.log2(scale / u)))
    return u, refinement, _multiples(sensitivity, u) << refinement


def _multiples(sensitivity: float, lattice: float) -> int:
    """Return how many multiples of the lattice a value can move by: Δ/u rounded up, but for a millionth of a unit (Δ = n·u)."""
    (p, q), (r, s) = sensitivity.as_integer_ratio(), lattice.as_integer_ratio()
    slack = 1 if p * s < q * r * 10**6 else 0
    return -((-p * s * (10**12 - slack)) // (q * r * 10**12))


def _check(family: str, grid: float) -> None:
    if family not in FAMILIES:
        raise unknown("noise", family, FAMILIES)
    if not 1e-290 < grid < 1e290:
        raise InvalidInput(f"noise on a grid of {grid:g} is outside what doubles can hold: change the unit")


def _loss(family: str, moved: int, spread: float) -> float:
    """Return the loss of moving by so many units: m times what OpenDP's map states for one (in zCDP √(2·map))."""
    per_unit = _loss_of_one_unit(family, spread)
    p, q = per_unit.as_integer_ratio()
    loss = ratio_up(moved * p, q)
    return loss if family == "laplace" else up(loss * (1 + GAUSSIAN_MARGIN))


@lru_cache(maxsize=1024)
def _loss_of_one_unit(family: str, spread: float) -> float:
    stated = _sampler(family, spread).map(1)
    return stated if family == "laplace" else up(math.sqrt(2 * stated))


class _Sampler(NamedTuple):
    """OpenDP's integer noise mechanism of one scale, for vectors; a long one is drawn in chunks at once, by a thread a core.

    That needs nothing of ours between the threads: OpenDP gives up Python's lock while it draws, a mechanism may be used by
    many threads, and every number is made of random bytes that no other number was made of.
    """

    mechanism: Any

    def map(self, moved: int) -> float:
        """Return the loss of moving a vector by so many units, as OpenDP states it (of Gaussian noise in zCDP)."""
        return float(self.mechanism.map(moved))

    def __call__(self, count: int) -> list[int]:
        """Return so many numbers: chunk after chunk, whichever was drawn first. An error in one of them is raised."""
        chunks = max(1, min(os.cpu_count() or 1, count // LEAST_CHUNK))
        sizes = [count * (i + 1) // chunks - count * i // chunks for i in range(chunks)]
        if chunks == 1:
            return self._draw(count)
        with ThreadPoolExecutor(chunks) as pool:
            return list(chain.from_iterable(pool.map(self._draw, sizes)))

    def _draw(self, count: int) -> list[int]:
        drawn: list[int] = self.mechanism(np.zeros(count, dtype=np.int64))
        return drawn


@lru_cache(maxsize=1024)
def _sampler(family: str, spread: float) -> _Sampler:
    """Return the sampler of this scale; it is built once for each scale."""
    # not opendp.prelude, which takes seconds: it loads scikit-learn and scipy.stats where they are installed
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian, make_laplace
    from opendp.metrics import l1_distance, l2_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    domain = vector_domain(atom_domain(T="i64"))
    if family == "laplace":
        return _Sampler(make_laplace(domain, l1_distance(T="i64"), scale=spread))
    return _Sampler(make_gaussian(domain, l2_distance(T="i64"), scale=spread))


def draw(calibration: Calibration) -> GridNoise:
    """Return release-grade noise, drawn once; it cannot be seeded.

    >>> draw(by_loss(1.0, 1.0))
    GridNoise(secret)
    """
    return next(draw_many([calibration]))


def draw_many(calibrations: Sequence[Calibration]) -> Iterator[GridNoise]:
    """Draw noise for many releases, now, in one call for each family and spread; yield it in their order, each once.

    >>> len(list(draw_many([by_loss(1.0, 1.0), by_loss(0.01, 1.0, size=3)])))
    2
    """
    sizes: dict[tuple[str, float], int] = {}
    for c in calibrations:
        if c.scale > 0:
            sizes[c.family, c.spread] = sizes.get((c.family, c.spread), 0) + c.size
    units = {which: iter(_sampler(*which)(size)) for which, size in sizes.items()}
    return (
        GridNoise(c.grid, tuple(islice(units[c.family, c.spread], c.size)), c.lattice, c.refinement)
        if c.scale > 0
        else GridNoise(0.0, (0,) * c.size)
        for c in calibrations
    )


class SimulatedNoise:
    """Seeded noise for the lab: fast, repeatable, and of no use to a release, whose draws take no source at all.

    >>> SimulatedNoise(seed=1).draw("laplace", 2.0, (3,)).shape
    (3,)
    """

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(whole("seed", seed, least=0))

    def draw(self, family: str, scale: float | Floats, shape: tuple[int, ...]) -> Floats:
        """Return independent noise of this scale, NaN where that is infinite."""
        if family not in FAMILIES:
            raise unknown("noise", family, FAMILIES)
        sample, drawn = self._generator.laplace if family == "laplace" else self._generator.normal, np.isfinite(scale)
        return np.where(drawn, sample(0.0, np.where(drawn, scale, 1.0), shape), np.nan)
