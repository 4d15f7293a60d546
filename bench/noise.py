"""Release-grade noise for a year of half hours with 17,520 different scales, and for many groups, beside NumPy and one core."""

from __future__ import annotations

import time

import numpy as np

import halflife as hl
from bench.results import Finding
from halflife import noise

STEPS = 17_520
ALONE = 1_000
GROUPS = 100_000


def timed(action) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def main() -> list[Finding]:
    losses = hl.HyperbolicDiscount(1.0, beta=0.1).plan().losses(STEPS).tolist()
    vector = noise.by_loss(1.0, 1.0, size=GROUPS)
    noise.draw(noise.by_loss(1.0, 1.0))  # load OpenDP
    calibrations: list[noise.Calibration] = []
    simulated = timed(lambda: noise.SimulatedNoise(1).draw("laplace", 1 / np.array(losses), (STEPS,))) / STEPS
    measured = {
        "calibrate by loss": timed(lambda: calibrations.extend(noise.by_loss(x, 1.0) for x in losses)) / STEPS,
        "draw and add, one call for all": timed(lambda: [20.0 + d for d in noise.draw_many(calibrations)]) / STEPS,
        "draw and add, a call for each": timed(lambda: [20.0 + noise.draw(c) for c in calibrations[:ALONE]]) / ALONE,
    }
    alone = timed(lambda: noise._sampler("laplace", float(noise.SPREAD))._draw(GROUPS)) / GROUPS
    together = timed(lambda: noise.draw(vector)) / GROUPS
    return [
        *(Finding(f"{work}: a value", 1e6 * each, "µs", each / simulated, "NumPy") for work, each in measured.items()),
        Finding(f"a value of {GROUPS:,} groups, by all cores", 1e6 * together, "µs", together / alone, "one thread"),
    ]
