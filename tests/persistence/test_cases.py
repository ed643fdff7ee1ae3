"""The field cases of the ORM, as they are written down in `tests/cases`, on the real service."""

import asyncio
import itertools
from dataclasses import replace
from typing import Annotated, Any

import httpx
import pytest
from starlette.applications import Starlette

from tests.passing_time import load_case
from tests.persistence.declared import USER
from threadkeep import clock
from threadkeep.api.app import create_app
from threadkeep.errors import Unavailable
from threadkeep.persistence import (
    DRConcurrencyField,
    DRDeduplicationKey,
    DREvent,
    DRMemoryNotFoundError,
    DRMemoryRateLimitError,
    DRMemoryServiceClient,
    DRMemoryServiceError,
    DRMemorySpace,
    DRMemoryUnavailableError,
    DRMemoryValidationError,
    DRMemoryVersionConflictError,
    DRRangeKey,
    DRSession,
)
from threadkeep.services.container import Container
from threadkeep.services.rates import Rates
from threadkeep.transport.in_process import InProcessTransport


class Page(DRSession):
    first: Annotated[str, DRRangeKey]
    second: Annotated[str, DRRangeKey]
    thread: Annotated[str | None, DRDeduplicationKey] = None
    revision: Annotated[int | None, DRConcurrencyField] = None
    title: str = ""


class Scored(DREvent, session=Page):
    score: float = 0.0
    label: str | None = None


class Strict(DREvent, session=Page):
    """What became of `Scored`: one more field is required."""

    rank: int


@pytest.fixture
async def page(space: DRMemorySpace) -> Page:
    return await Page.post(space, participants=[USER], first="a", second="b")


async def test_109_a_patch_keeps_the_other_fields(page: Page) -> None:
    sent, patched = load_case("109-event-patch-keeps-other-fields")["input"]["calls"]
    event = await Scored.post(page, **sent["body"]["body"], emitter_type=sent["body"]["emitter"]["type"])

    await event.patch(**patched["body"]["body"])
    (stored,) = await Scored.list(page)
    assert (stored.content, stored.score, stored.label) == ("hi", 0.9, "x")

    await event.patch(label=None)
    (stored,) = await Scored.list(page)
    assert (stored.content, stored.score, stored.label) == ("hi", 0.9, None)


async def test_128_a_store_that_is_down_is_no_empty_history(
    page: Page, space: DRMemorySpace, container: Container
) -> None:
    case = load_case("128-db-error-is-not-empty-history")
    assert "NEVER an empty list" in case["input"]["calls"][0]["expect"]
    await Scored.post(page, content="old")

    async def broken(*_: Any, **__: Any) -> None:
        raise Unavailable("The database gives no answer: it is down")

    with pytest.MonkeyPatch.context() as patch:
        for verb in ("read", "scan", "write", "note", "append"):
            patch.setattr(container.database, verb, broken)
        for call in (Scored.list(page), Scored.last(page, n=1), Page.get(space, page.id), Page.list(space)):
            with pytest.raises(DRMemoryServiceError) as raised:
                await call
            assert raised.value.status_code == 503
            assert not isinstance(raised.value, DRMemoryNotFoundError)

    assert [event.content for event in await Scored.list(page)] == ["old"]
    assert [each.id for each in await Page.list(space)] == [page.id]


