"""Binary tree: running totals whose noise grows with the logarithm of the number of steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from halflife.errors import InvalidInput
from halflife.mechanisms.base import Draw, Request, ScheduledMechanism
from halflife.mechanisms.held import HeldOutput, Lanes, find_window
from halflife.noise import SMALLEST_LOSS
from halflife.notions import WEvent
from halflife.numerics.arrays import Floats, Integers
from halflife.numerics.dyadic import Node, find_node
from halflife.numerics.forms import JsonObject
from halflife.numerics.parameters import whole
from halflife.numerics.rounding import divide_down, up
from halflife.plans import Plan
from halflife.registry import register_mechanism
from halflife.steps import Steps

LEVELS = 64
"""More levels than any stream has steps for, where no horizon is given."""
MOST_HORIZON = 2**26
"""The longest horizon whose windows are looked at one by one."""
LATEST_STEP = 2**53
"""No clock reaches this step."""


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
    nodes: `state()` is as private as the readings are. A policy's stream remembers none: see `TreeNodes`.

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
    repeats: ClassVar[bool] = False

    def __init__(self, notion: WEvent, sensitivity: float = 1.0, *, horizon: int | None = None) -> None:
        super().__init__(notion, sensitivity)
        self.horizon = None if horizon is None else whole("horizon", horizon, least=1)
        self._worst = 0
        if self.horizon is not None:
            if self.horizon > MOST_HORIZON:
                raise InvalidInput(f"a horizon must be at most {MOST_HORIZON:,} steps, not {self.horizon:,}: give none")
            self._worst = largest_window(count_nodes(self.horizon), self.notion.w)

    @classmethod
    def for_stream(cls, plan: Plan, *, name: str, steps: Steps, begin: int, cells: int, touched: int) -> TreeNodes:
        """Return the nodes of a policy's stream, which are read anew from the data, as a ledger must not hold exact sums."""
        return TreeNodes.for_stream(plan, name=name, steps=steps, begin=begin, cells=cells, touched=touched)

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
        if self.horizon is not None and step > self.horizon:
            raise InvalidInput(
                f"step {step} comes after the horizon, {self.horizon}: begin another total, or give none"
            )
        return find_node(step, self.horizon is None)


class TreeNodes(ScheduledMechanism):
    """The nodes of a binary tree as releases that are named beforehand: y(t) = x_{t−m+1} + … + x_t + Laplace(b), m = 2^ℓ (ours).

    It is the privacy part of a policy's running total, and keeps nothing. At step t the publisher adds up the m steps of the node
    from the data, and the noisy node is all that a ledger holds; the total at t is a sum of noisy nodes, which is post-processing
    (`postprocessing/running_total.py`) and costs nothing. Nodes, scales b and losses mΔ/b are those of `BinaryTree`, whose proof
    holds: a window that shares j steps with a node loses jΔ/b by it.

    tree  whose nodes they are

    >>> nodes = TreeNodes(BinaryTree(WEvent(1.0, w=1), horizon=8))
    >>> [(request.span, request.sensitivity, round(request.loss, 6)) for request in nodes.requests([6, 7, 8])]
    [(2, 2.0, 0.5), (1, 1.0, 0.25), (8, 8.0, 2.0)]
    """

    name: ClassVar[str] = BinaryTree.name
    source: ClassVar[str] = BinaryTree.source
    rule: ClassVar[str] = "publishes the running total since the stream began, as a sum of noisy nodes of a binary tree"
    keeps_noise: ClassVar[bool] = False
    names_spans: ClassVar[bool] = True

    def __init__(self, tree: BinaryTree) -> None:
        self.tree = tree
        self._known: dict[tuple[int, int], Request] = {}

    @classmethod
    def for_stream(cls, plan: Plan, *, name: str, steps: Steps, begin: int, cells: int, touched: int) -> TreeNodes:
        """Return the nodes of a policy's stream; refuse what they are not proved for."""
        _check_stream(plan, cells)
        tree = BinaryTree(find_window(plan, cls.name), plan.sensitivity, horizon=plan.request.releases)
        least = divide_down(tree.sensitivity, tree.scale(tree.horizon or LATEST_STEP))
        if least < SMALLEST_LOSS:
            raise InvalidInput(
                f"{cls.name} would draw noise of a loss of {least:.3g}: the least is {SMALLEST_LOSS:.3g}; promise a larger "
                "epsilon, or a shorter window"
            )
        return cls(tree)

    @property
    def endless(self) -> bool:
        """Whether the stream has no end, so that trees follow each other."""
        return self.tree.horizon is None

    def requests(self, steps: Sequence[int]) -> list[Request | None]:
        """Return fresh noise of scale b for the node that each of these steps completes."""
        return [self._request(step) for step in steps]

    def _request(self, step: int) -> Request:
        node, one = self.tree._find_node(step), self.tree.sensitivity
        if (node.level, node.tree) not in self._known:
            whole_node = node.width * one
            wide: Any = {} if node.width == 1 else {"span": node.width, "step_sensitivity": one}
            loss = divide_down(whole_node, self.tree.scale(step))
            self._known[node.level, node.tree] = Request(None, whole_node, loss, **wide)
        return self._known[node.level, node.tree]

    def noise_facts(self) -> JsonObject:
        """Return the family: every node has noise of its own. Totals share nodes, which the record of post-processing says."""
        return {"family": "laplace"}

    def std(self, step: int) -> float:
        """Return the standard deviation of the noise in the total at a step, in whole units."""
        return math.sqrt(self.tree.variance(step))

    def describe(self) -> JsonObject:
        """Return what a certificate says of it, as of a plan: its name, family of noise, source, and why the promise is kept."""
        epsilon, w = self.tree.notion.epsilon, self.tree.notion.w
        tail = (
            "Each step publishes one node, the sum of one step or of the newest 2, 4, 8 …, with noise of its own. Any "
            f"{w:,} steps of the stream in a row lose {epsilon:g} nats at most, by all nodes that hold any of them. Running "
            "totals are sums of noisy nodes: they share noise, and cost nothing."
        )
        return {"method": self.name, "noise": "laplace", "source": self.source, "tail": tail}


def _check_stream(plan: Plan, cells: int) -> None:
    """Refuse a policy's stream of which nobody has shown what its nodes cost, or say."""
    name, request = BinaryTree.name, plan.request
    if getattr(plan.notion, "delta", 0.0):
        raise InvalidInput(f"{name} is proved for delta 0 alone: leave delta out, or the mechanism")
    if cells > 1:
        raise InvalidInput(
            f"{name} publishes one number a step, and the stream has {cells:,}: leave groups, bins and quantiles out"
        )
    if request.every != 1 or request.span != 1:
        raise InvalidInput(
            f"{name} adds up steps of the clock's width, and it is not worked out what nodes of wider ones cost: leave the "
            "stream's step out, or set clock.step to it"
        )
    if request.age:
        raise InvalidInput(
            f"it is not worked out what nodes that are published {request.age:,} steps late cost: {name} takes a delay of less "
            "than a step"
        )


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
