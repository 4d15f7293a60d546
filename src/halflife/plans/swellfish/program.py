"""The least total noise under Swellfish privacy: a convex program, solved by cutting planes (ours).

With x_t = 1/λ_t (Gaussian: 1/σ_t²) every secret's cost is a maximum of sums of x (`notions.swellfish.losses`), so

    minimise Σ_t λ_t = Σ_t x_t^(−r),  r = 1 (Gaussian: Σ σ_t, r = ½),  subject to a·x ≤ 1 for all rows a of all secrets

is convex. It is solved with a few rows (Clarabel, interior points); the rows that its answer violates are added, and so on. What
counts does not rest on the solver: each answer is lowered until every secret keeps its limit, by the exact kernels, which bounds
the least noise from above; any prices y ≥ 0 of the rows bound it from below (`lower_bound`). Between the two lies the gap.

Under all-events a row is a sum over events, each at any of its places. Whole rows would be needed in all combinations of places;
so the violated ones are taken apart, with a variable for the largest cost of each event (`System`). See docs/decisions/0013.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import coo_array, csr_array, diags_array, vstack

from halflife.errors import InvalidInput, missing_extra
from halflife.notions.swellfish.notion import Swellfish
from halflife.numerics.arrays import Floats, Integers
from halflife.numerics.forms import JsonObject
from halflife.numerics.rounding import TOLERANCE
from halflife.plans.solutions import read_floats, read_solution, recall_or_solve
from halflife.plans.swellfish.cuts import Constraints, Rows, join_rows, whole_rows
from halflife.plans.swellfish.plan import MOST_STEPS, SwellfishPlan
from halflife.release import Noise
from halflife.specifications.base import NUMBERS
from halflife.specifications.sweep import StepFunction

ROUNDS, GAP = 40, 1e-6
"""The search ends at this relative gap, or after so many rounds."""
FORGETFUL = 8
"""In the first rounds rows that do not bind are dropped; later none is, so that none comes back for ever."""
POWER: dict[Noise, float] = {"laplace": 1.0, "gaussian": 0.5}
"""r: a scale is x^(−r)."""
MOST_VARIABLES = 200_000
"""How many scales are found at most: 69,888 (250 households) took 3 GB and seven minutes."""


class Program(NamedTuple):
    """Minimise Σ costs_v z_v^(−r) with z ≤ ceilings and each secret's cost within its limit; z = 1 has the given scales."""

    rules: Constraints
    scales: Floats
    costs: Floats
    ceilings: Floats

    @property
    def power(self) -> float:
        """r of Σ costs z^(−r)."""
        return POWER[self.rules.noise]

    def value(self, z: Floats) -> float:
        """Return the total noise."""
        return float(self.costs @ z**-self.power)

    def over_time(self, z: Floats, otherwise: StepFunction, blocks: bool) -> StepFunction:
        """Return the scales of z at each step with a variable, and others elsewhere; a block goes on after the last step."""
        variable, first = self.rules.variable, self.rules.first
        last = first + len(variable) - 1
        scales = self.scales * z**-self.power
        values = np.where(variable >= 0, scales[variable], otherwise.over(first, last))
        after = values[-1] if blocks and last + 1 not in otherwise.starts else otherwise.at(last + 1)
        later = otherwise.starts > last + 1
        return StepFunction(
            np.concatenate([np.arange(first, last + 2), otherwise.starts[later]]),
            np.concatenate([values, [after], otherwise.values[later]]),
        )


def program_of(notion: Swellfish, simple: SwellfishPlan) -> Program | None:
    """Return what `simple`, a plan by `tight`, could save; None if no step is published at which a secret is relevant.

    A variable is a step, or a block of steps that share their scale. Floors bound z from above.
    """
    s, first = notion.specifications, simple.begin
    last = min(s.last_step, first + simple.steps - 1)
    if last - first >= MOST_STEPS:
        raise InvalidInput(f"{last - first + 1:,} steps are more than {MOST_STEPS:,}: give a shorter horizon")
    steps = np.arange(first, last + 1)
    published = (steps - first) % simple.request.every == 0
    own = steps
    if simple.request.extra.get("block") is not None:
        own = np.searchsorted(simple.hidden.starts, steps, side="right")
    names = np.unique(own[published & (notion.sufficient.over(first, last) > 0)])
    if not len(names):
        return None
    if len(names) > MOST_VARIABLES:
        raise InvalidInput(
            f"{len(names):,} scales are to be found, and {MOST_VARIABLES:,} is the most: give a shorter horizon, or blocks, or "
            "use method='tight'"
        )
    place = np.minimum(np.searchsorted(names, own), len(names) - 1)
    variable = np.where(names[place] == own, place, -1)
    published &= variable >= 0
    scales = np.zeros(len(names))
    np.maximum.at(scales, variable[published], np.maximum(simple.hidden.over(first, last), simple.floor)[published])
    near, root = (s.end >= first) & (s.start <= last), 1 / POWER[notion.noise]
    rules = Constraints(
        s.only(near),
        notion.limits[near],
        notion.delta,
        notion.neighbours,
        notion.noise,
        first,
        variable,
        published,
        scales**-root,
    )
    ceilings = rules.ceilings()
    if simple.floor > 0:
        ceilings = np.minimum(ceilings, (scales / simple.floor) ** root)
    return Program(rules, scales, np.bincount(variable[published]) * scales, ceilings)


