"""Whether a plan may go on from a history that was published under another one: then its certificate of the tail still holds.

**Claim** (ours). Let the risk at t be R(t) = Σ_j g(t − j) l_j with a weight g ≥ 0 that never rises with age: g = 1 (classical),
g = 1 for ages below w (w-event), g(a) = α^a or 1/(1 + βa) (discounted), or its square where squares of μ add up (Gaussian noise).
Let a plan with losses p_1, p_2, … keep R ≤ ε for ever, and let h_j be what was really lost before step E. If from whatever step i
on no more was lost than the plan would have,

    Σ_{i ≤ j < E} h_j ≤ Σ_{i ≤ j < E} p_j      for every i < E,

then the history followed by p_E, p_{E+1}, … keeps R ≤ ε for ever too.

Proof. Put d_j = h_j − p_j and D_i = Σ_{i ≤ j < E} d_j ≤ 0. For t ≥ E the risk is that of the plan plus Σ_{j<E} g(t − j) d_j. By
summation by parts that is Σ_{i<E} (g(t − i) − g(t − i + 1)) D_i, with 0 for the weight of the step before the first. As i grows
its age falls and its weight rises, so every bracket is ≥ 0 and the sum ≤ 0.   ∎

Under α^a all of t ≥ E follow from t = E, as Σ_j α^(t−j) d_j only shrinks from then on: one sum decides. Under w-event a release
about the s steps up to τ counts in every window a … a + w − 1 that touches one of them, a ≤ τ ≤ a + w + s − 2. It is enough that
in each window that touches anything still to come no more was lost than the plan would have: it then holds no more than under the
plan.

**Room that was left before** (ours). Under classical and discounted promises g is log-convex: g(a + x)/g(a) never falls with a.
Cut the steps before E into blocks, in each of which the plan would have lost more first (d ≤ 0) and less then (d ≥ 0), from step
m on. If Σ_j g(E − j) d_j ≤ 0 over each block, the history followed by the plan keeps R ≤ ε for ever. Proof: in a block's sum over
g(t − m) the weights g(t − j)/g(t − m) of j < m never fall with t, and those of j ≥ m never rise, so it is ≤ 0 for all t ≥ E.   ∎
That is a step published once more, for which room was left before it.

Privacy never rests on this, as the account asks for every release whether it fits: it says that nothing will be refused later.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from halflife.notions import Classical, WEvent
from halflife.notions.base import Notion
from halflife.notions.discounted import Discounted
from halflife.numerics.arrays import Floats, Integers
from halflife.numerics.rounding import TOLERANCE

ROUNDING = 1e-9
"""What sums of the same losses may differ by, relatively; plans leave more than that of ε, and accounts tolerate it."""


class Lost(NamedTuple):
    """Losses by the step that they count at, in any order; squares where squares add up.

    spans  how many steps up to that one each of them is about; None: one each
    """

    steps: Integers
    losses: Floats
    spans: Integers | None = None

    def before(self, step: int) -> Lost:
        """Return those before a step."""
        near = self.steps < step
        return Lost(self.steps[near], self.losses[near], None if self.spans is None else self.spans[near])

    def covered(self) -> Integers:
        """Return how many steps each loss is about."""
        return np.ones(len(self.steps), dtype=np.int64) if self.spans is None else self.spans

    def in_windows(self, begins: Integers, w: int) -> Floats:
        """Return how much is lost in the windows of w steps that begin at these steps.

        >>> Lost(np.array([4, 9]), np.array([0.5, 0.25]), np.array([2, 6])).in_windows(np.array([1, 2, 5]), 2).tolist()
        [0.0, 0.5, 0.25]
        """
        total, spans = np.zeros(len(begins)), self.covered()
        for span in np.unique(spans).tolist():
            mine = spans == span
            order = np.argsort(self.steps[mine], kind="stable")
            steps, sums = self.steps[mine][order], np.concatenate([[0.0], np.cumsum(self.losses[mine][order])])
            low = np.searchsorted(steps, begins, side="left")
            total += sums[np.searchsorted(steps, begins + w + span - 2, side="right")] - sums[low]
        return total


def adds_up(notion: Notion) -> bool:
    """Return whether the risk of a notion is a weighted sum of losses, or of their squares, so that the claim applies."""
    return isinstance(notion, Classical | WEvent | Discounted)


def may_continue(notion: Notion, lost: Lost, planned: Lost, at: int, earliest: int | None = None) -> bool:
    """Return whether a plan may go on at step `at` from what was lost before it.

    earliest  the oldest step that what comes may still be about, where that is before `at`

    >>> from halflife import ExponentialDiscount
    >>> halves = Lost(np.arange(1, 9), np.full(8, 0.1))
    >>> may_continue(WEvent(1.0, 4), halves, Lost(halves.steps, halves.losses / 2), at=9)
    False
    >>> may_continue(WEvent(1.0, 4), halves.before(6), Lost(halves.steps, halves.losses / 2), at=9)
    True
    >>> may_continue(ExponentialDiscount(1.0, alpha=0.5), halves, halves, at=9)
    True
    """
    if isinstance(notion, WEvent):
        first = (at if earliest is None else min(at, earliest)) - notion.w + 1
        begins = np.arange(first, max(first, int(lost.steps.max(initial=first))) + 1)
        more, plan = lost.in_windows(begins, notion.w), planned.in_windows(begins, notion.w)
        return bool(np.all(more <= plan * (1 + ROUNDING) + ROUNDING * lost.losses.max(initial=0.0)))
    a, b = lost.before(at), planned.before(at)
    steps = np.concatenate([a.steps, b.steps])
    excess, size = np.concatenate([a.losses, -b.losses]), np.concatenate([a.losses, b.losses])
    if isinstance(notion, Discounted) and notion.beta is None:
        weights = np.asarray(notion.alpha, dtype=np.float64) ** (notion.power * (at - steps))
        return bool((weights * excess).sum() <= ROUNDING * (weights * size).sum())
    found, places = np.unique(-steps, return_inverse=True)  # the newest first
    excess, size = (np.bincount(places, x, len(found)).astype(np.float64) for x in (excess, size))
    if np.all(np.cumsum(excess) <= ROUNDING * np.cumsum(size)):
        return True
    return _room_was_left(_weights(notion, at + found[::-1]), excess[::-1], size[::-1])


def fits_windows(notion: WEvent, lost: Lost, coming: Lost) -> bool:
    """Return whether every window that touches anything of what comes is within ε: w-event by brute force.

    coming  what is planned, as far as a window that touches something of what was lost reaches

    >>> lost = Lost(np.array([1, 2, 3, 3]), np.array([0.25, 0.25, 0.25, 0.25]))
    >>> coming = Lost(np.array([4, 5, 6]), np.full(3, 0.25))
    >>> fits_windows(WEvent(1.0, 3), lost, coming), fits_windows(WEvent(1.0, 4), lost, coming)
    (True, False)

    It is stricter than the account by far more than sums of doubles are off: nothing that fits here is refused later.
    """
    first = int((coming.steps - coming.covered() + 1).min())
    begins = np.arange(first - notion.w + 1, int(coming.steps.max()) + 1)
    held = lost.in_windows(begins, notion.w) + coming.in_windows(begins, notion.w)
    return bool(np.all(held <= notion.epsilon * (1 + TOLERANCE / 10)))


def _weights(notion: Notion, ages: Integers) -> Floats:
    """The weights of losses of these ages, at most 1."""
    if not isinstance(notion, Discounted):
        return np.ones(len(ages))
    result: Floats = notion.discount(ages.astype(np.float64)) ** notion.power
    return result


def _room_was_left(weights: Floats, excess: Floats, size: Floats) -> bool:
    """Whether in each block of steps, oldest first, what was lost beyond the plan is less than what was left before.

    >>> _room_was_left(np.array([0.5, 0.6, 1.0]), np.array([-2.0, -1.0, 1.5]), np.array([2.0, 1.0, 1.5]))
    True
    >>> _room_was_left(np.array([0.5, 0.6, 1.0]), np.array([-2.0, -1.0, 1.7]), np.array([2.0, 1.0, 1.7]))
    False
    """
    differs = np.abs(excess) > ROUNDING * size
    weights, excess, size = weights[differs], excess[differs], size[differs]
    if not len(excess):
        return True
    begins = np.flatnonzero((excess[1:] < 0) & (excess[:-1] > 0)) + 1  # where it is less again than planned
    blocks = np.concatenate([[0], begins])
    sums, sizes = (np.add.reduceat(weights * x, blocks) for x in (excess, size))
    return bool(np.all(sums <= ROUNDING * sizes))