async def test_131_a_rate_limit_and_a_lost_answer_are_typed_and_nothing_is_sent_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the client makes of each reply; the whole seconds to wait are None where none are named."""
    monkeypatch.setattr(clock, "now", lambda: clock.parse_timestamp("2026-10-21T07:27:00.5Z"))
    waits: dict[str, int | None] = {
        "429 Retry-After: 30": 30,
        "429 Retry-After: 1.5": 2,
        "429 Retry-After: Wed, 21 Oct 2026 07:28:00 GMT": 60,
        "429 Retry-After: Fri, 01 Jan 99999 00:00:00 GMT": None,
        "429": None,
    }
    *limited, timeout, half = load_case("131-rate-limit-and-transport-errors")["input"]["replies"]
    assert (limited, timeout, half) == (list(waits), "connect timeout", "200 with half a JSON body")
    sent: list[str] = []

    def reply(request: httpx.Request) -> httpx.Response:
        sent.append(said)
        if said == timeout:
            raise httpx.ConnectTimeout(said)
        if said == half:
            return httpx.Response(200, text='{"items": [{"id"')
        _, _, wait = said.partition("Retry-After: ")
        return httpx.Response(429, headers={"Retry-After": wait} if wait else {}, json={"detail": "Too many requests"})

    http_client = httpx.AsyncClient(transport=httpx.MockTransport(reply))
    client = DRMemoryServiceClient(endpoint="http://t.test/api/v2", api_token="t", http_client=http_client)
    async with http_client:
        for said in limited:
            with pytest.raises(DRMemoryRateLimitError, match="Too many requests") as refused:
                await DRMemorySpace.post(client)
            assert refused.value.retry_after == waits[said], said
        for said, cause in ((timeout, httpx.ConnectTimeout), (half, httpx.DecodingError)):
            with pytest.raises(DRMemoryUnavailableError) as lost:
                await DRMemorySpace.post(client)
            assert isinstance(lost.value.__cause__, cause), said
    assert sent == [*limited, timeout, half]


async def test_131_the_client_knows_the_refusal_of_the_service_itself(container: Container, token: str) -> None:
    transport = InProcessTransport(create_app(replace(container, rates=Rates(1))))
    async with httpx.AsyncClient(transport=transport) as http_client:
        client = DRMemoryServiceClient(
            endpoint="http://threadkeep.test/api/v2", api_token=token, http_client=http_client
        )
        with pytest.MonkeyPatch.context() as patch:
            now = clock.now()
            patch.setattr(clock, "now", lambda: now)
            assert await DRMemorySpace.list(client) == []
            with pytest.raises(DRMemoryRateLimitError) as refused:
                await DRMemorySpace.list(client)
    assert (refused.value.status_code, refused.value.retry_after) == (429, 1)


async def test_133_range_keys_come_back_and_find_no_neighbour(space: DRMemorySpace) -> None:
    pairs = [tuple(pair) for pair in load_case("133-range-key-escaping")["input"]["range_keys"]]
    whole = [pair for pair in pairs if all(pair)]
    for first, second in pairs:
        if first and second:
            await Page.post(space, first=first, second=second)
        else:
            # An empty key could not be told from a missing one.
            with pytest.raises(ValueError, match="is empty"):
                await Page.post(space, first=first, second=second)
    for first, second in (("ab", "c"), ("a", "bc"), ("A/B", "c"), ("ü", "/")):
        await Page.post(space, first=first, second=second)

    assert len(whole) == 3
    assert [(page.first, page.second) for page in await Page.list(space)][:3] == whole
    for first, second in whole:
        (found,) = await Page.list(space, first=first, second=second)
        assert (found.first, found.second) == (first, second)
    assert {(page.first, page.second) for page in await Page.list(space, first="a")} == {("a", "b/c"), ("a", "bc")}


async def test_134_a_row_that_has_drifted_hides_no_other(
    page: Page, client: DRMemoryServiceClient, caplog: pytest.LogCaptureFixture
) -> None:
    *bodies, version = load_case("134-schema-drift")["input"]["rows"]
    path = f"{page.memory_space.id}/sessions/{page.id}/events/"
    for body in ({"content": "x", "rank": 1}, *(row["body"] for row in bodies[:2])):
        event = {"body": body, "emitter": {"type": "agent"}, "type": "message"}
        await client.request("POST", path, json=event)

    events = await Strict.list(page)

    # The third row never comes to be, and the fourth, a session without a version, is read in test_mapping.
    with pytest.raises(DRMemoryValidationError):
        await client.request("POST", path, json={**bodies[2], "emitter": {"type": "agent"}})
    assert version == {"version": None}
    assert [(event.content, event.rank) for event in events] == [("x", 1), ("x", None), ("x", None)]
    assert "'rank' is missing" in caplog.text
    await events[2].patch(rank=3)
    stored = (await client.request("GET", path)).json()["items"][2]["body"]
    assert stored == {"content": "x", "extra": 1, "rank": 3}


async def test_136_a_late_write_does_not_undo_a_newer_one(page: Page) -> None:
    slow, patched, read = load_case("136-late-write-overwrites-newer")["input"]["calls"]
    assert slow["body"]["body"]["content"] == ""
    event = await Scored.post(page, content="-", emitter_type="user", emitter_id=USER)
    (late,) = await Scored.list(page)

    await event.patch(**patched["body"]["body"])
    with pytest.raises(DRMemoryVersionConflictError):
        await late.patch(content="-")

    assert read["expect"] == "content=done"
    assert [each.content for each in await Scored.list(page)] == ["done"]


async def test_137_the_first_message_is_there_however_the_chat_is_made(
    space: DRMemorySpace, app: Starlette, token: str
) -> None:
    made, said = load_case("137-first-message-before-chat-exists")["input"]["calls"]
    key, content = made["body"]["deduplicationKey"], said["body"]["body"]["content"]
    numbers = itertools.count()

    async def slow_to_create(request: httpx.Request) -> None:
        # The first create is the last to arrive.
        for _ in range(50 if next(numbers) == 0 else 0):
            await asyncio.sleep(0)

    async with (
        httpx.AsyncClient(
            transport=InProcessTransport(app), timeout=60, event_hooks={"request": [slow_to_create]}
        ) as http,
        DRMemoryServiceClient(endpoint="http://threadkeep.test/api/v2", api_token=token, http_client=http) as slow,
    ):
        there = await DRMemorySpace.get(slow, space.id)

        async def first_words(text: str) -> None:
            page = await Page.post(there, participants=[USER], first="a", second="b", thread=key)
            await Scored.post(page, content=text, emitter_type="user", emitter_id=USER)

        await asyncio.gather(first_words(content), first_words("second"))

    (page,) = await Page.list(space)
    assert {event.content for event in await Scored.list(page)} == {"first", "second"}
