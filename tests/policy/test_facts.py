"""What a ledger is held to: every change of a fact is named and refused, and what is no fact may change."""

from __future__ import annotations

import copy
import json
import re

import numpy as np
import pytest

import halflife as hl
from halflife import PlannedNoise, registry
from halflife.errors import InvalidInput, LedgerError
from halflife.ledger import open_ledger
from halflife.policy import Policy, find_change, ledger_facts
from halflife.policy import model as keys
from halflife.policy.facts import keys as facts
from halflife.policy.promises.almost_periodic import Declarations
from halflife.policy.promises.swellfish.adapter import Outside, SwellfishAdapter
from halflife.publisher import session
from publisher.town import make, policy_dict, read_csv, write_readings

MEAN = {
    "name": "mean",
    "source": {"files": "readings.csv", "time": "time", "value": "kwh"},
    "statistic": {"kind": "mean", "unit": "kWh", "resolution": "1 Wh", "clip": ["0", "5 kWh"], "fold": "sum"},
    "output": "mean.csv",
}
PLAIN = {
    "population": {"id": "town", "size": 4, "person": "home"},
    "promise": {"notion": "w-event", "epsilon": 1.0, "w": 6},
    "clock": {"step": "1 h", "start": "2026-01-01", "end": "2026-01-04"},
    "streams": [MEAN],
}
CLASSICAL = {**PLAIN, "promise": {"notion": "classical", "epsilon": 1.0}}
"""Its plan depends on where it ends: under w-event another end is no change."""
FIXED = {"table": {"file": "homes.csv", "person": "home", "group": "where"}}
COLUMN = {"names": ["north", "south"], "most_per_person": 1, "sizes": {"north": 2, "south": 2}}
ONE = {"names": ["north"], "most_per_person": 1}
WEIGHTS = {"file": "homes.csv", "person": "home", "weight": "weight", "largest": "3"}
SECRET = {"power": 3, "duration": 2, "start": 3, "end": 8, "epsilon": 1}


def changed(base, **paths):
    """Plain data with other values at some paths; None takes a key away. `streams__0__name` is streams[0]["name"]."""
    data = copy.deepcopy(base)
    for path, value in paths.items():
        *way, last = (int(key) if key.isdigit() else key for key in path.split("__"))
        part = data
        for key in way:
            part = part.setdefault(key, {}) if isinstance(part, dict) else part[key]
        if value is None:
            part.pop(last)
        else:
            part[last] = value
    return data


WORDS = SwellfishAdapter.words
S = "streams__0__"
GROUPED = changed(PLAIN, **{f"{S}groups": FIXED})
MOVING = changed(PLAIN, **{f"{S}groups": COLUMN, f"{S}source__group": "where"})
WEIGHTED = changed(PLAIN, **{f"{S}statistic__kind": "weighted sum", f"{S}statistic__weights": WEIGHTS})
HISTOGRAM = changed(
    PLAIN, **{f"{S}statistic__kind": "histogram", f"{S}statistic__clip": None, f"{S}statistic__edges": ["0", "1", "5"]}
)
EVENTS = changed(PLAIN, **{f"{S}statistic": {"kind": "events", "most_events": 5}})
METERS = changed(PLAIN, population__units={"file": "homes.csv", "id": "home", "unit": "where"})
QUANTILE = changed(
    PLAIN,
    **{
        f"{S}statistic__kind": "quantile", f"{S}statistic__clip": None, f"{S}statistic__quantiles": [0.5, 0.95],
        f"{S}statistic__grid": {"low": 0, "high": 5, "bins": 100},
    },
)  # fmt: skip
FADING = changed(PLAIN, promise={"notion": "exponential", "epsilon": 1.0, "half_life": 24})
AGED = changed(
    PLAIN,
    promise={"notion": "age-dependent", "epsilon": 1.0, "process": {"name": "markov-chain", "matrix": [[0.9, 0.1], [0.1, 0.9]]}},
)  # fmt: skip
HABITS = changed(PLAIN, promise={"notion": "almost-periodic", "epsilon": 1.0, "period": 4, "strong": True})
SECRETS = changed(
    PLAIN,
    promise={
        "notion": "swellfish", "neighbours": "one-window", "floor": "0.2 kWh",
        "specifications": {"households": {"a": [SECRET]}, "readings": 1},
    },
)  # fmt: skip
TWO = changed(PLAIN, streams=[{**MEAN, "share": 0.5}, {**MEAN, "name": "other", "output": "other.csv", "share": 0.5}])

