"""Noise that is drawn ahead: while others are read and committed, in order, not too much of it, and no error of it is lost."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest

import halflife as hl
from halflife.publisher import backfill
from publisher.town import make, write_readings


class Charged:
    """A charged batch that notes when its noise is drawn; that waits for `gate`, and fails if it is `broken`."""

    def __init__(self, name, drawn, gate=None, broken=False):
        self.name, self._drawn, self._gate, self._broken = name, drawn, gate, broken

    def draw_noise(self):
        if self._gate is not None:
            assert self._gate.wait(60)
        self._drawn.append(self.name)
        if self._broken:
            raise RuntimeError("no more entropy")


def batches_of(*sizes, cells=2):
    return [[SimpleNamespace(steps=np.arange(n // cells), channel=SimpleNamespace(cells=cells))] for n in sizes]


def drawer_of(charged, *sizes):
    """A drawer of batches of so many numbers, each of which is charged."""
    drawer = backfill._Drawer(batches_of(*sizes))
    for made in charged:
        drawer.add(made)
    return drawer


def test_the_next_batches_are_drawn_in_order_and_only_some_numbers_ahead(monkeypatch):
    monkeypatch.setattr(backfill, "AHEAD_CELLS", 30)
    drawn = []
    charged = [Charged(i, drawn) for i in range(5)]
    with drawer_of(charged, 10, 10, 10, 10, 40) as drawer:
        begun = []
        for i in range(5):
            drawer.draw_ahead(i)
            begun.append(list(drawer._drawn))
            assert drawer.take(i) is charged[i]
            assert drawer.take(i) is None
    assert drawn == [0, 1, 2, 3, 4], "each once, the one that is too large as well"
    assert begun == [[0, 1, 2], [1, 2, 3], [2, 3], [3], [4]]


def test_a_batch_is_drawn_while_the_one_before_is_committed(monkeypatch):
    """Only the thread that commits lets the next batch's noise be drawn: it would wait for ever if that came first."""
    drawn, gate = [], threading.Event()
    charged = [Charged(0, drawn), Charged(1, drawn, gate)]
    with drawer_of(charged, 10, 10) as drawer:
        drawer.take(0)
        assert drawn == [0]
        gate.set()
        drawer.take(1)
        assert drawn == [0, 1]


def test_an_error_while_drawing_ahead_is_raised_where_the_noise_is_needed():
    drawn = []
    with drawer_of([Charged(0, drawn), Charged(1, drawn, broken=True)], 10, 10) as drawer:
        drawer.take(0)
        with pytest.raises(RuntimeError, match="no more entropy"):
            drawer.take(1)


def test_what_is_not_begun_when_a_run_ends_is_never_drawn():
    drawn, gate = [], threading.Event()
    charged = [Charged(0, drawn, gate), *(Charged(i, drawn) for i in range(1, 4))]
    with drawer_of(charged, 10, 10, 10, 10):
        threading.Timer(0.05, gate.set).start()
    assert drawn == [0]


def test_batches_that_are_charged_as_they_are_drawn_are_left_alone():
    drawn = []
    with drawer_of([None, Charged(1, drawn)], 10, 10) as drawer:
        assert drawer.take(0) is None
    assert drawn == []


def test_a_batch_is_drawn_while_the_next_one_is_charged():
    """Who charges waits until the first batch is drawn: for ever, if that were begun only once all are charged."""
    begun = threading.Event()
    first = SimpleNamespace(draw_noise=begun.set)
    with backfill._Drawer(batches_of(10, 10)) as drawer:
        drawer.add(first)
        assert begun.wait(60)
        drawer.add(SimpleNamespace(draw_noise=lambda: None))


def test_what_was_charged_is_forgotten_from_a_batch_on():
    drawn = []
    with drawer_of([Charged(i, drawn) for i in range(3)], 10, 10, 10) as drawer:
        assert drawer.take(0) is not None
        drawer.forget_from(1)
        assert drawer.take(1) is drawer.take(2) is None


def test_a_run_publishes_nothing_if_its_noise_cannot_be_drawn(tmp_path, monkeypatch):
    from halflife import noise

    write_readings(tmp_path)
    policy = make(tmp_path)
    monkeypatch.setattr(backfill, "BATCH_STEPS", 5)
    real, asked = noise.draw_many, []

    def third_fails(wanted):
        asked.append(len(wanted))
        if len([n for n in asked if n]) == 3:
            raise RuntimeError("no more entropy")
        return real(wanted)

    monkeypatch.setattr(noise, "draw_many", third_fails)
    with pytest.raises(RuntimeError, match="no more entropy"):
        hl.publish(policy)
    monkeypatch.setattr(noise, "draw_many", real)
    assert hl.publish(policy).published == {"mean": 14}
    verdict = hl.verify(policy.ledger_url, {"mean": str(policy.path("mean.csv"))}, policy=policy)
    assert verdict.problems == ()
