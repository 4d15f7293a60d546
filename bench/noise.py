"""Release-grade noise for a year of half hours with 17,520 different scales, beside NumPy and one call a step."""

from __future__ import annotations

import time

import numpy as np
from rich.console import Console
from rich.table import Table

import halflife as hl
from halflife import noise

STEPS = 17_520


def timed(action) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def main() -> None:
    losses = hl.HyperbolicDiscount(1.0, beta=0.1).plan().losses(STEPS).tolist()
    noise.draw(noise.by_loss(1.0, 1.0))  # load OpenDP
    calibrations: list[noise.Calibration] = []
    times = {
        "calibrate by loss": timed(lambda: calibrations.extend(noise.by_loss(x, 1.0) for x in losses)),
        "draw and add, one call": timed(lambda: [20.0 + d for d in noise.draw_many(calibrations)]),
        "draw and add, a call a step (1,000)": timed(lambda: [20.0 + noise.draw(c) for c in calibrations[:1000]])
        * 17.52,
        "simulated (NumPy)": timed(lambda: noise.SimulatedNoise(1).draw("laplace", 1 / np.array(losses), (STEPS,))),
    }
    table = Table(title=f"{STEPS:,} values, each with a scale of its own")
    table.add_column("what")
    table.add_column("seconds", justify="right")
    table.add_column("µs a value", justify="right")
    for name, seconds in times.items():
        table.add_row(name, f"{seconds:.3f}", f"{seconds / STEPS * 1e6:.2f}")
    Console(width=100).print(table)
