"""Good policies: read as a person means them, the same from YAML, JSON and a program."""

from __future__ import annotations

import codecs
import datetime
import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from halflife import registry
from halflife.notions import AgeDependent, AlmostPeriodic
from halflife.parsing.documents import parse_document
from halflife.policy import Policy, PolicyError, channels, ledger_facts
from halflife.policy.promises.almost_periodic import follow_clock
from halflife.processes import AutoRegressive
from policy.towns import GOOD, HOMES, change, moving, write_tables
from thinning import keep
from work import work


@pytest.fixture
def folder(tmp_path):
    return write_tables(tmp_path)


def groups(text, folder):
    return channels(Policy.parse(text, folder))[0].groups


def notion(text, folder):
    policy = Policy.parse(text, folder)
    return policy.notion


def test_names_stay_what_was_written(folder):
    text = change("[north, south]", "[no, 12:30, 007, 1e3, true, 0x10, 2026-01-01, ~x, 'null', .5]", moving())
    assert groups(text, folder) == ("no", "12:30", "007", "1e3", "true", "0x10", "2026-01-01", "~x", "null", ".5")


@pytest.mark.parametrize(
    ("written", "delta"), [("1e-6", 1e-6), ("0.000001", 1e-6), ("'1e-6'", 1e-6), ("1.0E-06", 1e-6), ("0", 0)]
)
def test_a_small_number_is_a_number(folder, written, delta):
    text = change("exponential\n  epsilon: 1\n  half_life: 1 day", f"w-event\n  epsilon: 1\n  w: 2\n  delta: {written}")
    assert notion(text, folder).delta == delta


@pytest.mark.parametrize(
    ("written", "steps"), [("1 day", 48), ("12 h", 24), ("48", 48), ("1.5 h", 3), ("1 week", 336), ("30min", 1)]
)
def test_what_counts_steps_may_be_written_as_a_time(folder, written, steps):
    assert notion(change("half_life: 1 day", f"half_life: {written}"), folder).half_life == steps
    text = change("exponential\n  epsilon: 1\n  half_life: 1 day", f"w-event\n  epsilon: 1\n  w: {written}")
    found = notion(text, folder).w
    assert (found, type(found)) == (steps, int)


@pytest.mark.parametrize(("written", "size"), [("4", 4), ("'4'", 4), ("4.0", 4), ("1e6", 10**6), ("2.5e3", 2500)])
def test_a_count_of_people_is_a_whole_number(folder, written, size):
    assert Policy.parse(change("size: 4", f"size: {written}"), folder).population.size == size


@pytest.mark.parametrize("written", ["0", "0 min", "none", "~", "0.0 h"])
def test_no_delay_may_be_said(folder, written):
    assert channels(Policy.parse(change("delay: 1 h", f"delay: {written}"), folder))[0].age == 0
    assert channels(Policy.parse(GOOD, folder))[0].age == 2


def test_a_key_that_is_left_out_on_purpose_says_null(folder):
    assert Policy.parse(change("delay: 1 h", "delay: null"), folder).streams[0].delay is None
    with pytest.raises(PolicyError, match=r"34:5: streams.0.delay: is blank"):
        Policy.parse(change("delay: 1 h", "delay:"), folder)


def same(a, b):
    return ledger_facts(a) == ledger_facts(b)


def test_yaml_json_and_a_program_say_the_same(folder):
    plain = parse_document(GOOD).data
    policy = Policy.parse(GOOD, folder)
    assert same(policy, Policy.from_dict(plain, folder))
    assert same(policy, Policy.parse(json.dumps(plain), folder))
    assert same(policy, Policy.parse(json.dumps(plain, indent=2), folder))
    assert same(policy, Policy.from_dict(policy.model_dump(), folder))
    assert same(policy, Policy.parse(policy.model_dump_json(), folder))


