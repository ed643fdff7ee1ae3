"""What the gateway stores in the name of a run, once the run is another process's."""

from collections.abc import Callable
from uuid import UUID

import pytest
from starlette.applications import Starlette

from threadkeep.api.app import create_app
from threadkeep.chat_history import ChatCreate, MessageCreate, MessageUpdate
from threadkeep.domain.principal import Principal
from threadkeep.domain.run import Run
from threadkeep.gateway.histories import Histories, History, in_the_name_of
from threadkeep.persistence import DRMemoryServiceError
from threadkeep.services.container import Container
from threadkeep.settings import Settings


@pytest.fixture
async def principal(container: Container) -> Principal:
    return await container.tokens.local_principal("alice")


async def begin(container: Container, history: History, owner: str) -> tuple[UUID, Run]:
    chat = await history.chats.create_chat(ChatCreate(user_uuid=history.user_uuid, thread_id="t1"))
    run = await container.runs.begin(
        history.principal, history.space_id, chat.id, run_id="r1", parent_run_id=None, owner=owner, lease_seconds=60
    )
    return chat.chat_uuid, run


def said(chat_uuid: UUID, content: str = "One") -> MessageCreate:
    return MessageCreate(chat_uuid=chat_uuid, role="assistant", content=content, run_id="r1")


async def test_messages_in_the_name_of_a_run_that_was_lost_are_refused(
    container: Container, app: Starlette, principal: Principal
) -> None:
    history = await Histories(app).of(principal)
    chat_uuid, run = await begin(container, history, "asleep")
    with in_the_name_of(run):
        message = await history.messages.create_message(said(chat_uuid))
    await container.runs.renew("asleep", -1)
    (found,) = await container.runs.expired()
    assert await container.runs.take_over(found, "awake", 60)

    writes: list[Callable[[], object]] = [
        lambda: history.messages.create_message(said(chat_uuid, "Two")),
        lambda: history.messages.update_message(message.message_uuid, MessageUpdate(content="One and")),
    ]
    with in_the_name_of(run):
        for write in writes:
            with pytest.raises(DRMemoryServiceError, match="is not held by 'asleep' any more") as refused:
                await write()  # type: ignore[misc]
            assert refused.value.status_code == 410
    elsewhere = await Histories(app).of(principal)
    assert [each.content for each in await elsewhere.messages.get_chat_messages(chat_uuid)] == ["One"]
    # What is done in nobody's name goes on, in the same chat too.
    await history.messages.create_message(said(chat_uuid, "Three"))


async def test_the_fence_of_a_run_means_nothing_on_another_database(
    container: Container, app: Starlette, principal: Principal, tmp_path: object
) -> None:
    history = await Histories(app).of(principal)
    _, run = await begin(container, history, "o")
    other = await Container.open(Settings(database=f"sqlite:///{tmp_path}/other.db"))
    try:
        with in_the_name_of(run):
            beside = await Histories(create_app(other)).of(await other.tokens.local_principal("alice"))
            chat = await beside.chats.create_chat(ChatCreate(user_uuid=beside.user_uuid, thread_id="t1"))
            await beside.messages.create_message(said(chat.chat_uuid))
        assert [each.content for each in await beside.messages.get_chat_messages(chat.chat_uuid)] == ["One"]
    finally:
        await other.close()
