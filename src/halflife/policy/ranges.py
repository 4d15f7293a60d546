"""The public range of a total, to which the values that a program pushes are clipped."""

from __future__ import annotations

from halflife.policy.streams import Channel


def total_range(channel: Channel, population: int) -> tuple[tuple[int, int], ...]:
    """Return the least and the largest that each number of a step can be, in whole units (ours).

    A person counts as some v in [l, h], or as c without a reading, so as something in [a, b] = [min(l, c), max(h, c)]. With
    public weights, let S be the sum of those above 0 of a group's people and T the sum of the others; without, S is their
    number and T is 0. The group's total lies in

        [S a + T b, S b + T a]

    A count, and each bin of a histogram, is a total with a = 0 and b = 1. Who is in a group is known where a public table fixes
    it. Else it is anybody, up to the group's public size if there is one; as c is 0 there, the bounds allow for fewer people.

    Holding every number within its own bounds brings no two vectors further apart, in any norm: sensitivities stand. Engines need
    none of it: their totals are sums of one clipped number a person and step. If there are more people in the data than the
    policy says, those sums may pass these bounds, and one person still moves them by no more than the sensitivity.
    """
    measure = channel.measure
    low, high = (0, 1) if measure.edges else (measure.low, measure.high)
    a, b = min(low, measure.missing), max(high, measure.missing)
    bounds = [(s * a + t * b, s * b + t * a) for s, t in _weight_sums(channel, population)]
    return tuple(bound for bound in bounds for _ in range(max(1, len(channel.bins))))


def _weight_sums(channel: Channel, population: int) -> list[tuple[int, int]]:
    """The sum of the weights above 0, and of the others, of all who may be in each group."""
    groups, table, weights = channel.groups, channel.table, channel.weights
    if weights is None and table is None:
        sizes = (channel.part.groups.sizes if channel.part.groups else None) or {}
        return [(sizes.get(name, population), 0) for name in groups or ("",)]
    sums = [[0, 0] for _ in groups or ("",)]
    for person in weights if weights is not None else table or ():
        weight = 1 if weights is None else weights[person]
        if table is None or person in table:
            for g in range(len(sums)) if table is None else (table[person],):
                sums[g][weight < 0] += weight
    return [(above, below) for above, below in sums]
