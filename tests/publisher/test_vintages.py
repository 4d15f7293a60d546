"""Steps that are published again from corrected data: charged beside the first, in a file of their own, exactly once."""

import csv
import itertools
import json
import math
import os
from pathlib import Path

import numpy as np
import pytest

import halflife as hl
from forked import finish, start
from halflife.errors import HalflifeError
from halflife.ledger import open_ledger
from halflife.policy import Policy
from publisher.children import revise_and_die
from publisher.town import HOMES, KILLED, LOUD, exact_means, policy_dict, readings, write_readings

SHARE = 0.5
"""What the town's stream has of the promise; the rest is room for corrections."""


def town(folder, promise=None, output="mean.csv", share=SHARE, **changes):
    """A town whose stream leaves room, with readings of a day."""
    if not (folder / "readings.csv").exists():
        write_readings(folder, readings())
    data = policy_dict(output=output, stream={"share": share}, **changes)
    data["promise"] = promise or {"notion": "w-event", "epsilon": 1.0, "w": 6, "reach": 18}
    return Policy.from_dict(data, folder)


def correct(folder, by=1.0):
    """Write every reading anew, so much larger."""
    rows = [(home, time, kwh + by) for home, time, kwh in readings()]
    write_readings(folder, rows)
    return rows


def rows(path):
    with path.open() as file:
        return {int(r["step"]): (float(r["value"]), float(r["error_band"])) for r in csv.DictReader(file)}


BEGIN = 1767225600
"""2026-01-01, in seconds."""


def at(hour):
    """A clock that stands at this hour of the town's time."""
    return lambda: BEGIN + 3600 * hour


def publish(policy, hour=24):
    return hl.publish(policy, clock=at(hour))


def publish_until(policy, hour, since=1):
    """Publish each hour when it is over: under promises that forget, what is late counts from when it is published."""
    for now in range(since, hour + 1):
        publish(policy, now)


def revise(policy, *steps, hour=24, **asked):
    return hl.revise(policy, "mean", *steps, clock=at(hour), **asked)


PROMISES = {
    "w-event": {"notion": "w-event", "epsilon": LOUD, "w": 6, "reach": 18},
    "exponential": {"notion": "exponential", "epsilon": LOUD, "half_life": 6},
    "hyperbolic": {"notion": "hyperbolic", "epsilon": LOUD, "beta": 0.5},
    "classical": {"notion": "classical", "epsilon": LOUD, "plan": "constant"},
}


@pytest.mark.parametrize("notion", PROMISES)
def test_a_corrected_step_is_published_again_and_the_first_stays(tmp_path, notion):
    policy = town(tmp_path, PROMISES[notion])
    publish(policy)
    first = (tmp_path / "mean.csv").read_bytes()
    corrected = correct(tmp_path)
    loss = 0.4 * LOUD / 24
    made = revise(policy, 20, loss=loss)
    assert (made.vintage, made.first, made.last, made.recorded) == (2, 20, 20, True)
    assert made.loss == pytest.approx(loss, rel=1e-3)
    assert (tmp_path / "mean.csv").read_bytes() == first
    again = rows(tmp_path / "mean.vintage-2.csv")
    assert list(again) == [20]
    assert again[20][0] == pytest.approx(exact_means(corrected)[19], abs=0.01)
    assert hl.verify(policy).problems == ()


@pytest.mark.parametrize("output", ["mean.csv", "mean.jsonl", "mean.parquet", "parts/", "-"])
def test_a_vintage_has_a_file_in_the_format_of_its_output(tmp_path, output, capsys):
    policy = town(tmp_path, output=output)
    publish(policy)
    made = revise(policy, 3, 5)
    values = hl.read_published(made.file, policy)
    assert values.frame["step"].to_pylist() == [3, 4, 5]
    assert hl.verify(policy).problems == ()
    os.unlink(made.file)
    publish(policy)  # which writes what is not there
    assert hl.read_published(made.file, policy).frame.equals(values.frame)


