"""Names of reused noise, each bound to one phase, one sensitivity and one scale.

Two values that carry the same draw differ exactly, so a name is a claim that they are about the same part of the period. The
account holds whoever makes it to what the name was first used for; anything else has no bound (decision 12). Names that are out
of use are retired, so that an account does not grow: names that differ in `, renewal N` alone are retired together, and of
these the newest is remembered.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from typing import Any, NamedTuple

from halflife.errors import InvalidInput, UnboundedLoss
from halflife.numerics.forms import JsonObject
from halflife.numerics.parameters import real, whole
from halflife.release import Release


class Use(NamedTuple):
    """Reused noise: what it cost, its scale, the sensitivity and phase it was drawn for, and step and data time of its last use.

    A loss of 0 is noise that was only met under fresh noise. `atop` is the sensitivity of what is published under fresh noise
    atop it, None until that is known: another one would be another number.
    """

    loss: float
    scale: float | None
    sensitivity: float
    phase: int
    last: int
    time: int
    atop: float | None = None

    @classmethod
    def of(cls, release: Release, phase: int, atop: float | None) -> Use:
        """Return noise that is drawn for this release."""
        facts = (release.loss, release.scale, release.sensitivity)
        return cls(*facts, phase, release.step, release.data_time, atop)

    def fits(self, release: Release, phase: int) -> bool:
        """Whether the release is of the number and phase that the noise was drawn for: published with it alone, or atop it."""
        if release.draw is None:
            return self.phase == phase and self.atop in (None, release.sensitivity)
        return self[:4] == (release.loss, release.scale, release.sensitivity, phase)

    def use_again(self, release: Release, phase: int) -> Use:
        """Return the noise after this use."""
        atop = self.atop if release.draw is not None else release.sensitivity
        return self._replace(phase=phase, last=release.step, time=release.data_time, atop=atop)


class Names(NamedTuple):
    """Names in use, and by their stem those that were retired, with their renewal. Neither mapping is ever changed.

    met  which of those in use have no loss: kept beside them, as they are asked for at every release
    """

    used: Mapping[str, Use] = {}
    retired: Mapping[str, tuple[int, Use]] = {}
    met: frozenset[str] = frozenset()

    @property
    def drawn(self) -> Set[str]:
        """The names in use whose noise was drawn."""
        return self.used.keys() - self.met if self.met else self.used.keys()

    def find(self, name: str, release: Release, phase: int) -> Use | None:
        """Return what is known of noise in use, None if the name is new or may begin anew; refuse another job for it."""
        known = self.used.get(name)
        if known is not None and (known.phase != phase or not (release.draw or known.fits(release, phase))):
            raise other_job(name, known, release)
        if known is not None:
            return known
        stem, renewal = _split(name)
        newest, old = self.retired.get(stem, (-1, None))
        if old is not None and renewal <= newest and (renewal < newest or not old.fits(release, phase)):
            raise other_job(name, old, release)
        return None

    def put(self, name: str, use: Use) -> Names:
        """Return the names with this use."""
        same = (name in self.met) == (use.loss == 0)
        return Names({**self.used, name: use}, self.retired, self.met if same else self.met ^ {name})

    def retire(self, gone: Iterable[str]) -> Names:
        """Return the names without these, which are remembered by their stem."""
        used, retired = dict(self.used), dict(self.retired)
        for name in gone:
            stem, renewal = _split(name)
            retired[stem] = max((renewal, used.pop(name)), retired.get(stem, (-1, None)), key=lambda item: item[0])  # type: ignore[assignment]
        return Names(used, retired, self.met.intersection(used))

    def dump(self) -> JsonObject:
        """Return the names as JSON can hold them."""
        retired = [[stem, renewal, *_write(use)] for stem, (renewal, use) in self.retired.items()]
        return {"names": [[name, *_write(use)] for name, use in self.used.items()], "retired": retired}

    @classmethod
    def load(cls, data: object) -> Names:
        """Read what `dump` gave, among other keys."""
        if not isinstance(data, Mapping) or not all(isinstance(data.get(k), list) for k in ("names", "retired")):
            raise InvalidInput("an almost-periodic account must hold the names of its noise, used and retired")
        used = dict(_read(item, 1) for item in data["names"])
        retired = {}
        for item in data["retired"]:
            stem, use = _read(item, 2)
            retired[stem] = (whole("renewal", item[1], least=0), use)
        if len(used) != len(data["names"]) or len(retired) != len(data["retired"]):
            raise InvalidInput("a name of reused noise stands twice")
        return cls(used, retired, frozenset(name for name, use in used.items() if not use.loss))


def other_job(name: str, known: Use, release: Release) -> UnboundedLoss:
    """Return the error for noise used for another phase, sensitivity or scale than it was drawn for."""
    return UnboundedLoss(
        f"step {release.step}: the noise {name!r} was drawn at a loss of {known.loss:g} for one number of sensitivity "
        f"{known.sensitivity:g} of phase {known.phase}, last used at step {known.last}: used for anything else, or twice at one "
        "step, its values tell each other apart: give every phase and every number noise of its own name",
        step=release.step,
    )


def _split(name: str) -> tuple[str, int]:
    """The stem of a name, and which renewal it is of.

    >>> _split("homes: phase 3, renewal 12"), _split("phase 3")
    (('homes: phase 3', 12), ('phase 3', 0))
    """
    found = re.fullmatch(r"(.*), renewal (\d{1,15})", name, re.DOTALL)
    return (found[1], int(found[2])) if found else (name, 0)


def _write(use: Use) -> list[Any]:
    return [use.loss, use.scale, use.sensitivity, use.phase, use.last, use.time, use.atop]


def _read(item: Any, head: int) -> tuple[str, Use]:
    if not isinstance(item, list) or len(item) != head + 7 or not isinstance(item[0], str):
        raise InvalidInput(
            "reused noise must be [name, loss, scale, sensitivity, phase, last use, data time, sensitivity atop it]"
        )
    loss, scale, sensitivity, phase, last, time, atop = item[head:]
    return item[0], Use(
        real("loss", loss),
        None if scale is None else real("scale", scale),
        real("sensitivity", sensitivity),
        whole("phase", phase, least=0),
        whole("last use", last, least=1),
        whole("data time", time),
        None if atop is None else real("sensitivity", atop),
    )
