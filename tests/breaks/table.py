"""Deliberate breaks of the source: one wrong line each, and the tests that must notice it."""

from __future__ import annotations

from typing import NamedTuple


class Break(NamedTuple):
    """One wrong line: `old` stands exactly once in `file` (below src/halflife) and becomes `new`; `tests` must then fail."""

    file: str
    old: str
    new: str
    note: str
    tests: tuple[str, ...]


BREAKS: tuple[Break, ...] = (
    Break(
        "numerics/rounding.py",
        "return math.nextafter(x, math.inf)",
        "return x",
        "rounding up does nothing",
        ("tests/numerics",),
    ),
    Break(
        "ledger/sqlite/ledger.py",
        "            if self._read_head() != self._head:\n                raise",
        "            if False:\n                raise",
        "a late writer writes over another's steps",
        ("tests/ledger/test_contract.py",),
    ),
    Break(
        "ledger/sqlite/ledger.py",
        '        if not self._held:\n            raise LedgerError(f"{self.path}: hold',
        '        if False:\n            raise LedgerError(f"{self.path}: hold',
        "anybody may commit without holding",
        ("tests/ledger/test_contract.py",),
    ),
    Break(
        "ledger/sqlite/ledger.py",
        '        with self._db:\n            self._db.execute("BEGIN IMMEDIATE")\n            if self._read_head()',
        "        if True:\n            if self._read_head()",
        "a commit is no transaction",
        ("tests/ledger/test_contract.py",),
    ),
    Break(
        "ledger/sqlite/ledger.py",
        '"INSERT OR REPLACE INTO state VALUES (?, ?)"',
        '"INSERT OR IGNORE INTO state VALUES (?, ?)"',
        "a saved account is never replaced",
        ("tests/ledger/test_contract.py",),
    ),
    Break(
        "ledger/sqlite/ledger.py",
        "        wrong = self._rollback()\n",
        "        wrong = None\n",
        "an older copy is gone on with",
        ("tests/ledger/test_contract.py",),
    ),
    Break(
        "ledger/sqlite/ledger.py",
        "batch.link != shown.head",
        "not batch.link",
        "another ledger with as many entries passes",
        ("tests/ledger/test_guard.py",),
    ),
    Break(
        "ledger/sqlite/ledger.py",
        "        if digest(self.states().items()) != newest.states:",
        "        if False:",
        "states of another batch are gone on with",
        ("tests/ledger/test_contract.py",),
    ),
    Break(
        "ledger/sqlite/ledger.py",
        "        if not (self.follows(1) and self.follows(last)):",
        "        if not self.follows(1):",
        "the newest entry is not compared before going on",
        ("tests/ledger/test_contract.py",),
    ),
    Break(
        "ledger/sqlite/ledger.py",
        "        if now != self._shown:",
        "        if self._shown is None:",
        "what was shown is marked once only",
        ("tests/ledger/test_contract.py",),
    ),
    Break(
        "ledger/sqlite/ledger.py",
        "        for key in sorted(set(facts) | set(known)):",
        "        for key in sorted(set(known)):",
        "facts that were added pass",
        ("tests/ledger/test_contract.py",),
    ),
    Break(
        "ledger/sqlite/schema.py",
        "    UNIQUE (stream, step, part)",
        "    UNIQUE (stream, step, part, id)",
        "a step may have two values",
        ("tests/ledger/test_contract.py",),
    ),
    Break(
        "ledger/sqlite/schema.py",
        "    PRIMARY KEY (entry, draw)",
        "    PRIMARY KEY (entry, number)",
        "one draw may be charged twice in a step",
        ("tests/ledger/test_contract.py",),
    ),
    Break(
        "ledger/sqlite/reading.py",
        "step BETWEEN ? AND ? ORDER BY e.step, e.id",
        "step BETWEEN ? AND ? - 1 ORDER BY e.step, e.id",
        "a stretch leaves out its last step",
        ("tests/ledger/test_contract.py",),
    ),
    Break(
        "ledger/sqlite/reading.py",
        'WHERE stream = ? AND step > ?"',
        'WHERE stream = ? AND step >= ?"',
        "the next step is the same one",
        ("tests/ledger/test_contract.py",),
    ),
    Break(
        "ledger/sqlite/lock.py",
        "self._take(lock, self._fcntl.LOCK_EX, wait, stop)",
        "self._take(lock, self._fcntl.LOCK_SH, wait, stop)",
        "two processes hold a ledger",
        ("tests/ledger/test_contract.py",),
    ),
    Break(
        "ledger/entry.py",
        'return _sha(before, facts, noisy, value or b"")',
        "return _sha(before, facts, noisy)",
        "the smoothed value is not in the chain",
        ("tests/publisher/test_verify.py", "tests/ledger"),
    ),
    Break(
        "ledger/entry.py",
        "_make(at, *cells)  # refuses them too, and names the step",
        "pass",
        "a damaged release is named by step 1",
        ("tests/ledger/test_sqlite.py",),
    ),
    Break(
        "ledger/sqlite/guard.py",
        "            os.fsync(file)\n",
        "            pass\n",
        "the mark of what was shown is not on disk before values are seen",
        ("tests/ledger/test_guard.py",),
    ),
    Break(
        "ledger/sqlite/connect.py",
        '"-wal", "-shm", "-journal", ".lock"',
        '"-shm", "-journal", ".lock"',
        "an output may lie on the write-ahead log",
        ("tests/ledger/test_guard.py",),
    ),
    Break(
        "ledger/sqlite/lock.py",
        "        except ImportError:  # Windows",
        "        except OSError:  # Windows",
        "no sentence where there is no flock",
        ("tests/ledger/test_address.py",),
    ),
    Break(
        "ledger/address.py",
        '.rpartition("@")[2]',
        "",
        "a password of an address is repeated",
        ("tests/ledger/test_address.py",),
    ),
)
