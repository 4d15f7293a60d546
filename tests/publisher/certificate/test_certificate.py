"""Certificates: every number by another road, every changed byte noticed, of every kind of promise."""

from __future__ import annotations

import base64
import codecs
import contextlib
import copy
import datetime
import json
import random
import string
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa

import halflife as hl
from golden.body import LEDGERS, copy_golden
from golden.variants import clock_at
from halflife.cli import main
from halflife.ledger import open_ledger
from halflife.publisher.certificate import is_certificate
from halflife.publisher.certificate.schema import certificate_schema
from publisher.town import STEPS, make, policy_dict, read_csv, write_readings

SCHEMA = Path(__file__).parents[3] / "docs" / "certificate.schema.json"
NOW = 1_767_225_600.0 + 48 * 3600
DISCOUNTED = {"notion": "exponential", "epsilon": 1.0, "alpha": 0.5}


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """A private key and its public half, with and without a passphrase."""
    folder = tmp_path_factory.mktemp("keys")
    private = ed25519.Ed25519PrivateKey.generate()
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
    locked = serialization.BestAvailableEncryption(b"open sesame")
    (folder / "key.pem").write_bytes(private.private_bytes(*form, serialization.NoEncryption()))
    (folder / "locked.pem").write_bytes(private.private_bytes(*form, locked))
    public = private.public_key().public_bytes(form[0], serialization.PublicFormat.SubjectPublicKeyInfo)
    (folder / "public.pem").write_bytes(public)
    other = ed25519.Ed25519PrivateKey.generate().private_bytes(*form, serialization.NoEncryption())
    (folder / "other.pem").write_bytes(other)
    third = rsa.generate_private_key(65537, 2048).private_bytes(*form, serialization.NoEncryption())
    (folder / "rsa.pem").write_bytes(third)
    return folder


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    folder = tmp_path_factory.mktemp("town")
    write_readings(folder)
    return publish_discounted(folder)


def publish_discounted(folder):
    data = policy_dict(clock={"late": "as-planned"}) | {"promise": DISCOUNTED}
    (folder / "policy.yaml").write_text(json.dumps(data))
    policy = hl.Policy.load(folder / "policy.yaml")
    hl.publish(policy, clock=lambda: NOW)
    return policy


def write(certificate, path):
    path.write_text(json.dumps(certificate, indent=2, ensure_ascii=False))
    return path


def content_of(policy, *period):
    return hl.certify(policy, *period, clock=lambda: NOW)["certificate"]


def releases_of(policy):
    with open_ledger(policy.ledger_url, read_only=True) as book:
        return [r for entry in book.entries() for r in entry.releases]


# What it says -----------------------------------------------------------------------------------------------------------


def test_risks_are_those_of_every_step_of_the_period(town):
    """Exponential discounting by hand: R_t = Σ 2^−(t − k) ρ_k, at the end of the period, and the largest within it."""
    losses = [r.loss for r in releases_of(town)]
    risks = [sum(0.5 ** (t - k) * x for k, x in enumerate(losses[:t], 1)) for t in range(1, STEPS + 1)]
    found = content_of(town, "2026-01-01T05:00", "2026-01-01T17:00")
    assert (found["period"]["first_step"], found["period"]["last_step"]) == (6, 17)
    risk = found["promises"][0]["risk"]
    assert risk["risk"] == pytest.approx(risks[16], rel=1e-9)
    assert risk["largest"] == pytest.approx(max(risks[4:17]), rel=1e-9)
    assert (risk["limit"], risk["step"]) == (1.0, 17)


def test_the_largest_risk_may_lie_in_the_middle_of_a_period(tmp_path):
    """A second stream ends at noon: the risk falls from 1 towards a half."""
    write_readings(tmp_path)
    data = policy_dict(clock={"late": "as-planned"}) | {"promise": DISCOUNTED}
    data["streams"].append(data["streams"][0] | {"name": "morning", "output": "morning.csv", "end": "2026-01-01T12:00"})
    hl.publish(policy := hl.Policy.from_dict(data, tmp_path), clock=lambda: NOW)
    risk = content_of(policy)["promises"][0]["risk"]
    assert (risk["largest"], risk["risk"]) == (pytest.approx(1.0, rel=1e-6), pytest.approx(0.5, rel=1e-2))
    assert (risk["largest_used"], risk["used"]) == (pytest.approx(1.0, rel=1e-6), pytest.approx(0.5, rel=1e-2))


