"""PostgreSQL servers as a policy names them, `postgresql://HOST/DATABASE?KEY=VALUE`, and why they refuse, in our own words.

An address never holds a password: a policy is public. It comes from the environment (PGPASSWORD), ~/.pgpass or a service file
(?service=NAME). TLS and what else libpq knows of connecting is passed on to it.

A driver's text may quote a cell, so none of it is passed on: only what its code (SQLSTATE) or its words mean, and what to do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, unquote

from halflife.errors import InvalidInput, unknown

KINDS = ("postgresql", "postgres")
PASSED_ON = (
    "service", "host", "hostaddr", "port", "user", "dbname", "passfile", "connect_timeout", "target_session_attrs", "sslmode",
    "sslrootcert", "sslcert", "sslkey", "sslcrl", "sslnegotiation", "ssl_min_protocol_version", "channel_binding", "gssencmode",
    "krbsrvname", "require_auth",
)  # fmt: skip
"""What libpq is told; it knows more, such as a password, or options that would change what a session does."""
ALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 25_000}
"""How libpq notices a peer that is gone without a word: after about 25 seconds."""
NO_PASSWORD = (
    "a policy is public, and this address holds a password: change that password, as it may have been seen, and give it by the "
    "environment (PGPASSWORD), ~/.pgpass, or a service file (?service=NAME)"
)
_PASSWORD = re.compile(r"(?is)(?:[a-z][a-z0-9+.-]*:/|postgres(?:ql)?:).*?:.*@|password\s*=\s*\S")
"""Text with a password: behind a colon before an @, wherever either stands, or as KEY=VALUE."""
GONE = "the connection was lost: see that the server runs, and run again"
NOT_LET_IN = (  # fmt: skip
    "the server does not let this user in: look at the user, the password (PGPASSWORD, ~/.pgpass, ?service=), pg_hba.conf"
)
NO_DATABASE = "there is no such database: create it (createdb), or correct the address"
READ_ONLY = "it is read-only: give the address of the server that is written to (?target_session_attrs=read-write)"
TOO_MANY = "the server has no connection left: let others finish, or raise max_connections"
_VALUE = "libpq does not take a value that the address gives it: look at the port and what stands behind ?"
_REFUSED = {
    "bad value": _VALUE,
    "invalid port": _VALUE,
    " value: ": _VALUE,
    "password": NOT_LET_IN,
    "authentication": NOT_LET_IN,
    "pg_hba": NOT_LET_IN,
    "role ": NOT_LET_IN,
    "certificate": "the server's certificate, or this one's, is not accepted: look at sslmode, sslrootcert, sslcert and sslkey",
    "SSL": "the connection cannot be encrypted as asked: look at sslmode, and at the server's ssl setting",
    "database ": NO_DATABASE,
    "resolve": "no such host: correct the address",
    "translate host": "no such host: correct the address",
    "not known": "no such host: correct the address",
    "service": "there is no such service: look at ~/.pg_service.conf, or the file that PGSERVICEFILE names",
    "too many": TOO_MANY,
    "starting up": "the server is starting: run again in a moment",
    "shutting down": "the server is stopping: start it, and run again",
    "timeout": "no answer: look at the address, the network, and whether the server runs",
    "read-write": READ_ONLY,
    "refused": "nobody answers there: start the server, or correct the host and the port",
    "No such file": "nobody answers there: start the server, or correct the folder of its socket",
    "FATAL": "the server refuses the session: look at its log, and at PGOPTIONS and what else the environment sets",
}
"""Words by which libpq's refusals to connect, which have no code, are told apart."""


class Address(NamedTuple):
    """What an address says: what libpq is told, and keys of our own."""

    options: Mapping[str, str]
    own: Mapping[str, str]


def is_server(url: object) -> bool:
    """Return whether an address names a PostgreSQL server.

    >>> is_server("postgresql://db/town"), is_server("town.ledger")
    (True, False)
    """
    return isinstance(url, str) and url.partition("://")[0] in KINDS and "://" in url


def holds_password(text: str) -> bool:
    """Return whether a text looks like an address with a password, also one with signs that do not belong in addresses.

    A colon of a port stands behind the @, and an @ behind the host is written %40.

    >>> [holds_password(f"postgresql://{rest}") for rest in ("me:pw@db/town", "me:p?/w@db", "me@db:5433/town")]
    [True, True, False]
    """
    return _PASSWORD.search(text) is not None


