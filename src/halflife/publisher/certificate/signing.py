"""Signatures of certificates: Ed25519 (known: Bernstein et al. 2011; RFC 8032) over the content in one canonical form of JSON.

The canonical form has its keys in order, no blanks, text as it is, whole numbers without a point, and other doubles as Python
writes them, which read back to the same bits. So a certificate may be printed in any way, also by what writes 1 for 1.0, and
its signature still holds; a changed byte of what it says breaks it. Keys are files in PEM, as `openssl genpkey -algorithm
ed25519` makes them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from halflife.errors import InvalidInput, missing_extra
from halflife.numerics.forms import JsonObject
from halflife.parsing.documents import read_regular

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

ALGORITHM = "Ed25519"
PASSPHRASE = "HALFLIFE_KEY_PASSPHRASE"
LARGEST_KEY = 10_000


def write_canonical(content: object) -> bytes:
    """Return the bytes that are signed.

    >>> write_canonical({"b": 0.1, "a": ["ε", None, 1.0]}).decode()
    '{"a":["ε",null,1],"b":0.1}'
    """
    content = _whole_numbers(content)
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def _whole_numbers(value: Any) -> Any:
    """JSON data with whole doubles as integers: in JSON 1.0 and 1 are one number, and many programs write it as 1."""
    if isinstance(value, dict):
        return {key: _whole_numbers(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_whole_numbers(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def sign(content: object, key: Path | str) -> JsonObject:
    """Return the signature of a certificate's content with the private key in a file."""
    private = read_private_key(Path(key))
    value = private.sign(write_canonical(content))
    return {"algorithm": ALGORITHM, "public_key": _encode(_raw(private.public_key())), "value": _encode(value)}


def check_signature(content: object, signature: object) -> str | None:
    """Return the fingerprint of the key that signed the content; None if the signature does not hold."""
    ed25519 = _load()
    try:
        if not isinstance(signature, dict) or signature["algorithm"] != ALGORITHM:
            return None
        raw, value = (_decode(signature[name]) for name in ("public_key", "value"))
        ed25519.Ed25519PublicKey.from_public_bytes(raw).verify(value, write_canonical(content))
    except (KeyError, TypeError, ValueError, _invalid_signature()):
        return None
    return fingerprint(raw)


def fingerprint(raw: bytes) -> str:
    """Return the fingerprint of a public key: SHA-256 of its 32 bytes."""
    return f"SHA256:{hashlib.sha256(raw).hexdigest()}"


def read_public_key(path: Path) -> str:
    """Return the fingerprint of the public key in a PEM file; of a private one, that of its public half."""
    _load()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    pem = _read(path)
    if b"PRIVATE KEY" in pem:
        return fingerprint(_raw(read_private_key(path).public_key()))
    try:
        public = load_pem_public_key(pem)
    except (ValueError, TypeError) as error:
        raise InvalidInput(f"{path} holds no public key in PEM: give the signer's public key") from error
    if not isinstance(public, Ed25519PublicKey):
        raise InvalidInput(f"{path} holds a key of another kind: certificates are signed with {ALGORITHM}")
    return fingerprint(_raw(public))


def read_private_key(path: Path) -> Ed25519PrivateKey:
    """Return the private key in a PEM file; its passphrase, if it has one, is in the environment. No byte of it is ever shown."""
    _load()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    passphrase = os.environ.get(PASSPHRASE)
    pem = _read(path)
    try:
        key = load_pem_private_key(pem, passphrase.encode() if passphrase and b"ENCRYPTED" in pem else None)
    except TypeError:
        raise InvalidInput(f"{path} is protected by a passphrase: set {PASSPHRASE} in the environment") from None
    except ValueError:
        raise InvalidInput(
            f"{path} cannot be read as a private key in PEM, or its passphrase is wrong: make one with "
            f"openssl genpkey -algorithm ed25519 -out {path.name}"
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidInput(
            f"{path} holds a key of another kind: certificates are signed with {ALGORITHM}; make one with openssl genpkey "
            f"-algorithm ed25519 -out {path.name}"
        )
    return key


def _read(path: Path) -> bytes:
    try:
        return read_regular(path, LARGEST_KEY)
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read: {error.strerror or error}: give the path of a key") from None


def _raw(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes_raw()


def _encode(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _decode(text: str) -> bytes:
    raw = base64.b64decode(text, validate=True)
    if _encode(raw) != text:  # the last character has bits that stand for nothing
        raise ValueError("not as base64 is written")
    return raw


def _load() -> Any:
    """The module of the `cryptography` package, or a word on which extra to install."""
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise missing_extra("cryptography", "sign", "a signature") from None
    return ed25519


def _invalid_signature() -> type[Exception]:
    from cryptography.exceptions import InvalidSignature

    return InvalidSignature