HELD = {
    "population id": (PLAIN, {"population__id": "village"}, "population's id was 'town' and is now 'village'"),
    "population size": (PLAIN, {"population__size": 5}, "size was 4 and is now 5"),
    "mechanism": (PLAIN, {f"{S}mechanism": "another"}, "mean: its mechanism was 'planned' and is now 'another'"),
    "person": (PLAIN, {"population__person": "meter"}, "identifies a person was 'home' and is now 'meter'"),
    "person of a source": (PLAIN, {f"{S}source__person": "meter"}, "mean: .*a person was 'home' and is now 'meter'"),
    "units": (METERS, {"population__units__file": "others.csv"}, "table that says whose each id is was .* and is now"),
    "neighbours": (PLAIN, {"population__neighbours": "add-remove"}, "neighbours differ in was 'replace-one'"),
    "notion": (PLAIN, {"promise": FADING["promise"]}, "promise was 'w-event' and is now 'exponential'"),
    "epsilon": (PLAIN, {"promise__epsilon": 2}, "epsilon of the promise was 1.0 and is now 2.0"),
    "w": (PLAIN, {"promise__w": 7}, "w of the promise was 6 and is now 7"),
    "delta": (PLAIN, {"promise__delta": 1e-6}, "delta of the promise was not given and is now 1e-06"),
    "half-life": (FADING, {"promise__half_life": 12}, "alpha of the promise was 0.97"),
    "process": (AGED, {"promise__process__matrix": [[0.8, 0.2], [0.1, 0.9]]}, r"process of the promise was .*0\.8"),
    "bound": (AGED, {"promise__bound": "paper"}, "bound of the promise was not given and is now 'paper'"),
    "strong": (
        HABITS,
        {"promise__strong": False, "promise__variations": "public", "promise__readings": "complete", "promise__rounding": "none"},
        "strong of the promise was true",
    ),
    "period": (HABITS, {"promise__period": 5}, "period of the promise was 4 and is now 5"),
    "secrets' neighbours": (SECRETS, {"promise__neighbours": "one-event"}, "neighbours of the promise was"),
    "outside": (SECRETS, {"promise__floor": None, "promise__outside": "exact"}, "outside hiding intervals was not given"),
    "floor": (SECRETS, {"promise__floor": "0.1 kWh"}, "floor of noise was '1/5' and is now '1/10'"),
    "block": (SECRETS, {"promise__block": "6 h"}, "block of steps with one noise, in minutes, was not given and is now '360'"),
    "plan": (FADING, {"promise__plan": "paper"}, "plan was 'tight' and is now 'paper'"),
    "noise": (changed(PLAIN, promise__delta=1e-6), {"promise__noise": "gaussian"}, "noise was 'laplace' and is now 'gauss"),
    "cap": (FADING, {"promise__cap": 0.01}, "cap of the plan was not given and is now 0.01"),
    "clock step": (PLAIN, {"clock__step": "30 min"}, "width of a step was 60 min and is now 30 min"),
    "clock start": (PLAIN, {"clock__start": "2026-01-02"}, "start of step 1 was 2026-01-01 00:00:00 UTC and is now"),
    "clock zone": (PLAIN, {"clock__zone": "Africa/Abidjan"}, "zone of the clock was 'UTC'"),
    "clock days": (
        changed(PLAIN, clock__step="1 day", clock__zone="Europe/London"), {"clock__zone": "UTC"}, "local days a step has was 1",
    ),
    "late": (FADING, {"clock__late": "as-planned"}, "late steps count was 'now' and is now 'as-planned'"),
    "step": (FADING, {"clock__step": "30 min", f"{S}step": "1 h"}, "width of a step was 60 min"),
    "clock months": (
        changed(PLAIN, clock__end="2026-02-01"),
        {"clock__step": "1 month"},
        "width of a step was 60 min and is now not fixed",
    ),
    "months": (
        changed(PLAIN, clock__step="1 month", clock__end="2027-01-01"),
        {"clock__step": "3 months"},
        "how many calendar months a step has was 1 and is now 3",
    ),
    "stream step": (FADING, {f"{S}step": "2 h"}, "mean: the width of a step was 60 min and is now 120 min"),
    "stream start": (PLAIN, {f"{S}start": "2026-01-02"}, "mean: the start of step 1 was"),
    "end": (CLASSICAL, {f"{S}end": "2026-01-03"}, "mean: its last step was 72 and is now 48"),
    "no end": (CLASSICAL, {"clock__end": None}, "mean: its last step was 72 and is now not given"),
    "delay": (PLAIN, {f"{S}delay": "2 h"}, "mean: its delay in steps of the clock was 0 and is now 2"),
    "share": (TWO, {f"{S}share": 0.25}, "mean: its share of the promise was 0.5 and is now 0.25"),
    "a stream more": (PLAIN, {"streams": [*TWO["streams"]]}, "share of the promise was 1.0|stream other is new"),
    "a stream less": (TWO, {"streams": [{**MEAN, "share": 0.5}]}, "stream other is gone"),
    "source": (PLAIN, {f"{S}source": None}, "mean: its source was .* and is now not given"),
    "time": (PLAIN, {f"{S}source__time": "sent"}, "time of a reading was 'time' and is now 'sent'"),
    "value": (PLAIN, {f"{S}source__value": "kw"}, "column with the reading was 'kwh' and is now 'kw'"),
    "group column": (MOVING, {f"{S}source__group": "street"}, "column with the group was 'where' and is now 'street'"),
    "source zone": (PLAIN, {f"{S}source__zone": "Europe/Paris"}, "times that carry none was 'UTC'"),
    "epoch": (PLAIN, {f"{S}source__epoch": "ms"}, "since 1970 was not given and is now 'ms'"),
    "time format": (PLAIN, {f"{S}source__time_format": "%d/%m/%y"}, "times are written was not given and is now '%d/%m/%y'"),
    "places": (
        changed(PLAIN, **{f"{S}source__columns": ["home", "meter", "time", "kwh"]}),
        {f"{S}source__columns": ["meter", "home", "time", "kwh"]},
        'person, time, value and group was {"person": 1, "time": 3, "value": 4} and is now {"person": 2,',
    ),
    "wide": (
        changed(PLAIN, **{f"{S}source": {"files": "a.csv", "time": "time"}, f"{S}statistic": {"kind": "count"}}),
        {f"{S}source__wide": True},
        "whether columns are people was false and is now true",
    ),
    "kind": (PLAIN, {f"{S}statistic__kind": "sum"}, "the statistic was 'mean' and is now 'sum'"),
    "unit": (
        PLAIN, {f"{S}statistic__unit": "MWh", f"{S}statistic__resolution": "0.001", f"{S}statistic__clip": ["0", "5"]},
        "unit was 'kWh' and is now 'MWh'",
    ),
    "resolution": (PLAIN, {f"{S}statistic__resolution": "10 Wh"}, "resolution was '1/1000' and is now '1/100'"),
    "clip": (PLAIN, {f"{S}statistic__clip": ["0", "6 kWh"]}, r'clip was \["0", "5"\] and is now \["0", "6"\]'),
    "clip of readings": (PLAIN, {f"{S}statistic__clip_readings": ["0", "2 kWh"]}, "single readings was not given and is now"),
    "fold": (PLAIN, {f"{S}statistic__fold": "max"}, "fold was 'sum' and is now 'max'"),
    "duplicates": (PLAIN, {f"{S}statistic__duplicates": "each"}, "duplicates count was 'once' and is now 'each'"),
    "most events": (EVENTS, {f"{S}statistic__most_events": 6}, "events of a person count in a step was 5 and is now 6"),
    "duplicates of events": (EVENTS, {f"{S}statistic__duplicates": "once"}, "duplicates count was 'each' and is now 'once'"),
    "missing": (PLAIN, {f"{S}statistic__missing": "0.2"}, "missing reading counts as was '0' and is now '1/5'"),
    "edges": (HISTOGRAM, {f"{S}statistic__edges": ["0", "2", "5"]}, "edges of the histogram was"),
    "quantiles": (QUANTILE, {f"{S}statistic__quantiles": [0.5]}, r'quantiles are published was \["1/2", "19/20"\] and is now'),
    "grid": (QUANTILE, {f"{S}statistic__grid__bins": 50}, "edges of the histogram was"),
    "tree": (QUANTILE, {"promise__delta": 1e-6, "promise__noise": "gaussian"}, "delta of the promise was"),
    "total": (QUANTILE, {f"{S}groups": ONE, f"{S}source__group": "where"}, "group was not given"),
    "no weights": (WEIGHTED, {f"{S}statistic__kind": "sum", f"{S}statistic__weights": None}, "statistic was 'weighted sum'"),
    "largest weight": (WEIGHTED, {f"{S}statistic__weights__largest": "2"}, "largest weight that counts was '3'"),
    "resolution of weights": (WEIGHTED, {f"{S}statistic__weights__resolution": "0.5"}, "resolution of weights was '1'"),
    "weights": (WEIGHTED, {f"{S}statistic__weights__file": "others.csv"}, "content of the table of weights was"),
    "groups": (PLAIN, {f"{S}groups": FIXED}, "its groups was not given"),
    "names": (MOVING, {f"{S}groups__names": ["south", "north"]}, "list of groups was"),
    "table": (GROUPED, {f"{S}groups__table__file": "others.csv"}, "content of the table of groups was"),
    "most groups": (MOVING, {f"{S}groups__most_per_person": 2}, "in how many groups a person counts was 1 and is now 2"),
    "sizes": (MOVING, {f"{S}groups__sizes": {"north": 1, "south": 3}}, "sizes of groups was"),
}  # fmt: skip

