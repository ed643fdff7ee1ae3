"""A history that model providers accept, made of whatever is stored."""

import copy
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from ag_ui.core import AssistantMessage, FunctionCall, ToolMessage, UserMessage
from ag_ui.core import ToolCall as AGUIToolCall
from hypothesis import given
from hypothesis import strategies as st

from tests.chat_history.chat_api_rules import complaints
from tests.chat_history.stored import spoken
from threadkeep.chat_history import (
    ExtendedBaseMessage,
    Message,
    MessageStatus,
    Reasoning,
    Role,
    ToolCall,
    repair_messages,
    translate_messages,
)
from threadkeep.chat_history.ag_ui.replayed import CLASS_OF_ROLE
from threadkeep.chat_history.ag_ui.wire import message_fields

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


def wire(messages: list[ExtendedBaseMessage]) -> list[dict[str, Any]]:
    return [dict(message_fields(message)) for message in messages]


def said(role: str, content: Any = "x", **fields: Any) -> ExtendedBaseMessage:
    agui_id = fields.pop("id", f"{role}-{content}")
    return CLASS_OF_ROLE[role](id=agui_id, role=role, content=content, **fields)


def calling(*ids: str, arguments: str = "{}", name: str = "f", content: Any = None, **fields: Any) -> Any:
    calls = [AGUIToolCall(id=each, function=FunctionCall(name=name, arguments=arguments)) for each in ids]
    return said("assistant", content, **{"id": f"m-{'-'.join(ids)}", **fields}, tool_calls=calls)


def result(call: str, content: Any = "r", **fields: Any) -> ExtendedBaseMessage:
    return said("tool", content, **{"id": f"t-{call}", **fields}, tool_call_id=call)


def thought(content: str = "hm", signed: str | None = "sig", **fields: Any) -> ExtendedBaseMessage:
    return said("reasoning", content, **{"id": f"z-{content}", **fields}, encrypted_value=signed)


def outline(messages: list[ExtendedBaseMessage]) -> list[Any]:
    """Each message as its role and what matters of it."""
    lines: list[Any] = []
    for message in messages:
        if message.role == "tool":
            lines.append(("tool", message.tool_call_id, message.content))
        elif message.tool_calls:
            lines.append(("assistant", message.content, [call.id for call in message.tool_calls]))
        else:
            lines.append((message.role, message.content))
    return lines


def repaired(*messages: ExtendedBaseMessage, **options: Any) -> list[Any]:
    return outline(repair_messages(messages, **options))


def arguments_of(text: str) -> str:
    (message, _) = repair_messages([calling("c", arguments=text)])
    return (message.tool_calls or [])[0].function.arguments


def test_what_is_in_order_comes_out_as_the_same_objects() -> None:
    history = [
        said("system", "be kind"),
        said("user", "hi"),
        thought(),
        calling("c1", "c2", content="Let me look"),
        result("c1"),
        result("c2", [{"type": "text", "text": "4C"}]),
        said("assistant", "4C"),
    ]
    before = copy.deepcopy(history)
    after = repair_messages(history)
    assert len(after) == len(history)
    assert all(one is other for one, other in zip(after, history, strict=True))
    assert history == before


def test_results_come_right_behind_their_call_in_the_order_of_the_calls() -> None:
    moved = [result("c2"), said("user", "hi"), calling("c1", "c2"), said("user", "well?"), result("c1")]
    assert repaired(*moved) == [
        ("user", "hi"),
        ("assistant", None, ["c1", "c2"]),
        ("tool", "c1", "r"),
        ("tool", "c2", "r"),
        ("user", "well?"),
    ]


def test_a_second_result_and_the_result_of_no_call_are_left_out() -> None:
    history = [calling("c1"), result("c1", "first"), result("c1", "second"), result("c9"), said("user", "hi")]
    assert repaired(*history) == [("assistant", None, ["c1"]), ("tool", "c1", "first"), ("user", "hi")]