def test_risk_and_peak_are_told_apart(town, monkeypatch):
    """A process known up to a last lag has a peak above its risk; an account that says so stands for it."""

    class Rising(hl.Accountant):
        def exposure(self, step=None):
            return hl.Exposure(0.1, 0.3, 1.0)

    monkeypatch.setattr("halflife.publisher.certificate.content.Accountant", Rising)
    risk = content_of(town)["promises"][0]["risk"]
    assert (risk["risk"], risk["peak"], risk["largest"], risk["largest_used"]) == (0.1, 0.3, 0.3, 0.3)


def test_classically_all_losses_up_to_the_end_of_the_period_count(town):
    losses = [r.loss for r in releases_of(town)]
    found = {x["within"]: x["loss"] for x in content_of(town, "2026-01-01T05:00", "2026-01-01T17:00")["classically"]}
    assert found["all of it (classically)"] == pytest.approx(sum(losses[:17]), rel=1e-6)
    assert found["any day"] == pytest.approx(sum(losses[:17]), rel=1e-6)


def at(hours):
    return lambda: 1_767_225_600.0 + 3600 * hours


def make_groups(folder, **changes):
    """Two groups of different sizes, whose means have bands of different widths."""
    write_readings(folder)
    (folder / "homes.csv").write_text("home,part\n" + "".join(f"h{i},{'nns'[i % 3]}\n" for i in range(5)))
    groups = {"table": {"file": "homes.csv", "person": "home", "group": "part"}}
    data = policy_dict(stream={"groups": groups}) | {"promise": DISCOUNTED} | changes
    return hl.Policy.from_dict(data, folder)


def test_what_was_published_is_what_the_output_and_the_ledger_hold(tmp_path):
    """After a pause the oldest late steps find no room and are passed over: there is a gap."""
    policy = make_groups(tmp_path)
    for hours in (3, 7):
        hl.publish(policy, clock=at(hours))
    rows = read_csv(tmp_path / "mean.csv")
    steps, bands = sorted({int(row["step"]) for row in rows}), [float(row["error_band"]) for row in rows]
    content = hl.certify(policy, clock=at(8))["certificate"]
    (part,) = content["published"]
    assert (part["steps"], part["first_step"], part["last_step"]) == (len(steps), steps[0], steps[-1])
    assert part["not_published"] == len(set(range(steps[0], steps[-1])) - set(steps)) > 0
    assert part["numbers"] == 2
    assert (part["error_band"]["least"], part["error_band"]["largest"]) == (min(bands), max(bands))
    assert min(bands) < 0.9 * max(bands)
    for key, text in (("from", rows[0]["start"]), ("to", rows[-1]["end"])):
        assert datetime.datetime.fromisoformat(part[key]) == datetime.datetime.fromisoformat(text)
    with open_ledger(policy.ledger_url, read_only=True) as book:
        *_, newest = book.batches()
        count = len(list(book.entries()))
    assert (content["ledger"]["entries"], content["ledger"]["head"]) == (count, hl.verify(policy).head)
    assert datetime.datetime.fromisoformat(content["ledger"]["committed"]).timestamp() == newest.at_us / 1e6
    account, risk = hl.Accountant.replay(policy.notion, releases_of(policy)), content["promises"][0]["risk"]
    assert risk["step"] == 7
    assert risk["risk"] == pytest.approx(account.risk(7))
    assert risk["peak"] == pytest.approx(account.peak(7))
    assert risk["used"] == pytest.approx(account.used(7))


