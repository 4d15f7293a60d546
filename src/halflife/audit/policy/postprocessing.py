"""Whether a policy's post-processing is a function of noisy values and public facts alone, as Theorem 4 asks (paper).

The real publisher runs with its post-processing on, once, on exact totals that are made for it. Then
 - every published value is worked out again from the noisy values in the ledger, by chains that never met the exact totals;
 - the publisher runs once more on the totals of another population, while its noisy values are held to those of the first run.
Whatever reads the exact totals, for a value, a band or a parameter that is fitted, shows as a value that is not the same.
"""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from halflife.audit.policy.path import FAR, KEYS, Totals, as_data, fast_folder, quiet_policy
from halflife.audit.verdict import Finding
from halflife.ledger import Entry
from halflife.numerics.arrays import Floats
from halflife.numerics.forms import JsonObject
from halflife.policy import Channel, Policy, channels
from halflife.postprocessing.chains import add_chain
from halflife.postprocessing.structural.estimator import Structural
from halflife.postprocessing.structural.windows import next_fit
from halflife.postprocessing.truncate import Truncate
from halflife.publisher.nodes import add_up_nodes
from halflife.publisher.replay import QuantileReplay, Replay
from halflife.publisher.session import Session

A_FEW, MOST_NUMBERS = 12, 100_000
"""How many steps are run: a few, and a few beyond the first fit of what is fitted, as long as there are not too many numbers."""


class Run(NamedTuple):
    """What one run of the publisher left: entries by stream, and the rows of its outputs."""

    entries: dict[str, list[Entry]]
    rows: dict[str, list[JsonObject]]


def audit_post(policy: Policy, build: type[Session] = Session) -> Iterator[Finding]:
    """Yield a finding for each stream whose values are post-processed; `build` is the publisher that is audited."""
    made = [c for c in channels(policy) if is_processed(c)]
    if not made:
        return
    start = time.perf_counter()
    first, second = ({c.name: make_totals(c, which) for c in made} for which in (0, 1))
    seen = run_publisher(policy, first, build)
    other = run_publisher(
        policy, second, build, {name: [e.noisy for e in found] for name, found in seen.entries.items()}
    )
    spent = (time.perf_counter() - start) / len(made)
    for c in made:
        yield _judge(c, seen, other, spent)


def is_processed(c: Channel) -> bool:
    """Return whether what is published of a stream is worked out from its noisy values."""
    return bool(c.part.post) or c.quantiles is not None or c.tree is not None


def count_warm_up(c: Channel) -> int:
    """Return after how many steps a stream's post-processing is fitted for the first time; 0 if it never is."""
    fitted = [s for s in c.smoothers() if isinstance(s, Structural) and s.public is None]
    return max((next_fit(0, s.steps_per_day) for s in fitted), default=0)


def count_steps(c: Channel) -> int:
    """Return how many steps of a stream are run."""
    wanted = A_FEW + count_warm_up(c)
    return max(1, min(wanted, MOST_NUMBERS // c.cells, c.last or wanted))


def make_totals(c: Channel, which: int) -> NDArray[np.int64]:
    """Return exact totals of one of two neighbours: the second has one person more, or less, in every other step.

    They lie in the middle of what the values are truncated to, so that no bound hides a difference.
    """
    bounds = [(s.low, s.high) for s in c.smoothers() if isinstance(s, Truncate)]
    middle = sum(bounds[-1]) / 2 if bounds else 0.0
    units = np.array([middle * f.denominator / f.numerator for f in c.factor_of_cells])
    totals = np.tile(np.round(units).astype(np.int64), (count_steps(c), 1))
    totals[1::2, 0] += which * max(1, math.ceil(c.sensitivity.l1))
    return totals


def run_publisher(
    policy: Policy, totals: Totals, build: type[Session], noisy: Mapping[str, Sequence[Floats]] | None = None
) -> Run:
    """Publish the first steps of some streams with a new ledger, post-processing included, and forget it.

    noisy  values that take the place of those that are drawn; where a mechanism draws as it goes they cannot
    """
    with tempfile.TemporaryDirectory(prefix="halflife-audit-", dir=fast_folder()) as place:
        quiet = quiet_policy(as_data(policy), str(policy.path(".")), Path(place), post=True)
        session = build(quiet, clock=lambda: FAR, keys=KEYS)
        try:
            with session.hold(10.0):
                mine = [c for c in session.channels if c.name in totals]
                parts = [(session.due(c, 1, len(totals[c.name])), add_up_nodes(c, totals[c.name])) for c in mine]
                (charged,) = session.charge([[due for due, _ in parts]])
                if noisy is not None and charged is not None:
                    add, held = charged.add_noise, [np.array(noisy[c.name]) for c in mine]
                    charged.add_noise = lambda totals: [  # type: ignore[method-assign]
                        drawn._replace(noisy=x) for drawn, x in zip(add(totals), held, strict=True)
                    ]
                entries = session.publish(parts, charged)
        finally:
            session.close()
        lines = {c.name: quiet.path(c.part.output).read_text(encoding="utf-8").splitlines() for c in mine}
    rows = {name: [json.loads(line) for line in some] for name, some in lines.items()}
    return Run({c.name: [e for e in entries if e.stream == c.name] for c in mine}, rows)


def _judge(c: Channel, seen: Run, other: Run, spent: float) -> Finding:
    """Count the steps whose values are not what their noisy values give, or change with the exact totals."""
    entries, again = seen.entries[c.name], other.entries[c.name]
    wrong = {e.step for e in _find_changed(c, entries)}
    held = all(np.array_equal(a.noisy, b.noisy) for a, b in zip(entries, again, strict=True))
    if held:
        rows = zip(seen.rows[c.name], other.rows[c.name], strict=True)
        wrong |= {a["step"] for a, b in rows if a != b}
    else:
        wrong |= {e.step for e in _find_changed(c, again)}
    detail = f"{len(entries):,} steps: every value follows from the noisy ones" + (
        ", and is the same for other exact totals"
        if held
        else "; this mechanism draws as it goes, so no noise was held"
    )
    if len(entries) <= count_warm_up(c):
        detail += "; too few for a fit, so nothing that is fitted was seen"
    if wrong:
        detail = f"{len(wrong):,} of {len(entries):,} steps are not what the noisy values give: something reads the exact totals"
    found = float(len(wrong))
    return Finding(f"{c.name}: post-processing", "post-processing", 0.0, found, bool(wrong), detail, spent)


def _find_changed(c: Channel, entries: Sequence[Entry]) -> Iterator[Entry]:
    """Entries that a chain of new post-processors does not give."""
    if c.quantiles is not None:
        return QuantileReplay(c.quantiles).find_changed(entries)
    return Replay(add_chain((), c.smoothers(), 1), c.worth, c.steps.zone).find_changed(entries)
