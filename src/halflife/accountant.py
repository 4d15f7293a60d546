"""The privacy accountant: the budget that releases have used under a notion, and what is left of it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence, Set
from typing import Any, Self, cast

from halflife.errors import BudgetExceeded, InvalidInput, UnboundedLoss
from halflife.notions.base import Exposure, Notion
from halflife.notions.sharing import Draws, dump_draws, load_draws, separate
from halflife.numerics.forms import JsonObject, read_form
from halflife.numerics.parameters import real, whole
from halflife.numerics.rounding import TOLERANCE, divide_up
from halflife.release import FORMAT_VERSION, History, Release, read_format

REST = 64
"""After so many releases of one call, and after twice as many each time, it is looked whether the account is at rest."""
FURTHEST = 2**53
"""Steps before −FURTHEST cannot be asked about: differences of steps are kept as 64-bit numbers."""


class Accountant:
    """The privacy account of one population under one notion.

    Releases come in the order of their steps. `admit` tries them on a copy and commits only if the promise holds from
    each of their steps on; a refused `admit` leaves the account as it was. Answers are given for the newest step and
    later ones: an account remembers only what it needs for those.

    >>> from halflife import Accountant, Classical, Release
    >>> account = Accountant(Classical(0.3))
    >>> account.admit(Release(1, 0.1))
    >>> account.admit(Release(2, 0.2))
    >>> account.used(2), account.headroom(3)
    (1.0, 0.0)
    >>> account.admit(Release(3, 0.01))
    Traceback (most recent call last):
    ...
    halflife.errors.BudgetExceeded: step 3: a loss of 0.01 would bring the risk to 0.31, above the promised 0.3: \
