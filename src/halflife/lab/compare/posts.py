"""Post-processing of contestants' outputs: what is written after a `+`, and how all repetitions go through it.

    moving-average=N       the mean of the last N outputs            kalman       a level whose drift is fitted
    kalman=DRIFT           a level with this drift a step            seasonal=K   level, day and week, K steps a day
    truncate=LOW:HIGH      outputs kept within public bounds         counts       max(0, round(·)): whole numbers from 0 on

Filters that are fitted see one repetition each, as a publisher would: parameters are never shared between repetitions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from halflife.errors import InvalidInput, unknown
from halflife.lab.compare.expectations import Schedule
from halflife.lab.compare.streams import Stream
from halflife.numerics.arrays import Floats
from halflife.numerics.parameters import real
from halflife.plans.base import STD_OF_UNIT_SCALE
from halflife.postprocessing.base import Facts, Smoother
from halflife.postprocessing.kalman import Kalman
from halflife.postprocessing.local_level import LocalLevel
from halflife.postprocessing.moving_average import MovingAverage
from halflife.postprocessing.seasonal import Seasonal
from halflife.postprocessing.structural.estimator import Structural
from halflife.postprocessing.truncate import Truncate

KINDS = ("moving-average", "kalman", "seasonal", "truncate", "counts")
NEED_INDEPENDENT_NOISE = ("kalman", "seasonal")


class Post(NamedTuple):
    """One post-processor: its kind and what stands after the `=`, as it was written."""

    kind: str
    given: str = ""

    def __str__(self) -> str:
        return f"{self.kind}={self.given}" if self.given else self.kind


class Processed(NamedTuple):
    """Outputs after post-processing, repetitions × steps, and half-widths of 95 % bands, None if nothing is claimed."""

    values: Floats
    bands: Floats | None


def is_fitted(post: Post) -> bool:
    """Whether parameters are fitted, which takes seconds for each repetition."""
    return post.kind == "seasonal" or (post.kind == "kalman" and not post.given)


def parse_posts(text: str) -> tuple[Post, ...]:
    """Return a chain of post-processors, written with a `+` between them.

    >>> [str(post) for post in parse_posts("moving-average=12+truncate=0:50")]
    ['moving-average=12', 'truncate=0:50']
    """
    found = []
    for part in text.split("+"):
        kind, _, given = part.strip().partition("=")
        if kind not in KINDS:
            raise unknown("post-processor", kind, KINDS, about="post")
        post = Post(kind, given.strip())
        make_smoother(post, 48.0, independent=True)  # what cannot be read is refused now
        found.append(post)
    return tuple(found)


def check_posts(posts: tuple[Post, ...], label: str, schedule: Schedule | None, steps_per_day: float | None) -> None:
    """Refuse filters where their noise model would be false, and seasons where nobody says how long a day is."""
    for place, post in enumerate(posts):
        if post.kind not in NEED_INDEPENDENT_NOISE:
            continue
        fitted = is_fitted(post)
        if schedule is None or not (schedule.fresh or (fitted and schedule.current)):
            raise InvalidInput(
                f"{label}: {post} takes noise to be drawn anew for every step, of known scale, which is not so here: use "
                "moving-average or truncate with it",
                about="post",
            )
        if fitted and place > 0:
            raise InvalidInput(f"{label}: {post} takes raw values: put it first", about="post")
        if post.kind == "seasonal" and not post.given and steps_per_day is None:
            raise InvalidInput(
                f"{label}: how many steps a day has is not known here: write seasonal=48, say", about="post"
            )


def make_smoother(post: Post, steps_per_day: float | None, independent: bool) -> Smoother | None:
    """Return a new smoother; None for counts, which is none of those that a policy has."""
    try:
        if post.kind == "moving-average":
            return MovingAverage(int(post.given), independent=independent)
        if post.kind == "kalman":
            return (
                Kalman(float(post.given), independent=independent) if post.given else LocalLevel(steps_per_day or 48.0)
            )
        if post.kind == "seasonal":
            return Seasonal(real("seasonal", float(post.given), positive=True) if post.given else steps_per_day or 48.0)
        if post.kind == "truncate":
            low, high = post.given.split(":")
            return Truncate(float(low), float(high))
    except InvalidInput as error:
        raise InvalidInput(f"{post}: {error}", about="post") from None
    except ValueError:
        forms = {"moving-average": "moving-average=12", "kalman": "kalman or kalman=0.5", "seasonal": "seasonal=48"}
        said = forms.get(post.kind, "truncate=0:100")
        raise InvalidInput(f"{post} cannot be read: write {said}", about="post") from None
    if post.given:
        raise InvalidInput(f"{post}: {post.kind} takes no number: write {post.kind}", about="post")
    return None


def as_counts(values: Floats) -> Floats:
    """Return max(0, round(·)), halves up, as the benchmark does with `truncate`.

    >>> as_counts(np.array([-3.2, 2.5, 7.4])).tolist()
    [0.0, 3.0, 7.0]
    """
    return np.maximum(0.0, np.floor(values + 0.5))


def post_process(
    posts: tuple[Post, ...],
    outputs: Floats,
    schedule: Schedule | None,
    stream: Stream,
    check: Callable[[], None] = lambda: None,
) -> Processed:
    """Run all repetitions through a chain; without any, the bands are those of the noise itself.

    Bands are claimed where noise is independent from step to step, or a fitted filter knows which noise is shared; truncation
    keeps those from before. `check` is called from time to time, and may raise to end it.
    """
    bands = None if schedule is None else schedule.bands
    values = outputs
    claimed = schedule is not None and (schedule.fresh or not posts)
    scales = np.zeros(outputs.shape[1]) if schedule is None else schedule.scales[0]
    facts = make_facts(schedule, stream, outputs.shape[1])
    for place, post in enumerate(posts):
        smoother = make_smoother(post, stream.steps_per_day, independent=place == 0)
        if smoother is None:
            values = as_counts(values)
        elif isinstance(smoother, Structural):
            values, bands = _estimate_each(post, values, scales, facts, stream, check)
            scales, claimed = bands.max(axis=0) / facts.band, True
        else:
            moved, scales = smoother.smooth(np.ascontiguousarray(values.T), scales, facts)
            values = np.ascontiguousarray(moved.T)
            if post.kind != "truncate":
                bands = facts.band * scales
    return Processed(values, bands if claimed else None)


def make_facts(schedule: Schedule | None, stream: Stream, steps: int) -> Facts:
    """Return the public facts about the steps that filters are told."""
    per_day = stream.steps_per_day
    days = None if per_day is None else np.arange(steps) / per_day
    if schedule is None:
        return Facts(days=days)
    std = STD_OF_UNIT_SCALE[schedule.noise]
    if schedule.shared is None:
        return Facts(std=std, days=days)
    fresh = schedule.scales[1] if len(schedule.scales) == 2 else np.zeros(steps)
    return Facts(std=std, days=days, fresh=fresh, reused=schedule.scales[0], shared=schedule.shared)


def _estimate_each(
    post: Post, values: Floats, scales: Floats, facts: Facts, stream: Stream, check: Callable[[], None]
) -> tuple[Floats, Floats]:
    """Estimates and bands of each repetition by a filter of its own."""
    estimates, bands = np.empty_like(values), np.empty_like(values)
    for lane, row in enumerate(values):
        check()
        smoother = make_smoother(post, stream.steps_per_day, independent=True)
        assert isinstance(smoother, Structural)
        found = smoother.estimate(np.ascontiguousarray(row[:, None]), scales, facts)
        estimates[lane], bands[lane] = found.values[:, 0], found.bands[:, 0]
    return estimates, bands
