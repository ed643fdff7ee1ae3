"""The bytes that a run may hold."""

from ag_ui.core import MessagesSnapshotEvent, TextMessageContentEvent, UserMessage

from threadkeep.chat_history import WireEvent
from threadkeep.chat_history.ag_ui.backlog import Backlog, event_bytes


def test_what_came_is_held_until_it_is_stored() -> None:
    backlog = Backlog(100)
    backlog.come(30)
    backlog.come(20)
    backlog.fold(30)
    assert backlog.held == 50
    backlog.stored_up_to(backlog.folded)
    assert backlog.held == 20
    # A write that began earlier and answered later takes nothing back.
    backlog.stored_up_to(10)
    assert backlog.held == 20


def test_a_full_backlog_has_room_again_when_it_is_half_empty() -> None:
    backlog = Backlog(100)
    backlog.come(90)
    assert backlog.has_room(10)
    assert not backlog.has_room(11)
    assert not backlog.has_room(1)
    backlog.fold(40)
    backlog.stored_up_to(39)
    assert not backlog.has_room(1)
    backlog.stored_up_to(40)
    assert backlog.has_room(50)


def test_one_event_is_taken_however_large_it_is() -> None:
    assert Backlog(100).has_room(10_000)


def test_whoever_waits_is_told_when_there_may_be_room() -> None:
    backlog, told = Backlog(100), []
    backlog.when_freed = lambda: told.append(backlog.held)
    backlog.come(60)
    backlog.fold(60)
    backlog.stored_up_to(60)
    assert told == [0]


def test_an_event_takes_about_what_its_texts_take() -> None:
    assert 1_000 < event_bytes(WireEvent(b'{"type":"RAW","x":"' + b"a" * 1_000 + b'"}')) < 1_500
    assert 1_000 < event_bytes(TextMessageContentEvent(message_id="m", delta="a" * 1_000)) < 1_700
    assert event_bytes({"type": "CUSTOM", "value": [{"deep": "a" * 1_000}] * 3}) > 3_000
    snapshot = MessagesSnapshotEvent(messages=[UserMessage(id=each, content=each * 1_000) for each in "ab"])
    assert 2_000 < event_bytes(snapshot) < 3_400
    endless: list[object] = []
    endless.append(endless)
    assert event_bytes({"value": endless}) < 1_000
    assert event_bytes(object()) < 1_000
