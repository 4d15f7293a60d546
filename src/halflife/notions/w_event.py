"""w-event differential privacy: protects whatever a person did within any w consecutive steps."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from operator import itemgetter
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from halflife.errors import InvalidInput
from halflife.notions.base import Exposure, Notion
from halflife.notions.composition import Composition, check_delta, composition
from halflife.notions.meaning import means
from halflife.numerics.arrays import Floats
from halflife.numerics.forms import JsonObject, leave_out, read_form
from halflife.numerics.parameters import real, whole
from halflife.numerics.rounding import ratio_up
from halflife.registry import register_notion
from halflife.release import Noise, Release

MOST_REACH = 100_000
"""How many steps an account may remember for data that is published again: to admit a release looks at all of them."""


class Wide(NamedTuple):
    """The charge of releases about the steps first … last, each of which moves them by `share` of their sensitivity."""

    first: int
    last: int
    share: float
    charge: Any = None

    def part(self, begin: int, end: int) -> Fraction:
        """Return the part of Δf that data of the steps begin … end uses up: min(1, j·Δ_step/Δf), j of them common."""
        common = min(self.last, end) - max(self.first, begin) + 1
        return min(Fraction(1), max(0, common) * Fraction(self.share))

    def rising_ends(self, w: int) -> range:
        """Return the ends of the windows of w steps in which this part is larger than in the one that ended a step before."""
        return range(self.first, self.first + min(_count_steps(self.share), w, self.last - self.first + 1))


class Running:
    """Prefix sums of charges by time."""

    def __init__(self, charges: list[tuple[int, Any]], zero: object) -> None:
        charges.sort(key=itemgetter(0))
        self._times = [time for time, _ in charges]
        self._sums = [zero, *accumulate(charge for _, charge in charges)]

    def sum_until(self, time: int) -> Any:
        """Return the sum of the charges up to this time."""
        return self._sums[bisect_right(self._times, time)]


class Window(NamedTuple):
    """Charges by data time, ascending; what the newest w of them come to; how far back a release has reached at most; the newest
    data time that was forgotten; and charges about several steps each, by the last of these."""

    times: tuple[int, ...]
    charges: tuple[Any, ...]
    newest_total: Any
    reach: int
    forgotten: int | None
    wide: tuple[Wide, ...] = ()


@register_notion
@dataclass(frozen=True)
class WEvent(Notion[Window]):
    """w-event (ε, δ)-differential privacy of Kellaris et al. 2014 (Definitions 5 and 6; paper).

    Neighbouring streams differ, for one person, inside one window of w consecutive steps. Risk at step t is what the
    releases about the last w steps come to, Σ_{t−w < τ_k ≤ t} ρ_k (Theorem 2; paper), or with δ > 0 the ε(δ) of their
    loss distribution (known). A window is a window of *data* times (ours; the paper has no ages): if releases reached back by
    up to A steps, the risk at t is the worst over the windows that end at t − A, …, t. The account keeps the last
    w + A data times, at least 2w − 1; a data time further back than it remembers is refused. `reach` is an A that holds from the
    beginning, for data that may be corrected and published again: the risk at t then is that of the worst window so far back.

    **A release that covers m steps** of data (`Release.span`; ours) is charged by overlap. In a window that shares j steps with
    it one person's data of these j steps may be another; changing them one by one moves the exact value by at most
    min(j·Δ_step, Δf), and noise of scale b then loses that over b: the part min(j·Δ_step, Δf)/Δf of its loss ρ = Δf/b, or of its
    μ = Δf/σ. A clipped sum attains it. The charges of a window add up as before: the noise of different releases is independent,
    whatever data they share. A release reaches back by its age + m − 1 steps; and as long as wide releases are remembered, so
    are as many data times more as the widest of them covers.

    >>> from halflife import Accountant, Release
    >>> account = Accountant(WEvent(1.0, w=2))
    >>> for step in (1, 2, 3):
    ...     account.admit(Release(step, 0.5))
    >>> account.risk(3), account.risk(4), account.risk(5)
    (1.0, 0.5, 0.0)
    >>> account = Accountant(WEvent(1.0, w=2))
    >>> account.admit(Release(4, 0.8, span=4, step_sensitivity=0.25))
    >>> account.risk(4), account.risk(7), account.risk(8), account.risk(9)
    (0.4, 0.4, 0.2, 0.0)
    >>> account = Accountant(WEvent(1.0, w=2, reach=4))
    >>> for step in (1, 2, 3, 4, 5, 6):
    ...     account.admit(Release(step, 0.4))
    >>> account.headroom(6, age=4) <= 0.2 < account.headroom(6, age=4) + 1e-9
    True
    """

    epsilon: float
    w: int = field(metadata=means("whole steps"))
    delta: float = 0.0
    reach: int = field(default=0, metadata=means("whole steps"))

    name: ClassVar[str] = "w-event"
    by_data_time: ClassVar[bool] = True
    filters_gaussian: ClassVar[bool] = True
    summary: ClassVar[str] = "Whatever a person did within any w consecutive steps is hidden; longer patterns are not."
    noises: ClassVar[tuple[Noise, ...]] = ("laplace", "gaussian")
    not_protected: ClassVar[tuple[str, ...]] = (
        "Anything longer than the window: a habit, an illness or a move that shows over K windows costs up to K·ε.",
        "That a person is in the data at all.",
        "What is true of a population is learnt whether or not a person takes part.",
    )
    assumptions: ClassVar[tuple[str, ...]] = (
        "Each release's sensitivity bounds what one person's data of the steps that it covers can move it by, and its step's "
        "sensitivity what one of these steps can; both are public knowledge.",
        "A release depends on the data of its own data times alone.",
        "The noise of different releases is independent.",
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", real("epsilon", self.epsilon, positive=True, limit=1e6))
        object.__setattr__(self, "w", whole("w", self.w, least=1))
        object.__setattr__(self, "delta", check_delta(self.delta))
        object.__setattr__(self, "reach", whole("reach", self.reach, least=0))
        if self.reach > MOST_REACH:
            raise InvalidInput(f"reach must be at most {MOST_REACH:,} steps, not {self.reach:,}", about="reach")

    @cached_property
    def _composition(self) -> Composition:
        return composition(self.delta)

    @property
    def memory(self) -> int:
        """The window: the account keeps the last 2w − 1 data times, more once it has met a larger age, and until then a data time
        needs the w − 1 before it as well."""
        return self.w

    @property
    def adaptive(self) -> bool:
        """Pure losses may be chosen from outputs; loss distributions compose only for a fixed schedule."""
        return self.delta == 0

    @classmethod
    def examples(cls) -> Sequence[Self]:
        """A day of half hours, pure and with a δ; and a window of one step."""
        return cls(1.0, 48), cls(1.0, 48, 1e-6), cls(0.5, 1)

    @property
    def charges_spans(self) -> bool:
        """Charged by overlap with the window."""
        return True

    def widen(self, span: int) -> WEvent:
        """w + span − 1 steps: a window of w touches the releases whose newest data time lies in so many steps, and no others."""
        return self if span == 1 else replace(self, w=self.w + span - 1)

    def start(self) -> Window:
        """Nothing published."""
        return Window((), (), self._composition.zero, self.reach, None)

    def shift(self, state: Window, steps: int) -> Window | None:
        """The same charges at later times; charges about several steps are not looked at."""
        if state.wide:
            return None
        forgotten = None if state.forgotten is None else state.forgotten + steps
        return state._replace(times=tuple(time + steps for time in state.times), forgotten=forgotten)

    def record(self, state: Window, releases: Sequence[Release]) -> Window:
        """Return the state with each charge at its data times, without charges that no window can reach any more."""
        for release in releases:
            state = self._record_one(state, release)
        return state

    def _record_one(self, state: Window, release: Release) -> Window:
        if self._out_of_reach(state, release.first_data_time):
            raise self._out_of_reach_error(state, release)
        times, charges, total, reach, forgotten, wide = state
        charge, reach = self._composition.charge(release), max(reach, release.age + release.span - 1)
        if release.span == 1:
            times, charges, total = self._put(times, charges, total, release.data_time, charge)
        else:
            wide = self._put_wide(wide, release, charge)
        newest = _newest(times, wide) if wide else times[-1]
        keep_after = min(release.step - reach - self.w, newest - 2 * self.w + 1)
        if wide:
            keep_after -= max(x.last - x.first for x in wide)
            old = bisect_right(wide, keep_after, key=lambda x: x.last)
            forgotten, wide = _latest(forgotten, *(x.last for x in wide[:old])), wide[old:]
        forget = bisect_right(times, keep_after)
        if forget:
            if wide:  # may be all that is newer, and then the newest window of the others is forgotten with them
                total = total - sum(charges[bisect_right(times, times[-1] - self.w) : forget], self._composition.zero)
            forgotten, times, charges = _latest(forgotten, times[forget - 1]), times[forget:], charges[forget:]
        return Window(times, charges, total, reach, forgotten, wide)

    def _put(
        self, times: tuple[int, ...], charges: tuple[Any, ...], total: Any, time: int, charge: Any
    ) -> tuple[tuple[int, ...], tuple[Any, ...], Any]:
        """Add a charge about one step."""
        newest = times[-1] if times else time
        if time > newest:
            for old in charges[bisect_right(times, newest - self.w) : bisect_right(times, time - self.w)]:
                total = total - old
        place = bisect_left(times, time)
        if place < len(times) and times[place] == time:
            charges = (*charges[:place], charges[place] + charge, *charges[place + 1 :])
        else:
            times = (*times[:place], time, *times[place:])
            charges = (*charges[:place], charge, *charges[place:])
        return times, charges, total + charge if time > max(time, newest) - self.w else total

    def _put_wide(self, wide: tuple[Wide, ...], release: Release, charge: Any) -> tuple[Wide, ...]:
        """Add a charge about several steps; those about the same steps, which move alike, are one."""
        key = release.first_data_time, release.data_time, release.step_share
        kept = {x[:3]: x.charge for x in wide}
        kept[key] = kept.get(key, self._composition.zero) + charge
        return tuple(sorted((Wide(*where, c) for where, c in kept.items()), key=_place))

    def _out_of_reach_error(self, state: Window, release: Release) -> InvalidInput:
        time, newest = release.first_data_time, _newest(state.times, state.wide)
        most = release.step - (state.forgotten or 0) - self.w - release.span + 1
        return InvalidInput(
            f"release at step {release.step}: its data time {time} lies {newest - time} steps before the newest, "
            f"{newest}, in a window whose beginning (data time {state.forgotten}) was forgotten: publish it with an age of at "
            f"most {most}",
            about="age",
        )

    def _out_of_reach(self, state: Window, time: int) -> bool:
        """Whether a window that holds this data time begins with one that was forgotten."""
        return state.forgotten is not None and time - self.w < state.forgotten

    def _ends(self, state: Window, first_end: int, last_end: int, *others: Wide) -> list[int]:
        """Return the ends in [first_end, last_end] of those windows that are not part of another one there.

        A window is largest where a charge, or more of one, has just entered, or at the first end.
        """
        times = state.times
        narrow = times[bisect_right(times, first_end) : bisect_right(times, last_end)]
        rising = (e for wide in (*state.wide, *others) for e in wide.rising_ends(self.w) if first_end < e <= last_end)
        return [first_end, *(sorted({*narrow, *rising}) if state.wide or others else narrow)]

    def _totals(self, state: Window, ends: Sequence[int]) -> list[Any]:
        """Return what the windows with these ends hold."""
        times = state.times
        sums = [self._composition.zero, *accumulate(state.charges)]
        totals = [sums[bisect_right(times, e)] - sums[bisect_right(times, e - self.w)] for e in ends]
        if not state.wide:
            return totals
        enter, leave = self._changes(state.wide)
        return [total + enter.sum_until(e) - leave.sum_until(e - self.w) for e, total in zip(ends, totals, strict=True)]

    def _changes(self, wide: Sequence[Wide]) -> tuple[Running, Running]:
        """Return by how much charges about several steps rise as a window's end moves on, and fall as its beginning does.

        The part of a release in a window is what has entered by its end, less what has left before its beginning: for at most w
        steps enter one by one, nothing leaves before all of it has entered, and it leaves as it came.
        """
        adds: Any = self._composition
        enter: list[tuple[int, Any]] = []
        leave: list[tuple[int, Any]] = []
        for x in wide:
            ends = x.rising_ends(self.w)
            gains = _list_gains(adds, x.charge, x.share, len(ends))
            enter += zip(ends, gains, strict=True)
            leave += zip(range(x.last, x.last - len(gains), -1), gains, strict=True)
        zero = self._composition.zero
        return Running(enter, zero), Running(leave, zero)

    def _largest_totals(self, state: Window, step: int) -> list[Any]:
        """Return the totals of the largest windows that end now, or as long ago as releases reached back."""
        first_end = step - state.reach
        if not state.wide and state.times and first_end == state.times[-1]:
            return [state.newest_total]
        return self._totals(state, self._ends(state, first_end, step))

    def exposure(self, state: Window, step: int) -> Exposure:
        """The worst window that ends now, or as long ago as releases reached back; later windows only lose charges."""
        risk = max(self._composition.epsilon(self._composition.fold(t)) for t in self._largest_totals(state, step))
        return Exposure(risk, risk, self.epsilon)

    def keeps(self, state: Window, step: int) -> bool:
        """Whether every window that a release of this step can lie in is within ε."""
        return all(
            self._composition.within(self._composition.fold(t), self.epsilon) for t in self._largest_totals(state, step)
        )

    def headroom(self, state: Window, step: int, age: int) -> float:
        """What is left in the fullest window that holds the data time."""
        return self.headroom_over(state, step, age, 1, 1.0)

    def headroom_over(self, state: Window, step: int, age: int, span: int, step_share: float) -> float:
        """The least over windows of what is left in one, over the part of the loss that it would be charged with."""
        wide = Wide(step - age - span + 1, step - age, step_share)
        if self._out_of_reach(state, wide.first):
            return 0.0
        ends = self._ends(state, wide.first, wide.last + self.w - 1, *([] if span == 1 else [wide]))
        rooms = (self._composition.headroom(self._composition.fold(t), self.epsilon) for t in self._totals(state, ends))
        return min(_divide(room, wide.part(e - self.w + 1, e)) for e, room in zip(ends, rooms, strict=True))

    def risks(self, losses: Floats, age: int, noise: Noise) -> Floats:
        """Return what each window of w steps comes to; a common age only shifts the windows."""
        charge = self._composition.charge
        charges = [charge(Release(k, loss, noise=noise)) for k, loss in enumerate(losses.tolist(), start=1)]
        return np.array(self._composition.window_risks(charges, self.w), dtype=np.float64)

    def to_facts(self) -> JsonObject:
        """Return name, ε, w, δ and how far back data may be published again."""
        facts = {"name": self.name, "epsilon": self.epsilon, "w": self.w, "delta": self.delta, "reach": self.reach}
        return leave_out(facts, delta=0.0, reach=0)

    def reference(self) -> JsonObject:
        """Return name, ε, w and δ, and how far back data may be published again if it may."""
        return leave_out(self.to_dict(), reach=0)

    def dump(self, state: Window) -> object:
        """Return data times and charges; the total follows from them."""
        charges = [[t, self._composition.dump(c)] for t, c in zip(state.times, state.charges, strict=True)]
        wide = [[x.first, x.last, x.share, self._composition.dump(x.charge)] for x in state.wide]
        return {
            "charges": charges,
            "reach": state.reach,
            "forgotten": state.forgotten,
            **({"wide": wide} if wide else {}),
        }

    def load(self, data: object) -> Window:
        """Read what `dump` gave."""
        data = read_form("a w-event account", data, ("charges", "reach"), forgotten=None, wide=[])
        if not isinstance(data["charges"], list):
            raise InvalidInput("a w-event account must hold a list of charges")
        times: list[int] = []
        charges: list[Any] = []
        for item in data["charges"]:
            if not isinstance(item, list) or len(item) != 2:
                raise InvalidInput(f"a charge must be [data time, loss], not {item!r}")
            times.append(whole("data time", item[0]))
            charges.append(self._composition.load(item[1]))
        if any(b <= a for a, b in pairwise(times)):
            raise InvalidInput(f"the data times of a w-event account must ascend: {times}")
        total = self._composition.zero
        for charge in charges[bisect_right(times, times[-1] - self.w) if times else 0 :]:
            total = total + charge
        wide = self._load_wide(data["wide"])
        forgotten = data["forgotten"]
        first = min([*times[:1], *(x.last for x in wide[:1])], default=None)
        if forgotten is not None and first is not None and whole("forgotten", forgotten) >= first:
            raise InvalidInput(f"a w-event account cannot hold data time {first} and have forgotten {forgotten}")
        reach = whole("reach", data["reach"], least=0)
        if any(x.last - x.first > reach for x in wide):
            raise InvalidInput(f"a w-event account that reached back by {reach} steps cannot hold a release about more")
        return Window(tuple(times), tuple(charges), total, reach, forgotten, wide)

    def _load_wide(self, data: object) -> tuple[Wide, ...]:
        if not isinstance(data, list) or not all(isinstance(item, list) and len(item) == 4 for item in data):
            raise InvalidInput(
                "charges about several steps must be [first data time, last, share of a step, loss] each"
            )
        wide = tuple(
            Wide(
                whole("first data time", first),
                whole("data time", last),
                real("share of a step", share, positive=True, limit=1.0),
                self._composition.load(charge),
            )
            for first, last, share, charge in data
        )
        if any(x.first >= x.last for x in wide) or any(_place(b) <= _place(a) for a, b in pairwise(wide)):
            raise InvalidInput("charges about several steps must be about several each, and ascend by the last of them")
        return wide


@lru_cache(maxsize=1_000)
def _count_steps(share: float) -> int:
    """Return of how many steps data uses up all of a sensitivity, if one of them uses up this share."""
    return 1 if share == 1 else math.ceil(1 / Fraction(share))


@lru_cache(maxsize=1_000)
def _list_gains(composition: Composition, charge: Any, share: float, count: int) -> tuple[Any, ...]:
    """Return what a charge about several steps gains as the first of them, the second … up to so many enter a window."""
    parts = (min(Fraction(1), j * Fraction(share)) for j in range(1, count + 1))
    held = [composition.part(charge, part) if share < 1 else charge for part in parts]
    return (held[0], *(b - a for a, b in pairwise(held)))


def _place(wide: Wide) -> tuple[int, int, float]:
    return wide.last, wide.first, wide.share


def _newest(times: Sequence[int], wide: Sequence[Wide]) -> int:
    """Return the newest data time of which there is a charge."""
    return max(times[-1], wide[-1].last) if times and wide else times[-1] if times else wide[-1].last


def _latest(forgotten: int | None, *times: int) -> int | None:
    """Return the newest forgotten data time, of two, None if nothing was forgotten."""
    return max(times if forgotten is None else (forgotten, *times), default=None)


def _divide(room: float, part: Fraction) -> float:
    """Return the largest loss of which this part is at most `room`, rounded down."""
    if part == 1:
        return room
    most = Fraction(room) / part
    return -ratio_up(-most.numerator, most.denominator)
