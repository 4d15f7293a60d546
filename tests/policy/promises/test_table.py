"""The table of what policies may ask of promises: every combination, against what a policy really does."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import get_args

import pytest

from halflife import registry
from halflife.numerics.trees import CountTree
from halflife.policy import Policy, PolicyError, channels
from halflife.policy.model import Population, PostProcessing, Statistic
from halflife.policy.promises import RULES
from halflife.policy.promises.page import write_page
from halflife.policy.promises.table import (
    FOLDS,
    NEIGHBOURS,
    POSTS,
    STATISTICS,
    SUMS,
    Case,
    every_case,
    judge,
    sensitivity_in_letters,
)
from thinning import keep

CHAIN = {"name": "markov-chain", "matrix": [[0.9, 0.1], [0.1, 0.9]]}
DECLARED = {"variations": "public", "readings": "complete", "rounding": "none"}
PERIODIC = {"notion": "almost-periodic", "epsilon": 1, "period": 2}
SECRET = {"power": "1 kW", "duration": "30 min", "start": "2026-01-01T00:00", "end": "2026-01-01T03:00", "epsilon": 1}
PROMISES = {
    "classical": {"notion": "classical", "epsilon": 1},
    "w-event": {"notion": "w-event", "epsilon": 1, "w": 2},
    "exponential": {"notion": "exponential", "epsilon": 1, "alpha": 0.5},
    "hyperbolic": {"notion": "hyperbolic", "epsilon": 1, "beta": 1},
    "gaussian-discount": {"notion": "gaussian-discount", "epsilon": 1, "delta": 1e-6, "alpha": 0.5},
    "age-dependent": {"notion": "age-dependent", "epsilon": 1, "process": CHAIN, "plan": "paper"},  # a closed form: quick
    "age-dependent, autoregressive": {
        "notion": "age-dependent", "epsilon": 1, "process": {"name": "autoregressive", "rho": 0.9, "sigma": 1, "span": 1},
    },
    "almost-periodic, weak": {**PERIODIC, **DECLARED},
    "almost-periodic, strong": {**PERIODIC, "strong": True},
    "swellfish": {
        "notion": "swellfish", "neighbours": "one-window", "outside": "exact",
        "specifications": {"households": {"a": [SECRET]}, "readings": 1, "zone": "UTC"},
    },
}  # fmt: skip
"""One promise for each part of the table."""
GROUPS = {
    "none": None,
    "table": {"table": {"file": "homes.csv", "person": "who", "group": "where"}},
    "column": {"names": ["n", "s", "w"], "most_per_person": 2, "sizes": {"n": 2, "s": 2, "w": 2}},
}
POST = {
    "none": [],
    "truncate": [{"truncate": [0, 5]}],
    "moving_average": [{"moving_average": 2}],
    "kalman": [{"kalman": "1"}],
    "seasonal": [{"seasonal": "fitted"}],
}


def write_policy(name: str, case: Case) -> dict:
    """A policy that asks for this combination."""
    unit = "kW" if name == "swellfish" and case.fold != "sum" else "kWh"
    statistic: dict = {"kind": case.statistic}
    if case.statistic == "events":
        statistic["most_events"] = 7
    elif case.statistic != "count":
        statistic |= {"unit": unit, "resolution": f"0.001 {unit}", "fold": case.fold}
    if case.statistic == "histogram":
        statistic["edges"] = ["0", "1", "5"]
    if case.statistic == "quantile":
        statistic |= {"quantiles": [0.5, "95 %"], "grid": {"low": 0, "high": 5, "bins": 50}}
    if case.statistic in SUMS:
        statistic["clip"] = ["-1", "5"]
    if case.clip == "of readings" and case.fold == "sum":
        statistic["clip_readings"] = ["-0.5", "3"]
    elif case.clip == "of readings":
        statistic |= {"clip": None, "clip_readings": ["-1", "5"]}
    if case.statistic == "weighted sum":
        statistic["weights"] = {"file": "homes.csv", "person": "who", "weight": "weight", "largest": "2"}
    promise = dict(PROMISES[name])
    if case.clip == "never binds":
        promise["readings"] = "complete"
    elif case.statistic in SUMS:
        promise.pop("readings", None)
    source = {"files": "r.csv", "time": "ts", "value": "kwh"} | ({"group": "where"} if case.groups == "column" else {})
    stream = {"name": "s", "source": source, "statistic": statistic, "output": "-", "post": POST[case.post]}
    if GROUPS[case.groups] is not None:
        used = ("names", "table", "most_per_person", *(["sizes"] if case.statistic == "mean" else []))
        stream["groups"] = {key: value for key, value in GROUPS[case.groups].items() if key in used}
    return {
        "population": {"id": "town", "size": 4, "person": "who", "neighbours": case.neighbours},
        "promise": promise,
        "clock": {"step": "30 min", "start": "2026-01-01", "end": "2026-01-01T03:00"},
        "streams": [stream],
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("town")
    (place / "homes.csv").write_text("who,where,weight\na,n,2\nb,s,-1\nc,n,1\nd,w,1\n")
    (place / "r.csv").write_text("who,ts,kwh,where\n")
    return place


def thinned(name: str, every: int) -> list[Case]:
    """Every combination, but for folds and post-processing, of which each combination meets one in so many."""
    cases: dict[tuple, list[Case]] = {}
    for case in every_case():
        cases.setdefault((case.statistic, case.neighbours, case.groups, case.clip), []).append(case)
    return [
        c for n, alike in enumerate(cases.values()) for c in alike[(n + len(name)) % min(every, len(alike)) :: every]
    ]


@pytest.mark.parametrize("every", keep([10, 2], lambda every: every == 10))
@pytest.mark.parametrize("name", PROMISES)
def test_a_policy_is_accepted_just_where_the_table_says_so(folder, name, every):
    outcomes = set()
    for case in thinned(name, every):
        rule = judge(RULES[name], case)
        outcomes.add(rule.accepted)
        if not rule.accepted:
            with pytest.raises(PolicyError):
                Policy.from_dict(write_policy(name, case), folder)
            continue
        made = channels(Policy.from_dict(write_policy(name, case), folder))[0]
        assert made.why == rule.why
        if name != "swellfish":
            assert made.sensitivity.l1 == letters(case, made.measure.tree)[sensitivity_in_letters(case)], case
    assert outcomes == {True, False}


def letters(case: Case, tree: CountTree | None) -> dict[str, int]:
    """The sensitivity in numbers: readings in [−1, 5] kWh in Wh, a missing one counts as 0, weights up to 2; 2 of 3 groups."""
    heaviest = 2 if case.statistic == "weighted sum" else 1
    R, M = {"count": (1, 1), "events": (7, 7)}.get(case.statistic, (6000 * heaviest, 5000 * heaviest))
    k, j = 2, 1
    L = 0 if tree is None else tree.levels
    trees = {"2L": 2 * L, "L": L, "2kL": 2 * k * L, "kL": k * L}
    return trees | {
        "R": R,
        "M": M,
        "1": 1,
        "2": 2,
        "k": k,
        "2k": 2 * k,
        "kM": k * M,
        "2jM + (k − j)R": 2 * j * M + (k - j) * R,
    }


def test_the_table_knows_every_notion_and_every_word_of_a_policy():
    """What is added to the keys of a policy, or as a notion, must be declared here before a policy may use it."""

    def words(part, key):
        found = part.model_fields[key].annotation
        return {x for a in (found, *get_args(found)) for x in (get_args(a) or (a,)) if isinstance(x, str)}

    assert words(Statistic, "kind") == set(STATISTICS)
    assert words(Statistic, "fold") == set(FOLDS) - {"none"}
    assert words(Population, "neighbours") == set(NEIGHBOURS)
    assert set(PostProcessing.model_fields) - {"above"} == set(POSTS) - {"none"}
    assert {name.split(",")[0] for name in RULES} == set(registry.NOTIONS)
    assert set(RULES) == set(PROMISES)


def test_what_nobody_declared_is_refused():
    for name, kind in product(RULES, ("median", "")):
        assert not judge(RULES[name], Case(kind)).accepted
    for field, value in (
        ("groups", "both"),
        ("clip", "perhaps"),
        ("fold", "mode"),
        ("post", "sharpen"),
        ("neighbours", "two"),
    ):
        case = Case(**{"statistic": "sum", field: value})
        assert not any(judge(rules, case).accepted for rules in RULES.values()), field

    assert not judge((), Case("sum")).accepted


def test_the_page_says_what_the_rules_say():
    page = Path(__file__).parents[3] / "docs" / "promises.md"
    assert page.read_text(encoding="utf-8") == write_page(), (
        "run: python -m halflife.policy.promises > docs/promises.md"
    )


@pytest.mark.parametrize("name", ["age-dependent", "almost-periodic, weak", "almost-periodic, strong", "swellfish"])
def test_whether_somebody_is_there_is_no_secret_of_a_promise_about_what_they_do(folder, name):
    data = write_policy(name, Case("sum", clip="never binds" if "weak" in name else "may bind"))
    Policy.from_dict(data, folder)
    data["population"]["neighbours"] = "add-remove"
    with pytest.raises(PolicyError, match=r"population.neighbours: "):
        Policy.from_dict(data, folder)


def test_add_remove_says_what_it_hides(folder):
    from halflife.policy import explain

    data = write_policy("w-event", Case("sum", "add-remove"))
    said = "\n".join(explain(channels(Policy.from_dict(data, folder))[0]))
    assert "hides whether anything was recorded of a person within any w steps" in said
    assert "which of two things was recorded costs up to twice as much" in said
