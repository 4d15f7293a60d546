"""What a plan would cost, before anything is spent: noise, error and risk over wall-clock time, and when they pass a limit.

Step k begins at `start` + (k − 1)·`width`. Nothing here draws noise or keeps an account.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from fractions import Fraction
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from halflife import registry
from halflife.accountant import Accountant
from halflife.errors import InvalidInput
from halflife.lab.views.page import PALETTE, Figure, figure_html, layout, load_plotly, write_page
from halflife.lab.views.text import describe_parameters, text_table, three_figures
from halflife.local_time import DAY, from_us, parse_months, parse_time
from halflife.notions import Notion
from halflife.numerics.arrays import Floats
from halflife.numerics.forms import JsonObject
from halflife.numerics.parameters import real
from halflife.numerics.rounding import divide_up
from halflife.plans import Plan
from halflife.plans.base import MEAN_ABSOLUTE_OF_UNIT_SCALE
from halflife.policy import GivenPolicy, Policy, channels
from halflife.policy.promises.noise_choice import explain_noise
from halflife.steps import Steps

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

SEARCHED = 1_000_000
"""How many steps are looked at before a question is left undecided; tables and plots end here too."""

LONGEST = 10_000_000
"""A longer horizon would need gigabytes."""

SLACK = 1e-9
"""A risk or an error counts as past its limit when it is this much above it, relatively: rounding up is not spending."""


class Answer(NamedTuple):
    """The answer to a question about time: `verdict` is "at", "not within the horizon", "never" or "undecided"."""

    verdict: str
    step: int | None
    time: str | None
    text: str


@dataclass(frozen=True, eq=False)
class PlanView:
    """A plan on the calendar.

    scales, errors   noise scale and expected |error| of steps 1, 2, …; infinite where nothing is published
    risks            risk after each step, in nats;  limit  what it is promised to stay under
    answers          when the expected error passes what was asked, and when the budget would run out at that error
    stream, unit     of a policy's stream: its name, and what its numbers are in;  worth  of one unit of the plan in it
    """

    plan: Plan
    clock: _Clock
    scales: Floats
    errors: Floats
    risks: Floats
    limit: float
    answers: tuple[Answer, ...]
    stream: str = ""
    unit: str = ""
    worth: float = 1.0

    @property
    def steps(self) -> int:
        """How many steps the table and the plots show."""
        return len(self.scales)


class Row(NamedTuple):
    """One line of the table."""

    step: int
    time: str
    scale: float
    error: float
    risk: float
    share: float


def plan_view(
    notion: Notion,
    *,
    width: str = "30 min",
    start: str | None = None,
    error: float | None = None,
    **request: Any,
) -> PlanView:
    """Return the plan that `notion.plan(**request)` gives, with all that is to be shown of it.

    width  of a step, such as "30 min";  start  ISO date or date-time (UTC), by default today's midnight, or this month's first;
    error  asks when the expected error passes it, and when the budget would run out if every release had it
    """
    begin = parse_start(start)
    if start is None and parse_months(width) is not None:
        begin = begin.replace(day=1)
    clock = _Clock(Steps.of(width, begin))
    asked = None if error is None else real("error", error, positive=True)
    if (request.get("horizon") or 0) > LONGEST:
        raise InvalidInput(
            f"a horizon of {request['horizon']:,} steps is too long to show: give at most {LONGEST:,}, or none"
        )
    return _view(notion.plan(**request), clock, asked)


def policy_views(policy: GivenPolicy, error: float | None = None) -> list[PlanView]:
    """Return the plan of each stream of a policy, in its own unit and on its own clock; no reading is looked at.

    Streams that share a promise are shown one by one: a share of it each, where the plan is for a share.
    """
    asked = None if error is None else real("error", error, positive=True)
    views = []
    for c in channels(Policy.of(policy)):
        if c.tree is not None:
            raise InvalidInput(
                f"{c.name}: the noise of a running total is that of the nodes of a tree, not a plan's: `halflife publish "
                "--dry-run` says how large it is"
            )
        if c.held is not None:
            raise InvalidInput(
                f"{c.name}: when {c.mechanism} publishes, and with how much noise, follows from what it published before, so no "
                "noise is planned: `halflife publish --dry-run` says what is known of it"
            )
        worth = float(max(c.factors))
        made = _view(c.plan, _Clock(c.account), asked, stream=c.name, unit=c.unit, worth=worth)
        if len(c.sized) > 1:  # the noise of a mean follows the size of the population by date
            moments = (c.account.start(c.first + k) for k in range(len(made.scales)))
            now = np.array([float(max(c.sized_at(max(1, c.steps.step(us))).factors)) for us in moments]) / worth
            made = replace(made, scales=made.scales * now, errors=made.errors * now)
        views.append(made)
    return views


def _view(
    plan: Plan, clock: _Clock, asked: float | None, *, stream: str = "", unit: str = "", worth: float = 1.0
) -> PlanView:
    """Work out what is shown of a plan: a year of it, or all of it up to its horizon."""
    a_year = max(1, round(365 * DAY / clock.account.width))
    steps = min(plan.horizon or a_year, SEARCHED)
    scales = plan.scales(steps) * worth
    errors = scales * MEAN_ABSOLUTE_OF_UNIT_SCALE[plan.noise]
    limit = Accountant(plan.notion).exposure(1).limit
    answers = () if asked is None else (
        when_error_passes(plan, asked, clock, worth), when_budget_ends(plan, asked, clock, worth),
    )  # fmt: skip
    risks = plan.risks(steps)
    return PlanView(plan, clock, scales, errors, risks, limit, answers, stream, unit, worth)


# What is asked ------------------------------------------------------------------------------------------------------


PROMISE = ("epsilon", "delta", "alpha", "half_life", "beta", "w", "process", "period", "strong")
"""What belongs to the promise; all else that may be asked for is the plan's."""


