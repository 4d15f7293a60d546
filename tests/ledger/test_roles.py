"""Roles of a ledger on a server, tried by connecting as them: who publishes changes nothing, who reads sees no kept noise."""

import pytest
from click.testing import CliRunner

import halflife as hl
from halflife import InvalidInput, LedgerError
from halflife.cli import main
from halflife.ledger import open_ledger
from halflife.ledger.roles import grant_roles, prepare_ledger
from publisher import test_secrets_at_rest as secrets
from publisher.town import kept_noise, make

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")


@pytest.fixture
def roles(postgresql, schema):
    """The roles of a publisher and an analyst, with odd names; they are gone afterwards."""
    names = ('pub "l" isher', "Analyst")
    quoted = ['"' + name.replace('"', '""') + '"' for name in names]
    postgresql.execute(*(f"CREATE ROLE {name} LOGIN" for name in quoted))
    yield names
    postgresql.execute(*(f"DROP OWNED BY {name}" for name in quoted), *(f"DROP ROLE {name}" for name in quoted))


@pytest.fixture
def town(tmp_path, postgresql, schema, roles, monkeypatch):
    """A policy that keeps noise, published as the one role; `as_role` gives it with another user's address."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    def as_role(name):
        return secrets.town(
            tmp_path / "town", ledger=postgresql.url(schema, user=name.replace('"', "%22").replace(" ", "%20"))
        )

    owner = as_role("postgres")
    done = CliRunner().invoke(main, ["ledger", "prepare", str(owner.path("policy.yaml"))])
    assert done.exit_code == 0, done.output
    asked = ["ledger", "roles", str(owner.path("policy.yaml")), "--writer", roles[0], "--reader", roles[1]]
    said = CliRunner().invoke(main, asked)
    assert said.exit_code == 0, said.output
    postgresql.execute(said.output)
    return as_role


def test_the_writer_publishes_and_the_reader_reads(town, roles, postgresql, schema):
    policy = town(roles[0])
    hl.publish(policy, clock=secrets.at(30))
    hl.publish(policy, clock=secrets.at(40))
    assert len(kept_noise(policy)) == secrets.DAY
    assert hl.verify(policy).good
    reader = town(roles[1])
    with open_ledger(reader.ledger_url, read_only=True) as book:
        assert book.last_step("mean") == 40
        assert "account" in book.public_states()
        assert all("sealed" not in text for text in book.public_states().values())
        with pytest.raises(LedgerError, match="this user may not see noise that is used again"):
            book.states()
    assert len(hl.read_published(reader.path("mean.csv"), policy=reader).frame) == 40
    with pytest.raises(LedgerError, match="this user may not see noise that is used again"):
        hl.status(reader)
    with pytest.raises(LedgerError, match="no right to do that"):
        hl.publish(reader, clock=secrets.at(41))


@pytest.mark.parametrize(
    ("who", "statement"),
    [
        (0, "DELETE FROM {s}.entry"),
        (0, "UPDATE {s}.entry SET spread = 1"),
        (0, "UPDATE {s}.release SET loss = 0"),
        (0, "DELETE FROM {s}.batch"),
        (0, "UPDATE {s}.event SET body = ''"),
        (0, "TRUNCATE {s}.entry CASCADE"),
        (0, "DELETE FROM {s}.migration"),
        (0, "ALTER TABLE {s}.entry DROP COLUMN chain"),
        (0, "CREATE TABLE {s}.more (x int)"),
        (1, "SELECT * FROM {s}.kept"),
        (1, "SELECT * FROM {s}.fence"),
        (1, "UPDATE {s}.lease SET until = now()"),
        (1, "INSERT INTO {s}.state VALUES ('account', '')"),
        (1, "COPY {s}.kept TO STDOUT"),
    ],
)
def test_what_a_role_may_not(town, roles, postgresql, schema, who, statement):
    with postgresql.connect(user=roles[who]) as db, pytest.raises(psycopg.errors.InsufficientPrivilege):
        db.execute(statement.format(s=schema))


@pytest.mark.parametrize("in_transaction", [False, True])
def test_a_session_that_the_writer_may_not_end_keeps_it_away_only_while_it_writes(
    town, roles, postgresql, schema, in_transaction
):
    """The lease of the owner has run out, and a publisher cannot end a superuser's session."""
    owner, writer = town("postgres"), town(roles[0])
    with open_ledger(owner.ledger_url) as stopped, open_ledger(writer.ledger_url) as book, stopped.hold():
        stopped._lease._renewal.end()
        postgresql.execute(f"UPDATE {schema}.lease SET until = '-infinity'")
        if in_transaction:
            with stopped._db.transaction():
                stopped._lease.confirm(stopped._db)
                with pytest.raises(LedgerError, match="held by process"):
                    book.hold(0).__enter__()
        with book.hold(0), pytest.raises(LedgerError, match="another one has taken over"), stopped.showing():
            pass


def test_roles_are_for_servers(tmp_path):
    policy = make(tmp_path)
    for use in (prepare_ledger, lambda url: grant_roles(url, "a", "b")):
        with pytest.raises(InvalidInput, match="is a file, which belongs to its owner alone"):
            use(policy.ledger_url)
    for names, said in (
        ((None, None), "name a role"),
        (("a", "a"), "name two roles"),
        (("", None), "from 1 to 63 bytes"),
    ):
        with pytest.raises(InvalidInput, match=said):
            grant_roles("postgresql://db/town", *names)
