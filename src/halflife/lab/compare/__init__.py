"""Mechanisms, notions, plans and post-processors side by side on one stream: errors, coverage, closed forms, and costs."""

from halflife.lab.compare.result import Compared, compare
from halflife.lab.compare.streams import Stream, read_stream

__all__ = ["Compared", "Stream", "compare", "read_stream"]
