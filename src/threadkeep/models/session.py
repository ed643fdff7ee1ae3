"""Sessions of the synchronous SDK, and what is done with the events in them."""

import builtins
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Self, cast

from threadkeep.contract import events as event_wire
from threadkeep.contract import sessions as wire
from threadkeep.models.client import Client, default_client
from threadkeep.models.event import Emitter, Event, EventUpdate, NewEvent, read_moment, write_moment
from threadkeep.transport import calls
from threadkeep.transport.not_given import NOT_GIVEN, NotGiven


class Session:
    """A conversation in a memory space: who takes part, what the application notes about it, and its events.

    ```python
    session = Session.create(space.id, participants=[user_id], metadata={"title": "Hello"})
    session.post_event(body={"content": "Hi"}, emitter={"type": "user", "id": user_id})
    ```

    Attributes:
        id: The id of the session, a UUID.
        participants: The ids of those who take part.
        description: A text for people.
        metadata: The application's own data, exactly as it was sent.
        created_at: When it was created, in UTC.
        lifecycle_strategies: What happens to the session, and when; see below.
        version: 1 for a new session, and one more after each update; `None` for one that was made by hand.
        deduplication_key: The key that it was created with.
        memory_space_id: The id of the space that it lives in.

    A lifecycle strategy is a dict:

    - `type`: `"soft_delete"` hides the session and its events; `"extract_memories"` turns its events into memories.
    - `trigger`: exactly one of `{"ttl": n}` (seconds since creation) and `{"idle": n}` (seconds since the last event),
      both 1 to 63,072,000, `{"eventCount": n}` (1 to 1,000,000), `{"tokenCount": n}` (1 to 100,000,000), and
      `{"never": True}`.
    - `opts`: for `"extract_memories"` only, `softDelete` (default `True`), `agentId`, `metadata`.

    A session has 1 to 5 of them, and at most one of a type and trigger kind.
    """

    def __init__(
        self,
        id: str,
        participants: builtins.list[str],
        created_at: datetime,
        lifecycle_strategies: builtins.list[wire.LifecycleStrategy],
        description: str | None = None,
        metadata: dict[str, Any] | None = None,
        version: int | None = None,
        deduplication_key: str | None = None,
        memory_space_id: str | None = None,
    ) -> None:
        self.id = id
        self.participants = participants
        self.created_at = created_at
        self.lifecycle_strategies = lifecycle_strategies
        self.description = description
        self.metadata = metadata
        self.version = version
        self.deduplication_key = deduplication_key
        self.memory_space_id = memory_space_id
        self._client: Client | None = None

    @classmethod
    def create(
        cls,
        memory_space_id: str,
        participants: builtins.list[str],
        lifecycle_strategies: builtins.list[wire.LifecycleStrategy] | None = None,
        description: str | None = None,
        metadata: dict[str, Any] | None = None,
        deduplication_key: str | None = None,
    ) -> Self:
        """Create a session.

        Args:
            memory_space_id: The space to create it in.
            participants: 1 to 50 ids of 1 to 128 characters.
            lifecycle_strategies: At most 5; omitted or empty, the service deletes the session after 180 days.
            description: A text for people, at most 1,000 characters.
            metadata: The application's own data, at most 256 KiB.
            deduplication_key: 1 to 72 characters, unique among the live sessions of the space; `None` never collides.

        Raises:
            MemorySessionDeduplicationError: A live session has the key; the error carries its id, to adopt it.
            ClientError: A value breaks a rule, or the space is not there.
        """
        fields: wire.NewSession = {"participants": participants}
        if lifecycle_strategies:
            fields["lifecycleStrategies"] = lifecycle_strategies
        if description is not None:
            fields["description"] = description
        if metadata is not None:
            fields["metadata"] = metadata
        if deduplication_key is not None:
            fields["deduplicationKey"] = deduplication_key
        client = default_client()
        return cls._read(client, memory_space_id, client.send(calls.create_session(memory_space_id, fields)))

    @classmethod
    def list(
        cls,
        memory_space_id: str,
        offset: int | None = None,
        limit: int | None = None,
        participants: builtins.list[str] | None = None,
        description: str | None = None,
    ) -> builtins.list[Self]:
        """One page of the sessions of a space, oldest first.

        Args:
            memory_space_id: The space to look in.
            offset: How many to skip; none by default.
            limit: How many to return, 1 to 100; 100 by default.
            participants: Only sessions that hold any of these ids.
            description: Only sessions whose description holds this text, in any case; at least 3 characters.

        Raises:
            ClientError: An argument is out of range, or the space is not there.
        """
        client = default_client()
        page = client.send(
            calls.list_sessions(
                memory_space_id, offset=offset, limit=limit, participants=participants, description=description
            )
        )
        return [cls._read(client, memory_space_id, row) for row in page["items"]]

    @classmethod
    def get(cls, memory_space_id: str, session_id: str) -> Self:
        """Read a session by its id.

        Raises:
            ClientError: 404 where there is none, or it belongs to somebody else.
        """
        client = default_client()
        return cls._read(client, memory_space_id, client.send(calls.get_session(memory_space_id, session_id)))

    def update(
        self,
        description: str | NotGiven | None = NOT_GIVEN,
        metadata: dict[str, Any] | NotGiven | None = NOT_GIVEN,
        lifecycle_strategies: builtins.list[wire.LifecycleStrategy] | NotGiven | None = NOT_GIVEN,
        if_match: int | NotGiven | None = NOT_GIVEN,
    ) -> None:
        """Change what is given, here and in the service. Without anything to change nothing happens.

        Args:
            description: A text for people; `None` clears it.
            metadata: The application's own data, replaced as a whole; `None` clears it.
            lifecycle_strategies: 1 to 5 strategies that replace the present ones; they cannot be cleared.
            if_match: The version that the session must still have. By default the one in `version`; `None` means that
                the last writer wins.

        Raises:
            ValueError: `lifecycle_strategies` is `None` or empty.
            ClientError: 409 where the session has changed since it was read: `get` it again, then repeat the change.
        """
        fields: wire.SessionFields = {}
        if description is not NOT_GIVEN:
            fields["description"] = description
        if metadata is not NOT_GIVEN:
            fields["metadata"] = metadata
        if lifecycle_strategies is not NOT_GIVEN:
            if not lifecycle_strategies:
                raise ValueError("The lifecycle strategies of a session cannot be cleared")
            fields["lifecycleStrategies"] = lifecycle_strategies
        if not fields:
            return
        version = self.version if if_match is NOT_GIVEN else if_match
        call = calls.patch_session(self._space_id(), self.id, fields, if_match=version)
        self._take(self._connection().send(call))

    def delete(self) -> None:
        """Delete the session and its events; its deduplication key is free again.

        Raises:
            ClientError: 404 where it is gone already.
        """
        self._connection().send(calls.delete_session(self._space_id(), self.id))

    def post_event(
        self,
        body: dict[str, Any],
        emitter: Emitter,
        event_type: str | None = None,
        deduplication_key: str | None = None,
        lookup_keys: Sequence[str] | None = None,
    ) -> Event:
        """Append an event.

        Args:
            body: The payload, at most 4 MiB; `content`, where present, is a text of 1 to 1,000,000 characters.
            emitter: `{"type": "agent"}` or `{"type": "user", "id": ...}`, the id of a participant.
            event_type: The application's label, 1 to 100 characters.
            deduplication_key: 1 to 72 characters that no other event of the session may have: makes it safe to call
                again where the answer was lost.
            lookup_keys: At most 512 texts of 1 to 128 characters that `MemorySpace.find_events` finds the event by; no
                other event of the space with this `event_type` may have one of them.

        Raises:
            MemoryEventDeduplicationError: An event has the key; `existing_sequence_id` says which.
            MemoryEventLookupError: An event has one of the lookup keys.
            ClientError: 400 where the user is not a participant, 422 where a value breaks a limit.
        """
        event = _new_event(body, emitter, event_type, deduplication_key, lookup_keys)
        call = calls.append_event(self._space_id(), self.id, event)
        return Event._read(self._connection().send(call))

    def events(
        self,
        offset: int | None = None,
        limit: int | None = None,
        last_n: int | None = None,
        event_type: str | None = None,
    ) -> builtins.list[Event]:
        """Events of this session in order: one page, or the last ones.

        Args:
            offset: How many to skip; none by default.
            limit: How many to return, 1 to 100; 100 by default.
            last_n: Only the newest, 1 to 100. Not together with `offset`.
            event_type: Only events with exactly this label.

        Raises:
            TypeError: Both `offset` and `last_n` are given.
            ClientError: An argument is out of range, or the session is gone.
        """
        if offset is not None and last_n is not None:
            raise TypeError("Give either offset or last_n, not both")
        call = calls.list_events(
            self._space_id(), self.id, offset=offset, limit=limit, last_n=last_n, event_type=event_type
        )
        return [Event._read(row) for row in self._connection().send(call)["items"]]

    def update_event(
        self,
        sequence_id: int,
        body: dict[str, Any] | None = None,
        event_type: str | None = None,
        emitter: Emitter | None = None,
        created_at: datetime | str | None = None,
        lookup_keys: Sequence[str] | None = None,
    ) -> Event | None:
        """Change an event; returns it as it is now, or `None` where there was nothing to change.

        Args:
            sequence_id: The event's place in the session.
            body: A payload that replaces the present one as a whole.
            event_type: A new label.
            emitter: Who emitted it.
            created_at: The version token that was read with the event; where it has changed since, nothing is changed.
            lookup_keys: Keys that come to those that the event has.

        Raises:
            MemoryEventLookupError: An event has one of the lookup keys.
            ClientError: 422 where the event has changed since `created_at`, 404 where it is gone.
        """
        fields: event_wire.EventFields = {}
        if body is not None:
            fields["body"] = body
        if event_type is not None:
            fields["type"] = event_type
        if emitter is not None:
            fields["emitter"] = emitter
        if lookup_keys:
            fields["lookupKeys"] = list(lookup_keys)
        if not fields:
            return None
        call = calls.patch_event(self._space_id(), self.id, sequence_id, fields, created_at=write_moment(created_at))
        return Event._read(self._connection().send(call))

    def post_events(self, events: Sequence[NewEvent]) -> builtins.list[Event]:
        """Append 1 to 200 events in order, all or none.

        Raises:
            MemoryEventDeduplicationError: An event of the session has the key of one of them.
            ClientError: One of them, named by its index, breaks a rule; or there are none or too many.
        """
        new = [
            _new_event(
                event["body"],
                event["emitter"],
                event.get("event_type"),
                event.get("deduplication_key"),
                event.get("lookup_keys"),
            )
            for event in events
        ]
        answer = self._connection().send(calls.append_events(self._space_id(), self.id, new))
        return [Event._read(row) for row in answer["items"]]

    def update_events(self, events: Sequence[EventUpdate]) -> builtins.list[Event]:
        """Change 1 to 200 events, all or none; a `sequence_id` comes once at most.

        Raises:
            ClientError: 422 where one has changed since its `created_at`, or breaks a rule.
        """
        patches = [_event_patch(event) for event in events]
        answer = self._connection().send(calls.patch_events(self._space_id(), self.id, patches))
        return [Event._read(row) for row in answer["items"]]

    @classmethod
    def _read(cls, client: Client, memory_space_id: str, row: wire.Session) -> Self:
        session = cls(row["id"], row["participants"], read_moment(row["createdAt"]), row["lifecycleStrategies"])
        session.memory_space_id = memory_space_id
        session._client = client
        session._take(row)
        return session

    def _take(self, row: wire.Session) -> None:
        self.participants = row["participants"]
        self.lifecycle_strategies = row["lifecycleStrategies"]
        self.description = row["description"]
        self.metadata = row["metadata"]
        self.version = row.get("version")
        self.deduplication_key = row["deduplicationKey"]

    def _space_id(self) -> str:
        if self.memory_space_id is None:
            raise ValueError("This session has no memory_space_id, so the service cannot find it")
        return self.memory_space_id

    def _connection(self) -> Client:
        return self._client or default_client()

    def __repr__(self) -> str:
        return f"Session(id={self.id!r}, version={self.version!r}, description={self.description!r})"


def _new_event(
    body: dict[str, Any],
    emitter: Emitter,
    event_type: str | None,
    deduplication_key: str | None,
    lookup_keys: Sequence[str] | None,
) -> event_wire.NewEvent:
    event: event_wire.NewEvent = {"body": body, "emitter": emitter}
    if event_type is not None:
        event["type"] = event_type
    if deduplication_key is not None:
        event["deduplicationKey"] = deduplication_key
    if lookup_keys:
        event["lookupKeys"] = list(lookup_keys)
    return event


def _event_patch(event: EventUpdate) -> event_wire.EventPatch:
    patch: dict[str, Any] = {"sequenceId": event["sequence_id"]}
    for name, key in (
        ("body", "body"),
        ("event_type", "type"),
        ("emitter", "emitter"),
        ("lookup_keys", "lookupKeys"),
    ):
        if name in event:
            patch[key] = cast(dict[str, Any], event)[name]
    if (token := write_moment(event.get("created_at"))) is not None:
        patch["createdAt"] = token
    return cast(event_wire.EventPatch, patch)
