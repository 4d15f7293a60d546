"""Contract suites: what every notion, plan, mechanism and ledger must do, whoever wrote it.

    import halflife.testing as ht
    ht.check_notion(MyNotion(1.0))
    ht.check_plan(MyNotion(1.0).plan())
    ht.check_mechanism(MyMechanism, MyNotion(1.0))
    ht.check_ledger(open_mine, interrupt, tamper, back_up)      # see LedgerSubject

Each suite is also a dictionary of named checks (`NOTION_CHECKS`, `PLAN_CHECKS`, `MECHANISM_CHECKS`, `LEDGER_CHECKS`), so that a
test runner can show them one by one. A failed check is an AssertionError that says what was expected.
"""

from halflife.testing.ledgers import LEDGER_CHECKS, LedgerSubject, check_ledger
from halflife.testing.mechanisms import MECHANISM_CHECKS, check_mechanism
from halflife.testing.notions import NOTION_CHECKS, Subject, check_notion
from halflife.testing.plans import PLAN_CHECKS, check_plan

__all__ = [
    "LEDGER_CHECKS",
    "MECHANISM_CHECKS",
    "NOTION_CHECKS",
    "PLAN_CHECKS",
    "LedgerSubject",
    "Subject",
    "check_ledger",
    "check_mechanism",
    "check_notion",
    "check_plan",
]
