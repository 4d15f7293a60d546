"""`halflife key`: which key a ledger is sealed with, and sealing all of it with another one.

A changed key changes states and publishes nothing, so it stands in the ledger's chain as an event, by fingerprints. The old key
is left where it is: copies of the ledger from before need it, and whoever has both can open those.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import NamedTuple

from halflife.errors import HalflifeError, InvalidInput
from halflife.ledger import open_ledger
from halflife.policy import GivenPolicy, Policy
from halflife.publisher.secrets_at_rest.places import NoiseKeys, add_key
from halflife.publisher.secrets_at_rest.sealing import NoiseKey
from halflife.publisher.session import Session

EVENT = "noise key"


class KeyStanding(NamedTuple):
    """Which key a ledger's noise is sealed with (None: nothing is sealed), where it was found, and else why not."""

    id: str | None
    found: str | None = None
    why_not: str | None = None


class Rotation(NamedTuple):
    """The fingerprints of the key before (None: noise lay open) and now."""

    before: str | None
    now: str


def find_noise_key(policy: GivenPolicy) -> KeyStanding:
    """Return which key a policy's ledger is sealed with, and whether it is at hand. Nothing of a key is returned."""
    made = Policy.of(policy)
    with open_ledger(made.ledger_url, read_only=True) as book:
        streams = [json.loads(text) for name, text in book.states().items() if name.startswith("stream:")]
    sealed = {state["sealed"]["key"] for state in streams if "sealed" in state}
    if not sealed:
        return KeyStanding(None)
    wanted = sealed.pop()
    try:
        return KeyStanding(wanted, NoiseKeys(made).find(wanted)[1])
    except HalflifeError as error:
        return KeyStanding(wanted, None, str(error))


def rotate_noise_key(policy: GivenPolicy, *, wait: float = 10.0, clock: Callable[[], float] = time.time) -> Rotation:
    """Seal all noise that a ledger keeps with a new key: made in the place that the policy or environment names, or the key ring.

    A file gets the new key before the old ones. Where halflife cannot write (the environment, a keyring), put the new key before
    the old one yourself. Noise that lies open in an older ledger is sealed.
    """
    session = Session(policy, clock)
    try:
        with session.hold(wait):
            saved = session.saved
            if not saved.draw.names:
                raise InvalidInput(
                    f"{session.ledger.name}: keeps no noise to be used again, so there is nothing to seal"
                )
            before = None if saved.key is None else saved.key.id
            now = _find_next(session.keys, saved.key)
            event = {"kind": EVENT, "from": before, "to": now.id}
            saved.change_key(now, session.now_us(), json.dumps(event))
            with session.ledger.showing():
                session.marks.mark_shown()
            return Rotation(before, now.id)
    finally:
        session.close()


def _find_next(keys: NoiseKeys, old: NoiseKey | None) -> NoiseKey:
    """The key to change to: the newest of the first place if it is another one, else one that is made there."""
    newest = keys.newest()
    if newest is not None and (old is None or newest.id != old.id):
        return newest
    if newest is None:
        return keys.make_in_ring()
    place = keys.places()[0]
    if place.file is None:
        raise InvalidInput(
            f"{place.name} holds the key that is in use: put a new one before it, apart by a blank (`halflife key create` makes "
            "one), and rotate again"
        )
    made = NoiseKey.make()
    add_key(place.file, made)
    return made
