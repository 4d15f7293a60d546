"""Streams that share an (ε, δ): whatever is accepted can be published, and δ goes on helping where it helps."""

from __future__ import annotations

import pytest

from halflife import Accountant
from halflife.policy import Policy, channels

STATISTIC = {"kind": "sum", "unit": "kWh", "resolution": "1 Wh", "clip": [0, 5], "fold": "sum"}


def policy(promise, shares=(None, None), delays=(0, 0), end="2026-01-05"):
    streams = [
        {"name": f"s{i}", "share": share, "delay": f"{delay} h", "statistic": STATISTIC, "output": "-"}
        for i, (share, delay) in enumerate(zip(shares, delays, strict=True))
    ]
    return Policy.from_dict({
        "population": {"id": "town", "size": 3, "person": "id"},
        "promise": {"epsilon": 1, "delta": 1e-6, **promise},
        "clock": {"step": "1 h", "start": "2026-01-01", "end": end},
        "streams": streams,
    })  # fmt: skip


CASES = {
    "one step, equal parts": ({"notion": "w-event", "w": 1}, {}),
    "one step, parts that differ": ({"notion": "w-event", "w": 1, "epsilon": 0.1}, {"shares": (0.78, 0.22)}),
    "one step, three parts": ({"notion": "w-event", "w": 1}, {"shares": (None,) * 3, "delays": (0, 0, 0)}),
    "four steps, a small delta": ({"notion": "w-event", "w": 4, "epsilon": 0.1, "delta": 1e-9}, {}),
    "two steps, of two ages": ({"notion": "w-event", "w": 2}, {"delays": (0, 1)}),
    "one release, for ever": ({"notion": "classical"}, {"end": "2026-01-01T01:00"}),
    "three releases, for ever": ({"notion": "classical"}, {"end": "2026-01-01T03:00"}),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_planned_is_admitted(name):
    promise, options = CASES[name]
    made = policy(promise, **options)
    streams = channels(made)
    releases = sorted((r for c in streams for r in c.plan_releases(min(c.last, 12))), key=lambda r: r.step)
    account = Accountant(made.notion)
    account.admit(*releases)
    assert account.used() <= 1 + 1e-12
    w, epsilon = promise.get("w") or streams[0].last, promise.get("epsilon", 1)
    assert w * sum(c.losses(1, 1)[0] for c in streams) == pytest.approx(epsilon, rel=1e-4)  # nearly all of it is used


def test_delta_goes_on_helping_where_it_helps():
    """48 steps: each of two streams may lose 0.0173 a step, 1.66 times its part of ε."""
    (one, other) = channels(policy({"notion": "w-event", "w": 48}))
    assert one.losses(1, 1) == other.losses(1, 1)
    assert one.losses(1, 1)[0] * 48 > 1.6 * 0.5
    assert one.plan.notion.delta == pytest.approx(5e-7)