def parse_steps(text: str, width: str, *, about: str, whole: bool = True) -> float:
    """Read a number of steps, or a time that is one: steps are so wide.

    >>> parse_steps("336", "30 min", about="w"), parse_steps("1 week", "30 min", about="w")
    (336, 336)
    >>> parse_steps("45 min", "30 min", about="half_life", whole=False)
    1.5
    >>> parse_steps("45 min", "30 min", about="w")
    Traceback (most recent call last):
    ...
    halflife.errors.InvalidInput: w: '45 min' is 1.5 steps of 30 min: give whole steps
    """
    try:
        steps = Fraction(text)
    except (ValueError, ZeroDivisionError):
        steps = Steps.of(width, "1970-01-01").count(text)
    if steps.denominator == 1:
        return int(steps)
    if whole:
        raise InvalidInput(f"{about}: {text!r} is {float(steps):g} steps of {width}: give whole steps", about=about)
    return float(steps)


def make_notion(name: str, given: JsonObject) -> Notion:
    """Return the notion of this name with the parameters that were given; what it does not have is refused.

    >>> make_notion("hyperbolic", {"epsilon": 1.0, "beta": 0.1})
    HyperbolicDiscount(epsilon=1.0, beta=0.1)
    >>> make_notion("hyperbolic", {"epsilon": 1.0, "alpha": 0.9})
    Traceback (most recent call last):
    ...
    halflife.errors.InvalidInput: hyperbolic has no alpha: it has epsilon, beta
    """
    cls = registry.find_notion(name)
    if cls.attached is not None:
        raise InvalidInput(
            f"{name} plans for {cls.attached} in files, not for one epsilon: use `halflife secrets noise FILES...`"
        )
    known = [f for f in fields(cls) if f.init]
    names = ", ".join(f.name for f in known)
    for key in given:
        if key not in [f.name for f in known]:
            raise InvalidInput(f"{name} has no {key}: it has {names}")
    needed = [f.name for f in known if f.default is MISSING and f.default_factory is MISSING and f.name not in given]
    if needed:
        raise InvalidInput(f"{name} needs {' and '.join(needed)}: it has {names}")
    notion: Notion = cls(**given)
    return notion


