"""Events as typed log entries of a session: a subclass declares fields of the body, the Memory Service keeps them."""

import asyncio
import builtins
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Literal, Self, cast

from pydantic import BaseModel, PrivateAttr

from threadkeep.contract.events import Event, EventFields, EventPatch, NewEvent
from threadkeep.contract.version import APPEND_WITH_CHANGES, WHOLE_HISTORY
from threadkeep.persistence.event_batch import build_patches, check_batch
from threadkeep.persistence.mapping import EVENT_NAMES, EventPlan, check_declared_names
from threadkeep.persistence.paging import read_all
from threadkeep.persistence.session import DRSession
from threadkeep.persistence.space import DRMemorySpace
from threadkeep.persistence.typed import check_changes, read_moment, read_values
from threadkeep.transport import calls

_READ_AT_ONCE = 500


class DREvent(BaseModel):
    """The base of event classes, each bound to the session class whose events it describes.

    ```python
    class ChatMessage(DREvent, session=Chat):
        __event_type__ = "message"

        score: float = 0.0


    message = await ChatMessage.post(chat, content="Hello", emitter_type="user", emitter_id=user_id, score=0.5)
    await message.patch(score=0.9)
    latest = await ChatMessage.last(chat, n=20)
    ```

    Declared fields are kept in the event's body, beside `content`. The values go through pydantic by their declared
    types; a stored value that does not fit its type is returned as it came, and logged.

    Class attributes:
        __event_type__: The label of new events, 1 to 100 characters.

    Attributes:
        content: The text, 1 to 1,000,000 characters.
        emitter_type: `user` or `agent`.
        emitter_id: Who it was; a `user` needs one, a participant of the session.

    Raises:
        TypeError: At the definition of a class with a reserved field name or a marker.
    """

    __event_type__: ClassVar[str | None] = "message"
    __session_class__: ClassVar[type[DRSession] | None] = None
    __event_plan__: ClassVar[EventPlan | None] = None

    content: str
    emitter_type: Literal["user", "agent"] = "agent"
    emitter_id: str | None = None

    _session: DRSession | None = PrivateAttr(default=None)
    _row: Event | None = PrivateAttr(default=None)

    def __init_subclass__(cls, *, session: type[DRSession] | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        check_declared_names(cls, EVENT_NAMES)
        if session is not None:
            if not issubclass(session, DRSession):
                raise TypeError(f"{cls.__name__} is bound to {session!r}, which is no DRSession class")
            cls.__session_class__ = session

    @classmethod
    def __pydantic_init_subclass__(cls, *, session: type[DRSession] | None = None, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        cls.__event_plan__ = None
        if cls.__pydantic_complete__:
            cls._plan()

    @property
    def sequence_id(self) -> int:
        """The event's number in its session, from 1, without gaps."""
        return self._stored()["sequenceId"]

    @property
    def created_at(self) -> datetime:
        """The event's version token, in UTC: when it was made, or last changed."""
        return read_moment(self._stored()["createdAt"])

    @property
    def event_type(self) -> str | None:
        """The label that the event is stored with."""
        return self._stored()["eventType"]

    @property
    def event_session(self) -> DRSession:
        """The session that the event is in; one that was found by a key knows it by its id alone."""
        self._stored()
        return cast(DRSession, self._session)

    @property
    def event_lookup_keys(self) -> tuple[str, ...]:
        """The keys that the event is found by in its space."""
        return tuple(self._stored().get("lookupKeys", ()))

    @classmethod
    async def post(
        cls,
        session: DRSession,
        *,
        content: str,
        emitter_type: str = "agent",
        emitter_id: str | None = None,
        **body: Any,
    ) -> Self:
        """Append an event.

        Args:
            session: The session to append to.
            content: The text, 1 to 1,000,000 characters.
            emitter_type: `user` or `agent`.
            emitter_id: Who it was; a `user` needs one, a participant of the session.
            **body: Values of the declared fields; and `lookup_keys`, at most 512 texts of 1 to 128 characters that the
                event is found by in its space, where the service has them (see `find`).

        Raises:
            TypeError: A field is unknown, or the session is of another class.
            ValueError: A value does not fit its type (pydantic's ValidationError).
            DRMemoryBadRequestError: The emitter is not a participant.
            DRMemoryConflictError: An event of this type in the space has one of the lookup keys.
            DRMemoryNotFoundError: The session is gone.
            DRMemoryServiceError: As for every call.
        """
        space_id, session_id = cls._place(session)
        fields = {"content": content, "emitter_type": emitter_type, "emitter_id": emitter_id, **body}
        event = cls._new(fields)
        row = await session.memory_space.client.send(calls.append_event(space_id, session_id, event))
        return cls._read(session, row)

    @classmethod
    async def post_batch(cls, session: DRSession, events: Sequence[Mapping[str, Any]]) -> builtins.list[Self]:
        """Append events in order, all or none.

        Args:
            session: The session to append to.
            events: 1 to 200 dicts with the arguments of `post`.

        Raises:
            TypeError: A field is unknown, or the session is of another class.
            ValueError: There are none or too many, or a value does not fit its type.
            DRMemoryServiceError: As `post` does; nothing is stored then.
        """
        space_id, session_id = cls._place(session)
        check_batch(len(events))
        new = [cls._new(fields) for fields in events]
        answer = await session.memory_space.client.send(calls.append_events(space_id, session_id, new))
        return [cls._read(session, row) for row in answer["items"]]

    @classmethod
    async def list(
        cls,
        session: DRSession,
        *,
        type: str | None = None,
        offset: int = 0,
        limit: int = 100,
    ) -> builtins.list[Self]:
        """One page of a session's events, in order.

        Args:
            session: The session to read.
            type: The label to look for, such as the class's own `__event_type__`; by default all events.
            offset: How many to skip.
            limit: How many to return, 1 to 100.

        Raises:
            TypeError: The session is of another class.
            DRMemoryServiceError: As for every call; never an empty list in its place.
        """
        space_id, session_id = cls._place(session)
        call = calls.list_events(space_id, session_id, offset=offset, limit=limit, event_type=type)
        page = await session.memory_space.client.send(call)
        return [cls._read(session, row) for row in page["items"]]

    @classmethod
    async def history(cls, session: DRSession, *, after: int = 0, type: str | None = None) -> builtins.list[Self]:
        """All events of a session in order, in one request; by pages where the service is another than Threadkeep.

        Args:
            session: The session to read.
            after: Only events with a greater `sequence_id`.
            type: The label to look for, such as the class's own `__event_type__`; by default all events.

        Raises:
            TypeError: The session is of another class.
            DRMemoryServiceError: As for every call; never a part of the events in their place.
        """
        space_id, session_id = cls._place(session)
        client = session.memory_space.client
        if WHOLE_HISTORY in await client.features():
            rows = await client.send(calls.read_history(space_id, session_id, after=after, event_type=type))
            events: builtins.list[Self] = []
            for start in range(0, len(rows), _READ_AT_ONCE):
                events += [cls._read(session, row) for row in rows[start : start + _READ_AT_ONCE]]
                # Thousands of events take a second to read, in which others want their turn.
                await asyncio.sleep(0)
            return events
        rows = await read_all(
            client,
            lambda offset: calls.list_events(space_id, session_id, offset=offset, limit=100, event_type=type),
            lambda row: row["sequenceId"],
        )
        return [cls._read(session, row) for row in rows if row["sequenceId"] > after]

    @classmethod
    async def last(cls, session: DRSession, *, n: int = 1, type: str | None = None) -> builtins.list[Self]:
        """The newest events of a session, in order.

        Args:
            session: The session to read.
            n: How many, 1 to 100.
            type: The label to look for, such as the class's own `__event_type__`; by default all events.

        Raises:
            TypeError: The session is of another class.
            DRMemoryServiceError: As for every call; never an empty list in its place.
        """
        space_id, session_id = cls._place(session)
        page = await session.memory_space.client.send(
            calls.list_events(space_id, session_id, last_n=n, event_type=type)
        )
        return [cls._read(session, row) for row in page["items"]]

    @classmethod
    async def find(cls, space: DRMemorySpace, *lookup_keys: str, type: str | None = None) -> builtins.list[Self]:
        """The events of a space that have any of these keys, one page of them, in one request.

        The session of each is known by its id alone (`DRSession.at`). Threadkeep alone has lookup keys: ask
        `"lookupKeys" in await client.features()` where the service may be another.

        Args:
            space: The space to look in.
            *lookup_keys: 1 to 100 keys.
            type: The label to look for; a key is unique among the events of one label. By default all events.

        Raises:
            TypeError: The class is bound to no session class.
            DRMemoryNotFoundError: The space is gone, or the service has no lookup keys.
            DRMemoryValidationError: There are none or too many keys, or one breaks a limit.
        """
        page = await space.client.send(calls.find_events(space.id, lookup_keys, event_type=type))
        return [cls._read(cls._session_class().at(space, row["sessionId"]), row) for row in page["items"]]

    @classmethod
    async def newest(cls, sessions: Sequence[DRSession], *, type: str | None = None) -> builtins.list[Self]:
        """The newest event of each of 1 to 100 sessions of one space that has one, in one request.

        Threadkeep alone has it (`"newestEvents" in await client.features()`).

        Args:
            sessions: The sessions to look into; those that are gone are passed over.
            type: The label to look for, such as the class's own `__event_type__`; by default all events.

        Raises:
            TypeError: A session is of another class.
            ValueError: There are no sessions, or they are of several spaces.
            DRMemoryServiceError: As for every call.
        """
        places = {cls._place(session): session for session in sessions}
        if len({space_id for space_id, _ in places}) != 1:
            raise ValueError("newest() takes sessions of one space")
        space = sessions[0].memory_space
        wanted = [session_id for _, session_id in places]
        page = await space.client.send(calls.newest_events(space.id, wanted, event_type=type))
        return [cls._read(places[space.id, row["sessionId"]], row) for row in page["items"]]

    async def patch(self, **fields: Any) -> Self:
        """Change fields, guarded by the version token, and return the event itself with its new token.

        Every declared field is sent, with its present value where it is not among `fields`, and whatever else is stored
        in the body stays. `None` is a value like others, where the type allows it. `lookup_keys` come to those that the
        event has; alone, they are all that is sent.

        Raises:
            TypeError: A field is unknown or cannot be set.
            ValueError: A value does not fit its type.
            DRMemoryVersionConflictError: The event has changed since it was read. This object is unchanged.
            DRMemoryNotFoundError: The event or its session is gone.
        """
        row = self._stored()
        session = cast(DRSession, self._session)
        changes = self._changes(fields)
        call = calls.patch_event(
            session.memory_space.id, session.id, row["sequenceId"], changes, created_at=row["createdAt"]
        )
        self._take(await session.memory_space.client.send(call))
        return self

    @classmethod
    async def patch_batch(
        cls, session: DRSession, updates: Sequence[tuple[Self, Mapping[str, Any]]]
    ) -> builtins.list[Self]:
        """Change events of one session as `patch` does, all or none, each guarded by its token.

        Args:
            session: The session that the events belong to.
            updates: 1 to 200 pairs of an event and the fields to change.

        Raises:
            TypeError: A field is unknown or cannot be set.
            ValueError: There are none or too many, an event is of another session or comes twice, or a value does not
                fit its type.
            DRMemoryVersionConflictError: One has changed since it was read. Nothing is changed.
        """
        space_id, session_id = cls._place(session)
        call = calls.patch_events(space_id, session_id, cls._patches(session_id, updates))
        return cls._patched(updates, (await session.memory_space.client.send(call))["items"])

    @classmethod
    async def patch_and_post_batch(
        cls,
        session: DRSession,
        updates: Sequence[tuple[Self, Mapping[str, Any]]],
        events: Sequence[Mapping[str, Any]],
    ) -> builtins.list[Self]:
        """Change events and append others in one request, all of it or nothing.

        A service that cannot do both at once is asked twice. At most 200 events of both kinds; returns the new ones.
        Arguments and errors are those of `patch_batch` and `post_batch`.
        """
        space_id, session_id = cls._place(session)
        check_batch(len(updates) + len(events))
        new = [cls._new(fields) for fields in events]
        client = session.memory_space.client
        patches = cls._patches(session_id, updates)
        if APPEND_WITH_CHANGES in await client.features():
            answer = await client.send(calls.patch_and_append_events(space_id, session_id, patches, new))
            changed, appended = answer["items"], answer["appended"]
        else:
            changed = (await client.send(calls.patch_events(space_id, session_id, patches)))["items"]
            appended = (await client.send(calls.append_events(space_id, session_id, new)))["items"]
        cls._patched(updates, changed)
        return [cls._read(session, row) for row in appended]

    async def delete(self) -> None:
        """Delete the event; its number is never given out again.

        Raises:
            DRMemoryNotFoundError: The event or its session is gone already.
        """
        row = self._stored()
        session = cast(DRSession, self._session)
        await session.memory_space.client.send(
            calls.delete_event(session.memory_space.id, session.id, row["sequenceId"])
        )

    @classmethod
    def _patches(cls, session_id: str, updates: Sequence[tuple[Self, Mapping[str, Any]]]) -> builtins.list[EventPatch]:
        return build_patches(
            session_id,
            ((cast(DRSession, event._session).id, event._stored(), event._changes(new)) for event, new in updates),
        )

    @classmethod
    def _patched(
        cls, updates: Sequence[tuple[Self, Mapping[str, Any]]], answered: Sequence[Event]
    ) -> builtins.list[Self]:
        rows = {row["sequenceId"]: row for row in answered}
        for event, _ in updates:
            event._take(rows[event.sequence_id])
        return [event for event, _ in updates]

    @classmethod
    def _plan(cls) -> EventPlan:
        plan = cls.__dict__.get("__event_plan__")
        if plan is None:
            cls.model_rebuild()
            plan = cls.__event_plan__ = EventPlan.of(cls)
        return cast(EventPlan, plan)

    @classmethod
    def _new(cls, fields: Mapping[str, Any]) -> NewEvent:
        plan = cls._plan()
        values, keys = plan.without_keys(fields)
        event = plan.new_event(plan.draft(values), cls.__event_type__)
        if keys:
            event["lookupKeys"] = keys
        return event

    @classmethod
    def _session_class(cls) -> type[DRSession]:
        if cls.__session_class__ is None:
            raise TypeError(f"{cls.__name__} is bound to no session class: class {cls.__name__}(DREvent, session=...)")
        return cls.__session_class__

    @classmethod
    def _place(cls, session: DRSession) -> tuple[str, str]:
        bound = cls._session_class()
        if not isinstance(session, bound):
            raise TypeError(f"{cls.__name__} belongs to {bound.__name__} sessions, not to a {type(session).__name__}")
        return session.memory_space.id, session.id

    @classmethod
    def _read(cls, session: DRSession, row: Event) -> Self:
        event = read_values(cls, cls._plan().values(row), lambda: f"event {row['sequenceId']} of session {session.id}")
        # Set and read past pydantic's own access to private attributes, which costs more than all else of a long read.
        (event.__pydantic_private__ or {}).update(_session=session, _row=row)
        return event

    def _changes(self, fields: Mapping[str, Any]) -> EventFields:
        plan = self._plan()
        values, keys = plan.without_keys(fields)
        plan.check_names("patch", values)
        changes: EventFields = {}
        if values or not keys:
            changes = plan.changes(check_changes(self, values), self._stored(), values)
        if keys:
            changes["lookupKeys"] = keys
        return changes

    def _take(self, row: Event) -> None:
        fresh = self._read(cast(DRSession, self._session), row)
        self.__dict__.update(fresh.__dict__)
        self.__pydantic_fields_set__.update(fresh.__pydantic_fields_set__)
        self._row = row

    def _stored(self) -> Event:
        row: Event | None = (self.__pydantic_private__ or {}).get("_row")
        if row is None:
            raise ValueError(f"This {type(self).__name__} is not stored; use {type(self).__name__}.post()")
        return row