def test_losses_of_both_vintages_add_up(tmp_path):
    """w = 6, ε = 1 with half of it planned: 1/12 a step. A window of six steps, all of them corrected, is full."""
    policy = town(tmp_path)
    publish(policy)
    made = revise(policy, 13, 18)
    assert made.risk == pytest.approx(1.0, rel=1e-3)
    with open_ledger(policy.ledger_url, read_only=True) as book:
        releases = [r for e in book.entries() for r in e.releases]
        by_time = {k: sum(r.loss for r in releases if r.data_time == k) for k in range(1, 25)}
        live = hl.Accountant.from_json(book.states()["account"])
    windows = [sum(by_time[k] for k in range(e - 5, e + 1)) for e in range(6, 25)]
    assert max(windows) == pytest.approx(made.risk, rel=1e-9) == live.risk()
    with pytest.raises(HalflifeError, match=r"no loss fits now; .* there never will be more"):
        revise(policy, 15)


def test_every_pair_of_neighbours_loses_at_most_what_is_charged(tmp_path):
    """One person's readings, first and corrected, may be anything: both exact values move by at most the sensitivity each."""
    policy = town(tmp_path)
    worst = 0.0
    for first, second in itertools.product((0.0, 5.0), repeat=2):
        for other_first, other_second in itertools.product((0.0, 5.0), repeat=2):
            worst = max(worst, abs(first - other_first) + abs(second - other_second))
    publish(policy)
    revise(policy, 9)
    with open_ledger(policy.ledger_url, read_only=True) as book:
        (one,), (two,) = (next(book.entries(name, 9, 9)).releases for name in ("mean", "mean@2"))
    unit = 1000  # Wh
    attained = 5 * unit / one.scale + 5 * unit / two.scale
    assert worst == 10.0
    assert attained == pytest.approx(one.loss + two.loss, rel=1e-3)
    assert one.loss + two.loss >= attained


@pytest.mark.diagonal
@pytest.mark.parametrize("notion", ["exponential", "hyperbolic", "classical", "w-event"])
@pytest.mark.parametrize("share", [0.5, 0.8, 1.0])
def test_all_that_is_planned_can_still_be_published(tmp_path, notion, share):
    """Whatever is revised, whenever there is room: no later step is refused. Without room nothing is published again."""
    promise = {**PROMISES[notion], "epsilon": 1.0}
    policy = town(tmp_path, promise, share=share, clock={"end": "2026-01-02T12:00"})
    write_readings(tmp_path, readings(steps=36))
    made, refused = 0, []
    for hour in range(1, 37):
        publish(policy, hour)
        for back in (0, 2) if hour in (1, 2, 3, 6, 7, 20, 34) else ():
            try:
                revise(policy, max(1, hour - back), hour=hour)
                made += 1
            except HalflifeError as error:
                refused.append(str(error))
    assert len(rows(tmp_path / "mean.csv")) == 36
    assert hl.verify(policy).problems == ()
    assert bool(made) == (share < 1)
    assert refused or share == SHARE
    assert all("there is no room" in why for why in refused)


def test_a_loss_that_fits_is_told_and_fits(tmp_path):
    policy = town(tmp_path, share=0.9)
    publish(policy)
    with pytest.raises(HalflifeError, match=r"--loss") as refusal:
        revise(policy, 12, loss=0.5)
    fits = float(str(refusal.value).split("--loss ")[1].split(")")[0])
    assert fits == pytest.approx(0.1, rel=1e-2)
    with pytest.raises(HalflifeError, match="no room"):
        revise(policy, 12, loss=1.1 * fits)
    assert revise(policy, 12, loss=0.99 * fits, dry_run=True).recorded is False
    assert revise(policy, 12, loss=0.99 * fits).risk <= 1.0


