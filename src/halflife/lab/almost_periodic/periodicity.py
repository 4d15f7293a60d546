"""Is data almost periodic? The test of the almost-periodic paper's Section 3, beside what it gives where nothing depends.

Homes are the J realisations. With x_j(k, p) the reading of home j in period k at phase p, z_j(p) its mean over the periods, and
w_k^j = (x_j(k, p) − z_j(p))_p the deviation of a period, the coefficients are (paper; ρ may be negative, its "0 ≤ ρ" is a slip)

    ρ_kℓ = (1/J) Σ_j (w_k^j − μ_k)ᵀ(w_ℓ^j − μ_ℓ)/(σ_k σ_ℓ),   μ_k = (1/J) Σ_j w_k^j,   σ_k² = (1/J) Σ_j |w_k^j − μ_k|².

**Missing readings** are left out, and nothing is put in their place: z_j(p) is the mean of the periods that have phase p, μ_k(p)
that of the homes that have it in period k, and the sums of a pair (k, ℓ) run over the (home, phase) that both periods have, the
two σ of that pair included. So |ρ| ≤ 1 holds by Cauchy and Schwarz, and a complete record gives the formula above (ours).

**What ρ would be without dependence** is found by shuffling (ours): every home has its own periods put in a random order, each
home in another. That keeps what a home is (all its deviations, their spread, their shape over the phases, the gaps in them, and
that they add up to 0, which alone forces ρ to about −1/(K − 1)) and breaks just what is in question: that period k of a home
says something about its period ℓ. Exchanging homes within a period instead would also break that a home with large deviations
has them every day. Such differences between homes are no dependence within a home, but they widen ρ: on 269 London homes the
median |ρ| is 0.011 with homes exchanged and 0.049 with periods shuffled. The second is the honest one; the observed 0.157 is
above both. What moves all homes alike is taken off before shuffling as far as it is more than chance, as ρ takes it off, too.

Shuffling is exact if a home's periods are independent and alike. If they are independent but some homes spread more in winter,
the shuffled median may be a few per cent off, which `stands_out` allows for: on such data one verdict in twenty was a false
alarm, else none in a hundred. This looks at private data: see `LOOKED_AT`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from halflife.errors import InvalidInput
from halflife.lab.almost_periodic.patterns import Anyfloats, Finding, find_patterns
from halflife.lab.almost_periodic.verdict import FEWEST_PERIODS, Lag, PeriodCheck, PeriodChoice, Tells
from halflife.numerics.arrays import Floats
from halflife.numerics.parameters import real, whole

__all__ = ["PeriodCheck", "PeriodChoice", "best_period", "check_period", "coefficients", "unexplained_share"]

COPIES = 19
"""Shuffled copies: what lies above all of them has p = 0.05."""
MOST_PERIODS = 1500
"""More would need gigabytes: four years of days."""
NOTHING = 1e-12
"""A deviation below this part of a home's largest reading is rounding."""
NEARLY = 1.05
"""A longer period must leave 5 % less unexplained, as its noise is larger in proportion to its length."""


