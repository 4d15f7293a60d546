"""Planted faults after the noise: publishers whose post-processing is handed exact values, in small and in full.

A filter that reads the whole true stream has been published as private (see `mechanisms.rescue_dp`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from halflife.audit.policy.postprocessing import audit_post
from halflife.audit.registry import Faults
from halflife.audit.verdict import Finding
from halflife.ledger import Entry
from halflife.numerics.arrays import Floats
from halflife.policy import Policy
from halflife.postprocessing import PLAIN, Facts, Kalman, Smoother
from halflife.publisher.drawing import ChargedBatch, Totals
from halflife.publisher.due import Due
from halflife.publisher.readable import in_output_units
from halflife.publisher.session import Session

DRIFT = 0.1
"""What the policy of the planted faults declares, in people a step."""


class LeakingSession(Session):
    """A publisher whose post-processor is handed the exact values: see `leak` for what it does with them."""

    def publish(self, parts: Sequence[tuple[Due, Totals]], charged: ChargedBatch | None = None) -> list[Entry]:
        """Publish steps as `Session` does, with a post-processor that has seen the exact values."""
        for due, totals in parts:
            name, exact = due.channel.name, in_output_units(totals.astype(np.float64), due.channel.factor_of_cells)
            self.saved.smoothers[name] = [self.leak(exact)]
        return super().publish(parts, charged)

    def leak(self, exact: Floats) -> Smoother:
        """Return a post-processor that has seen the exact values."""
        raise NotImplementedError


class ShrunkValues(Kalman):
    """A Kalman filter that takes a thousandth of each error off."""

    def __init__(self, exact: Floats) -> None:
        super().__init__(DRIFT)
        self.exact = exact

    def smooth(self, values: Floats, scales: Floats, facts: Facts = PLAIN) -> tuple[Floats, Floats]:
        """Return the values of the filter, a little nearer to the exact ones."""
        values, scales = super().smooth(values, scales, facts)
        return values + (self.exact - values) / 1000, scales


class ReadsTheTruth(LeakingSession):
    """Its filter moves each value a thousandth of the way to the exact one."""

    def leak(self, exact: Floats) -> Smoother:
        """Return the filter with the exact values."""
        return ShrunkValues(exact)


class FitsTheTruth(LeakingSession):
    """Its filter's drift is fitted on exact values: no value is read, and yet what is published tells of them."""

    def leak(self, exact: Floats) -> Smoother:
        """Return a filter that moves as fast as the exact values do."""
        return Kalman(DRIFT + float(np.diff(exact, axis=0).std()))


def small_policy() -> Policy:
    """Return a policy whose values are pushed: a count, smoothed."""
    stream = {
        "name": "count",
        "statistic": {"kind": "count"},
        "post": [{"kalman": str(DRIFT)}],
        "output": "count.jsonl",
    }
    return Policy.from_dict(
        {
            "population": {"id": "planted", "size": 100, "person": "person"},
            "promise": {"notion": "w-event", "epsilon": 1.0, "w": 6},
            "clock": {"step": "1 h", "start": "2026-01-01"},
            "streams": [stream],
            "ledger": "planted.ledger",
        },
        ".",
    )


def plant_post_faults() -> Faults:
    """Return what the audit finds of publishers whose post-processing reads the exact values, and of an honest one."""
    builds: dict[str, type[Session]] = {
        "a smoother that reads the exact values": ReadsTheTruth,
        "a drift that is fitted on exact values": FitsTheTruth,
        "honest post-processing": Session,
    }
    return Faults(rules=tuple(_find(name, build) for name, build in builds.items()))


def _find(name: str, build: type[Session]) -> Finding:
    (found,) = audit_post(small_policy(), build)
    return replace(found, name=name)
