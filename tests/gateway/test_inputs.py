"""The body of a run: what is taken, and what is refused and where."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.errors import Invalid
from threadkeep.gateway.inputs import parse_body

USER = {"id": "u1", "role": "user", "content": "hi"}
GOOD: dict[str, Any] = {"threadId": "t", "runId": "r", "messages": [USER]}


def refusal(document: Any) -> Invalid:
    with pytest.raises(Invalid) as caught:
        parse_body(document if isinstance(document, bytes) else json.dumps(document).encode())
    return caught.value


def test_a_body_needs_a_thread_a_run_and_messages_and_nothing_else() -> None:
    body = parse_body(json.dumps(GOOD).encode())
    assert (body.thread_id, body.run_id, body.parent_run_id, body.protocol_version) == ("t", "r", None, None)
    assert body.fields["messages"] == [USER]


def test_what_is_not_known_passes() -> None:
    extra = {"future": {"a": [1]}, "state": None, "tools": None, "forwardedProps": 3, "protocolVersion": "1.0"}
    message = {"id": "x", "role": "hologram", "content": {"any": 1}}
    body = parse_body(json.dumps({**GOOD, **extra, "messages": [message], "parentRunId": "r0"}).encode())
    assert body.fields["future"] == {"a": [1]}
    assert body.parent_run_id == "r0"
    assert body.protocol_version == "1.0"


def test_each_member_keeps_the_text_in_which_it_came() -> None:
    state = b'{"n": 1.50, "big": 1e400,  "x": "\\ud800"}'
    document = b'\xef\xbb\xbf { "threadId" : "t" ,"runId":"\\u0072", "messages": [ ],\n"state": %b } ' % state
    body = parse_body(document)
    assert body.run_id == "r"
    assert body.members == {
        "threadId": '"t"',
        "runId": '"\\u0072"',
        "messages": "[ ]",
        "state": state.decode(),
    }


def test_a_member_that_comes_twice_counts_as_the_last() -> None:
    body = parse_body(b'{"threadId":"t","runId":"r","messages":[],"state":1,"state":2}')
    assert (body.fields["state"], body.members["state"]) == (2, "2")


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (b"", "Expecting value: line 1 column 1 (char 0)"),
        (b"[]", "it is not an object"),
        (b"{", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        (b'{"a" 1}', "Expecting ':' delimiter: line 1 column 6 (char 5)"),
        (b'{"a":1 "b":2}', "Expecting ',' delimiter: line 1 column 8 (char 7)"),
        (b'{"a":1,}', "Expecting property name enclosed in double quotes: line 1 column 8 (char 7)"),
        (b'{"a":1} x', "Extra data: line 1 column 9 (char 8)"),
        (b'{"a":NaN}', "NaN is no JSON number"),
        (b'{"a":"\xff"}', "'utf-8' codec can't decode byte 0xff in position 6: invalid start byte"),
    ],
)
def test_what_is_not_json_is_refused(document: bytes, reason: str) -> None:
    error = refusal(document)
    assert error.loc == ()
    assert error.message == f"The body is not JSON: {reason}"


def test_what_is_nested_too_deeply_is_refused() -> None:
    error = refusal(b'{"a":' + b"[" * 100_000)
    assert (error.loc, error.message) == ((), "The body is nested too deeply")


USER_CONTENT = "content is a string or a list of parts, not a number"
CALL = {"id": "c", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("change", "place", "reason"),
    [
        ({"threadId": ""}, ("threadId",), "threadId is empty"),
        ({"threadId": 7}, ("threadId",), "threadId is a string, not a number"),
        ({"threadId": "x" * 901}, ("threadId",), "901 characters; the limit is 900"),
        ({"threadId": "/" * 301}, ("threadId",), "903 characters; the limit is 900"),
        ({"threadId": ".."}, ("threadId",), "threadId is '..', which cannot stand in a URL"),
        ({"runId": "."}, ("runId",), "runId is '.', which cannot stand in a URL"),
        ({"runId": None}, ("runId",), "runId is a string, not null"),
        ({"runId": "x" * 501}, ("runId",), "501 characters; the limit is 500"),
        ({"parentRunId": []}, ("parentRunId",), "parentRunId is a string or null, not a list"),
        ({"protocolVersion": 1.0}, ("protocolVersion",), "protocolVersion is a string or null, not a number"),
        ({"messages": {}}, ("messages",), "messages is a list or null, not an object"),
        ({"messages": [USER, "x"]}, ("messages", 1), "An item of messages is an object, not a string"),
        ({"messages": [{"role": "user"}]}, ("messages", 0, "id"), "id is missing"),
        ({"messages": [{"id": "a"}]}, ("messages", 0, "role"), "role is missing"),
        ({"messages": None}, ("messages",), "messages is missing"),
        ({"messages": [{**USER, "content": 1}]}, ("messages", 0, "content"), USER_CONTENT),
        ({"messages": [{**USER, "content": [{}]}]}, ("messages", 0, "content", 0, "type"), "type is missing"),
        ({"messages": [{"id": "s", "role": "system", "content": []}]}, ("messages", 0, "content"),
         "content is a string, not a list"),
        ({"messages": [{**USER, "role": "tool"}]}, ("messages", 0, "toolCallId"), "toolCallId is missing"),
        ({"messages": [{"id": "a", "role": "assistant", "toolCalls": [CALL, {"id": "d"}]}]},
         ("messages", 0, "toolCalls", 1, "function"), "function is an object, not null"),
        ({"tools": [{"name": True}]}, ("tools", 0, "name"), "name is a string, not true"),
        ({"context": [3]}, ("context", 0), "An item of context is an object, not a number"),
        ({"resume": [{}]}, ("resume", 0, "interruptId"), "interruptId is missing"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_with_its_place(
    change: dict[str, Any], place: tuple[str | int, ...], reason: str
) -> None:
    error = refusal({**GOOD, **change})
    assert error.loc == tuple(place)
    assert error.message == reason


@pytest.mark.parametrize("name", ["threadId", "runId", "messages"])
def test_what_is_missing_is_named(name: str) -> None:
    error = refusal({key: value for key, value in GOOD.items() if key != name})
    assert (error.loc, error.message, error.kind) == ((name,), f"{name} is missing", "missing")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(extra=st.dictionaries(st.text(), json_values, max_size=4), indent=st.none() | st.integers(0, 3))
def test_the_members_read_back_as_the_fields(extra: dict[str, Any], indent: int | None) -> None:
    whole = {
        **extra,
        **GOOD,
        "tools": None,
        "context": None,
        "resume": None,
        "parentRunId": None,
        "protocolVersion": None,
    }
    body = parse_body(json.dumps(whole, indent=indent).encode())
    assert body.fields == whole
    assert {name: json.loads(text) for name, text in body.members.items()} == whole
