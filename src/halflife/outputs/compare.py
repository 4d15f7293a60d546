"""Is the output what the ledger holds? Of its last step, before more is written; and of every byte, when asked."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain, islice, zip_longest
from pathlib import Path

from halflife.errors import InvalidInput
from halflife.outputs.layout import Form, Published, Stored

FARTHEST = 1000
"""How many rows may be missing in a row, or too many, before the rows behind them are no longer told apart."""

Line = tuple[str, bytes]
"""(place, text): where in the output a row stands, and what it says."""
Wanted = tuple[int, bytes]
"""(step, text): what the ledger's row of a step says; step 0 for a header."""


def ahead(path: Path | str, step: int, last: int) -> InvalidInput:
    """The error for an output that knows more than its ledger."""
    held = f"goes up to step {last}" if last else "holds no step"
    return InvalidInput(
        f"{path} is ahead of its ledger: it holds rows of step {step}, the ledger {held}. Going on would draw new noise for"
        " what was published already. Put the newest ledger back, and keep this output: it is the record of what was published"
    )


def confirm(path: Path, step: int, held: bytes, form: Form, ledger: Stored) -> None:
    """Refuse an output whose last whole step, `held`, is not what the ledger holds for it."""
    if step > ledger.last:
        raise ahead(path, step, ledger.last)
    item = ledger.find(step)
    if item is None:
        raise InvalidInput(
            f"{path} ends with step {step}, which the ledger (up to step {ledger.last}) does not hold: this output belongs to"
            " another ledger or stream; name the right one, or give the output another name"
        )
    stored = form.render(item)
    if held != stored:
        pairs = zip_longest(held.splitlines(True), stored.splitlines(True), fillvalue=b"")
        told = next(name_difference(form, a, b) for a, b in pairs if a != b)
        raise InvalidInput(
            f"{path}: step {step} is not what the ledger holds: {told}. If the file was edited, move it away, and the ledger's"
            " values are written again; if the ledger is a backup that went on, this step's noise was drawn twice: put the newest"
            " ledger back; if the file belongs to another ledger, give the output another name"
        )


def name_difference(form: Form, held: bytes, stored: bytes) -> str:
    """Say in which columns a row differs: what is there, and what should be."""
    if stored.startswith(held):
        return f"the row is cut off after {len(held)} of {len(stored)} bytes"
    there, should = form.fields(held), form.fields(stored)
    told = [f"{c} is {there[c]!r}, the ledger holds {should[c]!r}" for c in _changed_columns(form, held, stored)]
    return "; ".join(told) or f"another row, or none of this stream, where the ledger has {_clip(stored)}"


def _changed_columns(form: Form, held: bytes, stored: bytes) -> list[str]:
    """The columns in which a row differs from the ledger's; none if it agrees in fewer than half of them.

    Such a row may be of any file, the readings say, so nothing of it is repeated.
    """
    there, should = form.fields(held), form.fields(stored)
    changed = [c for c in there if there[c] != should.get(c)]
    return changed if 2 * len(changed) <= len(there) else []


def _clip(line: bytes) -> str:
    text = line.decode(errors="backslashreplace")
    return repr(text if len(text) <= 200 else text[:200] + "…")


def expected_rows(form: Form, stored: Iterable[Published], header: bool) -> Iterator[Wanted]:
    """Yield every row that the output should have."""
    if header:
        yield 0, form.header
    for item in stored:
        for line in form.render(item).splitlines(True):
            yield item.step, line


def differences(name: str, form: Form, held: Iterator[Line], want: Iterator[Wanted]) -> Iterator[str]:
    """Yield every difference. A row that is missing or too many is named as such, and the rows behind it meet their own."""
    there: deque[Line] = deque()
    should: deque[Wanted] = deque()
    depth, newest = min(len(form.cells), FARTHEST) + 2, 0
    while True:
        there.extend(islice(held, depth - len(there)))
        should.extend(islice(want, depth - len(should)))
        if not there or not should:
            break
        (place, line), (step, stored) = there[0], should[0]
        gone = extra = False
        if line != stored:
            gone = any(line == other for _, other in should)
            extra = not gone and any(stored == other for _, other in there)
            yield f"{name}, {place}, " + _tell(form, line, step, stored, gone, extra)
            if not step and not stored.startswith(line) and not _changed_columns(form, line, stored):
                return  # the header of another file: what stands below is not ours
        if not gone:
            there.popleft()
        if not extra:
            should.popleft()
            newest = step
    for place, line in chain(there, held):
        yield f"{name}, {place}, {_tell_behind(form, line, newest)}"
    first = step = count = 0
    for step, _ in chain(should, want):
        first, count = first or step, count + 1
    if count:
        yield (
            f"{name} ends before its ledger: {count} rows of steps {first} … {step} are not yet written;"
            " the next run writes them"
        )


def _tell(form: Form, line: bytes, step: int, stored: bytes, gone: bool, extra: bool) -> str:
    what = f"step {step}" if step else "header"
    if gone:
        return f"{what}: a row is missing before this one: {_clip(stored)}"
    if extra:
        return f"before {what}: a row that the ledger does not hold"
    return f"{what}: {name_difference(form, line, stored)}"


def _tell_behind(form: Form, line: bytes, newest: int) -> str:
    step = form.step(line)
    if step is not None and step > newest:
        return f"step {step}: the output is ahead of its ledger, which goes up to step {newest}"
    return f"a row behind the ledger's last, of step {newest}"
