"""Running estimates by a structural model, whose parameters are fitted again at public times on what was published."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np

from halflife.errors import InvalidInput
from halflife.numerics.arrays import Floats, Integers
from halflife.numerics.forms import JsonObject, leave_out, read_form
from halflife.postprocessing.base import PLAIN, Estimate, Facts, check_values
from halflife.postprocessing.structural.combining import Doubt, trust_model
from halflife.postprocessing.structural.filtering import Filter
from halflife.postprocessing.structural.fitting import NOTHING, Learnt
from halflife.postprocessing.structural.harmonics import Harmonics
from halflife.postprocessing.structural.hindsight import look_back_on
from halflife.postprocessing.structural.parameters import Parameters
from halflife.postprocessing.structural.sizes import judge_series, week_length
from halflife.postprocessing.structural.states import pack, read_filter, same_waves, switch_waves, unpack
from halflife.postprocessing.structural.tracking import Tracker
from halflife.postprocessing.structural.windows import (
    Fit,
    Window,
    begin_of,
    class_of,
    classes_of_amplitude,
    fit_models,
    hidden_part,
    make_window,
    mix,
    model_of,
    next_fit,
    pool_of,
    read_estimate,
    weigh_fits,
    window_length,
)


class Structural:
    """Estimates by a structural model; what a subclass adds is which models are tried.

    Until enough was published for a first fit (a week, or 32 steps) values stay as they are: a warm-up that does not pretend to
    know. Each fit is made after a public number of steps, on the newest eight weeks at most, pooled over some of the cells.
    Cells whose amplitudes round to the same power of 2 share their covariance. In whole units, all cells of a step have the
    same noise.
    """

    name: ClassVar[str]

    def __init__(
        self,
        steps_per_day: float = 48.0,
        parameters: Mapping[str, object] | None = None,
        amplitude: float | None = None,
    ) -> None:
        self.steps_per_day, self.amplitude = float(steps_per_day), amplitude
        self.models = self.make_models(self.steps_per_day)
        self.given = None if parameters is None else dict(parameters)
        self.public = None if parameters is None else Parameters.from_facts(parameters, self.steps_per_day)
        if (parameters is None) != (amplitude is None):
            raise InvalidInput("public parameters count in the amplitude of the series: give both, or none")
        if amplitude is not None and not 0 < amplitude < math.inf:
            raise InvalidInput(f"amplitude must be a number above 0, not {amplitude!r}", about="amplitude")
        self._begin()

    @staticmethod
    def make_models(steps_per_day: float) -> list[Harmonics]:
        """Return the models that are tried; under public parameters, the first."""
        raise NotImplementedError

    def _begin(self) -> None:
        self._step, self._seen = 0, 0
        self._fits: tuple[Fit, ...] = () if self.public is None else (Fit(self.public, self.models[0]),)
        self._tracker: Tracker | None = None
        self._kinds: Integers | None = None
        self._learnt = [NOTHING] * len(self.models)
        self._filters: list[dict[int, Filter]] = []
        self._sums = np.zeros((3, 0))
        self._count = self._noise = 0.0
        self._window: Window | None = None
        self._names: list[str] = []

    # Estimates ------------------------------------------------------------------------------------------------------

    def smooth(self, values: Floats, scales: Floats, facts: Facts = PLAIN) -> tuple[Floats, Floats]:
        """Return the estimates, and the scale of noise whose 95 % band is that of the cell that fared worst."""
        found = self.estimate(values, scales, facts)
        return found.values, found.worst_scales(facts)

    def estimate(self, values: Floats, scales: Floats, facts: Facts = PLAIN) -> Estimate:
        """Return the estimates with the half-widths of their 95 % bands, cell by cell."""
        check_values(values, scales)
        if not len(values):
            return Estimate(values, values)
        block = self._prepare(values, scales, facts)
        found, done = [], 0
        while done < len(values):
            room = len(values) if self.public else self._next_change() - self._seen
            part = slice(done, min(len(values), done + room))
            here = Window(*(column[part] for column in block))
            predicted, variances = self._meet(here, facts.worth)
            found.append(
                read_estimate(predicted, variances, here, facts, self._judge(predicted, variances, here, facts))
            )
            done = part.stop
            if self.public:
                continue
            if self._tracker is not None and self._seen % week_length(self.steps_per_day) == 0:
                self._tracker.close_week()
            if self._seen == next_fit(self._seen - 1, self.steps_per_day):
                self._refit(facts.std > 1)
        return Estimate(*(np.concatenate(parts) for parts in zip(*found, strict=True)))

    def revise(self, values: Floats, scales: Floats, facts: Facts = PLAIN) -> tuple[Floats, Floats]:
        """Return the estimates of a whole series with hindsight, and scales as `smooth` does. Nothing is kept of it."""
        found = self.look_back(values, scales, facts)
        return found.values, found.worst_scales(facts)

    def look_back(self, values: Floats, scales: Floats, facts: Facts = PLAIN) -> Estimate:
        """Return the estimates of a whole series with hindsight, with their 95 % bands, cell by cell."""
        check_values(values, scales)
        if not len(values):
            return Estimate(values, values)
        anew = type(self).from_facts(self.to_facts())
        block = anew._prepare(values, scales, facts)
        cells = values.shape[1]
        doubt = trust_model(len(values))
        if self.public is not None and self.amplitude is not None:
            known = Fit(self.public, self.models[0]), classes_of_amplitude(self.amplitude, facts.worth, cells)
            found = look_back_on(block, self.models, facts.std > 1, known)
        elif len(values) < next_fit(0, self.steps_per_day):
            found = block.values, np.full_like(block.values, math.inf)
        else:
            found = look_back_on(block, self.models, facts.std > 1)
            doubt = judge_series(
                block.values - found[0],
                found[1],
                block.noise,
                block.days,
                self.steps_per_day,
                pool_of(cells),
                facts.std > 1,
            )
        return read_estimate(*found, block, facts, doubt)

    def _next_change(self) -> int:
        """After how many values parameters are fitted next, or a week is closed."""
        week = week_length(self.steps_per_day)
        return min(next_fit(self._seen, self.steps_per_day), week * (self._seen // week + 1))

    def _judge(self, predicted: Floats, variances: Floats, block: Window, facts: Facts) -> Doubt:
        """Return how large errors may be in a block, from what came before it, and take the block in."""
        if self._tracker is None:
            return trust_model(len(block.values))
        surprise, pool = block.values - predicted, pool_of(block.values.shape[1])
        self._tracker.meet(surprise, variances, block.noise, block.days, self.steps_per_day, pool, facts.std > 1)
        return self._tracker.doubt(block.days, self.steps_per_day)

    def _prepare(self, values: Floats, scales: Floats, facts: Facts) -> Window:
        """Return the steps of a block in whole units."""
        steps = np.arange(self._step + 1, self._step + 1 + len(values)) if facts.steps is None else facts.steps
        gaps = np.diff(steps, prepend=self._step if self._seen else steps[:1] - 1).astype(np.float64)
        if (gaps < 1).any():
            raise InvalidInput(f"step {steps[np.argmax(gaps < 1)]} cannot follow: estimates need steps in order")
        if self._sums.shape[1] not in (0, values.shape[1]):
            raise InvalidInput(f"{values.shape[1]} cells cannot follow {self._sums.shape[1]}: a stream keeps its cells")
        if not self._seen and len(values):
            self._sums, gaps[0] = np.zeros((3, values.shape[1])), 0.0
            self._sums[2] = values[0] / facts.worth
        days = steps / self.steps_per_day if facts.days is None else facts.days
        if len(steps):
            self._step = int(steps[-1])
        return make_window(values, scales, facts, np.asarray(days, dtype=np.float64), gaps, self._names)

    def _meet(self, block: Window, worth: Floats) -> tuple[Floats, Floats]:
        """Take in a block without a fit inside; return predictions and their variances: nothing is predicted before a fit."""
        self._note(block)
        raw = block.values, np.full_like(block.values, math.inf)
        if not self._fits:
            return raw
        if self._kinds is not None:
            return self._run(block, self._kinds)
        kinds = classes_of_amplitude(self.amplitude or 1.0, worth, block.values.shape[1])
        self._start(kinds, block.values[0], float(block.noise[0]))
        rest = self._run(Window(*(column[1:] for column in block)), kinds)
        return np.concatenate([raw[0][:1], rest[0]]), np.concatenate([raw[1][:1], rest[1]])

    def _run(self, block: Window, kinds: Integers) -> tuple[Floats, Floats]:
        """Let the filters of all models go on; return their predictions, taken together."""
        found = []
        for fit, filters in zip(self._fits, self._filters, strict=True):
            predicted, variances = np.empty_like(block.values), np.empty_like(block.values)
            rows = fit.harmonics.rows(block.days, block.phases)
            for kind, one in filters.items():
                cells = kinds == kind
                seen = one.meet(block.values[:, cells], rows, block.noise, block.gaps, model_of(fit, kind)[0])
                predicted[:, cells], variances[:, cells] = seen.predicted, seen.signal[:, None]
            found.append((predicted, variances))
        return mix(found, [fit.share for fit in self._fits])

    def _note(self, block: Window) -> None:
        """Add a block to the moments of each cell and to the window; sums are added up step by step, however blocks are cut."""
        moved = block.values - self._sums[2]
        for row, terms in ((0, moved), (1, moved * moved)):
            self._sums[row] = np.cumsum(np.concatenate([self._sums[row : row + 1], terms]), axis=0)[-1]
        self._noise = float(np.cumsum(np.concatenate([[self._noise], block.noise]))[-1])
        self._count += len(block.values)
        self._seen += len(block.values)
        if self.public is None:
            kept = block if not self._fits else block._replace(values=block.values[:, pool_of(block.values.shape[1])])
            most = window_length(self.steps_per_day)
            self._window = kept if self._window is None else self._window.append(kept, most)

    # Fits -----------------------------------------------------------------------------------------------------------

    def _classes(self) -> Integers:
        """The class of each cell by its moments."""
        mean, square = self._sums[:2] / self._count
        return class_of(np.maximum(0.0, square - mean**2), self._noise / self._count, self._count)

    def _start(self, kinds: Integers, begin: Floats, doubt: float = 0.0) -> None:
        """Begin the filters of all classes with these levels; `doubt` is the variance of the noise in them, if it is large."""
        self._kinds, self._filters = kinds, [{} for _ in self._fits]
        for fit, filters in zip(self._fits, self._filters, strict=True):
            for kind in np.unique(kinds).tolist():
                before = model_of(fit, kind)[1]
                means = np.zeros((fit.harmonics.states, int((kinds == kind).sum())))
                means[0] = begin[kinds == kind]
                if doubt:
                    before[0] = before.sum() + doubt
                filters[kind] = Filter(means, np.diag(before))

    def _refit(self, laplace: bool) -> None:
        """Fit the parameters to the window; at first begin the filters with all of it, later let them go on."""
        if self._window is None:
            raise InvalidInput("a fit needs values")
        window, kinds = self._window, self._classes()
        pool = pool_of(len(kinds))
        before = self._fits
        pooled = window if before else window._replace(values=window.values[:, pool])
        starts = [
            next((fit.parameters for fit in before if same_waves(fit.harmonics, model)), None) for model in self.models
        ]
        hidden = hidden_part(kinds[pool], self._noise / self._count, self._count)
        tried = fit_models(pooled, 2.0 ** (kinds[pool] / 2), self.models, starts, laplace, hidden, self._learnt)
        if self._seen >= window_length(self.steps_per_day):  # windows before that are parts of the first whole one
            self._learnt = [known.add(one.learnt) for known, one in zip(self._learnt, tried, strict=True)]
        self._fits = weigh_fits(tried)
        if self._tracker is None:
            self._tracker = Tracker.begin(len(kinds), len(pool), self.steps_per_day)
        else:
            self._tracker.start_anew()
        self._window = pooled
        if before:
            self._adapt(before, kinds)
        else:
            self._start(kinds, begin_of(window, self.steps_per_day))
            self._run(window, kinds)
        self._sums[:2] /= 2
        self._count, self._noise = self._count / 2, self._noise / 2

    def _adapt(self, before: Sequence[Fit], kinds: Integers) -> None:
        """Go on with other parameters, each model with its own states, a new one with those of the likeliest before.

        A cell that changes its class takes the covariance of the nearest class there was.
        """
        old_filters, old_kinds = self._filters, self._kinds
        if old_kinds is None:
            raise InvalidInput("estimates begin with a fit")
        self._kinds, self._filters = kinds, []
        for fit in self._fits:
            like = max((same_waves(one.harmonics, fit.harmonics), one.share, k) for k, one in enumerate(before))[2]
            harmonics, old = before[like].harmonics, old_filters[like]
            means = np.zeros((harmonics.states, len(kinds)))
            for kind, one in old.items():
                means[:, old_kinds == kind] = one.means
            filters = {}
            for kind in np.unique(kinds).tolist():
                nearest = min((abs(known - kind), known) for known in old)[1]
                one = Filter(means[:, kinds == kind], old[nearest].covariance.copy())
                filters[kind] = switch_waves(one, harmonics, fit, kind)
            self._filters.append(filters)

    # Facts and state ------------------------------------------------------------------------------------------------

    def to_facts(self) -> JsonObject:
        """Return how many steps a day has, and public parameters if there are any."""
        facts = {
            "name": self.name,
            "steps_per_day": self.steps_per_day,
            "parameters": self.given,
            "amplitude": self.amplitude,
        }
        return leave_out(facts, parameters=None, amplitude=None)

    @classmethod
    def from_facts(cls, facts: Mapping[str, object]) -> Self:
        """Read what `to_facts` gave."""
        form = read_form(cls.name, facts, ("name", "steps_per_day"), parameters=None, amplitude=None)
        return cls(form["steps_per_day"], form["parameters"], form["amplitude"])

    def state(self) -> Any:
        """Return all that it has seen, as JSON can hold it; `others` are the models beside the first, if there are any."""
        if not self._seen:
            return None
        window, kinds = self._window, self._kinds
        facts = [None if self.public else self._fit_facts(fit) for fit in self._fits] or [None]
        filters = [
            {str(k): [pack(f.means), pack(f.covariance)] for k, f in filters.items()} for filters in self._filters
        ] or [{}]
        form = {
            "step": self._step,
            "seen": self._seen,
            "fit": facts[0],
            "classes": None if kinds is None else kinds.tolist(),
            "filters": filters[0],
            "sums": pack(self._sums),
            "count": self._count,
            "noise": self._noise,
            "window": None if window is None else [pack(column) for column in window],
            "names": self._names,
            "others": [list(pair) for pair in zip(facts[1:], filters[1:], strict=True)],
        }
        if self._tracker is not None:
            form["sizes"] = [pack(part) for part in self._tracker.parts()]
            form["learnt"] = [[pack(one.precision), pack(one.moment)] for one in self._learnt]
        return leave_out(form, others=[])

    def restore(self, state: object) -> None:
        """Restore the state that `state` gave."""
        self._begin()
        if state is None:
            return
        keys = ("step", "seen", "fit", "classes", "filters", "sums", "count", "noise", "window", "names")
        form = read_form("the state of an estimator", state, keys, others=[], sizes=None, learnt=None)
        self._step, self._seen = int(form["step"]), int(form["seen"])
        pairs = [(form["fit"], form["filters"]), *form["others"]]
        if form["fit"] is not None:
            self._fits = tuple(self._read_fit(facts) for facts, _ in pairs)
        self._names = list(map(str, form["names"]))
        self._sums, self._count, self._noise = (
            unpack(form["sums"]).reshape(3, -1),
            float(form["count"]),
            float(form["noise"]),
        )
        if form["sizes"] is not None:
            cells = self._sums.shape[1]
            parts = [unpack(part) for part in form["sizes"]]
            self._tracker = Tracker.from_parts(parts, cells, len(pool_of(cells)), self.steps_per_day)
            self._learnt = [Learnt(unpack(one), unpack(other)) for one, other in form["learnt"]]
        elif self._fits and self.public is None:  # a state of an earlier version: sizes are learnt from here on
            cells = self._sums.shape[1]
            self._tracker = Tracker.begin(cells, len(pool_of(cells)), self.steps_per_day)
        if form["window"] is not None:
            values, *others = map(unpack, form["window"])
            self._window = Window(values.reshape(len(others[0]), -1), *others)
        if form["classes"] is not None:
            self._kinds = np.array(form["classes"], dtype=np.int64)
            self._filters = [
                {int(kind): read_filter(packed, fit.harmonics.states) for kind, packed in filters.items()}
                for fit, (_, filters) in zip(self._fits, pairs, strict=True)
            ]

    def _fit_facts(self, fit: Fit) -> JsonObject:
        """Return a fit as JSON can hold it."""
        facts = {
            "parameters": list(fit.parameters.numbers),
            "model": self.models.index(replace(fit.harmonics, phases=0)),
            "phases": fit.harmonics.phases,
            "reused": fit.reused,
            "share": fit.share,
            "size": fit.size,
        }
        return leave_out(facts, share=1.0, size=1.0)

    def _read_fit(self, facts: object) -> Fit:
        """Read what `_fit_facts` gave."""
        keys = ("parameters", "model", "phases", "reused")
        form = read_form(
            "a fit", facts, keys, share=1.0, size=1.0, chances=None
        )  # chances of sizes, of an earlier version
        harmonics = replace(self.models[form["model"]], phases=int(form["phases"]))
        parameters = Parameters(tuple(map(float, form["parameters"])))
        return Fit(parameters, harmonics, float(form["reused"]), float(form["share"]), float(form["size"]))
