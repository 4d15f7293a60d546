"""What the system reports of a ledger's files, in our own words, with the next step."""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from halflife.errors import LedgerError

P = ParamSpec("P")
R = TypeVar("R")

_BY_ERRNO = {
    errno.ENOENT: "publish first, or give the path of a ledger",
    errno.ENOSPC: "make room on the disk and run again",
    errno.EDQUOT: "make room on the disk and run again",
    errno.EFBIG: "allow larger files and run again",
    errno.EROFS: "make the file and its folder writable",
    errno.EACCES: "make the file and its folder readable and writable for this user",
    errno.EPERM: "make the file and its folder readable and writable for this user",
    errno.EIO: "look at the disk",
    errno.EISDIR: "give the path of a file",
    errno.ELOOP: "put a file where the link is, or give the path of a file",
}


class _Named(Protocol):
    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=_Named)


def explain_system(error: OSError) -> str:
    """Return what an error of the system means for a ledger's file, and what to do about it.

    >>> explain_system(OSError(errno.ENOSPC, "No space left on device"))
    'No space left on device: make room on the disk and run again'
    """
    what = "no such file" if error.errno == errno.ENOENT else error.strerror or type(error).__name__
    return f"{what}: {_BY_ERRNO.get(error.errno or 0, 'look at the path, its permissions and the disk')}"


def name_file_faults(what: str) -> Callable[[Callable[Concatenate[N, P], R]], Callable[Concatenate[N, P], R]]:
    """Make a method raise our own error, with the ledger's name and the next step, for those of the system."""

    def around(method: Callable[Concatenate[N, P], R]) -> Callable[Concatenate[N, P], R]:
        @wraps(method)
        def named(self: N, /, *args: P.args, **more: P.kwargs) -> R:
            try:
                return method(self, *args, **more)
            except OSError as error:
                refusal = LedgerError(f"{self.name}: {what}: {explain_system(error)}")
            raise refusal

        return named

    return around
