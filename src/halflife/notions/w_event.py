"""w-event differential privacy: whatever a person did within any w consecutive steps."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from halflife.errors import InvalidInput
from halflife.notions.base import Exposure, Notion, means
from halflife.notions.composition import Composition, check_delta, composition
from halflife.numerics.arrays import Floats
from halflife.numerics.parameters import real, whole
from halflife.registry import register_notion
from halflife.release import Noise, Release


class Window(NamedTuple):
    """Charges by data time, ascending; what the newest w of them come to; the largest age; the newest time forgotten."""

    times: tuple[int, ...]
    charges: tuple[Any, ...]
    newest_total: Any
    largest_age: int
    forgotten: int | None


@register_notion
@dataclass(frozen=True)
class WEvent(Notion[Window]):
    """w-event (ε, δ)-differential privacy (Kellaris et al. 2014; Definitions 5 and 6 of the Swellfish paper).

    Neighbouring streams differ, for one person, inside one window of w consecutive steps. Risk at step t is what the
    releases about the last w steps come to, Σ_{t−w < τ_k ≤ t} ρ_k (Theorem 2; paper), or with δ > 0 the ε(δ) of their
    loss distribution (known). A window is a window of *data* times (ours; the paper has no ages): if releases were
    delayed by up to A steps, the risk at t is the worst over the windows that end at t − A, …, t. The account keeps the last
    w + A data times, at least 2w; a data time further back than it remembers is refused.

    >>> from halflife import Accountant, Release
    >>> account = Accountant(WEvent(1.0, w=2))
    >>> for step in (1, 2, 3):
    ...     account.admit(Release(step, 0.5))
    >>> account.risk(3), account.risk(4), account.risk(5)
    (1.0, 0.5, 0.0)
    """

    epsilon: float
    w: int = field(metadata=means("whole steps"))
    delta: float = 0.0

    name: ClassVar[str] = "w-event"
    by_data_time: ClassVar[bool] = True
    summary: ClassVar[str] = "Whatever a person did within any w consecutive steps is hidden; longer patterns are not."
    noises: ClassVar[tuple[Noise, ...]] = ("laplace", "gaussian")
    not_protected: ClassVar[tuple[str, ...]] = (
        "Anything longer than the window: a habit, an illness or a move that shows over K windows costs up to K·ε.",
        "That a person is in the data at all.",
        "What is true of a population is learnt whether or not a person takes part.",
    )
    assumptions: ClassVar[tuple[str, ...]] = (
        "Each release's sensitivity bounds what one person's data of one step can move it by; it is public knowledge.",
        "A release depends on the data of its own data time alone.",
        "The noise of different releases is independent.",
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", real("epsilon", self.epsilon, positive=True, limit=1e6))
        object.__setattr__(self, "w", whole("w", self.w, least=1))
        object.__setattr__(self, "delta", check_delta(self.delta))

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

    def start(self) -> Window:
        """Nothing published."""
        return Window((), (), self._composition.zero, 0, None)

    def record(self, state: Window, releases: Sequence[Release]) -> Window:
        """Put each charge to its data time and forget what no window can reach any more."""
        for release in releases:
            state = self._record_one(state, release)
        return state

    def _record_one(self, state: Window, release: Release) -> Window:
        charge, time = self._composition.charge(release), release.data_time
        times, charges, total, age, forgotten = state
        newest, age = times[-1] if times else time, max(age, release.age)
        if self._out_of_reach(state, time):
            raise InvalidInput(
                f"release at step {release.step}: its data time {time} lies {newest - time} steps before the newest, "
                f"{newest}, in a window whose beginning (data time {forgotten}) was forgotten: publish it with an age of at "
                f"most {release.step - (forgotten or 0) - self.w}"
            )
        if time > newest:
            for old in charges[bisect_right(times, newest - self.w) : bisect_right(times, time - self.w)]:
                total = total - old
        keep_after = min(release.step - age - self.w, max(time, newest) - 2 * self.w + 1)
        forget = bisect_right(times, keep_after)
        if forget:
            forgotten, times, charges = times[forget - 1], times[forget:], charges[forget:]
        place = bisect_left(times, time)
        if place < len(times) and times[place] == time:
            charges = (*charges[:place], charges[place] + charge, *charges[place + 1 :])
        else:
            times = (*times[:place], time, *times[place:])
            charges = (*charges[:place], charge, *charges[place:])
        total = total + charge if time > max(time, newest) - self.w else total
        return Window(times, charges, total, age, forgotten)

    def _out_of_reach(self, state: Window, time: int) -> bool:
        """Whether a window that holds this data time begins with one that was forgotten."""
        return state.forgotten is not None and time - self.w < state.forgotten

    def _totals(self, state: Window, first_end: int, last_end: int) -> list[Any]:
        """Return what the windows that end in [first_end, last_end] hold, those that are part of another left out.

        A window is largest where a charge has just entered, or at the first end.
        """
        times = state.times
        if times and first_end == times[-1]:
            return [state.newest_total]
        ends = [first_end, *times[bisect_right(times, first_end) : bisect_right(times, last_end)]]
        sums = [self._composition.zero, *accumulate(state.charges)]
        return [sums[bisect_right(times, e)] - sums[bisect_right(times, e - self.w)] for e in ends]

    def exposure(self, state: Window, step: int) -> Exposure:
        """The worst window that ends now, or up to the largest age ago; later windows only lose charges."""
        totals = self._totals(state, step - state.largest_age, step)
        risk = max(self._composition.epsilon(self._composition.fold(t)) for t in totals)
        return Exposure(risk, risk, self.epsilon)

    def keeps(self, state: Window, step: int) -> bool:
        """Whether every window that a release of this step can lie in is within ε."""
        totals = self._totals(state, step - state.largest_age, step)
        return all(self._composition.within(self._composition.fold(t), self.epsilon) for t in totals)

    def headroom(self, state: Window, step: int, age: int) -> float:
        """What is left in the fullest window that holds the data time."""
        time = step - age
        if self._out_of_reach(state, time):
            return 0.0
        totals = self._totals(state, time, time + self.w - 1)
        return min(self._composition.headroom(self._composition.fold(t), self.epsilon) for t in totals)

    def risks(self, losses: Floats, age: int, noise: Noise) -> Floats:
        """Return what each window of w steps comes to; a common age only shifts the windows."""
        charge = self._composition.charge
        charges = [charge(Release(k, loss, noise=noise)) for k, loss in enumerate(losses.tolist(), start=1)]
        return np.array(self._composition.windows(charges, self.w), dtype=np.float64)

    def dump(self, state: Window) -> Any:
        """Return data times and charges; the total follows from them."""
        charges = [[t, self._composition.dump(c)] for t, c in zip(state.times, state.charges, strict=True)]
        return {"charges": charges, "largest_age": state.largest_age, "forgotten": state.forgotten}

    def load(self, data: Any) -> Window:
        """Read what `dump` gave."""
        if not isinstance(data, dict) or not isinstance(data.get("charges"), list):
            raise InvalidInput(f"a w-event account must hold a list of charges, not {data!r}")
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
        forgotten = data.get("forgotten")
        if forgotten is not None and times and whole("forgotten", forgotten) >= times[0]:
            raise InvalidInput(f"a w-event account cannot hold data time {times[0]} and have forgotten {forgotten}")
        age = whole("largest_age", data.get("largest_age"), least=0)
        return Window(tuple(times), tuple(charges), total, age, forgotten)
