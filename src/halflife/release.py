"""Published noisy values as accounts see them: `Release` and `History`, immutable, with a versioned JSON form."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import KW_ONLY, dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, get_args

from halflife.errors import InvalidInput, missing_extra, unknown
from halflife.numerics.forms import JsonObject, read_form
from halflife.numerics.parameters import real, whole
from halflife.numerics.rounding import divide_up, up

if TYPE_CHECKING:
    import pyarrow as pa

Noise = Literal["laplace", "gaussian"]
NOISES: tuple[str, ...] = get_args(Noise)
FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Release:
    """The record of one noisy value that was published: when, about which data, with which noise and at which privacy loss.

    step         S_k ≥ 1, when it was published
    loss         ρ_k, what its noise costs on its own (Definition 4 of the discounted paper; paper): Δf/b for Laplace noise, the
                 pure loss in nats; Δf/σ for Gaussian noise, the μ of Gaussian differential privacy (a pure notion has no bound
                 for such a release)
    age          A_k ≥ 0: the data is of step τ_k = S_k − A_k, which may be 0 or less
    sensitivity  Δf_k: how far one person can move the exact value
    scale        b_k or σ_k; 0 says that the exact value was published, and then the loss is infinite
    noise        the noise's family
    draw         the name of noise that may be used again: releases with the same name share one draw. None is noise of
                 this release alone. Accounts remember names, so name only what is meant to be reused
    atop         the name of a shared draw that lies *under* this release's own fresh noise, on the same value. As long as that
                 draw is never published alone it only makes the value noisier; once it is, the difference of the two values
                 shows both of them under the fresh noise alone
    span         how many steps of data it covers, the newest of them τ_k: those of τ_k − span + 1 … τ_k
    step_sensitivity
                 Δ_step: how far one person's data of one of these steps can move the exact value; None if that is Δf itself, as
                 after a clip of the whole. Data of j of the steps then moves it by min(j·Δ_step, Δf), and costs that part of the
                 loss: so it is for noise whose loss is in proportion to how far a value moves, as Laplace and Gaussian noise's is

    >>> Release(3, 0.5, age=2, scale=2.0).data_time
    1
    >>> week = Release(9, 0.5, age=2, span=7, step_sensitivity=0.25)
    >>> week.first_data_time, week.data_time, week.step_share
    (1, 7, 0.25)
    >>> Release(3, 0.1, scale=2.0)
    Traceback (most recent call last):
    ...
    halflife.errors.InvalidInput: release at step 3: loss 0.1 is less than sensitivity / scale = 1.0 / 2.0 = 0.5: \
