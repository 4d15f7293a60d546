"""Release-grade draws: noise from OpenDP, charged to one account. There is no seed to give."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

from halflife import noise as grade
from halflife.accountant import Accountant
from halflife.errors import InvalidInput
from halflife.mechanisms.base import Request, Turn
from halflife.mechanisms.draw import Drawing, Layers, Price, Shared
from halflife.numerics.forms import read_form
from halflife.release import NOISES, Release


def find_price(request: Request) -> Price:
    """Return the release-grade noise of a request, with its loss, its scale and the release that it is recorded as."""
    r = request
    r.check()
    if (r.key or r.atop) and r.lattice is None:
        raise InvalidInput(
            "shared noise needs lattice=, the unit that values are whole multiples of: values rounded to a grid of "
            "the noise's own would tell each other apart"
        )
    if r.scale == 0:
        c = grade.exact(r.sensitivity, r.noise, r.size)
    elif r.loss is not None:
        c = grade.by_loss(r.loss, r.sensitivity, r.noise, r.size, r.lattice, r.touched)
    else:
        c = grade.by_scale(r.scale, r.sensitivity, r.noise, r.size, r.lattice)
    name = r.atop and r.atop[0]
    facts: Any = {"noise": r.noise, "draw": r.key, "atop": name, "span": r.span, "step_sensitivity": r.step_sensitivity}
    release = Release(1, c.loss, sensitivity=r.sensitivity, scale=c.scale, **facts)
    return Price(r, c.loss, c.scale, c, (release,))


def record(turns: Iterable[Turn]) -> list[Release]:
    """Return what release-grade draws would be recorded as if nothing was drawn before them; nothing is charged or drawn.

    >>> [(r.step, round(r.scale, 9)) for r in record(Turn(step, Request(None, 1.0, loss=0.5)) for step in (1, 2))]
    [(1, 2.0), (2, 2.0)]
    """
    known: dict[Request, Release | None] = {}
    drawn: set[str] = set()
    made = []
    for step, request, late in turns:
        new = request.atop is not None and request.atop[0] not in drawn
        for one in (request.under(), request) if new else (request,):
            if one not in known:
                known[one] = find_price(one).releases[0]
            release = known[one]
            assert release is not None
            made.append(release.at_step(step, request.age + late))
        if request.atop is not None:
            drawn.add(request.atop[0])
    return made


class _Unknown:
    """Shared noise that was drawn and is not at hand: whatever is done with it is refused."""

    def __getattr__(self, name: str) -> Any:
        raise InvalidInput(
            "the noise was drawn before and its numbers are not at hand: nothing can be published with it"
        )

    def __radd__(self, value: object) -> Any:
        return self.add(value)

    __array_ufunc__ = None  # numpy leaves `array + noise` to us


class ReleaseDraw(Drawing):
    """Release-grade draws against one account.

    >>> from halflife import Accountant, Classical
    >>> account = Accountant(Classical(1.0))
    >>> draw = ReleaseDraw(account)
    >>> with draw.step(1) as d:
    ...     published = 20.0 + d(None, sensitivity=1.0, loss=0.25)
    >>> account.headroom(2), draw.releases[0].loss
    (0.75, 0.25)
    >>> batch = draw.batch(Turn(step, Request(None, 1.0, loss=0.125)) for step in (2, 3))
    >>> account.headroom(3), [round(20.0 + noise) > -1000 for noise in batch.noise()]
    (0.5, [True, True])
    """

    def __init__(self, account: Accountant) -> None:
        super().__init__([account])

    @property
    def account(self) -> Accountant:
        """The account that draws are charged to."""
        return self._accounts[0]

    def headroom(self, age: int = 0, span: int = 1) -> float:
        """Return the largest loss that may be drawn for now, about so many steps of data (or as many as the open step covers)."""
        return self._trials[0].headroom(self._step, age + self._late, span=self._span or span)

    def state(self) -> dict[str, Any]:
        """Return the shared noise as JSON can hold it. It is a secret: keep it with the account, and print it nowhere."""
        self._sample([Layers(shared, None, ()) for shared in self._stored.values()])
        return {
            key: {
                "grid": s.noise.grid, "units": list(s.noise.units), "lattice": s.noise.lattice,
                "refinement": s.noise.refinement, "loss": s.price.loss, "scale": s.price.scale, "noise": s.price.request.noise,
            }
            for key, s in self._stored.items()
        }  # fmt: skip

    @property
    def names(self) -> frozenset[str]:
        """The names of the shared noise that is kept."""
        return frozenset(self._stored)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on with shared noise that `state` gave.

        Where its numbers (`units`) are missing and only their count (`size`) is known, what it would cost to use it again can be
        worked out, and nothing published: it is never drawn anew.
        """
        if not isinstance(state, dict):
            raise InvalidInput("shared noise is kept by name")
        for key, kept in state.items():
            s = read_form(
                "shared noise", kept, ("grid", "lattice", "refinement", "loss", "scale", "noise"), units=None, size=0
            )
            _check_kept(s)
            sealed, size = s["units"] is None, s["size"] if s["units"] is None else len(s["units"])
            made = (s["grid"], () if sealed else tuple(s["units"]), s["lattice"], s["refinement"])
            noise = _Unknown() if sealed else grade.GridNoise(*made, single=False)
            if key in self._stored and self._stored[key].noise != noise:
                raise InvalidInput(f"the noise {key!r} is at hand already, and is another: one name is one noise")
            request = Request(key, 0.0, None, s["scale"], s["noise"], size=size, lattice=s["lattice"])
            self._stored[key] = Shared(Price(request, s["loss"], s["scale"], None, ()), noise)

    def _known_names(self) -> Set[str]:
        return self._trials[0].draws_at(self._now)

    def _price(self, request: Request) -> Price:
        return find_price(request)

    def _draw_many(self, orders: Sequence[grade.Calibration]) -> Iterable[grade.GridNoise]:
        return grade.draw_many(orders)

    def _keep(self, noise: Any) -> Any:
        return replace(noise, single=False)

    def _sum(self, pattern: Any, fresh: Any) -> Any:
        return pattern.under(fresh)


def _check_kept(s: Mapping[str, Any]) -> None:
    """Refuse kept noise that `state` cannot have given. What is wrong with it is not told: it is a secret."""
    units, refinement, numbers = s["units"], s["refinement"], [s["grid"], s["lattice"], s["loss"], s["scale"]]
    if units is None and type(s["size"]) is int and s["size"] > 0:
        units = []
    good = (
        isinstance(units, list) and all(type(unit) is int for unit in units)
        and type(refinement) is int and 0 <= refinement <= 2000 and s["noise"] in NOISES
    )  # fmt: skip
    if good and s["scale"] == 0:  # an exact value
        good = s["grid"] == 0 and not any(units)
    elif good:
        good = all(type(x) in (int, float) and 0 < x < math.inf for x in numbers)
        good = good and s["grid"] == math.ldexp(s["lattice"], -refinement)
    if not good:
        raise InvalidInput("kept noise is not as it was written")
