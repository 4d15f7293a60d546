"""Amendments, steps published again, restores, members by date and certificates, where each must know of the others."""

import json
import os

import pytest

import halflife as hl
from halflife.errors import HalflifeError
from halflife.ledger import open_ledger
from halflife.policy import Policy
from publisher.town import policy_dict, readings, write_readings

BEGIN = 1767225600


def at(hour):
    return lambda: BEGIN + 3600 * hour


def town(folder, promise=None, size=None, share=0.5, **stream):
    """A town whose stream leaves half of the promise, with readings of four days."""
    if not (folder / "readings.csv").exists():
        write_readings(folder, readings(steps=96))
    data = policy_dict(stream={"share": share, **stream}, clock={"end": "2026-01-05"})
    data["promise"] = promise or {"notion": "w-event", "epsilon": 1.0, "w": 6}
    data["population"]["size"] = size or data["population"]["size"]
    return Policy.from_dict(data, folder)


def lose(folder):
    for file in folder.glob("town.ledger*"):
        file.unlink()


def account_of(policy):
    with open_ledger(policy.ledger_url, read_only=True) as book:
        return hl.Accountant.from_json(book.states()["account"])


def told(certificate):
    return certificate["certificate"]["promises"][0]["risk"]


def test_a_certificate_counts_what_was_published_again_after_the_newest_step(tmp_path):
    write_readings(tmp_path, readings())
    data = policy_dict(stream={"share": 0.5}, clock={"end": "2026-01-01T01:00"})
    data["promise"] = {"notion": "exponential", "epsilon": 1.0, "half_life": 6}
    policy = Policy.from_dict(data, tmp_path)
    hl.publish(policy, clock=at(1))
    hl.revise(policy, "mean", 1, loss=0.05, clock=at(9))
    found = told(hl.certify(policy, clock=at(10)))
    assert found["risk"] == pytest.approx(account_of(policy).risk(), rel=1e-9)


def test_a_certificate_counts_lost_steps_beyond_the_newest_entry(tmp_path):
    policy = town(tmp_path)
    hl.publish(policy, clock=at(3))
    hl.backup(policy, tmp_path / "b", clock=at(3))
    hl.publish(policy, clock=at(6))
    lose(tmp_path)
    hl.restore(tmp_path / "b", policy, pass_over=True, clock=at(6))
    hl.publish(policy, clock=at(6))  # which writes the output anew
    assert account_of(policy).risk() == pytest.approx(0.5, rel=1e-3)
    assert told(hl.certify(policy, clock=at(8)))["risk"] == account_of(policy).risk()


def test_a_certificate_after_all_streams_were_replaced(tmp_path):
    policy = town(tmp_path)
    hl.publish(policy, clock=at(8))
    data = policy_dict(stream={"share": 0.5, "name": "other", "output": "other.csv"}, clock={"end": "2026-01-05"})
    other = Policy.from_dict(data, tmp_path)
    hl.amend(other, "another name", clock=at(8))
    found = hl.certify(other, clock=at(9))["certificate"]
    assert [(p["stream"], p["steps"]) for p in found["published"]] == [("other", 0), ("mean", 8)]
    status = hl.status(other, clock=at(9)).streams[0]
    assert (status.newest, status.end) == (0, None)


def test_what_is_lost_after_an_amendment_is_not_charged_to_the_promise_before_it(tmp_path):
    """ε = 0.5 is amended to 1 at step 3; steps 4 to 9 are lost: under the first promise they would be over it."""
    policy = town(tmp_path, {"notion": "w-event", "epsilon": 0.5, "w": 6}, share=1.0)
    hl.publish(policy, clock=at(3))
    larger = town(tmp_path, {"notion": "w-event", "epsilon": 1.0, "w": 6}, share=1.0)
    hl.amend(larger, "more", weaken=True, clock=at(3))
    hl.backup(larger, tmp_path / "b", clock=at(3))
    hl.publish(larger, clock=at(9))
    lose(tmp_path)
    hl.restore(tmp_path / "b", larger, pass_over=True, clock=at(9))
    hl.publish(larger, clock=at(9))
    assert hl.verify(larger).problems == ()
    hl.publish(larger, clock=at(12))
    promises = hl.certify(larger, clock=at(13))["certificate"]["promises"]
    assert [p["risk"]["largest"] for p in promises] == pytest.approx([1.0, 1.0], rel=1e-3)


