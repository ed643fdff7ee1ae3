"""Opening a thread, in one tab or in many: while a run is active, between two runs, and where nothing was said yet."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.applications import Starlette

from tests.chat_history.client_rules import refusals
from tests.gateway.stack import Client, Frame, Json, open_client, read_frames, run_body, serve
from threadkeep.chat_history.ag_ui.chunk_streams import ChunkStreams
from threadkeep.chat_history.ag_ui.client_view import ClientView
from threadkeep.chat_history.constants import chat_deduplication_key
from threadkeep.gateway.agents import agents_of
from threadkeep.gateway.histories import SPACE_KEY, user_uuid
from threadkeep.services.container import Container
from threadkeep.services.sessions import Filters
from threadkeep.testing.agents import ScriptedAgent

STARTED = {"type": "RUN_STARTED", "threadId": "t1", "runId": "r1"}
FINISHED = {"type": "RUN_FINISHED", "threadId": "t1", "runId": "r1"}
ASKED = {"id": "u1", "role": "user", "content": "hi"}
HALF = [
    STARTED,
    {"type": "STEP_STARTED", "stepName": "look"},
    {"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "assistant"},
    {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "Hel"},
]
REST = [
    {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "lo"},
    {"type": "TEXT_MESSAGE_END", "messageId": "m1"},
    {"type": "STEP_FINISHED", "stepName": "look"},
    {"type": "STATE_SNAPSHOT", "snapshot": {"page": 2}},
    FINISHED,
]


def said(message_id: str, text: str) -> list[Json]:
    return [
        {"type": "TEXT_MESSAGE_START", "messageId": message_id, "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": message_id, "delta": text},
        {"type": "TEXT_MESSAGE_END", "messageId": message_id},
    ]


SURE = {"id": "i1", "reason": "confirm", "message": "Sure?"}


def asking(*interrupts: Json) -> list[Json]:
    """A run that ends with questions."""
    return [
        STARTED,
        *said("m1", "Sure?"),
        {**FINISHED, "outcome": {"type": "interrupt", "interrupts": [*interrupts]}},
    ]


async def answer(client: Client, agent: ScriptedAgent, *events: Json) -> None:
    """r2 answers i1, and goes on with these events."""
    agent.events = [{**STARTED, "runId": "r2"}, *events]
    entry = {"interruptId": "i1", "status": "resolved", "payload": True}
    await client.run(run_body(run="r2", messages=[], resume=[entry]))


@asynccontextmanager
async def opened(
    container: Container, app: Starlette, token: str, agent: ScriptedAgent
) -> AsyncIterator[tuple[Client, Starlette]]:
    async with serve(container, app, agents_of(agent)) as gateway, open_client(gateway, token) as client:
        yield client, gateway


async def connect(client: Client, thread: str = "t1", **params: str) -> list[Frame]:
    response = await client.http.get(f"/agui/threads/{thread}/connect/", params=params)
    assert response.status_code == 200, response.text
    return read_frames(response.content)


class Tab:
    """A reader of a stream that goes on."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    async def until(self, kind: str) -> list[Frame]:
        """The frames up to the next one of a type."""
        found: list[Frame] = []
        while True:
            while b"\n\n" not in self._rest:
                self._rest += await anext(self._chunks)
            block, _, self._rest = self._rest.partition(b"\n\n")
            found += read_frames(block + b"\n\n")
            if found and found[-1].type == kind:
                return found


@asynccontextmanager
async def tab(client: Client, method: str = "GET", thread: str = "t1", **options: Any) -> AsyncIterator[Tab]:
    async with client.http.stream(method, f"/agui/threads/{thread}/connect/", **options) as response:
        assert response.status_code == 200, await response.aread()
        yield Tab(response.aiter_bytes())


