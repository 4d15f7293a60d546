"""What the types refuse, for mypy alone: nothing here runs.

`make lint` checks this file too. A line that the types no longer refuse has a comment too many, which is an error.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from halflife import Accountant, Classical, ReleaseDraw
    from halflife.noise import SimulatedNoise, by_scale, draw

    # A seed can reach a simulation, never a release.
    ReleaseDraw(Accountant(Classical(1.0)), SimulatedNoise(1))  # type: ignore[call-arg]
    draw(SimulatedNoise(1))  # type: ignore[arg-type]
    draw(by_scale(1.0, 1.0))
