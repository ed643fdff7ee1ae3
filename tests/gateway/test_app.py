"""The gateway beside the Memory Service, and users who are kept apart."""

from dataclasses import replace

import httpx
import pytest
from starlette.applications import Starlette

from tests.gateway.raw_server import SSE_HEAD, raw_server, saying
from tests.gateway.stack import Client, run_body
from threadkeep.domain.principal import Principal
from threadkeep.gateway.agents import BadAgent
from threadkeep.gateway.app import open_gateway
from threadkeep.gateway.histories import SPACE_KEY, Histories, user_uuid
from threadkeep.services.container import Container
from threadkeep.transport.in_process import InProcessTransport


def with_settings(container: Container, **changes: str) -> Container:
    return replace(container, settings=replace(container.settings, **changes))


async def test_one_application_serves_both_apis(container: Container, app: Starlette, token: str) -> None:
    async with raw_server(saying(SSE_HEAD, b'data: {"type":"RUN_FINISHED"}\n\n')) as upstream:
        configured = with_settings(container, upstream=upstream.url)
        async with (
            open_gateway(configured, app) as both,
            httpx.AsyncClient(
                transport=InProcessTransport(both),
                timeout=60,
                base_url="http://threadkeep.test",
                headers={"Authorization": f"Bearer {token}"},
            ) as http,
        ):
            assert [frame.type for frame in await Client(http).run()] == ["RUN_FINISHED"]
            spaces = (await http.get("/api/v2/memory/")).json()["items"]
            assert [space["deduplicationKey"] for space in spaces] == [SPACE_KEY]
            sessions = f"/api/v2/memory/{spaces[0]['memorySpaceId']}/sessions/"
            listed = await http.get(sessions, params={"description": "//thread/"})
            assert [session["description"] for session in listed.json()["items"]] == ["//thread/t1/"]
            lost = await http.post("/agui", json=run_body())
            assert lost.json()["detail"] == "There is nothing at /agui; every path ends in a slash: /agui/"


async def test_an_agent_that_cannot_be_used_is_said_at_the_start(container: Container, app: Starlette) -> None:
    with pytest.raises(BadAgent, match="There is no module 'no_such_module'"):
        async with open_gateway(with_settings(container, agent="no_such_module:agent"), app):
            pass
    with pytest.raises(BadAgent, match="is no http or https URL"):
        async with open_gateway(with_settings(container, upstream="nonsense"), app):
            pass


def test_a_user_always_has_the_same_uuid_and_no_other_user_has_it() -> None:
    alice = Principal("a" * 24, "0b0f2b8e-9a55-4c11-8f0e-0d4a35f8ad10")
    assert str(user_uuid(alice)) == "d0c8f3fa-2c12-5474-abae-c3e1b36ee2e3"
    assert user_uuid(replace(alice, token_id="x", may_act_for=True)) == user_uuid(alice)
    assert user_uuid(replace(alice, user_id="b" * 24)) != user_uuid(alice)
    assert user_uuid(replace(alice, tenant_id="another")) != user_uuid(alice)


async def test_a_history_is_opened_once_per_user(container: Container, app: Starlette) -> None:
    histories = Histories(app)
    alice = await container.tokens.local_principal("alice")
    bob = await container.tokens.local_principal("bob")
    assert await histories.of(alice) is await histories.of(replace(alice, token_id="x"))
    assert (await histories.of(alice)).space_id != (await histories.of(bob)).space_id
    assert (await Histories(app).of(alice)).space_id == (await histories.of(alice)).space_id
