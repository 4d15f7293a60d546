"""w-event privacy in policies: whatever was recorded of a person within any w steps."""

from __future__ import annotations

from dataclasses import replace

from halflife.notions.base import Notion
from halflife.plans import Plan
from halflife.policy.outline import Outline
from halflife.policy.promises.base import register_adapter
from halflife.policy.promises.shared_delta import SharedDelta
from halflife.policy.promises.table import accept_everything
from halflife.release import Noise


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

    def make_plan(self, stream: Outline, notion: Notion, noise: Noise | None = None) -> Plan:
        """Return a plan for as many releases as a window touches, local days on a finer clock counted as a day apart.

        k such days in a row last k·D, but for how far the zone's offset moved meanwhile, by S at most: some are shorter, and not
        all of them. A window of w steps of width W that touches n days holds n − 2 of them whole, and g or more of both others,
        as days begin at multiples of g: (n − 2)·D − S + 2g ≤ w·W. A release covers up to m = ⌈(D + S + 2(W − g))/W⌉ steps, so
        n ≤ ⌈(w + m − 1)·W/D⌉: as many as releases about m steps, D apart (ours). If a zone's rules change, the account refuses.
        """
        apart = max(1, stream.steps.width // stream.account.width)
        return super().make_plan(replace(stream, every=apart), notion, noise)
