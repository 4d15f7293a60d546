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
from urllib.parse import parse_qsl, quote, unquote, urlencode

from halflife.errors import InvalidInput, unknown

KINDS = ("postgresql", "postgres")
SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")
SHORTEST, LONGEST, USUAL = 1.0, 3600.0, 30.0
"""Seconds that a lease may last, and does if nothing else is said."""
OWN = ("schema", "folder", "lease")
PASSED_ON = (
    "service", "host", "hostaddr", "port", "user", "dbname", "passfile", "connect_timeout", "target_session_attrs", "sslmode",
    "sslrootcert", "sslcert", "sslkey", "sslcrl", "sslnegotiation", "ssl_min_protocol_version", "channel_binding", "gssencmode",
    "krbsrvname", "require_auth",
)  # fmt: skip
"""What libpq is told; it knows more, such as a password, or options that would change what a session does."""
OPERATOR = ".operator.jsonl"
ENDINGS = (".shown", ".shown.new", ".lock", OPERATOR)
"""What stands behind the names of this machine's files for a ledger."""
NO_PASSWORD = (
    "a policy is public, and this address holds a password: change that password, as it may have been seen, and give it by the "
    "environment (PGPASSWORD), ~/.pgpass, or a service file (?service=NAME)"
)


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
        return f"postgresql://{self._where()}?{urlencode({**service, 'schema': self.schema}, quote_via=quote)}"

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
        return f"postgresql://{user}{self._where()}?{urlencode({**told, **own}, quote_via=quote, safe='/')}"

    def _where(self) -> str:
        """The hosts, each with its port, and the database."""
        hosts, ports = self.options.get("host", "").split(","), self.options.get("port", "").split(",")
        written = [f"[{host}]" if ":" in host else quote(host, safe="") for host in hosts]
        pairs = zip(written, ports if len(ports) == len(hosts) else ports * len(hosts), strict=True)
        places = ",".join(f"{host}:{port}" if port else host for host, port in pairs)
        return f"{places}/{quote(self.options.get('dbname', ''), safe='')}"


def is_server(url: object) -> bool:
    """Return whether an address names a PostgreSQL server.

    >>> is_server("postgresql://db/town"), is_server("town.ledger")
    (True, False)
    """
    return isinstance(url, str) and url.partition("://")[0] in KINDS and "://" in url


def read_server(url: str) -> Server:
    """Return what an address says; refuse a password, and keys that nobody knows. What is refused is not quoted.

    >>> read_server("postgresql://db:5433/town?schema=meters&sslmode=verify-full").name
    'postgresql://db:5433/town?schema=meters'
    >>> read_server("postgresql://me:secret@db/town")
    Traceback (most recent call last):
    ...
    halflife.errors.InvalidInput: a policy is public, and this address holds a password: change that password, ...
    """
    if "\0" in unquote(url):
        raise InvalidInput(
            "an address of a ledger holds a NUL (%00), and nothing behind it would be read: leave it out"
        )
    rest = url.partition("://")[2]
    where, _, query = rest.partition("?")
    hosts, _, database = where.partition("/")
    user, _, hosts = hosts.rpartition("@")
    given = _read_query(query)
    if ":" in user or "password" in given or "sslpassword" in given:
        raise InvalidInput(NO_PASSWORD)
    if "#" in url or "/" in database:
        raise InvalidInput(
            "an address of a ledger is postgresql://HOST/DATABASE?schema=NAME: no # or second / belongs in it"
        )
    for key in given:
        if key not in (*OWN, *PASSED_ON):
            raise unknown("key of a ledger's address", key, (*OWN, *PASSED_ON))
    names, ports = zip(*map(_split_port, hosts.split(",")), strict=True)
    told = {"user": unquote(user), "host": ",".join(names), "port": ",".join(ports) if any(ports) else ""}
    told |= {"dbname": unquote(database)} | {key: given[key] for key in PASSED_ON if key in given}
    if told["port"].count(",") not in (0, told["host"].count(",")):
        raise InvalidInput(
            "the address of a ledger has other numbers of hosts and of ports: give one port, or one for each host"
        )
    schema = given.get("schema", "halflife")
    if not SCHEMA.fullmatch(schema) or schema.startswith("pg_") or schema in ("public", "information_schema"):
        raise InvalidInput(
            "a ledger has a schema of its own, and its name is of small letters, digits and _, begins with a letter, and is not "
            "public, information_schema or pg_…: ?schema=NAME"
        )
    folder = Path(given.get("folder", f"{schema}.postgresql"))
    return Server({key: value for key, value in told.items() if value}, schema, folder, _read_lease(given.get("lease")))


def _read_query(query: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True) if query else []
    except ValueError:
        raise InvalidInput("what stands behind ? in the address of a ledger is KEY=VALUE&KEY=VALUE…") from None
    if len(dict(pairs)) < len(pairs):
        raise InvalidInput("a key stands twice in the address of a ledger")
    return dict(pairs)


def _split_port(host: str) -> tuple[str, str]:
    """A host and its port, "" if there is none; one in brackets is an IPv6 address.

    >>> _split_port("db:5433"), _split_port("[::1]:5433"), _split_port("%2Fvar%2Frun")
    (('db', '5433'), ('::1', '5433'), ('/var/run', ''))
    """
    found = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([^:\[\]]*))(?::([0-9]{0,5}))?", host)
    if found is None:
        raise InvalidInput("the host in the address of a ledger is HOST or HOST:PORT, several with commas between them")
    return unquote(found[1] or found[2] or ""), found[3] or ""


def _read_lease(text: str | None) -> float:
    if text is None:
        return USUAL
    if not re.fullmatch(r"\d{1,4}(\.\d{1,3})?", text) or not SHORTEST <= float(text) <= LONGEST:
        raise InvalidInput(f"lease is a number of seconds from {SHORTEST:g} to {LONGEST:g}, such as {USUAL:g}")
    return float(text)