FREE = {
    "files": (PLAIN, {f"{S}source__files": ["a/*.csv", "b.csv"]}),
    "format": (PLAIN, {f"{S}source__format": "parquet"}),
    "table": (PLAIN, {f"{S}source__files": "a.duckdb", f"{S}source__table": "meters"}),
    "a column that is not used": (
        changed(PLAIN, **{f"{S}source__columns": ["home", "time", "kwh"]}), {f"{S}source__columns": ["home", "time", "kwh", "x"]},
    ),
    "a delay within a step": (PLAIN, {f"{S}delay": "20 min"}),
    "output": (PLAIN, {f"{S}output": "mean.jsonl"}),
    "ledger": (PLAIN, {"ledger": "elsewhere.ledger"}),
    "file of groups": (GROUPED, {f"{S}groups__table__file": "same.csv", f"{S}groups__table__group": "zone"}),
    "file of units": (METERS, {"population__units__file": "same.csv", "population__units__unit": "zone"}),
    "file of weights": (WEIGHTED, {f"{S}statistic__weights__file": "same.csv"}),
    "post": (PLAIN, {f"{S}post": [{"moving_average": 3}]}),
    "other words": (PLAIN, {f"{S}statistic__clip": ["0 Wh", "5000 Wh"], "clock__step": "60 min", "promise__w": "6 h"}),
    "defaults": (
        PLAIN,
        {
            "promise__plan": "tight", "promise__delta": 0, "clock__zone": "UTC", f"{S}source__zone": "UTC",
            f"{S}statistic__missing": "0", f"{S}delay": "0", f"{S}source__person": "home", f"{S}share": 1.0,
            f"{S}mechanism": "planned",
        },
    ),
    "duplicates as they count anyway": (EVENTS, {f"{S}statistic__duplicates": "each"}),
    "noise that is used anyway": (PLAIN, {"promise__noise": "laplace"}),
    "noise that need not be said": (changed(FADING, promise__noise="laplace"), {"promise__noise": None}),
    "noise of a discount": (
        changed(FADING, promise__notion="gaussian-discount", promise__delta=1e-6), {"promise__noise": "gaussian"},
    ),
    "noise that a tree expects anyway": (QUANTILE, {"promise__noise": "laplace"}),
    "a grid written out": (
        changed(QUANTILE, **{f"{S}statistic__grid__bins": 5}),
        {f"{S}statistic__grid": None, f"{S}statistic__edges": ["0", "1", "2", "3", "4", "5"]},
    ),
    "noise of secrets": (SECRETS, {"promise__noise": "laplace"}),
    "noise of two streams": (TWO, {"promise__noise": "laplace"}),
    "order of streams": (TWO, {"streams": TWO["streams"][::-1]}),
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def another_mechanism():
    """Planned noise by another name: of the mechanisms that come with halflife every promise has one."""

    class Another(PlannedNoise):
        name = "another"

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registry.MECHANISMS, "another", Another)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("tables")
    (made / "homes.csv").write_text("home,where,weight\na,north,1\nb,north,2\nc,south,-1\nd,south,3\n")
    (made / "same.csv").write_text("weight,home,zone\n3,d,south\n1,a,north\n2,b,north\n-1,c,south\n")
    (made / "others.csv").write_text("home,where,weight\na,south,2\nb,north,1\nc,north,-1\nd,south,3\n")
    return made


