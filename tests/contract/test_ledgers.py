"""The suite for ledgers passes one that keeps the contract, and catches each that breaks it in one way."""

from __future__ import annotations

import pytest

from contract.fake_ledgers import BROKEN, FakeLedger, make_subject
from halflife.testing import LEDGER_CHECKS


@pytest.mark.parametrize("check", [c for c in LEDGER_CHECKS if "costs" not in c])
def test_a_ledger_in_memory_passes(check):
    LEDGER_CHECKS[check](make_subject(FakeLedger))


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_a_broken_ledger_is_caught(kind):
    with pytest.raises(AssertionError):
        LEDGER_CHECKS[BROKEN[kind]](make_subject(kind))


def test_every_check_has_caught_something():
    assert set(BROKEN.values()) == set(LEDGER_CHECKS)
