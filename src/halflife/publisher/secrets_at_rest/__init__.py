"""Noise that is kept to be used again, sealed in the ledger: keys, where they are looked for, and how they are exchanged."""

from halflife.publisher.secrets_at_rest.places import NoiseKeys, PassingKeys, make_key_file
from halflife.publisher.secrets_at_rest.sealing import NoiseKey, open_sealed, seal

__all__ = ["NoiseKey", "NoiseKeys", "PassingKeys", "make_key_file", "open_sealed", "seal"]
