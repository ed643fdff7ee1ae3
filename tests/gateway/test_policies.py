"""What becomes of a second run on a busy thread: refused (see `test_runs.py`), superseding, or in line."""

import asyncio
from typing import Any

import pytest

from tests.gateway.fleet import fleet
from tests.gateway.following import FINISHED, HALF, STARTED, WHOLE, follow, read, rest, say, until
from tests.gateway.stack import Client, Frame, read_frames, row, run_body, summary
from threadkeep.chat_history import AGUIAgent
from threadkeep.testing.agents import ScriptedAgent


class Turns(ScriptedAgent):
    """Says the id of each run, and ends it when its gate is open; those that are `asking` with a question."""

    def __init__(self, *asking: str) -> None:
        super().__init__()
        self.asking = asking
        self.gates: dict[str, asyncio.Event] = {}
        self.order: list[str] = []

    async def run(self, input: Any) -> Any:
        name = input.run_id
        self.order.append(name)
        gate = self.gates.setdefault(name, asyncio.Event())
        ids = {"threadId": input.thread_id, "runId": name}
        self.events = [{"type": "RUN_STARTED", **ids}, *say(f"I am {name}", f"m-{name}"), gate]
        asked = {"type": "interrupt", "interrupts": [{"id": f"i-{name}", "reason": "confirmation"}]}
        self.events += [{"type": "RUN_FINISHED", **ids, **({"outcome": asked} if name in self.asking else {})}]
        async for event in super().run(input):
            yield event

    def open(self, *names: str) -> None:
        for name in names:
            self.gates.setdefault(name, asyncio.Event()).set()


def body(run: str) -> dict[str, Any]:
    return run_body(run=run, text=f"for {run}", user_id=f"u-{run}")


async def statuses(client: Client) -> dict[str, str]:
    return {run["runId"]: run["status"] for run in await client.runs()}


async def until_in_line(client: Client, *names: str) -> None:
    async with asyncio.timeout(20):
        while [name for name, status in (await statuses(client)).items() if status == "queued"] != [*reversed(names)]:
            pass


async def test_a_superseding_run_ends_the_one_before_as_cancelled_and_goes_on_from_it(database: str) -> None:
    agent = ScriptedAgent(HALF, then="hang")
    async with fleet(database, agent, count=1, run_policy="supersede") as (one,):
        async with one.alice.stream(protocolVersion="1.0") as stream:
            await until(stream, b"One, two")
            agent.events, agent.then = [*say("Sure", "m2"), {**FINISHED, "runId": "r2"}], None
            frames = await one.alice.run(run="r2", text="no, this", user_id="u2")
            assert read_frames(await rest(stream))[-1].json["outcome"] == {"type": "cancelled"}
        assert frames[-1].json["runId"] == "r2"
        assert agent.open_runs == 0
        assert await statuses(one.alice) == {"r1": "interrupted", "r2": "finished"}
        assert summary(await one.alice.messages()) == [
            row("user", "hi"),
            row("assistant", "One, two", "interrupted"),
            row("user", "no, this"),
            row("assistant", "Sure"),
        ]
        assert [message.content for message in agent.inputs[1].messages][:2] == ["hi", "One, two"]


async def test_a_run_supersedes_one_of_another_process(database: str) -> None:
    agent = Turns()
    agent.open("r2")
    async with fleet(database, agent, run_policy="supersede") as (one, two), one.alice.stream(body("r1")) as stream:
        await until(stream, b"I am r1")
        frames = await two.alice.run(body("r2"))
        assert frames[-1].type == "RUN_FINISHED"
        assert read_frames(await rest(stream))[-1].type == "RUN_FINISHED"
        assert await statuses(one.alice) == {"r1": "interrupted", "r2": "finished"}


