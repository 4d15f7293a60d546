"""Seeded draws for the lab, of several repetitions side by side. No release can take them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from halflife import noise as grade
from halflife.accountant import Accountant
from halflife.errors import InvalidInput
from halflife.mechanisms.base import Request
from halflife.mechanisms.draw import Drawing, Price
from halflife.mechanisms.lane_noise import LaneNoise
from halflife.numerics.parameters import whole
from halflife.release import Release


class SimulatedDraw(Drawing):
    """Seeded draws for the lab: one account for all lanes, or one for each if the mechanism is adaptive.

    seed  of all lanes together, or a `LaneNoise`, which has a source for each

    >>> from halflife import Accountant, Classical
    >>> draw = SimulatedDraw([Accountant(Classical(1.0))], seed=1, lanes=4)
    >>> with draw.step(1) as d:
    ...     (20.0 + d(None, sensitivity=1.0, loss=0.25)).shape
    (4,)
    """

    def __init__(self, accounts: Sequence[Accountant], seed: int | LaneNoise, lanes: int = 1) -> None:
        super().__init__(accounts)
        self.lanes = whole("lanes", lanes, least=1)
        if len(accounts) not in (1, self.lanes):
            raise InvalidInput(f"{self.lanes} lanes need one account, or one each, not {len(accounts)}")
        self._source = seed if isinstance(seed, LaneNoise) else grade.SimulatedNoise(seed)

    def headroom(self, age: int = 0, span: int = 1) -> Any:
        """Return the largest loss that may be drawn for now, lane by lane."""
        return np.array([a.headroom(self._step, age + self._late, span=self._span or span) for a in self._trials])

    def _price(self, request: Request) -> Price:
        request.check()
        with np.errstate(divide="ignore"):
            if request.loss is not None:
                loss = np.asarray(request.loss, dtype=np.float64)
                scale = request.sensitivity / loss
            else:
                scale = np.asarray(request.scale, dtype=np.float64)
                loss = np.nextafter(request.sensitivity / scale, np.inf)
        if not (np.all(loss >= 0) and np.all(np.isfinite(loss) | (scale == 0))):
            raise InvalidInput(f"losses must be finite and at least 0, not {loss}")
        losses, scales = np.atleast_1d(loss).tolist(), np.atleast_1d(scale).tolist()
        if len(losses) > len(self._accounts):
            raise InvalidInput(f"losses differ between {len(losses)} lanes: give each lane an account of its own")
        r, name, one = request, request.atop and request.atop[0], len(losses) == 1
        facts: Any = {
            "sensitivity": r.sensitivity, "noise": r.noise, "draw": r.key, "atop": name,
            "span": r.span, "step_sensitivity": r.step_sensitivity,
        }  # fmt: skip
        releases = [Release(1, x, scale=b, **facts) if x > 0 else None for x, b in zip(losses, scales, strict=True)]
        return Price(r, loss, scale, (r, scale), tuple(releases * len(self._accounts) if one else releases))

    def _draw_many(self, orders: Sequence[tuple[Request, Any]]) -> Iterable[Any]:
        return [self._draw(*order) for order in orders]

    def _draw(self, request: Request, scale: Any) -> Any:
        shape = (self.lanes,) if request.size == 1 else (self.lanes, request.size)
        if request.size > 1 and np.ndim(scale):
            scale = scale[:, None]
        return self._source.draw(
            request.noise, scale, shape
        )  # NaN where nothing was charged, so that nothing can be used

    def _keep(self, noise: Any) -> Any:
        return noise

    def _sum(self, pattern: Any, fresh: Any) -> Any:
        return pattern + fresh