# The search -------------------------------------------------------------------------------------------------------------


class Optimum(NamedTuple):
    """The solution: z that keep every limit, their certified relative gap to the least total noise, and how they were found."""

    z: Floats
    gap: float
    rounds: int
    rows: int


def solve_once(program: Program) -> Optimum:
    """Return the solution of `least_noise`, where solutions are kept as it was found before: if every secret keeps its limit by
    it, which is worked out anew. Its gap is as it was found."""
    rules, s = program.rules, program.rules.secrets

    def recall(form: JsonObject) -> Optimum:
        kept = read_solution(form, ("z", "gap", "rounds", "rows"))
        z = read_floats(kept["z"], len(program.costs))
        most = 1 + TOLERANCE / 2  # what is left is for the rounding of the plan that is made of them
        if not ((z <= program.ceilings * most).all() and (rules.shares(z) <= most).all()):
            raise ValueError("no solution of this problem")
        return Optimum(z, kept["gap"], kept["rounds"], kept["rows"])

    problem: dict[str, np.ndarray[Any, Any] | str] = {
        "kind": f"least noise, {rules.interpretation}, {rules.noise}, from {rules.first}"
    }
    problem |= {name: getattr(s, name) for name in ("household", *NUMBERS)}
    problem |= {"limits": rules.limits, "variable": rules.variable, "published": rules.published, "unit": rules.unit}
    problem |= {"scales": program.scales, "costs": program.costs, "ceilings": program.ceilings}
    return recall_or_solve(
        problem, recall, lambda: least_noise(program), lambda found: {**found._asdict(), "z": found.z.tolist()}
    )


def least_noise(program: Program, rounds: int = ROUNDS) -> Optimum:
    """Return the z of least total noise, up to a relative gap of GAP or what is reached in so many rounds."""
    rules, low, size = program.rules, 0.0, len(program.rules.secrets)
    best = rules.shrink(np.ones(len(program.costs)))
    boxes = whole_rows(csr_array(diags_array(1 / program.ceilings)))
    rows = rules.cuts(best, 0.0)
    for done in range(1, rounds + 1):
        system = System.of(join_rows([boxes, rows]), size)
        z, sums, prices = solve(system, program.costs, program.power)
        if not (np.isfinite(z).all() and z.min() > 0):
            break
        low = max(low, lower_bound(system, prices, program.costs, program.power))
        best = min(best, rules.shrink(np.minimum(z, program.ceilings)), key=program.value)
        if program.value(best) - low <= GAP * program.value(best):
            break
        new = rules.cuts(z, 1 + GAP / 10, apart=True)
        if done <= FORGETFUL:
            paid = prices[len(z) : len(z) + len(rows.pair)] > 1e-6 * prices.max()
            rows = rows.only(np.flatnonzero((rows.matrix @ z > 0.95) | (rows.pair >= 0) | paid))
        new = new.only(np.flatnonzero(new.matrix @ z > system.find_limits(new.pair, sums) * (1 + GAP / 100)))
        if not len(new.pair):
            break
        rows = join_rows([rows, new])
    gap = 1 - low / program.value(best)
    return Optimum(best, max(0.0, gap) + 1e-12, done, len(rows.pair))


