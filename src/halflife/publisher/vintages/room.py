"""Whether steps may be published again such that all that is planned can still be published.

What is published again is charged beside the first release, so it needs room that no plan takes up: a part of the promise that no
stream has (shares that add up to less than 1), or what steps that were never published would have lost. Whether it is there
follows from the policy, the clock and the ledger's losses alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

import numpy as np

from halflife.errors import BudgetExceeded, InvalidInput
from halflife.ledger import Ledger
from halflife.local_time import from_us
from halflife.mechanisms import ReleaseDraw, Turn
from halflife.mechanisms.release_draw import record
from halflife.notions import WEvent
from halflife.numerics.search import largest
from halflife.plans.continuing import ROUNDING, Lost, fits_windows, may_continue
from halflife.policy import Channel
from halflife.publisher.restores import list_restores
from halflife.release import Release

FARTHEST = 2**17
"""How many steps of the account ahead room is looked for: seven years of half hours."""
LEAST = 1e-4
"""The smallest share of what was asked that is looked for: less would be noise alone."""
BLOCK = 1_000


class Room:
    """What a history leaves for steps that are published again.

    draw      the account as it is, with which a charge is tried
    channels  all streams of the policy;  done  up to which step each is published
    """

    def __init__(self, book: Ledger, draw: ReleaseDraw, channels: Sequence[Channel], done: dict[str, int]) -> None:
        self._draw, self._channels, self._done = draw, channels, done
        self._notion = draw.account.notion
        self._power = getattr(self._notion, "power", 1)
        self._share = sum(c.share for c in channels) if self._power == 1 else 1.0
        self._account = channels[0].account
        self._lost = self._read_losses(book)

    def check(self, turns: Sequence[Turn]) -> None:
        """Refuse draws for which there is no room, with the largest loss that fits now and when there is room for these."""
        if self._admits(turns) and self._fits(turns, 0):
            return
        asked = max(turn.request.loss or 0.0 for turn in turns)
        most = largest(lambda loss: self._takes(turns, loss), 0.0, asked, 1e-6, LEAST * asked)
        most *= 1 - 5e-6  # as it is shown
        now = f"a loss of at most {most:.6g} for each fits now (--loss {most:.6g})" if most else "no loss fits now"
        raise InvalidInput(
            f"there is no room for {len(turns):,} {'step' if len(turns) == 1 else 'steps'} with a loss of {asked:.6g} each: "
            f"{now}; {self._say_when(turns)}. Room is what no stream is planned to use: shares that add up to less than 1 leave "
            "some"
        )

    def _takes(self, turns: Sequence[Turn], loss: float) -> bool:
        """Whether as many steps with this loss each fit now."""
        less = [turn._replace(request=turn.request._replace(loss=loss)) for turn in turns]
        try:
            return self._admits(less) and self._fits(less, 0)
        except InvalidInput:  # a loss too small for noise
            return False

    def _say_when(self, turns: Sequence[Turn]) -> str:
        """From when on there is room for these draws, in words."""
        if self._notion.by_data_time and not self._admits(turns):
            return "what was published about these times never counts less, so there never will be more"
        far = next((2**k for k in range(FARTHEST.bit_length()) if self._fits(turns, 2**k)), None)
        if far is None:
            return "there is none for it in years to come, if streams go on as planned"
        low, high = far // 2, far
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._fits(turns, middle) else (middle, high)
        when = from_us(self._account.end(turns[-1].step + high), self._account.zone)
        return (
            f"there is room for it from {when.isoformat(sep=' ', timespec='minutes')} on, if streams go on as planned"
        )

    def _admits(self, turns: Sequence[Turn]) -> bool:
        try:
            self._draw.copy().batch(turns)
        except BudgetExceeded:
            return False
        return True

    def _fits(self, turns: Sequence[Turn], later: int) -> bool:
        """Whether plans can go on after these draws, so many of the account's steps later; streams go on until then."""
        step = turns[-1].step + later
        reached = [(c, self._find_last(c, step)) for c in self._channels]
        meanwhile = (self._plan(c, self._done[c.name] + 1, last) for c, last in reached)
        lost = _join([self._lost, self._place(record(turns), later), *meanwhile])
        if all(last == c.last for c, last in reached):  # nothing more is planned: the account alone decides
            return self._admits([turn._replace(step=turn.step + later, late=turn.late + later) for turn in turns])
        if isinstance(self._notion, WEvent):
            return fits_windows(self._notion, lost, self._look_ahead(step, self._notion.w))
        planned = _join(self._plan(c, 1, last) for c, last in reached)
        share = self._share * (1 + 4 * ROUNDING)  # what rounding may hide must not be missing later
        whole = planned._replace(losses=planned.losses / share)  # keeps all of the promise, as shares keep theirs
        return may_continue(self._notion, lost, whole, at=int(lost.steps.max()) + 1)

    def _look_ahead(self, step: int, w: int) -> Lost:
        """What is planned for as long as a window reaches that begins before a step of the account."""
        far = step + w + max(c.widest + c.age for c in self._channels)
        return _join(self._plan(c, self._find_last(c, step) + 1, self._find_last(c, far) + 1) for c in self._channels)

    def _find_last(self, c: Channel, step: int) -> int:
        """The newest step of a stream that is published by a step of the account."""
        return max(self._done[c.name], c.newest(self._account.end(step) + c.wait))

    def _plan(self, c: Channel, first: int, last: int) -> Lost:
        """What a stream's plan gives to steps first … last, by the step that it counts at; none beyond its end."""
        last = last if c.last is None else min(last, c.last)
        if last < first:
            return Lost(np.array([], dtype=np.int64), np.array([]), np.array([], dtype=np.int64))
        steps = c.release_steps(first, last) - (c.age if self._notion.by_data_time else 0)
        return Lost(steps, c.plan.losses_of_releases(first, last) ** self._power, c.spans(first, last))

    def _place(self, releases: Sequence[Release], later: int = 0) -> Lost:
        by_data = self._notion.by_data_time
        steps = [r.data_time if by_data else r.step + later for r in releases]
        spans = np.array([r.span for r in releases], dtype=np.int64)
        return Lost(np.array(steps, dtype=np.int64), np.array([r.loss for r in releases]) ** self._power, spans)

    def _read_losses(self, book: Ledger) -> Lost:
        """All that was ever lost, by the step that it counts at."""
        entries, found = book.entries(), [self._place([r for lost in list_restores(book) for r in lost.releases])]
        while block := list(islice(entries, BLOCK)):
            found.append(self._place([r for entry in block for r in entry.releases]))
        return _join(found)


def _join(parts: Iterable[Lost]) -> Lost:
    steps, losses, spans = zip(*parts, strict=True)
    return Lost(np.concatenate(steps), np.concatenate(losses), np.concatenate(spans))
