"""A folder of their own for the noise keys that tests make: the user's key ring is not touched, whoever runs them."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

FOLDER = "HALFLIFE_TEST_KEYS"
"""Workers and programs that tests start find here that it was done."""


def use_own_keys() -> None:
    """Let key rings lie in a folder that is gone at the end, and no key come from the environment."""
    for name in ("HALFLIFE_NOISE_KEY", "HALFLIFE_NOISE_KEY_FILE"):
        os.environ.pop(name, None)
    if FOLDER not in os.environ:
        os.environ[FOLDER] = os.environ["XDG_CONFIG_HOME"] = tempfile.mkdtemp(prefix="halflife-test-keys-")
        atexit.register(shutil.rmtree, os.environ[FOLDER], ignore_errors=True)