at most 0 fits now (laplace noise); ask headroom(step) for later steps, or publish with more noise
    """

    def __init__(self, notion: Notion) -> None:
        if not isinstance(notion, Notion):
            raise InvalidInput(f"an account needs a notion such as Classical(1.0), not {notion!r}")
        self.notion = notion
        self._state: Any = notion.start()
        self._step = 0
        self._draws: Draws = {}
        self._unbounded: str | None = None
        self._version = self._parent = object()

    @property
    def step(self) -> int:
        """The newest step with a release, 0 if there is none."""
        return self._step

    def copy(self) -> Accountant:
        """Return an independent copy of the account; cheap, as states are immutable."""
        other = Accountant.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._parent = self._version
        return other

    def adopt(self, other: Accountant) -> None:
        """Take over the state of a copy to which releases were admitted: the commit after a dry run."""
        if other.notion != self.notion or other._parent != self._version:
            raise InvalidInput(
                f"cannot adopt an account of {other.notion!r} at step {other.step}: it is no successor of this one, which has "
                "changed since the copy was made, or never was its origin"
            )
        self.__dict__.update({**other.__dict__, "_parent": self._parent, "_version": object()})

    # Spending -------------------------------------------------------------------------------------------------------

    def admit(self, *releases: Release) -> None:
        """Charge these releases, all of them or, with BudgetExceeded, none. They may be of several steps, in order."""
        trial, waiting, done, look = self.copy(), History(releases).releases, 0, REST
        while done < len(waiting):
            release, before = waiting[done], trial._state
            trial._charge(release.step, (release,))
            if not self.notion.keeps(trial._state, release.step):
                raise self._refusal(before, trial._state, release)
            done += 1
            if done == look:
                done += trial._pass_repeated(before, waiting, done)
                look = 2 * done
        self.adopt(trial)

    def _pass_repeated(self, before: object, waiting: Sequence[Release], done: int) -> int:
        """Charge the releases behind the newest that repeat it step after step, all at once, and return how many; 0 if the state
        is not at rest.

        At rest: the newest release led from a state to the same state one step later, x ↦ s(x). A notion that knows s does not
        care what steps are counted from: what a repeated release, one step later, leads to is s of what the newest one led to,
        so s(s(x)), and so on; and each of these keeps the promise as the first one does.
        """
        newest = waiting[done - 1]
        if newest.draw or newest.atop or self.notion.shift(before, 1) != self._state:
            return 0
        count, facts = 0, _facts_of(newest)
        while done + count < len(waiting) and _facts_of(waiting[done + count]) == facts:
            if waiting[done + count].step != newest.step + count + 1:
                break
            count += 1
        self._state, self._step = self.notion.shift(self._state, count), newest.step + count
        return count

    def record(self, *releases: Release) -> None:
        """Charge the releases of one step whatever they come to: the risk may pass the promise, or have no bound."""
        step = releases[0].step
        if self._unbounded is None:
            try:
                self._charge(step, releases)
            except UnboundedLoss as error:
                self._unbounded = str(error)
        self._step = step

    def _charge(self, step: int, releases: Sequence[Release]) -> None:
        if step < self._step:
            raise InvalidInput(
                f"a release of step {step} comes after one of step {self._step}: releases are admitted in the order of "
                "their steps. For old data give the current step and an age"
            )
        if self._unbounded is not None:
            raise UnboundedLoss(self._unbounded, step=step)
        draws, charged, shared = self._draws, list(releases), False
        for release in releases:
            if release.span > 1:
                self.notion.check_span(release.span)
            shared = shared or release.draw is not None or release.atop is not None
        if shared and self.notion.draws(self._state) is None:
            for i, release in enumerate(releases):
                draws, charged[i] = separate(self.notion, draws, release)
        self._state = self.notion.record(self._state, charged)
        self._draws, self._step = draws, step

    def _refusal(self, before: object, after: object, release: Release) -> BudgetExceeded:
        step = release.step
        exposure = self.notion.exposure(after, step)
        room = self.notion.headroom_over(before, step, release.age, release.span, release.step_share)
        return BudgetExceeded(
            f"step {step}: a loss of {release.loss:.6g} would bring the risk to {exposure.peak:.12g}, above the promised "
            f"{exposure.limit:.12g}: at most {room:.6g} fits now ({self.notion.noises[0]} noise); ask headroom(step) for "
            "later steps, or publish with more noise",
            step=step,
            risk=exposure.peak,
            limit=exposure.limit,
            headroom=room,
        )

    # Asking ---------------------------------------------------------------------------------------------------------

    def _at(self, step: int | None) -> int:
        at = self._step if step is None else whole("step", step, least=0)
        if at < self._step:
            raise InvalidInput(
                f"step {at} lies before the newest release, {self._step}: an account forgets what it no longer needs; "
                "replay the history up to that step"
            )
        return at

    def exposure(self, step: int | None = None) -> Exposure:
        """Return risk, peak and limit at `step`, by default the newest step."""
        exposure = self.notion.exposure(self._state, self._at(step))
        return exposure if self._unbounded is None else Exposure(math.inf, math.inf, exposure.limit)

    def risk(self, step: int | None = None) -> float:
        """Return how exposed a person is at `step`, in nats, rounded up."""
        return self.exposure(step).risk

    def peak(self, step: int | None = None) -> float:
        """Return the worst risk from `step` on if nothing more is published."""
        return self.exposure(step).peak

    def used(self, step: int | None = None) -> float:
        """Return the share of the promise that is spent at `step`: 0 to 1, and above 1 only in a replayed history."""
        risk, _, limit = self.exposure(step)
        return 1.0 if limit < risk <= limit * (1 + TOLERANCE) else divide_up(risk, limit) if risk < math.inf else risk

    def headroom(self, step: int | None = None, age: int = 0, *, span: int = 1, step_share: float = 1.0) -> float:
        """Return the largest loss that a release of this age may have at `step`, rounded down.

        span, step_share  how many steps of data it covers, and the part of its sensitivity that one of them can move it by

        >>> from halflife import Accountant, Release, WEvent
        >>> account = Accountant(WEvent(1.0, w=2))
        >>> account.admit(Release(1, 0.75))
        >>> account.headroom(4, span=2), account.headroom(4, span=3), account.headroom(4, span=3, step_share=0.5)
        (1.0, 0.25, 0.5)
        """
        at, old, wide = self._at(step), whole("age", age, least=0), self.notion.check_span(span)
        part = real("step_share", step_share, positive=True, limit=1.0)
        if wide * part * (1 + TOLERANCE) < 1:
            raise InvalidInput(
                f"{wide} steps of which each moves a value by {part:g} of its sensitivity cannot move it by all of it",
                about="step_share",
            )
        if self._unbounded is not None:
            return 0.0
        if wide == 1:
            return self.notion.headroom(self._state, at, old)
        return self.notion.headroom_over(self._state, at, old, wide, part)

    def least_scale(
        self,
        step: int | None,
        sensitivity: float,
        age: int = 0,
        *,
        span: int = 1,
        step_sensitivity: float | None = None,
    ) -> float:
        """Return the least noise scale that may be used at `step`, rounded up; infinite if nothing may be published.

        span, step_sensitivity  how many steps of data it covers, and how far one of them can move it (None: by all of Δf)

        >>> from halflife import Accountant, Classical
        >>> Accountant(Classical(0.5)).least_scale(1, sensitivity=2.0)
        4.0
        """
        at, old, delta_f = self._at(step), whole("age", age, least=0), real("sensitivity", sensitivity, positive=True)
        wide = Release(1, 0.0, sensitivity=delta_f, span=span, step_sensitivity=step_sensitivity)
        if self._unbounded is not None:
            return math.inf
        if wide.span == 1:
            return self.notion.least_scale(self._state, at, delta_f, old)
        room = self.headroom(at, old, span=wide.span, step_share=wide.step_share)
        return divide_up(delta_f, room) if room > 0 else math.inf

    def retrospective(self, step: int | None, about: int | Iterable[int]) -> float:
        """Return the risk at `step` about the state at an earlier step, or about the states at a set of them, for age-dependent
        privacy, rounded up.

        For a set it bounds how far all that was published by `step` can change the odds between any two paths on these steps,
        and so between any two events about them: "she was there at one of these steps" against "at none of them". It is
        never more than the sum of all losses.

        about  one step, or steps in any order (a list, a range, a set), each counted once; none may lie after `step`

        >>> from halflife import Accountant, AgeDependent, MarkovChain, Release
        >>> account = Accountant(AgeDependent(2.0, MarkovChain([[0.9, 0.1], [0.1, 0.9]])))
        >>> account.admit(*(Release(k, 0.5) for k in range(1, 9)))
        >>> round(account.retrospective(8, about=4), 2)
        2.49
        >>> round(account.retrospective(8, about=range(3, 6)), 2), round(account.retrospective(8, about=[2, 7]), 2)
        (3.12, 3.7)
        """
        at = self._at(step)
        moments = _read_moments(about, at)
        return self.notion.retrospective(self._state, at, moments) if self._unbounded is None else math.inf

    # Keeping --------------------------------------------------------------------------------------------------------

    @classmethod
    def replay(cls, notion: Notion, history: Iterable[Release]) -> Self:
        """Return the account after all releases of a history, under any notion, whichever one they were planned for.

        Nothing is refused for its risk, which may come out above the promise, or infinite where a release has no
        bound under the notion (exact values, shared noise, Gaussian noise under a pure promise): `why_unbounded` says so.

        >>> from halflife import Accountant, Classical, Release
        >>> Accountant.replay(Classical(1.0), [Release(1, 0.9), Release(2, 0.9)]).used()
        1.8
        """
        account = cls(notion)
        for _, group in (history if isinstance(history, History) else History(history)).by_step():
            account.record(*group)
        return account

    @property
    def draws(self) -> frozenset[str]:
        """The names of the shared noise that was used; where it may be reused, those that still may."""
        return frozenset(self.draws_at(self._step))

    def draws_at(self, step: int) -> Set[str]:
        """Return the names of shared noise that may still be used at a step, if nothing was published since the newest one."""
        remembered = self.notion.draws(self.notion.settle(self._state, step))
        return frozenset(n for n, d in self._draws.items() if d.alone) if remembered is None else remembered

    @property
    def why_unbounded(self) -> str | None:
        """Why the risk is infinite, None if it is not."""
        return self._unbounded

    def with_notion(self, notion: Notion, published: int) -> Accountant:
        """Return the account under a promise that adds to this one after the data time `published`, and to nothing before it."""
        notion.extends(self.notion, published)
        other = self.copy()
        other.notion, other._parent = notion, object()
        return other

    def agrees(self, other: Accountant) -> bool:
        """Return whether both accounts hold the same releases under the same promise."""
        facts = (self._step, self._draws, self._unbounded, self.notion)
        return facts == (other._step, other._draws, other._unbounded, other.notion) and self.notion.same(
            self._state, other._state
        )

    def to_json(self, short: bool = False) -> str:
        """Return the account as text, exactly; if `short` without the notion's `attachment`, which is then kept beside it."""
        return json.dumps(
            {
                "format": "halflife.account",
                "version": FORMAT_VERSION,
                "notion": self.notion.to_facts() if short else self._whole_notion(),
                "step": self._step,
                "state": self.notion.dump(self._state),
                "draws": dump_draws(self._draws),
                "unbounded": self._unbounded,
            }
        )

    def _whole_notion(self) -> JsonObject:
        """The facts of the promise, its attachment included."""
        facts, attached, whole_of = self.notion.to_facts(), self.notion.attached, self.notion.attachment()
        return facts if attached is None or whole_of is None else {**facts, attached: json.loads(whole_of)}

    @classmethod
    def from_json(cls, text: str, attachment: str | None = None, notion: Notion | None = None) -> Self:
        """Read what `to_json` wrote, a short one with its attachment, or with the notion if that is at hand: the restored account
        equals the live one.

        >>> from halflife import Accountant, Classical, Release
        >>> account = Accountant(Classical(1.0))
        >>> account.admit(Release(1, 0.1))
        >>> Accountant.from_json(account.to_json()).headroom(2) == account.headroom(2)
        True
        """
        keys = ("format", "notion", "step", "state")
        data = read_form("an account", read_format(text, "halflife.account"), keys, draws=[], unbounded=None)
        if notion is None:
            notion = Notion.from_reference(data["notion"], attachment)
        elif not notion.matches(data["notion"]):
            raise InvalidInput(f"an account of {data['notion']!r} is not one of {notion!r}")
        account = cls(notion)
        unbounded = data["unbounded"]
        if unbounded is not None and not isinstance(unbounded, str):
            raise InvalidInput("'unbounded' of an account must be a text or null")
        account._state = account.notion.load(data["state"])
        account._step = whole("step of an account", data["step"], least=0)
        account._draws, account._unbounded = load_draws(data["draws"]), unbounded
        return account


def _facts_of(release: Release) -> tuple[object, ...]:
    """Return all that a release says but for its step."""
    r = release
    return r.loss, r.age, r.sensitivity, r.scale, r.noise, r.draw, r.atop, r.span, r.step_sensitivity


def _read_moments(about: object, at: int) -> tuple[int, ...]:
    """Return the steps that are asked about, ascending, each once; refuse none at all, and any after `at`."""
    several = isinstance(about, Iterable) and not isinstance(about, str | bytes) and getattr(about, "shape", None) != ()
    moments: set[int] = set()
    for one in cast(Iterable[object], about) if several else (about,):
        moment = whole("about", one)
        if moment > at:
            raise InvalidInput(
                f"about {moment} lies after step {at}: ask about a step that is over, or for the risk", about="about"
            )
        if moment < -FURTHEST:
            raise InvalidInput(f"about {moment} lies further back than any clock goes: ask from −2⁵³ on", about="about")
        moments.add(moment)
    if not moments:
        raise InvalidInput("about no step nothing can be told: give one earlier step, or several", about="about")
    return tuple(sorted(moments))
