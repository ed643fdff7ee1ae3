"""Runs that follow each other on one thread: what the agent and the client bring again, and what they may change."""

from typing import Any

import pytest

from tests.chat_history.chat_api_rules import complaints
from tests.chat_history.next_inputs import outline
from tests.chat_history.scripts import ScriptedAgent, called, result, run_of, said, wire_input
from tests.chat_history.stores import Store
from threadkeep.chat_history import AGUIStorageAgent, InputRules, Message, MessageStatus

TOOLS = [{"name": "map", "description": "a map"}]


class Thread:
    """A thread on the real service: each turn is a run with its own agent, by a process that remembers nothing."""

    def __init__(self, store: Store, user_uuid: Any, **options: Any) -> None:
        self.store = store
        self.user_uuid = user_uuid
        self.options = options
        self.runs = 0

    async def turn(self, messages: list[dict[str, Any]], *events: Any, **fields: Any) -> list[dict[str, Any]]:
        """One run; what its agent was given. The agent is not called where the answer is empty."""
        self.runs += 1
        run_id = f"r{self.runs}"
        agent = ScriptedAgent(run_of(*events, run_id=run_id))
        store = self.store.elsewhere()
        storage = AGUIStorageAgent("a", self.user_uuid, store.chats, store.messages, agent, **self.options)
        self.events = [event async for event in storage.run(wire_input(runId=run_id, messages=messages, **fields))]
        return agent.seen[0] if agent.seen else []

    async def stored(self) -> list[Message]:
        store = self.store.elsewhere()
        chat = await store.chats.get_chat_by_thread_id(self.user_uuid, "t1")
        assert chat is not None
        return list(await store.messages.get_chat_messages(chat.chat_uuid))

    async def contents(self) -> list[str]:
        return [message.content for message in await self.stored()]


@pytest.fixture
def thread(store: Store, user_uuid: Any) -> Thread:
    return Thread(store, user_uuid)


def user(agui_id: str, content: str) -> dict[str, Any]:
    return {"id": agui_id, "role": "user", "content": content}


def assistant(agui_id: str, content: str, *calls: str) -> dict[str, Any]:
    whole = [{"id": call, "type": "function", "function": {"name": "map", "arguments": "{}"}} for call in calls]
    return {"id": agui_id, "role": "assistant", "content": content, "toolCalls": whole}


def shown(*messages: dict[str, Any]) -> dict[str, Any]:
    return {"type": "MESSAGES_SNAPSHOT", "messages": list(messages)}


async def test_a_branch_is_gone_on_with_after_the_process_has_forgotten_everything(thread: Thread) -> None:
    await thread.turn([user("u1", "one?")], said("m1", "One."))
    await thread.turn([user("u2", "two?")], said("m2", "Two."))
    edited = [user("u1", "one?"), assistant("m1", "One."), user("u2b", "three?")]
    assert outline(await thread.turn(edited, said("m3", "Three."))) == [
        ("user", "one?"),
        ("assistant", "One."),
        ("user", "three?"),
    ]
    seen = await thread.turn([user("u4", "four?")], said("m4", "Four."))
    assert [line[1] for line in outline(seen)] == ["one?", "One.", "three?", "Three.", "four?"]
    assert await thread.contents() == ["one?", "One.", "two?", "Two.", "three?", "Three.", "four?", "Four."]


async def test_another_answer_takes_the_place_of_the_first_from_then_on(thread: Thread) -> None:
    await thread.turn([user("u1", "one?")], said("m1", "One."))
    await thread.turn([user("u1", "one?")], said("m1b", "Uno."))
    stored = await thread.stored()
    assert [message.follows for message in stored] == [None, None, stored[0].message_uuid]
    assert outline(await thread.turn([user("u2", "two?")])) == [
        ("user", "one?"),
        ("assistant", "Uno."),
        ("user", "two?"),
    ]


async def test_a_client_that_sends_all_it_has_begins_anew_with_one_new_message(store: Store, user_uuid: Any) -> None:
    thread = Thread(store, user_uuid, input_rules=InputRules(whole=True))
    await thread.turn([user("u1", "one?")], said("m1", "One."))
    assert outline(await thread.turn([user("u9", "Hello there")], said("m2", "Hi."))) == [("user", "Hello there")]
    assert await thread.contents() == ["one?", "One.", "Hello there", "Hi."]


