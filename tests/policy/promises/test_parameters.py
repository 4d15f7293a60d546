"""How a policy reads a notion's parameters: by what their fields say, and errors by the parameter that they name."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest

from halflife import registry
from halflife.errors import InvalidInput
from halflife.notions.meaning import meaning_of
from halflife.policy import Policy, PolicyError
from policy.promises.test_table import CHAIN, PROMISES
from source_copy import SOURCE, SourceCopy

STREAM = {"name": "s", "statistic": {"kind": "sum", "unit": "kWh", "resolution": "1 Wh", "clip": [0, 5], "fold": "sum"}}
OVER = {"notion": "exponential", "half_life": "1 day"}
WRITTEN = {
    "w-event": {"notion": "w-event", "epsilon": "1", "w": "1 day", "delta": "1e-6", "reach": "1 week"},
    "exponential": {"notion": "exponential", "epsilon": "1", "half_life": "1.5 h"},
    "gaussian-discount": {"notion": "gaussian-discount", "epsilon": "1", "delta": "1e-6", "half_life": "1 day"},
    "age-dependent": {
        "notion": "age-dependent", "epsilon": "1", "process": CHAIN, "bound": "tight", "adversary": "stationary",
        "horizon": "1 day",
    },
    "almost-periodic": {"notion": "almost-periodic", "epsilon": "1", "period": "1 day", "strong": "yes", "over": OVER},
    "swellfish": {**PROMISES["swellfish"], "delta": "1e-6", "noise": "laplace"},
}  # fmt: skip
"""Every parameter that is no plain number, as a file has it: text."""

ANNOTATIONS = {
    "w_event.py": [("w: int =", "int"), ("reach: int =", "int")],
    "discounted.py": [("half_life: float =", "float"), ("half_life: float | None =", "float | None")],
    "age_dependent/notion.py": [
        ("process: Process =", "Process"), ("bound: str =", "str"), ("adversary: str =", "str"),
        ("horizon: int | None =", "int | None"),
    ],
    "almost_periodic/notion.py": [
        ("period: int =", "int"), ("strong: bool =", "bool"), ("over: Notion | None =", "Notion | None"),
        ("clock: Steps | None =", "Steps | None"),
    ],
    "swellfish/notion.py": [
        ("specifications: Specifications =", "Specifications"), ("neighbours: Interpretation =", "Interpretation"),
        ("noise: Noise =", "Noise"),
    ],
}  # fmt: skip
"""Where the annotations of these parameters stand, and what they are."""

PROGRAM = """
import json, sys
from halflife.policy import Policy
for promise in json.load(open(sys.argv[1])):
    print(json.dumps(Policy.from_dict(promise).notion.to_dict()))
"""


def policy(promise: dict) -> dict:
    return {
        "population": {"id": "town", "size": 3, "person": "id"},
        "promise": promise,
        "clock": {"step": "30 min", "start": "2026-01-01", "end": "2026-01-02"},
        "streams": [{**STREAM, "output": "-"}],
    }


def test_a_policy_reads_parameters_by_their_meaning_and_not_by_the_names_of_types(tmp_path):
    """Every annotation is renamed in a copy of the source: what is written means the same there."""
    copy = SourceCopy(tmp_path)
    for file, places in ANNOTATIONS.items():
        for n, (old, annotation) in enumerate(places):
            name = old.split(":")[0]
            copy.replace(f"src/halflife/notions/{file}", f"    {old}", f"    {name}: Alias{n} =")
            path = copy.folder / "src" / "halflife" / "notions" / file
            head, registered = path.read_text().split("@register_notion", 1)
            path.write_text(f"{head}Alias{n} = {annotation}\n\n\n@register_notion{registered}")
    (tmp_path / "promises.json").write_text(json.dumps([policy(p) for p in WRITTEN.values()]))
    done = copy.python(PROGRAM, tmp_path / "promises.json")
    assert done.returncode == 0, done.stderr
    for written, line in zip(WRITTEN.values(), done.stdout.splitlines(), strict=True):
        assert json.loads(line) == json.loads(json.dumps(Policy.from_dict(policy(written)).notion.to_dict()))


def test_every_parameter_that_is_no_number_is_tried_above():
    special = {
        (name, f.name)
        for name, cls in registry.NOTIONS.items()
        for f in fields(cls)
        if f.init and meaning_of(f) not in ("number", "clock", "rules")
    }
    assert special == {(name, key) for name, promise in WRITTEN.items() for key in promise if (name, key) in special}
    here = SOURCE / "halflife" / "notions"
    marked = [
        line for file in here.rglob("*.py") for line in file.read_text().splitlines() if "metadata=means(" in line
    ]
    assert len(marked) == sum(map(len, ANNOTATIONS.values())) + 1  # rules are the ledger's, and no policy writes them


WRONG = {
    "epsilon": ("classical", {"epsilon": "-1"}),
    "delta": ("classical", {"epsilon": 1, "delta": "1e-15"}),
    "w": ("w-event", {"epsilon": 1, "w": 0}),
    "alpha": ("exponential", {"epsilon": 1, "alpha": 2}),
    "half_life": ("exponential", {"epsilon": 1, "half_life": 1e-9}),
    "beta": ("hyperbolic", {"epsilon": 1, "beta": 1e9}),
    "period": ("almost-periodic", {"epsilon": 1, "period": 10**12, "strong": "yes"}),
    "over": ("almost-periodic", {"epsilon": 1, "period": 2, "strong": "yes", "over": {"notion": "classical", "delta": 1e-6}}),
    "strong": ("almost-periodic", {"epsilon": 1, "period": 2, "strong": 3}),
    "bound": ("age-dependent", {"epsilon": 1, "process": CHAIN, "bound": "tigt"}),
    "adversary": ("age-dependent", {"epsilon": 1, "process": CHAIN, "adversary": "any"}),
    "horizon": ("age-dependent", {"epsilon": 1, "process": CHAIN, "horizon": 0}),
    "neighbours": ("swellfish", {k: v for k, v in PROMISES["swellfish"].items() if k != "notion"} | {"neighbours": "x"}),
}  # fmt: skip
"""A parameter that its notion refuses, and the promise that has it."""


@pytest.mark.parametrize("key", WRONG)
def test_what_a_notion_refuses_is_named_by_its_key(key):
    name, given = WRONG[key]
    with pytest.raises(PolicyError, match=rf"^policy: promise\.{key}: "):
        Policy.from_dict(policy({"notion": name, **given}))


def test_an_error_is_attributed_by_what_it_is_about_and_not_by_its_words(monkeypatch):
    """Were messages read, this one would be taken to be about ε."""
    cls = registry.NOTIONS["w-event"]

    def refuse(self):
        raise InvalidInput("epsilon epsilon epsilon", about="w")

    monkeypatch.setattr(cls, "__post_init__", refuse)
    with pytest.raises(PolicyError, match=r"^policy: promise\.w: epsilon"):
        Policy.from_dict(policy({"notion": "w-event", "epsilon": 1, "w": 2}))
