"""`docs/promises.md`: the table of what a policy may ask of each promise, from the rules themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from halflife.policy.promises.base import ADAPTERS, Adapter
from halflife.policy.promises.table import Rule, every_case, judge, posts_of

Row = tuple[tuple[str, ...], ...]

HEAD = """\
# What a policy may ask of each promise

This page is generated from the rules that policies are checked against (`src/halflife/policy/promises/`, one file for each
notion), and a test compares every combination of them with what a policy really does. What no rule names is refused: nobody has
shown that the promise covers it.

One person moves the numbers of a step by at most the sensitivity (L1), in the letters

- R: the width of all that a person may add, w·(max(high − c, 0) − min(low − c, 0)), where c is what a missing reading counts as
  and w the largest weight; M: the most that a person adds, w·max(|low − c|, |high − c|). Both are 1 for a count,
  and `most_events` for events; a histogram of one bin is a count.
- k: in how many of G groups a person counts within a step, where a column of the data names groups; j = min(k, G − k).
- L: how many levels the tree of counts has that quantiles are worked out from (`best_tree`); 1 for a few bins.

`clip` says which bounds may bind: those of what one person counts as in a step ("may bind"), or those of single readings before
the fold, `clip_readings`, alone or too ("of readings"); "never binds" is declared by `readings: complete`. Counts have none,
events `most_events`, which may bind, and histograms and quantiles none but `clip_readings`. [low, high] is `clip`, or
`clip_readings` where that is left out; `fold: sum` needs `clip`. `fold` is how several readings of a step become one.
Post-processing (truncate, moving_average, kalman, seasonal) sees published values alone: it is free everywhere. Quantiles
have none, as the error bands of what it would make of them are not worked out.
"""


def write_page() -> str:
    """Return the page as Markdown."""
    names: dict[tuple[type[Adapter], tuple[Rule, ...]], list[str]] = {}
    for adapter in dict.fromkeys(ADAPTERS.values()):
        for name, rules in adapter.rules.items():
            names.setdefault((adapter, rules), []).append(name)
    sections = (
        line for (adapter, rules), alike in names.items() for line in _section(" · ".join(alike), adapter, rules)
    )
    return "\n".join([HEAD, *sections])


def _section(name: str, adapter: type[Adapter], rules: tuple[Rule, ...]) -> Iterator[str]:
    """One notion: rows of combinations that have the same sensitivity for the same reason."""
    yield f"## {name}\n"
    yield "| statistic | neighbours | groups | clip | fold | sensitivity |"
    yield "| --- | --- | --- | --- | --- | --- |"
    reasons: list[str] = []
    rows: list[Row] = []
    for case in every_case():
        rule = judge(rules, case)
        if rule.why not in reasons:
            reasons.append(rule.why)
        said = f"{adapter.describe_sensitivity(case) if rule.accepted else 'refused'} [{reasons.index(rule.why) + 1}]"
        rows.append(
            ((case.statistic,), (case.neighbours,), (case.groups,), (case.clip,), (case.fold,), (case.post,), (said,))
        )
    for axis in (5, 4, 3, 2, 0, 1):
        rows = _merge(rows, axis)
    for *axes, posts, said_ in rows:
        assert all(posts == posts_of(statistic) for statistic in axes[0]), (
            "post-processing is free, or this page must say where it is not"
        )
        yield f"| {' | '.join(', '.join(values) for values in axes)} | {said_[0]} |"
    yield ""
    yield from (f"{number}. {why}" for number, why in enumerate(reasons, start=1))
    yield ""


def _merge(rows: Sequence[Row], axis: int) -> list[Row]:
    """Join rows that differ on one axis alone."""
    joined: dict[Row, Row] = {}
    for row in rows:
        rest = (*row[:axis], (), *row[axis + 1 :])
        known = joined.get(rest, rest)[axis]
        joined[rest] = (*row[:axis], known + row[axis], *row[axis + 1 :])
    return list(joined.values())
