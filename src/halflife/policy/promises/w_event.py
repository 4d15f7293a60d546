"""w-event privacy in policies: whatever was recorded of a person within any w steps."""

from __future__ import annotations

from halflife.policy.promises.table import accept_everything

RULES = {
    "w-event": accept_everything(
        "what was recorded of one person within any w steps may be anything else: losses of one window add up",
        "hides whether anything was recorded of a person within any w steps; which of two things was recorded costs up to "
        "twice as much",
    ),
}
