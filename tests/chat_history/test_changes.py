"""Changes of a message as values."""

from threadkeep.chat_history import Message, Reasoning, ToolCall
from threadkeep.chat_history.changes import MessageChange


def test_a_change_can_be_applied_again_to_what_is_stored_by_then() -> None:
    mine, theirs = ToolCall(agui_id="mine"), ToolCall(agui_id="theirs", content="r")
    change = MessageChange({"step": "s"})
    change.add_tool_call(mine)
    assert change.applied_to(Message(content="")) == {"step": "s", "tool_calls": [mine]}
    assert change.applied_to(Message(content="", tool_calls=[theirs]))["tool_calls"] == [theirs, mine]


def test_a_new_call_that_is_there_already_is_not_added_twice() -> None:
    call = ToolCall(agui_id="c")
    change = MessageChange()
    change.add_tool_call(call)
    change.update_tool_call(call.uuid, {"content": "r"})
    stored = Message(content="", tool_calls=[call])
    assert [(each.agui_id, each.content) for each in change.applied_to(stored)["tool_calls"]] == [("c", "r")]


def test_an_update_touches_its_own_record_and_no_other() -> None:
    calls = [ToolCall(agui_id="a", content="1"), ToolCall(agui_id="b", content="2")]
    change = MessageChange()
    change.update_tool_call(calls[1].uuid, {"content": "3"})
    change.update_tool_call(calls[1].uuid, {"name": "g"})
    after = change.applied_to(Message(content="", tool_calls=calls))["tool_calls"]
    assert [(each.content, each.name) for each in after] == [("1", ""), ("3", "g")]
    assert calls[1].content == "2"


def test_an_update_of_what_is_not_there_changes_nothing() -> None:
    change = MessageChange()
    change.update_reasoning(Reasoning().uuid, {"content": "x"})
    assert change.applied_to(Message(content=""))["reasonings"] == []
    assert MessageChange().applied_to(Message(content="")) == {}
