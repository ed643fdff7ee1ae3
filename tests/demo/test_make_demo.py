"""`make demo`, as a newcomer meets it: the lines that it prints are pasted into a shell."""

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path


class Demo:
    """The demo in a process of its own, in an empty folder."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self._folder = folder
        self._environment = {key: value for key, value in os.environ.items() if not key.startswith("OPENAI_")}
        self._environment |= {"THREADKEEP_PORT": str(port), "THREADKEEP_DEMO_PAUSE": "0"}
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "threadkeep.demo"]
        self._process = subprocess.Popen(
            command, cwd=self._folder, env=self._environment, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.printed = ""
        while "kill -9" not in self.printed:
            line = self._process.stdout.readline()
            assert line, f"the demo ended: {self.printed}"
            self.printed += line

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def paste(self, pattern: str) -> str:
        """Run the command of the printed lines that match."""
        found = re.search(pattern, self.printed, re.DOTALL)
        assert found, self.printed
        return subprocess.run(["bash", "-c", found[0]], capture_output=True, text=True, check=True).stdout


RUN = r"curl -sN .*?}'"
HISTORY = r"curl -s .*?json\.tool"


def test_the_run_streams_and_its_history_survives_kill_9(tmp_path: Path) -> None:
    demo = Demo(tmp_path)
    try:
        stream = demo.paste(RUN)
        before = json.loads(demo.paste(HISTORY))
        demo.kill()
        demo.start()
        after = json.loads(demo.paste(HISTORY))
    finally:
        demo.kill()

    kinds = [json.loads(line[6:])["type"] for line in stream.split("\n") if line.startswith("data: ")]
    order = [kind for kind in dict.fromkeys(kinds) if kind.endswith(("_START", "_STARTED", "_RESULT", "_FINISHED"))]
    assert order == [
        "RUN_STARTED",
        "REASONING_START",
        "REASONING_MESSAGE_START",
        "TEXT_MESSAGE_START",
        "TOOL_CALL_START",
        "TOOL_CALL_RESULT",
        "RUN_FINISHED",
    ]
    assert kinds.count("TEXT_MESSAGE_START") == 2
    assert kinds.count("TEXT_MESSAGE_CONTENT") > 4
    user, looking, answer = before["items"]
    assert (user["role"], user["content"]) == ("user", "What is the weather in Oslo?")
    assert [reasoning["status"] for reasoning in looking["reasonings"]] == ["complete"]
    (call,) = looking["toolCalls"]
    assert (call["name"], json.loads(call["arguments"])) == ("weather", {"city": "Oslo"})
    assert json.loads(call["content"])["celsius"] == 7
    assert "7 °C in Oslo" in answer["content"]
    assert {message["status"] for message in before["items"]} == {"complete"}
    assert after == before
