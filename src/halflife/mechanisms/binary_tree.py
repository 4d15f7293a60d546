"""Binary tree: running totals whose noise grows with the logarithm of the number of steps."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from halflife.errors import InvalidInput
from halflife.mechanisms.base import Draw, Mechanism
from halflife.mechanisms.held import HeldOutput, Lanes
from halflife.notions import WEvent
from halflife.numerics.arrays import Floats, Integers
from halflife.numerics.parameters import whole
from halflife.numerics.rounding import up
from halflife.plans import Plan
from halflife.registry import register_mechanism
from halflife.steps import Steps

LEVELS = 64
"""More levels than any stream has steps for, where no horizon is given."""
MOST_HORIZON = 2**26
"""The longest horizon whose windows are looked at one by one."""


class Node(NamedTuple):
    """The node that a step completes: its level ℓ (it covers 2^ℓ steps), its tree's place, and whether it closes its tree."""

    level: int
    tree: int
    closes: bool


@register_mechanism
class BinaryTree(HeldOutput):
    """Running totals x_1 + … + x_t from a binary tree (Dwork, Naor, Pitassi, Rothblum: STOC 2010; Chan, Shi, Song: ACM TISSEC
    14(3), 2011; here for w-event privacy: ours).

    Step t completes one node, of the 2^ℓ steps t − 2^ℓ + 1 … t, where 2^ℓ is the largest power of two that divides t. The node is
    measured with Laplace noise of scale b, and the total at t is the sum of the nodes at t, t − 2^ℓ, …: as many as t has binary
    ones. (Nodes that are right children are in no total, and are not measured.)

    **w-event ε.** Neighbours differ in w consecutive steps, each by at most Δ for one person. A node that shares j steps with
    that window moves by at most jΔ, so it loses jΔ/b, which is what its release is charged (`span` 2^ℓ, each step moves Δ).
    Sums over nodes are sums over steps: with r_i the number of nodes that hold step i, a window loses (Δ/b) Σ r_i over its steps
    at most, and loses it if all values move by Δ one way. With a horizon T the worst window is found by looking at each
    of them, and b = (Δ/ε) max Σ r_i: some window loses ε exactly. For w = 1 that is b = (⌊log₂ T⌋ + 1)Δ/ε, as known.

    **Without a horizon** (after the hybrid mechanism of Chan, Shi and Song; one scale for all levels is ours) the steps from
    2^k to 2^(k+1) − 1 have a tree of their own, whose last step completes the node of all its 2^k steps. A step lies in at most
    k + 1 nodes, so with b_k = (k + 1)wΔ/ε each step loses ε/w at most, and each window ε, wherever it lies. For w = 1 that is
    exact; for longer windows up to half of ε is left over, as most steps lie in fewer nodes.

    Variance of an output (`variance`): 2b² times the number of its nodes; without a horizon Σ_{i<k} 2b_i² for the trees before.

    Losses follow from t alone. The total needs each step from 1 on. What it remembers holds *exact sums* of the steps of open
    nodes: `state()` is as private as the readings are.

    sensitivity  Δ, how far one person can move the value of one step;  horizon  T, the last step; None: there is none

    >>> from halflife import Accountant, WEvent
    >>> from halflife.mechanisms.simulated_draw import SimulatedDraw
    >>> notion = WEvent(1.0, w=1)
    >>> tree, draw = BinaryTree(notion, horizon=64), SimulatedDraw([Accountant(notion)], seed=1, lanes=2000)
    >>> for step in range(1, 64):
    ...     total = draw.run(tree, step, np.full(2000, 10.0))
    >>> round(tree.variance(63)), bool(abs(total.mean() - 630) < 3), bool(abs(total.var() / tree.variance(63) - 1) < 0.1)
    (588, True, True)
    """

    name: ClassVar[str] = "binary-tree"
    source: ClassVar[str] = "Dwork, Naor, Pitassi, Rothblum: STOC 2010; Chan, Shi, Song: ACM TISSEC 14(3), 2011"
    rule: ClassVar[str] = "publishes running totals from a tree of sums"
    adaptive: ClassVar[bool] = False
    cumulative: ClassVar[bool] = True

    def __init__(self, notion: WEvent, sensitivity: float = 1.0, *, horizon: int | None = None) -> None:
        super().__init__(notion, sensitivity)
        self.horizon = None if horizon is None else whole("horizon", horizon, least=1)
        self._worst = 0
        if self.horizon is not None:
            if self.horizon > MOST_HORIZON:
                raise InvalidInput(f"a horizon must be at most {MOST_HORIZON:,} steps, not {self.horizon:,}: give none")
            self._worst = largest_window(count_nodes(self.horizon), self.notion.w)

    @classmethod
    def for_stream(cls, plan: Plan, *, name: str, steps: Steps, begin: int, cells: int, touched: int) -> Mechanism:
        """Refuse: what it remembers are exact sums of readings, which a ledger must not hold."""
        raise InvalidInput(
            f"{cls.name} remembers exact sums of readings from step to step, and a ledger holds noisy values alone: it is there "
            "to compare with, in the lab and in Python; streams of wider steps publish totals"
        )

    def scale(self, step: int) -> float:
        """Return b, the scale of the noise of the node that a step completes."""
        worst = self._worst if self.horizon is not None else (self._find_node(step).tree + 1) * self.notion.w
        return up(worst * self.sensitivity / self.notion.epsilon)

    def variance(self, step: int) -> float:
        """Return the variance of the noise in the total at a step."""
        if self.horizon is not None:
            self._find_node(step)
            return 2 * self.scale(step) ** 2 * step.bit_count()
        before, place = step.bit_length() - 1, step - (1 << (step.bit_length() - 1)) + 1
        trees = sum(2 * self.scale(1 << k) ** 2 for k in range(before))
        return trees + 2 * self.scale(step) ** 2 * place.bit_count()

    def begin(self, shape: tuple[int, ...]) -> Lanes:
        """Exact sums of open nodes and noisy sums of measured ones, by level; and the noisy total of the trees before."""
        levels = LEVELS if self.horizon is None else self.horizon.bit_length()
        return {"sums": np.zeros((levels, *shape)), "nodes": np.zeros((levels, *shape)), "closed": np.zeros(shape)}

    def step(self, step: int, truth: Any, draw: Draw) -> Any:
        """Return the noisy total of the steps from 1 to this one."""
        node, value = self._find_node(whole("step", step, least=1)), np.asarray(truth, dtype=np.float64)
        if self._step + 1 != step:
            raise InvalidInput(
                f"step {step} cannot follow step {self._step}: a running total needs each step, from 1 on"
            )
        lanes, level = self._move_to(step, value.shape), node.level
        exact = value + lanes["sums"][:level].sum(axis=0)
        noisy = self.add_noise(exact, self.decide(lanes, value, draw, False), draw)
        for kept, new in (("sums", exact), ("nodes", noisy)):
            lanes[kept][:level], lanes[kept][level] = 0.0, new
        lanes["last"] = np.asarray(lanes["closed"] + lanes["nodes"].sum(axis=0))
        if node.closes:
            lanes["closed"] = lanes["last"]
            lanes["sums"][:], lanes["nodes"][:] = 0.0, 0.0
        return lanes["last"].copy() if value.ndim else float(lanes["last"])

    def decide(self, lanes: Lanes, truth: Floats, draw: Draw, first: bool) -> Floats:
        """mΔ/b of the node that the step completes, m its steps: what moving all of them would cost."""
        width = 1 << self._find_node(self._step).level
        return np.full(truth.shape, width * self.sensitivity / self.scale(self._step))

    def add_noise(self, value: Floats, loss: Floats, draw: Draw) -> Floats:
        """Return a node's exact sum with noise, charged by how many of its steps a window shares."""
        width = 1 << self._find_node(self._step).level
        one: Any = {} if width == 1 else {"span": width, "step_sensitivity": self.sensitivity}
        noise = draw(None, width * self.sensitivity, loss=float(loss.flat[0]), **one)
        return np.asarray((value if value.ndim else float(value)) + noise)

    def _find_node(self, step: int) -> Node:
        """Return the node that a step completes."""
        if self.horizon is not None:
            if step > self.horizon:
                raise InvalidInput(
                    f"step {step} comes after the horizon, {self.horizon}: begin another total, or give none"
                )
            return Node(_find_level(step), 0, False)
        tree = step.bit_length() - 1
        place = step - (1 << tree) + 1
        return Node(_find_level(place), tree, place == 1 << tree)


def count_nodes(horizon: int) -> Integers:
    """Return how many nodes hold each of the steps 1 … T.

    >>> count_nodes(8).tolist()
    [4, 3, 3, 2, 3, 2, 2, 1]
    """
    ends = np.arange(1, horizon + 1, dtype=np.int64)
    change = np.zeros(horizon + 1, dtype=np.int64)
    np.add.at(change, ends - (ends & -ends), 1)
    np.add.at(change, ends, -1)
    return np.cumsum(change[:-1])


def largest_window(counts: Integers, w: int) -> int:
    """Return the largest sum of w consecutive counts, of all of them if they are fewer.

    >>> largest_window(count_nodes(8), 1), largest_window(count_nodes(8), 3), largest_window(count_nodes(8), 100)
    (4, 10, 20)
    """
    sums = np.concatenate([[0], np.cumsum(counts)])
    width = min(w, len(counts))
    return int((sums[width:] - sums[:-width]).max())


def _find_level(place: int) -> int:
    return (place & -place).bit_length() - 1
