"""The flag of archived threads beside what others change at the same time."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.applications import Starlette

from tests.gateway.stack import Client, open_client, serve
from threadkeep.errors import NotFound, SessionVersionMismatch
from threadkeep.gateway.agents import agents_of
from threadkeep.gateway.archive import Archive
from threadkeep.gateway.histories import Histories, History
from threadkeep.services.container import Container
from threadkeep.services.sessions import Sessions
from threadkeep.testing.agents import ScriptedAgent

EVENTS = [{"type": "RUN_STARTED"}, {"type": "RUN_FINISHED"}]


@pytest.fixture
async def alice(container: Container, app: Starlette, token: str) -> AsyncIterator[Client]:
    async with (
        serve(container, app, agents_of(ScriptedAgent(EVENTS))) as gateway,
        open_client(gateway, token) as client,
    ):
        await client.run()
        yield client


@pytest.fixture
async def history(container: Container, app: Starlette, token: str) -> History:
    return await Histories(app).of(await container.tokens.authenticate(f"Bearer {token}", None))


def changing_before_each_patch(monkeypatch: pytest.MonkeyPatch, client: Client, times: int) -> None:
    """Somebody renames the thread between what `Archive` reads and what it writes."""
    patch, left = Sessions.patch, [f"name {n}" for n in range(times)]

    async def patched(self: Sessions, *args: Any, **options: Any) -> Any:
        if "expected_version" in options and left and not busy:
            busy.append(True)
            answer = await client.http.patch("/agui/threads/t1/", json={"name": left.pop(0)})
            assert answer.status_code == 200
            busy.pop()
        return await patch(self, *args, **options)

    busy: list[bool] = []
    monkeypatch.setattr(Sessions, "patch", patched)


async def test_a_thread_that_is_renamed_meanwhile_keeps_its_new_name(
    container: Container, alice: Client, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = Archive(container)
    changing_before_each_patch(monkeypatch, alice, 2)
    await archive.put(history, "t1", archived=True)
    assert await archive.is_archived(history, "t1")
    assert (await alice.get("/threads/t1/"))["name"] == "name 1"


async def test_one_who_is_always_too_late_is_told_so(
    container: Container, alice: Client, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = Archive(container)
    changing_before_each_patch(monkeypatch, alice, 5)
    with pytest.raises(SessionVersionMismatch):
        await archive.put(history, "t1", archived=True)
    assert not await archive.is_archived(history, "t1")


async def test_what_is_so_already_changes_nothing(container: Container, alice: Client, history: History) -> None:
    archive = Archive(container)
    page = await archive.page(history, 1, None, with_archived=False)
    await archive.put(history, "t1", archived=False)
    assert (await archive.page(history, 1, None, with_archived=False)).items == page.items


async def test_a_thread_that_is_none_cannot_be_archived(container: Container, alice: Client, history: History) -> None:
    with pytest.raises(NotFound):
        await Archive(container).put(history, "none", archived=True)