def test_a_call_without_a_result_is_answered_neutrally() -> None:
    after = repair_messages([calling("c1", name="map"), said("user", "hi")])
    assert outline(after) == [("assistant", None, ["c1"]), ("tool", "c1", "map gave no result"), ("user", "hi")]
    assert (after[1].id, after[1].is_stand_in) == ("c1-result", True)


@pytest.mark.parametrize(
    ("status", "content"),
    [
        ("complete", "Completed f"),
        ("active", "f has given no result yet"),
        ("interrupted", "f was interrupted before it gave a result"),
        ("errored", "f failed before it gave a result"),
    ],
)
def test_a_stored_call_without_a_result_says_why(status: str, content: str) -> None:
    row = spoken("", tool_calls=[ToolCall(agui_id="c", name="f", status=status)])
    assert repaired(*translate_messages([row])) == [("assistant", None, ["c"]), ("tool", "c", content)]


def test_a_result_that_is_empty_is_none_the_less_one() -> None:
    row = spoken("", tool_calls=[ToolCall(agui_id="c", name="f", status="errored", tool_call_id="t")])
    assert repaired(*translate_messages([row]))[1] == ("tool", "c", "Completed f")
    assert repaired(calling("c"), result("c", " "))[1] == ("tool", "c", "Completed f")
    assert repaired(calling("c"), result("c", [{"type": "text", "text": ""}]))[1] == ("tool", "c", "Completed f")


def test_a_call_that_is_there_twice_in_one_message_counts_once() -> None:
    assert repaired(calling("c", "c"), result("c")) == [("assistant", None, ["c"]), ("tool", "c", "r")]


def test_of_calls_with_one_id_the_last_keeps_it() -> None:
    history = [
        calling("c", id="m1"),
        result("c", "one"),
        said("user", "again"),
        calling("c", id="m2"),
        result("c", "two"),
        calling("c", id="m3"),
        result("c", "three"),
    ]
    assert [line[1:] for line in repaired(*history)] == [
        (None, ["c-1"]),
        ("c-1", "one"),
        ("again",),
        (None, ["c-2"]),
        ("c-2", "two"),
        (None, ["c"]),
        ("c", "three"),
    ]


def test_a_second_result_does_not_go_to_a_later_call_with_the_same_id() -> None:
    history = [calling("c", id="m1"), result("c", "one"), result("c", "echo", id="e"), calling("c", id="m2")]
    assert [line[-1] for line in repaired(*history)] == [["c-1"], "one", ["c"], "f gave no result"]


@pytest.mark.parametrize("text", ["{}", '{"a": 1}', '{"a":[1,"\\ud83d"]}', ' {"a":1}\n'])
def test_arguments_that_are_an_object_pass_as_they_are(text: str) -> None:
    assert arguments_of(text) == text


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("", "{}"),
        (" \n", "{}"),
        ('{"a":1,"b":"tw', '{"a": 1}'),
        ('{"a":[1,2', '{"a": [1, 2]}'),
        ('{"cmd":"ls', '{"arguments": "{\\"cmd\\":\\"ls"}'),
        ('{"a":1}{"b":2}', '{"arguments": "{\\"a\\":1}{\\"b\\":2}"}'),
        ("[1,2]", '{"arguments": [1, 2]}'),
        ("null", '{"arguments": null}'),
        ('"x"', '{"arguments": "x"}'),
        ("not json", '{"arguments": "not json"}'),
        ('{"a":NaN}', '{"arguments": "{\\"a\\":NaN}"}'),
        ("[1e999]", '{"arguments": "[1e999]"}'),
        ('{"a": "\ud83d', '{"arguments": "{\\"a\\": \\"\\ud83d"}'),
    ],
)
def test_other_arguments_become_an_object_that_loses_nothing_whole(text: str, becomes: str) -> None:
    assert arguments_of(text) == becomes


def test_arguments_nested_without_end_are_text() -> None:
    assert arguments_of("[" * 100_000).startswith('{"arguments": "[[[')