state what the noise costs, or leave the scale out
    """

    step: int
    loss: float
    age: int = 0
    _: KW_ONLY
    sensitivity: float = 1.0
    scale: float | None = None
    noise: Noise = "laplace"
    draw: str | None = None
    atop: str | None = None
    span: int = 1
    step_sensitivity: float | None = None

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "step", whole("release: step", self.step, least=1))
        try:
            put(self, "age", whole("age", self.age, least=0))
            put(self, "sensitivity", real("sensitivity", self.sensitivity))
            if self.scale is not None:
                put(self, "scale", real("scale", self.scale))
            if not (self.scale == 0 and self.loss == math.inf):
                put(self, "loss", real("loss", self.loss))
            if self.noise not in NOISES:
                raise unknown("noise", self.noise, NOISES)
            if self.draw is not None or self.atop is not None:
                self._check_names()
            self._check_scale()
            put(self, "span", whole("span", self.span, least=1))
            if self.step_sensitivity is not None:
                put(self, "step_sensitivity", self._check_step(self.step_sensitivity))
            if self.span > 1 and (self.draw or self.atop):
                raise InvalidInput(
                    f"a span of {self.span} with shared noise ({self.draw or self.atop!r}) is not worked out: draw fresh noise",
                    about="span",
                )
        except InvalidInput as error:
            raise InvalidInput(f"release at step {self.step}: {error}") from None

    def _check_names(self) -> None:
        for name in (self.draw, self.atop):
            if name is not None and not (isinstance(name, str) and 0 < len(name) <= 200):
                raise InvalidInput(f"a draw's name must be text of 1 to 200 characters, not {name!r}")
        if self.draw is not None and self.atop is not None:
            raise InvalidInput(f"shared noise ({self.draw!r}) cannot itself lie atop {self.atop!r}: give one of them")

    def _check_scale(self) -> None:
        if self.scale is None:
            return
        if self.scale == 0:
            if self.loss != math.inf:
                raise InvalidInput("scale 0 publishes the exact value, so the loss must be math.inf")
        elif up(self.loss * (1 + 1e-12)) < self.sensitivity / self.scale:
            raise InvalidInput(
                f"loss {self.loss} is less than sensitivity / scale = {self.sensitivity} / {self.scale} = "
                f"{self.sensitivity / self.scale:.6g}: state what the noise costs, or leave the scale out"
            )

    def _check_step(self, given: float) -> float | None:
        """Return Δ_step, None where it is Δf: all steps move a value by span·Δ_step at most, so Δf is no more than that."""
        one = real("step_sensitivity", given, positive=True)
        if one > self.sensitivity:
            raise InvalidInput(
                f"step_sensitivity {one} is more than sensitivity {self.sensitivity}, which bounds what data of all steps moves",
                about="step_sensitivity",
            )
        if self.span * one * (1 + 1e-12) < self.sensitivity:
            raise InvalidInput(
                f"{self.span} steps that move a value by {one} each cannot move it by {self.sensitivity}: one of span, "
                "step_sensitivity and sensitivity is wrong",
                about="step_sensitivity",
            )
        return None if self.span == 1 or one == self.sensitivity else one

    def at_step(self, step: int, age: int) -> Release:
        """Return a copy of this release at another step and age; the other fields are not checked again.

        >>> Release(1, 0.5, scale=2.0).at_step(7, 2)
        Release(step=7, loss=0.5, age=2, sensitivity=1.0, scale=2.0, noise='laplace', draw=None, atop=None, span=1, \
step_sensitivity=None)
        """
        other = _new()
        put_step, put_age, put_loss, put_sensitivity, put_scale, put_noise, put_draw, put_atop, put_span, put_one = (
            _SLOTS
        )
        put_step(other, whole("release: step", step, least=1))
        put_age(other, whole("age", age, least=0))
        put_loss(other, self.loss)
        put_sensitivity(other, self.sensitivity)
        put_scale(other, self.scale)
        put_noise(other, self.noise)
        put_draw(other, self.draw)
        put_atop(other, self.atop)
        put_span(other, self.span)
        put_one(other, self.step_sensitivity)
        return other

    @property
    def data_time(self) -> int:
        """τ = step − age: the step whose data this is about, the newest one if there are several."""
        return self.step - self.age

    @property
    def first_data_time(self) -> int:
        """τ − span + 1: the oldest step whose data this is about."""
        return self.step - self.age - self.span + 1

    @property
    def step_share(self) -> float:
        """Δ_step / Δf, rounded up: what part of the sensitivity data of one step can use up; 1 if all of it."""
        return 1.0 if self.step_sensitivity is None else divide_up(self.step_sensitivity, self.sensitivity)

    def to_dict(self) -> JsonObject:
        """Return the JSON form: version 1, doubles bit-exact, an infinite loss as the text "inf"; no span if it is 1."""
        wide = {} if self.span == 1 else {"span": self.span}
        by_step = {} if self.step_sensitivity is None else {"step_sensitivity": self.step_sensitivity}
        return {
            "step": self.step,
            "loss": "inf" if self.loss == math.inf else self.loss,
            "age": self.age,
            "sensitivity": self.sensitivity,
            "scale": self.scale,
            "noise": self.noise,
            "draw": self.draw,
            "atop": self.atop,
            **wide,
            **by_step,
        }

    @classmethod
    def from_dict(cls, data: object) -> Release:
        """Read what `to_dict` wrote; anything else is refused.

        >>> r = Release(1, 0.1, draw="phase 0")
        >>> Release.from_dict(r.to_dict()) == r
        True
        """
        form = read_form(
            "a release", data, ("step", "loss"), age=0, sensitivity=1.0, scale=None, noise="laplace", draw=None, atop=None,
            span=1, step_sensitivity=None,
        )  # fmt: skip
        loss = math.inf if form["loss"] == "inf" else form["loss"]
        return cls(
            form["step"], loss, form["age"], sensitivity=form["sensitivity"], scale=form["scale"], noise=form["noise"],
            draw=form["draw"], atop=form["atop"], span=form["span"], step_sensitivity=form["step_sensitivity"],
        )  # fmt: skip

    @classmethod
    def from_opendp(cls, measurement: Any, step: int, d_in: float = 1, age: int = 0) -> Release:
        """Make a release that bounds an OpenDP measurement of pure privacy whose input can move by `d_in`.

        Its map's ε says nothing about the shape of its noise, and with a δ shape matters: randomised response loses more
        than Laplace noise of the same ε. Laplace noise of loss 2 ln((1+e^ε)/2) loses at least as much as anything that is
        ε-DP (ours: its trade-off function passes below the kink of theirs, and is convex), so that is what is charged. For a
        pure promise alone, `Release(step, measurement.map(d_in))` is exact. A measurement of zero-concentrated privacy is
        refused: if it is Gaussian noise, say so with `Release(step, d_in / sigma, noise="gaussian")`.
        """
        measure = str(measurement.output_measure)
        if "MaxDivergence" not in measure or "Approx" in measure:
            raise InvalidInput(
                f"an OpenDP measurement under {measure} does not say what its noise is: for Gaussian noise give "
                "Release(step, d_in / sigma, noise='gaussian')"
            )
        epsilon = float(measurement.map(d_in))
        return cls(step, up(2 * math.log((1 + math.exp(epsilon)) / 2) * (1 + 1e-12)), age, sensitivity=d_in)


_new = partial(object.__new__, Release)
_SLOTS = tuple(
    Release.__dict__[name].__set__
    for name in ("step", "age", "loss", "sensitivity", "scale", "noise", "draw", "atop", "span", "step_sensitivity")
)
"""What fills the slots of a release whose facts were checked before: half the time of `object.__setattr__`."""


@dataclass(frozen=True)
class History:
    """A sequence of releases in the order of their steps, from which an account can be replayed.

    >>> History([Release(1, 0.1), Release(2, 0.2)]).last_step
    2
    """

    releases: tuple[Release, ...]

    def __init__(self, releases: Iterable[Release] = ()) -> None:
        items = tuple(releases)
        last = 0
        for i, release in enumerate(items):
            if not isinstance(release, Release):
                raise InvalidInput(f"item {i} of a history must be a Release, not {release!r}")
            if release.step < last:
                raise InvalidInput(f"item {i} of a history is of step {release.step}, after step {last}: sort by step")
            last = release.step
        object.__setattr__(self, "releases", items)

    def __iter__(self) -> Iterator[Release]:
        return iter(self.releases)

    def __len__(self) -> int:
        return len(self.releases)

    @property
    def last_step(self) -> int:
        """The newest step with a release, 0 if there is none."""
        return self.releases[-1].step if self.releases else 0

    def by_step(self) -> Iterator[tuple[int, tuple[Release, ...]]]:
        """Each step with its releases, in order."""
        for step, group in groupby(self.releases, key=lambda r: r.step):
            yield step, tuple(group)

    def to_json(self) -> str:
        """Return the versioned form on disk."""
        releases = [r.to_dict() for r in self.releases]
        return json.dumps({"format": "halflife.history", "version": FORMAT_VERSION, "releases": releases})

    @classmethod
    def from_json(cls, text: str) -> History:
        """Read what `to_json` wrote.

        >>> h = History([Release(1, 0.1), Release(1, 0.2, age=3)])
        >>> History.from_json(h.to_json()) == h
        True
        """
        data = read_form("a history", read_format(text, "halflife.history"), ("format", "releases"))
        if not isinstance(data["releases"], list):
            raise InvalidInput("a history must hold a list of releases")
        return cls(Release.from_dict(item) for item in data["releases"])

    def to_arrow(self) -> pa.Table:
        """Return the releases as columns, for Parquet."""
        import pyarrow as pa

        names = list(Release.__dataclass_fields__)
        return pa.table({name: [getattr(r, name) for r in self.releases] for name in names})

    def to_dp_event(self) -> Any:
        """Return the history as dp-accounting's composed event, for its accountants.

        Shared draws have no such event and are refused.
        """
        try:
            import dp_accounting
        except ImportError:
            raise missing_extra("dp-accounting", "exact", "a DpEvent") from None
        events: list[Any] = []
        for r in self.releases:
            if r.draw is not None:
                raise InvalidInput(f"release at step {r.step} shares its noise ({r.draw!r}): no DpEvent says that")
            if r.loss == math.inf:
                events.append(dp_accounting.NonPrivateDpEvent())
            elif r.loss > 0:
                event = dp_accounting.LaplaceDpEvent if r.noise == "laplace" else dp_accounting.GaussianDpEvent
                events.append(event(1 / r.loss))
        return dp_accounting.ComposedDpEvent(events)

    @classmethod
    def from_dp_event(cls, event: object) -> History:
        """Read a dp-accounting event of Laplace and Gaussian mechanisms; its parts become steps 1, 2, …"""
        losses = list(_flatten(event))
        return cls(Release(k, loss, noise=noise) for k, (loss, noise) in enumerate(losses, start=1))


def _flatten(event: Any) -> Iterator[tuple[float, Noise]]:
    kind = type(event).__name__
    if kind == "ComposedDpEvent":
        for part in event.events:
            yield from _flatten(part)
    elif kind == "SelfComposedDpEvent":
        for _ in range(event.count):
            yield from _flatten(event.event)
    elif kind in ("LaplaceDpEvent", "GaussianDpEvent"):
        noise: Noise = "laplace" if kind == "LaplaceDpEvent" else "gaussian"
        yield divide_up(1.0, float(event.noise_multiplier)), noise
    elif kind != "NoOpDpEvent":
        raise InvalidInput(f"a {kind} is no Laplace or Gaussian mechanism: halflife cannot charge it")


def read_format(text: str, name: str) -> JsonObject:
    """Return the JSON object of a versioned form (`name`); refuse text that is none, or of a newer version.

    >>> read_format('{"format": "halflife.history", "version": 9}', "halflife.history")
    Traceback (most recent call last):
    ...
    halflife.errors.InvalidInput: halflife.history of version 9 was written by a newer halflife: this one reads 1
    """
    try:
        data = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidInput(f"not JSON, so no {name}: {error}") from None
    if not isinstance(data, dict) or data.get("format") != name:
        raise InvalidInput(f"not a {name}: its 'format' says otherwise")
    if data.get("version") != FORMAT_VERSION:
        version = data.get("version")
        raise InvalidInput(
            f"{name} of version {version} was written by a newer halflife: this one reads {FORMAT_VERSION}"
        )
    return data
