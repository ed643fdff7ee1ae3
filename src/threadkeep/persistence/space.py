"""Memory spaces: the containers of sessions, and the handle that sessions and events use to reach the service."""

import builtins
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Self, cast

from threadkeep.contract.spaces import NewSpace, Space, SpaceFields
from threadkeep.persistence.adoption import create_or_adopt
from threadkeep.persistence.client import DRMemoryServiceClient
from threadkeep.persistence.memories import SpaceMemories
from threadkeep.persistence.typed import read_moment
from threadkeep.transport import calls
from threadkeep.transport.not_given import NOT_GIVEN, NotGiven


class DRMemorySpace:
    """A memory space of the caller. Made by `post`, `get` and `list`, never by hand.

    ```python
    space = await DRMemorySpace.post(client, deduplication_key="my-app", description="Chats of my app")
    ```
    """

    def __init__(self, client: DRMemoryServiceClient, row: Space) -> None:
        self._client = client
        self._row = row

    @property
    def client(self) -> DRMemoryServiceClient:
        """The connection that the space was read with."""
        return self._client

    @property
    def id(self) -> str:
        """The id of the space, a UUID."""
        return self._row["memorySpaceId"]

    @property
    def user_id(self) -> str:
        """The owner's id: 24 hexadecimal digits."""
        return self._row["userId"]

    @property
    def tenant_id(self) -> str:
        """The id of the owner's tenant, a UUID."""
        return self._row["tenantId"]

    @property
    def created_at(self) -> datetime:
        """When the space was made, in UTC."""
        return read_moment(self._row["createdAt"])

    @property
    def description(self) -> str | None:
        """A text for people."""
        return self._row["description"]

    @property
    def deduplication_key(self) -> str | None:
        """The key that it was made with."""
        return self._row["deduplicationKey"]

    @property
    def llm_model_name(self) -> str | None:
        """The model that extracts memories."""
        return self._row["llmModelName"]

    @property
    def llm_base_url(self) -> str | None:
        """The chat API that extracts memories."""
        return self._row["llmBaseUrl"]

    @property
    def custom_instructions(self) -> str | None:
        """The prompt that extracts memories, where it is not the default one."""
        return self._row["customInstructions"]

    @property
    def memories(self) -> SpaceMemories:
        """What is remembered in the space: to list, search, add and change."""
        return SpaceMemories(self._client, self.id)

    @classmethod
    async def post(
        cls,
        client: DRMemoryServiceClient,
        *,
        description: str | None = None,
        deduplication_key: str | None = None,
        llm_model_name: str | None = None,
        llm_base_url: str | None = None,
        custom_instructions: str | None = None,
    ) -> Self:
        """Create a space, or adopt the caller's live space that has the same deduplication key, as it is.

        Args:
            client: The connection to create it with.
            description: A text for people, at most 1,000 characters.
            deduplication_key: 1 to 72 characters that make the call repeatable; without one each call makes a space.
            llm_model_name: The model that extracts memories, at most 200 characters.
            llm_base_url: Its chat API, at most 2,083 characters.
            custom_instructions: Its prompt, at most 10,000 characters.

        Raises:
            DRMemoryValidationError: A value breaks a limit.
            DRMemoryServiceError: As for every call.
        """
        given = {
            "description": description,
            "llmModelName": llm_model_name,
            "llmBaseUrl": llm_base_url,
            "customInstructions": custom_instructions,
            "deduplicationKey": deduplication_key,
        }
        fields = cast(NewSpace, {name: value for name, value in given.items() if value is not None})
        return cls(client, await create_or_adopt(client, calls.create_space(fields), calls.get_space))

    @classmethod
    async def get(cls, client: DRMemoryServiceClient, space_id: str) -> Self:
        """Read a space by its id.

        Raises:
            DRMemoryNotFoundError: There is no such space, or it belongs to somebody else.
        """
        return cls(client, await client.send(calls.get_space(space_id)))

    @classmethod
    async def list(
        cls, client: DRMemoryServiceClient, *, deduplication_key: str | None = None, offset: int = 0, limit: int = 100
    ) -> builtins.list[Self]:
        """One page of the caller's live spaces, newest first.

        Args:
            client: The connection to read with.
            deduplication_key: Only the space with exactly this key.
            offset: How many to skip.
            limit: How many to return, 1 to 100.

        Raises:
            DRMemoryValidationError: `offset` or `limit` is out of range.
        """
        page = await client.send(calls.list_spaces(offset=offset, limit=limit, deduplication_key=deduplication_key))
        return [cls(client, row) for row in page["items"]]

    async def patch(
        self,
        *,
        description: str | NotGiven | None = NOT_GIVEN,
        llm_model_name: str | NotGiven | None = NOT_GIVEN,
        llm_base_url: str | NotGiven | None = NOT_GIVEN,
        custom_instructions: str | NotGiven | None = NOT_GIVEN,
    ) -> Self:
        """Change what is given and return the space itself, now as the service has it. `None` clears a field.

        Raises:
            ValueError: Nothing is given.
            DRMemoryNotFoundError: The space is gone.
            DRMemoryValidationError: A value breaks a limit.
        """
        given: Mapping[str, Any] = {
            "description": description,
            "llmModelName": llm_model_name,
            "llmBaseUrl": llm_base_url,
            "customInstructions": custom_instructions,
        }
        fields = cast(SpaceFields, {name: value for name, value in given.items() if value is not NOT_GIVEN})
        if not fields:
            raise ValueError("DRMemorySpace.patch() needs at least one field to change")
        self._row = await self._client.send(calls.patch_space(self.id, fields))
        return self

    async def delete(self) -> None:
        """Delete the space, and all sessions and events in it.

        Raises:
            DRMemoryNotFoundError: The space is gone already.
        """
        await self._client.send(calls.delete_space(self.id))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # A handle on a connection: a deep copy of a session still speaks through the same one.
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self.id!r}, deduplication_key={self.deduplication_key!r})"