def find_passwords(data: object, where: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the keys of plain data behind which a password stands; of a key that is an address itself, the one around it.

    >>> list(find_passwords({"a": ["x", "postgresql://me:pw@db"], "b": {"password": "pw"}}))
    [('a', 1), ('b', 'password')]
    """
    if isinstance(data, str) and holds_password(data):
        yield where
    elif isinstance(data, Mapping):
        for key, value in data.items():
            if holds_password(str(key)):
                yield where
            elif str(key).lower().endswith("password") and value is not None:
                yield (*where, key)
            else:
                yield from find_passwords(value, (*where, key))
    elif isinstance(data, list | tuple):
        for i, value in enumerate(data):
            yield from find_passwords(value, (*where, i))


def read_address(url: str, own: Sequence[str], what: str, form: str) -> Address:
    """Return what an address says; refuse a password, and keys that nobody knows. What is refused is not quoted.

    own   keys that are ours, not libpq's;  what  whose address it is, and  form  how it is written, for a refusal

    >>> read_address("postgresql://me@db:5433/town?sslmode=require", (), "a source", "…").options["port"]
    '5433'
    """
    if holds_password(url):
        raise InvalidInput(NO_PASSWORD)
    if "\0" in unquote(url):
        raise InvalidInput(f"an address of {what} holds a NUL (%00), and nothing behind it would be read: leave it out")
    rest = url.partition("://")[2]
    where, _, query = rest.partition("?")
    hosts, _, database = where.partition("/")
    user, _, hosts = hosts.rpartition("@")
    given = _read_query(query, what)
    if "password" in given or "sslpassword" in given:
        raise InvalidInput(NO_PASSWORD)
    if "#" in url or "/" in database:
        raise InvalidInput(f"an address of {what} is {form}: no # or second / belongs in it")
    for key in given:
        if key not in (*own, *PASSED_ON):
            raise unknown(f"key of {what}'s address", key, (*own, *PASSED_ON))
    names, ports = zip(*(_split_port(host, what) for host in hosts.split(",")), strict=True)
    told = {"user": unquote(user), "host": ",".join(names), "port": ",".join(ports) if any(ports) else ""}
    told |= {"dbname": unquote(database)} | {key: given[key] for key in PASSED_ON if key in given}
    if told["port"].count(",") not in (0, told["host"].count(",")):
        raise InvalidInput(
            f"the address of {what} has other numbers of hosts and of ports: give one port, or one for each host"
        )
    return Address(
        {key: value for key, value in told.items() if value}, {key: given[key] for key in own if key in given}
    )


def _read_query(query: str, what: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True) if query else []
    except ValueError:
        raise InvalidInput(f"what stands behind ? in the address of {what} is KEY=VALUE&KEY=VALUE…") from None
    if len(dict(pairs)) < len(pairs):
        raise InvalidInput(f"a key stands twice in the address of {what}")
    return dict(pairs)


def _split_port(host: str, what: str) -> tuple[str, str]:
    """A host and its port, "" if there is none; one in brackets is an IPv6 address.

    >>> [_split_port(host, "a ledger") for host in ("db:5433", "[::1]:5433", "%2Fvar%2Frun")]
    [('db', '5433'), ('::1', '5433'), ('/var/run', '')]
    """
    found = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([^:\[\]]*))(?::([0-9]{0,5}))?", host)
    if found is None:
        raise InvalidInput(f"the host in the address of {what} is HOST or HOST:PORT, several with commas between them")
    return unquote(found[1] or found[2] or ""), found[3] or ""


def name_place(options: Mapping[str, str]) -> str:
    """Return the hosts, each with its port, and the database, as an address has them; no user, and nothing else."""
    hosts, ports = options.get("host", "").split(","), options.get("port", "").split(",")
    written = [f"[{host}]" if ":" in host else quote(host, safe="") for host in hosts]
    pairs = zip(written, ports if len(ports) == len(hosts) else ports * len(hosts), strict=True)
    places = ",".join(f"{host}:{port}" if port else host for host, port in pairs)
    return f"{places}/{quote(options.get('dbname', ''), safe='')}"


def explain_refusal(text: str) -> str:
    """Return what a refusal to connect means, which has no code: by words in libpq's own text, of which none are passed on."""
    return next((said for word, said in _REFUSED.items() if word in text), GONE)
