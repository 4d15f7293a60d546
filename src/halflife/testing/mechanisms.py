"""What every mechanism must do: keep the promise, go on alike after a restart, and cost nothing where it fails."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from halflife.accountant import Accountant
from halflife.errors import InvalidInput
from halflife.mechanisms import Mechanism, ReleaseDraw, SimulatedDraw, check_adaptive
from halflife.notions import Notion
from halflife.release import Release
from halflife.testing.expectations import expect, within

Maker = Callable[[], Mechanism]


def _truth(step: int) -> float:
    return round(20.0 + math.sin(step / 7) + (10.0 if step % 20 < 3 else 0.0), 3)


def keeps_the_promise(make: Maker, notion: Notion) -> None:
    """Release-grade, 40 steps: the account stays within its promise and equals the replay of what was recorded."""
    account, mechanism = Accountant(notion), make()
    draw = ReleaseDraw(account)
    history: list[Release] = []
    for step in range(1, 41):
        value = draw.run(mechanism, step, _truth(step))
        history += draw.releases
        expect(value is None or math.isfinite(value), f"step {step}: the output is {value!r}")
        exposure = account.exposure(step)
        expect(within(exposure.peak, exposure.limit), f"step {step}: risk {exposure.peak} above {exposure.limit}")
    expect(len(history) > 0, "nothing was released in 40 steps")
    expect(Accountant.replay(notion, history).to_json() == account.to_json(), "the record does not explain the account")


def restored_goes_on_alike(make: Maker, notion: Notion) -> None:
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
    expect(same, "a restored mechanism went another way")


def lanes_run_side_by_side(make: Maker, notion: Notion) -> None:
    """Three lanes, each with an account: outputs have a lane axis, and every lane keeps its promise."""
    accounts = [Accountant(notion) for _ in range(3)]
    mechanism, draw = make(), SimulatedDraw(accounts, seed=5, lanes=3)
    for step in range(1, 31):
        value = draw.run(mechanism, step, np.full(3, _truth(step)))
        expect(value is None or np.shape(value) == (3,), f"step {step}: the output has shape {np.shape(value)}")
    expect(all(within(a.peak(30), a.exposure(30).limit) for a in accounts), "a lane broke its promise")


def refused_step_costs_nothing(make: Maker, notion: Notion) -> None:
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
    expect(account.to_json() == before, "a failed step was charged")


def adaptivity_is_declared(make: Maker, notion: Notion) -> None:
    """The mechanism may be run under this notion, and says whether it looks at outputs."""
    check_adaptive(make(), Accountant(notion))
    expect(isinstance(make().adaptive, bool), "a mechanism must say whether it is adaptive")


MECHANISM_CHECKS: dict[str, Callable[[Maker, Notion], None]] = {
    f.__name__: f
    for f in (
        keeps_the_promise,
        restored_goes_on_alike,
        lanes_run_side_by_side,
        refused_step_costs_nothing,
        adaptivity_is_declared,
    )
}


def check_mechanism(make: Maker, notion: Notion) -> None:
    """Run every check on a mechanism that `make()` gives anew each time."""
    for check in MECHANISM_CHECKS.values():
        check(make, notion)
