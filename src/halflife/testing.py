"""Contract suites: what every notion, plan and mechanism must do, whoever wrote it.

    import halflife.testing as ht
    ht.check_notion(MyNotion(1.0))
    ht.check_plan(MyNotion(1.0).plan())
    ht.check_mechanism(MyMechanism, MyNotion(1.0))

Each suite is also a dictionary of named checks (`NOTION_CHECKS`, `PLAN_CHECKS`, `MECHANISM_CHECKS`), so that a test runner can
show them one by one. A failed check is an AssertionError that says what was expected.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from halflife.accountant import Accountant
from halflife.errors import BudgetExceeded, InvalidInput
from halflife.mechanisms import Mechanism, ReleaseDraw, SimulatedDraw, check_adaptive
from halflife.notions import Notion
from halflife.numerics.arrays import Floats
from halflife.numerics.rounding import TOLERANCE, divide_up
from halflife.plans import Plan
from halflife.release import History, Release

HAIR = 1e-6
LATER = (0, 1, 2, 7, 48, 49, 1000, 10**6)


class Subject:
    """A notion with what the suite needs to speak its language: how a release looks, and losses that keep the promise.

    `release(step, loss)` makes a release (of whatever age); `losses(n)` gives losses that the account must admit step
    by step. Without them: plain releases with the noise and the losses of the notion's own plan.
    """

    def __init__(
        self,
        notion: Notion[Any],
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


def _expect(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def _within(exposure_peak: float, limit: float) -> bool:
    return exposure_peak <= limit * (1 + TOLERANCE)


# Notions --------------------------------------------------------------------------------------------------------------


def risk_grows_with_loss(s: Subject) -> None:
    """More loss, more risk, now and at its worst; and no loss, no risk."""
    room = s.headroom(Accountant(s.notion), 1)
    _expect(room > 0, "a fresh account must have headroom")
    _expect(Accountant(s.notion).risk(1) == 0, "a fresh account must have no risk")
    seen = [0.0]
    for share in (0.1, 0.3, 0.9):
        account = Accountant(s.notion)
        account.admit(s.release(1, room * share))
        seen.append(account.risk(1))
        _expect(account.risk(1) <= account.peak(1), "risk now is above the worst risk from now on")
    _expect(all(a < b for a, b in pairwise(seen)), f"risk does not grow with loss: {seen}")


def headroom_is_exact(s: Subject) -> None:
    """The headroom is accepted exactly, and a hair more is refused, at several steps of one stream."""
    account = Accountant(s.notion)
    for step in (1, 2, 3, 50, 51, 400):
        room, limit = s.headroom(account, step), account.exposure(step).limit
        too_much = max(room * (1 + HAIR), room + limit * HAIR)
        try:
            account.copy().admit(s.release(step, too_much))
        except BudgetExceeded as error:
            _expect(not error.risk <= error.limit, f"refused although {error.risk} is within {error.limit}")
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
        _expect(_within(peak, limit), f"peak {peak} is above {limit}")
        for later in LATER:
            risk = account.risk(step + later)
            _expect(risk <= peak * (1 + TOLERANCE), f"risk {risk} at {step + later} is above the announced {peak}")


def several_at_once(s: Subject) -> None:
    """Releases of one step are admitted together as one by one, and refused together."""
    room = s.headroom(Accountant(s.notion), 1)
    together, apart = Accountant(s.notion), Accountant(s.notion)
    parts = [s.release(1, room / 4), s.release(2, room / 16)]
    together.admit(*parts)
    for part in parts:
        apart.admit(part)
    _expect(together.to_json() == apart.to_json(), "releases admitted together differ from one by one")
    before = together.to_json()
    try:
        together.admit(s.release(3, room / 1e6), s.release(3, room * 3))
    except BudgetExceeded:
        pass
    else:
        raise AssertionError("three times the headroom was admitted")
    _expect(together.to_json() == before, "a refused admit changed the account")


def memory_is_bounded(s: Subject) -> None:
    """The account of a stream four times as long is not larger, beyond the digits of its numbers."""
    short, long = len(s.spent(500).to_json()), len(s.spent(2000).to_json())
    _expect(long <= short * 1.25 + 200, f"an account grew from {short} to {long} characters as its stream went on")


def restored_equals_live(s: Subject) -> None:
    """An account read back from text goes on as if nothing had happened."""
    releases = s.planned(120)
    live = Accountant(s.notion)
    live.admit(*releases[:60])
    restored = Accountant.from_json(live.to_json())
    for account in (live, restored):
        account.admit(*releases[60:])
    _expect(restored.to_json() == live.to_json(), "restored and live accounts went apart")
    last = releases[-1].step
    _expect(restored.exposure(last + 3) == live.exposure(last + 3), "restored and live accounts differ in their risk")


def replay_equals_admitted(s: Subject) -> None:
    """A replayed history leaves the account that admitting its releases one by one left."""
    releases = s.planned(120)
    live = Accountant(s.notion)
    for release in releases:
        live.admit(release)
    history = History.from_json(History(releases).to_json())
    _expect(Accountant.replay(s.notion, history).to_json() == live.to_json(), "replay differs from one by one")


def lens_reports_what_was_broken(s: Subject) -> None:
    """A history beyond the promise is not refused by the lens, and is shown as beyond it."""
    room = s.headroom(Accountant(s.notion), 1)
    account = Accountant.replay(s.notion, [s.release(1, room * 4)])
    _expect(account.used(1) > 1, f"four times the headroom shows as a share of {account.used(1)}")
    _expect(account.headroom(1) >= 0, "headroom must not be negative")


def used_is_a_share(s: Subject) -> None:
    """`used` lies between 0 and 1 and is risk over limit."""
    account = s.spent(60)
    for later in LATER:
        exposure, used = account.exposure(60 + later), account.used(60 + later)
        _expect(0 <= used <= 1, f"used is {used}")
        _expect(
            math.isclose(used, exposure.risk / exposure.limit, rel_tol=1e-9, abs_tol=1e-15), "used is not the share"
        )


def least_scale_is_allowed(s: Subject) -> None:
    """The least scale may be used, and a hundredth less may not."""
    account = s.spent(3)
    step = account.step + 60
    scale = account.least_scale(step, 1.0, s.age)
    _expect(scale > 0, f"least scale is {scale}")
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
        _expect(account.to_json() == before, f"bad input number {i} changed the account")


NOTION_CHECKS: dict[str, Callable[[Subject], None]] = {
    f.__name__: f
    for f in (
        risk_grows_with_loss,
        headroom_is_exact,
        promise_holds_later,
        several_at_once,
        memory_is_bounded,
        restored_equals_live,
        replay_equals_admitted,
        lens_reports_what_was_broken,
        used_is_a_share,
        least_scale_is_allowed,
        bad_input_is_refused,
    )
}


def check_notion(
    notion: Notion[Any],
    release: Callable[[int, float], Release] | None = None,
    losses: Callable[[int], Floats] | None = None,
) -> None:
    """Run every check on a notion; `release(step, loss)` and `losses(n)` if the plain ones do not fit it."""
    subject = Subject(notion, release, losses)
    for check in NOTION_CHECKS.values():
        check(subject)


# Plans ----------------------------------------------------------------------------------------------------------------

LONG = 100_000


def scale_is_sensitivity_over_loss(plan: Plan) -> None:
    """scale, scales, std, losses and loss tell one story, and scales are rounded up."""
    n = min(plan.horizon or 500, 500)
    losses, scales = plan.losses(n), plan.scales(n)
    published = losses > 0
    _expect(bool(np.all(np.isinf(scales[~published]))), "a step without a release must have infinite noise")
    moved = plan.sensitivities_of_releases(1, int(np.count_nonzero(published)))
    _expect(bool(np.all(scales[published] * losses[published] >= moved * (1 - 1e-15))), "a scale is too small")
    _expect(bool(np.allclose(scales[published] * losses[published], moved, rtol=1e-12)), "a scale is too large")
    for k in (1, n // 2 + 1, n):
        _expect(plan.scale(k) == scales[k - 1] or math.isclose(plan.scale(k), scales[k - 1], rel_tol=1e-15), "scale(k)")
        _expect(plan.loss(k) == losses[k - 1], "loss(k) differs from losses(n)")
    factor = math.sqrt(2) if plan.noise == "laplace" else 1.0
    whole = factor * math.hypot(*plan.layers(1))
    _expect(math.isclose(plan.std(1), whole, rel_tol=1e-12), "std is not that of the noise")
    _expect(plan.layers(1)[0] == plan.scale(1), "the first layer is not the noise of the step")


def promise_holds_for_long(plan: Plan) -> None:
    """The plan never breaks its notion's promise over 10⁵ steps, or up to its horizon."""
    n = min(plan.horizon or LONG, LONG)
    shares = plan.risks(n) / plan.limits(n)
    worst = float(np.max(shares))
    _expect(_within(worst, 1.0), f"the plan's risk reaches {worst!r} of its promise")
    _expect(worst > 0.05, f"the plan uses only {worst:.3%} of its promise")