def change_of(folder, base, paths):
    return find_change(ledger_facts(Policy.from_dict(base, folder)), Policy.from_dict(changed(base, **paths), folder))


@pytest.mark.parametrize("name", HELD)
def test_what_the_promise_rests_on_is_named_when_it_changes(folder, name):
    base, paths, words = HELD[name]
    assert find_change(ledger_facts(Policy.from_dict(base, folder)), Policy.from_dict(base, folder)) is None
    found = change_of(folder, base, paths)
    assert found is not None
    assert re.search(words, found), found
    assert "…" not in found


@pytest.mark.parametrize("name", FREE)
def test_where_things_are_and_post_processing_may_change(folder, name):
    assert change_of(folder, *FREE[name]) is None


def test_every_fact_has_been_changed_above(folder):
    """Whoever adds a fact adds what happens when it changes."""
    said = set()
    for base, paths, _ in HELD.values():
        old, new = (ledger_facts(Policy.from_dict(data, folder)) for data in (base, changed(base, **paths)))
        for key in set(old) & set(new) - {"format"}:
            part = {**facts.PARTS.get(key, facts.STREAM)}
            if key == "promise":
                part |= {key: facts.Key(key, None) for key in WORDS}
            said |= differing(*(facts.fill_part(key, json.loads(x[key]), part) for x in (old, new)), part)
    parts = (
        facts.POPULATION,
        facts.PROMISE,
        facts.CLOCK,
        facts.SOURCE,
        facts.WEIGHTS,
        facts.GROUPS,
        facts.STATISTIC,
        facts.STREAM,
    )
    written = {key for part in parts for key in part} - {"ended"}  # which amendments alone write
    assert written | set(WORDS) == said


