"""Whatever a client sends of what it shows, there is one history, and the agent sees what the user does.

A client shows one branch of the conversation and goes on with it in its own way: it sends all of it or only what is
new, it keeps the ids or makes up new ones, it edits, asks again, answers calls or leaves them. The model is what a
person would write down of it: everything that was said, and what the client shows.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.chat_history.memory_store import MemoryChats, MemoryMessages
from tests.chat_history.scripts import ScriptedAgent, called, run_of, said, wire_input
from threadkeep.chat_history import AGUIStorageAgent, InputRules

USER = UUID(int=7)
TOOLS = [{"name": "map", "description": "a map"}]
WAITING = "map has given no result yet"
INTERRUPTED = "map was interrupted before it gave a result"
WORDS = st.sampled_from(["yes", "no", "hi"])


@dataclass
class Line:
    """Something in the conversation: a question, an answer, or a call with its result."""

    role: str
    text: str
    agui_id: str
    call: str | None = None
    result: str = ""


@dataclass
class Client:
    """A client with its server; `shown` is what it shows, `everything` what was said and done on all branches."""

    data: Any
    whole: bool | None
    constant_ids: bool
    shown: list[Line] = field(default_factory=list)
    everything: list[Line] = field(default_factory=list)
    runs: int = 0
    made_up: int = 0

    def __post_init__(self) -> None:
        self.chats, self.messages = MemoryChats(), MemoryMessages()

    # What it does

    def ask(self, text: str) -> None:
        """The user says something; a call that waits is given up."""
        question = Line("user", text, self.new_id())
        self.give_up()
        self.say(question)
        sent = self.sent(len(self.shown) - 1)
        if self.data.draw(st.booleans(), "sends the question twice"):
            sent.append(self.wire(question))
        self.run([*sent, self.wire(question)], self.answer())

    def edit(self, place: int, text: str) -> None:
        """The user writes another question in the place of an earlier one."""
        keeps_id = self.data.draw(st.booleans(), "the edit keeps its id")
        before = self.shown[place]
        question = Line("user", text, before.agui_id if keeps_id else self.new_id())
        self.give_up()
        self.shown = self.shown[:place]
        self.say(question)
        is_alone = place == 0
        sent = [] if is_alone else self.sent(place, must_show=True)
        self.run([*sent, self.wire(question)], self.answer())

    def ask_again(self) -> None:
        """The user wants another answer to the last question."""
        place = self.last_question()
        self.give_up()
        self.shown = self.shown[: place + 1]
        sent = self.sent(place)
        # Under a new id and without anything before it, it would be the same words once more.
        new_ids = len(sent) > 0 and not self.keeps_ids
        self.run([*sent, {**self.wire(self.shown[-1]), **({"id": self.new_id()} if new_ids else {})}], self.answer())

    def bring(self, line: Line, result: str) -> None:
        """The frontend has the result of a call."""
        is_late = line is not self.shown[-1]
        line.result = result
        tool = {"id": self.new_id(), "role": "tool", "toolCallId": line.call, "content": result}
        sent = [] if is_late else [each for each in self.sent(len(self.shown)) if each["role"] != "tool"]
        self.run([*sent, tool], self.answer())

    # How it sends it

    def sent(self, end: int, must_show: bool = False) -> list[dict[str, Any]]:
        """What a client sends of the lines before `end`: all of them, the last turns, the questions alone, or none."""
        ways = ["all"] if self.whole else ["all", "window", "questions"] + ([] if must_show else ["nothing"])
        way = self.data.draw(st.sampled_from(ways), "sends")
        self.keeps_ids = way in ("questions", "nothing") or self.data.draw(st.booleans(), "keeps ids")
        lines = self.shown[:end]
        if way == "nothing" or not any(line.role == "assistant" for line in lines):
            self.keeps_ids = True
            return [] if way == "nothing" else [self.wire(line) for line in lines]
        if way == "questions":
            return [self.wire(line) for line in lines if line.role == "user"]
        if way == "window":
            answered = [at for at, line in enumerate(lines[:-1]) if line.role == "user"]
            begin = answered[self.data.draw(st.integers(0, len(answered) - 1), "from")] if answered else 0
            lines = lines[begin:]
        messages = [self.wire(line) for line in lines]
        if not self.keeps_ids:
            messages = [{**message, "id": self.new_id()} for message in messages]
        results = [
            {"id": self.new_id(), "role": "tool", "toolCallId": line.call, "content": line.result}
            for line in lines
            if line.call and line.result not in ("", INTERRUPTED)
        ]
        return [*messages, *results]

    def wire(self, line: Line) -> dict[str, Any]:
        fields: dict[str, Any] = {"id": line.agui_id, "role": line.role, "content": line.text}
        if line.call:
            function = {"name": "map", "arguments": "{}"}
            fields["toolCalls"] = [{"id": line.call, "type": "function", "function": function}]
        return fields

    def new_id(self) -> str:
        self.made_up += 1
        return f"id-{self.made_up}"

    # What is said

    def answer(self) -> Line:
        number = self.runs
        if self.data.draw(st.booleans(), "the agent calls the frontend"):
            return Line("assistant", "", f"m{number}", call=f"c{number}")
        return Line("assistant", f"answer {number}", "constant" if self.constant_ids else f"m{number}")

    def say(self, line: Line) -> None:
        self.shown.append(line)
        self.everything.append(line)

    def give_up(self) -> None:
        """The user goes on without waiting: on whatever branch a call waits, it is interrupted."""
        for line in self.everything:
            if line.call and not line.result:
                line.result = INTERRUPTED

    def last_question(self) -> int:
        return max(at for at, line in enumerate(self.shown) if line.role == "user")

    def run(self, messages: list[dict[str, Any]], answer: Line) -> None:
        """Send it, and compare what the agent sees and what is stored with what was said."""
        self.runs += 1
        run_id = f"r{self.runs}"
        events = called(answer.call, "map", parent=answer.agui_id) if answer.call else said(answer.agui_id, answer.text)
        agent = ScriptedAgent(run_of(*events, run_id=run_id))
        storage = AGUIStorageAgent(
            "a", USER, self.chats, self.messages, agent, input_rules=InputRules(whole=self.whole)
        )
        given = wire_input(runId=run_id, messages=messages, tools=TOOLS)
        kinds = asyncio.run(_types(storage, given))
        assert kinds[-1] == "RUN_FINISHED"
        assert [_seen(message) for message in agent.seen[0]] == [
            each for line in self.shown for each in _expected(line)
        ]
        self.say(answer)
        stored = asyncio.run(self.stored())
        assert stored == [(line.role, line.text, line.call) for line in self.everything]

    async def stored(self) -> list[tuple[str, str, str | None]]:
        (chat,) = self.chats.chats.values()
        return [
            (row.role.value, row.content, row.tool_calls[0].agui_id if row.tool_calls else None)
            for row in await self.messages.get_chat_messages(chat.chat_uuid)
        ]


async def _types(storage: AGUIStorageAgent, given: Any) -> list[str]:
    return [event.type async for event in storage.run(given)]


def _seen(message: dict[str, Any]) -> tuple[str, Any]:
    if message.get("toolCalls"):
        return "call", message["toolCalls"][0]["id"]
    return message["role"], message.get("content")


def _expected(line: Line) -> list[tuple[str, Any]]:
    if line.call:
        return [("call", line.call), ("tool", line.result or WAITING)]
    return [(line.role, line.text)]


@settings(max_examples=60)
@given(data=st.data(), whole=st.sampled_from([None, True]), constant_ids=st.booleans())
def test_a_client_that_does_as_it_likes_ends_in_one_history(data: Any, whole: bool | None, constant_ids: bool) -> None:
    client = Client(data, whole, constant_ids)
    client.ask(data.draw(WORDS))
    for number in range(data.draw(st.integers(1, 6), "steps")):
        questions = [at for at, line in enumerate(client.shown) if line.role == "user"]
        calls = [line for line in client.shown if line.call and line.result in ("", INTERRUPTED)]
        # A client that sends only what is new cannot say that it replaces the first question.
        editable = questions if whole else [at for at in questions if at > 0]
        deeds = ["ask", "ask again"] + ["edit"] * bool(editable) + ["bring"] * bool(calls)
        match data.draw(st.sampled_from(deeds)):
            case "ask":
                client.ask(data.draw(WORDS))
            case "ask again":
                client.ask_again()
            case "edit":
                client.edit(data.draw(st.sampled_from(editable)), f"edit {number}")
            case "bring":
                client.bring(data.draw(st.sampled_from(calls)), f"result {number}")
