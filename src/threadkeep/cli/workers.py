"""Several processes that serve one socket, and the parent that keeps them running.

The parent listens, migrates and supervises; it serves nothing itself. Each worker has services of its own, opened and
closed by the lifespan of its application, which uvicorn runs after the last answer.
"""

import asyncio
import logging
import os
import signal
import socket
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from functools import partial
from multiprocessing import parent_process

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn import Config
from uvicorn.supervisors import Multiprocess

from threadkeep.cli.listening import Announce, listen, url_of
from threadkeep.cli.observing import observed
from threadkeep.cli.running import errors_in_one_line, run, with_container
from threadkeep.cli.serving import (
    GRACE_SECONDS,
    application,
    first_token,
    say_no_before_stopping,
    uvicorn_config,
)
from threadkeep.errors import ThreadkeepError
from threadkeep.services.container import Container
from threadkeep.settings import Settings
from threadkeep.telemetry import logs, metrics

_log = logging.getLogger("threadkeep.serve")
_HUNG_SECONDS = 30
"""A worker that shows no sign of life for so long is killed, and another takes its place."""
_CLOSING_SECONDS = 10
"""What a worker may take, beyond the grace of its requests, to end what it began and close the database."""


def serve_with_workers(settings: Settings, announce: Announce) -> None:
    """Serve until a signal asks to stop. Raises click.ClickException."""
    with (
        errors_in_one_line(),
        logs.configured(level=settings.log_level, form=settings.log_format),
        listen(settings.host, settings.port) as listener,
        tempfile.TemporaryDirectory(prefix="threadkeep-") as folder,
    ):
        secret = run(with_container(settings, lambda container: first_token(container, settings)))
        os.environ[metrics.MULTIPROCESS_FOLDER] = folder
        config = uvicorn_config(
            partial(_Worker, settings),
            factory=True,
            lifespan="on",
            workers=settings.workers,
            timeout_worker_healthcheck=_HUNG_SECONDS,
        )
        patience = settings.stop_delay + GRACE_SECONDS + _CLOSING_SECONDS
        supervisor = _Supervisor(config, [listener], folder, patience)
        announce(url_of(settings.host, listener), secret)
        sys.stdout.flush()
        supervisor.run()
        if not supervisor.was_asked_to_stop:
            raise ThreadkeepError("A worker could not start; the log says why")


class _Supervisor(Multiprocess):
    """Starts the workers, replaces those that die, and stops them all at a signal."""

    def __init__(self, config: Config, sockets: list[socket.socket], folder: str, patience: float) -> None:
        super().__init__(config, sockets)
        self._folder = folder
        self._patience = patience
        self._pids: set[int] = set()
        self.was_asked_to_stop = False

    def keep_subprocess_alive(self) -> None:
        """Called twice a second, and so also soon after workers were replaced at a SIGHUP."""
        super().keep_subprocess_alive()
        pids = {process.pid for process in self.processes if process.pid is not None}
        for pid in self._pids - pids:
            metrics.forget_process(pid, self._folder)
        self._pids = pids

    def handle_int(self) -> None:
        self.was_asked_to_stop = True
        super().handle_int()

    def handle_term(self) -> None:
        self.was_asked_to_stop = True
        super().handle_term()

    def join_all(self) -> None:
        """Wait for the workers to stop, and no longer than they may take."""
        deadline = time.monotonic() + self._patience
        for process in self.processes:
            process.process.join(max(0.0, deadline - time.monotonic()))
            if process.process.is_alive():
                process.process.kill()
                process.process.join()


class _Worker:
    """The application of one worker: everything that it needs is opened at its start."""

    def __init__(self, settings: Settings) -> None:
        # The process is all this worker's: until it ends, the log is as the settings say.
        logs.configure(level=settings.log_level, form=settings.log_format)
        self._settings = settings
        self._app: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif self._app is not None:
            await self._app(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        async with AsyncExitStack() as stack:
            try:
                observers = stack.enter_context(observed(self._settings))
                container = await Container.open(self._settings, **observers._asdict())
                stack.push_async_callback(container.close)
                self._app = await stack.enter_async_context(application(container))
                say_no_before_stopping(container.health, self._settings.stop_delay)
                _stop_with_the_parent()
            except Exception as error:
                if isinstance(error, ThreadkeepError):
                    _log.error("cannot start: %s", error)
                else:
                    _log.exception("cannot start")
                await send({"type": "lifespan.startup.failed", "message": ""})
                return
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})


def _stop_with_the_parent() -> None:
    """Workers whose parent was killed would go on to hold the port, and nobody would keep them running."""
    parent = parent_process()
    if parent is not None:
        loop = asyncio.get_running_loop()
        loop.add_reader(parent.sentinel, _stop, loop, parent.sentinel)


def _stop(loop: asyncio.AbstractEventLoop, sentinel: int) -> None:
    loop.remove_reader(sentinel)
    os.kill(os.getpid(), signal.SIGTERM)
