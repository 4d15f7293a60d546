"""The family of noise, Laplace or Gaussian, where a policy leaves it open and its δ allows both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from halflife.errors import InvalidInput
from halflife.numerics.forms import JsonObject
from halflife.plans import Plan
from halflife.release import Noise

FAR = 17_520
"""The release by which plans for ever are compared, a year of half hours: where noise grows, that of Laplace grows faster."""
Planner = Callable[[Noise | None], list[Plan]]
"""Plans all streams with noise of one family; with None each plan chooses by itself, from losses alone."""


def choose_noise(make: Planner) -> list[Plan]:
    """Return the plans of the family with less noise, known from the policy alone: sensitivities, ε, δ and how many releases.

    Laplace noise of loss ρ has a standard deviation of √2 Δ₁/ρ and Gaussian noise of loss μ one of Δ₂/μ, so the choice needs both
    sensitivities, L1 and L2, and not the losses alone: one person who counts in 10 of 100 groups moves 20 counts by 1, hence
    Δ₁ = 20 and Δ₂ = √20 (w = 5, ε = 1, δ = 10⁻⁶: 141.4 against 42.2). One family serves all streams that share a δ, as a mixture
    takes seconds a step to compose: the one that is better in every stream. Where they disagree it is Gaussian noise, whose
    losses add up in closed form: Laplace noise of several losses takes as long as a mixture (ours).
    """
    options: dict[Noise, list[Plan]] = {}
    refused: list[InvalidInput] = []
    families: tuple[Noise, ...] = ("laplace", "gaussian")
    for family in families:
        try:
            options[family] = make(family)
        except InvalidInput as error:
            refused.append(error)
    if not options:
        raise refused[0]
    found = {family: [_far_std(plan) for plan in plans] for family, plans in options.items()}
    best: Noise = "gaussian"
    if len(options) == 1 or all(a <= b for a, b in zip(found["laplace"], found["gaussian"], strict=True)):
        best = next(iter(options))
    return [
        replace(plan, facts={**plan.facts, "std": {family: stds[i] for family, stds in found.items()}}, _newest={})
        for i, plan in enumerate(options[best])
    ]


def begun_noise(begun: JsonObject | None) -> Noise | None:
    """Return the family that a ledger was begun with, as it remembers it; None if it does not."""
    asked = None if begun is None else begun.get("noise")
    return asked if asked in ("laplace", "gaussian") else None


def explain_noise(plan: Plan, worth: float, unit: str) -> str | None:
    """Say why a plan has noise of its family, where that was chosen; `worth` is the value of one unit in the output."""
    stds = plan.facts.get("std")
    if stds is None:
        return None
    said = {family: f"{std * worth:.4g} {unit}".rstrip() for family, std in stds.items()}
    far = FAR if plan.request.releases is None else min(FAR, plan.request.releases)
    after = "" if plan.loss(1) == plan.loss(1 + (far - 1) * plan.request.every) else f" at release {far:,}"
    others = [f"{family.capitalize()} noise would have {text}" for family, text in said.items() if family != plan.noise]
    why = others[0] if others else "noise of the other family could not keep the promise"
    return f"{plan.noise.capitalize()} noise, with a standard deviation of {said[plan.noise]}{after}: {why}"


def _far_std(plan: Plan) -> float:
    last = plan.request.releases
    return plan.std(1 + ((FAR if last is None else min(last, FAR)) - 1) * plan.request.every)