def check_period(
    readings: object,
    period: int,
    *,
    step_minutes: float = 30.0,
    copies: int = COPIES,
    seed: int = 0,
    progress: Callable[[int], None] = lambda copy: None,
) -> PeriodCheck:
    """Test whether homes' readings are almost periodic with this period (Section 3; the shuffled copies and the names are ours).

    readings      homes × steps, NaN where missing; or a list of sequences that begin at the same step (None or NaN is missing,
                  and so is what a shorter one lacks at its end)
    period        T in steps: 48 is a day of half hours, 336 a week
    step_minutes  how long a step is, so that a week and a season can be named
    copies, seed  how many shuffled copies, and where their random order starts
    progress      is called with the number of each copy

    >>> rng = np.random.default_rng(1)
    >>> homes = np.tile([1.0, 2.0, 5.0, 3.0], 60) * rng.uniform(1, 3, (20, 1)) + rng.normal(size=(20, 240))
    >>> check_period(homes, 4, step_minutes=360).outcome
    'not contradicted'
    >>> homes += np.repeat(np.linspace(-2, 2, 60), 4) * rng.choice([-1, 1], (20, 1))
    >>> check_period(homes, 4, step_minutes=360).findings[0].name
    'drift or season'
    """
    values = read_homes(readings)
    minutes = real("step_minutes", step_minutes, positive=True)
    copies = whole("copies", copies, least=1)
    folded = _fold(values, _period(period, values.shape[1]))
    rho = _pairs(folded.w, folded.present)
    nulls = np.stack(list(_shuffle(folded, copies, np.random.default_rng(seed), progress)))
    upper = np.triu_indices(folded.periods, 1)
    sizes = [np.abs(null[upper]) for null in nulls]
    return PeriodCheck(
        period=folded.phases,
        step_minutes=minutes,
        homes=len(values),
        periods=folded.periods,
        left=values.shape[1] % folded.phases,
        missing=1 - float(folded.present.mean()),
        rho=rho,
        shuffled_medians=tuple(_of_known(np.nanmedian, size) for size in sizes),
        shuffled_maxima=tuple(_of_known(np.nanmax, size) for size in sizes),
        shuffled_sample=_drop_missing(nulls[0][upper]),
        lags=tuple(_lags(rho, nulls)),
        findings=tuple(_findings(folded, rho, nulls, minutes, seed)),
        tells=_tells(folded),
        unexplained=unexplained_share(values, folded.phases),
    )


def coefficients(readings: object, period: int) -> Floats:
    """Return the K × K matrix ρ of the module's formula (paper); NaN where no home has both periods, or nothing varies.

    >>> coefficients([[1.0, 4.0, 1.0], [2.0, 2.0, 5.0], [3.0, 0.0, 2.0]], 1).round(3)
    array([[ 1.   , -0.64 , -0.064],
           [-0.64 ,  1.   , -0.725],
           [-0.064, -0.725,  1.   ]])
    """
    values = read_homes(readings)
    folded = _fold(values, _period(period, values.shape[1]))
    return _pairs(folded.w, folded.present)


