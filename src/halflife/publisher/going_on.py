"""Whether plans go on from a ledger's history once it is amended, and from when on there is room for streams that are added."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from halflife.accountant import Accountant
from halflife.errors import BudgetExceeded, InvalidInput
from halflife.ledger import Ledger
from halflife.local_time import from_us, parse_time, to_us
from halflife.notions.base import Notion
from halflife.numerics.progress import Progress
from halflife.plans.continuing import Lost, may_continue
from halflife.policy import Channel, Policy, channels
from halflife.publisher.holding import find_newest_entry
from halflife.publisher.restores import add_lost, list_restores
from halflife.release import Release
from halflife.steps import MOST_STEPS

REHEARSED = 200_000
"""For at most so many steps of a stream it is tried whether it fits until another one begins."""
FARTHEST = 2**21
"""How many steps of the clock ahead room is looked for: 119 years of half hours."""


class History:
    """All releases of a ledger: by the step that they count at, and once more to be replayed."""

    def __init__(self, book: Ledger, notion: Notion, progress: Progress) -> None:
        self._book, self._progress, self.by_data_time = book, progress, notion.by_data_time
        self.power = getattr(notion, "power", 1)

    def _blocks(self) -> Iterable[list[Release]]:
        charged, total, done = add_lost(self._book.chained(), list_restores(self._book)), self._book.newest(), 0
        while block := list(islice(charged, 1_000)):
            done += len(block)
            self._progress("reading the history", done, total.last if total else 0)
            yield [r for one in block for r in one.releases]

    def replay(self, notion: Notion) -> Accountant:
        """Return the account of all that was published under another promise; refuse if that is more than it allows."""
        account = Accountant(notion)
        for block in self._blocks():
            try:
                account.admit(*block)
            except BudgetExceeded as error:
                raise InvalidInput(
                    f"what was published does not keep the new promise: at step {error.step} the risk under it was "
                    f"{error.risk:.6g}, above {error.limit:.6g}. A promise cannot be made about a past that breaks it: choose a "
                    "weaker one"
                ) from None
        return account

    def read_losses(self) -> Lost:
        """Return what was lost, by the step that it counts at under the promise."""
        steps: list[int] = []
        losses: list[float] = []
        spans: list[int] = []
        for block in self._blocks():
            steps += [r.data_time if self.by_data_time else r.step for r in block]
            losses += [r.loss**self.power for r in block]
            spans += [r.span for r in block]
        return Lost(np.array(steps, dtype=np.int64), np.array(losses), np.array(spans, dtype=np.int64))


class Room:
    """Whether the plans of an amended policy may go on from a history, and from when on there is room for added streams."""

    def __init__(
        self, book: Ledger, policy: Policy, history: History, spent: Accountant, starts: Mapping[str, int]
    ) -> None:
        self._policy, self._history, self._spent, self._starts = policy, history, spent, starts
        self._known = [c for c in channels(policy) if c.name in starts]
        ends = [c.steps.end(starts[c.name] - 1) for c in self._known if starts[c.name] > 1]
        self._account = channels(policy)[0].account
        ended = max((e.end_us for key in book.facts() for e in find_newest_entry(book, key)), default=0)
        self._since_us = max([*ends, ended])

    def find(self, added: Sequence[Channel], begin: str | None, checked: bool) -> dict[str, int]:
        """Return the first step of each added stream; refuse if there is no room for it then, with when there will be."""
        if begin is not None and not added:
            raise InvalidInput("no stream is added: leave out when it begins", about="begin")
        zone = self._policy.clock.zone
        moment = self._since_us if begin is None else to_us(parse_time(begin, zone))
        if moment < self._since_us:
            since = from_us(self._since_us, zone).isoformat(sep=" ")
            raise InvalidInput(
                f"added streams begin at {since} at the earliest: before it all is published", about="begin"
            )
        if not checked:
            return {}
        self._check_ages()
        self._lost = self._history.read_losses()
        self._planned = [self._plan(c, self._starts[c.name] - 1) for c in self._known]
        if not self._fits(added, moment):
            raise InvalidInput(self._tell_room(added, moment))
        firsts = self._first_steps(added, moment)
        if added:
            nexts = [(c, {**self._starts, **firsts}[c.name]) for c in (*self._known, *added)]
            self._rehearse(nexts, max(c.published_at(firsts[c.name]) for c in added))
        return firsts

    def _rehearse(self, nexts: Sequence[tuple[Channel, int]], until: int) -> None:
        """Refuse if streams, each from a step on, would not fit before all added ones are published: what was lost counts."""
        trial, planned = self._spent.copy(), []
        for c, first in nexts:
            last = min(c.steps.step(until - 1), c.last or MOST_STEPS)
            if last - first >= REHEARSED:
                raise InvalidInput(
                    f"it is not worked out whether {c.name} fits for {last - first + 1:,} steps until then: at most "
                    f"{REHEARSED:,}. Amend what goes on now, and add a stream when there is room for it",
                    about="begin",
                )
            planned += c.plan_releases(last, first) if last >= first else []
        late = ((r, max(0, trial.step - r.step)) for r in sorted(planned, key=lambda r: r.step))
        try:
            trial.admit(*(replace(r, step=r.step + by, age=r.age + by) for r, by in late))
        except BudgetExceeded as error:
            raise InvalidInput(
                f"until all added streams are published the others would not fit with these shares: {error}. Keep their shares "
                "as they are until then, or smaller, and amend them when the added streams have begun"
            ) from None

    def _check_ages(self) -> None:
        ages = {c.age for c in channels(self._policy)}
        if self._history.by_data_time and len(ages) > 1:
            raise InvalidInput(
                "it is not worked out how plans of streams with other delays go on from a history: shares, streams and the "
                "promise stay as they are"
            )

    def _plan(self, c: Channel, last: int) -> Lost:
        """What a stream would have lost up to a step if this policy had held from the beginning."""
        none = np.array([], dtype=np.int64)
        if last < 1:
            return Lost(none, np.array([]), none)
        steps = c.release_steps(1, last) - (c.age if self._history.by_data_time else 0)
        return Lost(steps, c.plan.losses_of_releases(1, last) ** self._history.power, c.spans(1, last))

    def _first_steps(self, added: Sequence[Channel], moment: int) -> dict[str, int]:
        return {c.name: max(1, c.steps.step(moment - 1) + 1) for c in added}

    def _fits(self, added: Sequence[Channel], moment: int) -> bool:
        firsts = self._first_steps(added, moment)
        planned = [*self._planned, *(self._plan(c, firsts[c.name] - 1) for c in added)]
        all_planned = Lost(
            *(np.concatenate([getattr(p, key) for p in planned]) for key in ("steps", "losses", "spans"))
        )
        newest = int(self._lost.steps.max(initial=0))
        nexts = [(c, {**self._starts, **firsts}[c.name]) for c in (*self._known, *added)]
        earliest = min(self._place(c, step) - int(c.spans(step, step)[0]) + 1 for c, step in nexts)
        at = max(newest + 1, *(self._place(c, firsts[c.name]) for c in added)) if added else newest + 1
        return may_continue(self._policy.notion, self._lost, all_planned, at, earliest)

    def _place(self, c: Channel, step: int) -> int:
        return int(c.release_steps(step, step)[0]) - (c.age if self._history.by_data_time else 0)

    def _tell_room(self, added: Sequence[Channel], moment: int) -> str:
        """Why there is no room, and from when on there is."""
        if not added:
            return (
                "what was published has lost more than the amended plans would have by now, so that later steps would be "
                "refused: there is no room for it. Choose smaller shares, or a promise that leaves room"
            )
        names, first = " and ".join(c.name for c in added), self._account.step(moment - 1) + 1
        far = next(
            (2**k for k in range(FARTHEST.bit_length()) if self._fits(added, self._account.start(first + 2**k))), None
        )
        if far is None:
            return f"there is no room for {names}, and there never will be: nothing that was lost is forgotten"
        low, high = far // 2, far
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._fits(added, self._account.start(first + middle)) else (middle, high)
        when = from_us(self._account.start(first + high), self._policy.clock.zone).isoformat(sep=" ")
        return (
            f"there is no room for {names} yet, as what was published still counts. There is room from {when} on, if the other "
            f"streams go on with their shares as they are now: --begin '{when}'"
        )
