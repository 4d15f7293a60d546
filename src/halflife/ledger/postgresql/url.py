"""Addresses of ledgers on a PostgreSQL server: `postgresql://HOST/DATABASE?schema=NAME`, never with a password.

    schema  the schema that is the ledger's alone; `halflife` if it is not given
    folder  where this machine keeps what belongs to no database: the guard of what was shown, the operator's counts, files that
            are removed again. Publishers that share outputs share it. SCHEMA.postgresql beside the policy if it is not given
    lease   seconds after which another publisher takes over from one that does not answer; 30 if it is not given

All other keys are libpq's own. A password comes from the environment (PGPASSWORD), ~/.pgpass or a service file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, urlencode

from halflife.errors import InvalidInput
from halflife.ledger.base import OPERATOR_FILES
from halflife.libpq import name_place, read_address

SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")
SHORTEST, LONGEST, USUAL = 1.0, 3600.0, 30.0
"""Seconds that a lease may last, and does if nothing else is said."""
OWN = ("schema", "folder", "lease")
ENDINGS = (".shown", ".shown.new", ".lock", ".plans", ".plans.new", *OPERATOR_FILES)
"""What stands behind the names of this machine's files for a ledger."""


class Server(NamedTuple):
    """Where a ledger is on a server: what libpq is told, the schema, the folder of this machine, and the lease in seconds."""

    options: Mapping[str, str]
    schema: str
    folder: Path
    lease: float

    @property
    def name(self) -> str:
        """What messages call the ledger: an address that opens it, without the user, the folder and what else libpq is told."""
        service = {key: self.options[key] for key in ("service",) if key in self.options}
        return (
            f"postgresql://{name_place(self.options)}?{urlencode({**service, 'schema': self.schema}, quote_via=quote)}"
        )

    @property
    def beside(self) -> Path:
        """The path that the names of this machine's files for the ledger begin with."""
        return self.folder / "ledger"

    def url(self) -> str:
        """Return the address with all that it says: `read_server` reads it back."""
        told = {key: value for key, value in self.options.items() if key not in ("user", "host", "port", "dbname")}
        lease = {} if self.lease == USUAL else {"lease": f"{self.lease:g}"}
        own = {"schema": self.schema, **lease, "folder": str(self.folder)}
        user = f"{quote(self.options['user'], safe='')}@" if "user" in self.options else ""
        return f"postgresql://{user}{name_place(self.options)}?{urlencode({**told, **own}, quote_via=quote, safe='/')}"


def read_server(url: str) -> Server:
    """Return what an address says; refuse a password, and keys that nobody knows. What is refused is not quoted.

    >>> read_server("postgresql://db:5433/town?schema=meters&sslmode=verify-full").name
    'postgresql://db:5433/town?schema=meters'
    >>> read_server("postgresql://me:secret@db/town")
    Traceback (most recent call last):
    ...
    halflife.errors.InvalidInput: a policy is public, and this address holds a password: change that password, ...
    """
    told, given = read_address(url, OWN, "a ledger", "postgresql://HOST/DATABASE?schema=NAME")
    schema = given.get("schema", "halflife")
    if not SCHEMA.fullmatch(schema) or schema.startswith("pg_") or schema in ("public", "information_schema"):
        raise InvalidInput(
            "a ledger has a schema of its own, and its name is of small letters, digits and _, begins with a letter, and is not "
            "public, information_schema or pg_…: ?schema=NAME"
        )
    folder = Path(given.get("folder", f"{schema}.postgresql"))
    return Server(told, schema, folder, _read_lease(given.get("lease")))


def _read_lease(text: str | None) -> float:
    if text is None:
        return USUAL
    if not re.fullmatch(r"\d{1,4}(\.\d{1,3})?", text) or not SHORTEST <= float(text) <= LONGEST:
        raise InvalidInput(f"lease is a number of seconds from {SHORTEST:g} to {LONGEST:g}, such as {USUAL:g}")
    return float(text)
