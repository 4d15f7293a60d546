"""The command line: thin, every command is one call of the library. Heavy imports happen inside the commands."""

from halflife.cli import (
    accuracy,
    amending,
    audits,
    backups,
    certificates,
    checking,
    compare,
    experiments,
    keys,
    ledgers,
    operating,
    periods,
    processes,
    publishing,
    reading,
    revising,
    secrets,
)
from halflife.cli.group import main

__all__ = [
    "accuracy",
    "amending",
    "audits",
    "backups",
    "certificates",
    "checking",
    "compare",
    "experiments",
    "keys",
    "ledgers",
    "main",
    "operating",
    "periods",
    "processes",
    "publishing",
    "reading",
    "revising",
    "secrets",
]