def parse_start(text: str | None) -> datetime.datetime:
    """Return when step 1 begins, in UTC; without a time zone it is taken as UTC, without anything it is today's midnight.

    >>> parse_start("2026-01-01").isoformat(), parse_start("2026-01-01T02:00+02:00").isoformat()
    ('2026-01-01T00:00:00+00:00', '2026-01-01T00:00:00+00:00')
    """
    if text is None:
        return datetime.datetime.combine(datetime.datetime.now(datetime.UTC).date(), datetime.time(), datetime.UTC)
    try:
        return parse_time(text).astimezone(datetime.UTC)
    except OverflowError:
        raise InvalidInput(f"start {text!r} lies outside the calendar") from None


class _Clock(NamedTuple):
    """The account's steps as wall-clock time, in their zone."""

    account: Steps

    def begin(self, step: int) -> datetime.datetime:
        """When a step begins."""
        return from_us(self.account.start(step), self.account.zone)

    def at(self, step: int) -> str:
        """When a step begins, in words."""
        try:
            return f"{self.begin(step):%Y-%m-%d %H:%M %Z}"
        except InvalidInput:
            return "after the year 9999"

    @property
    def minutes(self) -> float:
        """How long a step is, of months about."""
        return self.account.width / 60e6

    @property
    def zone(self) -> str:
        """The name of the zone."""
        return self.account.zone


# Answers in wall-clock time -----------------------------------------------------------------------------------------


def when_error_passes(plan: Plan, error: float, clock: _Clock, worth: float = 1.0) -> Answer:
    """Return when a release of the plan first has a larger expected error than this; `worth` is that of the plan's unit."""
    unit = MEAN_ABSOLUTE_OF_UNIT_SCALE[plan.noise] * worth

    def errors(n: int) -> Floats:
        scales = plan.scales(n)
        return np.where(np.isfinite(scales), scales, 0.0) * unit

    step = None if largest_scale(plan) * unit <= error * (1 + SLACK) else _first_above(errors, error, plan.horizon)
    what = f"The expected error passes {error:g}"
    if step is not None:
        return _at(step, f"{what} at step {step:,}: {clock.at(step)}.", clock)
    if plan.horizon is not None and plan.horizon <= SEARCHED:
        return _not_within(f"The expected error does not pass {error:g}", plan.horizon, clock)
    if math.isfinite(largest_scale(plan)):
        top = three_figures(largest_scale(plan) * unit)
        return Answer("never", None, None, f"The expected error never passes {error:g}: it is at most {top}, for ever.")
    return _undecided(f"Whether the expected error ever passes {error:g} is undecided", clock)


def when_budget_ends(plan: Plan, error: float, clock: _Clock, worth: float = 1.0) -> Answer:
    """Return the first release that the promise has no room for if every one has this expected error.

    Never, if the same notion has a plan for ever whose scales stay at or below this one: less loss everywhere is less risk.
    """
    scale, request = error / (MEAN_ABSOLUTE_OF_UNIT_SCALE[plan.noise] * worth), plan.request
    loss = divide_up(plan.sensitivity, scale)
    limit = Accountant(plan.notion).exposure(1).limit

    def risks(n: int) -> Floats:
        losses = np.zeros(n)
        losses[:: request.every] = loss
        return plan.risks_of(losses)

    given = f"With an expected error of {error:g} every time (noise scale {three_figures(scale * worth)})"
    for_ever = plan.notion.plan(
        sensitivity=plan.sensitivity, age=request.age, every=request.every,
        noise=plan.noise if len(plan.notion.noises) > 1 else None,
    )  # fmt: skip
    lasts = scale * (1 + SLACK) >= largest_scale(for_ever)
    step = None if lasts else _first_above(risks, limit, plan.horizon)
    if step is not None:
        step = _refine(lambda k: float(risks(k)[-1]) > limit * (1 + SLACK), step, request.every, plan.horizon)
    if step is not None:
        text = f"{given} the budget would run out at step {step:,}: {clock.at(step)}; that release would be refused."
        return _at(step, text, clock)
    if lasts:
        enough = f"a scale of {three_figures(largest_scale(for_ever) * worth)} is enough for ever"
        return Answer("never", None, None, f"{given} the budget would never run out: {enough}.")
    if plan.horizon is not None and plan.horizon <= SEARCHED:
        return _not_within(f"{given} the budget would not run out", plan.horizon, clock)
    return _undecided(f"{given} it is undecided when the budget would run out", clock)


