"""w-event privacy in policies: whatever was recorded of a person within any w steps."""

from __future__ import annotations

from halflife.policy.promises.base import register_adapter
from halflife.policy.promises.shared_delta import SharedDelta
from halflife.policy.promises.table import accept_everything


@register_adapter
class WEventAdapter(SharedDelta):
    """Covers every statistic."""

    names = ("w-event",)
    rules = {  # noqa: RUF012
        "w-event": accept_everything(
            "what was recorded of one person within any w steps may be anything else: losses of one window add up",
            "hides whether anything was recorded of a person within any w steps; which of two things was recorded costs up to "
            "twice as much",
        )
    }
    template = """\
  w: 1 day                    # w-event: whatever happened within any such stretch is hidden
"""
