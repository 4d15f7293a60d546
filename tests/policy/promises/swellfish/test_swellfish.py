"""Swellfish in a policy: secrets in files or in the policy itself, in whole units of the statistic; what must be said."""

from __future__ import annotations

import json

import numpy as np
import pytest

import halflife as hl
from halflife.policy import PolicyError, channels, explain, ledger_facts
from halflife.policy.promises.swellfish.adapter import block_edges
from halflife.steps import Steps

HERE = """\
halflife: 1
population:
  id: town
  size: 4
  person: who
promise:
  notion: swellfish
  neighbours: one-window
  outside: exact
  specifications:
    readings: 1
    households:
      Elm 7:
        - every weekday 18:00–21:00, oven, 3 kW, 30 min, epsilon 1
      Oak 2:
        - {what: bath, start: 2026-01-03T08:00, end: 2026-01-03T12:00, power: 8 kW, duration: 1 h, epsilon: 0.5}
clock:
  step: 30 min
  start: 2026-01-01
  end: 2026-02-01
  zone: Europe/London
streams:
  - name: load
    source:
      files: readings.csv
      time: ts
      value: kwh
    statistic:
      kind: sum
      unit: kWh
      resolution: 1 Wh
      clip: [0, 5 kWh]
      fold: sum
    output: load.csv
"""


def change(old, new, text=HERE):
    assert text.count(old) == 1, (old, text.count(old))
    return text.replace(old, new)


def load(text, folder="."):
    policy = hl.Policy.parse(text, folder)
    return policy, channels(policy)[0]


def test_secrets_become_whole_units_of_the_statistic():
    """3 kW for half an hour are 1,500 Wh; one reading rounds by a unit, in one step more than the event lasts: 1,502."""
    policy, channel = load(HERE)
    notion = policy.notion
    s = notion.specifications
    assert (len(s), s.households) == (23, ("Elm 7", "Oak 2"))  # 22 weekdays of January 2026, and a bath
    assert s.power.tolist() == pytest.approx([1502.0] * 22 + [4002.0], abs=1e-6)
    assert set(s.duration.tolist()) == {1, 2}
    scale = channel.plan.scale(37)  # 18:00 on Thursday, the first day
    assert scale == pytest.approx(1502.0, rel=1e-6)
    assert channel.plan.scale(36) == 0
    assert channel.plan.loss(36) == float("inf")


def test_files_and_the_policy_itself_say_the_same(tmp_path):
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "elm.yaml").write_text(
        "zone: Europe/London\nhouseholds:\n  Elm 7:\n    - every weekday 18:00–21:00, oven, 3 kW, 30 min, epsilon 1\n"
    )
    (tmp_path / "secrets" / "oak.csv").write_text("household,power,duration,start,end,epsilon\nOak 2,8,2,113,120,0.5\n")
    inline = HERE[HERE.index("  specifications") : HERE.index("clock:")]
    policy, _ = load(change(inline, "  specifications: {files: secrets/, readings: 1}\n"), tmp_path)
    assert policy.notion == load(HERE)[0].notion
    policy, _ = load(
        change(inline, "  specifications: {files: [secrets/elm.yaml, secrets/oak.csv], readings: 1}\n"), tmp_path
    )
    assert policy.notion == load(HERE)[0].notion


