"""A copy of the source that a test may change, and programs that run on it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import halflife

ROOT = Path(__file__).resolve().parents[1]
SOURCE = Path(halflife.__file__).parents[1]
"""Where the package that the tests import is."""


class SourceCopy:
    """The package as it is, in a folder of its own, with what was compiled of it: a file that is changed is compiled again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(SOURCE / "halflife", folder / "src" / "halflife")

    def write(self, path: str, text: str) -> None:
        """Put a file that is not there yet, such as src/halflife/notions/mine.py."""
        file = self.folder / path
        assert not file.exists()
        file.write_text(text, encoding="utf-8")

    def replace(self, path: str, old: str, new: str) -> None:
        """Change a passage of a file, which must be there once."""
        file = self.folder / path
        text = file.read_text(encoding="utf-8")
        assert text.count(old) == 1, (path, old)
        file.write_text(text.replace(old, new), encoding="utf-8")

    def python(self, program: str, *arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a program that imports the copy."""
        return subprocess.run(
            [sys.executable, "-c", program, *map(str, arguments)], capture_output=True, text=True, check=False,
            cwd=cwd or self.folder, env={**os.environ, "PYTHONPATH": str(self.folder / "src")},
        )  # fmt: skip

    def halflife(self, *arguments: object, cwd: Path | None = None) -> str:
        """Run the command line of the copy; it must succeed."""
        done = self.python("from halflife.cli import main; main()", *arguments, cwd=cwd)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
