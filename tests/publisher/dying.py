"""Publish a policy, and be killed at the n-th passing of a named point. Usage: dying.py POLICY POINT N BATCH."""

import os
import signal
import sys

from halflife import Policy, publish
from halflife.ledger.sqlite import SqliteLedger
from halflife.outputs import files, text
from halflife.publisher import backfill, checkpoints


def main(path, wanted, number, batch):
    backfill.BATCH_STEPS = batch
    seen = [0]

    def at(point):
        seen[0] += point == wanted
        if point == wanted and seen[0] == number:
            os.kill(os.getpid(), signal.SIGKILL)

    insert, append = SqliteLedger._insert, files.append

    def insert_and_die(self, entries, first):
        result = insert(self, entries, first)
        at("in the transaction")
        return result

    def append_half_and_die(path, size, block):
        if wanted == "half written":
            append(path, size, block[: len(block) // 2])
            at("half written")
            os.truncate(path, size)
        append(path, size, block)

    checkpoints.reach = at
    SqliteLedger._insert = insert_and_die
    text.append = append_half_and_die
    publish(Policy.load(path))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