def test_a_call_without_a_name_gets_one() -> None:
    (message, answer) = repair_messages([calling("c", name=" ")])
    assert [call.function.name for call in message.tool_calls or []] == ["unknown"]
    assert answer.content == "unknown gave no result"


@pytest.mark.parametrize("role", ["assistant", "system", "developer"])
def test_a_blank_message_is_left_out(role: str) -> None:
    assert repaired(said("user", "hi"), said(role, " \n")) == [("user", "hi")]


def test_a_users_blank_message_says_that_it_is() -> None:
    assert repaired(said("user", "")) == [("user", "(empty message)")]
    assert repaired(said("user", [{"type": "text", "text": " "}])) == [("user", "(empty message)")]


def test_blank_parts_are_left_out() -> None:
    image = {"type": "image", "source": {"type": "url", "value": "https://example.com/a.png"}}
    assert repaired(said("user", [{"type": "text", "text": ""}, image])) == [("user", [image])]


def test_a_blank_text_beside_calls_is_none() -> None:
    assert repaired(calling("c", content="  "), result("c"))[0] == ("assistant", None, ["c"])


def test_a_reasoning_comes_before_the_message_that_it_led_to() -> None:
    row = spoken(
        "Done",
        tool_calls=[ToolCall(agui_id="c", name="f", content="r")],
        reasonings=[
            Reasoning(content="first", encrypted_value="1", created_at=NOW),
            Reasoning(content="second", encrypted_value="2", created_at=NOW + timedelta(seconds=1)),
        ],
    )
    assert repaired(*translate_messages([row])) == [
        ("reasoning", "first"),
        ("reasoning", "second"),
        ("assistant", "Done", ["c"]),
        ("tool", "c", "r"),
    ]


def test_an_encrypted_value_passes_as_it_came() -> None:
    row = spoken("ok", reasonings=[Reasoning(content="", encrypted_value="gAAA==")])
    assert repair_messages(translate_messages([row]))[0].encrypted_value == "gAAA=="


def test_a_reasoning_without_an_answer_leads_to_the_next_answer_or_nowhere() -> None:
    alone = spoken("", timestamp=NOW, reasonings=[Reasoning(content="hm", encrypted_value="1")])
    answer = spoken("Hi", timestamp=NOW + timedelta(seconds=1))
    question = Message(content="and?", role="user", timestamp=NOW + timedelta(seconds=1))
    assert repaired(*translate_messages([alone, answer])) == [("reasoning", "hm"), ("assistant", "Hi")]
    assert repaired(*translate_messages([alone, question])) == [("user", "and?")]
    assert repaired(*translate_messages([alone])) == []


def test_a_reasoning_that_nobody_can_verify_is_left_out_unless_it_is_wanted() -> None:
    history = [thought("plain", None), thought("", None), said("assistant", "Hi")]
    assert repaired(*history) == [("assistant", "Hi")]
    assert repaired(*history, keep_unsigned=True) == [("reasoning", "plain"), ("assistant", "Hi")]


def test_messages_with_one_id_become_messages_with_one_each() -> None:
    row = spoken("", tool_calls=[ToolCall(agui_id="c1", content="a", tool_call_id="t")])
    other = spoken("", tool_calls=[call := ToolCall(agui_id="c2", content="b", tool_call_id="t")])
    ids = [message.id for message in repair_messages(translate_messages([row, other]))]
    assert ids[1::2] == ["t", str(call.uuid)]
    assert [each.id for each in repair_messages([said("user", "a", id="u"), said("user", "b", id="u")])] == ["u", "u-1"]


def test_turns_alternate_where_the_model_insists_on_it() -> None:
    image = {"type": "image", "source": {"type": "url", "value": "https://example.com/a.png"}}
    history = [
        said("user", "hi"),
        said("user", [image]),
        said("assistant", "One moment.", id="a1"),
        thought("hm"),
        calling("c", content="I look.", id="a2"),
        result("c"),
        said("assistant", "Done."),
    ]
    assert repaired(*history, alternate=True) == [
        ("user", [{"type": "text", "text": "hi"}, image]),
        ("reasoning", "hm"),
        ("assistant", "One moment.\n\nI look.", ["c"]),
        ("tool", "c", "r"),
        ("assistant", "Done."),
    ]
    assert len(repaired(*history)) == 7


