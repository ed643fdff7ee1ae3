"""The field cases of the Memory Service that need runs."""

import asyncio
from contextlib import AsyncExitStack

import httpx
import pytest
from sqlalchemy import func, literal_column, select, table
from starlette.applications import Starlette

from tests.gateway.stack import open_client, run_body, serve
from tests.passing_time import load_case
from threadkeep.api.app import create_app
from threadkeep.gateway.agents import agents_of
from threadkeep.services.container import Container
from threadkeep.settings import Settings
from threadkeep.storage.statement import Row, Statement, Steps
from threadkeep.testing.agents import ScriptedAgent
from threadkeep.transport.in_process import InProcessTransport

_TIMEOUT = Statement(select(func.current_setting("idle_in_transaction_session_timeout")), only="postgresql")
# A transaction that is between two of its statements is not meant: one that was left open is.
_LEFT_OPEN = Statement(
    select(func.count())
    .select_from(table("pg_stat_activity"))
    .where(
        literal_column("datname = current_database()"),
        literal_column("application_name = 'threadkeep'"),
        literal_column("state LIKE 'idle in transaction%'"),
        literal_column("state_change < now() - interval '1 second'"),
    ),
    only="postgresql",
)


@pytest.fixture
def pool() -> int:
    return int(load_case("127-no-connection-held-while-streaming")["input"]["pool"])


async def test_127_runs_that_stream_hold_no_connection(database: str, pool: int) -> None:
    """Twenty runs on five connections: while all of them wait for their agent, everything else goes on."""
    streams = load_case("127-no-connection-held-while-streaming")["input"]["streams"]
    assert streams > pool
    container = await Container.open(Settings(database=database, database_connections=pool))
    app = create_app(container)
    gate = asyncio.Event()
    agent = ScriptedAgent(
        [
            {"type": "RUN_STARTED", "threadId": "-", "runId": "-"},
            {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m1", "role": "assistant", "delta": "Half"},
            gate,
            {"type": "RUN_FINISHED", "threadId": "-", "runId": "-"},
        ]
    )
    _, secret = await container.tokens.create(user="alice", name="test")
    try:
        async with (
            serve(container, app, agents_of(agent)) as gateway,
            open_client(gateway, secret) as client,
            AsyncExitStack() as open_streams,
        ):
            bodies = [run_body(thread=f"t{n}", run=f"r{n}") for n in range(streams)]
            waiting = [await open_streams.enter_async_context(client.stream(body)) for body in bodies]
            for stream in waiting:
                assert b"RUN_STARTED" in await anext(stream)
            assert agent.open_runs == streams

            await write_and_read(app, secret)
            assert len((await client.get("/threads/"))["items"]) == streams
            if container.database.dialect == "postgresql":
                assert await container.database.read(lambda: rows_of(_LEFT_OPEN)) == [(0,)]
                assert await container.database.read(lambda: rows_of(_TIMEOUT)) == [("30s",)]

            gate.set()
            for stream in waiting:
                assert b"RUN_FINISHED" in b"".join([chunk async for chunk in stream])
    finally:
        await container.close()


async def write_and_read(app: Starlette, secret: str) -> None:
    """Forty appends at once, and what they have stored."""
    async with httpx.AsyncClient(
        transport=InProcessTransport(app),
        timeout=60,
        base_url="http://threadkeep.test/api/v2",
        headers={"Authorization": f"Bearer {secret}"},
    ) as http:
        space = (await http.post("memory/new/", json={})).json()["memorySpaceId"]
        made = (await http.post(f"memory/{space}/sessions/", json={"participants": ["ann"]})).json()
        path = f"memory/{space}/sessions/{made['id']}/events/"
        draft = {"body": {"content": "hi"}, "emitter": {"type": "agent"}}
        answers = await asyncio.gather(*(http.post(path, json=draft) for _ in range(40)))
        assert {answer.status_code for answer in answers} == {201}
        assert (await http.get(path)).json()["total"] == 40


def rows_of(statement: Statement) -> Steps[list[Row]]:
    rows = yield statement, {}
    return [tuple(row) for row in rows]
