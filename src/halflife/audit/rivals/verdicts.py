"""A verdict on each rival as it was published: whether its promise holds, what is really lost, and the command that shows it.

`python -m halflife.audit.rivals.verdicts > docs/rivals.md` writes the page.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from halflife.audit.exact import worst_loss
from halflife.audit.registry import Faults
from halflife.audit.rivals import adapub, dsat, pegasus, rescue_dp
from halflife.audit.rivals.honest import RivalPath, one_window
from halflife.audit.verdict import Finding
from halflife.notions import WEvent
from halflife.release import Release

W = 20
"""The window of all verdicts that need one."""
GROUP = 100
"""How many steps a group of AdaPub's lasts in the verdict."""
OURS = ("uniform", "sample", "bd", "ba", "fast", "pegasus", "rescue-dp")
"""Rivals in our form that the black box is let loose on."""


@dataclass(frozen=True)
class RivalVerdict:
    """What holds of one rival in one form.

    form      where it was published so;  sound  whether its promise holds
    attained  what is really lost, in parts of the promised ε: at the most if it is sound, at least if not; infinite without bound
    """

    rival: str
    form: str
    sound: bool
    attained: float
    why: str


def sample_too_often(epsilon: float = 1.0, w: int = W) -> tuple[WEvent, list[Release], float]:
    """Return the history of Sample with w − 1 steps between samples instead of w, as one published program has it."""
    return WEvent(epsilon, w), [Release(1 + k * (w - 1), epsilon) for k in range(3)], epsilon


def plant_rivals() -> Faults:
    """Return the faulty rivals, which an audit must accuse, and our forms beside them, which it must not."""
    groups, questions = adapub.attained_loss(1.0, 1, GROUP), dsat.attained_loss(1.0, W)
    return Faults(
        histories={
            "Sample every w − 1 steps": sample_too_often(),
            "DSAT's first window, by its own accounting": dsat.first_window(1.0, W),
        },
        rules=(
            _attained("DSAT: w answers under a threshold that is no secret", questions, f"w = {W}, none of them sampled"),
            _attained("AdaPub: readings asked about again and again", groups, f"a group of {GROUP} steps, w = 1"),
        ),
        paths={
            "a filter whose variance is the whole true stream's (RescueDP as published)": (
                rescue_dp.look_ahead_pair(), rescue_dp.FutureVariance(looks_ahead=True),
            ),
        },
        honest={
            "honest RescueDP, whose variance is estimated from noisy values": (
                rescue_dp.look_ahead_pair(), rescue_dp.FutureVariance(looks_ahead=False),
            ),
            **{f"honest {name}": (one_window(), RivalPath(name)) for name in OURS},
        },
    )  # fmt: skip


def _attained(name: str, found: float, detail: str) -> Finding:
    return Finding(
        name, "attained", 1.0, found, found > 1.0, f"outputs whose probabilities differ by e^{found:.4g}: {detail}", 0.0
    )


def judge_rivals() -> list[RivalVerdict]:
    """Return the verdicts, with what is attained worked out anew."""
    grouping = 0.8 + 0.2 * pegasus.largest_loss(1.0)
    twice = worst_loss(*sample_too_often()[:2])
    window = worst_loss(*dsat.first_window(1.0, W)[:2])
    asked = dsat.attained_loss(1.0, W)
    return [
        RivalVerdict("Uniform", "paper and benchmark", True, 1.0, "w releases of ε/w"),
        RivalVerdict("Sample", "paper and benchmark", True, 1.0, "one release of ε in any w steps"),
        RivalVerdict(
            "Sample", "program of the Swellfish authors (by reading)", False, twice,
            "it counts w − 1 steps from sample to sample, so some windows hold two of ε each",
        ),
        RivalVerdict("BD", "paper and benchmark", True, 1.0, "ε/2 for questions, ε/2 for what is published"),
        RivalVerdict(
            "BA", "paper and benchmark", True, 1.0, "ε/2 for questions; what a release absorbs is given up before or after it",
        ),
        RivalVerdict(
            "FAST", "benchmark, at a window", True, 1.0,
            "ε/2 a block, and a window meets two blocks. As shipped blocks begin every w + 1 steps, so every (w + 1)-th value "
            "is 0: wrong, but no loss",
        ),
        RivalVerdict(
            "RescueDP", "benchmark", False, math.inf,
            "its filter takes the variance of the whole true stream, later steps included: two streams that are alike so far are "
            "told apart. Budgets are kept; the promise is not. Ours takes a public variance, or one of noisy values",
        ),
        RivalVerdict(
            "DSAT", "benchmark, first window", False, window,
            "a noisy first count is paid for, and then samples get what questions were to save for it",
        ),
        RivalVerdict(
            "DSAT", "benchmark, later windows", False, asked,
            "the threshold's noise is drawn once, and the threshold is held between 0 and 2 while it sinks (the paper "
            "has that too): soon it is 0, and known. Then an answer “below” tells as much as any, w times in a window, unpaid "
            f"(w = {W})",
        ),
        RivalVerdict(
            "AdaPub", "benchmark with its grouping switched on", False, math.inf,
            "each step of a group asks about all readings of the group again, against a threshold without noise: "
            f"{adapub.attained_loss(1.0, 1, GROUP):.1f} ε after {GROUP} steps (w = 1, ε = 1), without bound",
        ),
        RivalVerdict(
            "AdaPub", "benchmark as shipped", True, 0.8, "a line switches grouping off: what is left is Uniform at 0.8 ε",
        ),
        RivalVerdict(
            "PeGaSus", "benchmark with its grouping switched on", True, grouping,
            "it compares absolute values, which the sparse-vector proof does not cover; we prove it ([R1](theory.md#r1)), and "
            "the bound is attained",
        ),
    ]  # fmt: skip


def write_page() -> str:
    """Return `docs/rivals.md`."""
    rows = "\n".join(
        f"| {v.rival} | {v.form} | {'sound' if v.sound else '**unsound**'} | {_in_epsilons(v)} | {v.why} |"
        for v in judge_rivals()
    )
    return PAGE.format(rows=rows)


def _in_epsilons(verdict: RivalVerdict) -> str:
    found = "∞" if math.isinf(verdict.attained) else f"{verdict.attained:.4g} ε"
    return f"at most {found}" if verdict.sound else found


PAGE = """# Rivals: which of them keep their promise

<!-- generated by python -m halflife.audit.rivals.verdicts -->

Mechanisms for endless streams under w-event privacy, as their papers print them or as published programs have them. *Attained* is
what outputs really tell of one person, worked out exactly. The program is the
benchmark of Schäler, Hütter and Schäler (PVLDB 16(8), 2023); our models of DSAT, of AdaPub and of PeGaSus give its outputs
number by number.

```
halflife audit --rivals        # the faulty ones are accused, and none of our forms; status 1 if that is not so
```

| rival | as published in | verdict | attained | why |
| --- | --- | --- | --- | --- |
{rows}

What halflife has of them is in `mechanisms/`, one file each: it decides from noisy values alone, and every charge goes through
`draw`, so an account refuses what a window has no room for. RescueDP is mended there. DSAT and AdaPub are models in
`audit/rivals/` only.
`halflife compare` puts them side by side on a series of your own: [compare](compare.md).
"""

if __name__ == "__main__":
    print(write_page(), end="")