def test_a_reach_that_was_amended_leaves_certificates_possible(tmp_path):
    policy = town(tmp_path)
    hl.publish(policy, clock=at(30))
    further = town(tmp_path, {"notion": "w-event", "epsilon": 1.0, "w": 6, "reach": 30})
    hl.amend(further, "corrections", clock=at(30))
    hl.revise(further, "mean", 5, clock=at(30))
    found = hl.certify(further, clock=at(31))["certificate"]["promises"]
    assert [p["notion"].get("reach", 0) for p in found] == [30, 0]
    largest = [p["risk"]["largest"] for p in found]
    assert largest == pytest.approx([0.5 + 1 / 12] * 2, rel=1e-3)


def test_each_promise_is_told_in_its_own_words(tmp_path):
    policy = town(tmp_path)
    hl.publish(policy, clock=at(6))
    shorter = town(tmp_path, {"notion": "w-event", "epsilon": 1.0, "w": 4})
    hl.amend(shorter, "shorter", weaken=True, clock=at(6))
    found = hl.certify(shorter, clock=at(7))["certificate"]["promises"]
    assert ["w = 4 steps" in p["in_other_words"][0] for p in found] == [True, False]
    assert "w = 6 steps" in found[1]["in_other_words"][0]
    assert not any("reach" in words for p in found for words in p["in_other_words"])


@pytest.mark.parametrize("output", ["mean.csv", "-"])
def test_a_vintage_that_the_ledger_does_not_know_stops_it_before_anything_is_drawn(tmp_path, output):
    policy = town(tmp_path, output=output)
    hl.publish(policy, clock=at(6))
    (tmp_path / "mean.vintage-2.csv").write_text("somebody's\n")
    for act in (lambda: hl.revise(policy, "mean", 5, clock=at(6)), lambda: hl.publish(policy, clock=at(7))):
        with pytest.raises(HalflifeError, match="holds 1 vintages of mean"):
            act()
    with open_ledger(policy.ledger_url, read_only=True) as book:
        assert book.last_step("mean") == 6
        assert not book.last_step("mean@2")
    os.unlink(tmp_path / "mean.vintage-2.csv")
    hl.publish(policy, clock=at(7))


def test_an_old_certificate_agrees_after_a_later_revision(tmp_path):
    """What is published again counts at the newest step that is over, not at that of the newest entry."""
    policy = town(tmp_path, {"notion": "classical", "epsilon": 1.0, "plan": "constant"})
    hl.publish(policy, clock=at(96))
    certificate = hl.certify(policy, clock=at(97))
    (tmp_path / "c.json").write_text(json.dumps(certificate))
    hl.revise(policy, "mean", 90, clock=at(200))
    assert hl.check_certificate(tmp_path / "c.json", policy, clock=at(201)).problems == ()


def test_a_table_of_members_may_become_a_number_and_a_table_again(tmp_path):
    table = tmp_path / "members.csv"
    table.write_text("from,size\n2026-01-01,5\n2026-01-01 05:00,10\n")
    by_date, number = town(tmp_path, size="members.csv"), town(tmp_path, size=8)
    hl.publish(by_date, clock=at(6))
    hl.amend(number, "a number", clock=at(6))
    hl.publish(number, clock=at(8))
    table.write_text("from,size\n2026-01-01,5\n2026-01-01 05:00,10\n2026-01-01 06:00,8\n2026-01-01 09:00,12\n")
    again = town(tmp_path, size="members.csv")
    hl.amend(again, "a table", clock=at(8))
    hl.publish(again, clock=at(12))
    assert hl.verify(again).problems == ()


def test_a_person_who_left_is_told_of_what_is_still_to_come(tmp_path):
    """Published five hours late: when they leave, five steps about them are to come, and count in what is worst from now on."""
    policy = town(tmp_path, share=1.0, delay="5 h")
    hl.publish(policy, clock=at(12))
    early = hl.status(policy, left="2026-01-01T12:00", clock=at(12)).left
    hl.publish(policy, clock=at(17))
    late = hl.status(policy, left="2026-01-01T12:00", clock=at(17)).left
    assert (early.to_come, late.to_come) == (5, 0)
    assert early.peak == pytest.approx(late.peak) == 1.0
    assert early.falls == late.falls


def test_cost_of_a_vintage_does_not_grow_with_their_number(tmp_path):
    from halflife.ledger.vintages import count_vintages, find_vintages

    class Held:
        asked = 0

        def last_step(self, name):
            self.asked += 1
            return int(name == "s" or int(name.split("@")[1]) <= 1000)

    book = Held()
    assert count_vintages(book, "s") == 1000
    assert book.asked < 30
    assert list(find_vintages(book, "s").values()) == list(range(2, 1001))
    book = Held()
    book.last_step = lambda name: 0
    assert count_vintages(book, "s") == 1