def test_the_protocols_own_classes_are_repaired_too() -> None:
    call = AGUIToolCall(id="c", function=FunctionCall(name="f", arguments=""))
    history: list[Any] = [
        ToolMessage(id="t", role="tool", content="r", tool_call_id="c"),
        UserMessage(id="u", role="user", content="hi"),
        AssistantMessage(id="m", role="assistant", content="", tool_calls=[call]),
    ]
    after = repair_messages(history)
    assert [type(message) for message in after] == [UserMessage, AssistantMessage, ToolMessage]
    assert after[1].tool_calls[0].function.arguments == "{}"


def test_a_history_of_something_else_passes_as_it_is() -> None:
    history: list[Any] = ["user: hi", {"role": "assistant", "content": ""}]
    assert repair_messages(history) == history


# Whatever is stored

IDS = st.sampled_from(["a", "b", "c"])
TEXTS = st.sampled_from(["", " ", "x", "Hello", "\ud83d"])
STATUSES = st.sampled_from([*MessageStatus])
TIMES = st.integers(0, 5).map(lambda second: NOW + timedelta(seconds=second))
CALLS = st.builds(
    ToolCall,
    agui_id=st.none() | IDS,
    tool_call_id=st.none() | IDS,
    name=st.sampled_from(["", "f"]),
    arguments=st.sampled_from(["", "{}", '{"a":1}', '{"a":', '{"a":1}{"b":2}', "[]", "x"]),
    content=TEXTS,
    status=STATUSES,
    created_at=TIMES,
)
STEPS = st.builds(
    Reasoning, agui_id=st.none() | IDS, content=TEXTS, encrypted_value=st.none() | st.just("sig"), created_at=TIMES
)
PARTS = st.none() | st.lists(
    st.sampled_from([{"type": "text", "text": ""}, {"type": "text", "text": "see"}, {"type": "image", "id": "i"}]),
    min_size=1,
    max_size=3,
)
ROWS = st.lists(
    st.builds(
        Message,
        agui_id=st.none() | IDS,
        role=st.sampled_from([role for role in Role if role != "activity"]),
        content=TEXTS,
        parts=PARTS,
        status=STATUSES,
        timestamp=TIMES,
        tool_calls=st.lists(CALLS, max_size=3),
        reasonings=st.lists(STEPS, max_size=2),
    ),
    max_size=6,
)
OPTIONS = st.fixed_dictionaries({"alternate": st.booleans(), "keep_unsigned": st.booleans()})


@given(rows=ROWS, options=OPTIONS, shuffled=st.randoms(use_true_random=False), is_shuffled=st.booleans())
def test_whatever_is_stored_the_repaired_history_is_accepted(
    rows: list[Message], options: dict[str, bool], shuffled: Any, is_shuffled: bool
) -> None:
    stored = [row.model_dump() for row in rows]
    history = translate_messages(rows)
    if is_shuffled:
        shuffled.shuffle(history)
    repair = partial(repair_messages, **options)
    after = repair(history)
    assert complaints(wire(after), alternate=options["alternate"], unsigned=options["keep_unsigned"]) == []
    assert wire(repair(after)) == wire(after)
    assert [row.model_dump() for row in rows] == stored


@given(rows=ROWS)
def test_a_history_that_is_accepted_already_is_not_changed(rows: list[Message]) -> None:
    history = repair_messages(translate_messages(rows))
    plain = [CLASS_OF_ROLE[each.role].model_validate({**each.model_dump(), "uuid": None}) for each in history]
    assert complaints(wire(plain)) == []
    assert all(one is other for one, other in zip(repair_messages(plain), plain, strict=True))
