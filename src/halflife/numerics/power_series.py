"""Lower triangular Toeplitz systems in O(n log n): the risks of a discounted schedule, and the losses for given risks.

With the kernel d, R_t = Σ_{k≤t} d(t−k) ρ_k is a product of power series, R(x) = d(x)ρ(x). Its drops p(j) = d(j−1) − d(j) ≥ 0
give the inverse: (1−x)d(x) = 1 − p(x), so ρ(x) = u(x)(1−x)R(x) with u = 1/(1−p), the solution of a renewal equation
u_t = Σ_{j≥1} p(j) u_{t−j}, in which only positive numbers are added.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from halflife.numerics.arrays import Floats

Kernel = Callable[[Floats], Floats]


def convolution(a: Floats, b: Floats) -> Floats:
    """Return the first len(b) coefficients of the product of two series, by FFT.

    >>> convolution(np.array([1.0, 2.0]), np.array([1.0, 1.0, 1.0])).round(9)
    array([1., 3., 3.])
    """
    n = len(b)
    if n < 2:
        return a[:1] * b
    size = 1 << (2 * n - 2).bit_length()
    product: Floats = np.fft.irfft(np.fft.rfft(a[:n], size) * np.fft.rfft(b, size), size)[:n]
    return product


def renewal(drops: Floats) -> Floats:
    """Return u with u_0 = 1 and u_t = Σ_{j≥1} p(j) u_{t−j} for the drops p(0) = 0, p(1), …

    Newton's iteration, doubling: with v = u − 1 known below n, the coefficients n … 2n−1 are c + v·c, c = (p + p·v)[n:2n].

    >>> renewal(np.array([0.0, 0.5, 0.25, 0.125])).round(9)
    array([1. , 0.5, 0.5, 0.5])
    """
    sizes = [len(drops)]
    while sizes[-1] > 1:
        sizes.append((sizes[-1] + 1) // 2)
    v = np.zeros(len(drops))
    for low, high in pairwise(reversed(sizes)):
        known = np.concatenate((v[:low], np.zeros(high - low)))
        c = drops[low:high] + convolution(drops, known)[low:high]
        v[low:high] = c + convolution(v[:low], c)
    v[0] = 1.0
    return v


def saturating_shares(kernel: Kernel, n: int) -> Floats:
    """Return the losses, as shares of ε, that take all the headroom at every step: R_t = ε for all t (T1; ours).

    They are u itself. For a log-convex kernel (hyperbolic, exponential) they fall, and stay above 0 (Kaluza).

    >>> saturating_shares(lambda j: 0.5**j, 4).round(9)
    array([1. , 0.5, 0.5, 0.5])
    """
    return renewal(drops_of(kernel, n))


def drops_of(kernel: Kernel, n: int) -> Floats:
    """Return p(j) = d(j−1) − d(j) for j < n, with p(0) = 0."""
    d = kernel(np.arange(n, dtype=np.float64))
    return np.concatenate(([0.0], d[:-1] - d[1:]))