def largest_scale(plan: Plan) -> float:
    """Return a bound of the plan's noise scales at all steps, infinite if there is none or none is known.

    With a horizon, their largest. For ever: one scale for w-event and for Gaussian discounting; Δf / min(ρ_1, ε(1−αᵉᵛᵉʳʸ))
    for exponential discounting (Corollary 12; the saturating plan's losses are no smaller, ρ_1 being its cap). Others grow.
    """
    notion: Any = plan.notion
    if plan.horizon is not None and plan.horizon <= SEARCHED:
        scales = plan.scales(plan.horizon)
        return float(scales[np.isfinite(scales)].max())
    if notion.name == "w-event" or (notion.name == "gaussian-discount" and math.isfinite(notion.half_life_steps())):
        return plan.scale(1)
    if notion.name == "exponential" and notion.alpha < 1 and plan.request.method in ("tight", "paper"):
        steady = float(notion.epsilon) * -math.expm1(plan.request.every * math.log(notion.alpha))
        return plan.sensitivity / min(steady, plan.loss(1)) * (1 + 1e-7)
    return math.inf


def _first_above(values: Callable[[int], Floats], limit: float, horizon: int | None) -> int | None:
    """The first step whose value is above the limit: lengths double up to the horizon, or SEARCHED."""
    last = min(horizon or SEARCHED, SEARCHED)
    for n in _lengths(last):
        above = values(n) > limit * (1 + SLACK)
        if above.any():
            return int(np.argmax(above)) + 1
    return None


def _refine(refused: Callable[[int], bool], step: int, every: int, horizon: int | None) -> int | None:
    """The first release from `step` on that is refused: long arrays of risks are rounded up coarsely, their last one is not.

    Equal losses on an empty account: the risk grows from release to release, so doubling and halving find it.
    """
    last = min(horizon or SEARCHED, SEARCHED)
    step -= (step - 1) % every
    low, width = step - every, every
    while not refused(step):
        if step + width > last:
            return None
        low, step, width = step, step + width, 2 * width
    while step - low > every:
        middle = low + (step - low) // (2 * every) * every
        low, step = (low, middle) if refused(middle) else (middle, step)
    return step


def _lengths(last: int) -> Iterator[int]:
    n = 1024
    while n < last:
        yield n
        n *= 4
    yield last


def _at(step: int, text: str, clock: _Clock) -> Answer:
    return Answer("at", step, clock.at(step), text)


def _not_within(what: str, horizon: int, clock: _Clock) -> Answer:
    text = f"{what} within the horizon of {horizon:,} steps, the last of which begins {clock.at(horizon)}."
    return Answer("not within the horizon", None, None, text)


def _undecided(what: str, clock: _Clock) -> Answer:
    text = f"{what}: it does not happen within the {SEARCHED:,} steps searched, up to {clock.at(SEARCHED)}."
    return Answer("undecided", None, None, text)


# What is shown ------------------------------------------------------------------------------------------------------


def row_data(view: PlanView, rows: int = 14) -> list[Row]:
    """Return the table: steps with a release, evenly spaced on a logarithmic scale, the first and the last included."""
    every, clock = view.plan.request.every, view.clock
    releases = (view.steps - 1) // every + 1
    chosen = np.unique(np.rint(np.geomspace(1, releases, rows)).astype(int))
    found = []
    for number in chosen.tolist():
        i = (number - 1) * every
        risk = float(view.risks[i])
        found.append(Row(i + 1, clock.at(i + 1), float(view.scales[i]), float(view.errors[i]), risk, risk / view.limit))
    return found


