"""Every route of the gateway, called by somebody else and by nobody."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.applications import Starlette

from tests.api.walk import Step, steps, without_ids
from tests.gateway.stack import Client, open_client, run_body, serve
from threadkeep.gateway.agents import agents_of
from threadkeep.services.container import Container
from threadkeep.testing.agents import ScriptedAgent

ANSWER = [
    {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m1", "role": "assistant", "delta": "Yes"},
    {"type": "RUN_FINISHED", "threadId": "-", "runId": "-"},
]
HERS = {"thread_id": "hers", "run_id": "r-hers", "interrupt_id": "i-hers", "agent_id": "default"}
NOTHING = {"thread_id": "none", "run_id": "r-none", "interrupt_id": "i-none", "agent_id": "default"}


@pytest.fixture
async def gateway(container: Container, app: Starlette) -> AsyncIterator[Starlette]:
    async with serve(container, app, agents_of(ScriptedAgent(ANSWER))) as opened:
        yield opened


@pytest.fixture
async def alice(gateway: Starlette, token: str) -> AsyncIterator[Client]:
    """A user with a thread that ran once."""
    async with open_client(gateway, token) as client:
        await client.run(thread=HERS["thread_id"], run=HERS["run_id"])
        yield client


def body_of(step: Step) -> dict[str, Any] | None:
    if step.path == "/agui/":
        return run_body(thread=HERS["thread_id"], run="r-new")
    if is_opened_empty(step):
        return {"runId": "r-new"}
    return {"name": "taken"} if step.method == "PATCH" else None


def is_opened_empty(step: Step) -> bool:
    """Whether a thread that is not there is an empty one: clients open threads in which nothing was said yet."""
    return (step.method, step.path) == ("POST", "/agui/threads/{thread_id}/connect/")


def is_empty_to_them(step: Step) -> bool:
    """Whether a thread that is not there may be an empty one: to CopilotKit's clients many are."""
    return is_opened_empty(step) or step.path.startswith("/copilotkit/")


async def seen(client: Client) -> list[Any]:
    return [await client.get("/threads/"), await client.messages("hers"), await client.runs("hers")]


async def test_another_users_thread_is_answered_as_one_that_never_was(
    gateway: Starlette, alice: Client, container: Container
) -> None:
    """Field case 125."""
    before = await seen(alice)
    _, bobs = await container.tokens.create(user="bob", name="bob")
    walked = 0

    async with open_client(gateway, bobs) as bob:
        for step in steps(gateway):
            if not step.names("thread_id"):
                continue
            answers = [
                without_ids(await bob.http.request(step.method, step.url(ids), json=body_of(step)), ids)
                for ids in (HERS, NOTHING)
            ]
            assert answers[0] == answers[1], step
            assert answers[0][0] == 404 or (answers[0][0] == 200 and is_empty_to_them(step)), step
            walked += 1
        assert await bob.get("/threads/") == {"items": [], "cursor": None}

    assert walked > 6
    assert await seen(alice) == before


async def test_a_thread_of_the_same_name_is_a_thread_of_ones_own(
    gateway: Starlette, alice: Client, container: Container
) -> None:
    before = await seen(alice)
    _, bobs = await container.tokens.create(user="bob", name="bob")

    async with open_client(gateway, bobs) as bob:
        await bob.run(thread=HERS["thread_id"], run=HERS["run_id"], text="his")
        assert [message["content"] for message in await bob.messages("hers")] == ["his", "Yes"]

    assert await seen(alice) == before


async def test_no_route_answers_without_a_token_that_is_alive(
    gateway: Starlette, alice: Client, container: Container
) -> None:
    _, expired = await container.tokens.create(user="alice", name="expired", expires_in=-1)
    token, revoked = await container.tokens.create(user="alice", name="revoked")
    await container.tokens.revoke(token.id)
    before = await seen(alice)

    for step in steps(gateway):
        for header in ("", "Bearer", "Bearer nonsense", f"Token {expired}", f"Bearer {revoked}", f"Basic {revoked}"):
            found = await alice.http.request(
                step.method, step.url(HERS), json=body_of(step), headers={"Authorization": header}
            )
            assert found.status_code == 401, (step, header)
            assert found.headers["WWW-Authenticate"] == "Bearer"

    assert await seen(alice) == before
