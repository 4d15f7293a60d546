"""Where a ledger's noise key is looked for, and where one is made.

In this order: the environment (`HALFLIFE_NOISE_KEY`, the key itself, or `HALFLIFE_NOISE_KEY_FILE`, its file), the place that the
policy names (`noise_key: file:… | env:… | keyring:…`), and the user's key ring, a folder with one file for each key. Each place
may hold several keys, newest first; a ledger says by a fingerprint which one it needs. The key itself is in no policy and no
ledger.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from halflife.errors import HalflifeError, InvalidInput, LedgerError, missing_extra
from halflife.parsing.documents import read_regular
from halflife.policy import Policy
from halflife.publisher.secrets_at_rest.sealing import NoiseKey, read_keys

log = logging.getLogger("halflife.publisher")
KEY, KEY_FILE = "HALFLIFE_NOISE_KEY", "HALFLIFE_NOISE_KEY_FILE"
LARGEST = 100_000
ABOUT = "It opens the noise that a ledger keeps. Back it up apart from the ledger: neither is worth anything without the other."


class Place(NamedTuple):
    """Where keys are: what messages call it, how they are read (newest first), and its file, to which one can be added."""

    name: str
    read: Callable[[], list[NoiseKey]]
    file: Path | None = None


class NoiseKeys:
    """The keys at hand for a policy's ledger."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def places(self) -> list[Place]:
        """Return the places that somebody has named; the key ring is not among them."""
        found = []
        if os.environ.get(KEY):
            found.append(_in_environment(KEY))
        if os.environ.get(KEY_FILE):
            found.append(_in_file(Path(os.environ[KEY_FILE])))
        if self._policy.noise_key is not None:
            kind, _, where = self._policy.noise_key.partition(":")
            read = {"file": lambda: _in_file(self._policy.path(where)), "env": lambda: _in_environment(where)}
            found.append(read.get(kind, lambda: _in_keyring(where))())
        return found

    def find(self, wanted: str) -> tuple[NoiseKey, str]:
        """Return the key of this fingerprint and where it was found; refuse if it is nowhere, with all places that were tried."""
        tried = []
        for place in (*self.places(), _in_ring(wanted)):
            try:
                keys = place.read()
            except HalflifeError as error:
                tried.append(str(error))
                continue
            for key in keys:
                if key.id == wanted:
                    return key, place.name
            tried.append(f"{place.name}: holds another key ({', '.join(key.id for key in keys)})")
        raise LedgerError(
            f"{self._policy.ledger_url}: the noise that it keeps is sealed with the key {wanted}, which is not at hand. "
            f"Tried: {'; '.join(tried)}. Without it nothing more can be published from this ledger: bring the key back, or set "
            f"{KEY_FILE} to where it is"
        )

    def check(self) -> None:
        """Refuse if there is no key for a ledger that has none yet, and none could be made."""
        if not self.places():
            _make_ring()
        self.newest()

    def newest(self) -> NoiseKey | None:
        """Return the newest key of the first place that somebody has named; None if nobody has."""
        for place in self.places():
            try:
                return place.read()[0]
            except HalflifeError as error:
                raise LedgerError(
                    f"{self._policy.ledger_url}: keeps noise to be used again, and has no key to seal it with: {error}: "
                    "`halflife key create` makes one"
                ) from None
        return None

    def choose(self) -> NoiseKey:
        """Return the key for a ledger that has none yet: the newest that is named, or one that is made in the key ring."""
        return self.newest() or self.make_in_ring()

    def make_in_ring(self) -> NoiseKey:
        """Make a key in the key ring, and say so, once."""
        key = NoiseKey.make()
        file = _make_ring() / f"{key.id}.key"
        make_key_file(file, key)
        log.warning(
            f"{self._policy.ledger_url} keeps noise that is used again, sealed with a key that was made in {file}. Without this "
            "file nothing more can be published from the ledger, and no backup of the ledger is worth anything: back it up, "
            "apart from the ledger. This is said once"
        )
        return key


class PassingKeys(NoiseKeys):
    """One key in memory, for ledgers that are thrown away with this process: no file is made, and nobody's key is asked for."""

    def __init__(self) -> None:
        self._key = NoiseKey.make()

    def find(self, wanted: str) -> tuple[NoiseKey, str]:
        """Return the key."""
        if wanted != self._key.id:
            raise LedgerError(f"the key {wanted} is of a ledger that another process made to throw away")
        return self._key, "memory"

    def check(self) -> None:
        """There is one."""

    def choose(self) -> NoiseKey:
        """Return the key."""
        return self._key


