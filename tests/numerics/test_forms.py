"""Forms: what two machines work out of one account agrees."""

from __future__ import annotations


def test_accounts_of_two_machines_agree_though_their_last_bits_differ():
    from halflife import Accountant, HyperbolicDiscount, Release

    account = Accountant(HyperbolicDiscount(1.0, 0.1))
    account.admit(Release(1, 0.3))
    elsewhere = Accountant.from_json(account.to_json())
    for factor, same in ((1 + 4e-16, True), (1 - 4e-16, True), (1 - 1e-6, False), (0.9, False)):
        state = account.notion.dump(account._state)
        state["sum"] = [x * factor for x in state["sum"]]
        elsewhere._state = account.notion.load(state)
        assert account.agrees(elsewhere) is same
