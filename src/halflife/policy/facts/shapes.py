"""What the entries of a stream hold, from a ledger's facts alone."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from halflife.numerics.trees import CountTree
from halflife.outputs import Layout
from halflife.policy.facts.keys import STREAM, VERSION, fill_part, parse_part
from halflife.postprocessing.quantiles import TreeQuantiles
from halflife.steps import Steps


class Shape(NamedTuple):
    """What a stream's entries hold: layout, what a unit is worth in each noisy number, and how quantiles follow from them.

    divided_by  the steps of a stream whose worth is still to be divided by the size of the population in force; None of others
    """

    layout: Layout
    factors: tuple[Fraction, ...]
    quantiles: TreeQuantiles | None
    divided_by: Steps | None = None


def stream_shape(name: str, facts: Mapping[str, str]) -> Shape:
    """Return what the entries of a stream hold, from a ledger's facts."""
    stream = fill_part(f"stream {name}", parse_part(facts, f"stream:{name}"), STREAM)
    groups = tuple(stream["groups"]["names"]) if stream["groups"] else ()
    statistic, worth, zone = stream["statistic"], stream["worth"], stream["steps"]["zone"]
    edges = tuple(float(Fraction(edge)) for edge in statistic["edges"] or ())
    factors = [Fraction(f) for f in (worth if isinstance(worth, list) else [worth] * max(1, len(groups)))]
    if statistic["quantiles"] is None:
        bins = tuple(pairwise(edges))
        layout = Layout(name, zone, groups, bins, statistic["unit"])
        divided = parse_part(facts, f"stream:{name}").get("version", 1) == VERSION
        steps = Steps.from_facts({**stream["steps"]}) if divided else None
        return Shape(layout, tuple(f for f in factors for _ in range(max(1, len(bins)))), None, steps)
    tree = CountTree(len(edges) - 1, statistic["levels"], statistic["total"])
    which = tuple(float(Fraction(q)) for q in statistic["quantiles"])
    layout = Layout(name, zone, groups, (), statistic["unit"], which)
    return Shape(layout, tuple(f for f in factors for _ in range(tree.nodes)), TreeQuantiles(tree, edges, which))
