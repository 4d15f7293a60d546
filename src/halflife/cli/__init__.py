"""The command line: thin, every command is one call of the library. Heavy imports happen inside the commands."""

from halflife.cli import audits, experiments, processes, publishing
from halflife.cli.group import main

__all__ = ["audits", "experiments", "main", "processes", "publishing"]
