"""The synchronous SDK on the real service: what its reference documents."""

from datetime import UTC, datetime, timedelta

import pytest

import threadkeep
from tests.models.conftest import USER
from threadkeep.errors import (
    ClientError,
    MemoryEventDeduplicationError,
    MemoryEventLookupError,
    MemorySessionDeduplicationError,
    MemorySpaceDeduplicationError,
)
from threadkeep.models.memory import Event, EventUpdate, MemorySpace, NewEvent, Session


@pytest.fixture
def space(sdk: threadkeep.Client) -> MemorySpace:
    return MemorySpace.create(description="Tests")


@pytest.fixture
def session(space: MemorySpace) -> Session:
    return Session.create(space.id, [USER])


def test_a_space_has_every_documented_attribute(sdk: threadkeep.Client) -> None:
    made = MemorySpace.create("d\x00\ud83d", "gpt-4o", "http://llm.test/v1", "Only names.", "key-1")
    for space in (made, MemorySpace.get(made.id), *MemorySpace.list(deduplication_key="key-1")):
        assert (space.id, space.description, space.deduplication_key) == (made.id, "d\x00\ud83d", "key-1")
        assert (space.llm_model_name, space.llm_base_url) == ("gpt-4o", "http://llm.test/v1")
        assert space.custom_instructions == "Only names."
        assert (len(space.user_id), len(space.tenant_id)) == (24, 36)
        assert datetime.now(UTC) - space.created_at < timedelta(minutes=5)


def test_spaces_are_listed_in_pages_newest_first(sdk: threadkeep.Client) -> None:
    made = [MemorySpace.create().id for _ in range(3)]
    assert [space.id for space in MemorySpace.list()] == made[::-1]
    assert [space.id for space in MemorySpace.list(offset=1, limit=1)] == [made[1]]


def test_none_clears_a_field_of_a_space_and_what_is_not_given_stays(space: MemorySpace) -> None:
    space.update(llm_model_name="m", custom_instructions="c")
    space.update(description=None, llm_model_name="n")
    for seen in (space, MemorySpace.get(space.id)):
        assert (seen.description, seen.llm_model_name, seen.custom_instructions) == (None, "n", "c")


def test_updating_nothing_sends_nothing(session: Session) -> None:
    space = MemorySpace.get(session.memory_space_id or "")
    session.delete()
    space.delete()
    space.update()
    session.update()
    session.update(if_match=7)
    assert session.update_event(1) is None


def test_a_taken_key_of_a_space_names_the_space_to_adopt(sdk: threadkeep.Client) -> None:
    first = MemorySpace.create(deduplication_key="app")
    with pytest.raises(MemorySpaceDeduplicationError) as raised:
        MemorySpace.create(deduplication_key="app")
    assert raised.value.existing_memory_space_id == first.id
    assert (raised.value.existing_memory_space_url or "").endswith(f"/memory/{first.id}/")
    assert (raised.value.status_code, raised.value.json["errorName"]) == (409, "MemorySpaceDeduplicationConflict")
    first.delete()
    assert MemorySpace.create(deduplication_key="app").id != first.id


def test_a_deleted_space_is_gone(space: MemorySpace) -> None:
    space.delete()
    with pytest.raises(ClientError) as raised:
        MemorySpace.get(space.id)
    assert raised.value.status_code == 404
    assert MemorySpace.list() == []


def test_a_session_has_every_documented_attribute(space: MemorySpace) -> None:
    metadata = {"some_key": {"camelCase": 1, "snake_case": [None, 2.5]}, "x\x00": "\ud83d"}
    made = Session.create(
        space.id,
        participants=[USER, "bot"],
        lifecycle_strategies=[
            {"type": "extract_memories", "trigger": {"idle": 3600}},
            {"type": "soft_delete", "trigger": {"ttl": 2592000}},
        ],
        description="d",
        metadata=metadata,
        deduplication_key="key-1",
    )
    for session in (made, Session.get(space.id, made.id), *Session.list(space.id)):
        assert (session.id, session.memory_space_id, session.version) == (made.id, space.id, 1)
        assert (session.participants, session.description, session.deduplication_key) == ([USER, "bot"], "d", "key-1")
        assert session.metadata == metadata
        assert list(session.metadata["some_key"]) == ["camelCase", "snake_case"]
        assert [strategy["trigger"] for strategy in session.lifecycle_strategies] == [{"idle": 3600}, {"ttl": 2592000}]
        assert datetime.now(UTC) - session.created_at < timedelta(minutes=5)


@pytest.mark.parametrize(
    "strategies",
    [
        [{"type": "soft_delete", "trigger": {"ttl": 604800}}],
        [
            {
                "type": "extract_memories",
                "trigger": {"eventCount": 100},
                "opts": {"softDelete": False, "agentId": "support-bot"},
            }
        ],
    ],
)
def test_the_documented_lifecycle_strategies_are_kept(space: MemorySpace, strategies: list[dict[str, object]]) -> None:
    session = Session.create(space.id, [USER], lifecycle_strategies=strategies)  # type: ignore[arg-type]
    for given, kept in zip(strategies, session.lifecycle_strategies, strict=True):
        assert {name: kept[name] for name in ("type", "trigger")} == {name: given[name] for name in ("type", "trigger")}
        assert (given.get("opts") or {}).items() <= (kept.get("opts") or {}).items()  # type: ignore[attr-defined]


@pytest.mark.parametrize("strategies", [None, []])
def test_a_session_without_strategies_is_deleted_after_180_days(
    space: MemorySpace, strategies: list[object] | None
) -> None:
    session = Session.create(space.id, [USER], lifecycle_strategies=strategies)  # type: ignore[arg-type]
    (strategy,) = session.lifecycle_strategies
    assert (strategy["type"], strategy["trigger"]) == ("soft_delete", {"ttl": 15552000})


def test_sessions_are_filtered_by_participants_and_description(space: MemorySpace) -> None:
    one = Session.create(space.id, ["a", "b"], description="Support: Billing")
    two = Session.create(space.id, ["b"], description="support: shipping")
    three = Session.create(space.id, ["c"])

    def found(**filters: object) -> list[str]:
        return [session.id for session in Session.list(space.id, **filters)]  # type: ignore[arg-type]

    assert found() == [one.id, two.id, three.id]
    assert found(participants=["a", "c"]) == [one.id, three.id]
    assert found(description="SUPPORT") == [one.id, two.id]
    assert found(description="bill", participants=["b"]) == [one.id]
    assert found(offset=1, limit=1) == [two.id]
    with pytest.raises(ClientError) as raised:
        found(description="su")
    assert raised.value.status_code == 422


def test_a_taken_key_of_a_session_names_the_session_to_adopt(space: MemorySpace) -> None:
    first = Session.create(space.id, [USER], deduplication_key="k")
    with pytest.raises(MemorySessionDeduplicationError) as raised:
        Session.create(space.id, [USER], deduplication_key="k")
    assert raised.value.existing_session_id == first.id
    assert (raised.value.existing_session_url or "").endswith(f"/sessions/{first.id}/")
    assert Session.create(MemorySpace.create().id, [USER], deduplication_key="k").id != first.id
    first.delete()
    assert Session.create(space.id, [USER], deduplication_key="k").id != first.id


def test_an_update_is_guarded_by_the_version_that_was_read(space: MemorySpace, session: Session) -> None:
    session.update(metadata={"n": 1})
    assert (session.version, session.metadata) == (2, {"n": 1})
    stale = Session.get(space.id, session.id)
    session.update(description="d", metadata=None)
    assert (session.version, session.description, session.metadata) == (3, "d", None)
    with pytest.raises(ClientError, match="Session version mismatch") as raised:
        stale.update(metadata={"n": 2})
    assert (raised.value.status_code, stale.version, stale.metadata) == (409, 2, {"n": 1})
    stale.update(metadata={"n": 3}, if_match=3)
    assert (stale.version, stale.description) == (4, "d")
    session.update(description=None, if_match=None)
    seen = Session.get(space.id, session.id)
    assert (seen.version, seen.description, seen.metadata) == (5, None, {"n": 3})


def test_strategies_are_replaced_and_never_cleared(session: Session) -> None:
    session.update(lifecycle_strategies=[{"type": "soft_delete", "trigger": {"idle": 60}}])
    assert [strategy["trigger"] for strategy in session.lifecycle_strategies] == [{"idle": 60}]
    for cleared in (None, []):
        with pytest.raises(ValueError, match="cannot be cleared"):
            session.update(lifecycle_strategies=cleared)
    assert session.version == 2


def test_an_event_has_every_documented_attribute(session: Session) -> None:
    body = {"content": "Hi", "some_key": {"camelCase": 1}, "x\x00": ["\ud83d", 1e300, -0.0]}
    made = session.post_event(body, {"type": "user", "id": USER}, "message")
    for event in (made, *session.events()):
        assert (event.body, event.event_type, event.sequence_id) == (body, "message", 1)
        assert (event.emitter_type, event.emitter_id) == ("user", USER)
        assert event.created_at == made.created_at
    plain = session.post_event(body={}, emitter={"type": "agent"})
    assert (plain.event_type, plain.emitter_id, plain.sequence_id) == (None, None, 2)


def test_events_are_listed_by_page_by_label_or_from_the_end(session: Session) -> None:
    new: list[NewEvent] = [
        {"body": {"n": n}, "emitter": {"type": "agent"}, "event_type": "even" if n % 2 == 0 else None} for n in range(6)
    ]
    assert [event.sequence_id for event in session.post_events(new)] == [1, 2, 3, 4, 5, 6]

    def found(**filters: object) -> list[int | None]:
        return [event.sequence_id for event in session.events(**filters)]  # type: ignore[arg-type]

    assert found() == [1, 2, 3, 4, 5, 6]
    assert found(offset=1, limit=2) == [2, 3]
    assert found(last_n=2) == [5, 6]
    assert found(event_type="even") == [1, 3, 5]
    assert found(event_type="even", last_n=2) == [3, 5]
    with pytest.raises(TypeError, match="either offset or last_n"):
        session.events(offset=0, last_n=1)


def test_an_event_is_changed_where_its_token_still_holds(session: Session) -> None:
    first = session.post_event({"content": "a"}, {"type": "agent"}, "x")
    second = session.update_event(1, body={"content": "b"}, created_at=first.created_at)
    assert second is not None
    assert (second.body, second.event_type) == ({"content": "b"}, "x")
    assert second.created_at is not None
    assert first.created_at is not None
    assert second.created_at > first.created_at
    with pytest.raises(ClientError, match="Patch of incorrect version of event") as raised:
        session.update_event(1, body={"content": "c"}, created_at=first.created_at)
    assert raised.value.status_code == 422
    with pytest.raises(ClientError):
        session.update_event(1, body={"content": "c"}, created_at=second.created_at.replace(microsecond=0))
    third = session.update_event(1, event_type="y", emitter={"type": "user", "id": USER})
    assert third is not None
    assert (third.body, third.event_type, third.emitter_type) == ({"content": "b"}, "y", "user")


def test_a_batch_is_appended_as_a_whole_or_not_at_all(session: Session) -> None:
    bad: list[NewEvent] = [
        {"body": {"content": "1"}, "emitter": {"type": "agent"}},
        {"body": {"content": "2"}, "emitter": {"type": "user", "id": "nobody"}},
    ]
    with pytest.raises(ClientError):
        session.post_events(bad)
    assert session.events() == []


def test_a_batch_is_changed_as_a_whole_or_not_at_all(session: Session) -> None:
    new: list[NewEvent] = [{"body": {"content": str(n)}, "emitter": {"type": "agent"}} for n in (1, 2)]
    one, two = session.post_events(new)
    updates: list[EventUpdate] = [
        {"sequence_id": 2, "body": {"content": "two"}, "created_at": two.created_at},
        {"sequence_id": 1, "event_type": "first"},
    ]
    changed = session.update_events(updates)
    assert [(event.sequence_id, event.body, event.event_type) for event in changed] == [
        (2, {"content": "two"}, None),
        (1, {"content": "1"}, "first"),
    ]
    stale: list[EventUpdate] = [
        {"sequence_id": 2, "body": {"content": "x"}},
        {"sequence_id": 1, "body": {"content": "x"}, "created_at": one.created_at},
    ]
    with pytest.raises(ClientError, match="Patch of incorrect version of event"):
        session.update_events(stale)
    assert [event.body for event in session.events()] == [{"content": "1"}, {"content": "two"}]


def test_a_deleted_session_is_gone_with_its_events(space: MemorySpace, session: Session) -> None:
    session.post_event({"content": "x"}, {"type": "agent"})
    session.delete()
    for call in (lambda: Session.get(space.id, session.id), session.events, session.delete):
        with pytest.raises(ClientError) as raised:
            call()
        assert raised.value.status_code == 404
    assert Session.list(space.id) == []


def test_a_taken_key_of_an_event_names_its_number(session: Session) -> None:
    without = session.post_event({"content": "a"}, {"type": "agent"})
    made = session.post_event({"content": "b"}, {"type": "agent"}, deduplication_key="k")
    assert (without.deduplication_key, made.deduplication_key) == (None, "k")
    with pytest.raises(MemoryEventDeduplicationError) as raised:
        session.post_event({"content": "c"}, {"type": "agent"}, deduplication_key="k")
    assert (raised.value.existing_sequence_id, raised.value.status_code) == (2, 409)
    with pytest.raises(MemoryEventDeduplicationError):
        session.post_events([NewEvent(body={}, emitter={"type": "agent"}, deduplication_key="k")])
    assert [event.body for event in session.events()] == [{"content": "a"}, {"content": "b"}]


def test_an_event_is_found_by_its_lookup_keys_in_the_space(space: MemorySpace, session: Session) -> None:
    session.post_event({"content": "a"}, {"type": "agent"}, "message", lookup_keys=["a"])
    session.post_events([NewEvent(body={}, emitter={"type": "agent"}, lookup_keys=["b"])])
    session.update_event(1, lookup_keys=["c"])
    session.update_events([EventUpdate(sequence_id=2, lookup_keys=["d"])])
    (first,) = space.find_events(["c", "x"])
    assert (first.sequence_id, first.session_id, first.lookup_keys) == (1, session.id, ["a", "c"])
    assert [event.sequence_id for event in space.find_events(["a", "d"])] == [1, 2]
    assert [event.sequence_id for event in space.find_events(["a", "d"], offset=1, limit=1)] == [2]
    assert space.find_events(["d"], "message") == []
    for refused in (
        lambda: session.post_event({}, {"type": "agent"}, "message", lookup_keys=["a"]),
        lambda: (
            session.update_event(1, event_type="message", lookup_keys=["c"])
            and session.update_event(2, event_type="message", lookup_keys=["c"])
        ),
    ):
        with pytest.raises(MemoryEventLookupError) as raised:
            refused()
        assert (raised.value.existing_session_id, raised.value.existing_sequence_id) == (session.id, 1)


def test_objects_may_be_made_by_hand(session: Session) -> None:
    by_hand = Session(session.id, [], session.created_at, [], memory_space_id=session.memory_space_id)
    assert by_hand.version is None
    by_hand.update(description="no version, so the last writer wins")
    assert by_hand.version == 2
    assert (Event().body, Event().sequence_id, Event().created_at) == (None, None, None)
    with pytest.raises(ValueError, match="memory_space_id"):
        Session(session.id, [], session.created_at, []).delete()
