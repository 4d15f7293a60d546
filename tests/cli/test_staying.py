"""`publish --follow` as a process: the signals that it takes, from its first moment on."""

import signal

import pytest

from forked import finish, start
from publisher.children import TAKEN, signal_while_loading
from publisher.town import make


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_a_signal_that_comes_while_it_starts_is_taken(tmp_path, number):
    """Before: SIGHUP killed it until it had read its policy and its sources, and systemd takes that for a clean end."""
    make(tmp_path)
    said = tmp_path / "said"
    ended = finish(start(signal_while_loading, str(tmp_path / "policy.yaml"), number, said=said))
    assert ended == TAKEN, said.read_text()