def other_words(view: PlanView) -> list[str]:
    """Say what the promise comes to in human time, what the plan loses if nothing is forgotten, and why it has this noise."""
    noise = explain_noise(view.plan, view.worth, view.unit)
    chosen = [] if noise is None else [f"{noise}."]
    return [*view.plan.notion.in_other_words(view.clock.minutes), classical_words(view.plan), *chosen]


def classical_words(plan: Plan) -> str:
    """Say what the plan comes to under classical privacy, from its certificate."""
    risk = plan.certificate()["classical_risk"]
    if risk.get("why"):
        return f"Read classically, with nothing forgotten, its loss has no bound: {risk['why']}."
    loss = (
        (three_figures(risk["pure"]) if risk["pure"] < 1000 else f"{risk['pure']:,.0f}") + " nats"
        if "pure" in risk
        else f"ε = {risk['epsilon']:.3g} at δ = {risk['delta']:g}"
    )
    return f"Read classically, with nothing forgotten, this plan loses {loss} within {risk['steps']:,} steps."


def plan_json(view: PlanView) -> JsonObject:
    """Return everything as JSON can hold it; first what is not protected."""
    return {
        **view.plan.certificate(),
        "in_other_words": other_words(view),
        **({"stream": view.stream, "unit": view.unit} if view.stream else {}),
        "start": view.clock.begin(1).isoformat(),
        "step_minutes": view.clock.minutes,
        "limit": view.limit,
        "table": [row._asdict() for row in row_data(view)],
        "answers": [answer._asdict() for answer in view.answers],
    }


def print_view(view: PlanView, console: Console) -> None:
    """Print what is not protected, the promise in words, a table, a plot, and the answers; the console knows no markup."""
    plan = view.plan
    if view.stream:
        console.print(f"{view.stream}" + (f", in {view.unit}" if view.unit else ""), style="bold")
    console.print("What is not protected", style="bold")
    for text in plan.not_protected():
        console.print(f"- {text}")
    console.print(
        f"\n{plan.notion.name} ({describe_parameters(plan.notion)}), plan: {plan.request.method}", style="bold"
    )
    for text in (plan.notion.summary, *other_words(view), plan.tail):
        console.print(f"- {text}")
    console.print()
    console.print(_table(view))
    console.print("\n".join(bars(view, min(72, console.width - 14))))
    if (plan.horizon or 0) > view.steps:
        console.print(f"(The first {view.steps:,} of {plan.horizon:,} steps.)")
    for answer in view.answers:
        console.print(f"\n{answer.text}")


def _table(view: PlanView) -> Table:
    heads = ("step", "begins", "noise\nscale", "expected\n|error|", "risk\n(nats)", "of the\npromise")
    rows = [
        (
            f"{row.step:,}", row.time, three_figures(row.scale), three_figures(row.error),
            three_figures(row.risk), f"{100 * row.share:.1f} %",
        )
        for row in row_data(view)
    ]  # fmt: skip
    return text_table(heads, rows, left=(1,), no_wrap=True)


_BLOCKS = " ▁▂▃▄▅▆▇█"