def shown(frames: Sequence[Frame]) -> list[Any]:
    """What a client shows after these frames, each of which a strict one takes."""
    events = [frame.json for frame in frames]
    assert refusals(events) == []
    chunks, view = ChunkStreams(), ClientView()
    for event in events:
        for kind, fields in chunks.expand(event["type"], event):
            view.see(kind, fields)
    return view.messages()


def types(frames: Sequence[Frame]) -> list[str]:
    return [frame.type for frame in frames]


async def test_a_thread_on_which_nothing_runs_is_told_and_ends(
    container: Container, app: Starlette, token: str
) -> None:
    async with opened(container, app, token, ScriptedAgent([*HALF, *REST])) as (client, _):
        await client.run()
        frames = await connect(client)
    assert [frame.id for frame in frames] == [""] * 4
    assert [frame.json for frame in frames] == [
        STARTED,
        {
            "type": "MESSAGES_SNAPSHOT",
            "messages": [ASKED, {"id": "m1", "role": "assistant", "content": "Hello"}],
        },
        {"type": "STATE_SNAPSHOT", "snapshot": {"page": 2}},
        FINISHED,
    ]


async def test_a_thread_that_streams_is_opened_in_two_tabs_and_each_sees_all_of_it(
    container: Container, app: Starlette, token: str
) -> None:
    gate = asyncio.Event()
    agent = ScriptedAgent([*HALF, gate, *REST])
    async with (
        opened(container, app, token, agent) as (client, gateway),
        open_client(gateway, token) as phone,
        client.stream() as run,
    ):
        own = Tab(run)
        frames = await own.until("TEXT_MESSAGE_CONTENT")
        async with tab(client) as first, tab(phone, "POST", json={"protocolVersion": "1.0"}) as second:
            preludes = [await each.until("TEXT_MESSAGE_START") for each in (first, second)]
            for prelude in preludes:
                assert types(prelude) == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "STEP_STARTED", "TEXT_MESSAGE_START"]
                assert {frame.id for frame in prelude} == {""}
                assert prelude[1].json["messages"] == [ASKED, {"id": "m1", "role": "assistant", "content": "Hel"}]
            gate.set()
            frames += await own.until("RUN_FINISHED")
            tails = [await each.until("RUN_FINISHED") for each in (first, second)]
    whole = [ASKED, *shown(frames)]
    for prelude, tail in zip(preludes, tails, strict=True):
        assert [frame.data for frame in tail] == [frame.data for frame in frames[4:]]
        assert [frame.id for frame in tail] == [f"r1:{index}" for index in range(4, 9)]
        assert shown([*prelude, *tail]) == whole


async def test_a_run_of_another_process_is_joined_too(container: Container, app: Starlette, token: str) -> None:
    gate = asyncio.Event()
    agent = ScriptedAgent([*HALF, gate, *REST])
    async with (
        opened(container, app, token, agent) as (client, _),
        opened(container, app, token, ScriptedAgent()) as (elsewhere, _),
        client.stream() as run,
    ):
        await Tab(run).until("TEXT_MESSAGE_CONTENT")
        async with tab(elsewhere) as other:
            prelude = await other.until("TEXT_MESSAGE_START")
            gate.set()
            tail = await other.until("RUN_FINISHED")
    assert shown([*prelude, *tail]) == [ASKED, {"id": "m1", "role": "assistant", "content": "Hello"}]
    assert tail[0].id == "r1:4"


