"""A page in Node, told what to do by a test: commands go in as lines, answers and what its agents see come out."""

import itertools
import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Json = dict[str, Any]
FOLDER = Path(__file__).parent
_WAIT_SECONDS = 60


class PageError(Exception):
    """A command failed in the page."""


class Command:
    """One that was sent."""

    def __init__(self, page: "Page", id: int) -> None:
        self._page = page
        self._id = id

    def result(self) -> Any:
        """What it answers. Raises PageError."""
        answer = self._page.until(lambda: self._page.answers.get(self._id), "an answer")
        if "error" in answer:
            raise PageError(answer["error"])
        return answer["answer"]


class Page:
    """One Node process. `seen` has the events that each of its agents has seen."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.answers: dict[int, Json] = {}
        self.seen: dict[str, list[Json]] = {}
        self._process = process
        self._ids = itertools.count()
        self._news = threading.Condition()
        self._is_over = False

    def start(self, command: str, **fields: Any) -> Command:
        """Begin a command."""
        id = next(self._ids)
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"id": id, "command": command, **fields}) + "\n")
        self._process.stdin.flush()
        return Command(self, id)

    def do(self, command: str, **fields: Any) -> Any:
        """Begin a command and wait for its answer. Raises PageError."""
        return self.start(command, **fields).result()

    def wait_for(self, agent: str, type: str, count: int = 1) -> None:
        """Until an agent has seen so many events of a type."""
        self.until(
            lambda: [event["type"] for event in self.seen.get(agent, [])].count(type) >= count, f"{agent}: {type}"
        )

    def until(self, found: Callable[[], Any], what: str) -> Any:
        """What `found` finds, as soon as it finds something."""
        with self._news:
            ok = self._news.wait_for(lambda: found() or self._is_over, _WAIT_SECONDS)
            result = found()
        assert result, f"the page {'ended' if ok else 'waits'}; missing is {what}; seen: {self.seen}"
        return result

    def read(self) -> None:
        """Take in what the page says, until it ends."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            with self._news:
                if "saw" in said:
                    self.seen.setdefault(said["agent"], []).append(said["saw"])
                else:
                    self.answers[said["id"]] = said
                self._news.notify_all()
        with self._news:
            self._is_over = True
            self._news.notify_all()


@contextmanager
def opened(script: str, folder: str, url: str, token: str, *more: str) -> Iterator[Page]:
    """A page that runs a script of this folder with the client that is installed in `folder`."""
    command = ["node", str(FOLDER / script), str(FOLDER / folder), url, token, *more]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        page = Page(process)
        reader = threading.Thread(target=page.read, daemon=True)
        reader.start()
        try:
            yield page
        finally:
            process.kill()
            reader.join()
