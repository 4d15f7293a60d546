"""What every plan must do: keep its promise for long, say why, and be admitted by a live account."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import numpy as np

from halflife.accountant import Accountant
from halflife.errors import InvalidInput
from halflife.plans import Plan
from halflife.testing.expectations import expect, within

LONG, LIVE = 100_000, 2_000
"""For how many steps a plan's risks are worked out, and its releases admitted one by one."""


def scale_is_sensitivity_over_loss(plan: Plan) -> None:
    """scale, scales, std, losses and loss tell one story, and scales are rounded up."""
    n = min(plan.horizon or 500, 500)
    losses, scales = plan.losses(n), plan.scales(n)
    published = losses > 0
    expect(bool(np.all(np.isinf(scales[~published]))), "a step without a release must have infinite noise")
    moved = plan.sensitivities_of_releases(1, int(np.count_nonzero(published)))
    expect(bool(np.all(scales[published] * losses[published] >= moved * (1 - 1e-15))), "a scale is too small")
    expect(bool(np.allclose(scales[published] * losses[published], moved, rtol=1e-12)), "a scale is too large")
    for k in (1, n // 2 + 1, n):
        expect(plan.scale(k) == scales[k - 1] or math.isclose(plan.scale(k), scales[k - 1], rel_tol=1e-15), "scale(k)")
        expect(plan.loss(k) == losses[k - 1], "loss(k) differs from losses(n)")
    factor = math.sqrt(2) if plan.noise == "laplace" else 1.0
    whole = factor * math.hypot(*plan.layers(1))
    expect(math.isclose(plan.std(1), whole, rel_tol=1e-12), "std is not that of the noise")
    expect(plan.layers(1)[0] == plan.scale(1), "the first layer is not the noise of the step")


def promise_holds_for_long(plan: Plan) -> None:
    """The plan never breaks its notion's promise over 10⁵ steps, or up to its horizon."""
    n = min(plan.horizon or LONG, LONG)
    shares = plan.risks(n) / plan.limits(n)
    worst = float(np.max(shares))
    expect(within(worst, 1.0), f"the plan's risk reaches {worst!r} of its promise")
    expect(worst > 0.05, f"the plan uses only {worst:.3%} of its promise")


def account_admits_the_plan(plan: Plan) -> None:
    """A live account admits every planned release, and its risk is about the one that the plan announced.

    Both are upper bounds; with a δ they may round losses up at different places, by a few per cent.
    """
    n = min(plan.horizon or LIVE, LIVE)
    risks, account = plan.risks(n), Accountant(plan.notion)
    for k in range(1, n + 1):
        account.admit(*plan.releases_at(k))
        if k in (1, 2, n // 2, n):
            risk = account.risk(k)
            expect(risk <= risks[k - 1] * 1.05, f"step {k}: risk {risk}, the plan announced {risks[k - 1]}")


def certificate_says_why(plan: Plan) -> None:
    """The certificate is JSON, begins with what is not protected, and says why the tail holds."""
    certificate = plan.certificate()
    expect(json.loads(json.dumps(certificate, allow_nan=False)) == certificate, "the certificate is not plain JSON")
    expect(next(iter(certificate)) == "not_protected", "a certificate must begin with what is not protected")
    for key in ("not_protected", "assumptions", "tail"):
        expect(bool(certificate[key]), f"the certificate's {key} is empty")
    expect(certificate["notion"] == plan.notion.reference(), "the certificate names another notion")


def horizon_is_an_end(plan: Plan) -> None:
    """Beyond its horizon a plan refuses, and before step 1."""
    for bad in (0, -1, *([plan.horizon + 1] if plan.horizon else [])):
        try:
            plan.scale(bad)
        except InvalidInput:
            continue
        raise AssertionError(f"step {bad} has a scale")


PLAN_CHECKS: dict[str, Callable[[Plan], None]] = {
    f.__name__: f
    for f in (
        scale_is_sensitivity_over_loss,
        promise_holds_for_long,
        account_admits_the_plan,
        certificate_says_why,
        horizon_is_an_end,
    )
}


def check_plan(plan: Plan) -> None:
    """Run every check on a plan."""
    for check in PLAN_CHECKS.values():
        check(plan)
