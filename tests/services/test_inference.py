"""Messages that are handed in, on both engines, with a scripted model."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.passing_time import seconds_from_now
from tests.services.stage import Stage, decided, found, on_stage
from threadkeep import clock
from threadkeep.domain.job import ADDITION
from threadkeep.domain.memory import MemoryScope
from threadkeep.errors import LeaseLost, ModelFailed
from threadkeep.services.attempts import NO_MODEL
from threadkeep.services.container import Container
from threadkeep.testing.models import OneModel, ScriptedModel
from threadkeep.workers.runner import Runner, model_runner_of

ANN = MemoryScope(user_id="ann", run_id="r-1")
SAID = [
    {"role": "system", "content": "Be kind"},
    {"role": "assistant", "content": "What do you like?"},
    {"role": "user", "content": "I like tea"},
]
TEA = {"memories": [{"text": "Likes tea", "sources": [2], "categories": ["food"]}]}


@pytest.fixture
async def stage(database: str) -> AsyncIterator[Stage]:
    async with on_stage(database) as opened:
        yield opened


async def add(stage: Stage, scope: MemoryScope = ANN, **request: Any) -> str:
    wanted = {"messages": SAID, "scope": {"user_id": scope.user_id, "run_id": scope.run_id}, **request}
    return await stage.container.additions.queue(*stage.at, scope, wanted)


async def test_what_a_user_said_in_messages_becomes_memories_of_the_scope_that_was_given(stage: Stage) -> None:
    said_at = 1_795_953_600_000_000
    options = {
        "metadata": {"n": 1},
        "expiration_date": "2030-01-01",
        "timestamp": said_at,
        "custom_instructions": "Only drinks.",
        "includes": "tea",
        "excludes": "coffee",
        "custom_categories": [{"food": "what they eat"}],
    }
    event_id = await add(stage, **options)
    waiting = await stage.container.additions.get(*stage.at, event_id)
    stage.model.answers.append(TEA)

    assert await stage.work() == 1

    done = await stage.container.additions.get(*stage.at, event_id)
    (memory,) = await stage.memories()
    assert (waiting.state, waiting.results) == ("PENDING", None)
    assert (done.state, done.request, done.error) == ("SUCCEEDED", None, None)
    assert json.loads(done.results or "") == [
        {"id": memory.id, "memory": "Likes tea", "event": "ADD", "data": {"memory": "Likes tea"}}
    ]
    assert (memory.scope, memory.attributed_to, memory.sources) == (ANN, "user", ())
    assert (memory.metadata, memory.expiration_date, memory.created_at) == ('{"n": 1}', "2030-01-01", said_at)
    ((system, user),) = stage.model.asked
    assert "Be kind" not in user.content
    assert '"date":"2026-11-29"' in user.content
    assert system.content.endswith("wants:\nMind the food.\nOnly drinks.\nNote only: tea\nLeave out: coffee\n")
    assert "of: food (what they eat)." in system.content


async def test_what_is_known_already_is_kept_out_and_what_changed_is_told(stage: Stage) -> None:
    await add(stage)
    stage.model.answers.append(TEA)
    await stage.work()
    same = await add(stage)
    stage.model.answers.append(TEA)
    await stage.work()
    changed = await add(stage, messages=[{"role": "user", "content": "Now I like green tea best"}])
    stage.model.answers += [found("Likes green tea best"), decided(("replaces", 1))]
    await stage.work()

    listed, _ = await stage.container.additions.page(*stage.at, offset=0, limit=9)
    events = {event.event_id: json.loads(event.results or "") for event in listed}
    assert events[same] == []
    assert [(item["event"], item["memory"]) for item in events[changed]] == [("UPDATE", "Likes green tea best")]
    assert await stage.texts() == ["Likes green tea best"]


async def test_messages_of_an_assistant_alone_ask_no_model(stage: Stage) -> None:
    event_id = await add(stage, messages=[{"role": "assistant", "content": "I am a chef"}])
    await stage.work()
    done = await stage.container.additions.get(*stage.at, event_id)
    assert (done.state, done.results) == ("SUCCEEDED", "[]")
    assert stage.model.asked == []


async def test_a_request_that_fails_is_tried_again_and_fails_for_good(database: str) -> None:
    model = ScriptedModel([ModelFailed("answered 500"), TEA, ModelFailed("x"), ModelFailed("slow down", retry_after=9)])
    async with on_stage(database, model, llm_attempts=2) as stage:
        first = await add(stage)
        now = clock.now()
        await stage.work(now)
        between = await stage.container.additions.get(*stage.at, first)
        assert await stage.work(now + 1_900_000) == 0
        await stage.work(now + 2_500_000)
        second = await add(stage)
        later = seconds_from_now(0)
        await stage.work(later)
        await stage.work(later + 60_000_000)

        assert (between.state, between.attempts, between.error) == ("PENDING", 1, "answered 500")
        assert (await stage.container.additions.get(*stage.at, first)).state == "SUCCEEDED"
        failed = await stage.container.additions.get(*stage.at, second)
        assert (failed.state, failed.error, failed.request, failed.results) == ("FAILED", "slow down", None, "[]")
        assert await stage.work(seconds_from_now(10**6)) == 0


async def test_a_worker_that_wakes_too_late_adds_nothing(database: str) -> None:
    gate = asyncio.Event()
    async with on_stage(database, ScriptedModel([gate, TEA])) as stage:
        event_id = await add(stage)
        now = clock.now()
        (lost,) = await stage.container.jobs.claim("paused", [ADDITION], now, limit=1)
        paused = asyncio.create_task(stage.container.inference.run(lost, now))
        await stage.model.until_asked()
        assert (await stage.container.additions.get(*stage.at, event_id)).state == "RUNNING"
        container = await Container.open(stage.container.settings, models=OneModel(ScriptedModel([TEA])))
        try:
            assert await model_runner_of(container).run_due(lost.until + 1) == 1
        finally:
            await container.close()
        gate.set()
        with pytest.raises(LeaseLost):
            await paused

        assert await stage.texts() == ["Likes tea"]
        assert (await stage.container.additions.get(*stage.at, event_id)).state == "SUCCEEDED"


async def test_without_a_model_a_request_waits_and_says_why(stage: Stage) -> None:
    event_id = await add(stage)
    stage.container.models.model = None  # type: ignore[attr-defined]
    await Runner(stage.container.jobs, {ADDITION: stage.container.inference.run}).run_due(clock.now())
    waits = await stage.container.additions.get(*stage.at, event_id)
    assert (waits.state, waits.error, waits.attempts) == ("PENDING", NO_MODEL, 0)


async def test_a_deleted_space_ends_its_requests(stage: Stage) -> None:
    await add(stage)
    await stage.container.spaces.delete(*stage.at)
    await stage.work()
    assert stage.model.asked == []
    assert await stage.container.jobs.claim("w", [ADDITION], seconds_from_now(10**6), limit=1) == []
