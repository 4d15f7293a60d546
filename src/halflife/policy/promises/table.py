"""The rules of which combinations of statistic, neighbours and so on a promise accepts, with what sensitivity, or why not.

A combination is a notion × statistic × neighbours × groups × clip × fold × post-processing. Each `promises/<slug>.py` declares
those of its notion as rules; the first rule that fits decides, and what no rule fits is refused: nobody has shown that it
holds. `docs/promises.md` is generated from the same rules (`python -m halflife.policy.promises > docs/promises.md`), and tests
compare every combination with what a policy really does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

SUMS = ("sum", "mean", "weighted sum")
STATISTICS = ("count", "events", *SUMS, "histogram", "quantile")
REPLACE, ADD = "replace-one", "add-remove"
NEIGHBOURS = (REPLACE, ADD)
FIXED = ("none", "table")
GROUPS = (*FIXED, "column")
CLIPS = ("none", "may bind", "of readings", "never binds")
FOLDS = ("none", "sum", "mean", "first", "last", "min", "max")
POSTS = ("none", "truncate", "moving_average", "kalman", "seasonal")
"""What stands in a policy today, written out: what is added to a policy's keys is refused until a rule names it."""


@dataclass(frozen=True)
class Case:
    """One combination that a policy may ask for.

    groups  none, a public table that fixes everybody's group, or a column of the data
    clip    none (counts, histograms and quantiles have no `clip`), may bind (that of what a person counts as, alone;
            `most_events`), of readings (there is `clip_readings`, with or without `clip`), or never binds (declared)
    fold    how several readings of a step become one; none for counts and events
    post    one step of post-processing
    """

    statistic: str
    neighbours: str = REPLACE
    groups: str = "none"
    clip: str = "may bind"
    fold: str = "sum"
    post: str = "none"


@dataclass(frozen=True)
class Rule:
    """Combinations that are accepted, or refused, for one reason; a refusal is about one of the axes.

    An empty tuple stands for every value, which only refusals may say.
    """

    accepted: bool
    why: str
    about: str
    statistics: tuple[str, ...] = ()
    neighbours: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    clips: tuple[str, ...] = ()
    folds: tuple[str, ...] = ()
    posts: tuple[str, ...] = ()

    def fits(self, case: Case) -> bool:
        """Return whether this rule is about the combination."""
        axes = (
            (self.statistics, case.statistic),
            (self.neighbours, case.neighbours),
            (self.groups, case.groups),
            (self.clips, case.clip),
            (self.folds, case.fold),
            (self.posts, case.post),
        )
        return all(not allowed or value in allowed for allowed, value in axes)


def accept(
    why: str,
    *,
    statistics: tuple[str, ...],
    neighbours: tuple[str, ...],
    groups: tuple[str, ...],
    clips: tuple[str, ...] = ("none", "may bind", "of readings"),
    folds: tuple[str, ...] = FOLDS,
    posts: tuple[str, ...] = POSTS,
) -> Rule:
    """Declare combinations that keep the promise. Post-processing sees published values alone, so all of it is free."""
    return Rule(True, why, "", statistics, neighbours, groups, clips, folds, posts)


def refuse(about: str, why: str, **axes: tuple[str, ...]) -> Rule:
    """Declare combinations that do not keep the promise; `about` is the axis that a policy must change."""
    return Rule(False, why, about, **axes)


COMPLETE = refuse(
    "clips", "`readings: complete` is said of weak almost-periodic promises alone: leave it out", clips=("never binds",)
)


def accept_everything(replaced: str, added: str) -> tuple[Rule, ...]:
    """Return the rules of a notion that covers every statistic: what replace-one and what add-remove neighbours hide."""
    return (
        COMPLETE,
        accept(replaced, statistics=STATISTICS, neighbours=(REPLACE,), groups=GROUPS),
        accept(added, statistics=STATISTICS, neighbours=(ADD,), groups=GROUPS),
    )


UNDECLARED = Rule(False, "nobody has shown that this promise covers this combination, so it is refused", "statistics")


def judge(rules: tuple[Rule, ...], case: Case) -> Rule:
    """Return the first rule that fits, and a refusal where none does.

    >>> rules = (accept("one person moves it by R", statistics=("sum",), neighbours=("replace-one",), groups=("none",)),)
    >>> judge(rules, Case("sum")).accepted, judge(rules, Case("sum", "add-remove")).accepted
    (True, False)
    """
    return next((rule for rule in rules if rule.fits(case)), UNDECLARED)


def every_case() -> Iterator[Case]:
    """Yield every combination that a policy can write: counts and events have neither fold nor readings, histograms and quantiles
    no `clip`, and quantiles no post-processing."""
    binned = ("none", "of readings")
    clips = {"count": ("none",), "events": ("may bind",), "histogram": binned, "quantile": binned}
    for statistic, neighbours, groups, clip, fold, post in product(STATISTICS, NEIGHBOURS, GROUPS, CLIPS, FOLDS, POSTS):
        if clip not in clips.get(statistic, CLIPS[1:]) or (fold == "none") != (statistic in ("count", "events")):
            continue
        if post not in posts_of(statistic):
            continue
        yield Case(statistic, neighbours, groups, clip, fold, post)


def posts_of(statistic: str) -> tuple[str, ...]:
    """Return the post-processing that a statistic may have: of quantiles its error bands are not worked out."""
    return ("none",) if statistic == "quantile" else POSTS


def sensitivity_in_letters(case: Case) -> str:
    """Return how far one person can move the numbers of a step (L1), in the letters of `sensitivity.py` (ours).

    R  the width of all that a person may add, w·(max(high − c, 0) − min(low − c, 0)), c what a missing reading counts as
    M  the most that a person adds, w·max(|low − c|, |high − c|);  R = M = 1 for a count, and `most_events` for events
    k  in how many of G groups a person counts, where a column names them;  j = min(k, G − k)
    L  how many levels the tree of counts has that quantiles are worked out from

    >>> sensitivity_in_letters(Case("sum")), sensitivity_in_letters(Case("histogram", "add-remove", clip="none"))
    ('R', '1')
    """
    replaced, moving = case.neighbours == REPLACE, case.groups == "column"
    if case.statistic == "histogram":
        return {(True, False): "2", (False, False): "1", (True, True): "2k", (False, True): "k"}[replaced, moving]
    if case.statistic == "quantile":
        return {(True, False): "2L", (False, False): "L", (True, True): "2kL", (False, True): "kL"}[replaced, moving]
    if not moving:
        return "R" if replaced else "M"
    return "2jM + (k − j)R" if replaced else "kM"
