"""halflife: private statistics about people's time series, step after step, for ever.

One spine: release → notion → accountant → plan → publisher.

>>> import halflife as hl
>>> plan = hl.WEvent(epsilon=1.0, w=48).plan(sensitivity=0.02)
>>> round(plan.scale(1), 2)
0.96
"""

from typing import TYPE_CHECKING

from halflife import plans
from halflife.accountant import Accountant
from halflife.errors import BudgetExceeded, HalflifeError, InvalidInput, LedgerError, MissingExtra, UnboundedLoss
from halflife.mechanisms import Mechanism, PlannedNoise, ReleaseDraw, ReusedNoise, SimulatedDraw, publish_series
from halflife.notions import (
    AgeDependent,
    AlmostPeriodic,
    Classical,
    ExponentialDiscount,
    Exposure,
    GaussianDiscount,
    HyperbolicDiscount,
    Notion,
    Swellfish,
    WEvent,
)
from halflife.plans import Plan
from halflife.plans.age_dependent.schedule import NoSchedule, Schedule, best_schedule
from halflife.processes import (
    AutoRegressive,
    EmpiricalProcess,
    GeometricMixing,
    MarkovChain,
    PeriodicMarkovChain,
    Process,
    ProcessFamily,
)
from halflife.release import History, Release
from halflife.sensitivity import mean_sensitivity
from halflife.specifications import (
    Recurring,
    Secret,
    Specification,
    Specifications,
    read_specifications,
    write_specifications,
)

__version__ = "0.2.0"

if TYPE_CHECKING:
    from halflife.lab.compare import Compared, compare
    from halflife.outputs import Combination, PublishedValues
    from halflife.parsing.documents import PolicyError
    from halflife.policy import Policy
    from halflife.postprocessing import Facts, LocalLevel, Seasonal
    from halflife.publisher import (
        Amended,
        Backup,
        CertificateVerdict,
        CheckReport,
        Pushed,
        Restored,
        Revised,
        Revision,
        Status,
        Stream,
        StreamStatus,
        Summary,
        Verdict,
        amend,
        backup,
        certify,
        check,
        check_certificate,
        hindsight,
        publish,
        read_published,
        restore,
        revise,
        status,
        verify,
    )
    from halflife.publisher.follow import follow

_LATE = {
    "Combination": "outputs",
    "follow": "publisher.follow",
    "Policy": "policy",
    "PolicyError": "parsing.documents",
    "PublishedValues": "outputs",
    **dict.fromkeys(("Compared", "compare"), "lab.compare"),
    **dict.fromkeys(("Facts", "LocalLevel", "Seasonal"), "postprocessing"),
} | dict.fromkeys(
    (
        "Amended",
        "Backup",
        "CertificateVerdict",
        "CheckReport",
        "Pushed",
        "Restored",
        "Revised",
        "Revision",
        "Status",
        "Stream",
        "StreamStatus",
        "Summary",
        "Verdict",
        "amend",
        "backup",
        "certify",
        "check",
        "check_certificate",
        "hindsight",
        "publish",
        "read_published",
        "revise",
        "restore",
        "status",
        "verify",
    ),
    "publisher",
)
"""Public names that need heavier parts (pydantic, SQLite), and the modules that they are imported from when first used."""


def __getattr__(name: str) -> object:
    """Import a public name that needs heavier parts when it is first used."""
    if name not in _LATE:
        raise AttributeError(f"module 'halflife' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"halflife.{_LATE[name]}"), name)


def __dir__() -> list[str]:
    """Return the public names, those that are imported late among them."""
    return sorted([*__all__, "__version__", "__doc__", "__file__", "__name__", "__path__"])


__all__ = [
    "Accountant",
    "AgeDependent",
    "AlmostPeriodic",
    "Amended",
    "AutoRegressive",
    "Backup",
    "BudgetExceeded",
    "CertificateVerdict",
    "CheckReport",
    "Classical",
    "Combination",
    "Compared",
    "EmpiricalProcess",
    "ExponentialDiscount",
    "Exposure",
    "Facts",
    "GaussianDiscount",
    "GeometricMixing",
    "HalflifeError",
    "History",
    "HyperbolicDiscount",
    "InvalidInput",
    "LedgerError",
    "LocalLevel",
    "MarkovChain",
    "Mechanism",
    "MissingExtra",
    "NoSchedule",
    "Notion",
    "PeriodicMarkovChain",
    "Plan",
    "PlannedNoise",
    "Policy",
    "PolicyError",
    "Process",
    "ProcessFamily",
    "PublishedValues",
    "Pushed",
    "Recurring",
    "Release",
    "ReleaseDraw",
    "Restored",
    "ReusedNoise",
    "Revised",
    "Revision",
    "Schedule",
    "Seasonal",
    "Secret",
    "SimulatedDraw",
    "Specification",
    "Specifications",
    "Status",
    "Stream",
    "StreamStatus",
    "Summary",
    "Swellfish",
    "UnboundedLoss",
    "Verdict",
    "WEvent",
    "amend",
    "backup",
    "best_schedule",
    "certify",
    "check",
    "check_certificate",
    "compare",
    "follow",
    "hindsight",
    "mean_sensitivity",
    "plans",
    "publish",
    "publish_series",
    "read_published",
    "read_specifications",
    "restore",
    "revise",
    "status",
    "verify",
    "write_specifications",
]
