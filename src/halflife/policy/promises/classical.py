"""Classical differential privacy in policies: a person's whole series, whatever was recorded of it."""

from __future__ import annotations

from halflife.policy.promises.base import register_adapter
from halflife.policy.promises.shared_delta import SharedDelta
from halflife.policy.promises.table import accept_everything


@register_adapter
class ClassicalAdapter(SharedDelta):
    """Covers every statistic."""

    names = ("classical",)
    charged_as_planned = True
    rules = {  # noqa: RUF012
        "classical": accept_everything(
            "one person's whole series may be any other: each release moves by at most its sensitivity, and losses add up",
            "hides whether anything was ever recorded of a person; which of two series was recorded costs up to twice as much",
        )
    }
