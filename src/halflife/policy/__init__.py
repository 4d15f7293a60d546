"""What to publish, and under which promise: the policy file, checked as a whole before any data is read."""

from halflife.parsing.documents import PolicyError
from halflife.policy.facts import find_change, follow_ledger, ledger_facts, stream_shape
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
    "follow_ledger",
    "ledger_facts",
    "rules",
    "stream_shape",
]