@pytest.mark.parametrize(
    ("old", "new", "power", "longest"),
    [
        ("unit: kWh\n      resolution: 1 Wh", "unit: Wh\n      resolution: 1", 1502.0, 2),
        ("resolution: 1 Wh", "resolution: 10 Wh", 152.0, 2),
        ("fold: sum", "fold: max", 1504.0, 3),
        ("kind: sum", "kind: mean", 1502.0, 2),
        ("unit: kWh\n      resolution: 1 Wh\n      clip: [0, 5 kWh]\n      fold: sum",
         "unit: kW\n      resolution: 1 W\n      clip: [0, 5 kW]\n      fold: mean", 3004.0, 3),
        ("unit: kWh\n      resolution: 1 Wh\n      clip: [0, 5 kWh]\n      fold: sum",
         "unit: kW\n      resolution: 1 W\n      clip: [0, 5 kW]\n      fold: last", 3004.0, 3),
        ("neighbours: one-window", "neighbours: one-window\n  delta: 1e-6\n  noise: laplace", 1502.0, 3),
        ("neighbours: one-window", "neighbours: one-window\n  delta: 1e-6\n  noise: gaussian", 1502.0, 2),
        ("    readings: 1\n", "    readings: 30\n", 1560.0, 2),
    ],
)  # fmt: skip
def test_power_energy_folds_and_edges(old, new, power, longest):
    """What an event shows in depends on what a reading is; where it may show in one step more, it is taken to be longer."""
    policy, _ = load(change(old, new))
    s = policy.notion.specifications
    assert s.power.min() == pytest.approx(power, abs=1e-6)
    assert s.duration.max() == longest


def test_an_event_that_begins_within_a_step_loses_no_more():
    """The convexity that lets energies keep T: an hour's bath from 08:10 on shows in three half hours, 20, 30 and 10 minutes."""
    _, channel = load(HERE)
    scales = channel.plan.scales(120)
    for first in range(113, 119):
        parts = [8000 / 6, 8000 / 2, 8000 / 3]  # Wh in the three half hours
        lost = sum(p / scales[first - 1 + k] for k, p in enumerate(parts) if first - 1 + k < 120)
        assert lost <= 0.5


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  neighbours: one-window\n", "", "6:1: promise.neighbours: missing: write how secrets are to be read: one-event"),
        ("  outside: exact\n", "", "6:1: promise.outside: missing: outside hiding intervals nothing is hidden"),
        ("outside: exact\n", "outside: exact\n  floor: 1 kWh\n", "9:3: promise.outside: missing: outside hiding"),
        ("outside: exact\n", "floor: 0 kWh\n", "9:3: promise.floor: must be above 0"),
        ("outside: exact\n", "floor: 1 kW\n", "9:3: promise.floor: '1 kW' is not in kWh"),
        ("outside: exact\n", "outside: exact\n  block: 10 min\n", "10:3: promise.block: 10 min is shorter than a step"),
        ("one-window", "one-windw", "8:3: promise.neighbours: unknown neighbours 'one-windw': did you mean 'one-window'?"),
        ("kind: sum", "kind: count", "streams.0.statistic.kind: secrets bound what an event adds to a sum, not to a count"),
        ("unit: kWh\n      resolution: 1 Wh\n      clip: [0, 5 kWh]", "unit: litre\n      resolution: 1\n      clip: [0, 5]",
         "streams.0.statistic.unit: secrets have powers"),
        ("unit: kWh\n      resolution: 1 Wh\n      clip: [0, 5 kWh]", "unit: kW\n      resolution: 1 W\n      clip: [0, 5 kW]",
         "streams.0.statistic.unit: readings of power (kW) that are added up"),
        ("  person: who", "  person: who\n  neighbours: add-remove", "population.neighbours: swellfish hides events"),
        ("epsilon 1\n", "epsilon 0\n", "14:11: households.Elm 7.0: epsilon must be above 0"),
        ("epsilon: 0.5}", "epsilon: 0.5, colour: red}", "16:"),
        ("duration: 1 h", "duration: 5 h", "16:"),
        ("  specifications:\n", "  specifications:\n    files: a.yaml\n", "promise.specifications: give either `files`"),
        ("  specifications:\n", "  specifications:\n    unreadble: skip\n",
         "11:5: promise.specifications.unreadble: unknown key"),
        ("    readings: 1\n", "", "promise.specifications.readings: missing: each reading is rounded"),
        ("  outside: exact\n", "  outside: exact\n  delta: 1e-6\n", "promise.noise: missing: with a delta above 0"),
        ("  outside: exact\n", "  outside: exact\n  cap: 1\n", "promise.plan: swellfish plans have no `cap`"),
        ("  outside: exact\n", "  outside: exact\n  noise: gaussian\n", "noise gaussian has no bounded pure loss"),
    ],
)  # fmt: skip
def test_what_is_missing_or_wrong_is_named_with_its_line(old, new, message):
    with pytest.raises(PolicyError) as refused:
        hl.Policy.parse(change(old, new))
    assert message in str(refused.value), str(refused.value)


