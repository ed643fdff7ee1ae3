"""Memory spaces of the synchronous SDK."""

import builtins
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Self, cast

from threadkeep.contract import spaces as wire
from threadkeep.models.client import Client, default_client
from threadkeep.models.event import Event, read_moment
from threadkeep.models.memories import SpaceMemories
from threadkeep.transport import calls
from threadkeep.transport.not_given import NOT_GIVEN, NotGiven


class MemorySpace:
    """A container of sessions: what is in one space is never seen from another.

    ```python
    space = MemorySpace.create(description="Chats of my app", deduplication_key="my-app-v1")
    ```

    Attributes:
        id: The id of the space, a UUID.
        user_id: The id of its owner, 24 hexadecimal digits.
        tenant_id: The id of the owner's tenant, a UUID.
        description: A text for people.
        llm_model_name: The model that extracts memories.
        llm_base_url: The chat API that extracts memories; `None` means the service's own.
        custom_instructions: The prompt that extracts memories; `None` means the service's own.
        created_at: When it was created, in UTC.
        deduplication_key: The key that it was created with.
    """

    def __init__(
        self,
        id: str,
        user_id: str,
        tenant_id: str,
        created_at: datetime,
        description: str | None = None,
        llm_model_name: str | None = None,
        llm_base_url: str | None = None,
        custom_instructions: str | None = None,
        deduplication_key: str | None = None,
    ) -> None:
        self.id = id
        self.user_id = user_id
        self.tenant_id = tenant_id
        self.created_at = created_at
        self.description = description
        self.llm_model_name = llm_model_name
        self.llm_base_url = llm_base_url
        self.custom_instructions = custom_instructions
        self.deduplication_key = deduplication_key
        self._client: Client | None = None

    @classmethod
    def create(
        cls,
        description: str | None = None,
        llm_model_name: str | None = None,
        llm_base_url: str | None = None,
        custom_instructions: str | None = None,
        deduplication_key: str | None = None,
    ) -> Self:
        """Create a memory space.

        Args:
            description: A text for people, at most 1,000 characters.
            llm_model_name: The model that extracts memories, at most 200 characters.
            llm_base_url: The chat API that extracts memories, at most 2,083 characters.
            custom_instructions: The prompt that extracts memories, at most 10,000 characters.
            deduplication_key: 1 to 72 characters, unique among the caller's live spaces; `None` never collides.

        Raises:
            MemorySpaceDeduplicationError: A live space has the key; the error carries its id, to adopt it.
            ClientError: A value breaks a limit.
        """
        given = {
            "description": description,
            "llmModelName": llm_model_name,
            "llmBaseUrl": llm_base_url,
            "customInstructions": custom_instructions,
            "deduplicationKey": deduplication_key,
        }
        fields = cast(wire.NewSpace, {name: value for name, value in given.items() if value is not None})
        client = default_client()
        return cls._read(client, client.send(calls.create_space(fields)))

    @classmethod
    def list(
        cls, offset: int | None = None, limit: int | None = None, deduplication_key: str | None = None
    ) -> builtins.list[Self]:
        """One page of the caller's memory spaces, newest first.

        Args:
            offset: How many to skip; none by default.
            limit: How many to return, 1 to 100; 100 by default.
            deduplication_key: Only the space with exactly this key.

        Raises:
            ClientError: `offset` or `limit` is out of range.
        """
        client = default_client()
        page = client.send(calls.list_spaces(offset=offset, limit=limit, deduplication_key=deduplication_key))
        return [cls._read(client, row) for row in page["items"]]

    @classmethod
    def get(cls, memory_space_id: str) -> Self:
        """Read a memory space by its id.

        Raises:
            ClientError: 404 where there is none, or it belongs to somebody else.
        """
        client = default_client()
        return cls._read(client, client.send(calls.get_space(memory_space_id)))

    def update(
        self,
        description: str | NotGiven | None = NOT_GIVEN,
        llm_model_name: str | NotGiven | None = NOT_GIVEN,
        llm_base_url: str | NotGiven | None = NOT_GIVEN,
        custom_instructions: str | NotGiven | None = NOT_GIVEN,
    ) -> None:
        """Change what is given, here and in the service. `None` clears a field; without arguments nothing happens.

        Args:
            description: A text for people, at most 1,000 characters.
            llm_model_name: The model that extracts memories, at most 200 characters.
            llm_base_url: The chat API that extracts memories, at most 2,083 characters.
            custom_instructions: The prompt that extracts memories, at most 10,000 characters.

        Raises:
            ClientError: A value breaks a limit, or the space is gone.
        """
        given: dict[str, Any] = {
            "description": description,
            "llmModelName": llm_model_name,
            "llmBaseUrl": llm_base_url,
            "customInstructions": custom_instructions,
        }
        fields = cast(wire.SpaceFields, {name: value for name, value in given.items() if value is not NOT_GIVEN})
        if fields:
            self._take(self._connection().send(calls.patch_space(self.id, fields)))

    def delete(self) -> None:
        """Delete the space, with all sessions and events in it.

        Raises:
            ClientError: 404 where it is gone already.
        """
        self._connection().send(calls.delete_space(self.id))

    @property
    def memories(self) -> SpaceMemories:
        """What is remembered in the space: to list, search, add and change."""
        return SpaceMemories(self._connection(), self.id)

    def find_events(
        self,
        lookup_keys: Sequence[str],
        event_type: str | None = None,
        offset: int | None = None,
        limit: int | None = None,
    ) -> builtins.list[Event]:
        """One page of the events of the space that have any of the lookup keys; each says its `session_id`.

        Args:
            lookup_keys: 1 to 100 keys.
            event_type: Only events with exactly this label; a key is unique among the events of one label.
            offset: How many to skip; none by default.
            limit: How many to return, 1 to 100; 100 by default.

        Raises:
            ClientError: An argument is out of range, or the space is gone, or the service has no lookup keys (404).
        """
        call = calls.find_events(self.id, lookup_keys, event_type=event_type, offset=offset, limit=limit)
        return [Event._read(row, row["sessionId"]) for row in self._connection().send(call)["items"]]

    @classmethod
    def _read(cls, client: Client, row: wire.Space) -> Self:
        space = cls(row["memorySpaceId"], row["userId"], row["tenantId"], read_moment(row["createdAt"]))
        space._client = client
        space._take(row)
        return space

    def _take(self, row: wire.Space) -> None:
        self.description = row["description"]
        self.llm_model_name = row["llmModelName"]
        self.llm_base_url = row["llmBaseUrl"]
        self.custom_instructions = row["customInstructions"]
        self.deduplication_key = row["deduplicationKey"]

    def _connection(self) -> Client:
        return self._client or default_client()

    def __repr__(self) -> str:
        return f"MemorySpace(id={self.id!r}, description={self.description!r})"
