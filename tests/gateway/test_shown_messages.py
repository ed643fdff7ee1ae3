"""Stored messages as a client shows them: as the field cases left them, and whatever else is in a row."""

from typing import Any
from uuid import uuid4

import pytest

from tests.chat_history.cases import load_cases
from tests.chat_history.cuts import events_of
from tests.chat_history.memory_store import MemoryChats, MemoryMessages
from tests.chat_history.scripts import ScriptedAgent, wire_input
from threadkeep.chat_history import AGUIStorageAgent
from threadkeep.chat_history.ag_ui.chunk_streams import ChunkStreams
from threadkeep.chat_history.ag_ui.client_view import ClientView
from threadkeep.gateway.shown_messages import shown_messages

CASES = load_cases()
# Where the record is better than what a client makes of the stream, or keeps what the client forgets.
DIFFERENT = {
    "004-parallel-tool-calls-interleaved-args": "results in the order of their calls",
    "005-parallel-args-keyed-to-first-call": "a result of no call is left out",
    "007-tool-result-id-collides-with-assistant-id": "ids are unique",
    "008-parent-id-is-a-tool-result": "the client makes up an id",
    "010-duplicate-end-and-duplicate-result": "a second result is left out",
    "011-full-args-replayed-after-deltas": "arguments that come again do not count twice",
    "016-start-end-without-content": "an empty message is no message",
    "023-two-reasoning-parts-one-id": "two thoughts stay two",
    "028-legacy-thinking-events": "the client makes up an id",
    "044-duplicate-user-id-in-one-input": "one message is stored once",
    "071-messages-snapshot-rekeys-ids": "a message keeps its id",
    "074-empty-messages-snapshot": "a snapshot takes nothing away",
    "076-text-tool-text-one-message-id": "text behind a result is a message of its own",
    "100-verbatim-forwarding-of-odd-wire": "the client makes up an id",
}


async def shown_of(case: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """What is shown of the record of a case, and what a client has that saw the stream."""
    run_input, events = case["input"]["run_input"], events_of(case)
    messages = MemoryMessages()
    agent = AGUIStorageAgent("", uuid4(), MemoryChats(), messages, ScriptedAgent(events))
    async for _ in agent.run(wire_input(**run_input)):
        pass
    await agent.stored()
    chunks, view = ChunkStreams(), ClientView(run_input["messages"])
    for event in events:
        for kind, fields in chunks.expand(event["type"], event):
            view.see(kind, fields)
    return shown_messages([each.model_dump(mode="json") for each in messages.messages.values()]), view.messages()


@pytest.mark.parametrize("name", CASES)
async def test_a_page_that_opens_a_thread_shows_what_one_does_that_saw_the_run(name: str) -> None:
    shown, seen = await shown_of(CASES[name])
    if name in DIFFERENT:
        assert shown != seen
    else:
        assert shown == seen
    assert len({message["id"] for message in shown}) == len(shown)


def call(uuid: str, agui_id: str | None, **fields: Any) -> dict[str, Any]:
    return {"uuid": uuid, "agui_id": agui_id, "name": "f", "arguments": "{}", "content": "\u200b", **fields}


def test_ids_that_agents_use_again_become_unique() -> None:
    bodies = [
        {"message_uuid": "A", "agui_id": "m1", "role": "assistant", "content": "one", "tool_calls": [call("X", "c1")]},
        {"message_uuid": "B", "agui_id": "m1", "role": "assistant", "content": "two", "tool_calls": [call("Y", "c1")]},
    ]
    shown = shown_messages(bodies)
    assert [(message["id"], message["content"]) for message in shown] == [("m1", "one"), ("B", "two")]
    assert [message["toolCalls"][0]["id"] for message in shown] == ["X", "c1"]


def test_what_waits_has_no_result_and_what_failed_says_so() -> None:
    (message, result) = shown_messages(
        [
            {
                "message_uuid": "A",
                "role": "assistant",
                "content": "\u200b",
                "name": "Bo",
                "tool_calls": [
                    call("X", "c1", awaiting=True, subagent_run_id="s1"),
                    call("Y", None, tool_call_id="t2", error="no", metadata={"k": 1}),
                ],
            }
        ]
    )
    function = {"name": "f", "arguments": "{}"}
    assert message == {
        "id": "A",
        "role": "assistant",
        "name": "Bo",
        "toolCalls": [
            {"id": "c1", "type": "function", "function": function},
            {"id": "Y", "type": "function", "function": function, "metadata": {"k": 1}},
        ],
    }
    assert result == {"id": "t2", "role": "tool", "toolCallId": "Y", "content": "", "error": "no"}


def test_parts_are_shown_as_parts_and_an_activity_as_its_value() -> None:
    parts = [{"type": "text", "text": "see"}]
    bodies = [
        {"message_uuid": "A", "role": "user", "content": "see", "parts": parts},
        {"message_uuid": "B", "role": "activity", "activity_type": "PLAN", "content": '{"steps":[1]}'},
        {"message_uuid": "C", "role": "activity", "activity_type": "PLAN", "content": "[cut"},
        {"message_uuid": "D", "role": "system", "content": "be kind"},
    ]
    assert shown_messages(bodies) == [
        {"id": "A", "role": "user", "content": parts},
        {"id": "B", "role": "activity", "activityType": "PLAN", "content": {"steps": [1]}},
        {"id": "D", "role": "system", "content": "be kind"},
    ]


@pytest.mark.parametrize("odd", [None, 3, "x", [], [3], {"a": 1}])
def test_a_body_that_another_writer_has_left_breaks_nothing(odd: Any) -> None:
    names = ("role", "content", "agui_id", "tool_calls", "reasonings", "parts", "metadata", "timestamp", "name")
    body = {"message_uuid": "A", **dict.fromkeys(names, odd)}
    assert len(shown_messages([body, {"message_uuid": "B", "role": "user", "content": "hi"}])) >= 1
