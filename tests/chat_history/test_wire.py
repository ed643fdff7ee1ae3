"""AG-UI on the wire: what came is what goes, and whatever it is it can be read."""

import json
from typing import Any

import pytest
from ag_ui.core import (
    CustomEvent,
    MessagesSnapshotEvent,
    RunAgentInput,
    RunErrorEvent,
    TextMessageContentEvent,
    ToolCallStartEvent,
    UserMessage,
)

from tests.chat_history.stored import spoken
from threadkeep.chat_history import Message, ToolCall, translate_messages
from threadkeep.chat_history.ag_ui.wire import (
    WireEvent,
    WireInput,
    event_fields,
    event_json,
    event_type,
    input_json,
    message_fields,
)

ODD = [
    b'{"type":"CUSTOM","name":"n","value":12345678901234567890123}',
    b'{ "type" : "RUN_STARTED", "timestamp":1767225605000.5, "parentRunId":null }',
    b'{"type":"CUSTOM","value":NaN}',
    b'{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"hi \\ud83d"}',
    b'{"type":"A","type":"B"}',
]


@pytest.mark.parametrize("raw", ODD)
def test_an_event_goes_out_as_the_bytes_that_came(raw: bytes) -> None:
    assert event_json(WireEvent(raw)) is raw


def test_an_event_is_read_leniently() -> None:
    event = WireEvent(ODD[3])
    assert (event.type, event.fields["delta"]) == ("TEXT_MESSAGE_CONTENT", "hi \ud83d")
    assert WireEvent(ODD[0]).fields["value"] == 12345678901234567890123


@pytest.mark.parametrize(
    "raw", [b"", b"nonsense", b"[1]", b'"text"', b"\xff\xfe", b"{" * 100_000, b"[" * 100_000 + b"]" * 100_000]
)
def test_what_is_no_event_has_no_type_and_no_fields(raw: bytes) -> None:
    event = WireEvent(raw)
    assert (event.type, event.fields, event_json(event)) == ("", {}, raw)


def test_bytes_that_are_no_utf_8_can_still_be_folded() -> None:
    assert WireEvent(b'{"type":"CUSTOM","value":"\xff"}').fields["value"] == "\ufffd"


def test_a_number_of_any_length_does_not_hide_what_stands_beside_it() -> None:
    event = WireEvent(b'{"type":"CUSTOM","name":"n","value":[' + b"9" * 5_000 + b",-1e999]}")
    assert (event.type, event.fields["name"]) == ("CUSTOM", "n")
    assert WireEvent(b'\xef\xbb\xbf{"type":"CUSTOM"}').type == "CUSTOM"


def test_what_nests_too_deeply_does_not_hide_what_stands_beside_it() -> None:
    deep = b'[{"a":"]}\\""},' * 3_000 + b"0" + b"]" * 3_000
    event = WireEvent(b' {"rawEvent": ' + deep + b' , "type":"CUSTOM" ,"n":' + b"9" * 5_000 + b',"x":' + deep + b"} ")
    assert (event.type, event.fields.keys()) == ("CUSTOM", {"type", "n"})


@pytest.mark.parametrize("end", [b"", b",", b"}}", b"} x", b',"y"}', b",7:1}", b",}"])
def test_what_nests_too_deeply_and_is_no_json_is_no_event(end: bytes) -> None:
    event = WireEvent(b'{"type":"CUSTOM","x":' + b"[" * 3_000 + b"]" * 3_000 + end)
    assert (event.is_object, event.fields) == (False, {})


def test_an_empty_object_is_an_object() -> None:
    assert [WireEvent(raw).is_object for raw in (b"{}", b" { } ", b"[]", b"null", b"")] == [True, True, *[False] * 3]


@pytest.mark.parametrize("kind", [None, 3, ["RUN_STARTED"], {}])
def test_a_type_that_is_no_text_is_none(kind: Any) -> None:
    assert event_type(WireEvent.of({"type": kind})) == event_type({"type": kind}) == event_type(object()) == ""


