"""The snapshot store, by itself and in the framework's own AG-UI endpoint."""

import asyncio
import json
from typing import Any

import httpx
import pytest
from agent_framework import Agent
from agent_framework_ag_ui import (
    AGUIThreadSnapshot,
    AGUIThreadSnapshotStore,
    add_agent_framework_fastapi_endpoint,
)
from fastapi import FastAPI

from tests.integrations.agent_framework.scripted import ScriptedClient, call
from tests.integrations.agent_framework.tools import f
from threadkeep.integrations.agent_framework import ThreadkeepSnapshotStore
from threadkeep.persistence import DRMemorySpace
from threadkeep.transport.in_process import InProcessTransport

SAID: list[dict[str, Any]] = [{"id": "m1", "role": "user", "content": "hi"}]
WHOLE = AGUIThreadSnapshot(
    messages=SAID,
    state={"a": {"b": [1, None]}},
    interrupt=[{"id": "i1", "value": {"x": 1}}],
    session_state={"in_memory": {"messages": []}, "service_session_id": "resp_1"},
)


def test_it_is_a_snapshot_store(space: DRMemorySpace) -> None:
    assert isinstance(ThreadkeepSnapshotStore(space), AGUIThreadSnapshotStore)


async def test_a_snapshot_comes_back_as_it_was_in_another_process(space: DRMemorySpace) -> None:
    assert await ThreadkeepSnapshotStore(space).get(scope="ann", thread_id="t") is None
    await ThreadkeepSnapshotStore(space).save(scope="ann", thread_id="t", snapshot=WHOLE)
    assert await ThreadkeepSnapshotStore(space).get(scope="ann", thread_id="t") == WHOLE


async def test_the_latest_snapshot_stands(space: DRMemorySpace) -> None:
    store = ThreadkeepSnapshotStore(space)
    await store.save(scope="ann", thread_id="t", snapshot=WHOLE)
    await store.save(scope="ann", thread_id="t", snapshot=AGUIThreadSnapshot(messages=SAID * 2))
    assert await store.get(scope="ann", thread_id="t") == AGUIThreadSnapshot(messages=SAID * 2)


async def test_of_many_that_are_saved_at_once_one_stands(space: DRMemorySpace) -> None:
    stores = [ThreadkeepSnapshotStore(space) for _ in range(4)]
    saves = [AGUIThreadSnapshot(messages=SAID * count) for count in range(1, 5)]
    await asyncio.gather(
        *(
            store.save(scope="ann", thread_id="t", snapshot=snapshot)
            for store, snapshot in zip(stores, saves, strict=True)
        )
    )
    assert await ThreadkeepSnapshotStore(space).get(scope="ann", thread_id="t") in saves


async def test_scopes_do_not_see_each_other(space: DRMemorySpace) -> None:
    store = ThreadkeepSnapshotStore(space)
    await store.save(scope="ann", thread_id="t", snapshot=WHOLE)
    assert await store.get(scope="ben", thread_id="t") is None
    assert await store.delete(scope="ben", thread_id="t") is False


async def test_a_deleted_snapshot_is_gone_and_can_be_made_anew(space: DRMemorySpace) -> None:
    store, other = ThreadkeepSnapshotStore(space), ThreadkeepSnapshotStore(space)
    await store.save(scope="ann", thread_id="t", snapshot=WHOLE)
    assert await other.delete(scope="ann", thread_id="t") is True
    assert await store.get(scope="ann", thread_id="t") is None
    assert await store.delete(scope="ann", thread_id="t") is False
    await store.save(scope="ann", thread_id="t", snapshot=WHOLE)
    assert await other.get(scope="ann", thread_id="t") == WHOLE


async def test_a_scope_can_be_cleared_and_so_can_all(space: DRMemorySpace) -> None:
    store = ThreadkeepSnapshotStore(space)
    for scope, thread_id in (("ann", "1"), ("ann", "2"), ("ben", "1")):
        await store.save(scope=scope, thread_id=thread_id, snapshot=WHOLE)
    await store.clear(scope="ann")
    assert [await store.get(scope=scope, thread_id="1") for scope in ("ann", "ben")] == [None, WHOLE]
    await store.clear()
    assert await store.get(scope="ben", thread_id="1") is None


@pytest.mark.parametrize(("scope", "thread_id"), [("", "t"), ("ann", "")])
async def test_a_snapshot_of_nobody_or_nothing_is_refused(space: DRMemorySpace, scope: str, thread_id: str) -> None:
    with pytest.raises(ValueError, match="needs a"):
        await ThreadkeepSnapshotStore(space).save(scope=scope, thread_id=thread_id, snapshot=WHOLE)


async def test_the_frameworks_endpoint_goes_on_from_it(space: DRMemorySpace) -> None:
    model = ScriptedClient([call("c1")], ["Hello"], ["fine"])
    app = FastAPI()
    add_agent_framework_fastapi_endpoint(
        app,
        Agent(model, tools=[f]),
        "/agent",
        snapshot_store=ThreadkeepSnapshotStore(space),
        snapshot_scope_resolver=lambda _: "ann",
    )
    async with httpx.AsyncClient(transport=InProcessTransport(app), timeout=60, base_url="http://t") as http:
        for text in ("hi", "next"):
            message = {"id": f"m-{text}", "role": "user", "content": text}
            response = await http.post("/agent", json={"threadId": "t", "runId": text, "messages": [message]})
            assert "RUN_FINISHED" in response.text
            # An empty run asks for what there is.
        hydrated = await http.post("/agent", json={"threadId": "t", "runId": "r3", "messages": []})
    events = [json.loads(line[6:]) for line in hydrated.text.splitlines() if line.startswith("data: ")]
    snapshot = next(event for event in events if event["type"] == "MESSAGES_SNAPSHOT")
    contents = [message.get("content") for message in snapshot["messages"]]
    assert [content for content in contents if content] == ["hi", "r", "Hello", "next", "fine"]
