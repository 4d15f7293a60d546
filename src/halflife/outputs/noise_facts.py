"""What is public about the noise in a stream's rows: which rows share a noise, and which were post-processed.

A Parquet output says it in its metadata (key `noise`), so that whoever adds rows up knows which errors are independent. It
comes from the policy and the ledger's record of post-processing, and from nothing else.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from halflife.errors import InvalidInput
from halflife.local_time import DAY
from halflife.numerics.arrays import Integers
from halflife.numerics.forms import JsonObject, leave_out, read_form
from halflife.numerics.noise_sums import GAUSSIAN_BAND, LAPLACE_BAND, band_of_noises
from halflife.numerics.parameters import real, whole
from halflife.steps import Steps

KEY = "noise"
"""The key of Parquet metadata."""
BANDS = {"laplace": LAPLACE_BAND, "gaussian": GAUSSIAN_BAND}


class Layer(NamedTuple):
    """One noise of each step: its number, the same where it is the same noise, and its scale in bands of the row."""

    numbers: Integers
    share: float


@dataclass(frozen=True)
class NoiseFacts:
    """The noise of a stream's rows.

    family    of all its noise
    period    reused noise: of how many phases; None where every row has noise of its own
    by_clock  reused noise: whether phases are times of the wall clock, else steps are counted from the first
    renew     reused noise: after how many periods it is drawn anew; None for never
    fresh     reused noise: the scale of the fresh noise atop it over its own; 0 without such
    post      from which step on which post-processing was in force, in order; before and without any, rows are raw
    people    of means by group: how many people each group has, by its name. Empty where groups add up

    >>> NoiseFacts.from_json(NoiseFacts("laplace", 48, post=((1, ("truncate",)),)).to_json()).find_post(3)
    ('truncate',)
    """

    family: str
    period: int | None = None
    by_clock: bool = False
    renew: int | None = None
    fresh: float = 0.0
    post: tuple[tuple[int, tuple[str, ...]], ...] = ()
    people: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(
        cls,
        facts: Mapping[str, object],
        post: Sequence[tuple[int, Sequence[str]]] = (),
        people: Mapping[str, object] | None = None,
    ) -> Self:
        """Read what a mechanism says about its noise, the record of post-processing, and the people of groups with means."""
        form = read_form("noise", facts, ("family",), period=None, by_clock=False, renew=None, fresh=0.0)
        if form["family"] not in BANDS:
            raise InvalidInput(f"noise is of one of the families {', '.join(BANDS)}, not {form['family']!r}")
        period, renew = (None if form[k] is None else whole(k, form[k], least=1) for k in ("period", "renew"))
        chains = tuple((whole("from", step, least=1), tuple(map(str, names))) for step, names in post)
        sizes = tuple((str(name), whole("people", count, least=1)) for name, count in (people or {}).items())
        return cls(form["family"], period, bool(form["by_clock"]), renew, real("fresh", form["fresh"]), chains, sizes)

    def to_json(self) -> str:
        """Return the versioned form that files hold, without defaults."""
        form: JsonObject = {
            "version": 1, "family": self.family, "period": self.period, "by_clock": self.by_clock, "renew": self.renew,
            "fresh": self.fresh, "post": [[step, list(names)] for step, names in self.post], "people": dict(self.people),
        }  # fmt: skip
        return json.dumps(leave_out(form, period=None, by_clock=False, renew=None, fresh=0.0, post=[], people={}))

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read what `to_json` gave; refuse a form of another version."""
        try:
            form = json.loads(text)
            post, people = form.pop("post", []), form.pop("people", {})
            return cls.of(form, [(step, names) for step, names in post], dict(people))
        except (ValueError, TypeError, AttributeError) as error:
            raise InvalidInput(f"what the file says about its noise is not understood: {error}") from None

    def find_post(self, step: int) -> tuple[str, ...]:
        """Return the names of the post-processing that was in force at a step."""
        place = bisect_right(self.post, step, key=lambda item: item[0])
        return self.post[place - 1][1] if place else ()

    def layers(self, steps: Integers, starts: Integers, ends: Integers, zone: str | None) -> list[Layer] | None:
        """Return the noises of raw steps; None if it cannot be told which of them are the same.

        starts, ends  of the steps, in µs;  zone  whose clock phases follow, None if it is not known
        """
        fresh = Layer(steps, 1 / BANDS[self.family])
        if self.period is None:
            return [fresh]
        phases = self._phases(steps, starts, ends, zone)
        if phases is None:
            return None
        renewal = (steps - 1) // (self.renew * self.period) if self.renew else steps * 0
        whole_band = band_of_noises(np.array([1.0, self.fresh]))
        reused = Layer(-1 - (renewal * self.period + phases), 1 / whole_band)
        return [reused, Layer(steps, self.fresh / whole_band)] if self.fresh else [reused]

    def _phases(self, steps: Integers, starts: Integers, ends: Integers, zone: str | None) -> Integers | None:
        assert self.period is not None
        if not self.by_clock:
            return (steps - 1) % self.period
        width = int(ends[0] - starts[0])
        if zone is None or (ends - starts != width).any() or DAY % width:
            return None
        clock = Steps(int(starts[0]) - (int(steps[0]) - 1) * width, width, 0, zone)
        return np.array([clock.phase(step, self.period) for step in steps.tolist()], dtype=np.int64)