async def test_runs_in_line_begin_one_after_the_other_in_the_order_in_which_they_came(database: str) -> None:
    agent = Turns()
    async with fleet(database, agent, count=1, run_policy="enqueue") as (one,):
        async with one.alice.stream(body("r1")) as first:
            await until(first, b"I am r1")
            others = []
            for name in ("r2", "r3", "r4"):
                others.append(asyncio.create_task(one.alice.run(body(name))))
                await until_in_line(one.alice, *[f"r{n}" for n in range(2, int(name[1]) + 1)])
            assert agent.order == ["r1"]
            assert (await one.alice.get("/threads/t1/"))["activeRunId"] == "r1"
            agent.open("r1", "r2", "r3", "r4")
            await rest(first)
        for name, other in zip(("r2", "r3", "r4"), others, strict=True):
            frames = await other
            assert [frame.id for frame in frames] == [f"{name}:{n}" for n in range(5)]
        assert agent.order == ["r1", "r2", "r3", "r4"]
        said = [message["content"] for message in await one.alice.messages()]
        assert said == [text for n in range(1, 5) for text in (f"for r{n}", f"I am r{n}")]


async def test_a_run_in_line_holds_its_stream_open_and_is_begun_from_any_process(database: str) -> None:
    agent = Turns()
    async with (
        fleet(database, agent, keepalive_seconds=0.01, run_policy="enqueue") as (one, two),
        one.alice.stream(body("r1")) as first,
    ):
        await until(first, b"I am r1")
        async with two.alice.stream(body("r2")) as second:
            assert await anext(second) == b": keepalive\n\n"
            async with follow(one.alice, run="r2") as elsewhere:
                agent.open("r1", "r2")
                whole = read_frames(await rest(second))
                assert [frame.id for frame in whole] == [f"r2:{n}" for n in range(5)]
                assert read_frames(await rest(elsewhere)) == whole
        await rest(first)


async def test_a_client_that_leaves_leaves_its_run_in_line(database: str) -> None:
    agent = Turns()
    async with fleet(database, agent, count=1, keepalive_seconds=0.01, run_policy="enqueue") as (one,):
        async with one.alice.stream(body("r1")) as first:
            await until(first, b"I am r1")
            async with one.alice.stream(body("r2")) as second:
                await anext(second)
            agent.open("r1", "r2")
            await rest(first)
        frames = read_frames(await read(one.alice, run="r2"))
        assert frames[-1].type == "RUN_FINISHED"
        assert await statuses(one.alice) == {"r1": "finished", "r2": "finished"}


@pytest.mark.parametrize("where", [0, 1], ids=["here", "elsewhere"])
@pytest.mark.parametrize("version", [{"protocolVersion": "1.0"}, {}], ids=["1.0", "0.x"])
async def test_a_run_in_line_may_be_cancelled_and_the_next_one_moves_up(
    database: str, where: int, version: dict[str, str]
) -> None:
    agent = Turns()
    async with fleet(database, agent, run_policy="enqueue") as stations:
        one = stations[0].alice
        async with one.stream(body("r1")) as first:
            await until(first, b"I am r1")
            second = asyncio.create_task(one.run({**body("r2"), **version}))
            await until_in_line(one, "r2")
            third = asyncio.create_task(one.run(body("r3")))
            await until_in_line(one, "r2", "r3")
            assert await stations[where].alice.cancel(run="r2") is True
            outcome = {"outcome": {"type": "cancelled"}} if version else {}
            ids = {"threadId": "t1", "runId": "r2"}
            assert [frame.json for frame in await second] == [
                {"type": "RUN_STARTED", **ids},
                {"type": "RUN_FINISHED", **ids, **outcome},
            ]
            assert await stations[where].alice.cancel(run="r2") is False
            agent.open("r1", "r3")
            await rest(first)
        assert (await third)[-1].type == "RUN_FINISHED"
        assert agent.order == ["r1", "r3"]
        assert await statuses(one) == {"r1": "finished", "r2": "interrupted", "r3": "finished"}


