"""The loop that publishes exactly once, the push interface, and the check of what was published."""

from halflife.publisher.backfill import Summary, describe, publish
from halflife.publisher.stream import Pushed, Stream
from halflife.publisher.verification import Verdict, verify

__all__ = ["Pushed", "Stream", "Summary", "Verdict", "describe", "publish", "verify"]
