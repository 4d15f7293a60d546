"""Release-grade noise for planted faults: it is drawn as every release is, against an account that nobody relies on."""

from __future__ import annotations

from halflife.accountant import Accountant
from halflife.mechanisms import ReleaseDraw
from halflife.noise import GridNoise
from halflife.notions import Classical

LARGEST = 1e6
"""An ε that refuses nothing which an audit plants."""


def draw_planted(
    size: int,
    sensitivity: float = 1.0,
    *,
    loss: float | None = None,
    scale: float | None = None,
    lattice: float | None = None,
) -> GridNoise:
    """Return noise of this loss or scale for so many numbers, of which one person changes one.

    >>> draw_planted(3, loss=1.0)
    GridNoise(secret)
    """
    with ReleaseDraw(Accountant(Classical(LARGEST))).step(1) as draw:
        drawn: GridNoise = draw(None, sensitivity, loss=loss, scale=scale, size=size, lattice=lattice, touched=1)
    return drawn
