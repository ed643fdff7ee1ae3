"""Odd wire through the gateway: the bytes that an upstream sent are those that a client gets, and history is made."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from starlette.applications import Starlette

from tests.chat_history.cases import load_cases
from tests.gateway.raw_server import SSE_HEAD, Exchange, raw_server, saying
from tests.gateway.stack import open_client, read_frames, run_body, serve, summary
from threadkeep.gateway.upstream import Upstream
from threadkeep.services.container import Container

STARTED = b'{"type":"RUN_STARTED","threadId":"t1","runId":"r1"}'
FINISHED = b'{"type":"RUN_FINISHED","threadId":"t1","runId":"r1"}'
SAID = [
    b'{"type":"TEXT_MESSAGE_START","messageId":"m1","role":"assistant"}',
    b'{"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":"through"}',
    b'{"type":"TEXT_MESSAGE_END","messageId":"m1"}',
]
DEEP = b"[" * 3_000 + b"]" * 3_000

NUMBERS = [
    b'{"type":"CUSTOM","name":"n","value":12345678901234567890123}',
    b'{"type":"CUSTOM","name":"n","value":' + b"9" * 6_000 + b"}",
    b'{"type":"CUSTOM","name":"n","value":[1.0,-0.0,1E+2,1e999,-1e-999,0.1000]}',
    b'{"type":"CUSTOM","name":"n","value":[NaN,Infinity,-Infinity]}',
    b'{"type":"STATE_SNAPSHOT","snapshot":{"n":NaN}}',
    b'{"type":"STEP_STARTED","stepName":7,"timestamp":1767225605000.50}',
]
SHAPES = [
    b'{ "type" : "CUSTOM" ,\t"name":"n", "value" : { } }   ',
    b'{"value":1,"name":"n","type":"CUSTOM"}',
    b'{"type":"A","type":"CUSTOM","name":"n","name":"m"}',
    b'{"type":"CUSTOM","name":"n","value":' + DEEP + b"}",
    b'{"type":"RAW","event":' + DEEP + b',"source":null}',
    b'{"type":"QUANTUM_FOAM","x":{"a":[1,{"b":null}]}}',
    b'{"type":["RUN_FINISHED"]}',
    b"{}",
    b'{"type":"run_finished"}',
    b'{"type":"CUSTOM","\\u006eame":"n"}',
    b'\xef\xbb\xbf{"type":"CUSTOM","name":"mark"}',
]
TEXTS = [
    '{"type":"CUSTOM","name":"né 😀","value":"\u2028\u2029\x7f"}'.encode(),
    b'{"type":"CUSTOM","name":"\\u00e9\\ud83d\\ude00\\/","value":"\\ud83d"}',
    b'{"type":"CUSTOM","name":"\\u0000","value":"\xff\xc0"}',
    b'{"type":"TEXT_MESSAGE_CONTENT","messageId":"odd","delta":"\\ud83d"}',
    b'{"type":"TEXT_MESSAGE_CONTENT","messageId":"odd","delta":"\\ude00"}',
    b'{"type":"CUSTOM","name":"long","value":"' + b"z" * 1_000_000 + b'"}',
]
KINDS = """
    STEP_STARTED STEP_FINISHED TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END TEXT_MESSAGE_CHUNK
    TOOL_CALL_START TOOL_CALL_ARGS TOOL_CALL_END TOOL_CALL_RESULT TOOL_CALL_CHUNK STATE_SNAPSHOT STATE_DELTA
    MESSAGES_SNAPSHOT ACTIVITY_SNAPSHOT ACTIVITY_DELTA RAW CUSTOM REASONING_START REASONING_END
    REASONING_MESSAGE_START REASONING_MESSAGE_CONTENT REASONING_MESSAGE_END REASONING_MESSAGE_CHUNK
    REASONING_ENCRYPTED_VALUE SUBAGENT_STARTED SUBAGENT_FINISHED SUBAGENT_ERROR THINKING_START THINKING_END
    THINKING_TEXT_MESSAGE_START THINKING_TEXT_MESSAGE_CONTENT THINKING_TEXT_MESSAGE_END
"""
FIELDS = (
    "messageId toolCallId toolCallName parentMessageId delta content role name stepName snapshot patch activityType "
    "messages entityId encryptedValue subtype subagentRunId metadata timestamp rawEvent"
)
WRONG = [b"null", b"7", b"[]", b"{}", b"true", b'""', b'[{"type":"text"},3]']


def wrong_types() -> Iterator[bytes]:
    """Events of each type whose fields all hold what they should not."""
    for kind in KINDS.split():
        for value in WRONG:
            fields = b",".join(b'"%s":%s' % (name.encode(), value) for name in FIELDS.split())
            yield b'{"type":"%s",%s}' % (kind.encode(), fields)


CORPUS: dict[str, list[bytes]] = {
    "numbers": NUMBERS,
    "shapes": SHAPES,
    "texts": TEXTS,
    "wrong types": [*wrong_types()],
}


async def through(container: Container, app: Starlette, token: str, sent: list[bytes]) -> tuple[list[bytes], Any]:
    """What a client gets of these events, and the messages that are stored."""
    stream = b"".join(b"data: " + raw + b"\n\n" for raw in sent)
    async with (
        raw_server(saying(SSE_HEAD, stream)) as server,
        serve(container, app, Upstream(server.url)) as gateway,
        open_client(gateway, token) as alice,
    ):
        response = await alice.http.post("/agui/", json=run_body())
        return [frame.data for frame in read_frames(response.content)], summary(await alice.messages())


@pytest.mark.parametrize("name", CORPUS)
async def test_odd_wire_passes_byte_for_byte_and_hides_nothing_else(
    container: Container, app: Starlette, token: str, name: str
) -> None:
    sent = [STARTED, *CORPUS[name], *SAID, FINISHED]
    received, stored = await through(container, app, token, sent)
    assert received == sent
    assert [(each["role"], each["status"]) for each in (stored[0], stored[-1])] == [
        ("user", "complete"),
        ("assistant", "complete"),
    ]
    assert "through" in [each["content"] for each in stored]


CASES = [
    case["input"]["events"]
    for case in load_cases().values()
    if case["input"]["events"][-1]["type"] in ("RUN_FINISHED", "RUN_ERROR") and case["id"][:3] not in ("068", "082")
]
STYLES = ("escaped", "as it is", "in another order", "with more fields")


def written(event: Mapping[str, Any], style: str) -> bytes:
    """An event as one of its writers would write it."""
    if style == "as it is":
        return json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    if style == "in another order":
        event = dict(reversed([*event.items()]))
    elif style == "with more fields":
        event = {**event, "note": None, "more": [1.50]}
    return json.dumps(event).encode()


@pytest.mark.parametrize("style", STYLES)
async def test_field_cases_pass_as_they_are_written(
    container: Container, app: Starlette, token: str, style: str
) -> None:
    scripts = iter([[written(event, style) for event in events] for events in CASES])
    sent: list[list[bytes]] = []

    async def say_next(exchange: Exchange) -> None:
        sent.append(next(scripts))
        await exchange.say(SSE_HEAD + b"".join(b"data: " + raw + b"\n\n" for raw in sent[-1]))

    async with (
        raw_server(say_next) as server,
        serve(container, app, Upstream(server.url)) as gateway,
        open_client(gateway, token) as alice,
    ):
        for number in range(len(CASES)):
            response = await alice.http.post("/agui/", json=run_body(thread=f"t{number}"))
            assert [frame.data for frame in read_frames(response.content)] == sent[-1]
    assert len(sent) == len(CASES)
