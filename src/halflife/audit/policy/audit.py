"""The audit of a policy: its own publisher, ledger and all, run on neighbouring populations that are made for it.

No reading of the policy's own data is looked at. What is tried on every policy is in `generic`; a notion whose neighbours are
others, such as two habits or a household with and without an event, brings its own (`audit/notions/<slug>`). What is done to
noisy values afterwards is in `postprocessing`.
"""

from __future__ import annotations

import time

from halflife.audit.policy import generic
from halflife.audit.policy.postprocessing import audit_post
from halflife.audit.registry import find_audit
from halflife.audit.running import audit_paths
from halflife.audit.verdict import Verdict
from halflife.numerics.progress import Progress
from halflife.policy import Policy


def audit_policy(
    policy: Policy,
    *,
    seconds: float = 60.0,
    runs: int = 20_000,
    processes: int = 1,
    progress: Progress = lambda what, done, total: None,
) -> Verdict:
    """Audit a policy with neighbours that are made for it: see `generic`, and the files of notions, for what is tried.

    seconds    a budget for all of it: what runs of the publisher may take is what the rest leaves
    runs       the most runs on each population of a pair
    processes  how many run at a time
    """
    end = time.monotonic() + seconds
    notion = policy.notion
    progress("neighbours", 0, 1)
    trial = (find_audit(notion.name).try_policy or generic.try_policy)(policy)
    progress("post-processing", 0, 1)
    processed = tuple(audit_post(policy))
    left = end - time.monotonic()
    found = audit_paths(trial.cases, seconds=left, runs=runs, processes=processes, progress=progress)
    return Verdict(policy.population.id, (*trial.findings, *processed, *found, *trial.observers))