def test_other_notions_know_nothing_of_floors():
    text = (
        HERE[: HERE.index("  notion")]
        + "  notion: classical\n  epsilon: 1\n  floor: 1 kWh\n"
        + HERE[HERE.index("clock:") :]
    )
    with pytest.raises(PolicyError, match=r"9:3: promise\.floor: is said of swellfish promises, not of classical"):
        hl.Policy.parse(text)


def test_a_key_of_secrets_that_is_blank_says_what_it_is_for():
    with pytest.raises(PolicyError, match=r"promise\.floor: is blank: Swellfish: the least noise at any step"):
        hl.Policy.parse(HERE.replace("  notion: swellfish\n", "  notion: swellfish\n  floor:\n", 1))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  outside: exact\n", "  floor: 0.2 kWh\n"),
        ("  outside: exact\n", "  outside: exact\n  block: 1 day\n"),
        ("  - name: load\n", "  - name: load\n    share: 0.5\n"),
    ],
    ids=["floor", "block", "share"],
)
def test_a_ledger_remembers_each_stream_s_part_and_the_noise_outside_secrets(old, new):
    before, after = (hl.Policy.parse(text) for text in (HERE, change(old, new)))
    known, asked = (ledger_facts(p) for p in (before, after))
    changed = {part for part in known if known[part] != asked[part]}
    assert changed == {"stream:load" if "share" in new else "promise"}


def test_groups_that_may_change_are_refused(tmp_path):
    text = change("    output: load.csv", "    groups: {names: [n, s], most_per_person: 1}\n    output: load.csv")
    with pytest.raises(PolicyError, match="secrets say nothing about a household's group"):
        hl.Policy.parse(change("      value: kwh", "      value: kwh\n      group: where", text))


def test_a_specification_that_cannot_be_read_stops_the_policy_unless_told_otherwise(tmp_path):
    (tmp_path / "good.csv").write_text("household,power,duration,start,end,epsilon\nOak 2,8,2,113,120,0.5\n")
    (tmp_path / "bad.yaml").write_text(
        "households:\n  Elm 7:\n    - {power: 3 kW, duration: 9, start: 1, end: 4, epsilon: 1}\n"
    )
    inline = HERE[HERE.index("  specifications") : HERE.index("clock:")]
    with pytest.raises(PolicyError, match=r"policy.yaml:10:3: promise.specifications: .*bad.yaml:3:.*duration"):
        hl.Policy.parse(change(inline, "  specifications: {files: [good.csv, bad.yaml], readings: 1}\n"), tmp_path)
    with pytest.raises(PolicyError, match=r"nowhere: .*No such file"):
        hl.Policy.parse(change(inline, "  specifications: nowhere/\n"), tmp_path)
    skip = "  specifications: {files: [good.csv, bad.yaml], unreadable: skip, readings: 1}\n"
    policy, channel = load(change(inline, skip), tmp_path)
    assert policy.notion.specifications.households == ("Oak 2",)
    assert "could not be read and are left out: their" in channel.plan.certificate()["not_protected"][0]
    assert any("WARNING" in line and "bad.yaml" in line for line in explain(channel))


def test_a_delta_too_large_for_the_population_is_warned_of_with_the_number():
    _, channel = load(change("outside: exact", "outside: exact\n  delta: 0.3\n  noise: gaussian"))
    assert "δ = 0.3 is too large for 4 households" in channel.plan.not_protected()[0]
    assert "1.2 of them" in channel.plan.not_protected()[0]
    _, channel = load(change("outside: exact", "outside: exact\n  delta: 1e-6\n  noise: gaussian"))
    assert not any("too large" in text for text in channel.plan.not_protected())