def test_a_certificate_is_told_of_what_came_later_at_the_same_step_of_the_account(tmp_path):
    """A second stream waits for half an hour: its fifth step is charged at the fifth too, after the certificate was made."""
    write_readings(tmp_path)
    data = policy_dict(clock={"late": "as-planned"}) | {"promise": DISCOUNTED}
    data["streams"].append(data["streams"][0] | {"name": "slow", "output": "slow.csv", "delay": "30 min"})
    policy = hl.Policy.from_dict(data, tmp_path)
    hl.publish(policy, clock=at(5.1))
    certificate = hl.certify(policy, clock=at(5.1))
    assert [part["last_step"] for part in certificate["certificate"]["published"]] == [5, 4]
    hl.publish(policy, clock=at(5.6))
    assert max(r.step for r in releases_of(policy)) == 5
    (problem,) = hl.check_certificate(write(certificate, tmp_path / "c.json"), policy).problems
    assert "more counts at step 5 of the period" in problem
    assert content_of(policy)["published"][1]["last_step"] == 5


@pytest.mark.parametrize(
    ("period", "steps"),
    [
        (("2026-01-01", "2026-01-02"), (1, 24)),
        (("2026-01-01T05:00", "2026-01-01T06:00"), (6, 6)),
        (("2026-01-01T05:01", "2026-01-01T06:59"), (6, 6)),
        (("2026-01-01T04:59", "2026-01-01T07:00+00:00"), (5, 7)),
        ((), (1, 24)),
        (("2025-06-01", None), (1, 24)),
    ],
)
def test_a_step_is_of_the_period_that_it_ends_in(town, period, steps):
    """The step from 5 to 6 o'clock ends at 6: what ends at the beginning of a period was published before it."""
    (part,) = content_of(town, *period)["published"]
    assert (part["first_step"], part["last_step"], part["steps"]) == (*steps, steps[1] - steps[0] + 1)


def test_a_period_in_which_nothing_was_published_still_has_a_risk(town):
    found = content_of(town, "2026-01-02T05:00", "2026-01-02T10:00")
    assert found["published"][0]["steps"] == 0
    assert "sha256" not in found["published"][0]
    end = content_of(town)["promises"][0]["risk"]["risk"]
    assert found["promises"][0]["risk"]["risk"] == pytest.approx(end / 2**10, rel=1e-6)
    assert found["promises"][0]["risk"]["largest"] == pytest.approx(end / 2**5, rel=1e-6)


def test_what_is_not_over_or_empty_is_refused(town):
    with pytest.raises(hl.InvalidInput, match="still to come"):
        content_of(town, None, "2026-01-04")
    with pytest.raises(hl.InvalidInput, match="no step of 1 h ends after"):
        content_of(town, "2026-01-01T05:10", "2026-01-01T05:50")
    with pytest.raises(hl.InvalidInput, match="from: 'yesterday' is no date"):
        content_of(town, "yesterday")


def test_what_does_not_verify_or_is_empty_is_not_certified(town, tmp_path):
    write_readings(tmp_path)
    policy = make(tmp_path)
    with pytest.raises(hl.LedgerError, match="publish first"):
        hl.certify(policy)
    hl.publish(policy)
    output = tmp_path / "mean.csv"
    output.write_text(output.read_text().rstrip() + "1\n")
    with pytest.raises(hl.LedgerError, match=r"not certified:\n.*mean.csv"):
        hl.certify(policy)


# Every kind of promise --------------------------------------------------------------------------------------------------


def test_the_schema_is_the_published_one():
    assert json.loads(SCHEMA.read_text()) == certificate_schema()
    jsonschema.Draft202012Validator.check_schema(certificate_schema())