def test_it_is_told_when_there_will_be_room(tmp_path):
    """Half-life of 6 h, half of ε planned: a large correction has room once the first release, of half of ε, has faded."""
    promise = {"notion": "exponential", "epsilon": 1.0, "half_life": 6}
    policy = town(tmp_path, promise, clock={"end": "2026-01-04"})
    write_readings(tmp_path, readings(steps=72))
    publish_until(policy, 2)
    revise(policy, 1, loss=0.3, hour=2)
    with pytest.raises(HalflifeError, match="there is room for it from") as refusal:
        revise(policy, 2, loss=0.4, hour=2)
    when = str(refusal.value).split("there is room for it from ")[1].split(" on,")[0]
    hours = int(when[8:10]) * 24 - 24 + int(when[11:13])
    publish_until(policy, hours - 1, since=3)
    with pytest.raises(HalflifeError, match="no room"):
        revise(policy, 2, loss=0.4, hour=hours - 1)
    publish(policy, hour=hours)
    assert revise(policy, 2, loss=0.4, hour=hours).recorded


REFUSED = {
    "a delta": ({"promise": {"notion": "w-event", "epsilon": 1.0, "w": 6, "delta": 1e-6}}, "seen the first value"),
    "kept noise": (
        {"promise": {"notion": "almost-periodic", "epsilon": 1.0, "period": "6 h", "strong": True}},
        "not independent",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_proved_is_refused(tmp_path, case):
    changes, why = REFUSED[case]
    policy = town(tmp_path, share=1.0, **changes)
    publish(policy)
    with pytest.raises(HalflifeError, match=why):
        revise(policy, 3)


def test_steps_that_cannot_be_corrected_are_refused(tmp_path):
    policy = town(tmp_path)
    with pytest.raises(HalflifeError, match="due and not published"):
        revise(policy, 3)
    publish(policy)
    for step, why in ((25, "holds no step"), (0, "give a first step"), ("2026-02-01", "holds no step")):
        with pytest.raises(HalflifeError, match=why):
            revise(policy, step)
    with pytest.raises(HalflifeError, match="not before it"):
        revise(policy, 5, 4)
    with pytest.raises(HalflifeError, match="men"):
        hl.revise(policy, "men", 5)
    with pytest.raises(HalflifeError, match="loss"):
        revise(policy, 5, loss=-1.0)


def test_further_back_than_the_account_remembers(tmp_path):
    policy = town(tmp_path, {"notion": "w-event", "epsilon": 1.0, "w": 6})
    publish(policy)
    with pytest.raises(HalflifeError, match="give the promise a `reach`"):
        revise(policy, 5)
    longer = town(tmp_path, {"notion": "w-event", "epsilon": 1.0, "w": 6, "reach": 24})
    made = hl.amend(longer, "late meters are corrected", clock=at(24))
    assert not made.amendment.weakens
    assert revise(longer, 5).recorded
    assert hl.verify(longer).problems == ()


def test_steps_from_before_an_amendment_of_members_are_refused(tmp_path):
    policy = town(tmp_path, clock={"end": "2026-01-03"})
    write_readings(tmp_path, readings(steps=48))
    publish(policy, hour=24)
    more = town(tmp_path, clock={"end": "2026-01-03"}, population={"size": HOMES + 1})
    hl.amend(more, "one joined", clock=at(24))
    publish(more, hour=30)
    with pytest.raises(HalflifeError, match="before an amendment that holds from step 25"):
        revise(more, 24, hour=30)
    assert revise(more, 26, hour=30).recorded


def test_a_vintage_is_never_read_as_readings(tmp_path):
    data = policy_dict(
        output="-", stream={"share": SHARE, "source": {"files": "*.csv", "time": "time", "value": "kwh"}}
    )
    write_readings(tmp_path, readings())
    policy = Policy.from_dict(data, tmp_path)
    publish(policy)
    with pytest.raises(HalflifeError, match="read as readings"):
        revise(policy, 24)


# Crashes, changes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["ledger locked", "noise drawn again", "vintage committed", "outputs closed"])
def test_killed_at_any_point_nothing_is_drawn_twice(tmp_path, point):
    write_readings(tmp_path)
    data = policy_dict(stream={"share": SHARE}, promise={"reach": 24})
    (tmp_path / "policy.json").write_text(json.dumps(data))
    policy = Policy.load(tmp_path / "policy.json")
    publish(policy)
    assert finish(start(revise_and_die, str(tmp_path / "policy.json"), point, BEGIN + 24 * 3600)) == KILLED
    with open_ledger(policy.ledger_url, read_only=True) as book:
        before = {e.step: e.noisy[0] for e in book.entries("mean@2")}
    assert bool(before) == (point in ("vintage committed", "outputs closed"))
    publish(policy)
    with open_ledger(policy.ledger_url, read_only=True) as book:
        assert {e.step: e.noisy[0] for e in book.entries("mean@2")} == before
    assert (tmp_path / "mean.vintage-2.csv").exists() == bool(before)
    assert hl.verify(policy).problems == ()


def test_a_changed_vintage_is_found(tmp_path):
    policy = town(tmp_path)
    publish(policy)
    made = revise(policy, 7)
    file = Path(made.file)
    whole = file.read_text()
    file.write_text(whole.replace(",2026", ",2027"))
    assert any("vintage-2" in problem for problem in hl.verify(policy).problems)
    file.unlink()
    assert any("vintage-2" in problem for problem in hl.verify(policy).problems)
    file.write_text(whole)
    assert hl.verify(policy).problems == ()


def test_a_certificate_tells_of_vintages(tmp_path):
    policy = town(tmp_path)
    publish(policy)
    early = hl.certify(policy)
    made = revise(policy, 7, 8)
    told = hl.certify(policy)["certificate"]
    assert [(p["stream"], p.get("vintage"), p["steps"]) for p in told["published"]] == [
        ("mean", None, 24),
        ("mean@2", 2, 2),
    ]
    assert told["promises"][0]["risk"]["largest"] == pytest.approx(0.5 + 2 / 12, rel=1e-3)
    (tmp_path / "certificate.json").write_text(json.dumps({"certificate": told}))
    verdict = hl.check_certificate(tmp_path / "certificate.json", policy, {"mean@2": made.file})
    assert verdict.problems == ()
    (tmp_path / "early.json").write_text(json.dumps(early))
    assert "says too little" in hl.check_certificate(tmp_path / "early.json", policy).problems[0]


def test_hindsight_uses_both_values(tmp_path):
    """With the same data published twice, noise of estimates falls: simulated truth is constant."""
    policy = town(tmp_path, {"notion": "w-event", "epsilon": 2.0, "w": 6, "reach": 24})
    write_readings(tmp_path, [(home, time, 2.5) for home, time, _ in readings()])
    publish(policy)
    revise(policy, 1, 24)
    from halflife.publisher.looking_back import _read_raw
    from halflife.publisher.revising import Raw

    with open_ledger(policy.ledger_url, read_only=True) as book:
        channel = hl.Policy.of(policy)
        from halflife.policy import channels

        (c,) = channels(channel)
        both, one = _read_raw(book, c), Raw(c, list(book.entries("mean")))
        two = Raw(c, list(book.entries("mean@2")))
    first, second = 2 * one.scales**2, 2 * two.scales**2  # variances of Laplace noise, in units
    beyond = ((two.values - one.values) / one.worth)[:, 0] ** 2 - first - second
    spread = max(0.0, beyond.mean() + 2 * beyond.std(ddof=1) / math.sqrt(len(beyond)))
    share = second / (first + spread + second)
    assert 2 * both.scales**2 == pytest.approx(share * (first + spread), rel=1e-9)
    assert both.values[:, 0] == pytest.approx((share * one.values[:, 0] + (1 - share) * two.values[:, 0]), rel=1e-9)
    assert np.all(both.scales < two.scales)
    hl.hindsight(policy)


def test_a_copy_from_before_a_revision_is_noticed_by_marks(tmp_path):
    """Ledger and guard are put back together: the mark beside the output counts vintages too."""
    policy = town(tmp_path)
    publish(policy)
    kept = {name: (tmp_path / name).read_bytes() for name in ("town.ledger", "town.ledger.shown")}
    revise(policy, 7)
    for left in tmp_path.glob("town.ledger-*"):
        left.unlink()
    for name, content in kept.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(HalflifeError, match=r"mean\.csv\.mark"):
        publish(policy)


@pytest.mark.parametrize("mark_is_left", [True, False])
def test_no_steps_are_passed_over_if_some_were_published_again_after_a_backup(tmp_path, mark_is_left):
    policy = town(tmp_path, clock={"end": "2026-01-03"})
    write_readings(tmp_path, readings(steps=48))
    publish(policy)
    hl.backup(policy, tmp_path / "backup", clock=at(24))
    revise(policy, 7)
    publish(policy, 30)
    for left in tmp_path.glob("town.ledger*"):
        left.unlink()
    if not mark_is_left:  # the vintage's own file is
        (tmp_path / "mean.csv.mark").unlink()
    with pytest.raises(HalflifeError, match="published again after the backup"):
        hl.restore(tmp_path / "backup", policy, pass_over=True, unamended=True, clock=at(31))


def test_room_counts_steps_that_a_restore_passed_over(tmp_path):
    """Six steps of a window are lost and charged as planned: with them half of the promise is used, and half is left."""
    policy = town(tmp_path, clock={"end": "2026-01-03"})
    write_readings(tmp_path, readings(steps=48))
    publish(policy)
    hl.backup(policy, tmp_path / "backup", clock=at(24))
    publish(policy, 27)
    for left in tmp_path.glob("town.ledger*"):
        left.unlink()
    made = hl.restore(tmp_path / "backup", policy, pass_over=True, clock=at(28))
    assert made.passed == {"mean": (25, 27)}
    publish(policy, 28)
    with pytest.raises(HalflifeError, match="holds no step"):
        revise(policy, 26, hour=28)
    with pytest.raises(HalflifeError, match="no room"):
        revise(policy, 24, loss=0.51, hour=28)
    assert revise(policy, 24, loss=0.49, hour=28).recorded
    assert hl.verify(policy).problems == ()


def test_a_program_corrects_what_it_pushed(tmp_path):
    data = policy_dict(stream={"share": SHARE, "source": None}, promise={"reach": 18, "epsilon": LOUD})
    del data["streams"][0]["source"]
    policy = Policy.from_dict(data, tmp_path)
    with hl.Stream(policy, clock=at(3)) as stream:
        first = stream.publish(1.0, at=3)
        again = stream.revise(2.0, at=3)
        assert stream.publish(4.0, at=3).value == first.value
    assert first.value == pytest.approx(1.0, abs=0.01)
    assert again.value == pytest.approx(2.0, abs=0.01)
    assert hl.verify(policy).problems == ()
    with pytest.raises(HalflifeError, match=r"hl\.Stream\.revise"):
        revise(policy, 3, hour=3)


def test_the_command(tmp_path, capsys):
    from halflife.cli import main

    write_readings(tmp_path)
    (tmp_path / "policy.json").write_text(
        json.dumps(policy_dict(stream={"share": SHARE}, promise={"reach": "400 days"}))
    )
    path = str(tmp_path / "policy.json")
    hl.publish(path)
    for arguments in (["7", "--dry-run"], ["2026-01-01 06:30"], ["8", "--to", "9", "--json"]):
        main(["revise", path, "mean", *arguments], standalone_mode=False)
    told = capsys.readouterr().out
    assert "There is room. It would be vintage 2" in told
    assert "step 7 (2026-01-01 06:00+00:00 to 2026-01-01 07:00+00:00): a loss of 0.083" in told
    assert '"vintage": 3' in told