def test_a_program_may_give_numbers_and_dates(folder):
    data = parse_document(GOOD).data
    data["promise"] |= {"epsilon": 1.0, "half_life": 48}
    data["clock"] |= {"start": datetime.date(2026, 1, 1), "end": datetime.datetime(2026, 2, 1)}
    data["streams"][0]["statistic"] |= {"clip": [0, 5.0], "missing": 0.2}
    data["streams"][0]["post"] = [{"truncate": [0, 20]}, {"moving_average": 4}]
    known, given = (channels(p)[0] for p in (Policy.parse(GOOD, folder), Policy.from_dict(data, folder)))
    assert (given.steps, given.last, given.sensitivity, given.sized) == (
        known.steps,
        known.last,
        known.sensitivity,
        known.sized,
    )
    assert given.plan.notion == known.plan.notion


@pytest.mark.parametrize("encode", [
    lambda t: codecs.BOM_UTF8 + t.encode(),
    lambda t: t.replace("\n", "\r\n").encode(),
    lambda t: b"%YAML 1.2\n---\n" + t.encode() + b"...\n",
    lambda t: t.replace("town", '"town"').replace("size: 4", "size: '4'  # public").encode(),
], ids=["BOM", "CRLF", "directive", "quotes"])  # fmt: skip
def test_however_the_file_was_saved(folder, encode):
    (folder / "policy.yaml").write_bytes(encode(GOOD))
    assert same(Policy.load(folder / "policy.yaml"), Policy.parse(GOOD, folder))


def test_anchors_may_save_typing(folder):
    text = change("zone: Europe/London", "zone: &z Europe/London", change("Europe/Paris", "*z"))
    assert Policy.parse(text, folder).streams[0].source.zone == "Europe/London"


def test_paths_are_relative_to_the_policy(folder):
    (folder / "town.yaml").write_text(GOOD)
    policy = Policy.load(folder / "town.yaml")
    assert policy.path("a.csv") == folder / "a.csv"
    assert policy.path("/tmp/a.csv").as_posix() == "/tmp/a.csv"
    assert Path(policy.ledger_url) == folder / "town.ledger"
    for given, found in (
        ("x/y.db", folder / "x/y.db"),
        ("sqlite:///x/y.db", folder / "x/y.db"),
        ("sqlite:////y.db", "/y.db"),
    ):
        assert Policy.parse(f"{GOOD}ledger: {given}\n", folder).ledger_url == str(found)


def paper_knows(example):
    """Proposition 3 is about Markov processes and an adversary who knows the stationary law."""
    return example.process.composes == "markov" and example.adversary == "stationary"


EXAMPLES = [n for cls in registry.NOTIONS.values() if not cls.attached for n in cls.examples()]
"""All but Swellfish, whose secrets become units of a statistic: tests/policy/promises/swellfish/ has it."""
METHODS = sorted({method for _, method in registry.PLANS})


def as_a_policy_has_it(example, channel):
    """The promise by the policy's clock, where it follows one, and in its unit: numbers are in Wh, a thousandth of a kWh,
    and a span counts as one more, as readings are rounded."""
    if isinstance(example, AlmostPeriodic):
        return follow_clock(example, channel.account)
    if isinstance(example, AgeDependent) and isinstance(example.process, AutoRegressive):
        rho, sigma, span = (example.process.parameters()[key] for key in ("rho", "sigma", "span"))
        return replace(example, process=AutoRegressive(rho, sigma * 1000, span * 1000 + 1))
    return example


