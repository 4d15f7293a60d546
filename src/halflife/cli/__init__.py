"""The command line: thin, every command is one call of the library. Heavy imports happen inside the commands."""

from halflife.cli import audits, checking, experiments, operating, periods, processes, publishing, secrets
from halflife.cli.group import main

__all__ = ["audits", "checking", "experiments", "main", "operating", "periods", "processes", "publishing", "secrets"]
