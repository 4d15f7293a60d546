"""Sealing: a text that only a key opens, and only in the place that it was sealed for.

    sealed = nonce ‖ AES-256-GCM(key, nonce, text, about)          nonce: 96 fresh random bits (known: NIST SP 800-38D)

`about` is authenticated and not kept: whoever opens the text must know it already. So a text that was moved, or whose
surroundings were changed, does not open. A key is named by a fingerprint, HMAC-SHA-256(key, a fixed text) cut to 64 bits, from
which nothing of it follows.

Random nonces are safe for 2³² texts under one key (SP 800-38D, 8.3): a batch every second for a century.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable

from halflife.errors import InvalidInput, LedgerError

SIZE, NONCE = 32, 12
"""Bytes of a key and of a nonce."""
NAME = b"halflife noise key"


class NoiseKey:
    """A secret key of 256 bits, which does not print.

    id  its fingerprint, by which ledgers name it

    >>> key = NoiseKey(bytes(32))
    >>> key
    NoiseKey(5e0ab54550c7eb75)
    >>> open_sealed(key, seal(key, b"noise", b"here"), b"here")
    b'noise'
    """

    __slots__ = ("_raw", "id")

    def __init__(self, raw: bytes) -> None:
        if len(raw) != SIZE:
            raise InvalidInput(f"a noise key has {SIZE} bytes, not {len(raw)}: make one with `halflife key create`")
        self._raw = raw
        self.id = hmac.new(raw, NAME, hashlib.sha256).hexdigest()[:16]

    def __repr__(self) -> str:
        return f"NoiseKey({self.id})"

    def __reduce__(self) -> str:
        raise InvalidInput("a noise key is not copied into anything that may be written")

    @classmethod
    def make(cls) -> NoiseKey:
        """Return a new key, from the system's source of randomness."""
        return cls(secrets.token_bytes(SIZE))

    def write(self) -> str:
        """Return the key itself, as its file holds it: a secret."""
        return base64.b64encode(self._raw).decode()


def read_keys(text: str) -> list[NoiseKey]:
    """Return the keys in a text, newest first: each 32 bytes in base64 or 64 hex digits, apart by blanks, commas or lines.

    A line that begins with # says nothing. What is no key is not quoted: it may be one with a character missing.

    >>> read_keys("# old and new\\n" + "00" * 32)
    [NoiseKey(5e0ab54550c7eb75)]
    >>> read_keys("open sesame")
    Traceback (most recent call last):
    ...
    halflife.errors.InvalidInput: word 1 is no key: a key is 32 bytes in base64 or as 64 hex digits, as `halflife key create` ...
    """
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    found = []
    for number, word in enumerate(re.split(r"[\s,]+", " ".join(lines).strip()), start=1):
        raw = decode_key(word)
        if raw is None:
            raise InvalidInput(
                f"word {number} is no key: a key is {SIZE} bytes in base64 or as {2 * SIZE} hex digits, as `halflife key create` "
                "writes it"
            )
        found.append(NoiseKey(raw))
    return found


def decode_key(word: str) -> bytes | None:
    """Return the bytes of a key from how it is written; None if it is none.

    >>> decode_key("AA" * 32) == b"\\xaa" * 32, decode_key("halflife")
    (True, None)
    """
    if re.fullmatch(rf"[0-9a-fA-F]{{{2 * SIZE}}}", word):
        return bytes.fromhex(word)
    if not re.fullmatch(r"[A-Za-z0-9+/_-]{43}=?", word):
        return None
    return base64.b64decode(word.replace("-", "+").replace("_", "/").rstrip("=") + "=")


def seal(key: NoiseKey, text: bytes, about: bytes) -> str:
    """Return the text sealed for the place that `about` names, in base64; another one each time."""
    nonce = secrets.token_bytes(NONCE)
    return base64.b64encode(nonce + _cipher(key)(nonce, text, about)).decode()


def open_sealed(key: NoiseKey, sealed: str, about: bytes) -> bytes:
    """Return the text; refuse one that was changed, or sealed with another key or for another place. Nothing is quoted."""
    from cryptography.exceptions import InvalidTag

    try:
        raw = base64.b64decode(sealed, validate=True)
        return _cipher(key, opening=True)(raw[:NONCE], raw[NONCE:], about)
    except (InvalidTag, binascii.Error, ValueError, TypeError):
        pass
    raise LedgerError(f"what is sealed with the key {key.id} was changed, or moved here from elsewhere")


def _cipher(key: NoiseKey, opening: bool = False) -> Callable[[bytes, bytes, bytes], bytes]:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    made = AESGCM(key._raw)
    return made.decrypt if opening else made.encrypt
