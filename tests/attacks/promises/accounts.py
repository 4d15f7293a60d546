"""Accounts by hand: random histories of releases under every notion, and what the worst neighbours attain against them.

A release says y = f + noise with |Δf| ≤ its sensitivity. `draw` publishes f + v under the name of v; `atop` publishes f + v + u
with u of its own. Given y = f + v alone, v is known up to Δf, so what lies atop of it tells |Δ − Δ_v| under u: exact, and
independent of the first. Nothing that is charged is looked at here, only what was published and what the account then says.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import halflife as hl
from attacks.promises.densities import epsilon_at, shared_loss
from attacks.promises.verdicts import Case

Reach = Callable[[hl.Release], float]
Key = Callable[[int, hl.Release], Any]
REFUSALS = (hl.BudgetExceeded, hl.UnboundedLoss, hl.InvalidInput)


def scale_of(release: hl.Release) -> float:
    """The scale of a release's own noise: as stated, or the least that its loss allows."""
    return release.sensitivity / release.loss if release.scale is None else release.scale


# What is attained ---------------------------------------------------------------------------------------------------


def attained(releases: Sequence[hl.Release], reach: Reach, key: Key, delta: float = 0.0, unseen: bool = False) -> float:
    """The ε at δ that the worst neighbours attain whose values move by at most `reach`, alike where `key` is the same.

    unseen  whether drawn noise is published only under fresh noise (strong almost-periodic), and not by itself
    """
    groups: dict[Any, list[int]] = {}
    for k, r in enumerate(releases):
        groups.setdefault(r.draw or r.atop or k, []).append(k)
    losses: list[float] = []
    squares = 0.0
    for members in groups.values():
        some = [(releases[k], reach(releases[k]), key(k, releases[k])) for k in members]
        worst, square = _worst_of_group(some, unseen)
        losses += worst
        squares += square
    return epsilon_at(losses, delta, math.sqrt(squares))


def _worst_of_group(some: Sequence[tuple[hl.Release, float, Any]], unseen: bool) -> tuple[list[float], float]:
    keys = list(dict.fromkeys(k for _, _, k in some))
    worst: tuple[list[float], float] = ([], 0.0)
    for signs in product((1, -1), repeat=len(keys) - 1):
        sign = dict(zip(keys, (1, *signs), strict=True))
        found = _group([(r, sign[k] * x) for r, x, k in some], unseen)
        if math.fsum(found[0]) + found[1] > math.fsum(worst[0]) + worst[1]:
            worst = found
    return worst


def _group(some: Sequence[tuple[hl.Release, float]], unseen: bool) -> tuple[list[float], float]:
    """Independent Laplace losses, and μ² of Gaussian noise, of releases that share one draw and move by these amounts."""
    drawn = [(r, m) for r, m in some if r.draw is not None]
    atop = [(r, m) for r, m in some if r.draw is None]
    if len({scale_of(r) for r, _ in drawn}) > 1:
        return [math.inf], 0.0  # a·f₁ + v and f₂ + c·v: v cancels, whatever c is
    if unseen and drawn:  # nothing was published under the draw alone
        return [shared_loss([m for _, m in atop], [scale_of(r) for r, _ in atop], scale_of(drawn[0][0]))], 0.0
    losses, squares, base = [], 0.0, 0.0
    if drawn:
        if len({m for _, m in drawn}) > 1:
            return [math.inf], 0.0
        base = drawn[0][1]
    for r, moved in [*drawn[:1], *((r, m - base) for r, m in atop)]:
        scale = scale_of(r)
        if scale == 0 and moved:
            return [math.inf], 0.0
        if r.noise == "gaussian":
            squares += (moved / scale) ** 2 if moved else 0.0
        elif moved:
            losses.append(abs(moved) / scale)
    return losses, squares


def apart(k: int, release: hl.Release) -> int:
    """Every release moves as it likes."""
    return k


# Each notion's neighbours ---------------------------------------------------------------------------------------------


def windows(releases: Sequence[hl.Release], w: int) -> list[range]:
    """The windows of data times that begin with a release."""
    return [range(t, t + w) for t in sorted({r.data_time for r in releases})]


def discount(notion: Any, j: int) -> float:
    """d(j), from the parameters."""
    beta = getattr(notion, "beta", None)
    return float(notion.alpha) ** j if beta is None else 1 / (1 + beta * j)


def judge_classical(case: Case, account: hl.Accountant, releases: Sequence[hl.Release], story: object) -> None:
    notion: Any = account.notion
    found = attained(releases, lambda r: r.sensitivity, apart, notion.delta)
    case.compare("promise", found, notion.epsilon, story)
    case.compare("account", found, account.risk(), story)


