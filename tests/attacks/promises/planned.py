"""Plans of every notion: releases are admitted, no risk passes the promise, certificates state the classical loss in full."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import halflife as hl
from attacks.promises import ageing
from attacks.promises.accounts import REFUSALS, apart, attained, judge, random_notion, scale_of
from attacks.promises.densities import shared_loss
from attacks.promises.truths import Truth, Wander, told_on_span
from attacks.promises.verdicts import Case


def random_plan(rng: random.Random, notion: Any) -> Any:
    """A plan, or None if it is refused."""
    options: dict[str, Any] = {"age": rng.choice([0, 0, 1, 3]), "every": rng.choice([1, 1, 1, 2, 3])}
    if rng.random() < 0.6:
        options["horizon"] = rng.randint(1, 9)
    if rng.random() < 0.4:
        options["method"] = rng.choice(["paper", "constant", "optimal"])
    if isinstance(notion, hl.AlmostPeriodic) and notion.strong and rng.random() < 0.5:
        options["variation_sensitivity"] = rng.choice([0.5, 2.0])
    try:
        return notion.plan(sensitivity=rng.choice([1.0, 2.0]), **options)
    except hl.InvalidInput:
        return None


def attack_plan(seed: int) -> tuple[Case, Any, bool]:
    """One random plan, followed to its horizon or for nine steps."""
    rng, case = random.Random(seed), Case("plan", seed)
    notion, truth = ageing.random_notion(rng) if rng.random() < 0.35 else (random_notion(rng), None)
    if isinstance(notion, hl.Classical | hl.WEvent) and rng.random() < 0.9:
        notion = replace(notion, delta=0.0)  # plans with a δ take seconds
    plan = None if notion is None else random_plan(rng, notion)
    if plan is None:
        return case, notion, False
    steps = min(plan.horizon or 9, getattr(notion, "horizon", None) or 9, 9)
    releases = [r for k in range(1, steps + 1) for r in plan.releases_at(k)]
    story = (notion, plan.request, releases)
    for k, (risk, limit) in enumerate(zip(plan.risks(steps), plan.limits(steps), strict=True), start=1):
        case.compare("a plan's own risk", float(risk), float(limit), (k, story))
    account, most = hl.Accountant(notion), 0.0
    for release in releases:
        try:
            account.admit(release)
        except REFUSALS as error:
            case.expect("a plan's releases are admitted", False, (str(error), story))
            return case, notion, True
        most = max(most, account.risk())
    judge_certificate(case, plan, story)
    if not releases:
        return case, notion, False
    if truth is None:
        judge(case, account, releases, most)
    else:
        judge_truth(case, rng, truth, account, releases, story)
    return case, notion, True


def judge_truth(
    case: Case, rng: random.Random, truth: Any, account: hl.Accountant, releases: Sequence[hl.Release], story: object
) -> None:
    """What the newest releases of an age-dependent plan tell."""
    some = list(releases)[-5:]
    if isinstance(truth, Truth):
        ageing.judge_chain(case, ageing.as_numbers(rng, truth, some), truth, account, story)
        return
    assert isinstance(truth, Wander)
    span = account.notion.process.span  # type: ignore[attr-defined]
    if any(r.sensitivity < span for r in some):
        return  # a clip that is narrower than the span is no plan's business
    clips = [(r.data_time, -r.sensitivity / 2, r.sensitivity / 2, scale_of(r)) for r in some]
    found = told_on_span(truth, clips, account.step, [(-span / 2, span / 2)])
    case.compare("promise", found, account.notion.epsilon, story, ageing.FAR)  # type: ignore[attr-defined]


def judge_certificate(case: Case, plan: Any, story: object) -> None:
    """The classical loss that a certificate states, beside what releases up to its steps attain."""
    stated = plan.certificate()["classical_risk"]
    if plan.noise != "laplace" or stated["steps"] > 200:
        return
    releases = [r for k in range(1, stated["steps"] + 1) for r in plan.releases_at(k)]
    strong = getattr(plan.notion, "strong", False)
    alone = [r for r in releases if not (strong and r.draw)]  # in strong nothing is published under a pattern alone
    found = 0.0
    names = {r.draw: r for r in releases if r.draw}
    for r in alone:
        if r.atop is None and r.draw is None:
            found += r.sensitivity / scale_of(r)
    groups: dict[str, list[hl.Release]] = {}
    for r in alone:
        if r.draw or r.atop:
            groups.setdefault(str(r.draw or r.atop), []).append(r)
    for name, uses in groups.items():
        if strong:
            pattern = names[name]
            reach = max(pattern.sensitivity, uses[0].sensitivity)
            found += _worst(reach, [scale_of(r) for r in uses], scale_of(pattern))
        else:
            found += attained(uses, lambda r: r.sensitivity, apart)
    case.compare("certificate", found, _number(stated), story)


def _worst(reach: float, fresh: Sequence[float], under: float) -> float:
    """Values that move by up to `reach`, half of them up and half of them down: v cannot follow both."""
    ups = [reach if k % 2 else -reach for k in range(len(fresh))]
    return max(shared_loss(ups, fresh, under), shared_loss([reach] * len(fresh), fresh, under))


def _number(stated: Any) -> float:
    value = stated.get("pure", math.inf)
    return math.inf if value in (None, "inf", "infinite") else float(value)