def differing(old, new, part):
    found = set()
    for key, about in part.items():
        if old[key] != new[key]:
            found.add(key)
            if about.keys and old[key] and new[key]:
                found |= differing(old[key], new[key], about.keys)
    return found


DECIDED = {
    keys.Population: "id size person units neighbours",
    keys.UnitTable: "file* id* unit*",
    keys.Promise: "notion plan noise cap",
    Outside: "outside floor block",
    Declarations: "variations* readings* rounding*",
    keys.Clock: "step start end zone late",
    keys.Source: "files* database* engine* master* format* table* time value group person zone epoch time_format columns "
    "delimiter* wide",
    keys.Weights: "file* person* weight* resolution largest",
    keys.Statistic: "kind most_events unit resolution clip clip_readings fold duplicates missing edges grid quantiles weights",
    keys.Grid: "low high bins",
    keys.GroupTable: "file* person* group*",
    keys.Groups: "names table most_per_person sizes",
    keys.StreamPart: "name share source statistic step delay lateness start end groups mechanism absent* post* output*",
}
"""Every key of a policy, with a star those that may change, or that follow: a weak promise declares all, a strong one none."""


@pytest.mark.parametrize("part", DECIDED, ids=lambda part: part.__name__)
def test_of_every_key_it_was_decided_whether_it_may_change(part):
    """A key that nobody has decided about would be free: decide in `policy/facts/`, then here."""
    assert sorted(part.model_fields) == sorted(DECIDED[part].replace("*", "").split())


# Facts of other versions ------------------------------------------------------------------------------------------------


@pytest.fixture
def plain(folder):
    return Policy.from_dict(PLAIN, folder)


def with_part(known, key, **values):
    return {**known, key: json.dumps({**json.loads(known[key]), **values})}


def test_defaults_that_an_earlier_version_wrote_mean_the_same(plain):
    known = ledger_facts(plain)
    spelt = with_part(known, "population", neighbours="replace-one")
    spelt = with_part(
        spelt, "promise", plan="tight", cap=None, notion={"name": "w-event", "epsilon": 1, "w": 6, "delta": 0}
    )
    spelt = with_part(spelt, "stream:mean", share=1, delay=0, groups=None)
    assert spelt != known
    assert find_change(spelt, plain) is None


def test_how_late_steps_count_may_change_where_nothing_is_forgotten(folder, plain):
    assert find_change(with_part(ledger_facts(plain), "clock", late="as-planned"), plain) is None
    fading = Policy.from_dict(FADING, folder)
    change = find_change(with_part(ledger_facts(fading), "clock", late="as-planned"), fading)
    assert change == "how late steps count was 'as-planned' and is now 'now'"


