"""The plan of least total noise under Swellfish privacy."""

from __future__ import annotations

import numpy as np

from halflife.errors import HalflifeError
from halflife.notions.request import PlanRequest
from halflife.notions.swellfish.losses import worst_costs
from halflife.notions.swellfish.notion import Swellfish
from halflife.numerics.rounding import TOLERANCE
from halflife.plans.swellfish.plan import SwellfishPlan, build, tight
from halflife.registry import register_plan


@register_plan("swellfish", "optimal")
def optimal(notion: Swellfish, request: PlanRequest) -> SwellfishPlan:
    """The scales of least total noise Σ λ_t (Σ σ_t) with which every secret keeps its ε, by convex programming (ours).

    Never more than `tight` in total. `facts`: the gain over it, and the certified relative gap to the least possible. A block has
    one scale in the program too, and a floor is a bound in it. Gaussian noise under all-events: the gap is to the least under a
    sufficient linear condition (`swellfish_cuts`). Laplace noise with δ > 0 is held to the calibrated scales (T6), so `tight` is
    the least already.

    >>> from halflife import Secret, Specification
    >>> notion = Swellfish(Specification([Secret(1.0, 2, 1, 2, 1.0), Secret(3.0, 1, 2, 2, 1.0)]))
    >>> notion.plan(method="tight").scales(2).round(2).tolist(), notion.plan(method="optimal").scales(2).round(2).tolist()
    ([2.0, 8.0], [3.0, 6.0])
    """
    simple = tight(notion, request)
    if notion.by_threshold:
        source = f"{simple.source}; Laplace noise with a δ must keep these scales, so none is less"
        return build(notion, request, notion.sufficient, source, {"gap": 0.0, "gain_over_tight": 0.0})
    from halflife.plans.swellfish.program import program_of, solve_once

    program = program_of(notion, simple)
    if program is None:
        source = f"{simple.source}; no step is published at which a secret is relevant"
        return build(notion, request, notion.sufficient, source, {"gap": 0.0, "gain_over_tight": 0.0})
    found = solve_once(program)
    scales = program.over_time(found.z, simple.hidden, request.extra.get("block") is not None)
    n = len(program.rules.variable)
    gain = 1 - build(notion, request, scales, "").total(n)[0] / simple.total(n)[0]
    facts = {"gap": found.gap, "gain_over_tight": max(0.0, gain), "rounds": found.rounds}
    facts |= {"constraints": found.rows, "variables": len(found.z)}
    source = f"least total noise by cutting planes, within {found.gap:.1e} of the least (ours)"
    if notion.neighbours == "all-events" and notion.noise == "gaussian":
        source += " under a sufficient linear condition"
    plan = build(notion, request, scales if gain > 0 else notion.sufficient, source, facts)
    if not keeps(plan, n):
        raise HalflifeError("the least noise could not be certified: use method='tight', or give a shorter horizon")
    return plan


def keeps(plan: SwellfishPlan, n: int) -> bool:
    """Whether by the scales of steps 1 … n each secret's worst cost is within its limit (Gaussian: μ², rounded down)."""
    notion = plan.notion
    assert isinstance(notion, Swellfish)
    with np.errstate(divide="ignore"):
        unit = np.nextafter(1 / plan.scales(n), np.inf)
    unit[np.isinf(plan.scales(n))] = 0.0
    x = unit if notion.noise == "laplace" else np.nextafter(unit**2, np.inf) * (unit > 0)
    costs = worst_costs(notion.specifications, x, plan.begin, notion.neighbours, notion.noise)
    return bool(np.all(costs <= notion.limits * (1 + TOLERANCE)))
