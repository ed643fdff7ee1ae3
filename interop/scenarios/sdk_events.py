"""The synchronous SDK: events."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from interop.names import Root

ANN, BOB = "a" * 24, "b" * 24
USER, AGENT = {"type": "user", "id": ANN}, {"type": "agent", "id": "bot"}
BODY = {"content": "Hi", "nested": [1, 2.5, None, {"deep": "z\u0000\U0001f600"}], "no": False}


def _session(root: Root) -> Any:
    return root.models.Session.create(root.models.MemorySpace.create().id, participants=[ANN, BOB])


def an_event_has_what_it_was_posted_with(root: Root) -> None:
    session = _session(root)
    posted = session.post_event(body=BODY, emitter=USER, event_type="message")
    for event in (posted, *session.events()):
        assert (event.sequence_id, event.event_type, event.body) == (1, "message", BODY)
        assert (event.emitter_type, event.emitter_id) == ("user", ANN)
        assert isinstance(event.created_at, datetime)
        assert event.created_at.utcoffset() == UTC.utcoffset(None)
    plain = session.post_event(body={}, emitter={"type": "agent"})
    assert (plain.sequence_id, plain.event_type, plain.body) == (2, None, {})
    assert (plain.emitter_type, plain.emitter_id) == ("agent", None)


def keys_of_a_body_are_stored_as_they_are(root: Root) -> None:
    """The published package renames those in snake case when it writes, and others when it shows them."""
    session = _session(root)
    keys = {"content": "x", "someKey": {"nestedKey": [{"deepKey": 1}]}, "ALL": 3, "snake_key": 5}
    session.post_event(keys, USER)
    session.post_events([{"body": keys, "emitter": AGENT}] * 2)
    session.update_event(1, body={**keys, "oneMoreKey": {"oneMore": 1}})
    session.update_events([{"sequence_id": 2, "body": {**keys, "oneMoreKey": {"oneMore": 1}}}])


def events_are_read_by_page_from_the_end_and_by_type(root: Root) -> None:
    session = _session(root)
    for number in range(1, 8):
        session.post_event({"content": f"{number}"}, AGENT, event_type="status" if number % 3 == 0 else "message")

    def read(**arguments: Any) -> list[int]:
        return [event.sequence_id for event in session.events(**arguments)]

    assert read() == [1, 2, 3, 4, 5, 6, 7]
    assert read(offset=2, limit=3) == [3, 4, 5]
    assert read(limit=2) == [1, 2]
    assert read(offset=6) == [7]
    assert read(last_n=2) == [6, 7]
    assert read(event_type="status") == [3, 6]
    assert read(event_type="status", last_n=1) == [6]
    assert read(event_type="message", offset=1, limit=2) == [2, 4]
    assert read(event_type="tool_output") == []
    with pytest.raises(TypeError):
        read(offset=0, last_n=1)
    for wrong in ({"limit": 101}, {"limit": 0}, {"last_n": 0}, {"last_n": 101}, {"offset": -1}):
        with pytest.raises(root.errors.ClientError) as raised:
            read(**wrong)
        assert raised.value.status_code == 422


def an_event_is_updated_in_each_of_its_parts(root: Root) -> None:
    session = _session(root)
    first = session.post_event({"content": "a", "kept": False}, USER, event_type="message")
    assert session.update_event(1) is None
    second = session.update_event(1, body={"content": "b"})
    assert second.body == {"content": "b"}
    assert (second.event_type, second.emitter_id) == ("message", ANN)
    assert second.created_at > first.created_at
    third = session.update_event(1, event_type="status")
    assert (third.body, third.event_type) == ({"content": "b"}, "status")
    fourth = session.update_event(1, emitter={"type": "user", "id": BOB})
    assert (fourth.emitter_type, fourth.emitter_id, fourth.event_type) == ("user", BOB, "status")
    (seen,) = session.events()
    assert (seen.created_at, seen.body) == (fourth.created_at, {"content": "b"})


def a_change_is_guarded_by_the_time_that_was_read(root: Root) -> None:
    session = _session(root)
    first = session.post_event({"content": "a"}, USER)
    second = session.update_event(1, body={"content": "b"}, created_at=first.created_at)
    for token in (first.created_at, second.created_at + timedelta(microseconds=1)):
        with pytest.raises(root.errors.ClientError, match="Patch of incorrect version of event") as raised:
            session.update_event(1, body={"content": "lost"}, created_at=token)
        assert raised.value.status_code == 422
    session.update_event(1, body={"content": "last wins"})
    assert [event.body for event in session.events()] == [{"content": "last wins"}]


def a_batch_is_stored_whole_or_not_at_all(root: Root) -> None:
    session = _session(root)
    events = session.post_events(
        [
            {"body": {"content": "a"}, "emitter": USER, "event_type": "message"},
            {"body": {"content": "b", "someKey": 1}, "emitter": AGENT},
            {"body": {}, "emitter": {"type": "agent"}, "event_type": "tool_output"},
        ]
    )
    assert [(event.sequence_id, event.event_type) for event in events] == [
        (1, "message"),
        (2, None),
        (3, "tool_output"),
    ]
    good = {"body": {"content": "x"}, "emitter": AGENT}
    for batch, status in (
        ([good, {"body": {"content": "x"}, "emitter": {"type": "user", "id": "stranger"}}], 400),
        ([good, {"body": {"content": "x"}, "emitter": {"type": "robot"}}], 422),
        ([good] * 201, 422),
    ):
        with pytest.raises(root.errors.ClientError) as raised:
            session.post_events(batch)
        assert raised.value.status_code == status
    many = session.post_events([good] * 200)
    assert [event.sequence_id for event in many] == list(range(4, 204))
    assert [event.sequence_id for event in session.events(last_n=1)] == [203]


def a_batch_of_changes_is_made_whole_or_not_at_all(root: Root) -> None:
    session = _session(root)
    one, two, three = session.post_events([{"body": {"content": text}, "emitter": USER} for text in "abc"])
    changed = session.update_events(
        [
            {"sequence_id": 3, "event_type": "status", "created_at": three.created_at},
            {"sequence_id": 1, "body": {"content": "A"}, "emitter": AGENT},
        ]
    )
    assert {(event.sequence_id, event.event_type, event.emitter_type) for event in changed} == {
        (3, "status", "user"),
        (1, None, "agent"),
    }
    fine = {"sequence_id": 2, "body": {"content": "lost"}}
    for batch, status in (
        ([fine, {"sequence_id": 1, "body": {"content": "lost"}, "created_at": one.created_at}], 422),
        ([fine, fine], 422),
        ([fine, {"sequence_id": 4, "body": {"content": "lost"}}], 404),
        ([fine, {"sequence_id": 1, "emitter": {"type": "user", "id": "stranger"}}], 400),
    ):
        with pytest.raises(root.errors.ClientError) as raised:
            session.update_events(batch)
        assert raised.value.status_code == status
    assert [event.body["content"] for event in session.events()] == ["A", "b", "c"]
    assert session.events()[1].created_at == two.created_at


def rules_of_an_event_are_kept(root: Root) -> None:
    session = _session(root)
    for body, emitter, event_type, status in (
        ({"content": "x"}, {"type": "user"}, None, 400),
        ({"content": "x"}, {"type": "user", "id": "stranger"}, None, 400),
        ({"content": ""}, AGENT, None, 422),
        ({"content": 7}, AGENT, None, 422),
        ({"content": "x"}, {"type": "robot", "id": "r"}, None, 422),
        ({"content": "x"}, AGENT, "x" * 101, 422),
    ):
        with pytest.raises(root.errors.ClientError) as raised:
            session.post_event(body, emitter, event_type)
        assert raised.value.status_code == status
    with pytest.raises(root.errors.ClientError) as raised:
        session.update_event(1, body={"content": "x"})
    assert raised.value.status_code == 404
    assert session.events() == []
    assert session.post_event({"content": "x"}, AGENT).sequence_id == 1


SCENARIOS = (
    an_event_has_what_it_was_posted_with,
    keys_of_a_body_are_stored_as_they_are,
    events_are_read_by_page_from_the_end_and_by_type,
    an_event_is_updated_in_each_of_its_parts,
    a_change_is_guarded_by_the_time_that_was_read,
    a_batch_is_stored_whole_or_not_at_all,
    a_batch_of_changes_is_made_whole_or_not_at_all,
    rules_of_an_event_are_kept,
)