def test_an_object_is_read_under_wire_names() -> None:
    event = ToolCallStartEvent(tool_call_id="c1", tool_call_name="f", parent_message_id="m1")
    assert event_type(event) == "TOOL_CALL_START"
    assert event_fields(event) == {"toolCallId": "c1", "toolCallName": "f", "parentMessageId": "m1"}


def test_fields_that_the_installed_release_does_not_know_are_read_too() -> None:
    event = TextMessageContentEvent.model_validate({"messageId": "m", "delta": "x", "futureField": {"a": [1]}})
    assert event_fields(event) == {"messageId": "m", "delta": "x", "futureField": {"a": [1]}}


def test_objects_inside_an_event_are_read_as_plain_values() -> None:
    event = MessagesSnapshotEvent(messages=[UserMessage(id="u1", role="user", content="hi")])
    assert event_fields(event) == {"messages": [{"id": "u1", "role": "user", "content": "hi"}]}


def test_a_mapping_is_its_own_fields() -> None:
    fields = {"type": "RAW", "event": {}}
    assert event_fields(fields) is fields
    assert event_fields(3) == {}


def test_an_object_goes_out_under_wire_names_without_what_is_not_set() -> None:
    event = RunErrorEvent(message="no", code="X")
    assert json.loads(event_json(event)) == {"type": "RUN_ERROR", "message": "no", "code": "X"}


def test_a_null_that_means_something_goes_out() -> None:
    event = CustomEvent(name="n", value={"a": None})
    assert json.loads(event_json(event))["value"] == {"a": None}


def test_half_a_surrogate_pair_goes_out_as_an_escape() -> None:
    event = TextMessageContentEvent(message_id="m", delta="hi \ud83d")
    assert json.loads(event_json(event)) == {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "hi \ud83d"}
    assert b"\\ud83d" in event_json(event)


def test_an_input_has_the_attributes_of_the_protocols_own() -> None:
    fields = {
        "threadId": "t",
        "runId": "r",
        "parentRunId": "p",
        "protocolVersion": "1.0",
        "messages": [{"id": "u"}],
        "resume": [{"interruptId": "i"}],
        "future": None,
    }
    given = WireInput(fields)
    assert (given.thread_id, given.run_id, given.parent_run_id, given.protocol_version) == ("t", "r", "p", "1.0")
    assert (given.messages, given.tools, given.resume) == ([{"id": "u"}], [], [{"interruptId": "i"}])


def test_an_input_goes_on_with_its_new_messages_and_everything_else_as_it_came() -> None:
    given = WireInput({"runId": "r", "threadId": "t", "state": {"n": 1.50}, "future": None, "messages": []})
    given.messages[:] = translate_messages([Message(content="hi", role="user", agui_id="u1")])
    assert json.loads(input_json(given)) == {
        "runId": "r",
        "threadId": "t",
        "state": {"n": 1.5},
        "future": None,
        "messages": [{"id": "u1", "role": "user", "content": "hi"}],
    }


def test_an_input_of_objects_goes_on_under_wire_names() -> None:
    given = RunAgentInput(
        thread_id="t", run_id="r", messages=[], tools=[], context=[], state={}, forwarded_props={"a": None}
    )
    given.messages[:] = translate_messages(
        [spoken("", agui_id="m", tool_calls=[ToolCall(agui_id="c", name="f", arguments="{}", content="r")])]
    )
    sent = json.loads(input_json(given))
    assert (sent["threadId"], sent["forwardedProps"]) == ("t", {"a": None})
    assert [message["role"] for message in sent["messages"]] == ["assistant", "tool"]
    assert json.loads(given.model_dump_json(by_alias=True)) == sent


def test_the_state_of_the_record_is_not_on_the_wire() -> None:
    (message,) = translate_messages([spoken("hi", agui_id="m", error="cut", status="errored")])
    assert (message.error, message.status.value) == ("cut", "errored")
    assert message_fields(message) == {"id": "m", "role": "assistant", "content": "hi"}
    assert message_fields(3) == {}
