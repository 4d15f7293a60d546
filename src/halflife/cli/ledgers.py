"""`ledger`: what an administrator does for a ledger on a PostgreSQL server."""

from __future__ import annotations

from pathlib import Path

import click

from halflife.cli.group import main
from halflife.cli.terminal import say


@main.group()
def ledger() -> None:
    """Tables and roles of a ledger on a PostgreSQL server (`ledger: postgresql://…`), for whoever administers the server.

    \b
    Example:
      halflife ledger prepare policy.yaml
      halflife ledger roles policy.yaml --writer publisher --reader analyst | psql meters
    """


@ledger.command()
@click.argument("policy", type=click.Path(dir_okay=False, path_type=Path))
def prepare(policy: Path) -> None:
    """Make the ledger's tables, or bring older ones up to this version, as the schema's owner. Nothing is published.

    The first publish does the same if its user may create a schema.

    \b
    Example:
      halflife ledger prepare policy.yaml
    """
    from halflife.ledger.roles import prepare_ledger
    from halflife.policy import Policy

    say(f"The tables are ready: {prepare_ledger(Policy.load(policy).ledger_url)}")


@ledger.command()
@click.argument("policy", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--writer", metavar="ROLE", help="The role that publishes: it adds, and can change nothing that was published."
)
@click.option("--reader", metavar="ROLE", help="The role that reads all but noise which is used again.")
def roles(policy: Path, writer: str | None, reader: str | None) -> None:
    """Print the SQL that gives roles their rights on the ledger's tables; nothing is changed, and no server is asked.

    Make the roles (CREATE ROLE … LOGIN) and the tables (`halflife ledger prepare`) first, and run it as the schema's owner.

    \b
    Example:
      halflife ledger roles policy.yaml --writer publisher --reader analyst
    """
    from halflife.ledger.roles import grant_roles
    from halflife.policy import Policy

    say(grant_roles(Policy.load(policy).ledger_url, writer, reader).rstrip())
