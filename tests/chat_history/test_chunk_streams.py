"""Chunks as the beginnings, contents and ends that they stand for."""

from collections.abc import Mapping
from typing import Any

from threadkeep.chat_history.ag_ui.chunk_streams import ChunkStreams

TEXT = "TEXT_MESSAGE_CHUNK"


def expanded(chunks: ChunkStreams, *events: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Type, id and delta of what the events are to a reader who knows no chunks."""
    return [
        (kind, fields.get("messageId", fields.get("toolCallId")), fields.get("delta"))
        for event in events
        for kind, fields in chunks.expand(event["type"], event)
    ]


def test_chunks_of_one_message_begin_go_on_and_end_it() -> None:
    chunks = ChunkStreams()
    first = {"type": TEXT, "messageId": "m1", "role": "assistant", "delta": "a", "metadata": {"k": 1}}
    assert expanded(
        chunks, first, {"type": TEXT, "delta": "b"}, {"type": "RAW"}, {"type": TEXT, "messageId": "m2"}
    ) == [
        ("TEXT_MESSAGE_START", "m1", None),
        ("TEXT_MESSAGE_CONTENT", "m1", "a"),
        ("TEXT_MESSAGE_CONTENT", "m1", "b"),
        ("RAW", None, None),
        ("TEXT_MESSAGE_END", "m1", None),
        ("TEXT_MESSAGE_START", "m2", None),
    ]
    assert chunks.openers() == [{"type": TEXT, "messageId": "m2"}]
    assert expanded(chunks, {"type": "CUSTOM"}) == [("TEXT_MESSAGE_END", "m2", None), ("CUSTOM", None, None)]
    assert chunks.openers() == []


def test_each_speaker_has_a_lane_and_what_is_not_named_goes_to_the_only_one() -> None:
    chunks = ChunkStreams()
    of_helper = {"type": TEXT, "messageId": "m1", "subagentRunId": "s1", "delta": "a"}
    assert expanded(chunks, of_helper, {"type": TEXT, "delta": "b"})[-1] == ("TEXT_MESSAGE_CONTENT", "m1", "b")
    expanded(chunks, {"type": TEXT, "messageId": "m2", "delta": "c"})
    assert expanded(chunks, {"type": TEXT, "delta": "d"}) == [("TEXT_MESSAGE_CONTENT", "m2", "d")]
    assert expanded(chunks, {"type": TEXT, "messageId": "m1", "delta": "e"}) == [("TEXT_MESSAGE_CONTENT", "m1", "e")]
    step = {"type": "STEP_STARTED", "subagentRunId": "s1"}
    assert expanded(chunks, step) == [("TEXT_MESSAGE_END", "m1", None), ("STEP_STARTED", None, None)]
    assert [opener["messageId"] for opener in chunks.openers()] == ["m2"]
    assert expanded(chunks, {"type": "RUN_ERROR"})[0] == ("TEXT_MESSAGE_END", "m2", None)


def test_a_lane_begins_again_with_all_that_a_client_holds_it_to() -> None:
    chunks = ChunkStreams()
    call = {
        "type": "TOOL_CALL_CHUNK",
        "toolCallId": "c1",
        "toolCallName": "f",
        "parentMessageId": "m1",
        "subagentRunId": "s1",
    }
    expanded(chunks, {**call, "delta": "{", "timestamp": 3, "rawEvent": {}}, {"type": "TOOL_CALL_CHUNK", "delta": "}"})
    assert chunks.openers() == [call]


def test_a_chunk_that_goes_on_with_nothing_is_nothing() -> None:
    assert expanded(ChunkStreams(), {"type": TEXT, "delta": "lost"}) == []
