"""An age-dependent policy attacked: one person is in one of two states now, with a past drawn from the reversed process."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from halflife.accountant import Accountant
from halflife.audit.black_box import Pair
from halflife.audit.notions.age_dependent.pasts import PASTS, draw_pasts, part_of_range, person_to_attack, worst_states
from halflife.audit.policy import generic
from halflife.audit.policy.generic import noise_scales, planned_releases
from halflife.audit.policy.neighbours import neighbour_totals
from halflife.audit.policy.path import PublishingPath, Totals, as_data, fast_folder, quiet_policy
from halflife.audit.registry import Trial
from halflife.notions import AgeDependent
from halflife.numerics.arrays import Floats
from halflife.numerics.forms import JsonObject
from halflife.policy import Policy, channels
from halflife.policy.promises.table import SUMS
from halflife.processes import Process
from halflife.publisher.readable import in_output_units


def try_policy(policy: Policy) -> Trial:
    """Return what is tried on every policy, and a person who is in one of two states now."""
    trial = generic.try_policy(policy)
    return replace(trial, cases=[*trial.cases, *state_cases(policy, generic.count_steps(policy))])


@dataclass(frozen=True, eq=False)
class PastsPath:
    """The real publisher on people of whom one is in one of two states now: a new past, and a new ledger, for each run.

    path     the publisher on exact totals with that person at the least, and at the most, that counts
    process  how the person's state moves;  states  the two that they may be in at step `now`
    times    the data times of the totals' rows, by stream;  bounds  the least and the largest that counts, in units
    adds_up  whether a state between counts in part, by stream
    """

    path: PublishingPath
    process: JsonObject
    states: tuple[float, float]
    now: int
    times: dict[str, list[int]]
    bounds: dict[str, tuple[float, float]]
    adds_up: dict[str, bool]

    def __call__(self, which: int, runs: int) -> Floats:
        """Return the values that so many runs publish."""
        drawn = self.draw_totals(which, runs, np.random.default_rng())
        with tempfile.TemporaryDirectory(prefix="halflife-audit-", dir=fast_folder()) as place:
            policy = quiet_policy(self.path.policy, self.path.folder, pathlib.Path(place))
            return np.array([self.path.run(policy, totals, pathlib.Path(place)) for totals in drawn])

    def draw_totals(self, which: int, runs: int, rng: np.random.Generator) -> Iterator[Totals]:
        """Yield the exact totals of so many pasts."""
        process = Process.from_dict(self.process)
        first = min(min(t) for t in self.times.values())
        states = draw_pasts(process, self.states[which], self.now, first, runs, rng)
        for past in states:
            yield {name: self._totals(process, name, past, first) for name in self.times}

    def _totals(self, process: Process, name: str, past: Floats, first: int) -> NDArray[np.int64]:
        part = part_of_range(process, past[np.array(self.times[name]) - first], *self.bounds[name])
        part = part if self.adds_up[name] else np.round(part)
        least, most = (end[name] for end in self.path.totals)
        return least + np.round((most - least) * part[:, None]).astype(np.int64)


def state_cases(policy: Policy, steps: int) -> Iterator[tuple[Pair, PastsPath]]:
    """Yield a pair of states of one person now, with what the account says they lose, and the publisher on their pasts.

    Nothing if the process is one that no past can be drawn from.
    """
    made = channels(policy)
    notion = policy.notion
    assert isinstance(notion, AgeDependent)
    at = {c.name: c.release_steps(1, steps) for c in made}
    times = {c.name: (at[c.name] - c.age).tolist() for c in made}
    now, newest = max(int(a[-1]) for a in at.values()), max(t[-1] for t in times.values())
    person = person_to_attack(notion.process, now - newest)
    if person is None:
        return
    least, most = ({c.name: neighbour_totals(c, variant, steps) for c in made} for variant in ("least", "most"))
    path = PastsPath(
        path=PublishingPath(as_data(policy), str(policy.path(".")), (least, most)),
        process=person.to_dict(),
        states=worst_states(person, now - newest, now),
        now=now,
        times=times,
        bounds={c.name: (c.measure.low, c.measure.high) for c in made},
        adds_up={c.name: c.part.statistic.kind in SUMS for c in made},
    )
    claimed = Accountant.replay(notion, [r for r in planned_releases(made, steps) if r.step <= now]).risk(now)
    first, second = (_mean_values(policy, path, which) for which in (0, 1))
    scales = np.concatenate([noise_scales(c, steps).ravel() for c in made])
    name = f"a person who is in state {path.states[0]:g} or {path.states[1]:g} now, {steps} steps"
    yield Pair(name, first, second, scales, claimed, made[0].plan.noise, notion.delta, sized=False), path


def _mean_values(policy: Policy, path: PastsPath, which: int) -> Floats:
    """What the exact values are on average over pasts, in output units."""
    drawn = list(path.draw_totals(which, PASTS, np.random.default_rng(which)))
    means = [
        in_output_units(np.mean([t[c.name] for t in drawn], axis=0), c.factor_of_cells).ravel()
        for c in channels(policy)
    ]
    return np.concatenate(means)
