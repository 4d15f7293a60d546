"""AdaPub with its grouping: a reading is asked about again in every step of its group, and only the first time is paid for.

Wang, Lu et al. (adaptive publishing for spatio-temporal monitoring, 2020), for one number a step, as the benchmark of Schäler,
Hütter, Schäler (PVLDB 16(8), 2023) coded it with the line taken out that switches grouping off; `run_adapub` is held to that
program's outputs draw by draw. Every step publishes x_t + Laplace(w/(0.8 ε)), smoothed by the median of its group. A step joins
the group if

    D_t + Laplace(b) < θ_t,   D_t = Σ |x_i − mean| over the group and t,   b = 2w/(0.2 ε)      θ_t ≥ 1: public, without noise

One reading moves D_t by up to 2(n − 1)/n in a group of n steps, in *each* of its steps. At a large level θ_t = 1. Somebody who
moves the first reading by 1 changes what a group of L steps tells by

    0.8 ε/w  +  Σ_{n=2}^{L} ln( F(1/b) / F((1 − 2(n − 1)/n)/b) ),   F the distribution function of Laplace(1)

which grows without bound with L. Whether a step joined its group can be seen: its output is then the median of earlier ones, and
a new group's output is a fresh noisy value. Status: ours, R3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from halflife.audit.rivals.dsat import UnitNoise
from halflife.numerics.parameters import real, whole

VALUES, GROUPS = 0.8, 0.2
"""Parts of ε: for values, and for questions about groups."""
PROPORTIONAL, INTEGRAL = 0.9, 0.1


def attained_loss(epsilon: float, w: int, steps: int) -> float:
    """Return what a group of so many steps tells of a person whose first reading is moved by 1.

    >>> [round(attained_loss(1.0, 1, steps), 2) for steps in (1, 2, 10, 100)]
    [0.8, 0.89, 2.13, 18.86]
    """
    loss = real("epsilon", epsilon, positive=True)
    b = 2 * whole("w", w, least=1) / (GROUPS * loss)
    told = [
        _log_below(1 / b) - _log_below((1 - 2 * (n - 1) / n) / b) for n in range(2, whole("steps", steps, least=1) + 1)
    ]
    return VALUES * loss / w + math.fsum(told)


def _log_below(x: float) -> float:
    """ln F(x) of Laplace noise of scale 1."""
    return math.log(0.5) + x if x < 0 else math.log1p(-0.5 * math.exp(-x))


def run_adapub(values: Sequence[float], w: int, epsilon: float, unit_noise: UnitNoise) -> list[float]:
    """Return its outputs for one series."""
    scale, question = w / (VALUES * epsilon), 2 * w / (GROUPS * epsilon)
    outputs, errors = [values[0] + unit_noise() * scale], [0.0]
    begin, closed = 0, False
    for t in range(1, len(values)):
        noisy = values[t] + unit_noise() * scale
        errors.append(abs(outputs[-1] - noisy) / max(noisy, 1.0))
        signal = PROPORTIONAL * errors[t] + INTEGRAL * sum(errors[begin:t]) / (t - begin)
        if closed:
            begin, closed = t, False
        else:
            group = np.asarray(values[begin : t + 1])
            deviation = float(np.abs(group - group.mean()).sum())
            if not max(deviation + unit_noise() * question, 0.0) < max(1.0, signal**2 / epsilon):
                begin, closed = t, True
        outputs.append(float(np.median([*outputs[begin:t], noisy])))
    return outputs
