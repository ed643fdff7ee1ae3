"""What the documents say is compared with what is, and their snippets run."""

import re
import sys
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from ag_ui.core import (
    RunAgentInput,
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
)

from tests.conftest import Server
from tests.gateway.hosts import served
from tests.gateway.stack import read_frames, run_body
from threadkeep.models.client import default_client
from threadkeep.settings import Settings, help_of
from threadkeep.testing.agents import ScriptedAgent

ROOT = Path(__file__).parent.parent
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "ARCHITECTURE.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
EVENTS = [
    RunStartedEvent(thread_id="thread-1", run_id="run-1"),
    TextMessageStartEvent(message_id="a1", role="assistant"),
    TextMessageContentEvent(message_id="a1", delta="Hello to you."),
    TextMessageEndEvent(message_id="a1"),
    RunFinishedEvent(thread_id="thread-1", run_id="run-1"),
]


def snippet(document: str, marker: str) -> str:
    text = (ROOT / document).read_text()
    found = re.search(rf"<!-- snippet: {re.escape(marker)} -->\n```python\n(.*?)```", text, re.DOTALL)
    assert found, f"{document} has no snippet marked {marker!r}"
    return found[1]


def execute(code: str, **names: Any) -> dict[str, Any]:
    module: dict[str, Any] = {"__name__": "snippet", **names}
    exec(compile(code, "snippet", "exec"), module)
    return module


def test_every_setting_is_in_the_docs_with_its_variable_default_and_help() -> None:
    text = (ROOT / "docs/memory-service.md").read_text()

    for item in fields(Settings):
        option, variable = f"--{item.name.replace('_', '-')}", f"THREADKEEP_{item.name.upper()}"
        default = "" if item.default is None else f" {item.default}"
        assert f"| `{option}` | `{variable}` |{default} | {help_of(item.name)} |" in text


def test_every_link_between_documents_leads_somewhere() -> None:
    for document in DOCUMENTS:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name} -> {target}"


def test_the_rooms_of_the_house_are_those_of_the_tree() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    rooms = {path.stem for path in (ROOT / "src/threadkeep").iterdir() if not path.name.startswith(("_", "py."))}

    assert {room for room in rooms if not re.search(rf"\b{room}\b", text)} == set()


def test_the_extras_of_the_readme_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    named = set(re.findall(r"`threadkeep\[([a-z-]+)\]`", (ROOT / "README.md").read_text()))
    assert named == set(project["optional-dependencies"])
    assert [re.split(r"[<>=]", name)[0] for name in project["dependencies"]] == ["httpx", "pydantic"]


def test_the_version_is_the_same_everywhere() -> None:
    import threadkeep

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert threadkeep.__version__ == project["version"]


def test_the_readmes_snippet_keeps_a_chat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    execute(snippet("README.md", "runs"))
    execute(snippet("README.md", "runs"))

    assert capsys.readouterr().out.split("\n")[-3:] == ["1 Hello!", "2 Hello!", ""]


def test_the_readmes_sdk_snippet_runs_against_a_server(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("THREADKEEP_ENDPOINT", f"{server.url}/api/v2")
    monkeypatch.setenv("THREADKEEP_API_TOKEN", server.token)

    try:
        execute(snippet("README.md", "needs a server"))
    finally:
        # The connection that was made from the environment belongs to this server.
        default_client().close()

    assert capsys.readouterr().out == "{'content': 'Hello!'}\n"


async def test_the_quick_start_of_chat_history_runs_against_a_server(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("THREADKEEP_ENDPOINT", f"{server.url}/api/v2")
    monkeypatch.setenv("THREADKEEP_API_TOKEN", server.token)
    module = execute(snippet("docs/chat-history.md", "runs with an inner agent"))

    await module["main"](ScriptedAgent(EVENTS))

    lines = capsys.readouterr().out.strip().split("\n")
    assert len(lines) == len(EVENTS) + 2
    assert "Hello!" in lines[-2]
    assert "Hello to you." in lines[-1]
    assert "complete" in lines[-1]


async def test_the_mounted_gateway_of_the_docs_carries_runs_out_for_the_users_of_its_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    module = execute(snippet("docs/gateway.md", "mounted"))

    async with (
        served(module["app"]) as url,
        httpx.AsyncClient(base_url=f"{url}/agui/", trust_env=False, timeout=60) as http,
    ):
        refused = await http.get("threads/")
        http.cookies.set("user", "ann")
        ran = await http.post("", json=run_body())
        (thread,) = (await http.get("threads/")).json()["items"]

    assert refused.status_code == 401
    assert (read_frames(ran.content)[-1].type, thread["threadId"]) == ("RUN_FINISHED", "t1")


async def test_the_durable_log_of_the_docs_keeps_a_run(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    module = execute(snippet("docs/chat-history.md", "runs in a durable log"))

    await module["run_to_its_end"](
        database, uuid4(), ScriptedAgent(EVENTS), RunAgentInput.model_validate(run_body("thread-1", "run-1"))
    )

    lines = capsys.readouterr().out.strip().split("\n")
    assert [line.partition(" ")[0] for line in lines] == ["0", "1", "2", "3", "4"]
    assert '"RUN_FINISHED"' in lines[-1]


def test_the_documented_rules_for_inputs_are_those_of_the_storage_agent() -> None:
    module = execute(snippet("docs/chat-history.md", "input rules"))

    agent = module["storage_agent"](uuid4(), None, None, ScriptedAgent())

    assert (agent.input_rules.whole, agent.input_rules.strict) == (True, False)


def test_nothing_but_the_clients_is_imported_without_extras() -> None:
    """The light install has httpx and pydantic only."""
    import subprocess

    program = (
        "import sys\n"
        "class Refuse:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in {'starlette', 'msgspec', 'sqlalchemy', 'ag_ui', 'click', 'uvicorn'}:\n"
        "            raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, Refuse())\n"
        "import threadkeep, threadkeep.persistence, threadkeep.models.memory, threadkeep.transport.calls\n"
        "threadkeep.Client\n"
        "for name in ('threadkeep.chat_history', 'threadkeep.cli'):\n"
        "    try:\n"
        "        __import__(name, fromlist=['main']).main()\n"
        "    except (ImportError, SystemExit) as error:\n"
        "        print(error)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert "pip install 'threadkeep[ag-ui]'" in ran.stdout
    assert "pip install 'threadkeep[server]'" in ran.stdout
