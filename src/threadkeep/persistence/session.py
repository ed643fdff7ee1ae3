"""Sessions as typed documents: a subclass declares fields, the Memory Service keeps them."""

import builtins
import copy
from datetime import datetime
from typing import Any, ClassVar, Self, cast

from pydantic import BaseModel, PrivateAttr

from threadkeep.contract.sessions import LifecycleStrategy, Session
from threadkeep.persistence.adoption import create_or_adopt
from threadkeep.persistence.errors import DRMemoryConflictError, DRMemoryNotFoundError
from threadkeep.persistence.mapping import SESSION_NAMES, SessionPlan, check_declared_names
from threadkeep.persistence.paging import read_all
from threadkeep.persistence.space import DRMemorySpace
from threadkeep.persistence.typed import check_changes, read_moment, read_values
from threadkeep.transport import calls

DEFAULT_SESSION_TTL_SECONDS = 63_072_000
SYSTEM_PARTICIPANT = "0" * 24


class DRSession(BaseModel):
    """The base of session classes.

    ```python
    class Chat(DRSession):
        __description_prefix__ = "chat"

        tenant: Annotated[str, DRRangeKey]
        chat_id: Annotated[str, DRDeduplicationKey]
        rev: Annotated[int, DRConcurrencyField]
        title: str = ""


    chat = await Chat.post(space, tenant="acme", chat_id="c-1", title="Hello")
    await chat.patch(title="Hello again")
    chats = await Chat.list(space, tenant="acme")
    ```

    Fields without a marker are kept in the session's metadata. The values go through pydantic by their declared types;
    a stored value that does not fit its type is returned as it came, and logged, so that one bad row hides nothing.

    Class attributes:
        __description_prefix__: Part of every query, so it must stay the same while data lives. Default: the class name.
        __lifecycle_strategies__: What new sessions get. Default: deletion after `DEFAULT_SESSION_TTL_SECONDS`, 2 years.

    Raises:
        TypeError: At the definition of a class with a reserved field name or contradicting markers.
        ValueError: At the definition of a class with an empty prefix.
    """

    __description_prefix__: ClassVar[str] = "DRSession"
    __lifecycle_strategies__: ClassVar[builtins.list[LifecycleStrategy]] = [
        {"type": "soft_delete", "trigger": {"ttl": DEFAULT_SESSION_TTL_SECONDS}}
    ]
    __prefix_is_declared__: ClassVar[bool] = False
    __session_plan__: ClassVar[SessionPlan | None] = None

    participants: builtins.list[str] = [SYSTEM_PARTICIPANT]

    _space: DRMemorySpace | None = PrivateAttr(default=None)
    _row: Session | None = PrivateAttr(default=None)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        check_declared_names(cls, SESSION_NAMES)
        if "__description_prefix__" in cls.__dict__:
            cls.__prefix_is_declared__ = True
        elif not cls.__prefix_is_declared__:
            cls.__description_prefix__ = cls.__name__

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        cls.__session_plan__ = None
        # With a forward reference still open, the fields are known at the first use only.
        if cls.__pydantic_complete__:
            cls._plan()

    @property
    def id(self) -> str:
        """The session's id."""
        return self._stored()["id"]

    @property
    def created_at(self) -> datetime:
        """When the session was made, in UTC."""
        return read_moment(self._stored()["createdAt"])

    @property
    def version(self) -> int:
        """1 for a new session, and one more after each patch; the precondition of the next one."""
        return self._stored()["version"]

    @property
    def lifecycle_strategies(self) -> builtins.list[LifecycleStrategy]:
        """A copy of the strategies that the session has; `patch_lifecycle_strategies` changes them."""
        return copy.deepcopy(self._stored()["lifecycleStrategies"])

    @property
    def memory_space(self) -> DRMemorySpace:
        """The space that the session lives in."""
        self._stored()
        return cast(DRMemorySpace, self._space)

    @classmethod
    async def post(cls, space: DRMemorySpace, **fields: Any) -> Self:
        """Create a session, or adopt the live one that has the same deduplication key, as it is stored.

        Args:
            space: Where to create it.
            **fields: Values of the declared fields, and `participants`: 1 to 50 ids.

        Raises:
            TypeError: A field is unknown or cannot be set.
            ValueError: A value does not fit its type (pydantic's ValidationError), a key is empty or too long.
            DRMemoryConflictError: The deduplication key belongs to a session of another class.
            DRMemoryServiceError: As for every call.
        """
        plan = cls._plan()
        body = plan.new_session(plan.draft(fields), copy.deepcopy(cls.__lifecycle_strategies__))
        create = calls.create_session(space.id, body)
        row = await create_or_adopt(space.client, create, lambda session_id: calls.get_session(space.id, session_id))
        if not plan.holds(row):
            raise DRMemoryConflictError(
                f"The deduplication key {body.get('deduplicationKey')!r} belongs to a session that is no "
                f"{cls.__name__}: its description is {row.get('description')!r}",
                existing_id=row["id"],
            )
        return cls._read(space, row)

    @classmethod
    async def get(cls, space: DRMemorySpace, id: str | None = None, **key: Any) -> Self:
        """Read one session, by its id or by its deduplication key: `Chat.get(space, chat_id="c-1")`.

        Raises:
            TypeError: Neither or both are given, or the name is unknown.
            ValueError: The name is not the deduplication key, or the value cannot be one.
            DRMemoryNotFoundError: There is no such session of this class that the caller may see.
        """
        plan = cls._plan()
        if (id is None) == (not key) or len(key) > 1:
            raise TypeError(f"{cls.__name__}.get() takes either an id or the deduplication key")
        if id is not None:
            row = await space.client.send(calls.get_session(space.id, id))
            if plan.holds(row):
                return cls._read(space, row)
            raise DRMemoryNotFoundError(f"Session {id!r} is no {cls.__name__}: {row.get('description')!r}", 404)
        ((name, value),) = key.items()
        if name not in cls.model_fields:
            raise TypeError(f"{cls.__name__}.get() got an unknown field {name!r}")
        if name != plan.deduplication_key:
            raise ValueError(f"{cls.__name__}.get() finds by the deduplication key only, and {name!r} is not it")
        text = plan.deduplication_text(value)
        page = await space.client.send(calls.list_sessions(space.id, deduplication_key=text))
        for row in page["items"]:
            if row.get("deduplicationKey") == text and plan.holds(row):
                return cls._read(space, row)
        raise DRMemoryNotFoundError(f"There is no {cls.__name__} with {name} {value!r}", 404)

    @classmethod
    def at(cls, space: DRMemorySpace, id: str) -> Self:
        """A session by its id alone. Nothing is read, and its fields are not there: it serves to reach its events."""
        session = cls.model_construct()
        session._space = space
        session._row = cast(Session, {"id": id})
        return session

    @classmethod
    async def list(
        cls, space: DRMemorySpace, *, participant: str | None = None, **leading_range_keys: Any
    ) -> builtins.list[Self]:
        """All sessions of this class, oldest first; the pages are read one after the other.

        Args:
            space: Where to look.
            participant: Only sessions that hold this id.
            **leading_range_keys: Only sessions with exactly these values, for any number of leading range keys.

        Raises:
            TypeError: A filter is unknown.
            ValueError: A filter is empty or `None`, is no range key, or one before it is missing.
            DRMemoryServiceError: As for every call; never an empty list in its place.
        """
        query = cls._plan().query(leading_range_keys)
        participants = None if participant is None else [participant]
        rows = await read_all(
            space.client,
            lambda offset: calls.list_sessions(
                space.id, offset=offset, limit=100, participants=participants, description=query
            ),
            lambda row: row["id"],
        )
        # The service finds substrings, whatever their case.
        return [cls._read(space, row) for row in rows if (row.get("description") or "").startswith(query)]

    async def patch(self, **fields: Any) -> Self:
        """Change fields, guarded by the version that was read, and return the session itself as it is stored now.

        Every declared metadata field is sent, with its present value where it is not among `fields`, and whatever else
        is stored in the metadata stays. `None` is a value like others, where the type allows it.

        Raises:
            TypeError: A field is unknown or cannot be set.
            ValueError: A value does not fit its type, or the field is the deduplication key, or mirrors the version.
            DRMemoryVersionConflictError: The session has changed since it was read. This object is unchanged.
            DRMemoryNotFoundError: The session is gone.
        """
        row = self._stored()
        plan = self._plan()
        plan.check_patch(fields)
        changes = plan.changes(check_changes(self, fields), row, fields)
        call = calls.patch_session(self.memory_space.id, self.id, changes, if_match=row["version"])
        self._take(await self.memory_space.client.send(call))
        return self

    async def patch_lifecycle_strategies(self, strategies: builtins.list[LifecycleStrategy]) -> Self:
        """Replace the strategies, guarded by the version that was read, and return the session itself.

        Raises:
            ValueError: The list is empty: a session has at least one strategy.
            DRMemoryVersionConflictError: The session has changed since it was read.
            DRMemoryConflictError: A strategy that has already run would change.
            DRMemoryValidationError: A strategy breaks a rule of the service.
        """
        if not strategies:
            raise ValueError("The lifecycle strategies of a session cannot be cleared")
        row = self._stored()
        call = calls.patch_session(
            self.memory_space.id, self.id, {"lifecycleStrategies": strategies}, if_match=row["version"]
        )
        self._take(await self.memory_space.client.send(call))
        return self

    async def delete(self) -> None:
        """Delete the session and its events; its deduplication key is free again.

        Raises:
            DRMemoryNotFoundError: The session is gone already.
        """
        await self.memory_space.client.send(calls.delete_session(self.memory_space.id, self.id))

    @classmethod
    def _plan(cls) -> SessionPlan:
        plan = cls.__dict__.get("__session_plan__")
        if plan is None:
            cls.model_rebuild()
            plan = cls.__session_plan__ = SessionPlan.of(cls, cls.__description_prefix__)
        return cast(SessionPlan, plan)

    @classmethod
    def _read(cls, space: DRMemorySpace, row: Session) -> Self:
        session = read_values(cls, cls._plan().values(row), lambda: f"session {row['id']}")
        session._space = space
        session._row = row
        return session

    def _take(self, row: Session) -> None:
        fresh = self._read(self.memory_space, row)
        self.__dict__.update(fresh.__dict__)
        self.__pydantic_fields_set__.update(fresh.__pydantic_fields_set__)
        self._row = row

    def _stored(self) -> Session:
        if self._row is None:
            raise ValueError(f"This {type(self).__name__} is not stored; use {type(self).__name__}.post()")
        return self._row