async def test_a_run_that_ends_between_the_prelude_and_the_tail_is_seen_to_its_end(
    container: Container, app: Starlette, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = asyncio.Event()
    agent = ScriptedAgent([*HALF, gate, *REST])
    async with opened(container, app, token, agent) as (client, _), client.stream() as run:
        own = Tab(run)
        await own.until("TEXT_MESSAGE_CONTENT")
        read = container.run_log.read

        async def read_and_end(*args: Any, **options: Any) -> Any:
            page = await read(*args, **options)
            if not page and not gate.is_set():
                gate.set()
                await own.until("RUN_FINISHED")
            return page

        monkeypatch.setattr(container.run_log, "read", read_and_end)
        frames = await connect(client)
    assert [frame.id for frame in frames if frame.id] == [f"r1:{index}" for index in range(4, 9)]
    assert shown(frames) == [ASKED, {"id": "m1", "role": "assistant", "content": "Hello"}]


async def test_a_run_that_ends_before_its_log_is_read_ends_for_the_reader_too(
    container: Container, app: Starlette, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = asyncio.Event()
    agent = ScriptedAgent([*HALF, gate, *REST])
    async with opened(container, app, token, agent) as (client, _), client.stream() as run:
        own = Tab(run)
        await own.until("TEXT_MESSAGE_CONTENT")
        get = container.runs.get

        async def end_and_get(*args: Any) -> Any:
            if not gate.is_set():
                gate.set()
                await own.until("RUN_FINISHED")
            return await get(*args)

        monkeypatch.setattr(container.runs, "get", end_and_get)
        frames = await connect(client)
    assert types(frames) == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "STATE_SNAPSHOT", "RUN_FINISHED"]
    assert [frame.id for frame in frames if frame.id] == ["r1:8"]
    assert shown(frames) == [ASKED, {"id": "m1", "role": "assistant", "content": "Hello"}]


async def begin_elsewhere(container: Container, token: str, body: Json) -> None:
    """The row of a run whose process has not come further yet."""
    principal = await container.tokens.authenticate(f"Bearer {token}")
    (space,), _ = await container.spaces.page(principal, key=SPACE_KEY)
    key = chat_deduplication_key(user_uuid(principal), body["threadId"])
    (session,), _ = await container.sessions.page(principal, space.id, Filters(key=key))
    await container.runs.begin(
        principal,
        space.id,
        session.id,
        run_id=body["runId"],
        parent_run_id=None,
        owner="somebody",
        lease_seconds=60,
        input=json.dumps(body),
    )


async def test_what_was_asked_is_shown_before_the_agent_has_said_anything(
    container: Container, app: Starlette, token: str
) -> None:
    gate = asyncio.Event()
    agent = ScriptedAgent([*HALF, *REST])
    async with opened(container, app, token, agent) as (client, _):
        await client.run()
        agent.events = [gate, {**STARTED, "runId": "r2"}, *said("m2", "Again"), {**FINISHED, "runId": "r2"}]
        # The same question: another answer to it, which the rows do not say before there is one.
        async with client.stream(run_body(run="r2")) as run, tab(client) as other:
            prelude = await other.until("MESSAGES_SNAPSHOT")
            assert prelude[0].json == {**STARTED, "runId": "r2"}
            assert prelude[1].json["messages"] == [ASKED]
            gate.set()
            tail = await other.until("RUN_FINISHED")
            await Tab(run).until("RUN_FINISHED")
    assert types(tail) == ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED"]
    assert tail[0].id == "r2:1"
    assert shown([*prelude, *tail]) == [ASKED, {"id": "m2", "role": "assistant", "content": "Again"}]


async def test_a_question_that_is_not_stored_yet_is_shown_as_the_input_has_it(
    container: Container, app: Starlette, token: str
) -> None:
    async with opened(container, app, token, ScriptedAgent([*HALF, *REST])) as (client, _):
        await client.run()
        await begin_elsewhere(container, token, run_body(run="r2", text="and?", user_id="u2"))
        async with tab(client) as other:
            prelude = await other.until("MESSAGES_SNAPSHOT")
    contents = [message["content"] for message in prelude[1].json["messages"]]
    assert contents == ["hi", "Hello", "and?"]


async def test_a_long_thread_shows_its_newest_messages_and_where_the_others_are(
    container: Container, app: Starlette, token: str
) -> None:
    many, more = ([event for number in range(120) for event in said(f"{run}-{number}", str(number))] for run in "12")
    agent = ScriptedAgent([STARTED, *many, FINISHED])
    async with opened(container, app, token, agent) as (client, _):
        await client.run()
        frames = await connect(client)
        messages = frames[1].json["messages"]
        assert [message["content"] for message in messages] == [str(number) for number in range(20, 120)]
        (custom,) = [frame.json for frame in frames if frame.type == "CUSTOM"]
        assert custom["name"] == "threadkeep.history"
        older = await client.messages(before=custom["value"]["before"])
        assert [message["content"] for message in older] == ["hi", *(str(number) for number in range(20))]

        # A run that has said more than fits is shown whole, with what it answers.
        gate = asyncio.Event()
        agent.events = [{**STARTED, "runId": "r2"}, *more, gate, {**FINISHED, "runId": "r2"}]
        async with client.stream(run_body(run="r2", text="and?", user_id="u2")) as run:
            own = Tab(run)
            while (await own.until("TEXT_MESSAGE_END"))[-1].id != "r2:360":
                pass
            async with tab(client) as other:
                prelude = await other.until("MESSAGES_SNAPSHOT")
                gate.set()
                await other.until("RUN_FINISHED")
    contents = [message["content"] for message in prelude[1].json["messages"]]
    assert contents[-121:] == ["and?", *(str(number) for number in range(120))]


async def test_one_branch_of_a_thread_is_opened_by_its_run(container: Container, app: Starlette, token: str) -> None:
    agent = ScriptedAgent([STARTED, *said("m1", "one"), FINISHED])
    async with opened(container, app, token, agent) as (client, _):
        await client.run()
        for run, text in (("r2", "two"), ("r3", "three")):
            agent.events = [{**STARTED, "runId": run}, *said(f"m-{run}", text), {**FINISHED, "runId": run}]
            await client.run(run_body(run=run, text=f"{text}?", user_id=f"u-{run}", parentRunId="r1"))
        branches = {run: await connect(client, run=run) for run in ("r1", "r2", "r3")}
        newest = await connect(client)
        missing = await client.http.get("/agui/threads/t1/connect/", params={"run": "r9"})
    contents = {run: [message["content"] for message in shown(frames)] for run, frames in branches.items()}
    assert contents == {
        "r1": ["hi", "one"],
        "r2": ["hi", "one", "two?", "two"],
        "r3": ["hi", "one", "three?", "three"],
    }
    assert [frames[-1].json["runId"] for frames in branches.values()] == ["r1", "r2", "r3"]
    assert shown(newest) == shown(branches["r3"])
    assert (missing.status_code, missing.json()["detail"]) == (404, "There is no run 'r9' in the thread 't1'")


@pytest.mark.parametrize(("version", "outcome"), [("1.0", {"type": "cancelled"}), ("0.1", None)])
async def test_a_run_that_is_cancelled_ends_for_each_reader_in_the_form_that_it_takes(
    container: Container, app: Starlette, token: str, version: str, outcome: Any
) -> None:
    agent = ScriptedAgent(HALF, then="hang")
    async with (
        opened(container, app, token, agent) as (client, _),
        client.stream(run_body(protocolVersion="1.0")) as run,
    ):
        await Tab(run).until("TEXT_MESSAGE_CONTENT")
        async with tab(client, params={"protocolVersion": version}) as other:
            prelude = await other.until("TEXT_MESSAGE_START")
            assert await client.cancel()
            tail = await other.until("RUN_FINISHED")
    assert tail[-1].json.get("outcome") == outcome
    assert shown([*prelude, *tail])[-1]["content"] == "Hel"


async def test_what_a_run_asked_and_nobody_has_answered_is_asked_again(
    container: Container, app: Starlette, token: str
) -> None:
    agent = ScriptedAgent(asking(SURE))
    async with opened(container, app, token, agent) as (client, _):
        await client.run()
        assert (await connect(client))[-1].json["outcome"] == {"type": "interrupt", "interrupts": [SURE]}
        await answer(client, agent, *said("m2", "Done"), {**FINISHED, "runId": "r2"})
        assert "outcome" not in (await connect(client))[-1].json
        assert "outcome" not in (await connect(client, run="r1"))[-1].json


async def test_only_what_can_be_answered_is_asked_again(container: Container, app: Starlette, token: str) -> None:
    late = {"id": "late", "reason": "confirm", "expiresAt": "2020-01-01T00:00:00Z"}
    agent = ScriptedAgent(asking({"id": "i1", "reason": "a"}, {"id": "i2", "reason": "b"}, late))
    async with opened(container, app, token, agent) as (client, _):
        await client.run()
        await client.http.post("/agui/threads/t1/interrupts/i1/cancel/")
        assert [each["id"] for each in (await connect(client))[-1].json["outcome"]["interrupts"]] == ["i2"]


async def test_what_is_open_again_since_its_answer_failed_is_asked_again(
    container: Container, app: Starlette, token: str
) -> None:
    agent = ScriptedAgent(asking(SURE))
    async with opened(container, app, token, agent) as (client, _):
        await client.run()
        await answer(client, agent, {"type": "RUN_ERROR", "message": "no"})
        frames = await connect(client)
        outcome = {"type": "interrupt", "interrupts": [SURE]}
        assert frames[-1].json == {**FINISHED, "runId": "r2", "outcome": outcome}
        assert shown(frames)[-1]["content"] == "Sure?"


async def test_what_waits_on_another_branch_is_not_asked_on_this_one(
    container: Container, app: Starlette, token: str
) -> None:
    asks = {"type": "interrupt", "interrupts": [{"id": "i1", "reason": "confirm"}]}
    agent = ScriptedAgent([STARTED, *said("m1", "one"), FINISHED])
    async with opened(container, app, token, agent) as (client, _):
        await client.run()
        for run, end in (("r2", {"outcome": asks}), ("r3", {})):
            agent.events = [{**STARTED, "runId": run}, *said(f"m-{run}", run), {**FINISHED, "runId": run, **end}]
            await client.run(run_body(run=run, text=f"{run}?", user_id=f"u-{run}", parentRunId="r1"))
        ends = [(await connect(client, **at))[-1].json for at in ({"run": "r2"}, {"run": "r3"}, {"run": "r1"}, {})]
    assert [end.get("outcome") for end in ends] == [asks, None, None, None]


async def test_a_thread_that_is_not_there_is_refused_to_whoever_gets_it_and_empty_to_whoever_posts(
    container: Container, app: Starlette, token: str
) -> None:
    async with opened(container, app, token, ScriptedAgent()) as (client, _):
        response = await client.http.get("/agui/threads/new/connect/")
        assert (response.status_code, response.json()["detail"]) == (404, "There is no thread 'new'")
        body = {"threadId": "new", "runId": "r7", "messages": [], "state": {}, "tools": [], "context": []}
        response = await client.http.post("/agui/threads/new/connect/", json=body)
        assert [frame.json for frame in read_frames(response.content)] == [
            {"type": "RUN_STARTED", "threadId": "new", "runId": "r7"},
            {"type": "MESSAGES_SNAPSHOT", "messages": []},
            {"type": "RUN_FINISHED", "threadId": "new", "runId": "r7"},
        ]
        assert (await client.get("/threads/"))["items"] == []
        response = await client.http.post("/agui/threads/other/connect/", json=body)
        assert (response.status_code, response.json()["detail"][0]["loc"]) == (422, ["body", "threadId"])


async def test_a_thread_of_somebody_else_is_not_there(container: Container, app: Starlette, token: str) -> None:
    async with (
        opened(container, app, token, ScriptedAgent([*HALF, *REST])) as (client, gateway),
        open_client(gateway, token, user="bob") as bob,
    ):
        await client.run()
        assert (await bob.http.get("/agui/threads/t1/connect/")).status_code == 404
        response = await bob.http.post("/agui/threads/t1/connect/", json={})
        assert read_frames(response.content)[1].json["messages"] == []