@pytest.mark.parametrize(
    ("example", "method", "end"),
    keep(
        product(EXAMPLES, METHODS, [True, False]), lambda e, m, end: (EXAMPLES.index(e) + METHODS.index(m)) % 2 == end
    ),
    ids=lambda x: str(x)[:40],
)
def test_every_notion_and_plan_loads_or_is_refused_with_its_line(folder, example, method, end):
    parameters = {k: v for k, v in example.to_dict().items() if k not in ("name", "rules")}
    lines = [f"notion: {example.name}", f"plan: {method}", *(f"{k}: {json.dumps(v)}" for k, v in parameters.items())]
    if example.name == "almost-periodic" and not example.strong:
        lines += ["variations: public", "readings: complete", "rounding: none"]
    text = change("notion: exponential\n  epsilon: 1\n  half_life: 1 day", "\n  ".join(lines))
    text = change("zone: Europe/Paris", "zone: UTC", text)
    text = change("  end: 2026-02-01\n", "  end: 2026-01-08\n" if end else "", text)
    if (example.name, method) not in registry.PLANS:
        refused = f"unknown plan for {example.name}"
    elif method in ("constant", "optimal") and not end:
        refused = "needs a horizon"
    elif (example.name, method) == ("hyperbolic", "paper") and example.beta > 5:
        refused = "does not hold"  # an erratum of the paper
    elif (example.name, method) == ("almost-periodic", "paper") and example.strong:
        refused = "false from the second period on"
    elif (example.name, method) == ("age-dependent", "paper") and not paper_knows(example):
        refused = "Proposition 3 is about"
    else:
        policy = Policy.parse(text, folder)
        channel = channels(policy)[0]
        assert policy.notion == as_a_policy_has_it(example, channel)
        assert channel.losses(1, 1)[0] > 0
        return
    with pytest.raises(PolicyError, match=f"policy.yaml:8:3: promise.plan: .*{refused}"):
        Policy.parse(text, folder)


def test_streams_are_worked_out_once(folder, monkeypatch):
    """However often they are asked for, tables are read and plans made when a policy is loaded, and never again."""
    from halflife.policy import policy as module

    counted, real = [], module.work_out
    monkeypatch.setattr(module, "work_out", lambda policy: (counted.append(1), real(policy))[1])
    policy = Policy.parse(GOOD, folder)
    assert channels(policy) is channels(policy)
    assert len(counted) == 1
    (folder / "homes.csv").write_text("who,where\na,elsewhere\n")
    assert channels(policy)[0].groups == ("north", "south")  # as it was when it was checked


def test_loading_takes_as_long_as_its_tables_are(folder):
    """Ten times as many homes take at most ten times the work, and the rest of a policy does not grow with them."""
    population = change("size: 4", "size: 5000")
    taken = []
    for homes in (50, 400, 4_000):  # the first for what is imported and remembered
        rows = "".join(f"h{i},{'north' if i % 2 else 'south'}\n" for i in range(homes))
        (folder / "homes.csv").write_text("who,where\n" + rows)
        taken.append(work(lambda: Policy.parse(population, folder)))
    assert taken[2] <= 12 * taken[1]


def test_a_changed_copy_is_worked_out_afresh(folder):
    policy = Policy.parse(GOOD, folder)
    other = policy.model_copy(update={"streams": Policy.parse(moving(), folder).streams})
    assert not channels(other)[0].fixed
    assert channels(policy)[0].fixed


def test_tables_in_parquet_name_people_as_engines_do(folder):
    import pyarrow as pa
    import pyarrow.parquet

    for kind, values in {"int64": [1, 2, 30], "double": [1.0, 2.0, 30.0], "string": ["1", "2", "30"]}.items():
        table = pa.table({"who": pa.array(values, kind), "where": ["x", "y", "x"]})
        pa.parquet.write_table(table, folder / "homes.parquet")
        channel = channels(Policy.parse(change("homes.csv", "homes.parquet"), folder))[0]
        assert channel.table == {"1": 0, "2": 1, "30": 0}


def test_the_contract_notices_what_shapes_the_promise_and_nothing_else(folder):
    def facts(text):
        policy = Policy.parse(text, folder)
        return ledger_facts(policy)

    known = facts(GOOD)
    for old, new in (("readings.csv", "others.csv"), ("load.csv", "load.jsonl")):
        assert facts(GOOD.replace(old, new)) == known
    for old, new in (
        ("size: 4", "size: 5"),
        ("epsilon: 1", "epsilon: 2"),
        ("5 kWh", "6 kWh"),
        ("delay: 1 h", "delay: 2 h"),
    ):
        assert facts(change(old, new)) != known
    (folder / "homes.csv").write_text(HOMES.replace("a,north", "a,south").replace("b,south", "b,north"))
    assert facts(GOOD) != known  # two people changed places, and every size stayed