async def test_runs_in_line_outlive_the_process_that_held_them(database: str) -> None:
    agent = Turns()
    async with fleet(database, agent, keepalive_seconds=0.01, run_lease=1, run_policy="enqueue") as (one, two):
        async with one.alice.stream(body("r1")) as first:
            await until(first, b"I am r1")
            async with two.alice.stream(body("r2")) as second:
                await anext(second)
            await two.leave()
            agent.open("r1", "r2")
            await rest(first)
        async with follow(one.alice, run="r2") as stream:
            assert read_frames(await rest(stream))[-1].type == "RUN_FINISHED"
        assert agent.order == ["r1", "r2"]
        assert [message["content"] for message in await one.alice.messages()][2:] == ["for r2", "I am r2"]


async def test_a_thread_that_is_deleted_takes_its_line_along(database: str) -> None:
    agent = Turns()
    async with fleet(database, agent, run_policy="enqueue") as (one, two), one.alice.stream(body("r1")) as first:
        await until(first, b"I am r1")
        waiting = [asyncio.create_task(two.alice.run(body("r2")))]
        await until_in_line(one.alice, "r2")
        waiting.append(asyncio.create_task(one.alice.run(body("r3"))))
        await until_in_line(one.alice, "r2", "r3")
        assert (await one.alice.http.delete("/agui/threads/t1/")).status_code == 204
        await rest(first)
        assert [(await each)[-1].type for each in waiting] == ["RUN_FINISHED", "RUN_FINISHED"]
        assert agent.order == ["r1"]


