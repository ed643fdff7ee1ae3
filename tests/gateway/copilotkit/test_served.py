"""CopilotKit's routes where they are served: below a mount in other applications, and by `threadkeep serve`."""

import asyncio
from pathlib import Path

import httpx
import pytest

from tests.conftest import Server
from tests.gateway.hosts import HOSTS, Host, served
from tests.gateway.stack import read_frames, run_body
from threadkeep.gateway import create_app
from threadkeep.testing.agents import ScriptedAgent

EVENTS = [
    {"type": "RUN_STARTED", "threadId": "t1", "runId": "r1"},
    {"type": "RUN_FINISHED", "threadId": "t1", "runId": "r1"},
]
PAGE = "https://app.example.com"


@pytest.mark.parametrize("host", HOSTS)
async def test_a_mounted_gateway_is_a_runtime_for_the_users_of_its_host(tmp_path: Path, host: Host) -> None:
    database = f"sqlite:///{tmp_path}/t.db"
    gateway = create_app(
        agent=ScriptedAgent(EVENTS), database=database, authenticate=lambda request: request.cookies.get("user")
    )
    async with (
        served(host("/api/chat", gateway)) as url,
        httpx.AsyncClient(base_url=f"{url}/api/chat/copilotkit", trust_env=False) as http,
    ):
        refused = await http.get("/info")
        http.cookies.set("user", "ann")
        info = await http.get("/info")
        by_envelope = await http.post(f"{url}/api/chat/copilotkit", json={"method": "info"})
        ran = await http.post("/agent/default/run", json=run_body(thread="a/b %2F"))
        archived = await http.post("/threads/a%2Fb%20%252F/archive", json={"agentId": "default"})
        mine = await http.get("/threads?includeArchived=true")
        http.cookies.set("user", "bob")
        his = await http.get("/threads?includeArchived=true")
    assert refused.status_code == 401
    assert list(info.json()["agents"]) == ["default"]
    assert by_envelope.json() == info.json()
    assert [frame.type for frame in read_frames(ran.content)] == ["RUN_STARTED", "RUN_FINISHED"]
    assert archived.json()["archived"] is True
    assert [thread["id"] for thread in mine.json()["threads"]] == ["a/b %2F"]
    assert his.json()["threads"] == []


async def test_a_server_names_its_agent_and_lets_the_pages_of_its_frontend_ask(tmp_path: Path) -> None:
    options = ("--agent", "threadkeep.demo:agent", "--copilotkit-agent", "helper", "--cors-origins", PAGE)
    server = await asyncio.to_thread(Server, f"sqlite:///{tmp_path}/t.db", *options)
    wanted = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
    try:
        async with httpx.AsyncClient(base_url=f"{server.url}/copilotkit", headers={"Origin": PAGE}) as http:
            before = await http.options("/agent/helper/run", headers=wanted)
            info = await http.get("/info", headers={"Authorization": f"Bearer {server.token}"})
    finally:
        await asyncio.to_thread(server.kill)
    assert (before.status_code, before.headers["access-control-allow-origin"]) == (200, PAGE)
    assert before.headers["access-control-allow-headers"] == "authorization,content-type"
    assert info.headers["access-control-allow-origin"] == PAGE
    assert list(info.json()["agents"]) == ["helper"]