async def test_strictly_a_result_of_the_frontend_is_refused_and_nothing_is_stored(store: Store, user_uuid: Any) -> None:
    thread = Thread(store, user_uuid, input_rules=InputRules(strict=True))
    await thread.turn([user("u1", "where?")], called("c1", "map", parent="m1"), tools=TOOLS)
    tool = {"id": "t1", "role": "tool", "toolCallId": "c1", "content": "here"}
    assert await thread.turn([user("u2", "and?"), tool]) == []
    assert [(event.type, event.code) for event in thread.events] == [("RUN_ERROR", "INVALID_INPUT")]
    assert await thread.contents() == ["where?", ""]


async def test_a_result_of_parts_is_kept_as_parts_and_as_text(thread: Thread) -> None:
    parts = [{"type": "text", "text": "here"}, {"type": "image", "source": {"type": "url", "value": "https://a/b.png"}}]
    await thread.turn([user("u1", "where?")], called("c1", "map", parent="m1"), tools=TOOLS)
    seen = await thread.turn([{"id": "t1", "role": "tool", "toolCallId": "c1", "content": parts}])
    assert outline(seen)[-1] == ("tool", parts, "c1")
    (call,) = (await thread.stored())[1].tool_calls
    assert (call.content, call.parts, call.status) == ("here", parts, MessageStatus.COMPLETE)


async def test_an_empty_result_under_the_calls_own_id_is_a_result(thread: Thread) -> None:
    await thread.turn([user("u1", "where?")], called("c1", "map", parent="m1"), tools=TOOLS)
    empty = {"id": "c1", "role": "tool", "toolCallId": "c1", "content": ""}
    assert outline(await thread.turn([empty]))[-1] == ("tool", "Completed map", "c1")
    await thread.turn([{**empty, "content": "late"}])
    assert [call.content for call in (await thread.stored())[1].tool_calls] == [""]


async def test_an_agent_that_gives_back_what_it_was_given_changes_no_record(thread: Thread) -> None:
    await thread.turn([user("u1", "where?")], called("c1", "map", parent="m1"), tools=TOOLS)
    seen = await thread.turn([user("u2", "never mind")])
    assert outline(seen)[2] == ("tool", "map was interrupted before it gave a result", "c1")
    before = await thread.stored()
    await thread.turn([user("u2", "never mind")], shown(*seen))
    assert await thread.stored() == before


async def test_an_agent_that_only_shows_snapshots_may_say_the_same_in_every_turn(thread: Thread) -> None:
    first = [user("u1", "one?"), assistant("default", "Done.")]
    await thread.turn([user("u1", "one?")], shown(*first))
    again = [*first, user("u2", "two?"), assistant("default", "Done.")]
    await thread.turn([user("u2", "two?")], shown(*again))
    assert await thread.contents() == ["one?", "Done.", "two?", "Done."]


async def test_without_repair_the_agent_gets_the_history_as_it_is_translated(store: Store, user_uuid: Any) -> None:
    thread = Thread(store, user_uuid, repair=None)
    await thread.turn([user("u1", "where?")], called("c1", "map", "{", parent="m1"))
    seen = await thread.turn([user("u2", "and?")])
    assert outline(seen)[1:3] == [("assistant", "", "c1"), ("tool", "Completed map", "c1")]
    assert complaints(seen) == ["arguments '{' are no JSON object", "the assistant message 'm1' is blank"]


async def test_the_repair_leaves_the_record_as_it_was_streamed(thread: Thread) -> None:
    await thread.turn([user("u1", "where?")], called("c1", "map", '{"a":1}{"b":2}', parent="m1"), result("c1", ""))
    before = await thread.stored()
    seen = await thread.turn([user("u2", "and?")])
    assert complaints(seen) == []
    assert (await thread.stored())[:2] == before[:2]
    assert before[1].tool_calls[0].arguments == '{"a":1}{"b":2}'
