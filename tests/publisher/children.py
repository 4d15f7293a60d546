"""What tests run in processes of their own: publishers that race, that are killed, and that kill themselves."""

import os
import signal
import sys
import types

from halflife import Policy, Stream, publish, restore, revise
from halflife.cli import main
from halflife.ledger.postgresql.ledger import PostgresLedger
from halflife.ledger.sqlite import SqliteLedger
from halflife.outputs import files, text
from halflife.publisher import backfill, checkpoints


def publish_and_die(path, wanted, number, batch):
    """Publish in batches of so many steps, and be killed at the n-th passing of a named point."""
    backfill.BATCH_STEPS = batch
    seen = [0]

    def at(point):
        seen[0] += point == wanted
        if point == wanted and seen[0] == number:
            os.kill(os.getpid(), signal.SIGKILL)

    append = files.append

    def die_after(insert):
        def insert_and_die(self, entries, first):
            result = insert(self, entries, first)
            at("in the transaction")
            return result

        return insert_and_die

    def append_half_and_die(path, size, block):
        if wanted == "half written":
            append(path, size, block[: len(block) // 2])
            at("half written")
            os.truncate(path, size)
        append(path, size, block)

    checkpoints.reach = at
    for kind in (SqliteLedger, PostgresLedger):
        kind._insert = die_after(kind._insert)
    text.append = append_half_and_die
    publish(Policy.load(path))


def revise_and_die(path, wanted, now):
    """Publish three steps again, and be killed at a named point."""

    def at(point):
        if point == wanted:
            os.kill(os.getpid(), signal.SIGKILL)

    checkpoints.reach = at
    revise(path, "mean", 7, 9, clock=lambda: now)


def restore_and_die(folder, policy, point, pass_over, now):
    """Restore a backup, and be killed at a named point."""
    checkpoints.reach = lambda reached: os.kill(os.getpid(), signal.SIGKILL) if reached == point else None
    restore(folder, policy, pass_over=pass_over, clock=lambda: now)


def publish_step_by_step(path, ready):
    """Publish one step a batch, and say when that begins."""
    backfill.BATCH_STEPS = 1
    policy = Policy.load(path)
    ready.set()
    publish(policy)


def publish_by_command(path):
    main(["publish", path, "--wait", "60"])


TAKEN, NOT_TAKEN = 11, 12
"""How a process ends that was sent a signal."""


def signal_while_loading(path, number):
    """Send this process a signal while it reads its policy; then say how it was taken."""
    load = Policy.load

    def slowly(given):
        os.kill(os.getpid(), number)
        return load(given)

    Policy.load = slowly
    stands_in = types.ModuleType("follow")
    stands_in.follow = lambda policy, *, reload, stop, **_: sys.exit(TAKEN if reload() or stop() else NOT_TAKEN)
    sys.modules["halflife.publisher.follow"] = stands_in
    main(["publish", path, "--follow"])


def publish_and_ask(path, number, *options):
    """Publish by the command, one step a batch, and be sent a signal in the first."""
    backfill.BATCH_STEPS, asked = 1, []

    def at(point):
        if point == "totals read" and not asked:
            asked.append(point)
            os.kill(os.getpid(), number)

    checkpoints.reach = at
    main(["publish", path, *options])


def push_a_day(path, name):
    with Stream(Policy.load(path), name, wait=60) as stream:
        for step in range(1, 25):
            stream.publish(1.0, at=step)


def ask_for_status(path):
    """Ask where a policy stands while another process holds its ledger."""
    from halflife import status

    found = status(path)
    assert found.writer is not None
    assert found.streams[0].newest == 5


def publish_and_stop(path, wanted, number, batch):
    """Publish in batches of so many steps, and be stopped at the n-th passing of a named point until somebody lets it go on."""
    backfill.BATCH_STEPS = batch
    seen = [0]

    def at(point):
        seen[0] += point == wanted
        if point == wanted and seen[0] == number:
            os.kill(os.getpid(), signal.SIGSTOP)

    insert = PostgresLedger._insert

    def insert_and_stop(self, entries, first):
        result = insert(self, entries, first)
        at("in the transaction")
        return result

    checkpoints.reach = at
    PostgresLedger._insert = insert_and_stop
    publish(Policy.load(path))
