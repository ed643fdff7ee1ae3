"""The store that the suite is run against, and what its tests share."""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import pytest

from threadkeep.chat_history import Chat, ChatCreate, ChatRepositoryLike, Message, MessageCreate, MessageRepositoryLike
from threadkeep.chat_history.ag_ui.patience import Verdict, verdict_on


@dataclass(frozen=True, slots=True)
class Repositories:
    """The two repositories of one store."""

    chats: ChatRepositoryLike
    messages: MessageRepositoryLike


class StoreUnderTest:
    """What you fill in. Name your subclass `Test...`, so that pytest finds it."""

    pytestmark = pytest.mark.asyncio

    def open_store(self) -> AbstractAsyncContextManager[Repositories]:
        """Your repositories, as an async context manager. Each test opens the store once.

        It may be a new store or one that is full of other tests' data: every test makes users of its own.
        """
        raise NotImplementedError("open_store returns an async context manager that yields Repositories")

    def elsewhere(self, store: Repositories) -> Repositories:
        """The same store as another process sees it, with nothing remembered; the same repositories where there is
        nothing to remember."""
        return store


async def new_chat(store: Repositories, user_uuid: UUID | None = None, thread_id: str = "thread-1") -> Chat:
    """A chat of a new user, or of the given one."""
    return await store.chats.create_chat(ChatCreate(user_uuid=user_uuid or uuid4(), thread_id=thread_id))


async def say(store: Repositories, chat: Chat, content: str, **fields: Any) -> Message:
    """A message of a chat."""
    given = {"role": "assistant", "content": content, "chat_uuid": chat.chat_uuid, **fields}
    return await store.messages.create_message(MessageCreate(**given))


async def contents(store: Repositories, chat: Chat) -> list[str]:
    """What the messages of a chat say."""
    return [message.content for message in await store.messages.get_chat_messages(chat.chat_uuid)]


def assert_says_gone(error: BaseException) -> None:
    """Whether an error tells the storage agent that the chat is no more; any other one it would try again."""
    assert verdict_on(error) is Verdict.GONE, (
        f"A write to a deleted chat raised {error!r}. Raise threadkeep.errors.NotFound (or a subclass): the storage "
        "agent repeats writes that fail in another way."
    )
