"""After each field case an upstream agent is asked once more: what it gets over the wire is in order and complete."""

import json
from typing import Any

from starlette.applications import Starlette

from tests.chat_history.cases import load_cases
from tests.chat_history.chat_api_rules import complaints
from tests.chat_history.next_inputs import QUESTION, expected, outline
from tests.gateway.raw_server import SSE_HEAD, Exchange, raw_server
from tests.gateway.stack import Client, open_client, read_frames, serve
from threadkeep.gateway.upstream import Upstream
from threadkeep.services.container import Container

# Cases that a server in this process cannot play, and the one whose texts are over the limits of the service.
APART = ("disconnect", "interleave", "kill", "storage", "delete", "068")


def is_played(name: str, case: dict[str, Any]) -> bool:
    return not any(word in f"{name} {case['input'].get('then')}" for word in APART)


CASES = {name: case for name, case in load_cases().items() if is_played(name, case)}


async def test_the_upstream_after_each_field_case_gets_what_was_said(
    container: Container, app: Starlette, token: str
) -> None:
    scripts: list[list[Any]] = []

    async def answer(exchange: Exchange) -> None:
        events = [json.dumps(each).encode() for each in scripts[len(server.exchanges) - 1]]
        await exchange.say(SSE_HEAD + b"".join(b"data: %s\n\n" % event for event in events if event != b'"hang"'))
        if b'"hang"' in events:
            await exchange.left.wait()

    async with (
        raw_server(answer) as server,
        serve(container, app, Upstream(server.url)) as gateway,
        open_client(gateway, token) as client,
    ):
        for name, case in CASES.items():
            begin = len(scripts)
            await play(client, name, case, scripts)
            inputs = [json.loads(exchange.body)["messages"] for exchange in server.exchanges[begin:]]
            assert [complaints(messages) for messages in inputs] == [[]] * len(inputs), name
            assert outline(inputs[-1]) == expected(name, case), name
    assert len(CASES) == 59


async def play(client: Client, name: str, case: dict[str, Any], scripts: list[list[Any]]) -> None:
    """The runs of a case on a thread of its own, and the run after them."""
    given, then = case["input"], case["input"].get("then")
    thread = f"{name} {given['run_input']['threadId']}"
    second = then.get("second_run") if isinstance(then, dict) else None
    if then == "cancel" or (isinstance(then, dict) and then.get("cancel")):
        scripts.append([*given["events"], "hang"])
        await cancelled(client, {**given["run_input"], "threadId": thread}, len(given["events"]))
    else:
        scripts.append(given["events"])
        await client.run({**given["run_input"], "threadId": thread})
    if second:
        scripts.append(second["events"])
        await client.run({**second["run_input"], "threadId": thread})
    scripts.append([])
    await client.run({"threadId": thread, "runId": "after", "messages": [QUESTION]})


async def cancelled(client: Client, body: dict[str, Any], count: int) -> None:
    """Stop a run when all its events have come."""
    stream = b""
    async with client.stream(body) as chunks:
        async for chunk in chunks:
            stream += chunk
            if stream.count(b"data: ") == count:
                assert await client.cancel(body["threadId"], body["runId"])
    assert len(read_frames(stream)) > count
