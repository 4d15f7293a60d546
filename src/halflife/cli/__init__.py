"""The command line: thin, every command is one call of the library. Heavy imports happen inside the commands."""

from halflife.cli import (
    accuracy,
    audits,
    certificates,
    checking,
    experiments,
    operating,
    periods,
    processes,
    publishing,
    reading,
    secrets,
)
from halflife.cli.group import main

__all__ = [
    "accuracy",
    "audits",
    "certificates",
    "checking",
    "experiments",
    "main",
    "operating",
    "periods",
    "processes",
    "publishing",
    "reading",
    "secrets",
]
