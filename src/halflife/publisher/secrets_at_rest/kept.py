"""What a stream's state in the ledger says about noise that is used again: its facts in the open, its numbers sealed.

    version 1   noise: by name, its numbers with it; mechanism: its state        (as halflife wrote it before noise was sealed)
    version 2   noise: by name, how many numbers, and what the account knows of them anyway (grid, loss, scale, family)
                sealed: {key: fingerprint, text: the numbers and the mechanism's state}
                or, once the stream is over:  destroyed: names of the noise that there was

So whoever verifies a ledger sees which noise is whose, and that it is there, without the key. The mechanism's state is sealed
with the numbers, as it may follow from them. The sealed text is bound to the ledger (the first link of its chain), the stream,
the form and the facts in the open. Its length says nothing about the numbers: each is counted as if it had as many digits as a
noise 64 times its scale.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from halflife.errors import InvalidInput
from halflife.numerics.forms import JsonObject, check_version, read_form
from halflife.publisher.secrets_at_rest.sealing import NoiseKey, open_sealed, seal

VERSION = 2
WIDEST = 64
"""Noise beyond so many times its scale is never drawn: e⁻⁶⁴ is 2·10⁻²⁸."""


class Kept(NamedTuple):
    """What a stream's state keeps for its mechanism.

    noise      by name, as `ReleaseDraw.restore` takes it; without its numbers (`units`) where they are sealed
    mechanism  the mechanism's state, None where it is sealed or there is none
    key        the fingerprint of the key that it is sealed with;  text  what is sealed
    destroyed  names of noise that was destroyed
    """

    noise: Mapping[str, JsonObject]
    mechanism: Any
    key: str | None
    text: str | None
    destroyed: tuple[str, ...]

    @property
    def lies_open(self) -> bool:
        """Whether noise is in it for everybody to read."""
        return bool(self.noise) and self.key is None


def read_kept(state: Mapping[str, Any]) -> Kept:
    """Read the part of a stream's state that is about kept noise, of either version; nothing is opened."""
    noise, sealed, destroyed = state["noise"], state["sealed"], state["destroyed"]
    if not isinstance(noise, dict) or not isinstance(destroyed, list) or (noise and destroyed):
        raise InvalidInput("the noise of a stream is kept by name")
    if not all(isinstance(name, str) for name in destroyed):
        raise InvalidInput("names of noise are texts")
    if sealed is None:
        return Kept(noise, state["mechanism"], None, None, tuple(destroyed))
    form = read_form("sealed noise", sealed, ("key", "text"))
    open_too = any(not isinstance(facts, dict) or "units" in facts for facts in noise.values())
    if not noise or open_too or not all(isinstance(form[key], str) for key in ("key", "text")):
        raise InvalidInput("sealed noise is not as it was written")
    return Kept(noise, None, form["key"], form["text"], ())


def seal_kept(key: NoiseKey, ledger: bytes, stream: str, noise: Mapping[str, JsonObject], mechanism: Any) -> JsonObject:
    """Return the part of a stream's state that is about its kept noise, sealed."""
    facts = {
        name: {k: v for k, v in kept.items() if k != "units"} | {"size": len(kept["units"])}
        for name, kept in noise.items()
    }
    text = json.dumps({"units": [kept["units"] for kept in noise.values()], "mechanism": mechanism})
    spare = sum(_spare(kept["units"], kept["scale"], kept["grid"]) for kept in noise.values())
    sealed = seal(key, (text + " " * spare).encode(), _about(ledger, stream, facts))
    return {"noise": facts, "sealed": {"key": key.id, "text": sealed}}


def open_kept(key: NoiseKey, ledger: bytes, stream: str, kept: Kept) -> Kept:
    """Return what is kept with its numbers; refuse it if it was changed, or is another stream's or ledger's."""
    assert kept.text is not None
    form = json.loads(open_sealed(key, kept.text, _about(ledger, stream, kept.noise)))
    numbers = zip(kept.noise.items(), form["units"], strict=True)
    noise = {name: {**facts, "units": units} for (name, facts), units in numbers}
    return kept._replace(noise=noise, mechanism=form["mechanism"])


def destroy_kept(state: str) -> str:
    """Return a stream's state without its noise, whose names it goes on to say: for a stream that is over. No key is needed.

    >>> destroy_kept('{"version": 2, "smoothers": [], "noise": {"phase 0": {}}, "sealed": {"key": "a", "text": "b"}}')
    '{"version": 2, "smoothers": [], "destroyed": ["phase 0"]}'
    """
    form = json.loads(state)
    check_version("the state of a stream", form, VERSION)
    names = sorted({*form.get("noise", ()), *form.get("destroyed", ())})
    if not names:
        return state
    return json.dumps({"version": VERSION, "smoothers": form.get("smoothers", []), "destroyed": names})


def _about(ledger: bytes, stream: str, facts: Mapping[str, Any]) -> bytes:
    """What a sealed text is bound to."""
    said = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
    return json.dumps(["halflife kept noise", VERSION, ledger.hex(), stream, said]).encode()


def _spare(units: list[int], scale: float, grid: float) -> int:
    """By how many characters these numbers are shorter than the longest that are ever drawn.

    >>> [_spare([n], 2.0, 0.5) for n in (0, -3, 256)]
    [3, 2, 1]
    """
    return sum(max(0, _widest(scale, grid) - len(str(unit))) for unit in units)


@lru_cache(64)
def _widest(scale: float, grid: float) -> int:
    return len(str(-int(WIDEST * Fraction(scale) / Fraction(grid)))) if grid else 1
