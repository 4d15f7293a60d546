"""`publish --follow` as a process: the signals that it takes, from its first moment on."""

import signal

import pytest

from forked import finish, start
from halflife.cli.terminal import catch_reload_signal
from publisher.children import TAKEN, signal_while_loading
from publisher.town import make


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_a_signal_that_comes_while_it_starts_is_taken(tmp_path, number):
    """Before: SIGHUP killed it until it had read its policy and its sources, and systemd takes that for a clean end."""
    make(tmp_path)
    said = tmp_path / "said"
    ended = finish(start(signal_while_loading, str(tmp_path / "policy.yaml"), number, said=said))
    assert ended == TAKEN, said.read_text()


def test_many_signals_to_read_the_policy_again_are_one_request():
    """A storm of them kept a publisher reading its policy for as many naps."""
    with catch_reload_signal(True) as reload:
        assert not reload()
        for _ in range(20):
            signal.raise_signal(signal.SIGHUP)
        assert reload()
        assert not reload()
        signal.raise_signal(signal.SIGHUP)
        assert reload()
