"""Runs that name the run that they go on from: both branches stay, and the agent is given the one that was named."""

from typing import Any
from uuid import uuid4

from tests.chat_history.memory_store import MemoryChats, MemoryMessages
from tests.chat_history.scripts import ScriptedAgent, finished, said, wire_input
from threadkeep.chat_history import AGUIStorageAgent
from threadkeep.chat_history.branches import leading_to


class Thread:
    """One thread on which runs are carried out."""

    def __init__(self) -> None:
        self.chats, self.messages, self.user = MemoryChats(), MemoryMessages(), uuid4()

    async def run(self, run_id: str, question: str | None, parent: str | None = None, **fields: Any) -> list[str]:
        """Ask something and get an answer; what the agent was given."""
        asked = [] if question is None else [{"id": f"u-{run_id}", "role": "user", "content": question}]
        agent = ScriptedAgent([*said(f"m-{run_id}", f"to {run_id}"), finished()])
        storage = AGUIStorageAgent("a", self.user, self.chats, self.messages, agent)
        given = {"messages": asked, **fields}
        async for _ in storage.run(wire_input(runId=run_id, parentRunId=parent, **given)):
            pass
        return [message["content"] for message in agent.seen[0]]

    def branch(self, end: str) -> list[str]:
        stored = [*self.messages.messages.values()]
        (uuid,) = [message.message_uuid for message in stored if message.content == end]
        return [message.content for message in leading_to(stored, uuid)]


async def test_a_run_goes_on_from_the_run_that_it_names_and_the_other_branch_stays() -> None:
    thread = Thread()
    await thread.run("r1", "one?")
    assert await thread.run("r2", "two?", "r1") == ["one?", "to r1", "two?"]
    assert await thread.run("r3", "other?", "r1") == ["one?", "to r1", "other?"]
    assert await thread.run("r4", "and two?", "r2") == ["one?", "to r1", "two?", "to r2", "and two?"]
    assert await thread.run("r5", "and other?", "r3") == ["one?", "to r1", "other?", "to r3", "and other?"]
    assert thread.branch("to r4") == ["one?", "to r1", "two?", "to r2", "and two?", "to r4"]
    assert thread.branch("to r5") == ["one?", "to r1", "other?", "to r3", "and other?", "to r5"]


async def test_a_run_without_a_message_goes_on_there_too() -> None:
    thread = Thread()
    await thread.run("r1", "one?")
    await thread.run("r2", "two?", "r1")
    assert await thread.run("r3", None, "r1") == ["one?", "to r1"]
    assert thread.branch("to r3") == ["one?", "to r1", "to r3"]


async def test_a_run_that_was_started_by_a_run_elsewhere_goes_on_where_the_thread_is() -> None:
    thread = Thread()
    await thread.run("r1", "one?")
    assert await thread.run("r2", "two?", "run-of-another-thread") == ["one?", "to r1", "two?"]
    assert thread.branch("to r2") == ["one?", "to r1", "two?", "to r2"]