@pytest.mark.parametrize("golden", LEDGERS, ids=lambda path: path.name)
def test_every_kind_of_ledger_is_certified_and_checked(golden, tmp_path):
    """Golden ledgers: all promises, statistics, groups and formats. Later steps leave a certificate as true as it was."""
    folder = tmp_path / "town"
    copy_golden(golden, folder)
    policy = hl.Policy.load(folder / "policy.yaml")
    data = json.loads((golden / "policy.yaml").read_text())
    certificate = hl.certify(policy, clock=clock_at(data, 100))
    jsonschema.validate(certificate, certificate_schema())
    content = certificate["certificate"]
    assert next(iter(content)) == "not_protected"
    assert content["promises"][0]["risk"]["risk"] <= content["promises"][0]["risk"]["largest"]
    assert 0 < content["promises"][0]["risk"]["largest_used"] <= 1 + 1e-9
    hl.publish(policy, clock=clock_at(data, 9))
    verdict = hl.check_certificate(write(certificate, tmp_path / "c.json"), policy, policy.outputs)
    assert verdict.problems == ()
    assert len(verdict.checked) == 1 + len(policy.outputs)


# Changed certificates, ledgers and outputs ------------------------------------------------------------------------------


def leaves(value, where=()):
    """Every place of a JSON value that holds no other values."""
    if isinstance(value, dict | list) and value:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, part in items:
            yield from leaves(part, (*where, key))
    else:
        yield where


def change(value):
    """Another value of the same kind, a number by a tenth."""
    if isinstance(value, bool | None):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * 1.1 + 1e-3
    return [*value, "x"] if isinstance(value, list) else f"{value} " if isinstance(value, str) else {"x": 1}


def test_whatever_it_says_is_compared_with_the_ledger(town, tmp_path):
    """Each single fact changed by itself; when it was made is the signer's word alone, and periods may say other times."""
    certificate = hl.certify(town, "2026-01-01T05:00", "2026-01-01T17:00", clock=lambda: NOW)
    for where in leaves(certificate["certificate"]):
        if where[0] in ("made", "software"):
            continue
        changed = copy.deepcopy(certificate)
        part = changed["certificate"]
        for key in where[:-1]:
            part = part[key]
        part[where[-1]] = change(part[where[-1]])
        try:
            assert hl.check_certificate(write(changed, tmp_path / "c.json"), town).problems, where
        except hl.InvalidInput:
            assert where[0] == "format"


def test_every_changed_byte_of_a_signed_certificate_is_noticed(town, keys, tmp_path):
    certificate = hl.certify(town, key=keys / "key.pem", clock=lambda: NOW)
    path = write(certificate, tmp_path / "c.json")
    text, draw = path.read_bytes(), random.Random(1)
    assert hl.check_certificate(path, public_key=keys / "public.pem").good
    for place in draw.sample(range(len(text)), 400):
        byte = bytes([draw.choice([b for b in range(33, 127) if b != text[place]])])
        changed = text[:place] + byte + text[place + 1 :]
        if text[place : place + 1].isspace() or says_the_same(changed, certificate):
            continue
        path.write_bytes(changed)
        with contextlib.suppress(hl.InvalidInput):
            assert not hl.check_certificate(path, public_key=keys / "public.pem").good, place


def says_the_same(text, certificate):
    """Whether a changed byte changed nothing: 1e0 is 1.0."""
    try:
        return json.loads(text) == certificate
    except ValueError:
        return False


@pytest.mark.parametrize("name", ["public_key", "value"])
def test_a_signature_is_written_in_one_way(name, town, keys, tmp_path):
    """The last character of base64 has bits that stand for nothing."""
    certificate = hl.certify(town, key=keys / "key.pem", clock=lambda: NOW)
    text = certificate["signature"][name]
    alphabet = string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/"
    end = text.rstrip("=")[-1]
    other = text.replace(f"{end}=", f"{alphabet[alphabet.index(end) ^ 1]}=", 1)
    assert base64.b64decode(other) == base64.b64decode(text)
    certificate["signature"][name] = other
    assert not hl.check_certificate(write(certificate, tmp_path / "c.json")).good


