"""FAST in windows: held to a plain second version of it, one lane and one number at a time, and to what a block may lose."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halflife import WEvent
from halflife.mechanisms.fast import Fast


class Scripted:
    """Draws of one lane: unit noise from a list, and what was lost, by step."""

    def __init__(self, noise):
        self.noise, self.losses, self.step = iter(noise), {}, 0

    def __call__(self, key, sensitivity, *, loss):
        self.losses[self.step] = self.losses.get(self.step, 0.0) + loss
        return next(self.noise) * sensitivity / loss


def run(mechanism, truths, noise, steps=None):
    draw, outputs = Scripted(noise), []
    for draw.step, truth in zip(steps or range(1, len(truths) + 1), truths, strict=True):
        outputs.append(mechanism.step(draw.step, float(truth), draw))
    return outputs, draw.losses


def run_plainly(truths, w, epsilon, noise, fractions):
    """A block at a time, with lists: the samples of a block and their errors, nothing else."""
    noise, outputs, whole = iter(noise), [], (lambda x: x) if fractions else (lambda x: float(int(x)))
    most = max(1, int(0.075 * w))
    for begin in range(0, len(truths), w):
        samples, errors, variance, interval, due = [], [], 100.0, 1, 5
        for place, truth in enumerate(truths[begin : begin + w]):
            variance += 1e5 if place else 0.0
            if len(samples) >= most or (len(samples) >= 5 and place != due):
                outputs.append(whole(samples[-1]))
                continue
            noisy = truth + next(noise) * most / (epsilon / 2)
            if place == 0:
                samples.append(noisy)
            else:
                gain = variance / (variance + 1e6)
                variance *= 1 - gain
                samples.append(samples[-1] + gain * (noisy - samples[-1]))
                errors.append(abs(samples[-1] - whole(samples[-2])) / max(samples[-1], 1.0))
                if place == due:
                    signal = 0.9 * errors[-1] + 0.1 * sum(errors[-5:])
                    interval = max(1, interval + int(5 * (1 - math.exp(min(700, (signal - 0.1) / 0.1)))))
                    due += interval
            outputs.append(samples[-1])
    return outputs


@pytest.mark.parametrize("fractions", [False, True])
@pytest.mark.parametrize("w", [1, 13, 40, 100, 150])
def test_it_goes_the_way_of_a_plain_version(w, fractions):
    rng = np.random.default_rng(w)
    truths = np.round(50 + np.cumsum(rng.normal(0, 6, 700)) + 40 * np.sin(np.arange(700) / 9))
    noise = rng.laplace(0, 1, 700)
    outputs, _ = run(Fast(WEvent(2.0, w), fractions=fractions), truths, noise)
    plain = run_plainly(truths, w, 2.0, noise, fractions)
    assert outputs == pytest.approx(plain, rel=1e-12, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_block_loses_half_at_most_and_a_window_all_of_it(data):
    """Also where steps are left out: blocks go by the number of a step, not by how many there were."""
    w = data.draw(st.sampled_from([1, 14, 30, 70, 100]))
    jumps = data.draw(st.lists(st.sampled_from([0.0, 0.0, 1.0, 1e3, -1e6]), min_size=30, max_size=30))
    gaps = data.draw(st.lists(st.sampled_from([1, 1, 1, 2, 9]), min_size=150, max_size=150))
    steps = np.cumsum(gaps).tolist()
    _, losses = run(Fast(WEvent(1.0, w)), np.resize(np.cumsum(jumps), 150), np.zeros(150), steps)
    blocks, windows = {}, [sum(losses.get(k, 0.0) for k in range(e - w + 1, e + 1)) for e in range(1, steps[-1] + 1)]
    for step, loss in losses.items():
        blocks[(step - 1) // w] = blocks.get((step - 1) // w, 0.0) + loss
    assert max(blocks.values()) <= 0.5 + 1e-12
    assert max(windows) <= 1 + 1e-12


def test_a_window_over_two_blocks_can_lose_all_of_it():
    """A stream that begins with the last step of a block: its sample and that of the next block are neighbours."""
    _, losses = run(Fast(WEvent(1.0, 20)), np.zeros(2), np.zeros(2), [20, 21])
    assert losses == {20: 0.5, 21: 0.5}


def test_the_filter_doubts_more_after_steps_that_were_left_out():
    outputs, _ = run(Fast(WEvent(1.0, 100)), [0.0, 1000.0], np.zeros(2), [1, 11])
    assert outputs[1] == pytest.approx(1000 * (100 + 1e6) / (100 + 2e6))
