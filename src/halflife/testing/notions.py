"""What every notion must do: risk grows with loss, headroom is exact, memory is bounded, a saved account equals the live one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

from halflife.accountant import Accountant
from halflife.errors import BudgetExceeded, InvalidInput
from halflife.notions import Notion
from halflife.numerics.arrays import Floats
from halflife.numerics.rounding import TOLERANCE, divide_up
from halflife.release import History, Release
from halflife.testing.expectations import expect, within

HAIR = 1e-6
LATER = (0, 1, 2, 7, 48, 49, 1000, 10**6)


class Subject:
    """A notion with what the suite needs to speak its language: how a release looks, and losses that keep the promise.

    `release(step, loss)` makes a release (of whatever age); `losses(n)` gives losses that the account must admit step
    by step. Without them: plain releases with the noise and the losses of the notion's own plan.
    """

    def __init__(
        self,
        notion: Notion,
        release: Callable[[int, float], Release] | None = None,
        losses: Callable[[int], Floats] | None = None,
    ) -> None:
        self.notion = notion
        plan = notion.plan() if losses is None else None
        self._planned_noise = notion.noises[0] if plan is None or release is not None else plan.noise

        def plain(step: int, loss: float) -> Release:
            return Release(step, loss, scale=divide_up(1.0, loss) if loss > 0 else None, noise=notion.noises[0])

        self.release = release or plain
        self._plan = plan if release is None else None
        self.losses: Callable[[int], Floats] = losses or plan.losses  # type: ignore[union-attr]
        self.age = self.release(1, 0.0).age

    def headroom(self, account: Accountant, step: int) -> float:
        """Return the headroom for a release as this subject makes them."""
        return account.headroom(step, self.age)

    def planned(self, n: int) -> list[Release]:
        """Return the releases of steps 1 … n."""
        if self._plan is not None:
            return [release for k in range(1, n + 1) for release in self._plan.releases_at(k)]
        made = (self.release(k, loss) for k, loss in enumerate(self.losses(n).tolist(), start=1) if loss > 0)
        return [replace(release, noise=self._planned_noise) for release in made]

    def spent(self, n: int) -> Accountant:
        """Return an account after the planned releases of n steps."""
        account = Accountant(self.notion)
        for release in self.planned(n):
            account.admit(release)
        return account


def risk_grows_with_loss(s: Subject) -> None:
    """More loss, more risk, now and at its worst; and no loss, no risk."""
    room = s.headroom(Accountant(s.notion), 1)
    expect(room > 0, "a fresh account must have headroom")
    expect(Accountant(s.notion).risk(1) == 0, "a fresh account must have no risk")
    seen = [0.0]
    for share in (0.1, 0.3, 0.9):
        account = Accountant(s.notion)
        account.admit(s.release(1, room * share))
        seen.append(account.risk(1))
        expect(account.risk(1) <= account.peak(1), "risk now is above the worst risk from now on")
    expect(all(a < b for a, b in pairwise(seen)), f"risk does not grow with loss: {seen}")


def headroom_is_exact(s: Subject) -> None:
    """The headroom is accepted exactly, and a hair more is refused, at several steps of one stream."""
    account = Accountant(s.notion)
    for step in (1, 2, 3, 50, 51, 400):
        room, limit = s.headroom(account, step), account.exposure(step).limit
        too_much = max(room * (1 + HAIR), room + limit * HAIR)
        try:
            account.copy().admit(s.release(step, too_much))
        except BudgetExceeded as error:
            expect(not error.risk <= error.limit, f"refused although {error.risk} is within {error.limit}")
        else:
            raise AssertionError(f"step {step}: headroom {room!r}, yet {too_much!r} was admitted")
        account.copy().admit(s.release(step, room))
        if room > 0:
            account.admit(s.release(step, room / 3))


def promise_holds_later(s: Subject) -> None:
    """After spending all there is, no later step is above the promise or above the peak that was announced."""
    account = Accountant(s.notion)
    for step in (1, 2, 5, 49, 50):
        account.admit(s.release(step, s.headroom(account, step)))
        peak, limit = account.peak(step), account.exposure(step).limit
        expect(within(peak, limit), f"peak {peak} is above {limit}")
        for later in LATER:
            risk = account.risk(step + later)
            expect(risk <= peak * (1 + TOLERANCE), f"risk {risk} at {step + later} is above the announced {peak}")


def several_at_once(s: Subject) -> None:
    """Releases of one step are admitted together as one by one, and refused together."""
    room = s.headroom(Accountant(s.notion), 1)
    together, apart = Accountant(s.notion), Accountant(s.notion)
    parts = [s.release(1, room / 4), s.release(2, room / 16)]
    together.admit(*parts)
    for part in parts:
        apart.admit(part)
    expect(together.to_json() == apart.to_json(), "releases admitted together differ from one by one")
    before = together.to_json()
    try:
        together.admit(s.release(3, room / 1e6), s.release(3, room * 3))
    except BudgetExceeded:
        pass
    else:
        raise AssertionError("three times the headroom was admitted")
    expect(together.to_json() == before, "a refused admit changed the account")


def runs_are_as_one_by_one(s: Subject) -> None:
    """A long run of equal releases, and what comes behind it, leaves what its releases leave one by one."""
    tiny = s.headroom(Accountant(s.notion), 1) / 1000
    releases = [s.release(k, tiny) for k in (*range(1, 301), *range(303, 308))]
    together, apart = Accountant(s.notion), Accountant(s.notion)
    together.admit(*releases)
    for release in releases:
        apart.admit(release)
    expect(together.to_json() == apart.to_json(), "a run admitted together differs from one by one")
    expect(together.exposure(310) == apart.exposure(310), "a run admitted together has another risk than one by one")


def memory_is_bounded(s: Subject) -> None:
    """The account of a stream four times as long is not larger, beyond the digits of its numbers."""
    account, releases = Accountant(s.notion), s.planned(2000)
    early = sum(release.step <= 500 for release in releases)
    sizes = []
    for part in (releases[:early], releases[early:]):
        for release in part:
            account.admit(release)
        sizes.append(len(account.to_json()))
    short, long = sizes
    expect(long <= short * 1.25 + 200, f"an account grew from {short} to {long} characters as its stream went on")


def restored_equals_live(s: Subject) -> None:
    """An account read back from text goes on as if nothing had happened."""
    releases = s.planned(120)
    live = Accountant(s.notion)
    live.admit(*releases[:60])
    restored = Accountant.from_json(live.to_json())
    for account in (live, restored):
        account.admit(*releases[60:])
    expect(restored.to_json() == live.to_json(), "restored and live accounts went apart")
    last = releases[-1].step
    expect(restored.exposure(last + 3) == live.exposure(last + 3), "restored and live accounts differ in their risk")


def replay_equals_admitted(s: Subject) -> None:
    """A replayed history leaves the account that admitting its releases one by one left."""
    releases = s.planned(120)
    live = Accountant(s.notion)
    for release in releases:
        live.admit(release)
    history = History.from_json(History(releases).to_json())
    expect(Accountant.replay(s.notion, history).to_json() == live.to_json(), "replay differs from one by one")


def lens_reports_what_was_broken(s: Subject) -> None:
    """A history beyond the promise is not refused by the lens, and is shown as beyond it."""
    room = s.headroom(Accountant(s.notion), 1)
    account = Accountant.replay(s.notion, [s.release(1, room * 4)])
    expect(account.used(1) > 1, f"four times the headroom shows as a share of {account.used(1)}")
    expect(account.headroom(1) >= 0, "headroom must not be negative")


def used_is_a_share(s: Subject) -> None:
    """`used` lies between 0 and 1 and is risk over limit."""
    account = s.spent(60)
    for later in LATER:
        exposure, used = account.exposure(60 + later), account.used(60 + later)
        expect(0 <= used <= 1, f"used is {used}")
        expect(math.isclose(used, exposure.risk / exposure.limit, rel_tol=1e-9, abs_tol=1e-15), "used is not the share")


def least_scale_is_allowed(s: Subject) -> None:
    """The least scale may be used, and a hundredth less may not."""
    account = s.spent(3)
    step = account.step + 60
    scale = account.least_scale(step, 1.0, s.age)
    expect(scale > 0, f"least scale is {scale}")
    if math.isfinite(scale):
        account.copy().admit(s.release(step, 1 / scale))
        try:
            account.copy().admit(s.release(step, 1 / (scale * 0.99)))
        except BudgetExceeded:
            return
        raise AssertionError(f"the least scale is {scale}, yet 99 % of it was admitted")


def bad_input_is_refused(s: Subject) -> None:
    """What goes back in time or is no release is refused, with the account as it was."""
    account = s.spent(5)
    before = account.to_json()
    attempts: Iterable[Callable[[], Any]] = (
        lambda: account.admit(s.release(account.step - 1, 0.0)),
        lambda: account.admit("release"),  # type: ignore[arg-type]
        lambda: account.risk(account.step - 1),
        lambda: account.risk(float("nan")),  # type: ignore[arg-type]
        lambda: account.headroom(account.step, age=-1),
        lambda: account.least_scale(account.step, float("nan")),
        lambda: Accountant.from_json(before.replace('"state"', '"stale"')),
        lambda: Accountant.from_json(before[:-2]),
    )
    for i, attempt in enumerate(attempts):
        try:
            attempt()
        except InvalidInput:
            pass
        else:
            raise AssertionError(f"bad input number {i} was accepted")
        expect(account.to_json() == before, f"bad input number {i} changed the account")


def spans_are_charged_or_refused(s: Subject) -> None:
    """A release about several steps is refused; or costs no less than one about the newest of them, and its headroom is exact."""
    account = Accountant(s.notion)
    account.admit(s.release(70, s.headroom(account, 70) / 3))
    before, step, limit = account.to_json(), 71, account.exposure(71).limit
    for span in (2, 5, 60):
        if not s.notion.charges_spans:
            _refuses_spans(s, account, step, span)
            expect(account.to_json() == before, f"a release about {span} steps was refused and changed the account")
            continue
        room = account.headroom(step, s.age, span=span)
        expect(
            0 < room <= s.headroom(account, step), f"{span} steps have a headroom of {room}, more than the newest alone"
        )
        wide, narrow = account.copy(), account.copy()
        narrow.admit(s.release(step, room / 2))
        wide.admit(replace(s.release(step, room / 2), span=span))
        expect(wide.risk(step) >= narrow.risk(step) * (1 - TOLERANCE), f"{span} steps risk less than the newest alone")
        account.copy().admit(replace(s.release(step, room), span=span))
        try:
            account.copy().admit(replace(s.release(step, max(room * (1 + HAIR), room + limit * HAIR)), span=span))
        except BudgetExceeded:
            continue
        raise AssertionError(f"a release about {span} steps has a headroom of {room!r}, and more was admitted")


def _refuses_spans(s: Subject, account: Accountant, step: int, span: int) -> None:
    attempts: Iterable[Callable[[], Any]] = (
        lambda: account.admit(replace(s.release(step, 0.0), span=span)),
        lambda: account.headroom(step, s.age, span=span),
        lambda: s.notion.plan(span=span),
    )
    for i, attempt in enumerate(attempts):
        try:
            attempt()
        except InvalidInput:
            continue
        raise AssertionError(f"a release about {span} steps was not refused, nor declared (attempt {i})")


def memory_is_bounded_with_spans(s: Subject) -> None:
    """The account of four times as many releases about several steps is not larger, beyond the digits of its numbers."""
    if s.notion.charges_spans:
        tiny = s.headroom(Accountant(s.notion), 1) / 1e6
        releases = [replace(s.release(k, tiny), span=5) for k in range(5, 2005, 5)]
        short, long = (len(Accountant.replay(s.notion, releases[:n]).to_json()) for n in (200, 400))
        expect(long <= short * 1.25 + 200, f"an account with spans grew from {short} to {long} characters")


NOTION_CHECKS: dict[str, Callable[[Subject], None]] = {
    f.__name__: f
    for f in (
        risk_grows_with_loss,
        headroom_is_exact,
        promise_holds_later,
        several_at_once,
        runs_are_as_one_by_one,
        memory_is_bounded,
        restored_equals_live,
        replay_equals_admitted,
        lens_reports_what_was_broken,
        used_is_a_share,
        least_scale_is_allowed,
        spans_are_charged_or_refused,
        memory_is_bounded_with_spans,
        bad_input_is_refused,
    )
}


def check_notion(
    notion: Notion,
    release: Callable[[int, float], Release] | None = None,
    losses: Callable[[int], Floats] | None = None,
) -> None:
    """Run every check on a notion; `release(step, loss)` and `losses(n)` if the plain ones do not fit it."""
    subject = Subject(notion, release, losses)
    for check in NOTION_CHECKS.values():
        check(subject)
