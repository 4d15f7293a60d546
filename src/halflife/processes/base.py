"""The base class of processes (models of how one person's data moves): how much of a loss is left t steps later.

A process describes how *one* person's state moves; people are independent of each other (the certificate says so). It is frozen,
has a form on disk, and carries the outcome of its last check against data, if there was one.
"""

from __future__ import annotations

import copy
import inspect
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from halflife.errors import InvalidInput, unknown
from halflife.numerics.forms import JsonObject, check_version
from halflife.numerics.parameters import real, whole
from halflife.processes.contraction import EVERYTHING, Frontier, any_prior, contract, theorem_1

if TYPE_CHECKING:
    from halflife.processes.check import Check

Bound = Literal["tight", "theorem1", "theorem2"]
Adversary = Literal["stationary", "any-prior"]
Direction = Literal["back", "ahead"]
BOUNDS = ("tight", "theorem1", "theorem2")
ADVERSARIES = ("stationary", "any-prior")
PROCESSES: dict[str, Any] = {}


def register_process(cls: type[Any]) -> type[Any]:
    """Register a process's class under its `name`."""
    PROCESSES[cls.name] = cls
    return cls


class Process(ABC):
    """How one person's data moves. To add one, subclass it in one file under `processes/` and register it."""

    name: ClassVar[str]
    composes: ClassVar[Literal["markov", "autoregressive", "once"]] = "markov"
    """How a sequence of releases adds up: step by step (given the present, the past tells nothing about the future), by the rule
    for AR(1) on a span, or with at most one release amplified (nothing is known about how lags hang together)."""
    checked: Mapping[str, Any] | None = None
    """The outcome of the last `check` that `with_check` put here, as JSON can hold it."""

    # What is known of it --------------------------------------------------------------------------------------------

    @abstractmethod
    def frontier(self, t: int, direction: Direction = "back") -> Frontier:
        """Return the frontier of the kernel from X_now to X_{now−t} ("back"), or to X_{now+t} ("ahead").

        What is left must not rise with t up to `last_lag`: where data revives, it is the worst from lag t on.
        """

    @property
    def last_lag(self) -> int | None:
        """The largest t that anything is known about; None if there is none. For processes that compose "once" alone."""
        return None

    def spread(self, t: int) -> float:
        """D_t of the kernel over t steps, for an adversary with any prior."""
        raise InvalidInput(
            f"a {self.name} process does not say how likelihoods of single states compare, so nothing can be promised against an "
            "adversary with any prior: use adversary='stationary', or a Markov chain"
        )

    def total_variation(self, t: int, method: str = "exact") -> float:
        """Return Δ(t), rounded up: the largest total variation distance of two rows of the kernel t steps back.

        (Definitions 6 and 7; paper)


        method  "exact"; "spectral" (eq. 55) and "pinsker" (eq. 88) where they exist
        """
        t = whole("t", t, least=0)
        if method not in ("exact", *self._other_variations()):
            raise unknown(f"method for {self.name}", method, ("exact", *self._other_variations()))
        return self.frontier(t).variation if method == "exact" else self._other_variations()[method](t)

    def _other_variations(self) -> Mapping[str, Callable[[int], float]]:
        """Further ways to bound Δ(t), by name."""
        return {}

    # What follows from it -------------------------------------------------------------------------------------------

    def amplify(
        self, epsilon: float, t: int, bound: str = "tight", adversary: str = "stationary", direction: Direction = "back"
    ) -> float:
        """Return what is left of a loss ε about X_{now−t}, as a loss about X_now, rounded up (Definition 4, Theorem 2; paper).

        bound      "tight": K_t(ε), exact (T3);  "theorem1": ln(1 + Δ(t)(e^ε − 1));  "theorem2": for any mechanism, ε = ∞ included
        adversary  "stationary" knows the process and nothing else; "any-prior" may know anything (4 atanh(tanh(D/4) tanh(ε/4)))

        >>> from halflife.processes import MarkovChain
        >>> chain = MarkovChain([[0.9, 0.1], [0.1, 0.9]])
        >>> [round(chain.amplify(1.0, 3, bound), 4) for bound in ("tight", "theorem1", "theorem2")]
        [0.4823, 0.6311, 1.1309]
        """
        if epsilon != math.inf:
            epsilon = real("epsilon", epsilon)
        t = whole("t", t, least=0)
        if bound not in BOUNDS:
            raise unknown("bound", bound, BOUNDS)
        if adversary not in ADVERSARIES:
            raise unknown("adversary", adversary, ADVERSARIES)
        if t == 0:
            return epsilon
        if adversary == "any-prior":
            return any_prior(self.spread(t), epsilon)
        frontier = self.frontier(t, direction)
        ratio = frontier.log_ratio
        if bound == "theorem2" or epsilon == math.inf:
            return ratio
        first = theorem_1(frontier.variation, epsilon)
        return first if bound == "theorem1" else min(self.contract(epsilon, t, direction), first, ratio)

    def contract(self, epsilon: float, t: int, direction: Direction = "back") -> float:
        """Return K_t(ε) for finite ε and t ≥ 1; arguments are not looked at again."""
        return contract(self.frontier(t, direction), epsilon)

    # Data -----------------------------------------------------------------------------------------------------------

    def age(self, states: Any, t: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return states t steps older, drawn from the reversed process (Definition 5): artificial aging, for the lab."""
        raise InvalidInput(
            f"a {self.name} process cannot be drawn from: use a Markov chain or an autoregressive process"
        )

    def check(self, sequences: Any, **options: Any) -> Check:
        """Say whether the process under-reports on this data, by how much, and with what confidence: see `processes.check`."""
        from halflife.processes.check import check

        return check(self, sequences, **options)

    def with_check(self, check: Any) -> Self:
        """Return the same process with the outcome of a check, for its certificates."""
        outcome = check if isinstance(check, dict) else check.summary()
        if not isinstance(outcome.get("good"), bool):
            raise InvalidInput(f"the outcome of a check must say whether it is good, not {outcome!r}", about="checked")
        other = copy.copy(self)
        object.__setattr__(other, "checked", outcome)
        return other

    # What is written down -------------------------------------------------------------------------------------------

    @abstractmethod
    def parameters(self) -> JsonObject:
        """Return what the constructor takes, as JSON can hold it."""

    def to_dict(self) -> JsonObject:
        """Return name, parameters and the outcome of the last check, as JSON can hold them."""
        checked = {} if self.checked is None else {"checked": dict(self.checked)}
        return {"name": self.name, **self.parameters(), **checked}

    def to_facts(self) -> JsonObject:
        """Return name and kernel, which a promise rests on: not how it was fitted or checked. `from_dict` reads it."""
        return {"name": self.name, **{key: value for key, value in self.parameters().items() if key != "fitted"}}

    @staticmethod
    def from_dict(data: object) -> Process:
        """Read what `to_dict` or `to_facts` gave; a form that says no version is of version 1.

        >>> Process.from_dict({"name": "geometric", "c": 1.0, "rho": 0.9})
        GeometricMixing(c=1.0, rho=0.9)
        """
        if isinstance(data, Process):
            return data
        if not isinstance(data, Mapping):
            raise InvalidInput(f"a process must be a JSON object with a name, not {data!r}")
        if not isinstance(data.get("name"), str) or data["name"] not in PROCESSES:
            raise unknown("process", data.get("name"), PROCESSES)
        cls = PROCESSES[str(data["name"])]
        check_version(f"a {cls.name} process", data)
        given, wanted = (
            {k: v for k, v in data.items() if k not in ("name", "checked", "version")},
            inspect.signature(cls).parameters,
        )
        for key in given:
            if key not in wanted:
                raise unknown(f"parameter of {cls.name}", key, wanted)
        for key, parameter in wanted.items():
            if key not in given and parameter.default is inspect.Parameter.empty:
                raise InvalidInput(f"a {cls.name} process lacks its {key}")
        made: Process = cls(**given)
        checked = data.get("checked")
        return made if checked is None else made.with_check(json_object("checked", checked))

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Process) and self.to_dict() == other.to_dict())

    def __hash__(self) -> int:
        return hash(self.name)


def json_object(name: str, value: object) -> JsonObject:
    """Read a part of a process that JSON can hold."""
    if not isinstance(value, Mapping):
        raise InvalidInput(f"'{name}' of a process must be a JSON object, not {value!r}", about=name)
    try:
        result: JsonObject = json.loads(json.dumps(dict(value), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"'{name}' of a process must be a JSON object: {error}", about=name) from None
    return result


def frontier_at_zero(t: int) -> Frontier | None:
    """Return the frontier of lag 0, where nothing has faded yet; None for t > 0."""
    return EVERYTHING if t == 0 else None


def read_rows(name: str, rows: object) -> list[Sequence[float]]:
    """Return a list of rows of numbers from untrusted data, or refuse it."""
    if isinstance(rows, np.ndarray):
        rows = rows.tolist()
    if not isinstance(rows, Sequence) or isinstance(rows, str) or not rows:
        raise InvalidInput(f"{name} must be a list of rows, not {rows!r}")
    for i, row in enumerate(rows):
        if not isinstance(row, Sequence | np.ndarray) or isinstance(row, str):
            raise InvalidInput(f"row {i} of {name} must be a list of numbers, not {row!r}")
    return [list(row) for row in rows]
