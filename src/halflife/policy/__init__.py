"""What to publish, and under which promise: the policy file, checked as a whole before any data is read."""

from halflife.parsing.documents import PolicyError
from halflife.policy.facts import (
    find_change,
    find_worth,
    follow_amendments,
    follow_ledger,
    ledger_facts,
    read_amendments,
    stream_shape,
)
from halflife.policy.policy import GivenPolicy, Policy, channels, rules
from halflife.policy.streams import Channel, explain

__all__ = [
    "Channel",
    "GivenPolicy",
    "Policy",
    "PolicyError",
    "channels",
    "explain",
    "find_change",
    "find_worth",
    "follow_amendments",
    "follow_ledger",
    "ledger_facts",
    "read_amendments",
    "rules",
    "stream_shape",
]