def make_key_file(file: Path, key: NoiseKey | None = None) -> NoiseKey:
    """Write a new file with a key that its owner alone can read, and wait until it is on disk; refuse to replace a file."""
    made = key or NoiseKey.make()
    _write(file, f"# A noise key of halflife, {made.id}. {ABOUT}\n{made.write()}\n", replace=False)
    return made


def add_key(file: Path, key: NoiseKey) -> None:
    """Put a key before those that a file holds, whole or not at all: they are still needed until the ledger has changed over."""
    place = Path(os.path.realpath(file))
    _write(place, f"# {key.id}, newer than what follows. {ABOUT}\n{key.write()}\n{_read(place)}", replace=True)


def key_ring() -> Path:
    """Return the folder of the user's keys."""
    given = os.environ.get("XDG_CONFIG_HOME", "")
    try:
        return (Path(given) if os.path.isabs(given) else Path.home() / ".config") / "halflife" / "keys"
    except RuntimeError:
        raise InvalidInput(
            f"no folder for keys, as the user has no home: set {KEY_FILE} to the file of a key"
        ) from None


def _in_environment(variable: str) -> Place:
    def read() -> list[NoiseKey]:
        if not os.environ.get(variable):
            raise InvalidInput(f"{variable}: is not set in the environment")
        return _read_keys(variable, os.environ[variable])

    return Place(f"{variable} in the environment", read)


def _in_file(file: Path) -> Place:
    return Place(str(file), lambda: _read_keys(str(file), _read(file)), file)


def _in_ring(wanted: str) -> Place:
    return _in_file(key_ring() / f"{wanted}.key")


def _in_keyring(where: str) -> Place:
    service, _, user = where.partition("/")

    def read() -> list[NoiseKey]:
        try:
            import keyring
        except ImportError:
            raise missing_extra("keyring", "keyring", "a key in the system's keyring") from None
        try:
            text = keyring.get_password(service, user)
        except Exception as error:  # whatever a backend raises
            raise InvalidInput(f"the keyring cannot be read ({type(error).__name__}): unlock it") from None
        if not text:
            raise InvalidInput(f"the keyring has nothing of {where}")
        return _read_keys("the keyring", text)

    return Place(f"{where} in the keyring", read)


def _read_keys(name: str, text: str) -> list[NoiseKey]:
    try:
        return read_keys(text)
    except InvalidInput as error:
        raise InvalidInput(f"{name}: {error}") from None


def _read(file: Path) -> str:
    """What a key's file holds; refuse one that everybody on the machine can read."""
    try:
        if stat.S_IMODE(os.stat(file).st_mode) & stat.S_IROTH:
            raise InvalidInput(f"{file}: everybody on this machine can read this key: chmod o= {file}")
        return read_regular(file, LARGEST).decode()
    except OSError as error:
        raise InvalidInput(f"{file}: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{file}: is no text, and so no key") from None


def _make_ring() -> Path:
    """The key ring's folder, made if it is not there."""
    folder = key_ring()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(0, "permission denied")
    except OSError as error:
        why = (error.strerror or str(error)).lower()
    else:
        return folder
    raise LedgerError(
        f"noise that is kept to be used again is sealed with a key, and {folder}, where keys are made, cannot be written: {why}. "
        f"Make one elsewhere with `halflife key create`, and name its file in the policy (noise_key: file:…) or in {KEY_FILE}"
    )


def _write(file: Path, text: str, *, replace: bool) -> None:
    """Write a file for its owner alone, and wait until it and its name are on disk."""
    beside = file.with_name(f"{file.name}.new") if replace else file
    try:
        mode = stat.S_IMODE(os.stat(file).st_mode) if replace else 0o600
        anew = os.O_TRUNC if replace else os.O_EXCL  # what a killed run left beside is written over
        number = os.open(beside, os.O_WRONLY | os.O_CREAT | anew | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with open(number, "w", encoding="utf-8", closefd=False) as out:
                out.write(text)
            os.fchmod(number, mode)
            os.fsync(number)
        finally:
            os.close(number)
        if replace:
            os.replace(beside, file)
        folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except FileExistsError:
        raise InvalidInput(f"{beside} is there already, and keys are not written over: give another path") from None
    except OSError as error:
        raise InvalidInput(f"{file}: a key cannot be written there: {error.strerror or error}") from None
