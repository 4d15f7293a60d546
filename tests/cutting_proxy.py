"""A proxy on loopback between a client and a server, which cuts connections where it is told to."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class CuttingProxy:
    """Passes bytes on, and cuts a connection when its client sends a word: before that arrives, or before the answer does.

    when     "before" or "after" it arrives, or "late": it arrives a second after the cut; or "silent": nothing is cut,
             and nothing is passed on any more
    refuses  whether new connections are closed at once, as by a server that is gone
    """

    def __init__(self, port: int) -> None:
        self._target, self.refuses, self.cuts = port, False, 0
        self._word: bytes | None = None
        self._when = "before"
        self._lines: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_at(self, word: bytes, when: str) -> None:
        """Cut once, at the next time that a client sends this word."""
        self._word, self._when = word, when

    def cut_all(self) -> None:
        for line in list(self._lines):
            self._close(line)

    def close(self) -> None:
        self.refuses = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut_all()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self.refuses:
                    client.close()
                    continue
                server = socket.create_connection(("127.0.0.1", self._target))
                self._lines |= {client, server}
                threading.Thread(target=self._pass_on, args=(client, server, True), daemon=True).start()
                threading.Thread(target=self._pass_on, args=(server, client, False), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, asked: bool) -> None:
        with suppress(OSError):
            while block := source.recv(65536):
                if asked and self._word is not None and self._word in block:
                    self._word, self.cuts = None, self.cuts + 1
                    while self._when == "silent" and source in self._lines:
                        time.sleep(0.05)
                    self._close(source)
                    if self._when == "before":
                        break
                    time.sleep(1.0 if self._when == "late" else 0.0)
                    target.sendall(block)
                    while target.recv(65536)[-6:-5] != b"Z":  # until the server is ready for the next query
                        pass
                    break
                target.sendall(block)
        self._close(source)
        self._close(target)

    def _close(self, line: socket.socket) -> None:
        self._lines.discard(line)
        with suppress(OSError):
            line.shutdown(socket.SHUT_RDWR)
        line.close()


@contextmanager
def run_proxy(port: int) -> Iterator[CuttingProxy]:
    proxy = CuttingProxy(port)
    try:
        yield proxy
    finally:
        proxy.close()
