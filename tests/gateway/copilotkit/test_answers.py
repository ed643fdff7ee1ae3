"""Stored messages as CopilotKit's inspector shows them."""

from typing import Any

from threadkeep.contract.threads import ThreadMessage
from threadkeep.gateway.copilotkit.answers import inspected


def message(**fields: Any) -> ThreadMessage:
    whole: Any = {
        "messageUuid": "uuid",
        "aguiId": "m1",
        "role": "assistant",
        "content": "",
        "toolCalls": [],
        "reasonings": [],
        **fields,
    }
    return whole  # type: ignore[no-any-return]


def test_a_message_with_thoughts_and_calls_is_all_the_messages_that_a_client_has_of_it() -> None:
    call = {"uuid": "cu", "aguiId": "c1", "toolCallId": "r1", "name": "f", "arguments": '{"a":1}', "content": "42"}
    open_call = {**call, "aguiId": None, "toolCallId": None, "content": ""}
    thought = {"uuid": "q", "aguiId": None, "content": "hm"}
    assert inspected(message(toolCalls=[call, open_call], reasonings=[thought])) == [
        {"id": "q", "role": "reasoning", "content": "hm"},
        {
            "id": "m1",
            "role": "assistant",
            "toolCalls": [{"id": "c1", "name": "f", "args": '{"a":1}'}, {"id": "cu", "name": "f", "args": '{"a":1}'}],
        },
        {"id": "r1", "role": "tool", "content": "42", "toolCallId": "c1"},
    ]


def test_a_message_without_an_id_of_the_protocol_goes_by_its_uuid() -> None:
    assert inspected(message(aguiId=None, role="user", content="hi")) == [
        {"id": "uuid", "role": "user", "content": "hi"}
    ]


def test_an_activity_says_what_kind_it_is() -> None:
    (shown,) = inspected(message(role="activity", content="{}", activityType="plan"))
    assert shown == {"id": "m1", "role": "activity", "content": "{}", "activityType": "plan"}
