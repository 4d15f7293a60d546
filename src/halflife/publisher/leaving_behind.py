"""Work that may never end, such as asking a disk of another machine: done in a thread that is left behind if need be."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 0.2
"""Seconds between two looks at whether it is time to leave."""


class Left(Exception):
    """It was time to leave, and the work had not ended. Its thread ends when the work does, and nobody hears of its answer."""


def do_unless(work: Callable[[], T], is_time_to_leave: Callable[[], bool]) -> T:
    """Return what some work gives, or raise `Left` if it is time to leave before the work ends.

    >>> do_unless(lambda: 7, lambda: True)
    7
    """
    heard: SimpleQueue[tuple[bool, T | BaseException]] = SimpleQueue()

    def do() -> None:
        try:
            heard.put((True, work()))
        except BaseException as error:
            heard.put((False, error))

    threading.Thread(target=do, daemon=True).start()
    while True:
        try:
            well, answer = heard.get(timeout=PATIENCE)
        except Empty:
            if is_time_to_leave():
                raise Left from None
        else:
            break
    if well:
        return answer  # type: ignore[return-value]
    raise answer  # type: ignore[misc]
