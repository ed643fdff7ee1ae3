"""Interrupts through the gateway: kept, listed, answered once from any device, cancelled; on both engines."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from tests.gateway.raw_server import SSE_HEAD, Exchange, raw_server
from tests.gateway.stack import Client, Json, open_client, run_body, serve, summary
from threadkeep.api.app import create_app
from threadkeep.domain.resume import read_answers
from threadkeep.gateway.agents import agents_of
from threadkeep.gateway.inputs import parse_body
from threadkeep.gateway.interrupts import with_entries
from threadkeep.gateway.upstream import Upstream
from threadkeep.services.container import Container
from threadkeep.services.sessions import Filters
from threadkeep.settings import Settings
from threadkeep.testing.agents import ScriptedAgent, Step

LONG_AGO = "2020-01-01T00:00:00Z"
FINISHED: Step = {"type": "RUN_FINISHED", "threadId": "t1", "runId": "r2"}
RESOLVED = {"interruptId": "i1", "status": "resolved", "payload": {"approved": True}}
CANCELLED = {"interruptId": "i1", "status": "cancelled"}


def asking(*interrupts: Json) -> list[Step]:
    return [
        {"type": "RUN_STARTED", "threadId": "t1", "runId": "r1"},
        {"type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "pay", "parentMessageId": "m1"},
        {"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": "{}"},
        {"type": "TOOL_CALL_END", "toolCallId": "c1"},
        {"type": "RUN_FINISHED", "outcome": {"type": "interrupt", "interrupts": list(interrupts)}},
    ]


def question(name: str = "i1", **fields: Any) -> Json:
    return {"id": name, "reason": "tool_call", "toolCallId": "c1", **fields}


class Device(Client):
    """A frontend of a user."""

    async def ask(self, run: str = "r2", **fields: Any) -> httpx.Response:
        return await self.http.post("/agui/", json=run_body(run=run, user_id=f"u-{run}", **fields))

    async def resume(self, *entries: Json, run: str = "r2", **fields: Any) -> httpx.Response:
        return await self.ask(run, messages=[], resume=list(entries), **fields)

    async def interrupts(self, thread: str = "t1") -> list[Json]:
        items: list[Json] = (await self.get(f"/threads/{thread}/interrupts/"))["items"]
        return items

    async def states(self) -> list[tuple[str, str, str | None]]:
        return [(each["interruptId"], each["state"], each["endedBy"]) for each in await self.interrupts()]

    async def dismiss(self, interrupt: str = "i1") -> httpx.Response:
        return await self.http.post(f"/agui/threads/t1/interrupts/{interrupt}/cancel/")


@asynccontextmanager
async def device(container: Container, agent: ScriptedAgent, token: str, **settings: Any) -> AsyncIterator[Device]:
    configured = replace(container, settings=replace(container.settings, **settings))
    async with (
        serve(configured, create_app(configured), agents_of(agent)) as gateway,
        open_client(gateway, token) as client,
    ):
        yield Device(client.http)


@pytest.fixture
def agent() -> ScriptedAgent:
    return ScriptedAgent(asking(question()))


@pytest.fixture
async def alice(container: Container, agent: ScriptedAgent, token: str) -> AsyncIterator[Device]:
    async with device(container, agent, token) as opened:
        await opened.run()
        agent.events = [FINISHED]
        yield opened


def resume_of(agent: ScriptedAgent) -> list[Json]:
    """What the agent was given last."""
    entries = agent.inputs[-1].resume or []
    return [each if isinstance(each, dict) else each.model_dump(by_alias=True, exclude_none=True) for each in entries]


async def test_what_a_run_asks_is_listed_as_it_came_by_every_process(
    container: Container, agent: ScriptedAgent, token: str, database: str
) -> None:
    odd = {"id": "i/2%", "reason": "x:y", "expiresAt": "2999-01-01T00:00:00Z", "metadata": {"b": 1, "a": [None, 1.5]}}
    never = question("i3", expiresAt="when hell freezes over", subagentRunId="s1")
    agent.events = asking(question(), odd, never)
    async with device(container, agent, token) as first:
        await first.run()
    again = await Container.open(Settings(database=database))
    try:
        async with device(again, agent, token) as second:
            listed = await second.interrupts()
            page = await second.get("/threads/t1/interrupts/", limit=2)
            rest = await second.get("/threads/t1/interrupts/", limit=2, cursor=page["cursor"])
    finally:
        await again.close()
    assert [each["interrupt"] for each in listed] == [question(), odd, never]
    assert [(each["interruptId"], each["runId"], each["state"]) for each in listed] == [
        ("i1", "r1", "open"),
        ("i/2%", "r1", "open"),
        ("i3", "r1", "open"),
    ]
    assert [each["expiresAt"] for each in listed] == [None, "2999-01-01T00:00:00.000000Z", None]
    assert (listed[0]["endedAt"], listed[0]["endedBy"]) == (None, None)
    assert page["items"] + rest["items"] == listed
    assert rest["cursor"] is None


async def test_an_answer_reaches_the_agent_as_it_came_and_ends_the_interrupt(
    alice: Device, agent: ScriptedAgent
) -> None:
    answered = await alice.resume(RESOLVED)
    assert answered.status_code == 200
    assert resume_of(agent) == [RESOLVED]
    assert await alice.states() == [("i1", "resolved", "r2")]
    (interrupt,) = await alice.interrupts()
    assert interrupt["endedAt"] > interrupt["createdAt"]


async def test_the_same_run_again_is_the_same_run_and_another_one_is_told_which_did_it(
    alice: Device, agent: ScriptedAgent
) -> None:
    first = await alice.resume(RESOLVED)
    again = await alice.resume(RESOLVED)
    assert again.content == first.content
    assert len(agent.inputs) == 2
    late = await alice.resume(CANCELLED, run="r3")
    assert (late.status_code, late.json()) == (
        409,
        {
            "detail": "The interrupt 'i1' was resolved by the run 'r2'",
            "errorName": "InterruptAnswered",
            "interruptId": "i1",
            "runId": "r2",
        },
    )
    assert len(agent.inputs) == 2


async def test_of_two_devices_that_answer_at_once_one_does(alice: Device, agent: ScriptedAgent) -> None:
    answers = await asyncio.gather(*(alice.resume(RESOLVED, run=run) for run in ("r2", "r3", "r4")))
    assert sorted(answer.status_code for answer in answers) == [200, 409, 409]
    (won,) = [run for run, answer in zip(("r2", "r3", "r4"), answers, strict=True) if answer.status_code == 200]
    said = [answer.json() for answer in answers if answer.status_code == 409]
    assert {each.get("runId") or each.get("activeRunId") for each in said} == {won}
    assert await alice.states() == [("i1", "resolved", won)]
    assert len(agent.inputs) == 2


async def test_a_resume_that_leaves_some_open_is_422_and_names_them(
    container: Container, agent: ScriptedAgent, token: str
) -> None:
    agent.events = asking(question(), question("i2"), question("i3"))
    async with device(container, agent, token) as alice:
        await alice.run()
        refused = await alice.resume(RESOLVED)
        assert (refused.status_code, refused.json()["detail"]) == (
            422,
            [
                {
                    "loc": ["body", "resume"],
                    "msg": "resume has to answer all open interrupts of the thread; these are missing: 'i2', 'i3'",
                    "type": "missing",
                }
            ],
        )
        assert len(agent.inputs) == 1
        assert [run["runId"] for run in await alice.runs()] == ["r1"]
        agent.events = [FINISHED]
        whole = await alice.resume(RESOLVED, *({"interruptId": name, "status": "cancelled"} for name in ("i2", "i3")))
        assert whole.status_code == 200


@pytest.mark.parametrize(
    ("entries", "place"),
    [([{"interruptId": "i1", "status": "maybe"}], ["resume", 0, "status"]), ([RESOLVED, CANCELLED], ["resume", 1])],
)
async def test_entries_that_say_nothing_clear_are_422(alice: Device, entries: list[Json], place: list[Any]) -> None:
    refused = await alice.resume(*entries)
    assert refused.status_code == 422
    assert refused.json()["detail"][0]["loc"][1 : 1 + len(place)] == place


async def test_an_expired_one_can_only_be_cancelled(container: Container, agent: ScriptedAgent, token: str) -> None:
    agent.events = asking(question(expiresAt=LONG_AGO))
    async with device(container, agent, token) as alice:
        await alice.run()
        assert await alice.states() == [("i1", "expired", None)]
        late = await alice.resume(RESOLVED)
        assert (late.status_code, late.json()) == (
            409,
            {
                "detail": "The interrupt 'i1' expired at 2020-01-01T00:00:00.000000Z; it can only be cancelled",
                "errorName": "InterruptExpired",
                "interruptId": "i1",
            },
        )
        agent.events = [FINISHED]
        assert (await alice.resume(CANCELLED)).status_code == 200
        assert resume_of(agent) == [CANCELLED]
        assert await alice.states() == [("i1", "cancelled", "r2")]


@pytest.mark.parametrize(
    ("rule", "version", "status"),
    [
        ("auto", "1.0", 409),
        ("auto", None, 200),
        ("auto", "0.1.22", 200),
        ("block", None, 409),
        ("cancel", "1.0", 200),
    ],
)
async def test_new_input_is_refused_or_cancels_what_is_open_and_the_agent_is_told(
    container: Container, agent: ScriptedAgent, token: str, rule: str, version: str | None, status: int
) -> None:
    async with device(container, agent, token, open_interrupts=rule) as alice:
        await alice.run()
        agent.events = [FINISHED]
        answer = await alice.ask(text="never mind", **({"protocolVersion": version} if version else {}))
        assert answer.status_code == status
        if status == 409:
            assert answer.json() == {
                "detail": "The thread has open interrupts: 'i1'; answer all of them in resume, or cancel them",
                "errorName": "InterruptsOpen",
                "openInterrupts": ["i1"],
            }
            assert len(agent.inputs) == 1
            assert await alice.states() == [("i1", "open", None)]
            assert [message["content"] for message in await alice.messages()] == ["hi", ""]
        else:
            assert resume_of(agent) == [CANCELLED]
            assert await alice.states() == [("i1", "cancelled", "r2")]


async def test_a_frontend_that_cannot_resume_gets_on_by_cancelling(alice: Device, agent: ScriptedAgent) -> None:
    assert (await alice.ask(protocolVersion="1.0")).status_code == 409
    assert (await alice.dismiss()).json() == {"cancelled": True}
    assert (await alice.dismiss()).json() == {"cancelled": False}
    assert await alice.states() == [("i1", "cancelled", None)]
    assert (await alice.ask(protocolVersion="1.0")).status_code == 200
    # An agent that holds to the protocol refuses what does not answer its interrupts.
    assert resume_of(agent) == [CANCELLED]
    assert await alice.states() == [("i1", "cancelled", "r2")]
    agent.events = [FINISHED]
    assert (await alice.ask("r3", protocolVersion="1.0")).status_code == 200
    assert resume_of(agent) == []


async def test_an_interrupt_that_was_cancelled_cannot_be_resolved(alice: Device) -> None:
    await alice.dismiss()
    late = await alice.resume(RESOLVED)
    assert (late.status_code, late.json()["detail"]) == (409, "The interrupt 'i1' was cancelled without a run")
    assert late.json()["runId"] is None


async def test_the_result_of_its_call_answers_an_interrupt_and_nothing_is_told(
    alice: Device, agent: ScriptedAgent
) -> None:
    result = {"id": "x1", "role": "tool", "toolCallId": "c1", "content": "yes"}
    assert (await alice.ask(messages=[result])).status_code == 200
    assert resume_of(agent) == []
    assert await alice.states() == [("i1", "resolved", "r2")]


async def test_langgraph_s_own_way_to_resume_answers_all(alice: Device, agent: ScriptedAgent) -> None:
    assert (await alice.ask(messages=[], forwardedProps={"command": {"resume": "yes"}})).status_code == 200
    assert resume_of(agent) == []
    assert await alice.states() == [("i1", "resolved", "r2")]


@pytest.mark.parametrize("then", ["RUN_ERROR", "raises"])
async def test_answers_may_be_given_again_where_the_run_with_them_failed(
    alice: Device, agent: ScriptedAgent, then: str
) -> None:
    agent.events = [{"type": "RUN_ERROR", "message": "503"}] if then == "RUN_ERROR" else []
    agent.then = RuntimeError("503")
    assert (await alice.resume(RESOLVED)).status_code == 200
    assert await alice.states() == [("i1", "open", None)]
    agent.then = None
    agent.events = [FINISHED]
    assert (await alice.resume(RESOLVED, run="r3")).status_code == 200
    assert resume_of(agent) == [RESOLVED]
    assert await alice.states() == [("i1", "resolved", "r3")]


async def test_a_run_that_was_cancelled_has_used_its_answers_up(alice: Device, agent: ScriptedAgent) -> None:
    agent.events = [{"type": "RUN_STARTED", "threadId": "t1", "runId": "r2"}]
    agent.then = "hang"
    body = run_body(run="r2", messages=[], resume=[RESOLVED])
    async with alice.stream(body) as stream:
        await anext(stream)
        assert await alice.cancel(run="r2")
    assert await alice.states() == [("i1", "resolved", "r2")]


async def test_what_a_process_that_died_was_answering_is_open_again(
    container: Container, agent: ScriptedAgent, token: str
) -> None:
    async with device(container, agent, token) as alice:
        await alice.run()
        agent.events = [FINISHED]
        principal = await container.tokens.authenticate(f"Bearer {token}")
        (space,), _ = await container.spaces.page(principal, limit=1)
        (session,), _ = await container.sessions.page(principal, space.id, Filters(), limit=1)
        answers = read_answers({"resume": [RESOLVED]}, "block")
        await container.runs.begin(
            principal,
            space.id,
            session.id,
            run_id="lost",
            parent_run_id=None,
            owner="gone",
            lease_seconds=-1,
            answers=answers,
        )
        assert await alice.states() == [("i1", "resolved", "lost")]
        assert (await alice.resume(RESOLVED)).status_code == 200
        assert await alice.states() == [("i1", "resolved", "r2")]
        assert [(run["runId"], run["status"]) for run in await alice.runs()] == [
            ("r2", "finished"),
            ("lost", "interrupted"),
            ("r1", "finished"),
        ]


async def test_an_answer_to_what_only_the_agent_knows_passes(alice: Device, agent: ScriptedAgent) -> None:
    await alice.resume(RESOLVED)
    elsewhere = {"interruptId": "langgraph-7", "status": "resolved", "payload": [1]}
    assert (await alice.resume(elsewhere, run="r3")).status_code == 200
    assert resume_of(agent) == [elsewhere]


async def test_what_waits_on_another_branch_is_not_in_the_way(
    container: Container, agent: ScriptedAgent, token: str
) -> None:
    agent.events = [FINISHED]
    async with device(container, agent, token) as alice:
        await alice.run(run="r0", user_id="u0")
        agent.events = asking(question())
        await alice.run(run="r1", parentRunId="r0", protocolVersion="1.0")
        agent.events = [FINISHED]
        assert (await alice.ask("r2", parentRunId="r1", protocolVersion="1.0")).status_code == 409
        assert (await alice.ask("r3", parentRunId="r0", protocolVersion="1.0")).status_code == 200
        assert resume_of(agent) == []
        assert await alice.states() == [("i1", "open", None)]
        assert (await alice.resume(RESOLVED, run="r4", parentRunId="r1")).status_code == 200
        assert await alice.states() == [("i1", "resolved", "r4")]


async def test_the_draft_form_of_an_interrupt_is_kept_too(
    container: Container, agent: ScriptedAgent, token: str
) -> None:
    agent.events = [{"type": "RUN_FINISHED", "outcome": "interrupt", "interrupt": {"id": "i1", "payload": {"a": 1}}}]
    async with device(container, agent, token) as alice:
        await alice.run()
        (interrupt,) = await alice.interrupts()
    assert (interrupt["state"], interrupt["interrupt"]) == ("open", {"id": "i1", "payload": {"a": 1}})


async def test_interrupts_of_somebody_else_are_not_there(
    container: Container, agent: ScriptedAgent, token: str
) -> None:
    async with serve(container, create_app(container), agents_of(agent)) as gateway:
        async with open_client(gateway, token) as alice:
            await alice.run()
        async with open_client(gateway, token, user="bob") as bob:
            listed = await bob.http.get("/agui/threads/t1/interrupts/")
            cancelled = await bob.http.post("/agui/threads/t1/interrupts/i1/cancel/")
    assert (listed.status_code, listed.json()) == (404, {"detail": "There is no thread 't1'"})
    assert cancelled.json() == listed.json()


async def test_one_that_never_was_is_404_and_a_cursor_that_is_none_422(alice: Device) -> None:
    lost = await alice.dismiss("i9")
    assert (lost.status_code, lost.json()) == (404, {"detail": "There is no interrupt 'i9' in this thread"})
    assert (await alice.http.get("/agui/threads/t1/interrupts/", params={"cursor": "x"})).status_code == 422


async def test_ids_of_any_kind_are_cancelled_by_their_url(
    container: Container, agent: ScriptedAgent, token: str
) -> None:
    agent.events = asking(question("a/b %é"))
    async with device(container, agent, token) as alice:
        await alice.run()
        assert (await alice.dismiss("a%2Fb%20%25%C3%A9")).json() == {"cancelled": True}
        assert await alice.states() == [("a/b %é", "cancelled", None)]


async def test_a_cancelled_answer_closes_its_call_in_the_history(alice: Device) -> None:
    await alice.resume({**CANCELLED, "payload": {"why": "no"}})
    assert summary(await alice.messages())[1]["calls"] == [("pay", "{}", "", "interrupted")]


async def test_what_goes_upstream_keeps_the_entries_as_they_came(
    container: Container, app: Starlette, token: str
) -> None:
    outcome = {"type": "interrupt", "interrupts": [question(), question("late", expiresAt=LONG_AGO)]}
    bodies: list[bytes] = []

    async def answer(exchange: Exchange) -> None:
        bodies.append(exchange.body)
        finished: Json = {"type": "RUN_FINISHED", "threadId": "t1", "runId": "r"}
        if len(bodies) == 1:
            finished["outcome"] = outcome
        await exchange.say(SSE_HEAD + b"data: " + json.dumps(finished).encode() + b"\n\n")

    async with (
        raw_server(answer) as upstream,
        serve(container, app, Upstream(upstream.url)) as gateway,
        open_client(gateway, token) as client,
    ):
        await client.run()
        text = json.dumps(run_body(run="r2", messages=[]))[:-1] + (
            ', "resume": [ {"interruptId": "i1",  "status":"resolved", "payload": 1e2} ] }'
        )
        answered = await client.http.post("/agui/", content=text)
    assert answered.status_code == 200
    own = b' {"interruptId": "i1",  "status":"resolved", "payload": 1e2} '
    told = b'"resume":[' + own + b',{"interruptId":"late","status":"cancelled"}]'
    assert told in bodies[1]


@pytest.mark.parametrize(
    ("own", "text"),
    [("", "[{0}]"), (',"resume":null', "[{0}]"), (',"resume":[]', "[{0}]"), (',"resume":[ {1} ]', "[ {1} ,{0}]")],
)
def test_entries_are_put_behind_those_that_came(own: str, text: str) -> None:
    one, other = '{"interruptId":"x","status":"cancelled"}', '{"interruptId": "y"}'
    body = parse_body(('{"threadId":"t","runId":"r","messages":[]' + own.replace("{1}", other) + "}").encode())
    told = with_entries(body, [json.loads(one)])
    assert told.members["resume"] == text.replace("{0}", one).replace("{1}", other)
    assert json.loads(told.members["resume"]) == told.fields["resume"]
    assert with_entries(body, []) is body
