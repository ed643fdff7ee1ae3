"""A chat store in a SQLite file, with the standard library's driver: two tables, and a message's JSON in one column."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, TypeVar
from uuid import UUID

from pydantic import BaseModel

from threadkeep.chat_history import (
    Chat,
    ChatCreate,
    Message,
    MessageCreate,
    MessageReasoningCreate,
    MessageReasoningUpdate,
    MessageToolCallCreate,
    MessageToolCallUpdate,
    MessageUpdate,
    Reasoning,
    ToolCall,
)
from threadkeep.errors import NotFound

N = TypeVar("N", ToolCall, Reasoning)
Row = Sequence[Any]
_SCHEMA = """
PRAGMA foreign_keys = ON;
CREATE TABLE IF NOT EXISTS chats (
    chat_uuid TEXT PRIMARY KEY, user_uuid TEXT NOT NULL, thread_id TEXT NOT NULL, name TEXT NOT NULL,
    UNIQUE (user_uuid, thread_id)
);
CREATE TABLE IF NOT EXISTS messages (
    place INTEGER PRIMARY KEY AUTOINCREMENT, message_uuid TEXT NOT NULL UNIQUE,
    chat_uuid TEXT NOT NULL REFERENCES chats ON DELETE CASCADE, agui_id TEXT, body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS messages_of_chat ON messages (chat_uuid, place);
CREATE TABLE IF NOT EXISTS nested (
    uuid TEXT PRIMARY KEY, message_uuid TEXT NOT NULL REFERENCES messages (message_uuid) ON DELETE CASCADE
);
"""


class SqlStore:
    """One connection, used by one transaction after the other. The event loop does not wait for the disk."""

    def __init__(self, path: str) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._connection.executescript(_SCHEMA)
        self._free = asyncio.Lock()
        self._inside: ContextVar[bool] = ContextVar("inside", default=False)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        if self._inside.get():
            yield
            return
        async with self._free:
            token = self._inside.set(True)
            try:
                await self._execute("BEGIN IMMEDIATE")
                try:
                    yield
                except BaseException:
                    await self._execute("ROLLBACK")
                    raise
                await self._execute("COMMIT")
            finally:
                self._inside.reset(token)

    async def rows(self, statement: str, *values: Any) -> list[Row]:
        async with self.transaction():
            return await self._execute(statement, *values)

    async def row(self, statement: str, *values: Any) -> Row | None:
        return next(iter(await self.rows(statement, *values)), None)

    def close(self) -> None:
        self._connection.close()

    async def _execute(self, statement: str, *values: Any) -> list[Row]:
        # A thread that has begun cannot be stopped: whoever is cancelled waits for it, and then is.
        working = asyncio.ensure_future(
            asyncio.to_thread(lambda: self._connection.execute(statement, values).fetchall())
        )
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            await asyncio.wait([working])
            raise


class SqlChats:
    """A ChatRepositoryLike."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    async def create_chat(self, chat_data: ChatCreate) -> Chat:
        if chat_data.user_uuid is None or not chat_data.thread_id:
            raise ValueError("A chat needs a user_uuid and a thread_id")
        await self._store.rows(
            "INSERT INTO chats VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
            *(str(chat_data.chat_uuid), str(chat_data.user_uuid), chat_data.thread_id, chat_data.name),
        )
        chat = await self.get_chat_by_thread_id(chat_data.user_uuid, chat_data.thread_id)
        if chat is None:
            raise NotFound("The chat was deleted while it was created")
        return chat

    async def get_chat_by_thread_id(self, user_uuid: UUID, thread_id: str) -> Chat | None:
        statement = "SELECT * FROM chats WHERE user_uuid = ? AND thread_id = ?"
        return _chat(await self._store.row(statement, str(user_uuid), thread_id))

    async def get_all_chats(self, user_uuid: UUID | None) -> Sequence[Chat]:
        wanted = None if user_uuid is None else str(user_uuid)
        statement = "SELECT * FROM chats WHERE ?1 IS NULL OR user_uuid = ?1 ORDER BY rowid"
        return [chat for row in await self._store.rows(statement, wanted) if (chat := _chat(row)) is not None]

    async def update_chat_name(self, chat_uuid: UUID, name: str) -> Chat | None:
        statement = "UPDATE chats SET name = ? WHERE chat_uuid = ? RETURNING *"
        return _chat(await self._store.row(statement, name, str(chat_uuid)))

    async def delete_chat(self, chat_uuid: UUID) -> Chat | None:
        return _chat(await self._store.row("DELETE FROM chats WHERE chat_uuid = ? RETURNING *", str(chat_uuid)))


class SqlMessages:
    """A MessageRepositoryLike. Fields of your own need no column: declare them on a subclass and pass it as `cls`."""

    def __init__(self, store: SqlStore, cls: type[Message] = Message) -> None:
        self._store = store
        self._cls = cls
        self.transaction = store.transaction

    async def create_message(self, message_data: MessageCreate) -> Message:
        if message_data.chat_uuid is None:
            raise ValueError("A message needs a chat_uuid")
        message = self._cls(**_filled(self._cls, message_data))
        async with self.transaction():
            # A write whose answer was lost comes again with the same uuid.
            if (present := await self.get_message(message.message_uuid)) is not None:
                return present
            statement = "INSERT INTO messages (message_uuid, chat_uuid, agui_id, body) SELECT ?, chat_uuid, ?, ? "
            stored = await self._store.rows(
                statement + "FROM chats WHERE chat_uuid = ? RETURNING place",
                *(str(message.message_uuid), message.agui_id, _json(message), str(message.chat_uuid)),
            )
        if not stored:
            raise NotFound(f"There is no chat {message_data.chat_uuid}")
        return message

    async def update_message(self, message_uuid: UUID, update: MessageUpdate) -> Message | None:
        async with self.transaction():
            message = await self.get_message(message_uuid)
            if message is not None:
                message = message.model_copy(update=_given(update, self._cls))
                await self._save(message)
            return message

    async def create_message_tool_call(self, data: MessageToolCallCreate) -> ToolCall:
        return await self._append("tool_calls", data.message_uuid, ToolCall(**_filled(ToolCall, data)))

    async def update_message_tool_call(self, uuid: UUID, update: MessageToolCallUpdate) -> ToolCall | None:
        return await self._change("tool_calls", ToolCall, uuid, update)

    async def create_message_reasoning(self, data: MessageReasoningCreate) -> Reasoning:
        return await self._append("reasonings", data.message_uuid, Reasoning(**_filled(Reasoning, data)))

    async def update_message_reasoning(self, uuid: UUID, update: MessageReasoningUpdate) -> Reasoning | None:
        return await self._change("reasonings", Reasoning, uuid, update)

    async def get_message(self, message_uuid: UUID) -> Message | None:
        return self._message(
            await self._store.row("SELECT body FROM messages WHERE message_uuid = ?", str(message_uuid))
        )

    async def get_message_by_agui_id(self, chat_uuid: UUID, agui_id: str) -> Message | None:
        statement = "SELECT body FROM messages WHERE chat_uuid = ? AND agui_id = ? ORDER BY place DESC LIMIT 1"
        return self._message(await self._store.row(statement, str(chat_uuid), agui_id))

    async def get_tool_call_by_agui_id(self, message_uuid: UUID, agui_id: str) -> ToolCall | None:
        message = await self.get_message(message_uuid)
        return next((call for call in message.tool_calls if call.agui_id == agui_id), None) if message else None

    async def get_chat_messages(self, chat_uuid: UUID) -> Sequence[Message]:
        rows = await self._store.rows("SELECT body FROM messages WHERE chat_uuid = ? ORDER BY place", str(chat_uuid))
        return [message for row in rows if (message := self._message(row)) is not None]

    async def get_last_messages(self, chat_uuids: list[UUID]) -> dict[UUID, Message]:
        # One statement, however many chats are asked for.
        rows = await self._store.rows(
            "SELECT body FROM messages WHERE place IN (SELECT max(place) FROM messages "
            "WHERE chat_uuid IN (SELECT value FROM json_each(?)) GROUP BY chat_uuid)",
            json.dumps([str(chat_uuid) for chat_uuid in chat_uuids]),
        )
        found = [message for row in rows if (message := self._message(row)) is not None]
        return {message.chat_uuid: message for message in found if message.chat_uuid is not None}

    async def _append(self, field: str, message_uuid: UUID | None, record: N) -> N:
        async with self.transaction():
            message = await self.get_message(message_uuid) if message_uuid else None
            if message is None:
                raise ValueError(f"There is no message {message_uuid}")
            records: list[N] = getattr(message, field)
            if (present := next((each for each in records if each.uuid == record.uuid), None)) is not None:
                return present
            records.append(record)
            await self._store.rows("INSERT INTO nested VALUES (?, ?)", str(record.uuid), str(message_uuid))
            await self._save(message)
            return record

    async def _change(self, field: str, cls: type[N], uuid: UUID, update: BaseModel) -> N | None:
        async with self.transaction():
            statement = "SELECT body FROM nested JOIN messages USING (message_uuid) WHERE uuid = ?"
            message = self._message(await self._store.row(statement, str(uuid)))
            for place, record in enumerate(getattr(message, field, ())):
                if record.uuid == uuid and message is not None:
                    changed: N = record.model_copy(update=_given(update, cls))
                    getattr(message, field)[place] = changed
                    await self._save(message)
                    return changed
            return None

    async def _save(self, message: Message) -> None:
        await self._store.rows(
            "UPDATE messages SET agui_id = ?, body = ? WHERE message_uuid = ?",
            *(message.agui_id, _json(message), str(message.message_uuid)),
        )

    def _message(self, row: Row | None) -> Message | None:
        return None if row is None else self._cls.model_validate(json.loads(row[0]))


def _chat(row: Row | None) -> Chat | None:
    return None if row is None else Chat(**dict(zip(("chat_uuid", "user_uuid", "thread_id", "name"), row, strict=True)))


def _json(message: Message) -> str:
    # ASCII with escapes: half an emoji has no UTF-8, and many databases refuse NUL in a text.
    return json.dumps(message.model_dump(mode="json"))


def _filled(cls: type[BaseModel], data: BaseModel) -> dict[str, Any]:
    """The values of a create DTO that a record has a place for. What is None takes the record's default."""
    return {name: value for name, value in dict(data).items() if name in cls.model_fields and value is not None}


def _given(update: BaseModel, cls: type[BaseModel]) -> dict[str, Any]:
    """What an update sets and a record has a place for; None is the same as not set."""
    names = update.model_fields_set & set(cls.model_fields)
    return {name: getattr(update, name) for name in names if getattr(update, name) is not None}
