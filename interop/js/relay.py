"""A TCP relay between a page and the server that cuts what passes through it, as a network does."""

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_RESET = struct.pack("ii", 1, 0)
"""Linger for no time: the socket closes with a reset."""


class Relay:
    """Passes connections on to `port` until it is told to cut them. While it is `shut` it takes none."""

    def __init__(self, port: int) -> None:
        self.cuts = 0
        self._target = port
        self._is_open = threading.Event()
        self._is_open.set()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def cut(self, *, shut: bool = False) -> None:
        """Reset every connection; with `shut`, refuse new ones until `reopen`."""
        if shut:
            self._is_open.clear()
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                    end.shutdown(socket.SHUT_RDWR)
                end.close()
        self.cuts += len(pairs)

    def reopen(self) -> None:
        """Take connections again."""
        self._is_open.set()

    def serve(self) -> None:
        """Take connections until the listener is closed."""
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if not self._is_open.is_set():
                near.close()
                continue
            far = socket.create_connection(("127.0.0.1", self._target))
            with self._lock:
                self._pairs.append((near, far))
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=_pump, args=(source, sink), daemon=True).start()

    def close(self) -> None:
        """Cut everything and stop."""
        # A thread that waits in accept() is woken by a shutdown, not by a close.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()


@contextmanager
def relaying(port: int) -> Iterator[Relay]:
    """A relay to a port of this machine."""
    relay = Relay(port)
    thread = threading.Thread(target=relay.serve, daemon=True)
    thread.start()
    try:
        yield relay
    finally:
        relay.close()
        thread.join()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65_536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass
