"""The synchronous SDK: sessions."""

from datetime import UTC, datetime
from typing import Any

import pytest

from interop.names import Root

ANN, BOB, CAT = "a" * 24, "b" * 24, "c" * 24
STRATEGIES = [
    {
        "type": "extract_memories",
        "trigger": {"eventCount": 100},
        "opts": {"softDelete": False, "agentId": "support-bot", "metadata": {"teamName": "a"}},
    },
    {"type": "extract_memories", "trigger": {"idle": 3600}},
    {"type": "extract_memories", "trigger": {"tokenCount": 50_000}, "opts": {"softDelete": True}},
    {"type": "soft_delete", "trigger": {"ttl": 2_592_000}},
]
METADATA = {"title": "Hello", "nested": [1, 2.5, None, True, {"deep": "ü\u0000\u200b"}], "empty": [], "": ""}


def _strategy(strategy: dict[str, Any]) -> tuple[str, list[int]]:
    return strategy["type"], list(strategy["trigger"].values())


def a_session_has_what_it_was_created_with(root: Root) -> None:
    Session = root.models.Session
    space = root.models.MemorySpace.create()
    session = Session.create(
        space.id,
        participants=[ANN, BOB],
        lifecycle_strategies=STRATEGIES,
        description="A talk",
        metadata=METADATA,
        deduplication_key="s-1",
    )
    for seen in (session, Session.get(space.id, session.id), *Session.list(space.id)):
        assert seen.id == session.id
        assert seen.participants == [ANN, BOB]
        assert seen.description == "A talk"
        assert seen.metadata == METADATA
        assert seen.version == 1
        assert seen.deduplication_key == "s-1"
        assert seen.memory_space_id == space.id
        assert isinstance(seen.created_at, datetime)
        assert seen.created_at.utcoffset() == UTC.utcoffset(None)
        # The published package renames the keys of what it shows; the rows tell whether they are stored right.
        assert [_strategy(strategy) for strategy in seen.lifecycle_strategies] == [_strategy(s) for s in STRATEGIES]


def keys_of_metadata_are_stored_as_they_are(root: Root) -> None:
    """The published package renames those in snake case when it writes, and others when it shows them."""
    space = root.models.MemorySpace.create()
    keys = {"someKey": {"nestedKey": [{"deepKey": 1}]}, "ALL": 3, "aB1cD": 4, "snake_key": 5}
    session = root.models.Session.create(space.id, [ANN], metadata=keys)
    session.update(metadata={**keys, "oneMoreKey": {"oneMore": 1}})


def a_session_without_strategies_lives_for_half_a_year(root: Root) -> None:
    space = root.models.MemorySpace.create()
    for strategies in (None, []):
        session = root.models.Session.create(space.id, [ANN], lifecycle_strategies=strategies)
        (strategy,) = session.lifecycle_strategies
        assert (strategy["type"], strategy["trigger"]) == ("soft_delete", {"ttl": 15_552_000})
        assert (session.description, session.metadata, session.deduplication_key) == (None, None, None)


def a_taken_key_leads_to_the_session_that_has_it(root: Root) -> None:
    Session = root.models.Session
    space, other = root.models.MemorySpace.create(), root.models.MemorySpace.create()
    first = Session.create(space.id, [ANN], deduplication_key="k", metadata={"n": 1})
    with pytest.raises(root.errors.MemorySessionDeduplicationError) as raised:
        Session.create(space.id, [ANN], deduplication_key="k", metadata={"n": 2})
    assert raised.value.status_code == 409
    assert raised.value.existing_session_id == first.id
    assert raised.value.existing_session_url.endswith(f"/memory/{space.id}/sessions/{first.id}/")
    assert isinstance(raised.value, root.errors.ClientError)
    assert Session.get(space.id, raised.value.existing_session_id).metadata == {"n": 1}
    assert Session.create(other.id, [ANN], deduplication_key="k").id != first.id
    first.delete()
    assert Session.create(space.id, [ANN], deduplication_key="k", metadata={"n": 3}).id != first.id


def sessions_are_listed_oldest_first_by_page_participant_and_description(root: Root) -> None:
    Session = root.models.Session
    space = root.models.MemorySpace.create()
    for name, participants in (("One talk", [ANN]), ("Two TALKS", [ANN, BOB]), ("Three", [BOB]), ("100%_odd\\", [CAT])):
        Session.create(space.id, participants, description=name)
    Session.create(space.id, [CAT])

    def listed(**filters: Any) -> list[str | None]:
        return [session.description for session in Session.list(space.id, **filters)]

    assert listed() == ["One talk", "Two TALKS", "Three", "100%_odd\\", None]
    assert listed(limit=2) == ["One talk", "Two TALKS"]
    assert listed(offset=3) == ["100%_odd\\", None]
    assert listed(offset=1, limit=1) == ["Two TALKS"]
    assert listed(participants=[ANN]) == ["One talk", "Two TALKS"]
    assert listed(participants=[ANN, BOB]) == ["One talk", "Two TALKS", "Three"]
    assert listed(participants=["nobody"]) == []
    assert listed(description="talk") == ["One talk", "Two TALKS"]
    assert listed(description="%_o") == ["100%_odd\\"]
    assert listed(description="talk", participants=[BOB]) == ["Two TALKS"]
    for wrong in ({"limit": 101}, {"offset": -1}, {"description": "ab"}):
        with pytest.raises(root.errors.ClientError) as raised:
            listed(**wrong)
        assert raised.value.status_code == 422


def an_update_is_guarded_by_the_version_that_was_read(root: Root) -> None:
    Session = root.models.Session
    space = root.models.MemorySpace.create()
    session = Session.create(space.id, [ANN], description="a", metadata={"n": 1})
    stale = Session.get(space.id, session.id)
    session.update()
    assert session.version == 1
    session.update(description="b", metadata={"n": 2})
    assert (session.version, session.description, session.metadata) == (2, "b", {"n": 2})
    with pytest.raises(root.errors.ClientError, match="Session version mismatch") as raised:
        stale.update(description="lost")
    assert raised.value.status_code == 409
    reloaded = Session.get(space.id, session.id)
    assert (reloaded.version, reloaded.description) == (2, "b")
    reloaded.update(description=None)
    assert (reloaded.version, reloaded.description, reloaded.metadata) == (3, None, {"n": 2})
    reloaded.update(metadata=None)
    assert (reloaded.version, reloaded.metadata) == (4, None)


def an_update_can_name_its_version_or_none(root: Root) -> None:
    Session = root.models.Session
    space = root.models.MemorySpace.create()
    session = Session.create(space.id, [ANN], description="a")
    stale = Session.get(space.id, session.id)
    session.update(description="b", if_match=1)
    stale.update(metadata={"won": "last"}, if_match=None)
    assert stale.version == 3
    with pytest.raises(root.errors.ClientError) as raised:
        stale.update(description="lost", if_match=2)
    assert raised.value.status_code == 409
    session.update(description="c", if_match=3)
    assert Session.get(space.id, session.id).metadata == {"won": "last"}


def strategies_are_replaced_and_never_cleared(root: Root) -> None:
    Session = root.models.Session
    space = root.models.MemorySpace.create()
    session = Session.create(space.id, [ANN])
    session.update(lifecycle_strategies=[{"type": "soft_delete", "trigger": {"idle": 3600}}])
    assert session.version == 2
    (strategy,) = Session.get(space.id, session.id).lifecycle_strategies
    assert (strategy["type"], strategy["trigger"]) == ("soft_delete", {"idle": 3600})
    for cleared in (None, []):
        with pytest.raises((ValueError, root.errors.ClientError)):
            session.update(lifecycle_strategies=cleared)
    assert Session.get(space.id, session.id).version == 2


def a_deleted_session_is_gone_with_its_events(root: Root) -> None:
    Session = root.models.Session
    space = root.models.MemorySpace.create()
    kept = Session.create(space.id, [ANN], description="kept")
    session = Session.create(space.id, [ANN], description="doomed")
    session.post_event(body={"content": "x"}, emitter={"type": "agent"})
    session.delete()
    for call in (
        lambda: Session.get(space.id, session.id),
        lambda: session.update(description="x"),
        lambda: session.events(),
        lambda: session.post_event(body={"content": "x"}, emitter={"type": "agent"}),
        lambda: session.delete(),
    ):
        with pytest.raises(root.errors.ClientError) as raised:
            call()
        assert raised.value.status_code == 404
    assert [seen.id for seen in Session.list(space.id)] == [kept.id]


def rules_of_a_session_are_kept(root: Root) -> None:
    space = root.models.MemorySpace.create()
    delete = {"type": "soft_delete", "trigger": {"ttl": 60}}
    for fields in (
        {"participants": []},
        {"participants": ["x" * 129]},
        {"participants": [f"{number}" for number in range(51)]},
        {"description": "x" * 1_001},
        {"deduplication_key": "x" * 73},
        {"metadata": {"x": "y" * 300_000}},
        {"lifecycle_strategies": [delete, delete]},
        {"lifecycle_strategies": [{"type": "soft_delete", "trigger": {"ttl": 0}}]},
        {"lifecycle_strategies": [{"type": "soft_delete", "trigger": {"ttl": 63_072_001}}]},
        {"lifecycle_strategies": [{"type": "soft_delete", "trigger": {"ttl": 60, "idle": 60}}]},
        {"lifecycle_strategies": [{"type": "vanish", "trigger": {"ttl": 60}}]},
    ):
        with pytest.raises(root.errors.ClientError) as raised:
            root.models.Session.create(space.id, **{"participants": [ANN], **fields})
        assert raised.value.status_code == 422
    assert root.models.Session.list(space.id) == []


SCENARIOS = (
    a_session_has_what_it_was_created_with,
    keys_of_metadata_are_stored_as_they_are,
    a_session_without_strategies_lives_for_half_a_year,
    a_taken_key_leads_to_the_session_that_has_it,
    sessions_are_listed_oldest_first_by_page_participant_and_description,
    an_update_is_guarded_by_the_version_that_was_read,
    an_update_can_name_its_version_or_none,
    strategies_are_replaced_and_never_cleared,
    a_deleted_session_is_gone_with_its_events,
    rules_of_a_session_are_kept,
)