def judge_windowed(
    case: Case, account: hl.Accountant, releases: Sequence[hl.Release], story: object, most: float
) -> None:
    """Every window against the promise and the largest risk that was ever reported; the one that ends now against risk now."""
    notion: Any = account.notion
    now = account.step
    for window in [*windows(releases, notion.w), range(now - notion.w + 1, now + 1)]:
        found = attained(releases, lambda r, w=window: r.sensitivity * (r.data_time in w), apart, notion.delta)
        case.compare("promise", found, notion.epsilon, (window, story))
        case.compare(
            "account", found, account.risk() if window[-1] == now else max(most, account.risk()), (window, story)
        )


def judge_discounted(case: Case, account: hl.Accountant, releases: Sequence[hl.Release], story: object) -> None:
    """At step t neighbours differ by d(t − S_k) of what a person can do; for independent noise that is Σ d ρ exactly."""
    notion: Any = account.notion
    for later in (0, 1, 3, 20):
        t = account.step + later
        found = attained(
            releases, lambda r, t=t: r.sensitivity * discount(notion, t - r.step), apart, getattr(notion, "delta", 0.0)
        )
        case.compare("promise", found, notion.epsilon, (t, story))
        case.compare("account", found, account.risk(t), (t, story))


def judge_periodic(
    case: Case, account: hl.Accountant, releases: Sequence[hl.Release], story: object, most: float
) -> None:
    """Who differs in what repeats: values of one phase and one noise move alike, in every period. And, strong, in one period."""
    notion: Any = account.notion
    period = notion.period
    drawn = {r.draw: r.sensitivity for r in reversed(releases) if r.draw is not None}

    def same_number(k: int, r: hl.Release) -> Any:
        return (r.data_time % period) if r.draw or r.atop else k

    def same_reading(k: int, r: hl.Release) -> Any:
        return r.data_time if r.draw or r.atop else k

    def repeats(r: hl.Release) -> float:
        return drawn.get(r.draw or r.atop, r.sensitivity) if notion.strong or r.draw or r.atop else r.sensitivity

    if any(r.draw and r.sensitivity != drawn[r.draw] for r in releases):
        case.compare("account", math.inf, account.risk(), ("one noise for numbers of two sensitivities", story))
    found = attained(releases, repeats, same_number, unseen=notion.strong)
    case.compare("promise", found, notion.epsilon, ("what repeats", story))
    case.compare("account", found, account.risk(), ("what repeats", story))
    if not notion.strong:
        return
    for window in windows(releases, period):
        found = attained(releases, lambda r, w=window: r.sensitivity * (r.data_time in w), same_reading, unseen=True)
        case.compare("promise", found, notion.epsilon, (window, story))
        case.compare("account", found, max(most, account.risk()), (window, story))


# Random histories -------------------------------------------------------------------------------------------------------


def random_notion(rng: random.Random) -> Any:
    epsilon = rng.choice([0.3, 1.0, 1.0, 2.5])
    delta = rng.choice([1e-6, 1e-3]) if rng.random() < 0.1 else 0.0
    kind = rng.choice(["classical", "w-event", "exponential", "hyperbolic", "gaussian", "periodic", "periodic"])
    if kind == "classical":
        return hl.Classical(epsilon, delta)
    if kind == "w-event":
        return hl.WEvent(epsilon, rng.randint(1, 4), delta)
    if kind == "exponential":
        return hl.ExponentialDiscount(epsilon, alpha=rng.choice([0.3, 0.9, 1.0, 0.7]))
    if kind == "hyperbolic":
        return hl.HyperbolicDiscount(epsilon, beta=rng.choice([0.1, 1.0, 10.0, 0.0]))
    if kind == "gaussian":
        how = rng.choice([{"alpha": 0.8}, {"beta": 0.5}, {"half_life": 2.0}])
        return hl.GaussianDiscount(epsilon, 1e-3, **how)
    return hl.AlmostPeriodic(epsilon, rng.randint(1, 3), strong=rng.random() < 0.5)


def random_releases(rng: random.Random, notion: Any, step: int, account: hl.Accountant) -> list[hl.Release]:
    """One step's releases, as a mechanism might mean them; names are taken from a few, rightly and wrongly."""
    if isinstance(notion, hl.AlmostPeriodic) and rng.random() < 0.7:
        return _periodic_releases(rng, notion, step)
    made = []
    for _ in range(rng.choice([0, 1, 1, 1, 2])):
        age = rng.choice([0, 0, 0, 1, 2])
        room = 0.5 if getattr(notion, "delta", 0) and rng.random() < 0.8 else account.headroom(step, age)
        loss = rng.choice([0.05, 0.2, room * 0.5, room, room * 1.001]) or 0.1
        sensitivity = rng.choice([1.0, 1.0, 0.5, 2.0])
        noise = (
            "gaussian"
            if "gaussian" in notion.noises and (notion.noises[0] == "gaussian" or rng.random() < 0.2)
            else "laplace"
        )
        names: dict[str, Any] = {}
        if rng.random() < 0.35:
            names = {rng.choice(["draw", "atop"]): rng.choice("ab")}
        scale = None if rng.random() < 0.3 else math.nextafter(sensitivity / loss, math.inf)
        made.append(hl.Release(step, loss, age, sensitivity=sensitivity, scale=scale, noise=noise, **names))
    return made


