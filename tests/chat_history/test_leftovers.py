"""What runs left open that are not live any more."""

from tests.chat_history.stored import spoken
from threadkeep.chat_history import Message, Reasoning, ToolCall
from threadkeep.chat_history.ag_ui.leftovers import interrupted, leftovers
from threadkeep.chat_history.models import Subagent


def active(**fields: object) -> dict[str, object]:
    return {"status": "active", "in_progress": True, **fields}


def test_open_records_of_a_run_that_is_not_live_are_leftovers() -> None:
    call, step = ToolCall(**active()), Reasoning(**active())
    message = spoken("One ", run_id="r1", tool_calls=[call], reasonings=[step], **active())
    assert list(leftovers([message], [])) == [message, call, step]


def test_those_of_a_live_run_are_not() -> None:
    message = spoken("", run_id="r1", **active())
    assert list(leftovers([message], ["r1"])) == []
    assert list(leftovers([message], ["r2"])) == [message]


def test_records_that_know_no_run_are_leftovers() -> None:
    message = spoken("", **active())
    assert list(leftovers([message], ["r1"])) == [message]


def test_a_call_that_waits_for_the_client_is_none() -> None:
    waiting = ToolCall(**active(awaiting=True))
    assert list(leftovers([spoken("", run_id="r1", tool_calls=[waiting])], [])) == []


def test_the_last_message_of_a_run_that_left_a_call_open_counts_as_open() -> None:
    call = ToolCall(**active())
    first = spoken("First", run_id="r1")
    last = spoken("Let me look", run_id="r1", tool_calls=[call])
    other = spoken("Other", run_id="r2")
    assert list(leftovers([first, last, other], [])) == [last, call]


def test_what_has_ended_is_none() -> None:
    message = spoken("Hi", run_id="r1", tool_calls=[ToolCall(status="errored")])
    assert list(leftovers([message], [])) == []


def test_what_a_user_said_is_none() -> None:
    said = Message(content="Hi", role="user", run_id="r1", emitter_type="user", **active())
    assert list(leftovers([said], [])) == []


def test_what_an_agent_said_in_a_user_s_name_is_one() -> None:
    made_up = Message(content="Hi", role="user", run_id="r1", emitter_type="agent", **active())
    assert list(leftovers([made_up], [])) == [made_up]


def test_a_message_whose_subagent_is_open_is_one_and_ends_with_it() -> None:
    done = Subagent(subagent_run_id="s0", name="done", status="complete", in_progress=False)
    message = spoken("Ask", run_id="r1", subagents=[done, Subagent(subagent_run_id="s1", name="busy")])
    assert list(leftovers([message], [])) == [message]
    fields = interrupted(message, "it died")
    assert (fields["status"], fields["in_progress"], fields["error"]) == ("interrupted", False, "it died")
    assert [(each.status, each.in_progress, each.error) for each in fields["subagents"]] == [
        ("complete", False, None),
        ("interrupted", False, "it died"),
    ]


def test_what_ends_a_leftover_says_nothing_of_what_it_does_not_have() -> None:
    assert interrupted(spoken("Ask")) == {"status": "interrupted", "in_progress": False}
    assert interrupted(ToolCall()) == {"status": "interrupted", "in_progress": False}
