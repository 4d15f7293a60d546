"""How each notion is audited where the way of every notion is not enough: one `NotionAudit` a notion, from its own file.

Files under `audit/notions/` register theirs when they are imported, and every file there is. A notion without one is audited
all the same: its publisher is attacked with the neighbours of `policy/generic.py`, and histories are held to its own account.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from halflife.audit.black_box import Pair, Path
from halflife.audit.verdict import Finding
from halflife.errors import InvalidInput
from halflife.policy import Policy
from halflife.release import Release

History = tuple[Any, list[Release], float]
"""A notion, releases, and the loss that is claimed of them."""


@dataclass(frozen=True)
class Faults:
    """Planted faults by name: what an audit must accuse, and the honest paths beside them that it must not.

    histories  faults that show in what was recorded
    paths      faults that show in outputs: the pair they are attacked with (what is claimed of it), and the faulty path
    rules      findings about rules that claim less than some outputs really tell
    honest     paths without a fault, with the pair that they are attacked with
    """

    histories: dict[str, History] = field(default_factory=dict)
    paths: dict[str, tuple[Pair, Path]] = field(default_factory=dict)
    rules: tuple[Finding, ...] = ()
    honest: dict[str, tuple[Pair, Path]] = field(default_factory=dict)


@dataclass(frozen=True)
class Trial:
    """What is tried on a policy.

    findings   what was found without many runs of the publisher
    cases      pairs of neighbours, and the publisher on them, for the black box
    observers  what an observer can do that the promise allows
    """

    findings: Sequence[Finding]
    cases: Sequence[tuple[Pair, Path]]
    observers: Sequence[Finding]


@dataclass(frozen=True)
class NotionAudit:
    """How one notion is audited.

    worst_loss    (notion, releases) → the worst loss over the notion's neighbouring streams, from its definition
    judges_exact  whether `worst_loss` says itself what an exact value costs; under all other notions it costs everything
    faults        () → planted faults in accounts and mechanisms of this notion
    try_policy    policy → what is tried on it; None: `policy.generic.try_policy`
    """

    worst_loss: Callable[[Any, Sequence[Release]], float] | None = None
    judges_exact: bool = False
    faults: Callable[[], Faults] | None = None
    try_policy: Callable[[Policy], Trial] | None = None


_AUDITS: dict[str, NotionAudit] = {}


def register_audit(*notions: str, audit: NotionAudit) -> None:
    """Make known how these notions are audited."""
    for name in notions:
        if name in _AUDITS:
            raise InvalidInput(f"there is an audit of {name!r} already: register one for each notion")
        _AUDITS[name] = audit


def find_audit(notion: str) -> NotionAudit:
    """Return how a notion is audited; an empty `NotionAudit` if its name is not registered.

    >>> find_audit("w-event").worst_loss.__name__, find_audit("halving").worst_loss
    ('worst_window', None)
    """
    return all_audits().get(notion, NotionAudit())


def all_audits() -> dict[str, NotionAudit]:
    """Return every registered audit, by the notion's name."""
    import_module("halflife.audit.notions")
    return dict(_AUDITS)