def best_period(
    readings: object,
    candidates: Sequence[int] = (48, 336),
    *,
    step_minutes: float = 30.0,
    copies: int = COPIES,
    seed: int = 0,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> PeriodChoice:
    """Propose a period: the shortest that leaves at most 5 % more unexplained than the best candidate (ours).

    Judged is `unexplained_share`, where each reading is predicted from the home's *other* periods. It needs no penalty: a wrong
    period mixes phases and predicts badly, a multiple of the right one has fewer periods to learn from and predicts slightly
    worse. A median |ρ| cannot be compared between periods, as a longer one averages over more readings: it is shown, and does
    not choose. The shorter of equals is taken because reused noise has scale T·Δf_z/ε: a week costs seven times as much as a day.
    """
    values = read_homes(readings)
    periods = sorted({_period(candidate, values.shape[1]) for candidate in candidates})
    if not periods:
        raise InvalidInput("no candidate period was given: give at least one, such as 48 for a day of half hours")
    checks = []
    for n, t in enumerate(periods):
        done = n * copies

        def show(copy: int, period: int = t, before: int = done) -> None:
            progress(f"a period of {period} steps beside shuffled copies", before + copy, copies * len(periods))

        checks.append(check_period(values, t, step_minutes=step_minutes, copies=copies, seed=seed, progress=show))
    if not any(math.isfinite(check.unexplained) for check in checks):
        raise InvalidInput("no reading varies within its home, so every period fits: nothing can be proposed")
    least = min(checks, key=lambda c: (math.isnan(c.unexplained), c.unexplained))
    best = next(c for c in checks if c.unexplained <= NEARLY * least.unexplained)
    return PeriodChoice(best, tuple(checks), _reason(best, least, checks))


def _reason(best: PeriodCheck, least: PeriodCheck, checks: Sequence[PeriodCheck]) -> str:
    others = ", ".join(f"{100 * c.unexplained:.1f} % with {c.name}" for c in checks if c is not best)
    text = f"Proposed: {best.name}. Its pattern leaves {100 * best.unexplained:.1f} % of the variance within homes unexplained"
    text += f" ({others})." if others else "; no other was given."
    if least is not best:
        times = least.period / best.period
        text += f" {least.name.capitalize()} predicts best, but only by a little, and takes {times:.3g} times the reused noise."
    elif best is not checks[0]:
        text += f" Its reused noise is {best.period / checks[0].period:.3g} times that of {checks[0].name}."
    return f"{text} The test of the proposed period: {best.outcome}."


def unexplained_share(readings: object, period: int) -> float:
    """Return the share of the variance within homes that a periodic pattern does not predict (ours); NaN if nothing varies.

    Each reading is predicted by the mean of the same phase in the home's other periods. If n periods have that phase, the error
    is w·n/(n − 1). Its mean square is divided by that of predicting by the mean of the home's other readings; readings without
    others are left out. More than 1 means worse than no pattern. Steps after the last whole period count, too.

    >>> unexplained_share([[0.0, 1.0] * 10], 2), round(unexplained_share([[0.0, 1.0] * 10], 4), 3)
    (0.0, 0.0)
    >>> round(unexplained_share([[0.0, 1.0] * 10], 3), 3)
    1.232
    """
    values = read_homes(readings, fewest=1)
    t = _period(period, values.shape[1])
    padded = np.pad(values, ((0, 0), (0, -values.shape[1] % t)), constant_values=np.nan)
    cube = _cube(padded, t)
    of_phase, of_home = _others(cube), _others(cube.transpose(1, 0, 2).reshape(len(values), -1).T)
    of_phase, of_home = of_phase[np.isfinite(of_phase)], of_home[np.isfinite(of_home)]
    if not len(of_phase) or not of_home.any():
        return math.nan
    return float(of_phase.mean() / of_home.mean())


def _others(x: Floats) -> Floats:
    """Squared errors of predicting each value by the mean of the others along the first axis; NaN where there are none."""
    present = np.isfinite(x)
    n = present.sum(axis=0)
    rest = x - np.nan_to_num(x).sum(axis=0) / np.maximum(n, 1)
    rest[np.abs(rest) <= NOTHING * np.nanmax(np.abs(x), initial=0.0)] = 0.0
    squares: Floats = np.where(n > 1, rest * n / np.maximum(n - 1, 1), np.nan) ** 2
    return squares


# Readings -----------------------------------------------------------------------------------------------------------


def read_homes(readings: Any, fewest: int = 2) -> Floats:
    """Return readings as homes × steps, NaN where missing, or say what is wrong with them."""
    if isinstance(readings, np.ndarray) and readings.ndim == 2:
        rows: Any = readings
    else:
        try:
            rows = [np.asarray(row, dtype=np.float64) for row in readings]
        except (TypeError, ValueError):
            raise InvalidInput(
                "readings must be homes × steps, or a list of sequences of numbers, one a home"
            ) from None
        if any(row.ndim != 1 for row in rows):
            raise InvalidInput("readings must be homes × steps: each home needs a plain list of numbers")
        steps = max((len(row) for row in rows), default=0)
        rows = [np.pad(row, (0, steps - len(row)), constant_values=np.nan) for row in rows]
    try:
        values = np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput("readings hold something that is no number") from None
    if len(values) < fewest:
        raise InvalidInput(
            f"readings of {len(values)} {'home' if len(values) == 1 else 'homes'} were given: at least {fewest} are needed, as "
            "a correlation is taken over homes"
        )
    if np.isinf(values).any():
        raise InvalidInput("a reading is infinite: give numbers, or NaN where a reading is missing")
    empty = np.flatnonzero(~np.isfinite(values).any(axis=1))
    if len(empty):
        which = ", ".join(str(i) for i in empty[:5].tolist()) + (" …" if len(empty) > 5 else "")
        raise InvalidInput(f"{len(empty)} of {len(values)} homes have no reading at all (rows {which}): leave them out")
    return values


def _period(period: int, steps: int) -> int:
    t = whole("period", period, least=1)
    if 2 * t > steps:
        raise InvalidInput(
            f"a period of {t:,} steps does not fit twice into {steps:,} steps: give more data, or at most {steps // 2:,}"
        )
    return t


class _Folded(NamedTuple):
    """Periods × homes × phases: deviations (0 where missing) and what is present; z is homes × phases, NaN where never seen."""

    w: Floats
    present: NDArray[np.bool_]
    z: Floats

    @property
    def periods(self) -> int:
        return len(self.w)

    @property
    def phases(self) -> int:
        return int(self.w.shape[2])


def _cube(values: Floats, period: int) -> Floats:
    periods = values.shape[1] // period
    cube = values[:, : periods * period].reshape(len(values), periods, period)
    return np.ascontiguousarray(cube.transpose(1, 0, 2))


def _fold(values: Floats, period: int) -> _Folded:
    """Take every home's own periodic part off."""
    if values.shape[1] // period > MOST_PERIODS:
        raise InvalidInput(
            f"{values.shape[1] // period:,} periods of {period} steps make too large a matrix: give at most {MOST_PERIODS:,}, "
            "by a longer period or a shorter stretch of data"
        )
    w = _cube(values, period)
    present = np.isfinite(w)
    np.nan_to_num(w, copy=False)
    seen = present.sum(axis=0)
    with np.errstate(invalid="ignore"):
        z = w.sum(axis=0) / seen
    largest = np.abs(w).max(axis=(0, 2), initial=0.0)
    w -= np.nan_to_num(z)
    w[~present] = 0.0
    w[np.abs(w) <= NOTHING * largest[:, None]] = 0.0
    return _Folded(w, present, z)


# Coefficients -------------------------------------------------------------------------------------------------------


def _common(w: Anyfloats, present: NDArray[np.bool_]) -> Anyfloats:
    """μ_k(p): the mean over the homes that are there; 0 where there is none."""
    mean: Anyfloats = w.sum(axis=1) / np.maximum(present.sum(axis=1), 1).astype(w.dtype)
    return mean


def _pairs(w: Floats, present: NDArray[np.bool_]) -> Floats:
    """ρ: Σ u_k u_ℓ / √(Σ u_k² [ℓ present] · Σ u_ℓ² [k present]) with u = w − μ."""
    u = (w - _common(w, present)[:, None, :]) * present
    flat = u.reshape(len(u), -1)
    if present.all():
        spread = np.tile((flat**2).sum(axis=1), (len(flat), 1)).T
    else:
        spread = sum(_spread(u[:, part], present[:, part]) for part in _chunks(u))
    return _ratio(flat @ flat.T, spread)


def _spread(u: Floats, present: NDArray[np.bool_]) -> Any:
    """Q_kℓ = Σ u_k² over the (home, phase) that ℓ has, too."""
    return (u**2).reshape(len(u), -1) @ present.reshape(len(u), -1).astype(u.dtype).T


def _chunks(u: Anyfloats) -> Iterator[slice]:
    """Homes in groups of at most 64 MB, so that temporary arrays stay small."""
    size = max(1, 2**26 // (8 * u.shape[0] * u.shape[2]))
    return (slice(start, start + size) for start in range(0, u.shape[1], size))


def _ratio(products: Anyfloats, spread: Anyfloats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        rho = np.asarray(products / np.sqrt(spread * spread.T), dtype=np.float64)
    rho[~np.isfinite(rho)] = np.nan
    return np.clip(rho, -1.0, 1.0)


def _shuffle(
    folded: _Folded, copies: int, rng: np.random.Generator, progress: Callable[[int], None]
) -> Iterator[NDArray[np.float32]]:
    """ρ of copies in which every home's periods are in a random order of their own (see the module's text).

    In single precision; and where readings are missing, Q_kℓ counts a home's period ℓ by the share of its phases that are there,
    instead of phase by phase (0.1 % of ρ on London).
    """
    w, common = folded.w, _common(folded.w, folded.present)
    chance = float(np.sum((w**2).sum(axis=(1, 2)) / np.maximum(folded.present.sum(axis=1).max(axis=1), 1) ** 2))
    seen = float(np.sum(common**2))
    f = max(0.0, 1 - chance / seen) if seen > 0 else 0.0
    base = (w - f * common[:, None, :]) * folded.present
    size = float(np.sqrt(np.mean(base**2))) or 1.0
    small = (base / size).astype(np.float32)
    complete = bool(folded.present.all())
    homes, phases = w.shape[1:]
    for copy in range(copies):
        progress(copy)
        order = rng.permuted(np.tile(np.arange(len(w))[:, None], (1, homes)), axis=0)
        rows = order * homes + np.arange(homes)
        u = small.reshape(-1, phases).take(
            rows, axis=0, mode="clip"
        )  # as small[order, arange(homes)], three times as fast
        if complete:
            u -= u.mean(axis=1, keepdims=True)
            energy = np.einsum("kjp,kjp->k", u, u)
            spread = np.tile(energy[:, None], (1, len(u)))
        else:
            present = folded.present.reshape(-1, phases).take(rows, axis=0, mode="clip")
            u -= _common(u, present)[:, None, :]
            u *= present
            spread = np.einsum("kjp,kjp->kj", u, u) @ present.mean(axis=2, dtype=np.float32).T
        flat = u.reshape(len(u), -1)
        yield _ratio(flat @ flat.T, spread).astype(np.float32)


def _lags(rho: Floats, nulls: NDArray[np.float32]) -> Iterator[Lag]:
    for lag in range(1, len(rho)):
        mean = _of_known(np.nanmean, np.diagonal(rho, lag))
        if math.isnan(mean):
            continue
        copies = np.ma.masked_invalid(np.diagonal(nulls, lag, axis1=1, axis2=2)).mean(axis=1)
        yield Lag(lag, mean, float(copies.min()), float(copies.max()))


def _drop_missing(values: Anyfloats) -> Floats:
    return np.asarray(values[np.isfinite(values)], dtype=np.float64)


def _of_known(measure: Any, values: Anyfloats) -> float:
    known = _drop_missing(values)
    return float(measure(known)) if len(known) else math.nan


# What else is measured ----------------------------------------------------------------------------------------------


def _findings(
    folded: _Folded, rho: Floats, nulls: NDArray[np.float32], step_minutes: float, seed: int
) -> Iterator[Finding]:
    """Name what homes do each in its own way (from ρ), and what all of them do (from μ, which ρ takes off)."""
    if folded.periods < FEWEST_PERIODS:
        return
    minutes = folded.phases * step_minutes
    yield from find_patterns(rho, list(nulls), minutes, "each home")
    common = _common(folded.w, folded.present)
    together = common @ common.T
    total = float((folded.w**2).sum())
    if total <= 0:
        return
    weight = float(np.sum(common**2 * folded.present.sum(axis=1))) / total
    rng = np.random.default_rng([seed, 1])
    orders = (rng.permutation(len(common)) for _ in nulls)
    yield from find_patterns(together, [together[np.ix_(o, o)] for o in orders], minutes, "mean of homes", weight)


def _tells(folded: _Folded) -> Tells:
    """Compare the spread of w with the mean of z, home by home (see `Tells`)."""
    seen = np.maximum(folded.present.sum(axis=(0, 2)), 1)  # a home may have readings after the last whole period alone
    known = np.isfinite(folded.z)
    mean = np.where(known, folded.z, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    spread = np.sqrt((folded.w**2).sum(axis=(0, 2)) / seen)
    both = (spread > 0) & (mean > 0)
    if both.sum() < 3:
        return Tells(math.nan, math.nan, math.nan, int(both.sum()))
    a, b = np.log(spread[both]), np.log(mean[both])
    if not (a.std() > 1e-9 and b.std() > 1e-9):
        return Tells(math.nan, math.nan, math.nan, int(both.sum()))
    correlation = float(np.corrcoef(a, b)[0, 1])
    deviation = float(b.std())
    return Tells(correlation, math.exp(deviation), math.exp(deviation * math.sqrt(1 - correlation**2)), int(both.sum()))