def test_the_certificate_says_what_is_exact_and_that_secrets_are_public():
    _, channel = load(HERE)
    certificate = channel.plan.certificate()
    json.dumps(certificate, allow_nan=False)
    assert "Outside hiding intervals the exact value is published" in certificate["not_protected"][0]
    assert "Exact here: 1,348 of 1,488 steps" in certificate["not_protected"][0]
    assert any("specifications: they are public" in text for text in certificate["not_protected"])
    assert certificate["secrets"]["one-window"]["kept"]
    _, channel = load(change("outside: exact", "floor: 0.1 kWh"))
    assert "as a floor" in channel.plan.certificate()["not_protected"][0]
    assert channel.plan.scales(1488).min() == pytest.approx(100.0)


def test_a_day_has_one_noise_over_clock_changes():
    spring = Steps.of("30 min", "2026-03-27", "Europe/London")
    assert np.diff(block_edges("1 day", spring, 300)).tolist() == [48, 48, 46, 48, 48, 48, 48]
    text = change("start: 2026-01-01\n  end: 2026-02-01", "start: 2026-03-27\n  end: 2026-04-03")
    text = change(
        "start: 2026-01-03T08:00, end: 2026-01-03T12:00", "start: 2026-03-29T08:00, end: 2026-03-29T12:00", text
    )
    _, channel = load(change("outside: exact", "outside: exact\n  block: 1 day", text))
    scales = channel.plan.scales(channel.last)
    days = np.split(scales, [48, 96, 142, 190, 238, 286])
    assert [len(set(day.tolist())) for day in days] == [1] * 7
    assert days[1][0] == 0  # a Saturday, on which nobody hides anything
    assert days[2][0] > days[0][0] > 0


def test_several_streams_share_each_secret_and_must_agree_on_the_unit():
    part = HERE[HERE.index("  - name: load") :]
    two = HERE + part.replace("name: load", "name: more").replace("load.csv", "more.csv")
    policy = hl.Policy.parse(two)
    one, other = channels(policy)
    assert one.plan.scale(37) == pytest.approx(2 * load(HERE)[1].plan.scale(37), rel=1e-6)
    assert one.plan.verdict()["kept"]
    assert other.plan.facts["share"] == pytest.approx(0.5)
    with pytest.raises(PolicyError, match="give all streams of a swellfish promise the same"):
        hl.Policy.parse(
            HERE + part.replace("name: load", "name: more").replace("load.csv", "more.csv").replace("1 Wh", "2 Wh")
        )
    with pytest.raises(PolicyError, match="with Laplace noise and a delta one stream is published"):
        hl.Policy.parse(two.replace("  outside: exact", "  outside: exact\n  delta: 1e-6\n  noise: laplace"))


def test_the_paper_under_all_events_is_refused_with_the_secret_that_is_broken():
    ten = "\n".join(
        f"        - {{power: 3, duration: 10, start: {10 * k + 1}, end: {10 * k + 10}, epsilon: 1}}" for k in range(10)
    )
    secrets = f"      Elm 7:\n        - {{power: 0.1, duration: 2, start: 1, end: 100, epsilon: 1}}\n{ten}\n"
    inline = HERE[HERE.index("      Elm 7") : HERE.index("clock:")]
    text = change("neighbours: one-window", "neighbours: all-events", change(inline, secrets))
    with pytest.raises(PolicyError, match=r"promise.plan: Read as 'all-events', the promise is broken: .*Elm 7.*9\.67"):
        hl.Policy.parse(change("  outside: exact", "  outside: exact\n  plan: paper", text))
    assert load(text)[1].plan.verdict()["kept"]


def test_a_stream_that_starts_later_hides_the_same_hours():
    text = change("    source:", "    start: 2026-01-02\n    source:")
    _, channel = load(text)
    assert channel.plan.scale(37) == pytest.approx(1502.0, rel=1e-6)  # 18:00 on Friday, its first day
    assert channel.plan.releases_at(37)[0].scale == channel.plan.scale(37)
