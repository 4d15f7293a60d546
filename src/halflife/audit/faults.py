"""Planted faults: release paths and histories that break their promise in known ways, for the audit to catch.

Each is what the literature or our own tests have seen go wrong. Faults of one notion are in its file under `notions/`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from halflife.audit.black_box import Pair
from halflife.audit.exact import audit_history
from halflife.audit.planted_noise import draw_planted
from halflife.audit.post_faults import plant_post_faults
from halflife.audit.registry import Faults, all_audits
from halflife.audit.rivals.verdicts import plant_rivals
from halflife.audit.running import audit_paths
from halflife.audit.verdict import Finding, Verdict
from halflife.numerics.arrays import Floats
from halflife.numerics.progress import Progress


@dataclass(frozen=True, eq=False)
class AddedNoise:
    """f + release-grade Laplace noise, step by step, with what a fault changes.

    streams  the exact values of both streams;  loss  what each step is charged
    shrink   the noise is this much smaller than it should be;  twice  every step is drawn again, and both are seen
    """

    streams: tuple[Floats, Floats]
    loss: float
    sensitivity: float = 1.0
    shrink: float = 1.0
    twice: bool = False

    def __call__(self, which: int, runs: int) -> Floats:
        """Return outputs of so many runs."""
        exact = np.tile(self.streams[which], 2 if self.twice else 1)
        noise = draw_planted(runs * len(exact), self.sensitivity, loss=self.loss / self.shrink)
        sums: Floats = np.array(noise.add(np.tile(exact, runs).tolist())).reshape(runs, len(exact))
        return sums


def textbook_laplace(which: int, runs: int) -> Floats:
    """f − b·sgn(u)·ln(1 − 2|u|) in doubles, as textbooks have it: its last bits tell f (Mironov 2012)."""
    u = np.random.default_rng(which).random((runs, 1)) - 0.5
    made: Floats = float(which) - np.sign(u) * np.log(1 - 2 * np.abs(u))
    return made


def same_seed_each_step(which: int, runs: int) -> Floats:
    """The generator is seeded anew before every step, so all steps have the same noise."""
    rows = []
    for run in range(runs):
        steps = [np.random.default_rng(1000 * which + run).laplace(0.0, 2.0) for _ in range(2)]
        rows.append([steps[0], which + steps[1]])
    return np.array(rows)


def nan_through_the_clip(which: int, runs: int) -> Floats:
    """numpy.clip lets NaN pass: one person's NaN makes the total NaN."""
    readings = np.array([0.2, 0.4, math.nan if which else 0.3])
    total = float(np.clip(readings, 0.0, 1.0).sum())
    noise = draw_planted(runs, loss=1.0).add([0.0] * runs)
    return (total + np.array(noise))[:, None]


def order_of_a_float_sum(which: int, runs: int) -> Floats:
    """One person's row decides the order in which single-precision readings of at most 1 are added up.

    100,000 readings of 1/256 and as many of 1: small ones first they count 390.6, added to a large sum they are lost one by one
    (sensitivities of float sums are underestimated widely: Casacuberta et al. 2022).
    """
    readings = np.repeat(np.array([2.0**-8, 1.0], dtype=np.float32), 100_000)
    total = float(np.cumsum(readings[::-1] if which else readings, dtype=np.float32)[-1])
    noise = draw_planted(runs, loss=1.0).add([total] * runs)
    return np.array(noise)[:, None]


def _pair(move: list[float], scale: float, claimed: float) -> Pair:
    moves = np.array(move)
    return Pair("", np.zeros(len(moves)), moves, np.full(len(moves), scale), claimed)


def plant_faults() -> Faults:
    """Return the planted faults that no notion has for itself: noise, sums and draws that are not what they should be."""
    one, window = (np.zeros(1), np.ones(1)), (np.zeros(8), np.ones(8))
    wide = _pair([1.0] * 8, 8.0, 1.0)
    return Faults(
        paths={
            "scale 20 % too small": (_pair([1.0], 1.0, 1.0), AddedNoise(one, 1.0, shrink=0.8)),
            "scale 20 % too small at each of 8 steps": (wide, AddedNoise(window, 1 / 8, shrink=0.8)),
            "textbook floating-point Laplace": (_pair([1.0], 1.0, 1.0), textbook_laplace),
            "one seed for all steps": (_pair([0.0, 1.0], 2.0, 0.5), same_seed_each_step),
            "a value drawn again after a crash": (_pair([1.0, 1.0], 1.0, 1.0), AddedNoise(one, 1.0, twice=True)),
            "NaN through the clip": (_pair([1.0], 1.0, 1.0), nan_through_the_clip),
            "a float sum whose order a row decides": (
                Pair("", np.array([100_390.625]), np.array([100_391.625]), np.array([1.0]), 1.0), order_of_a_float_sum,
            ),
        },
        honest={
            "honest noise": (_pair([1.0], 1.0, 1.0), AddedNoise(one, 1.0)),
            "honest noise at each of 8 steps": (wide, AddedNoise(window, 1 / 8)),
        },
    )  # fmt: skip


def all_faults() -> Faults:
    """Return every planted fault: those of all notions together."""
    planted = [plant_faults(), plant_post_faults(), plant_rivals()]
    planted += [audit.faults() for audit in all_audits().values() if audit.faults is not None]
    return Faults(
        histories={name: history for faults in planted for name, history in faults.histories.items()},
        paths={name: case for faults in planted for name, case in faults.paths.items()},
        rules=tuple(finding for faults in planted for finding in faults.rules),
        honest={name: case for faults in planted for name, case in faults.honest.items()},
    )


def audit_faults(
    planted: Faults | None = None,
    seconds: float = 60.0,
    runs: int = 20_000,
    progress: Progress = lambda what, done, total: None,
) -> Verdict:
    """Audit planted faults, by default all there are: a good audit accuses each, and none of the honest paths beside them."""
    faults = all_faults() if planted is None else planted
    cases = [(replace(pair, name=name), path) for name, (pair, path) in (faults.paths | faults.honest).items()]
    findings = [audit_history(name, *history) for name, history in faults.histories.items()]
    findings += faults.rules
    findings += audit_paths(cases, seconds=seconds, runs=runs, chunk=2_000, progress=progress)
    return Verdict("planted faults" if planted is None else "rivals", tuple(_worst_of_each(findings)))


def find_mistakes(verdict: Verdict) -> list[str]:
    """Return what the audit of planted faults got wrong: faults that are not accused, and honest paths that are."""
    return [f.name for f in verdict.findings if f.accused == f.name.startswith("honest")]


def _worst_of_each(findings: list[Finding]) -> list[Finding]:
    """For each name the finding that finds most against its claim."""
    worst: dict[str, Finding] = {}
    for f in findings:
        if f.name not in worst or f.found * worst[f.name].claimed > worst[f.name].found * f.claimed:
            worst[f.name] = f
    return list(worst.values())