def test_what_differs_by_rounding_is_refused_with_what_to_do(folder):
    """The account goes on under the numbers that it was begun with, to the last bit."""
    fading = Policy.from_dict(FADING, folder)
    alpha = np.nextafter(fading.notion.alpha, 1)
    known = with_part(ledger_facts(fading), "promise", notion={"name": "exponential", "epsilon": 1.0, "alpha": alpha})
    said = find_change(known, fading)
    assert said.endswith(
        f"was {alpha} and is now {fading.notion.alpha}, which differ by rounding alone: write it out as it was"
    )
    written = Policy.from_dict(changed(FADING, promise__half_life=None, promise__alpha=float(alpha)), folder)
    assert find_change(known, written) is None


@pytest.mark.parametrize("noise", ["gaussian", "moon", 7])
def test_stored_noise_that_the_policy_does_not_use_is_named(plain, noise):
    assert re.match(
        "the promise's noise was .* and is now not given",
        find_change(with_part(ledger_facts(plain), "promise", noise=noise), plain),
    )


@pytest.mark.parametrize("key", ["format", "population", "promise", "clock", "stream:mean"])
def test_a_newer_part_is_refused_by_its_version_and_by_its_keys(plain, key):
    known, newer = ledger_facts(plain), 3 if key in ("population", "stream:mean") else 2
    with pytest.raises(InvalidInput, match=f"version {newer} was written by a newer halflife"):
        find_change(with_part(known, key, version=newer), plain)
    with pytest.raises(InvalidInput, match=r"unknown key of .* 'moon'"):
        find_change(with_part(known, key, moon="full"), plain)
    with pytest.raises(InvalidInput, match="cannot be read"):
        find_change({**known, key: "{"}, plain)


def test_facts_leave_defaults_out(plain):
    known = ledger_facts(plain)
    assert json.loads(known["population"]) == {"version": 1, "id": "town", "size": 4, "person": "home"}
    assert json.loads(known["promise"]) == {"version": 1, "notion": {"name": "w-event", "epsilon": 1.0, "w": 6}}
    assert json.loads(known["clock"]) == {"version": 1, "start_us": 1767225600000000, "width_us": 3600000000}
    stream = json.loads(known["stream:mean"])
    assert stream["source"] == {"version": 1, "person": "home", "time": "time", "value": "kwh"}
    assert sorted(stream) == ["last", "mechanism", "source", "statistic", "steps", "version", "worth"]


# Through the publisher --------------------------------------------------------------------------------------------------


def at(hour):
    return lambda: 1_767_225_600 + 3600 * hour


def test_meters_instead_of_households_are_refused(tmp_path):
    write_readings(tmp_path)
    hl.publish(make(tmp_path), clock=at(5))
    other = make(tmp_path, population={"person": "meter"})
    with pytest.raises(
        LedgerError,
        match=r"identifies a person was 'home' and is now 'meter' \(policy\.yaml:\d+:\d+\);.* Undo the change, or see what",
    ):
        hl.publish(other, clock=at(6))
    (problem,) = hl.verify(other.ledger_url, policy=other).problems
    assert "the column that identifies a person was 'home' and is now 'meter' (policy.yaml:1:42): undo" in problem


CHAINS = ([], [{"moving_average": 3}], [{"truncate": ["0", "9"]}, {"kalman": "0.3 kWh"}], [], [{"moving_average": 3}])


@pytest.mark.parametrize("promise", [
    {"notion": "w-event", "epsilon": 1.0, "w": 6},
    {"notion": "almost-periodic", "epsilon": 1.0, "period": 4, "strong": True},
], ids=["planned", "reused"])  # fmt: skip
def test_a_new_chain_begins_fresh_at_the_next_step_and_is_recorded(tmp_path, promise):
    write_readings(tmp_path)
    for turn, post in enumerate(CHAINS, start=1):
        data = policy_dict(stream={"post": post})
        data["promise"] = promise
        policy = Policy.from_dict(data, tmp_path)
        for hour in (4 * turn - 1, 4 * turn):
            hl.publish(policy, clock=at(hour))
            verdict = hl.verify(policy.ledger_url, {"mean": str(policy.path("mean.csv"))}, policy=policy)
            assert verdict.problems == ()
    with open_ledger(policy.ledger_url, read_only=True) as book:
        entries, states = list(book.entries()), book.states()
    assert [item["from"] for item in json.loads(states["post:mean"])["chains"]] == [5, 9, 13, 17]
    assert [e.value is None for e in entries] == [True] * 4 + [False] * 8 + [True] * 4 + [False] * 4
    noisy = [float(e.noisy[0]) / 5000 for e in entries]
    shown = [float(row["value"]) for row in read_csv(tmp_path / "mean.csv")]
    for first in (4, 16):  # each average begins anew
        assert shown[first : first + 4] == pytest.approx(
            [sum(noisy[max(first, k - 2) : k + 1]) / (k + 1 - max(first, k - 2)) for k in range(first, first + 4)]
        )