def bars(view: PlanView, width: int = 60, height: int = 5) -> list[str]:
    """Return the noise scale over time as lines of blocks, from 0 up; each column is the largest of its stretch."""
    scales = view.scales[:: view.plan.request.every]
    columns = [float(part.max()) for part in np.array_split(scales, min(width, len(scales)))]
    repeat = max(1, width // len(columns))
    top = max(columns)
    lines = []
    for level in reversed(range(height)):
        eighths = (min(8, max(0, round(8 * (c / top * height - level)))) for c in columns)
        label = three_figures(top) if level == height - 1 else "0" if level == 0 else ""
        lines.append(f"{label:>12} " + "".join(_BLOCKS[e] * repeat for e in eighths))
    first, last = view.clock.at(1), view.clock.at(view.steps)
    axis = f"{first}{last:>{max(len(last) + 2, len(columns) * repeat - len(first))}}"
    return ["noise scale over time", *lines, f"{'':>12} {axis}"]


# The page -----------------------------------------------------------------------------------------------------------

_SCALE = "Scale of the noise: its standard deviation."
_ERROR = (
    "Mean absolute error of each release, in the unit of what is published; with Laplace noise it is the noise's scale."
)
_RISK = "Risk after each step; it is promised to stay at or below the dashed line."
_PLOTS = (
    ("scales", "Noise scale", "noise scale", _SCALE),
    ("errors", "Expected error", "expected |error|", _ERROR),
    ("risks", "Risk", "risk (nats)", _RISK),
)


def plot_view(view: PlanView, what: str, y_title: str, colour: int) -> Figure:
    """Draw scales, errors or risks over wall-clock time."""
    every = 1 if what == "risks" else view.plan.request.every
    values: Floats = getattr(view, what)[::every]
    figure = load_plotly().Figure(layout=layout(y_title))
    axis: JsonObject = {
        "x0": view.clock.begin(1).replace(tzinfo=None).isoformat(),
        "dx": every * view.clock.minutes * 60_000,
    }
    if view.clock.account.months:
        axis = {"x": [view.clock.begin(1 + k * every).replace(tzinfo=None) for k in range(len(values))]}
    figure.add_scatter(
        y=values, **axis,
        name=y_title, mode="lines", line={"color": PALETTE[colour][0], "width": 2.5}, meta={"colours": PALETTE[colour]},
        hovertemplate="%{y:.4~g}",
    )  # fmt: skip
    figure.update_xaxes(title_text=f"time ({view.clock.zone})")
    figure.update_yaxes(rangemode="tozero")
    if what == "risks":
        ends = [view.clock.begin(step).replace(tzinfo=None) for step in (1, len(values))]
        figure.add_scatter(
            x=[end.isoformat() for end in ends], y=[view.limit] * 2, name=f"promised at most: {view.limit:g}", mode="lines",
            line={"color": PALETTE[1][0], "width": 2.5, "dash": "dash"}, meta={"colours": PALETTE[1]}, hoverinfo="skip",
        )  # fmt: skip
        figure.update_yaxes(range=[0, 1.08 * max(view.limit, float(values.max()))])
    return figure


def write_plan_page(views: Sequence[PlanView], path: Path) -> None:
    """Write plans, one after the other, as one interactive HTML file."""
    titles = [f"{v.plan.notion.name}, {describe_parameters(v.plan.notion)}" for v in views]
    parts = "".join(
        _plan_html(v, title, f"{i}-" if i else "") for i, (v, title) in enumerate(zip(views, titles, strict=True))
    )
    body = f"<header><h1>A plan, before anything is spent</h1></header>{parts}"
    write_page(path, f"halflife plan: {titles[0]}", body)


def _plan_html(view: PlanView, title: str, prefix: str) -> str:
    """One plan: what is not protected, the promise in words, and its plots, whose names begin with a prefix."""
    plan, unit = view.plan, f" {view.unit}" if view.unit else ""
    open_points = "".join(f"<li>{escape(text)}</li>" for text in plan.not_protected())
    said = "".join(f"<li>{escape(text)}</li>" for text in other_words(view))
    answers = "".join(f"<p>{escape(answer.text)}</p>" for answer in view.answers)
    figures = "".join(
        f"<section><h3>{head}</h3>"
        f"{figure_html(prefix + what, plot_view(view, what, y, i), f'{head} over time', caption)}</section>"
        for i, (what, head, y, caption) in enumerate(_PLOTS)
        if what != "scales" or plan.noise != "laplace"  # its scale is its mean absolute error
    )
    name = f"<h2>{escape(view.stream)}</h2>" if view.stream else ""
    return f"""<section>{name}<p class="lede">{escape(title)}; method {escape(plan.request.method)}, sensitivity
{plan.sensitivity * view.worth:.6g}{escape(unit)}, horizon {f"{plan.horizon:,} steps" if plan.horizon else "none: for ever"}.
Times are in {escape(view.clock.zone)}.</p>
<h2>What is not protected</h2><ul class="open">{open_points}</ul>
<h2>In other words</h2><p>{escape(plan.notion.summary)}</p><ul>{said}</ul><p>{escape(plan.tail)}</p>{answers}</section>
{figures}"""