def account_admits_the_plan(plan: Plan) -> None:
    """A live account admits every planned release, and its risk is about the one that the plan announced.

    Both are upper bounds; with a δ they may round losses up at different places, by a few per cent.
    """
    n = min(plan.horizon or 2000, 2000)
    risks, account = plan.risks(n), Accountant(plan.notion)
    for k in range(1, n + 1):
        account.admit(*plan.releases_at(k))
        if k in (1, 2, n // 2, n):
            risk = account.risk(k)
            _expect(risk <= risks[k - 1] * 1.05, f"step {k}: risk {risk}, the plan announced {risks[k - 1]}")


def certificate_says_why(plan: Plan) -> None:
    """The certificate is JSON, begins with what is not protected, and says why the tail holds."""
    certificate = plan.certificate()
    _expect(json.loads(json.dumps(certificate, allow_nan=False)) == certificate, "the certificate is not plain JSON")
    _expect(next(iter(certificate)) == "not_protected", "a certificate must begin with what is not protected")
    for key in ("not_protected", "assumptions", "tail"):
        _expect(bool(certificate[key]), f"the certificate's {key} is empty")
    _expect(certificate["notion"] == plan.notion.reference(), "the certificate names another notion")


def horizon_is_an_end(plan: Plan) -> None:
    """Beyond its horizon a plan refuses, and step 0 is nobody's."""
    for bad in (0, -1, *([plan.horizon + 1] if plan.horizon else [])):
        try:
            plan.scale(bad)
        except InvalidInput:
            continue
        raise AssertionError(f"step {bad} has a scale")


PLAN_CHECKS: dict[str, Callable[[Plan], None]] = {
    f.__name__: f
    for f in (
        scale_is_sensitivity_over_loss,
        promise_holds_for_long,
        account_admits_the_plan,
        certificate_says_why,
        horizon_is_an_end,
    )
}


def check_plan(plan: Plan) -> None:
    """Run every check on a plan."""
    for check in PLAN_CHECKS.values():
        check(plan)


# Mechanisms -----------------------------------------------------------------------------------------------------------

Maker = Callable[[], Mechanism]


def _truth(step: int) -> float:
    return round(20.0 + math.sin(step / 7) + (10.0 if step % 20 < 3 else 0.0), 3)


def keeps_the_promise(make: Maker, notion: Notion[Any]) -> None:
    """Release-grade, 40 steps: the account stays within its promise and equals the replay of what was recorded."""
    account, mechanism = Accountant(notion), make()
    draw = ReleaseDraw(account)
    history: list[Release] = []
    for step in range(1, 41):
        value = draw.run(mechanism, step, _truth(step))
        history += draw.releases
        _expect(value is None or math.isfinite(value), f"step {step}: the output is {value!r}")
        exposure = account.exposure(step)
        _expect(_within(exposure.peak, exposure.limit), f"step {step}: risk {exposure.peak} above {exposure.limit}")
    _expect(len(history) > 0, "nothing was released in 40 steps")
    _expect(
        Accountant.replay(notion, history).to_json() == account.to_json(), "the record does not explain the account"
    )


def restored_goes_on_alike(make: Maker, notion: Notion[Any]) -> None:
    """A mechanism restored from its JSON state gives the outputs that the uninterrupted one gives."""

    def run(break_at: int | None) -> list[Any]:
        account, mechanism, outputs = Accountant(notion), make(), []
        draw = SimulatedDraw([account], seed=3)
        for step in range(1, 31):
            if step == break_at:
                state = json.loads(json.dumps(mechanism.state()))
                mechanism = make()
                mechanism.restore(state)
            outputs.append(draw.run(mechanism, step, np.array([_truth(step)])))
        return outputs

    whole, broken = run(None), run(11)
    same = all((a is None and b is None) or np.array_equal(a, b) for a, b in zip(whole, broken, strict=True))
    _expect(same, "a restored mechanism went another way")


def lanes_run_side_by_side(make: Maker, notion: Notion[Any]) -> None:
    """Three lanes, each with an account: outputs have a lane axis, and every lane keeps its promise."""
    accounts = [Accountant(notion) for _ in range(3)]
    mechanism, draw = make(), SimulatedDraw(accounts, seed=5, lanes=3)
    for step in range(1, 31):
        value = draw.run(mechanism, step, np.full(3, _truth(step)))
        _expect(value is None or np.shape(value) == (3,), f"step {step}: the output has shape {np.shape(value)}")
    _expect(all(_within(a.peak(30), a.exposure(30).limit) for a in accounts), "a lane broke its promise")


def refused_step_costs_nothing(make: Maker, notion: Notion[Any]) -> None:
    """If a step fails after drawing, neither account nor stored noise keep a trace of it."""
    account = Accountant(notion)
    draw, mechanism = ReleaseDraw(account), make()
    before = account.to_json()
    try:
        with draw.step(1) as d:
            mechanism.step(1, _truth(1), d)
            raise InvalidInput("the value could not be stored")
    except InvalidInput:
        pass
    _expect(account.to_json() == before, "a failed step was charged")


def adaptivity_is_declared(make: Maker, notion: Notion[Any]) -> None:
    """The mechanism may be run under this notion, and says whether it looks at outputs."""
    check_adaptive(make(), Accountant(notion))
    _expect(isinstance(make().adaptive, bool), "a mechanism must say whether it is adaptive")


MECHANISM_CHECKS: dict[str, Callable[[Maker, Notion[Any]], None]] = {
    f.__name__: f
    for f in (
        keeps_the_promise,
        restored_goes_on_alike,
        lanes_run_side_by_side,
        refused_step_costs_nothing,
        adaptivity_is_declared,
    )
}


def check_mechanism(make: Maker, notion: Notion[Any]) -> None:
    """Run every check on a mechanism that `make()` gives anew each time."""
    for check in MECHANISM_CHECKS.values():
        check(make, notion)


__all__ = [
    "MECHANISM_CHECKS",
    "NOTION_CHECKS",
    "PLAN_CHECKS",
    "Subject",
    "check_mechanism",
    "check_notion",
    "check_plan",
]