# Found by attack ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("late", [True, False])
def test_late_steps_are_not_forgotten_from_before_they_were_published(tmp_path, late):
    """Under w-event a late step counts at its planned one. A promise that forgets would take it for older than it is."""
    policy = town(tmp_path, {"notion": "w-event", "epsilon": 1.0, "w": 1}, share=1.0)
    for hour in (10,) if late else range(1, 11):
        hl.publish(policy, clock=at(hour))
    forgets = town(tmp_path, {"notion": "exponential", "epsilon": 2.1, "half_life": 1}, share=1.0)
    if late:
        with pytest.raises(HalflifeError, match="published at step 10: it would be forgotten from too early on"):
            hl.amend(forgets, "less", weaken=True, clock=at(10))
    else:
        assert hl.amend(forgets, "less", weaken=True, clock=at(10)).risk == pytest.approx(2, rel=1e-2)


def test_the_loss_that_is_told_to_fit_stops_nothing_later(tmp_path):
    """Very little room: what rounding hides of it would be missing for ever."""
    policy = town(tmp_path, {"notion": "w-event", "epsilon": 2.0, "w": 4, "reach": 20}, share=0.9999)
    hl.publish(policy, clock=at(2))
    with pytest.raises(HalflifeError, match="--loss") as refusal:
        hl.revise(policy, "mean", 2, clock=at(2))
    fits = float(str(refusal.value).split("--loss ")[1].split(")")[0])
    hl.revise(policy, "mean", 2, loss=fits, clock=at(2))
    for hour in range(3, 9):
        hl.publish(policy, clock=at(hour))
    assert hl.verify(policy).problems == ()


def test_the_loss_that_is_told_fits_where_plans_differ_from_step_to_step(tmp_path):
    policy = town(tmp_path, {"notion": "exponential", "epsilon": 2.0, "half_life": 1})
    for hour in (1, 2, 3):
        hl.publish(policy, clock=at(hour))
    with pytest.raises(HalflifeError, match="--loss") as refusal:
        hl.revise(policy, "mean", 1, 3, clock=at(3))
    fits = float(str(refusal.value).split("--loss ")[1].split(")")[0])
    assert hl.revise(policy, "mean", 1, 3, loss=fits, clock=at(3)).recorded


@pytest.mark.parametrize("step", ["9" * 20, "9" * 5000, float("nan"), None, [3], 1.5, True, b"3"])
def test_a_step_that_is_none_is_refused_in_words(tmp_path, step):
    policy = town(tmp_path)
    hl.publish(policy, clock=at(3))
    with pytest.raises(HalflifeError):
        hl.revise(policy, "mean", step, clock=at(3))


def test_streams_have_vintages_under_their_own_names(tmp_path):
    """Outputs whose names differ by their ending alone; and one that is called like a vintage."""
    data = policy_dict(output="p/", stream={"share": 0.3}, clock={"end": "2026-01-05"})
    data["streams"].append(data["streams"][0] | {"name": "other", "output": "p.parquet"})
    write_readings(tmp_path, readings(steps=96))
    policy = Policy.from_dict(data, tmp_path)
    hl.publish(policy, clock=at(6))
    files = {hl.revise(policy, name, 6, clock=at(6)).file for name in ("mean", "other")}
    assert {os.path.basename(file) for file in files} == {"mean.vintage-2.parquet", "other.vintage-2.parquet"}
    assert hl.verify(policy).problems == ()


def test_an_output_that_is_called_like_a_vintage_goes_on_and_nothing_is_published_over_it(tmp_path):
    policy = town(tmp_path, output="mean.vintage-2.csv")
    hl.publish(policy, clock=at(6))
    hl.publish(policy, clock=at(7))
    for dry in (True, False):
        with pytest.raises(HalflifeError, match="is in the way"):
            hl.revise(policy, "mean", 6, dry_run=dry, clock=at(7))
    assert hl.verify(policy).problems == ()


def test_a_ledger_with_members_by_date_and_nothing_published_verifies(tmp_path):
    (tmp_path / "members.csv").write_text("from,size\n2026-01-01,5\n")
    policy = town(tmp_path, size="members.csv", delay="5 h")
    hl.publish(policy, clock=at(2))
    assert hl.verify(policy).problems == ()
    (tmp_path / "members.csv").write_text(f"from,size\n2026-01-01,{'9' * 5000}\n")
    with pytest.raises(HalflifeError, match="size must be a whole number"):
        town(tmp_path, size="members.csv")
