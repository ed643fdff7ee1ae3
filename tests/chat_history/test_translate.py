"""From stored messages to the history that an agent is given."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from ag_ui.core import AssistantMessage, ReasoningMessage, ToolMessage, UserMessage

from tests.chat_history.stored import spoken
from threadkeep.chat_history import ExtendedBaseMessage, Message, Reasoning, ToolCall, translate_messages
from threadkeep.chat_history.ag_ui.wire import message_fields

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


def wire(*messages: Message) -> list[dict[str, Any]]:
    return [dict(message_fields(message)) for message in translate_messages(messages)]


def test_a_message_is_followed_by_its_results_and_then_its_reasonings() -> None:
    message = spoken(
        "Let me look",
        agui_id="m1",
        tool_calls=[ToolCall(agui_id="c1", tool_call_id="t1", name="f", arguments='{"a":1}', content="4C")],
        reasonings=[Reasoning(agui_id="z1", content="hm", encrypted_value="g==")],
    )
    assert wire(message) == [
        {
            "id": "m1",
            "role": "assistant",
            "content": "Let me look",
            "toolCalls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}],
        },
        {"id": "t1", "role": "tool", "content": "4C", "toolCallId": "c1"},
        {"id": "z1", "role": "reasoning", "content": "hm", "encryptedValue": "g=="},
    ]


def test_what_has_no_ag_ui_id_goes_by_its_uuid() -> None:
    call, step = ToolCall(name="f", content="r"), Reasoning(content="hm")
    message = spoken("x", tool_calls=[call], reasonings=[step])
    first, tool, reasoning = wire(message)
    assert first["id"] == str(message.message_uuid)
    assert first["toolCalls"][0]["id"] == tool["id"] == tool["toolCallId"] == str(call.uuid)
    assert reasoning["id"] == str(step.uuid)


def test_messages_come_by_time_and_what_is_in_them_too() -> None:
    def later(seconds: int) -> datetime:
        return NOW + timedelta(seconds=seconds)

    calls = [
        ToolCall(agui_id="second", content="b", created_at=later(2)),
        ToolCall(agui_id="first", content="a", created_at=later(1)),
    ]
    messages = [
        spoken("answer", timestamp=later(1), tool_calls=calls),
        Message(content="question", role="user", timestamp=NOW),
    ]
    history = wire(*messages)
    assert [each["content"] for each in history] == ["question", "answer", "a", "b"]
    assert [call["id"] for call in history[1]["toolCalls"]] == ["first", "second"]


def test_a_time_that_is_none_comes_first_and_one_without_a_zone_is_utc() -> None:
    odd = spoken("odd")
    odd.__dict__["timestamp"] = "yesterday"
    naive = spoken("naive", timestamp=NOW.replace(tzinfo=None))
    after = spoken("after", timestamp=NOW + timedelta(seconds=1))
    assert [each["content"] for each in wire(after, naive, odd)] == ["odd", "naive", "after"]


@pytest.mark.parametrize("status", ["complete", "active", "interrupted", "errored"])
def test_a_call_without_a_result_is_said_to_be_completed(status: str) -> None:
    message = spoken("", agui_id="m", tool_calls=[ToolCall(agui_id="c", name="f", status=status)])
    assert wire(message)[1]["content"] == "Completed f"
    assert translate_messages([message])[1].is_stand_in


@pytest.mark.parametrize(
    "result", [{"content": "r"}, {"tool_call_id": "t"}, {"parts": [{"type": "text", "text": "r"}]}]
)
def test_a_result_is_no_stand_in(result: dict[str, Any]) -> None:
    message = spoken("", tool_calls=[ToolCall(agui_id="c", name="f", **result)])
    assert not translate_messages([message])[1].is_stand_in


def test_the_parts_of_a_result_come_back_equal() -> None:
    parts = [{"type": "text", "text": "see"}, {"type": "image", "source": {"type": "url", "value": "https://a/b.png"}}]
    message = spoken("", tool_calls=[ToolCall(agui_id="c", name="f", content="see", parts=parts)])
    assert wire(message)[1]["content"] == parts


def test_what_is_part_of_a_message_says_so() -> None:
    message = spoken("x", tool_calls=[ToolCall()], reasonings=[Reasoning()])
    assert [each.belongs_to for each in translate_messages([message])] == [None, *[message.message_uuid] * 2]


def test_blank_messages_pass_as_they_are() -> None:
    assert [each["content"] for each in wire(spoken(""))] == [""]
    assert wire(spoken("", tool_calls=[ToolCall(agui_id="c")]))[0]["content"] == ""


def test_activities_are_no_part_of_the_history() -> None:
    assert wire(Message(role="activity", content='{"steps":[]}', activity_type="PLAN")) == []


def test_a_second_message_with_the_same_id_goes_by_its_uuid() -> None:
    first, second = spoken("First", agui_id="same"), spoken("Second", agui_id="same")
    assert [each["id"] for each in wire(first, second)] == ["same", str(second.message_uuid)]


def test_arguments_that_are_no_json_pass_as_they_are() -> None:
    broken = spoken("", tool_calls=[ToolCall(agui_id="c", arguments='{"a":1}{"b":2}', content="r")])
    assert wire(broken)[0]["toolCalls"][0]["function"]["arguments"] == '{"a":1}{"b":2}'


def test_history_is_made_of_the_protocols_own_classes_with_the_state_of_the_record() -> None:
    call = ToolCall(agui_id="c", content="r", error="denied", status="errored")
    question = Message(content="q", role="user")
    answer = spoken("a", in_progress=True, status="active", tool_calls=[call], reasonings=[Reasoning()])
    history = translate_messages([question, answer])
    classes = (UserMessage, AssistantMessage, ToolMessage, ReasoningMessage)
    assert [isinstance(each, cls) for each, cls in zip(history, classes, strict=True)] == [True] * 4
    assert all(isinstance(each, ExtendedBaseMessage) for each in history)
    assert (history[1].in_progress, history[1].status.value, history[1].uuid) == (True, "active", answer.message_uuid)
    assert (history[2].error, history[2].status.value, history[2].uuid) == ("denied", "errored", call.uuid)


def test_the_parts_of_a_user_message_come_back_equal() -> None:
    parts = [
        {"type": "text", "text": "see"},
        {"type": "image", "source": {"type": "data", "value": "iVBORw0KGgo=", "mimeType": "image/png"}},
        {"type": "document", "source": {"type": "url", "value": "https://example.com/a.pdf"}},
    ]
    (message,) = translate_messages([Message(content="see", role="user", parts=parts)])
    assert message_fields(message)["content"] == parts
    assert message.content[1].source.mime_type == "image/png"


def test_parts_of_another_release_come_back_as_they_are() -> None:
    parts = [{"type": "hologram", "data": {"x": 1}}]
    (message,) = translate_messages([Message(content="", role="user", parts=parts)])
    assert json.loads(json.dumps(message_fields(message)["content"])) == parts
