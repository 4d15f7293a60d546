"""CSV and JSON lines: appended to step by step, in a file or on the standard output.

A crash leaves a file that ends anywhere in what was being written. As the ledger holds those bytes, the end is recognised
as the beginning of the next step, and cut off; an end that is not is someone else's, and refused.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Any, BinaryIO

from halflife.errors import InvalidInput
from halflife.outputs.compare import Line, ahead, confirm
from halflife.outputs.files import append, check_regular, make_folder, name_failures, sync_folder
from halflife.outputs.layout import Block, Form, Stored, check_order

LONGEST_LINE = 1 << 20


class TextOutput:
    """A file of rows."""

    def __init__(self, path: Path, form: Form, ledger: Stored) -> None:
        self._path, self._form = path, form
        with name_failures(path, "opened"):
            check_regular(path)
            make_folder(path.parent)
            new = not path.exists()
            fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            with open(fd, "r+b", buffering=0) as file:
                self.last_step, self._size = _recover(file, path, form, ledger)
                if new or self._size < os.fstat(fd).st_size:
                    file.truncate(self._size)
                    os.fsync(fd)
            if new:
                sync_folder(path.parent)

    def write(self, block: Block) -> None:
        """Append steps at once, the first one with the header."""
        check_order(block.steps, self.last_step)
        if not block.steps:
            return
        text = (b"" if self._size else self._form.header) + self._form.render_many(block)
        append(self._path, self._size, text)
        self._size += len(text)
        self.last_step = block.steps[-1]

    def close(self) -> None:
        """Do nothing: no file is held open."""


class Stdout:
    """JSON lines on the standard output. Nobody can read back what was written there, so the caller keeps `emitted`."""

    def __init__(self, form: Form, last: int, emitted: int) -> None:
        if emitted > last:
            raise ahead("standard output", emitted, last)
        if sys.stdout is None or getattr(sys.stdout, "closed", False):
            raise InvalidInput("stdout is closed: give the output - somewhere to go, or name a file in the policy")
        self._form, self.last_step = form, emitted

    def write(self, block: Block) -> None:
        """Write and flush whole steps, in UTF-8 whatever the terminal's encoding."""
        check_order(block.steps, self.last_step)
        if not block.steps:
            return
        text = self._form.render_many(block)
        try:
            _to_stdout(text)
        except (OSError, ValueError) as problem:  # a reader that went away, a full disk; a ValueError if it is closed
            abandon(sys.stdout)
            raise InvalidInput(
                f"stdout cannot be written: {getattr(problem, 'strerror', None) or problem}. Nothing is lost, as the ledger"
                " holds every published step: what was committed and not written will be written again by the next run"
            ) from problem
        self.last_step = block.steps[-1]

    def close(self) -> None:
        """Do nothing: the standard output is not ours to close."""


def _to_stdout(text: bytes) -> None:
    raw = getattr(sys.stdout, "buffer", None)
    if raw is None:  # a notebook, or a StringIO in a test
        sys.stdout.write(text.decode())
    else:
        sys.stdout.flush()
        raw.write(text)
    sys.stdout.flush()


def abandon(stream: Any) -> None:
    """Lead a standard stream that failed nowhere: what is still in its buffer would fail once more when the program ends."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _recover(file: BinaryIO, path: Path, form: Form, ledger: Stored) -> tuple[int, int]:
    """Return the last whole step and where its rows end, from the end of the file alone; refuse what is not ours.

    As much is read as three steps may take. If the file is ours, that holds the step that was cut off and the whole one
    before it, or all there is; and if both are the ledger's, they are shorter, so the line that reading began in is neither's.
    """
    size, start = os.fstat(file.fileno()).st_size, len(form.header)
    head = _read(file, 0, min(size, start))
    if not form.header.startswith(head):
        raise InvalidInput(
            f"{path} does not begin with the header {form.header!r} of this stream: its columns have changed, or the file is not"
            " an output of halflife. It is left as it is: give the output another name"
        )
    if size < start:
        return 0, 0
    at = max(start, size - 3 * form.longest_step)
    *lines, rest = _read(file, at, size - at).split(b"\n")
    whole, tail = _last_steps(path, form, [line + b"\n" for line in lines], ledger.last)
    step = 0
    if whole:
        step = form.step(whole[-1]) or 0
        if not step:
            raise _foreign(path, "a line near its end is no row of this stream")
        confirm(path, step, b"".join(whole), form, ledger)
    cut = b"".join([*tail, rest])
    if cut:
        _check_cut(path, cut, step, form, ledger)
    return step, size - len(cut)


def check_text(path: Path, form: Form, ledger: Stored) -> None:
    """Refuse a file that is not ours, and change nothing."""
    check_regular(path)
    if path.exists():
        with path.open("rb", buffering=0) as file:
            _recover(file, path, form, ledger)


def _read(file: BinaryIO, at: int, size: int) -> bytes:
    file.seek(at)
    block = bytearray()
    while len(block) < size and (more := file.read(size - len(block))):
        block += more
    return bytes(block)


def _last_steps(path: Path, form: Form, lines: list[bytes], last: int) -> tuple[list[bytes], list[bytes]]:
    """Return the rows of the last whole step, and those of a step behind it that was cut off."""
    if not lines:
        return [], []
    newest = form.step(lines[-1])
    if not newest:
        raise _foreign(path, "its last line is no row of this stream")
    if newest > last:
        raise ahead(path, newest, last)
    rows, count = form.layout.rows, sum(1 for _ in takewhile(lambda line: form.step(line) == newest, reversed(lines)))
    cut = 0 if count == rows else count
    end = len(lines) - cut
    return lines[max(0, end - rows) : end], lines[end:]


def _check_cut(path: Path, cut: bytes, step: int, form: Form, ledger: Stored) -> None:
    """Refuse to cut an end off that is not the beginning of the next step, as the ledger holds it."""
    item = ledger.after(step, ledger.last)
    if item is None:
        raise InvalidInput(
            f"{path} has {len(cut)} bytes behind step {step}, and the ledger holds nothing behind that step: the output is"
            " ahead of its ledger, or was edited. If the ledger is a backup, put the newest one back: going on would draw new"
            " noise for what was published already. If the file was edited, correct its end"
        )
    if not form.render(item).startswith(cut):
        raise _foreign(path, f"the {len(cut)} bytes behind step {step} do not begin the ledger's step {item.step}")


def _foreign(path: Path, why: str) -> InvalidInput:
    """The error for a file of somebody else's. Nothing of it is repeated: it may hold people's readings."""
    return InvalidInput(
        f"{path} is not what halflife wrote for this stream: {why}. It is left as it is: move it away, and the ledger's"
        " values are written again, or give the output another name"
    )


def read_lines(file: BinaryIO, size: int) -> Iterator[Line]:
    """Yield every line of the first so many bytes for a comparison; a line without end in pieces."""
    file.seek(0)
    lines = iter(lambda: file.readline(min(LONGEST_LINE, size - file.tell())), b"")
    for number, line in enumerate(lines, 1):
        yield f"line {number}", line
