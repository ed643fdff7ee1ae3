"""Following a run: from its first event or from any place on, while it goes on and after it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.applications import Starlette

from tests.gateway.following import FINISHED, STARTED, WHOLE, ask, cut, events_path, follow, read, rest, say, until
from tests.gateway.stack import Client, Json, open_client, read_frames, run_body, serve
from threadkeep.api.app import create_app
from threadkeep.gateway.agents import agents_of
from threadkeep.gateway.app import KEEPALIVE_SECONDS
from threadkeep.services.container import Container
from threadkeep.settings import Settings
from threadkeep.testing.agents import ScriptedAgent, Step

ODD: list[Step] = [
    b'{"type": "RUN_STARTED", "threadId":"t1",  "runId":"r1", "note": null}',
    b'{"type":"QUANTUM_FOAM","x":1e2,"big":12345678901234567890123,"a":1,"a":2}',
    b'{\n "type": "CUSTOM", "name": "n"}',
    *say("ok"),
    b'{"type":"RUN_FINISHED","threadId":"t1","runId":"r1","outcome":{"type":"paused"}}',
]


@pytest.fixture
def agent() -> ScriptedAgent:
    return ScriptedAgent(WHOLE)


@pytest.fixture
async def gateway(container: Container, app: Starlette, agent: ScriptedAgent) -> AsyncIterator[Starlette]:
    async with serve(container, app, agents_of(agent)) as opened:
        yield opened


@pytest.fixture
async def alice(gateway: Starlette, token: str) -> AsyncIterator[Client]:
    async with open_client(gateway, token) as client:
        yield client


async def run(client: Client, **fields: Any) -> bytes:
    """The bytes of a run that was never cut."""
    async with client.stream(**fields) as stream:
        return await rest(stream)


async def test_a_run_that_has_ended_is_read_again_byte_for_byte(alice: Client, agent: ScriptedAgent) -> None:
    agent.events = ODD
    whole = await run(alice)
    answer = await ask(alice)
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.content == whole
    assert [frame.data for frame in read_frames(whole)][:2] == ODD[:2]


async def test_a_reader_cut_at_any_event_resumes_to_the_same_bytes_as_one_that_never_was(
    alice: Client, agent: ScriptedAgent
) -> None:
    """Pitfalls 5 and 10: the id of a frame is the cursor, in the header and in the query alike."""
    agent.events = ODD
    frames = cut(await run(alice))
    assert len(frames) == len(ODD)
    for seen in range(len(frames)):
        cursor = read_frames(frames[seen])[0].id
        expected = b"".join(frames[seen + 1 :])
        assert await read(alice, after=cursor) == expected
        assert await read(alice, header=cursor) == expected


async def test_readers_that_come_while_a_run_goes_on_miss_nothing_and_see_nothing_twice(
    alice: Client, agent: ScriptedAgent
) -> None:
    """Pitfall 8: where the replay ends and the live tail begins."""
    words: list[Step] = [{"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": f"{n} "} for n in range(60)]
    gates = [asyncio.Event() for _ in range(6)]
    agent.events = [STARTED, say("")[0]]
    for number, gate in enumerate(gates):
        agent.events += [*words[10 * number : 10 * number + 10], gate]
    agent.events += [say("")[2], FINISHED]

    async def resume(after: str) -> bytes:
        async with follow(alice, after) as stream:
            return await rest(stream)

    async with alice.stream() as stream:
        seen = await until(stream, b"id: r1:11\n")
        readers: list[tuple[int, asyncio.Task[bytes]]] = []
        for number, gate in enumerate(gates):
            reached = 10 * number + 11
            readers += [(at, asyncio.create_task(resume(f"r1:{at}"))) for at in (0, reached - 5, reached)]
            await asyncio.sleep(0)
            gate.set()
            if number < 5:
                seen += await until(stream, b"id: r1:%d\n" % (reached + 10))
        frames = cut(seen + await rest(stream))
    assert len(frames) == 64
    for at, reader in readers:
        assert cut(await reader) == frames[at + 1 :]


async def test_a_slow_reader_gets_all_of_a_run_that_ended_long_ago(alice: Client, agent: ScriptedAgent) -> None:
    big: list[Step] = [{"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "x" * 2_000}] * 300
    agent.events = [STARTED, say("")[0], *big, say("")[2], FINISHED]
    async with alice.stream() as slow:
        seen = await anext(slow)
        while (await alice.get("/threads/t1/"))["activeRunId"] is not None:
            pass
        frames = read_frames(seen + await rest(slow))
    assert [frame.id for frame in frames] == [f"r1:{n}" for n in range(304)]
    assert frames[150].json["delta"] == "x" * 2_000


async def test_reading_a_finished_run_ends_at_once_with_its_terminal_event(alice: Client) -> None:
    """Pitfall 9."""
    await run(alice)
    frames = read_frames(await read(alice, after="r1:3"))
    assert [(frame.id, frame.type) for frame in frames] == [("r1:4", "RUN_FINISHED")]


async def test_whoever_has_seen_the_end_is_told_that_nothing_more_comes(alice: Client) -> None:
    await run(alice)
    answer = await ask(alice, after="r1:4")
    assert (answer.status_code, answer.content) == (204, b"")


@pytest.mark.parametrize(
    ("cursor", "message"),
    [
        ("other:1", "'other:1' is a place in another run than 'r1'"),
        ("", "'' is no cursor of a run; one reads RUN_ID:INDEX"),
        ("7", "'7' is no cursor of a run; one reads RUN_ID:INDEX"),
        ("r1:x", "'r1:x' is no cursor of a run; one reads RUN_ID:INDEX"),
        ("r1:5", "The run 'r1' has 5 events by now; none of them is number 5"),
    ],
)
async def test_a_cursor_that_is_none_of_this_run_is_refused_with_its_place_and_never_applied(
    alice: Client, cursor: str, message: str
) -> None:
    """Pitfalls 2 and 3: one that overshoots, and one of another run."""
    await run(alice)
    for place, where in ((["query", "after"], {"after": cursor}), (["header", "Last-Event-ID"], {"header": cursor})):
        refused = await ask(alice, **where)
        assert refused.status_code == 422
        (detail,) = refused.json()["detail"]
        assert (detail["loc"], detail["msg"]) == (place, message)
    again = await alice.http.post("/agui/", json=run_body(), headers={"Last-Event-ID": cursor})
    assert again.status_code == 422
    assert again.json()["detail"][0]["loc"] == ["header", "Last-Event-ID"]


async def test_what_a_browser_sends_by_itself_counts_before_what_stands_in_its_url(alice: Client) -> None:
    await run(alice)
    assert [frame.id for frame in read_frames(await read(alice, after="r1:0", header="r1:3"))] == ["r1:4"]


@pytest.mark.parametrize("run_id", ["läuft:1", "a%0Ab", "日本", "x y"])
async def test_a_run_of_any_id_is_resumed_by_the_id_of_its_frames(alice: Client, run_id: str) -> None:
    response = await alice.http.post("/agui/", json=run_body(run=run_id))
    frames = cut(response.content)
    cursor = frames[2].split(b"\n")[0].removeprefix(b"id: ")
    path = events_path(run=run_id.replace("%", "%25"))
    by_header = await alice.http.get(path, headers={b"Last-Event-ID": cursor})
    by_query = await alice.http.get(path, params={"after": cursor.decode()})
    assert cut(by_header.content) == cut(by_query.content) == frames[3:]


async def test_a_cursor_survives_the_process_that_gave_it(database: str) -> None:
    """Pitfall 4."""
    agent = ScriptedAgent(WHOLE)
    secret, cursor = "", ""
    whole = b""
    for attempt in range(2):
        container = await Container.open(Settings(database=database))
        if not secret:
            _, secret = await container.tokens.create(user="alice", name="test")
        async with (
            serve(container, create_app(container), agents_of(agent)) as gateway,
            open_client(gateway, secret) as alice,
        ):
            if attempt == 0:
                whole = await run(alice)
                cursor = read_frames(whole)[1].id
            else:
                assert await read(alice, after=cursor) == b"".join(cut(whole)[2:])
        await container.close()


async def test_a_comment_carries_no_id_and_comes_often_enough(
    container: Container, app: Starlette, token: str, agent: ScriptedAgent
) -> None:
    """Pitfalls 2 and 10."""
    assert KEEPALIVE_SECONDS <= 15
    gate = asyncio.Event()
    agent.events = [STARTED, gate, FINISHED]
    async with (
        serve(container, app, agents_of(agent), keepalive_seconds=0.001) as gateway,
        open_client(gateway, token) as alice,
        alice.stream() as stream,
    ):
        await until(stream, b"RUN_STARTED")
        async with follow(alice, "r1:0") as later:
            assert await anext(later) == b": keepalive\n\n"
            gate.set()
            assert cut(await rest(later)) == [
                b'id: r1:1\ndata: {"type":"RUN_FINISHED","threadId":"t1","runId":"r1"}\n\n'
            ]
        await rest(stream)


async def test_a_client_that_leaves_is_no_cancel_and_finds_its_run_again(alice: Client, agent: ScriptedAgent) -> None:
    """Pitfall 12."""
    gate = asyncio.Event()
    agent.events = [*WHOLE[:3], gate, *WHOLE[3:]]
    async with alice.stream() as stream:
        seen = await until(stream, b"All of it")
    assert agent.open_runs == 1
    gate.set()
    seen += await read(alice, after="r1:2")
    assert [frame.id for frame in read_frames(seen)] == [f"r1:{n}" for n in range(5)]
    assert [found["status"] for found in await alice.runs()] == ["finished"]


async def test_an_agent_that_raises_is_an_error_for_those_who_come_later_too(
    alice: Client, agent: ScriptedAgent
) -> None:
    """Pitfall 13."""
    agent.events, agent.then = WHOLE[:3], ValueError("no such city")
    whole = await run(alice)
    assert await read(alice) == whole
    assert read_frames(whole)[-1].json == {
        "type": "RUN_ERROR",
        "message": "The agent failed: ValueError: no such city",
        "code": "AGENT_ERROR",
    }


async def test_a_run_of_somebody_else_is_not_there(gateway: Starlette, alice: Client, token: str) -> None:
    """Pitfall 6: the ids of a run are no secret."""
    await run(alice)
    async with open_client(gateway, token, "mallory") as mallory:
        refused = await ask(mallory, after="r1:0")
        assert (refused.status_code, refused.json()) == (404, {"detail": "There is no thread 't1'"})
        await mallory.run(text="mine")
        assert b"hi" not in await read(mallory)
    unknown = await ask(alice, run="never was")
    assert (unknown.status_code, unknown.json()) == (404, {"detail": "There is no run 'never was' in the thread 't1'"})


async def test_a_head_request_is_told_what_it_would_get_and_holds_nothing(alice: Client, agent: ScriptedAgent) -> None:
    agent.events, agent.then = WHOLE[:2], "hang"
    async with alice.stream() as stream:
        await until(stream, b"RUN_STARTED")
        head = await alice.http.head(events_path())
        assert (head.status_code, head.headers["content-type"], head.content) == (200, "text/event-stream", b"")
        await alice.cancel()


# The same run id again


async def test_the_same_run_asked_for_again_is_the_same_run(alice: Client, agent: ScriptedAgent) -> None:
    whole = await run(alice)
    assert await run(alice) == whole
    assert len(agent.inputs) == 1
    assert len(await alice.messages()) == 2
    assert len(await alice.runs()) == 1


async def test_a_run_asked_for_again_goes_on_after_the_last_event_that_was_seen(alice: Client) -> None:
    whole = cut(await run(alice))
    again = await alice.http.post("/agui/", json=run_body(), headers={"Last-Event-ID": "r1:2"})
    assert (again.status_code, cut(again.content)) == (200, whole[3:])


async def test_a_run_asked_for_again_while_it_goes_on_is_joined(alice: Client, agent: ScriptedAgent) -> None:
    gate = asyncio.Event()
    agent.events = [*WHOLE[:3], gate, *WHOLE[3:]]
    async with alice.stream() as first:
        seen = await until(first, b"All of it")
        async with alice.stream() as second:
            assert await until(second, b"All of it") == seen
            gate.set()
            assert await rest(second) == await rest(first)
    assert len(agent.inputs) == 1


async def test_a_retry_of_the_same_request_that_overtakes_the_first_begins_one_run(
    alice: Client, agent: ScriptedAgent
) -> None:
    streams = await asyncio.gather(*(run(alice) for _ in range(5)))
    assert streams == [streams[0]] * 5
    assert len(agent.inputs) == 1


@pytest.mark.parametrize("other", [{"text": "something else"}, {"state": {"a": 1}}], ids=["message", "state"])
async def test_another_input_under_a_known_run_id_is_refused(alice: Client, other: Json) -> None:
    await run(alice)
    refused = await alice.http.post("/agui/", json=run_body(**other))
    assert refused.status_code == 409
    assert refused.json()["detail"] == (
        "The run 'r1' of this thread began with another input; a new run needs an id of its own"
    )
    assert len(await alice.messages()) == 2


async def test_a_resume_of_a_run_that_never_was_begins_none(alice: Client, agent: ScriptedAgent) -> None:
    missing = await alice.http.post("/agui/", json=run_body(), headers={"Last-Event-ID": "r1:2"})
    assert missing.status_code == 404
    assert agent.inputs == []
    assert await alice.get("/threads/") == {"items": [], "cursor": None}
