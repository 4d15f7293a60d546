"""w-event privacy in policies: whatever was recorded of a person within any w steps."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace

from halflife.local_time import DAY, days_in_months, skipped_days
from halflife.notions import WEvent
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
    charged_as_planned = True
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
        Months on a finer clock are counted on the calendar: see `find_months_apart`.
        """
        apart = max(1, stream.steps.width // stream.account.width)
        if stream.steps.months and not stream.account.months:
            assert isinstance(notion, WEvent)
            apart = find_months_apart(stream, notion.w)
        return super().make_plan(replace(stream, every=apart), notion, noise)


def find_months_apart(stream: Outline, w: int) -> int:
    """Return how far apart releases about months are planned, in steps of a finer clock; a window touches at most n (ours).

    k such steps in a row have L_k days or more. A window that touches n of them holds n − 2 of them whole, so that, as for days,
    L_{n−2} − S + 2g ≤ w·W; with the longest of D, a release covers up to m = ⌈(D + S + 2(W − g))/W⌉ steps, so L_{n−2} ≤
    (w + m − 2)·W − D. As many releases, n = ⌈(w + m − 1)/e⌉, are planned for if they are e = ⌈(w + m − 1)/(n − 1)⌉ − 1 apart.
    """
    months, account, reach = stream.steps.months, stream.account, w + stream.widest - 1
    skipped = sum(days for at, days in skipped_days(account.zone) if at > stream.steps.start_us)
    room = (reach - 1) * account.width // DAY - days_in_months(months)[1] + skipped
    most = 2 + max(0, room) // 28
    n = 1 + bisect_right(range(most), room, key=lambda k: days_in_months(k * months)[0])
    return reach if n == 1 else -(-reach // (n - 1)) - 1