@pytest.mark.parametrize("what", ["value", "spread", "none", "some"])
def test_a_value_that_post_processing_does_not_give_is_found(tmp_path, what, monkeypatch):
    """By a publisher that lies, with a chain of hashes that is whole."""

    def lie(draw):
        def around(*args, **more):
            entries = draw(*args, **more)
            e = entries[-1]
            change = {
                "value": {"value": e.noisy * 0.0002 * (1 + 1e-6)}, "spread": {"spread": e.spread * 1.1}, "none": {"value": None},
                "some": {"value": np.array([1.0])},
            }[what]  # fmt: skip
            object.__setattr__(e, "__dict__", {**e.__dict__, **change})
            return entries

        return around

    write_readings(tmp_path)
    policy = make(tmp_path, stream={"post": [] if what == "some" else [{"moving_average": 3}]})
    hl.publish(policy, clock=at(3))
    assert hl.verify(policy.ledger_url).good
    monkeypatch.setattr(session, "make_entries", lie(session.make_entries))
    hl.publish(policy, clock=at(4))
    (problem,) = hl.verify(policy.ledger_url).problems
    assert "entry 4 (mean, step 4): its value is not what post-processing gives from its noisy one" in problem


def test_a_checked_process_is_the_same_promise(tmp_path):
    chain = hl.MarkovChain([[0.9, 0.1], [0.1, 0.9]])
    write_readings(tmp_path)
    path = tmp_path / "home.json"
    data = policy_dict()
    data["promise"] = {"notion": "age-dependent", "epsilon": 1.0, "process": {"file": "home.json"}}
    for turn, process in enumerate((chain, chain.with_check({"good": True, "readings": 7})), start=1):
        path.write_text(json.dumps(process.to_dict()))
        policy = Policy.from_dict(data, tmp_path)
        assert hl.publish(policy, clock=at(3 * turn)).published == {"mean": 3}
        assert hl.verify(policy.ledger_url, policy=policy).good


TOWN = """\
population:
  id: town
  size: 5
  person: home
promise: {notion: w-event, epsilon: 1, w: 6}
clock: {step: 1 h, start: 2026-01-01, end: 2026-01-02}
streams:
  - name: mean
    source: {files: readings.csv, time: time, value: kwh}
    statistic: {kind: mean, unit: kWh, resolution: 1 Wh, clip: [0, 5 kWh], fold: sum}
    output: mean.csv
"""


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("size: 5", "size: 6", 3),
        ("w: 6", "w: 7", 5),
        ("step: 1 h", "step: 2 h", 6),
        ("clip: [0, 5 kWh]", "clip: [0, 4 kWh]", 10),
        ("value: kwh", "value: other", 9),
        ("name: mean", "name: other", 7),
    ],
)
def test_a_change_is_named_with_its_line(tmp_path, before, after, line):
    assert before in TOWN
    known = ledger_facts(Policy.parse(TOWN, tmp_path))
    said = find_change(known, Policy.parse(TOWN.replace(before, after), tmp_path))
    assert f"(policy.yaml:{line}:" in said


def test_another_number_of_months_is_named_with_its_line(tmp_path):
    months = TOWN.replace("1 h,", "1 month,").replace("end: 2026-01-02", "end: 2027-01-01")
    known = ledger_facts(Policy.parse(months, tmp_path))
    said = find_change(known, Policy.parse(months.replace("1 month,", "2 months,"), tmp_path))
    assert "(policy.yaml:6:9)" in said


def test_a_cap_is_named_where_it_stands(tmp_path):
    data = policy_dict(promise={"notion": "w-event", "epsilon": 1, "w": 6, "cap": 0.5})
    with pytest.raises(InvalidInput, match=r"promise\.cap: a tight plan of w-event has no cap: leave it out"):
        Policy.from_dict(data, tmp_path)