async def test_a_run_in_line_that_cannot_begin_ends_with_an_error_and_holds_nobody_up(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Turns()
    async with fleet(database, agent, count=1, run_policy="enqueue") as (one,):
        async with one.alice.stream(body("r1")) as first:
            await until(first, b"I am r1")
            second = asyncio.create_task(one.alice.run(body("r2")))
            await until_in_line(one.alice, "r2")
            third = asyncio.create_task(one.alice.run(body("r3")))
            await until_in_line(one.alice, "r2", "r3")
            carry_out = monkeypatch.setattr

            async def fail_once(*_: Any) -> None:
                monkeypatch.undo()
                raise RuntimeError("no room")

            carry_out("threadkeep.gateway.local_runs.LocalRuns.carry_out", fail_once)
            agent.open("r1", "r3")
            await rest(first)
        (frame,) = await second
        assert frame.json["message"] == "The run could not begin: no room"
        assert (await third)[-1].type == "RUN_FINISHED"
        assert await statuses(one.alice) == {"r1": "finished", "r2": "errored", "r3": "finished"}


async def test_a_run_that_cannot_begin_ends_with_the_reason_and_the_next_one_may(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any) -> None:
        raise RuntimeError("no room")

    async with fleet(database, ScriptedAgent(WHOLE), count=1) as (one,):
        with monkeypatch.context() as broken:
            broken.setattr("threadkeep.gateway.local_runs.LocalRuns.carry_out", fail)
            (frame,) = await one.alice.run(body("r0"))
        assert (frame.type, frame.json["message"]) == ("RUN_ERROR", "The run could not begin: no room")
        assert (await one.alice.run())[-1].type == "RUN_FINISHED"
        assert await statuses(one.alice) == {"r0": "errored", "r1": "finished"}


async def until_asked(one: Client, agent: Turns, *others: dict[str, Any]) -> list[list[Frame]]:
    """r1 runs while the others come, and ends with a question. Returns their frames."""
    async with one.stream(body("r1")) as first:
        await until(first, b"I am r1")
        waiting: list[asyncio.Task[list[Frame]]] = []
        for each in others:
            waiting.append(asyncio.create_task(one.run(each)))
            await until_in_line(one, *[other["runId"] for other in others[: len(waiting)]])
        agent.open("r1", *[other["runId"] for other in others])
        await rest(first)
    return [await each for each in waiting]


def answers(given: Any) -> list[tuple[str, str]]:
    """What the agent was told of the interrupts before."""
    return [(entry.interrupt_id, entry.status) for entry in given.resume or ()]


async def interrupts(one: Client) -> list[tuple[str, str, str | None]]:
    items = (await one.get("/threads/t1/interrupts/"))["items"]
    return [(each["interruptId"], each["state"], each["endedBy"]) for each in items]


async def test_a_run_in_line_cancels_what_the_one_before_asks_and_its_agent_is_told(database: str) -> None:
    agent = Turns("r1")
    async with fleet(database, agent, count=1, run_policy="enqueue") as (one,):
        (frames,) = await until_asked(one.alice, agent, body("r2"))
        assert frames[-1].type == "RUN_FINISHED"
        assert [answers(given) for given in agent.inputs] == [[], [("i-r1", "cancelled")]]
        assert await interrupts(one.alice) == [("i-r1", "cancelled", "r2")]


async def test_a_run_in_line_that_is_held_to_the_rule_is_refused_and_the_question_stays(database: str) -> None:
    agent = Turns("r1")
    async with fleet(database, agent, count=1, run_policy="enqueue", open_interrupts="block") as (one,):
        second, third = await until_asked(one.alice, agent, body("r2"), body("r3"))
        for frames in (second, third):
            (refused,) = frames
            assert (refused.type, refused.json["code"]) == ("RUN_ERROR", "INTERRUPTS_OPEN")
            assert "'i-r1'" in refused.json["message"]
        assert agent.order == ["r1"]
        assert await interrupts(one.alice) == [("i-r1", "open", None)]
        assert await statuses(one.alice) == {"r1": "finished", "r2": "errored", "r3": "errored"}
        agent.open("r4")
        answer = {"interruptId": "i-r1", "status": "resolved", "payload": "yes"}
        assert (await one.alice.run({**body("r4"), "resume": [answer]}))[-1].type == "RUN_FINISHED"
        assert answers(agent.inputs[1]) == [("i-r1", "resolved")]
        said = [message["content"] for message in await one.alice.messages()]
        assert said == ["for r1", "I am r1", "for r4", "I am r4"]


async def test_what_was_cancelled_while_a_run_waited_is_told_to_its_agent_once(database: str) -> None:
    agent = Turns("r0", "r1")
    agent.open("r0")
    async with fleet(database, agent, count=1, run_policy="enqueue") as (one,):
        await one.alice.run(body("r0"))
        second, third = await until_asked(one.alice, agent, body("r2"), body("r3"))
        assert [frames[-1].type for frames in (second, third)] == ["RUN_FINISHED"] * 2
        told = [answers(given) for given in agent.inputs]
        assert told == [[], [("i-r0", "cancelled")], [("i-r1", "cancelled")], []]


async def test_a_run_in_line_that_is_adopted_is_held_to_what_is_open_by_then(database: str) -> None:
    agent = Turns("r1")
    async with fleet(database, agent, keepalive_seconds=0.01, run_lease=1, run_policy="enqueue") as (one, two):
        async with one.alice.stream(body("r1")) as first:
            await until(first, b"I am r1")
            async with two.alice.stream({**body("r2"), "protocolVersion": "1.0"}) as second:
                await anext(second)
            await two.leave()
            agent.open("r1", "r2")
            await rest(first)
        async with follow(one.alice, run="r2") as stream:
            (refused,) = read_frames(await rest(stream))
        assert refused.json["code"] == "INTERRUPTS_OPEN"
        assert agent.order == ["r1"]


async def test_a_first_run_waits_for_nobody_whatever_the_policy(database: str) -> None:
    quick: AGUIAgent = ScriptedAgent([STARTED, *WHOLE[1:]])
    for policy in ("supersede", "enqueue"):
        async with fleet(database, quick, count=1, run_policy=policy) as (one,):
            assert (await one.alice.run(thread=policy, run="r1"))[-1].type == "RUN_FINISHED"


def test_the_policy_is_an_option_of_the_server() -> None:
    from click.testing import CliRunner

    from threadkeep.cli.serve import serve

    refused = CliRunner().invoke(serve, ["--run-policy", "sometimes"])
    assert "'sometimes' is not one of 'reject', 'supersede', 'enqueue'" in refused.output
