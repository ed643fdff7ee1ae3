"""An AG-UI server whose agent plays what a test has written down for a thread: the events of each of its runs."""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]
Step = Mapping[str, Any] | threading.Event
"""An event of the agent, or a gate at which it waits."""
_WAIT_SECONDS = 60


class Upstream:
    """The agent's server."""

    def __init__(self) -> None:
        self.url = ""
        self.inputs: dict[str, Json] = {}
        self._scripts: dict[str, list[Sequence[Step]]] = {}
        self._next: Sequence[Step] = ()

    def play(self, thread: str, *scripts: Sequence[Step]) -> None:
        """What the agent says in the thread: a script for each run."""
        self._scripts[thread] = list(scripts)

    def play_next(self, script: Sequence[Step]) -> None:
        """What the agent says in the next thread that nothing is written down for: clients make up some ids."""
        self._next = script

    def script_of(self, given: Json) -> Sequence[Step]:
        self.inputs[given["runId"]] = given
        scripts = self._scripts.get(given["threadId"])
        return scripts.pop(0) if scripts else self._next


@contextmanager
def running() -> Iterator[Upstream]:
    """The server, on a port of its own."""
    upstream = Upstream()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """The tests' output is theirs."""

        def do_POST(self) -> None:
            given = json.loads(self.rfile.read(int(self.headers["content-length"])))
            script = upstream.script_of(given)
            left = threading.Event()
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            ids = {"threadId": given["threadId"], "runId": given["runId"]}
            try:
                for step in script:
                    if isinstance(step, threading.Event):
                        self._wait(step, left)
                        continue
                    event = {**step, **ids} if step["type"] in ("RUN_STARTED", "RUN_FINISHED") else step
                    self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")
            except ConnectionError:
                left.set()

        def _wait(self, gate: threading.Event, left: threading.Event) -> None:
            """Until the gate opens; a caller that hangs up ends the wait."""
            watch = threading.Thread(target=self._watch, args=(gate, left), daemon=True)
            watch.start()
            assert gate.wait(_WAIT_SECONDS), "the test left a gate closed"
            if left.is_set():
                raise ConnectionError

        def _watch(self, gate: threading.Event, left: threading.Event) -> None:
            try:
                gone = not self.connection.recv(1)
            except OSError:
                gone = True
            if gone and not gate.is_set():
                left.set()
                gate.set()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    upstream.url = f"http://127.0.0.1:{server.server_port}/agent"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield upstream
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