def _periodic_releases(rng: random.Random, notion: Any, step: int) -> list[hl.Release]:
    """A mechanism of reused noise that is now and then wrong: a name of another phase, a scale or a sensitivity of its own."""
    age = rng.choice([0, 0, 0, 1])
    phase = (step - age) % notion.period
    if rng.random() < 0.12:
        phase = rng.randint(0, 2)
    loss = notion.epsilon / notion.period * rng.choice([1.0, 0.999, 0.5] if rng.random() < 0.15 else [1.0])
    wide = rng.choice([1.0, 2.0]) if rng.random() < 0.15 else 1.0
    pattern = hl.Release(step, loss, age, sensitivity=wide, scale=wide / loss * (1 + 1e-15), draw=f"phase {phase}")
    if not notion.strong and rng.random() < 0.9:
        return [pattern]
    fresh = hl.Release(step, loss, age, sensitivity=1.0, scale=1 / loss * (1 + 1e-15), atop=f"phase {phase}")
    return [pattern, fresh]


def attack_account(seed: int) -> tuple[Case, Any, bool]:
    """One random history: admitted or refused, release by release; then judged."""
    rng = random.Random(seed)
    notion = random_notion(rng)
    case, account = Case("account", seed), hl.Accountant(notion)
    admitted: list[hl.Release] = []
    step, most = 0, 0.0
    for _ in range(rng.randint(2, 7)):
        step += rng.choice([1, 1, 1, 2])
        for release in random_releases(rng, notion, step, account):
            if release.draw and notion.shares_draws and notion.strong and release.draw in account.draws:
                continue  # a strong pattern is drawn once; its later uses are the fresh noise atop it
            before = account.to_json()
            try:
                account.admit(release)
                admitted.append(release)
            except REFUSALS:
                case.expect("a refusal leaves no trace", account.to_json() == before, release)
        most = max(most, account.risk())
    judge(case, account, admitted, most)
    return case, notion, bool(admitted)


def judge(case: Case, account: hl.Accountant, admitted: list[hl.Release], most: float) -> None:
    """Hold an account to what its releases attain, and to itself."""
    notion: Any = account.notion
    story = (notion, admitted)
    if isinstance(notion, hl.Classical):
        judge_classical(case, account, admitted, story)
    elif isinstance(notion, hl.WEvent):
        judge_windowed(case, account, admitted, story, most)
    elif isinstance(notion, hl.AlmostPeriodic):
        judge_periodic(case, account, admitted, story, most)
    else:
        judge_discounted(case, account, admitted, story)
    judge_itself(case, account, admitted)


def judge_itself(
    case: Case, account: hl.Accountant, admitted: Sequence[hl.Release], later: Sequence[int] = (1, 2, 5, 17)
) -> None:
    """An account agrees with its replay and its saved self, its peak holds, and what it says has room has room."""
    story = (account.notion, admitted)
    replayed, restored = hl.Accountant.replay(account.notion, admitted), hl.Accountant.from_json(account.to_json())
    case.expect("replay agrees", replayed.agrees(account) and replayed.risk() == account.risk(), story)
    case.expect("a saved account agrees", restored.agrees(account) and restored.risk() == account.risk(), story)
    peak, limit = account.peak(), account.exposure().limit
    waiting = getattr(account.notion, "strong", False) and admitted and admitted[-1].draw is not None
    if not waiting:  # a strong pattern without fresh noise yet has no bound if none follows, and says so
        case.compare("promised peak", peak, limit, story)
    for gap in later:
        try:
            case.compare("peak", account.risk(account.step + gap), peak, (gap, story))
        except hl.InvalidInput:
            break  # beyond a promise's horizon
    step = max(1, account.step)
    for age in (0,) if getattr(account.notion, "delta", 0) else (0, 1):
        try:
            room = account.headroom(step, age)
        except hl.InvalidInput:
            continue  # nothing is said, which is safe
        if not 0 < room < math.inf or getattr(account.notion, "strong", False):
            continue
        trial = account.copy()
        noise = account.notion.noises[0]
        try:
            trial.admit(hl.Release(step, room, age, noise=noise, scale=math.nextafter(1 / room, math.inf)))
        except REFUSALS as error:
            case.expect("headroom can be spent", False, (room, str(error), story))
