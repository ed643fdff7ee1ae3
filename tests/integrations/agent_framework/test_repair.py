"""Histories that a chat API accepts, made of those that it would refuse."""

import pytest
from agent_framework import Content, Message

from tests.integrations.agent_framework.scripted import call, check_accepted, seen
from threadkeep.integrations.agent_framework import repaired

HI = Message("user", ["hi"])
NEXT = Message("user", ["next"])


def result(call_id: str, text: str = "r") -> Content:
    return Content.from_function_result(call_id, result=text)


def gone(call_id: str) -> dict[str, object]:
    return {"role": "tool", "tool_call_id": call_id, "content": "f was interrupted before it gave a result"}


def test_what_needs_no_repair_stays_the_same_objects() -> None:
    messages = [HI, Message("assistant", [call("c1"), call("c2")]), Message("tool", [result("c1"), result("c2")]), NEXT]
    assert [id(message) for message in repaired(messages)] == [id(message) for message in messages]


def test_a_call_without_a_result_is_closed_where_it_stands() -> None:
    messages = repaired(
        [HI, Message("assistant", ["look", call("c1"), call("c2")]), Message("tool", [result("c2")]), NEXT]
    )
    check_accepted(messages)
    assert seen(messages)[1:] == [
        {
            "role": "assistant",
            "content": "look",
            "tool_calls": [
                {"id": "c1", "name": "f", "arguments": "{}"},
                {"id": "c2", "name": "f", "arguments": "{}"},
            ],
        },
        {"role": "tool", "tool_call_id": "c2", "content": "r"},
        gone("c1"),
        {"role": "user", "content": "next"},
    ]


def test_a_call_without_a_result_can_be_left_out_with_its_reasoning() -> None:
    reasoning = Content.from_text_reasoning(id="r1", protected_data="E")
    together = repaired([HI, Message("assistant", [reasoning, call("c1")])], dangling="drop")
    apart = repaired([HI, Message("assistant", [reasoning]), Message("assistant", [call("c1")])], dangling="drop")
    assert seen(together) == seen(apart) == [{"role": "user", "content": "hi"}]


def test_reasoning_stays_right_before_the_call_that_is_kept() -> None:
    reasoning = Content.from_text_reasoning(id="r1", protected_data="E")
    messages = repaired([HI, Message("assistant", [reasoning]), Message("assistant", [call("c1")])])
    check_accepted(messages)
    assert [[content.type for content in message.contents] for message in messages] == [
        ["text"],
        ["text_reasoning"],
        ["function_call"],
        ["function_result"],
    ]
    assert messages[1].contents[0].protected_data == "E"


def test_a_result_that_came_late_goes_to_its_call() -> None:
    messages = repaired([HI, Message("assistant", [call("c1")]), NEXT, Message("tool", [result("c1")])])
    check_accepted(messages)
    assert [message["role"] for message in seen(messages)] == ["user", "assistant", "tool", "user"]


def test_the_first_of_two_results_stands() -> None:
    messages = repaired(
        [Message("assistant", [call("c1")]), Message("tool", [result("c1")]), Message("tool", [result("c1", "x")])]
    )
    assert seen(messages)[1:] == [{"role": "tool", "tool_call_id": "c1", "content": "r"}]


def test_a_result_without_a_call_is_left_out() -> None:
    assert seen(repaired([HI, Message("tool", [result("c9")]), NEXT])) == [
        {"role": "user", "content": "hi"},
        {"role": "user", "content": "next"},
    ]


def test_a_call_that_comes_twice_is_there_once() -> None:
    messages = repaired(
        [HI, Message("assistant", [call("c1")]), Message("assistant", [call("c1")]), Message("tool", [result("c1")])]
    )
    check_accepted(messages)
    assert [message["role"] for message in seen(messages)] == ["user", "assistant", "tool"]


def test_an_id_that_is_used_again_after_its_result_is_another_call() -> None:
    turn = [Message("assistant", [call("c1")]), Message("tool", [result("c1")])]
    again = [Message("assistant", [call("c1")]), Message("tool", [result("c1", "second")])]
    messages = repaired([HI, *turn, NEXT, *again])
    check_accepted(messages)
    assert [message.get("content") for message in seen(messages)] == ["hi", None, "r", "next", None, "second"]


def test_approvals_are_no_business_of_a_model() -> None:
    request = Content.from_function_approval_request("a1", call("c1"))
    response = request.to_function_approval_response(approved=True)
    messages = repaired([HI, Message("assistant", [call("c1"), request]), Message("user", [response]), NEXT])
    check_accepted(messages)
    assert seen(messages)[2] == gone("c1")


def test_approvals_of_the_service_itself_go_back_to_it() -> None:
    hosted = Content.from_function_call("h1", "f", arguments="{}", hosted=True, server_name="s")
    request = Content.from_function_approval_request("a1", hosted)
    response = request.to_function_approval_response(approved=True)
    messages = [HI, Message("assistant", [request]), Message("user", [response])]
    assert [id(message) for message in repaired(messages)] == [id(message) for message in messages]


@pytest.mark.parametrize("dangling", ["close", "drop"])
def test_calls_whose_results_are_to_come_stay_open(dangling: str) -> None:
    request = Content.from_function_approval_request("a1", call("c1"))
    messages = [HI, Message("assistant", [call("c1"), request])]
    assert repaired(messages, dangling=dangling, open_calls={"c1"}) == messages  # type: ignore[arg-type]


def test_a_repaired_history_needs_no_repair() -> None:
    broken = [
        HI,
        Message("assistant", [call("c1"), call("c2")]),
        NEXT,
        Message("tool", [result("c2")]),
        Message("assistant", [call("c3")]),
    ]
    once = repaired(broken)
    check_accepted(once)
    assert seen(repaired(once)) == seen(once)