def without_points(value):
    """JSON data as JavaScript writes it: 1 for 1.0."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        found = {key: without_points(part) for key, part in items}
        return found if isinstance(value, dict) else list(found.values())
    return int(value) if isinstance(value, float) and value == int(value) else value


def test_a_signature_holds_however_the_file_is_printed(town, keys, tmp_path):
    certificate = hl.certify(town, key=keys / "key.pem", clock=lambda: NOW)
    path = tmp_path / "c.json"
    path.write_text(json.dumps(certificate, sort_keys=True))
    assert hl.check_certificate(path).good
    path.write_bytes(codecs.BOM_UTF8 + json.dumps(without_points(certificate)).encode())
    assert is_certificate(path)
    assert hl.check_certificate(path, town).good
    other = hl.certify(town, "2026-01-01T03:00", key=keys / "key.pem", clock=lambda: NOW)
    swapped = {"certificate": certificate["certificate"], "signature": other["signature"]}
    assert not hl.check_certificate(write(swapped, path)).good


def test_whose_key_it_is_must_be_said(town, keys, tmp_path):
    path = write(hl.certify(town, key=keys / "other.pem", clock=lambda: NOW), tmp_path / "c.json")
    (seen,) = hl.check_certificate(path).checked
    assert "only the signer can tell you" in seen
    (problem,) = hl.check_certificate(path, public_key=keys / "public.pem").problems
    assert "not by SHA256:" in problem
    unsigned = write(hl.certify(town, clock=lambda: NOW), tmp_path / "u.json")
    (problem,) = hl.check_certificate(unsigned, public_key=keys / "public.pem").problems
    assert "it is not signed" in problem
    with pytest.raises(hl.InvalidInput, match="nothing to compare it with"):
        hl.check_certificate(unsigned)


def test_keys_that_cannot_be_used_are_refused_without_showing_them(town, keys, tmp_path, monkeypatch):
    refused = {"rsa.pem": "another kind", "public.pem": "cannot be read as a private key", "no.pem": "cannot be read"}
    for name, words in refused.items():
        with pytest.raises(hl.InvalidInput, match=words):
            hl.certify(town, key=keys / name)
    with pytest.raises(hl.InvalidInput, match="HALFLIFE_KEY_PASSPHRASE"):
        hl.certify(town, key=keys / "locked.pem")
    monkeypatch.setenv("HALFLIFE_KEY_PASSPHRASE", "open sesame")
    path = write(hl.certify(town, key=keys / "locked.pem", clock=lambda: NOW), tmp_path / "c.json")
    assert hl.check_certificate(path, public_key=keys / "public.pem").good
    monkeypatch.setenv("HALFLIFE_KEY_PASSPHRASE", "open says me")
    with pytest.raises(hl.InvalidInput, match="its passphrase is wrong") as caught:
        hl.certify(town, key=keys / "locked.pem")
    assert "says me" not in str(caught.value)


@pytest.mark.parametrize("output", ["mean.csv", "mean.jsonl", "mean.parquet", "parts/"])
def test_outputs_are_compared_without_a_ledger(output, tmp_path):
    write_readings(tmp_path)
    policy = make(tmp_path, output=output)
    hl.publish(policy)
    path = write(hl.certify(policy, "2026-01-01T05:00", "2026-01-01T17:00"), tmp_path / "c.json")
    for ending in ("", "-shm", "-wal", ".lock", ".shown"):
        (tmp_path / f"town.ledger{ending}").unlink(missing_ok=True)
    (seen,) = hl.check_certificate(path, outputs={"mean": str(tmp_path / output)}).checked
    assert "steps 6 to 17" in seen
    with pytest.raises(hl.InvalidInput, match="unknown stream"):
        hl.check_certificate(path, outputs={"median": str(tmp_path / output)})


def test_rows_under_other_names_are_others(tmp_path):
    """Two groups whose names were swapped hold the same numbers."""
    write_readings(tmp_path, [(f"h{i}", f"2026-01-01T0{k}:30:00", 1.0) for i in range(5) for k in range(3)])
    (tmp_path / "homes.csv").write_text("home,part\n" + "".join(f"h{i},{'ns'[i % 2]}\n" for i in range(5)))
    groups = {"table": {"file": "homes.csv", "person": "home", "group": "part"}}
    policy = make(tmp_path, stream={"groups": groups})
    hl.publish(policy)
    path = write(hl.certify(policy), tmp_path / "c.json")
    output = tmp_path / "mean.csv"
    assert hl.check_certificate(path, outputs={"mean": str(output)}).good
    output.write_text(output.read_text().replace(",n,", ",x,").replace(",s,", ",n,").replace(",x,", ",s,"))
    assert {row["group"] for row in read_csv(output)} == {"n", "s"}
    (problem,) = hl.check_certificate(path, outputs={"mean": str(output)}).problems
    assert "not those that the certificate is about" in problem


def test_another_ledger_is_noticed(town, tmp_path):
    write_readings(tmp_path)
    policy = publish_discounted(tmp_path)
    (problem,) = hl.check_certificate(write(hl.certify(town, clock=lambda: NOW), tmp_path / "c.json"), policy).problems
    assert "has no batch of the hash that it names" in problem


def test_a_period_of_which_the_ledger_holds_more_by_now_is_noticed(tmp_path):
    """Three steps are out when a day is certified, its other 21 are published later, as planned: 4.8e−7 of risk, and really 1."""
    write_readings(tmp_path)
    data = policy_dict(clock={"late": "as-planned"}) | {"promise": DISCOUNTED}
    policy = hl.Policy.from_dict(data, tmp_path)
    hl.publish(policy, clock=lambda: NOW - 45 * 3600)
    path = write(hl.certify(policy, "2026-01-01", "2026-01-02", clock=lambda: NOW), tmp_path / "c.json")
    assert hl.check_certificate(path, policy).good
    assert hl.check_certificate(path, policy).content["promises"][0]["risk"]["risk"] < 1e-6
    hl.publish(policy, clock=lambda: NOW)
    assert content_of(policy, "2026-01-01", "2026-01-02")["promises"][0]["risk"]["risk"] > 0.9
    (problem,) = hl.check_certificate(path, policy).problems
    assert "more counts at step 4 of the period, up to step 24" in problem


def test_a_period_that_is_not_over_is_noticed(town, tmp_path):
    """In a hundred years all is forgotten, if nothing more is published: nobody can certify that now."""
    later = lambda: NOW + 100 * 365 * 86400.0  # noqa: E731
    certificate = hl.certify(town, "2125-01-01", "2125-01-02", clock=later)
    assert certificate["certificate"]["promises"][0]["risk"]["largest"] < 1e-30
    path = write(certificate, tmp_path / "c.json")
    assert hl.check_certificate(path, town, clock=later).good
    (problem,) = hl.check_certificate(path, town).problems
    assert "is not over" in problem


@pytest.mark.parametrize(
    "spoil", [{"first_step": 0}, {"last_step": 10**9}, {"steps": 25}, {"first_step": -5, "last_step": 99}]
)
def test_an_output_must_hold_the_steps_that_are_named(town, spoil, tmp_path):
    """Rows that a longer stretch would hold too have the right digest, and are not all of it."""
    certificate = hl.certify(town, clock=lambda: NOW)
    certificate["certificate"]["published"][0].update(spoil)
    path = write(certificate, tmp_path / "c.json")
    (problem,) = hl.check_certificate(path, outputs={"mean": str(town.path("mean.csv"))}).problems
    assert "are not those that the certificate is about" in problem


def test_a_period_before_all_steps_is_said_to_be(town, tmp_path):
    certificate = hl.certify(town, clock=lambda: NOW)
    certificate["certificate"]["period"]["to"] = "2025-01-01T00:00:00+00:00"
    (problem,) = hl.check_certificate(write(certificate, tmp_path / "c.json"), town).problems
    assert "its period cannot be read" in problem


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"certificate": {"format": {"name": "halflife.certificate", "version": 2}}}', "newer halflife"),
        ('{"certificate": {}, "certificate": {}}', "stands twice"),
        ('{"certificate": {"a": NaN}}', "NaN is no number that a certificate holds"),
        ('{"certificate": ' + "[" * 100_000, "not JSON"),
        ('{"certificate": 1}', "no certificate"),
        ('{"certificate": {"format": {"name": "halflife.certificate"}}, "more": 1}', "no certificate"),
        ('{"certificate": {"a": ' + "9" * 5_000 + "}}", "no number that a certificate holds"),
        ('{"certificate": {"a": 1e999}}', "not as halflife wrote it"),
        ('{"certificate": {"a": "\\ud800"}}', "not as halflife wrote it"),
    ],
)  # fmt: skip
def test_hostile_files_are_refused(text, words, tmp_path):
    path = tmp_path / "c.json"
    path.write_text(text)
    with pytest.raises(hl.InvalidInput, match=words) as caught:
        hl.check_certificate(path)
    assert str(path) in str(caught.value) or "newer halflife" in words


def set_in(content, place, value):
    *above, last = place
    for key in above:
        content = content[key]
    content[last] = value


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("population", "size"), 5 + 1e-9),
        (("population", "size"), True),
        (("more",), None),
        (("period", "from"), "0001-01-01T00:00:00+14:00"),
        (("period", "to"), "9999-12-31T23:59:59-14:00"),
        (("published", 0, "stream"), ["mean"]),
        (("published", 0), "mean"),
    ],
)
def test_what_no_certificate_says_is_a_problem_and_no_crash(town, place, value, tmp_path):
    certificate = hl.certify(town, clock=lambda: NOW)
    set_in(certificate["certificate"], place, value)
    path = write(certificate, tmp_path / "c.json")
    assert hl.check_certificate(path, town).problems
    if place[0] == "published":
        assert hl.check_certificate(path, outputs={"mean": str(town.path("mean.csv"))}).problems


@pytest.mark.parametrize("missing", ["ledger", "period", "published", "promises"])
def test_what_lacks_a_part_is_said_to(town, missing, tmp_path):
    certificate = hl.certify(town, clock=lambda: NOW)
    del certificate["certificate"][missing]
    path = write(certificate, tmp_path / "c.json")
    assert hl.check_certificate(path, town, {"mean": str(town.path("mean.csv"))}).problems


# By command -------------------------------------------------------------------------------------------------------------


def run(*arguments):
    return CliRunner().invoke(main, arguments)


def test_the_commands(town, keys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    policy = str(town.path("policy.yaml"))
    made = run("certificate", policy, "--to", "2026-01-01T17:00", "--key", str(keys / "key.pem"), "--page", "page.html")
    assert (made.exit_code, "17 steps published in the period" in made.output) == (0, True)
    page = Path("page.html").read_text()
    assert page.index("What is not protected") < page.index("The promise: exponential") < page.index("Signature")
    assert "plotly" not in page.lower()
    good = run("verify", "certificate.json", "--policy", policy, "--public-key", str(keys / "public.pem"))
    assert (good.exit_code, good.output.count("ok  ")) == (0, 2)
    told = json.loads(run("verify", "certificate.json", "--json").output)
    assert (told["good"], told["problems"]) == (True, [])
    Path("certificate.json").write_text(Path("certificate.json").read_text().replace('"size": 5', '"size": 6'))
    bad = run("verify", "certificate.json", "--policy", policy)
    assert bad.exit_code == 1
    assert "population.size: it says 6, and the ledger 5" in bad.output
    assert run("verify", policy, "--public-key", str(keys / "public.pem")).exit_code == 2
    lost = run("verify", "lost.json", "--policy", policy)
    assert (lost.exit_code, "lost.json is not there" in lost.output) == (2, True)


def test_a_policy_or_a_ledger_is_not_written_over(town, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    policy, ledger = town.path("policy.yaml"), town.path("town.ledger")
    before = (policy.read_bytes(), ledger.read_bytes())
    for option in ("--out", "--page"):
        for path in (policy, ledger):
            assert run("certificate", str(policy), option, str(path)).exit_code == 2
    assert (policy.read_bytes(), ledger.read_bytes()) == before