class System(NamedTuple):
    """The rows with a variable u for the largest part of each pair: a·z ≤ 1, or a·z ≤ u_(s,s′) and Σ_s′ u_(s,s′) ≤ 1.

    matrix  of z, for the rows and then one (empty) for each secret s that was taken apart
    part    for each row its u, −1 if it is whole;  pairs  which pair each u is of;  secret  in which of the last rows it counts
    """

    matrix: csr_array
    part: Integers
    pairs: Integers
    secret: Integers

    @classmethod
    def of(cls, rows: Rows, size: int) -> System:
        """Make it from rows; `size` is the number of secrets."""
        pairs, part = np.unique(rows.pair[rows.pair >= 0], return_inverse=True)
        secrets, secret = np.unique(pairs // size, return_inverse=True)
        which = np.full(len(rows.pair), -1, dtype=np.int64)
        which[rows.pair >= 0] = part
        more = csr_array((len(secrets), rows.matrix.shape[1]))
        return cls(csr_array(vstack([rows.matrix, more])), which, pairs, len(rows.pair) + secret)

    @property
    def right(self) -> Floats:
        """The right-hand sides: 0 where a row has a u, else 1."""
        result = np.ones(self.matrix.shape[0])
        result[: len(self.part)][self.part >= 0] = 0.0
        return result

    def find_limits(self, pair: Integers, sums: Floats) -> Floats:
        """Return the right-hand sides of rows of these pairs, given the u: 1 for a whole row, 0 for a new pair."""
        if not len(self.pairs):
            return np.where(pair < 0, 1.0, 0.0)
        place = np.minimum(np.searchsorted(self.pairs, pair), len(self.pairs) - 1)
        return np.where(pair < 0, 1.0, np.where(self.pairs[place] == pair, sums[place], 0.0))


def lower_bound(system: System, prices: Floats, costs: Floats, power: float) -> float:
    """Return a bound from below on Σ c_v z_v^(−r) over all z > 0 that obey the rows, from any prices y of the rows (ours).

    With g = rowsᵀ y it is min over z of Σ c z^(−r) + g z − Σ y, each term least at z = (r c/g)^(1/(1+r)); and k·y in place of
    y gives k^θ a − k Σ y with θ = r/(1+r), which is largest at k = (θ a / Σ y)^(1+r). Prices must not be negative, and those of
    the parts of a pair must add up to at most its secret's, or u ≥ 0 has no bound: they are lowered to that.

    >>> both = System.of(whole_rows(csr_array(np.array([[1.0, 1.0]]))), 1)
    >>> round(lower_bound(both, np.array([7.0]), np.array([1.0, 1.0]), 1.0), 12)      # z = ½, ½
    4.0
    """
    y = np.maximum(np.nan_to_num(prices, posinf=0.0), 0.0)
    mine = np.flatnonzero(system.part >= 0)
    spent = np.bincount(system.part[mine], y[mine], len(system.pairs))
    share = np.minimum(1.0, y[system.secret] / np.maximum(spent, 1e-300))
    y[mine] *= share[system.part[mine]]
    g, total = y @ system.matrix, float(y @ system.right)
    theta = power / (1 + power)
    if total == 0:
        return 0.0
    a = float(np.sum(costs ** (1 - theta) * g**theta)) * (power**-theta + power ** (1 - theta))
    k = (theta * a / total) ** (1 + power)
    return float(k**theta * a - k * total)


def solve(system: System, costs: Floats, power: float) -> tuple[Floats, Floats, Floats]:
    """Return z > 0 of least Σ c_v z_v^(−r) that obey the rows, the u, and the prices of the rows, as far as Clarabel gets them.

    With h·a ≥ 1 minimise Σ c h, where a = z (r = 1) or a² ≤ z (r = ½). In second-order cones: (h + a, h − a, 2), and for r = ½
    (z + 1, z − 1, 2a). (A power cone would say the same with fewer variables, but the solver got stuck on it.)
    """
    try:
        import clarabel  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        raise missing_extra("clarabel", "optimal", "the plan of least noise") from None
    (m, n), parts, cones = system.matrix.shape, len(system.pairs), 1 if power == 1.0 else 2
    z, u, h, a = np.split(np.arange((1 + cones) * n + parts), np.cumsum([n, parts, n]))
    a = a if cones == 2 else z
    mine, rows, first = np.flatnonzero(system.part >= 0), system.matrix.tocoo(), m + 3 * np.arange(n)
    entries = [(mine, u[system.part[mine]], -1.0), (system.secret, u, 1.0)]
    entries += [(first, h, -1.0), (first, a, -1.0), (first + 1, h, -1.0), (first + 1, a, 1.0)]
    right = [system.right, np.tile([0.0, 0.0, 2.0], n)]
    if cones == 2:
        second = first + 3 * n
        entries += [(second, z, -1.0), (second + 1, z, -1.0), (second + 2, a, -2.0)]
        right += [np.tile([1.0, -1.0, 0.0], n)]
    row, column = (np.concatenate([own, *(entry[i] for entry in entries)]) for i, own in ((0, rows.row), (1, rows.col)))
    value = np.concatenate([rows.data, *(np.full(len(entry[0]), entry[2]) for entry in entries)])
    matrix = coo_array((value, (row, column)), shape=(m + 3 * cones * n, (1 + cones) * n + parts)).tocsc()
    unit = float(costs.mean())
    aim = np.zeros(matrix.shape[1])
    aim[h] = costs / unit
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    nothing = coo_array((len(aim), len(aim))).tocsc()
    kinds = [clarabel.NonnegativeConeT(m), *[clarabel.SecondOrderConeT(3)] * (cones * n)]
    found = clarabel.DefaultSolver(nothing, aim, matrix, np.concatenate(right), kinds, settings).solve()
    answer = np.array(found.x)
    return answer[z], answer[u], unit * np.array(found.z[:m])
