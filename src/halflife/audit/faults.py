"""Planted faults: release paths and histories that break their promise in known ways, for the audit to catch.

Each is what the literature or our own tests have seen go wrong. `honest` is the same path without a fault.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from halflife import noise as grade
from halflife.accountant import Accountant
from halflife.audit.black_box import Pair
from halflife.audit.notions.age_dependent.faults import aged_findings
from halflife.audit.notions.almost_periodic import CorollaryEight, corollary_8_pair
from halflife.audit.notions.swellfish import honest_path, swellfish_histories, swellfish_paths
from halflife.audit.verdict import Finding, Verdict, audit_history, audit_paths
from halflife.notions import Classical, HyperbolicDiscount, WEvent
from halflife.numerics.arrays import Floats
from halflife.numerics.progress import Progress
from halflife.plans.discounted.plan import paper_constant
from halflife.release import Release


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
        noise = grade.draw(grade.by_loss(self.loss / self.shrink, self.sensitivity, size=runs * len(exact), touched=1))
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
    noise = grade.draw(grade.by_loss(1.0, 1.0, size=runs, touched=1)).add([0.0] * runs)
    return (total + np.array(noise))[:, None]


def order_of_a_float_sum(which: int, runs: int) -> Floats:
    """One person's row decides the order in which single-precision readings of at most 1 are added up.

    100,000 readings of 1/256 and as many of 1: small ones first they count 390.6, added to a large sum they are lost one by one
    (sensitivities of float sums are underestimated widely: Casacuberta et al. 2022).
    """
    readings = np.repeat(np.array([2.0**-8, 1.0], dtype=np.float32), 100_000)
    total = float(np.cumsum(readings[::-1] if which else readings, dtype=np.float32)[-1])
    noise = grade.draw(grade.by_loss(1.0, 1.0, size=runs, touched=1)).add([total] * runs)
    return np.array(noise)[:, None]


def corollary_16_at_beta_10() -> tuple[Any, list[Release], float]:
    """The paper's noise where its proof fails (erratum D1): 2.075 times what is promised."""
    notion = HyperbolicDiscount(1.0, beta=10.0)
    stated = paper_constant(10.0)
    return notion, [Release(k, 1 / (stated * math.sqrt(k))) for k in range(1, 2_001)], 1.0


def headroom_without_the_newest_release() -> tuple[Any, list[Release], float]:
    """A publisher that asks for the headroom before it has charged the last release: each step takes what was free before."""
    notion: WEvent = WEvent(1.0, w=8)
    releases: list[Release] = []
    for step in range(1, 25):
        room = Accountant.replay(notion, releases[:-1]).headroom(step)
        if room > 0:
            releases.append(Release(step, min(0.3, room)))
    return notion, releases, 1.0


def budget_that_resets_on_restart() -> tuple[Any, list[Release], float]:
    """An account that is kept in memory alone: after a restart it begins anew."""
    notion = Classical(1.0)
    releases: list[Release] = []
    for restart in range(3):
        account = Accountant(notion)
        for step in range(10 * restart + 1, 10 * restart + 11):
            release = Release(step, account.headroom(step) / 2)
            account.admit(release)
            releases.append(release)
    return notion, releases, 1.0


def _pair(name: str, move: list[float], scale: float, claimed: float) -> Pair:
    moves = np.array(move)
    return Pair(name, np.zeros(len(moves)), moves, np.full(len(moves), scale), claimed)


def path_faults() -> dict[str, tuple[Pair, Callable[[int, int], Floats]]]:
    """Every fault that shows in outputs: the pair it is attacked with (what is claimed in it), and the faulty path."""
    one = (np.zeros(1), np.ones(1))
    window = (np.zeros(8), np.ones(8))
    return {
        "scale 20 % too small": (_pair("", [1.0], 1.0, 1.0), AddedNoise(one, 1.0, shrink=0.8)),
        "scale 20 % too small at each of 8 steps": (
            _pair("", [1.0] * 8, 8.0, 1.0), AddedNoise(window, 1 / 8, shrink=0.8),
        ),
        "textbook floating-point Laplace": (_pair("", [1.0], 1.0, 1.0), textbook_laplace),
        "one seed for all steps": (_pair("", [0.0, 1.0], 2.0, 0.5), same_seed_each_step),
        "a value drawn again after a crash": (_pair("", [1.0, 1.0], 1.0, 1.0), AddedNoise(one, 1.0, twice=True)),
        "NaN through the clip": (_pair("", [1.0], 1.0, 1.0), nan_through_the_clip),
        "a float sum whose order a row decides": (
            Pair("", np.array([100_390.625]), np.array([100_391.625]), np.array([1.0]), 1.0), order_of_a_float_sum,
        ),
        "Corollary 8 of the almost-periodic paper, 10 periods": (corollary_8_pair(10), CorollaryEight(10)),
        **swellfish_paths(),
    }  # fmt: skip


def history_faults() -> dict[str, tuple[Any, list[Release], float]]:
    """Every fault that shows in what was recorded: the notion, the releases, and what is promised."""
    return {
        "Corollary 16 at beta = 10": corollary_16_at_beta_10(),
        "a headroom that forgets the newest release": headroom_without_the_newest_release(),
        "a budget that resets on restart": budget_that_resets_on_restart(),
        **swellfish_histories(),
    }


def audit_faults(
    seconds: float = 60.0, runs: int = 20_000, progress: Progress = lambda what, done, total: None
) -> Verdict:
    """Audit every planted fault: a good audit accuses all of them, and none of the honest paths beside them."""
    cases = [(replace(pair, name=name), path) for name, (pair, path) in path_faults().items()]
    one, window = (np.zeros(1), np.ones(1)), (np.zeros(8), np.ones(8))
    cases.append((_pair("honest noise", [1.0], 1.0, 1.0), AddedNoise(one, 1.0)))
    cases.append((_pair("honest noise at each of 8 steps", [1.0] * 8, 8.0, 1.0), AddedNoise(window, 1 / 8)))
    pair, path = honest_path()
    cases.append((replace(pair, name="honest noise for all events of Swellfish"), path))
    findings = [audit_history(name, *history) for name, history in history_faults().items()]
    findings += aged_findings()
    findings += audit_paths(cases, seconds=seconds, runs=runs, chunk=2_000, progress=progress)
    return Verdict("planted faults", tuple(_most_telling(findings)))


def _most_telling(findings: list[Finding]) -> list[Finding]:
    """One finding for each name: the one that finds most against its claim."""
    best: dict[str, Finding] = {}
    for f in findings:
        if f.name not in best or f.found * best[f.name].claimed > best[f.name].found * f.claimed:
            best[f.name] = f
    return list(best.values())
