"""The connection of the ORM: every answer and every failure in its own errors. The answers are made up here."""

import asyncio
import json
import ssl
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.persistence.declared import Chat, ChatMessage, Note
from threadkeep.persistence import (
    DRMemoryBadRequestError,
    DRMemoryConflictError,
    DRMemoryNotFoundError,
    DRMemoryRateLimitError,
    DRMemoryServiceClient,
    DRMemoryServiceError,
    DRMemorySpace,
    DRMemoryUnavailableError,
    DRMemoryValidationError,
    DRMemoryVersionConflictError,
)

SPACE: dict[str, Any] = {"memorySpaceId": "sp", "userId": "u", "tenantId": "t"}
Handler = Callable[[httpx.Request], httpx.Response]


def connect(handler: Handler, token: str = "t") -> DRMemoryServiceClient:
    http_client = httpx.AsyncClient(transport=httpx.MockTransport(handler))
    return DRMemoryServiceClient(endpoint="http://t.test/api/v2", api_token=token, http_client=http_client)


def answering(status: int, body: object = None, headers: dict[str, str] | None = None) -> Handler:
    return lambda request: httpx.Response(status, json=body, headers=headers)


def failing(error: Exception) -> Handler:
    def fail(request: httpx.Request) -> httpx.Response:
        raise error

    return fail


def a_space(handler: Handler) -> DRMemorySpace:
    return DRMemorySpace(connect(handler), SPACE)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (400, {"detail": "no"}, DRMemoryBadRequestError),
        (401, {"detail": "no"}, DRMemoryServiceError),
        (404, {"detail": "no"}, DRMemoryNotFoundError),
        (409, {"detail": "no"}, DRMemoryConflictError),
        (409, {"detail": "Session version mismatch: 1, not 2"}, DRMemoryVersionConflictError),
        (413, {"detail": "no"}, DRMemoryServiceError),
        (422, {"detail": "no"}, DRMemoryValidationError),
        (422, {"detail": "Patch of incorrect version of event 3"}, DRMemoryVersionConflictError),
        (409, {"detail": "Patch of incorrect version of event 3"}, DRMemoryConflictError),
        (429, {"detail": "no"}, DRMemoryRateLimitError),
        (500, {"detail": "no"}, DRMemoryServiceError),
        (503, {"detail": "no"}, DRMemoryServiceError),
        (302, {"detail": "no"}, DRMemoryServiceError),
    ],
)
async def test_each_status_is_one_error(status: int, body: dict[str, str], error: type[DRMemoryServiceError]) -> None:
    with pytest.raises(DRMemoryServiceError) as raised:
        await connect(answering(status, body)).request("GET", "x/")
    assert type(raised.value) is error
    assert (raised.value.status_code, raised.value.detail, raised.value.payload) == (status, body["detail"], body)


async def test_the_errors_of_a_validation_are_told_with_their_places() -> None:
    detail = [{"loc": ["body", "participants"], "msg": "too few", "type": "value_error"}]
    with pytest.raises(DRMemoryValidationError, match=r"body\.participants: too few") as raised:
        await connect(answering(422, {"detail": detail})).request("GET", "x/")
    assert raised.value.payload == {"detail": detail}


@pytest.mark.parametrize(
    ("body", "headers", "existing_id", "location"),
    [
        ({"existingSessionId": "s1", "existingSessionUrl": "/s1/"}, {}, "s1", "/s1/"),
        ({"existingMemorySpaceId": "m1", "existingMemorySpaceUrl": "/m1/"}, {"Location": "/there/"}, "m1", "/there/"),
        ({}, {}, None, None),
    ],
)
async def test_a_taken_key_carries_what_has_it(
    body: dict[str, str], headers: dict[str, str], existing_id: str | None, location: str | None
) -> None:
    with pytest.raises(DRMemoryConflictError) as raised:
        await connect(answering(409, {"detail": "taken", **body}, headers)).request("POST", "new/", json={})
    assert (raised.value.existing_id, raised.value.location) == (existing_id, location)
    assert raised.value.existing_sequence_id is None


async def test_a_taken_key_of_an_event_carries_its_number() -> None:
    body = {"detail": "taken", "errorName": "EventDeduplicationConflict", "existingSequenceId": 7}
    with pytest.raises(DRMemoryConflictError) as raised:
        await connect(answering(409, body)).request("POST", "s/events/", json={})
    assert (raised.value.existing_sequence_id, raised.value.existing_id) == (7, None)


@pytest.mark.parametrize(
    ("retry_after", "seconds"),
    [
        ("30", 30),
        ("1.5", 2),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0),
        ("Fri, 01 Jan 99999 00:00:00 GMT", None),
        (None, None),
    ],
)
async def test_a_rate_limit_carries_the_seconds_to_wait(retry_after: str | None, seconds: int | None) -> None:
    """Field case 131."""
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    space = a_space(answering(429, {"detail": "slow down"}, headers))
    with pytest.raises(DRMemoryRateLimitError) as raised:
        await Note.list(space)
    assert raised.value.retry_after == seconds


@pytest.mark.parametrize(
    "cause",
    [
        httpx.ConnectTimeout("timed out"),
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("timed out"),
        httpx.PoolTimeout("no connection"),
        httpx.RemoteProtocolError("peer closed connection without sending complete message body"),
        httpx.ConnectError(str(ssl.SSLError("certificate verify failed"))),
    ],
)
async def test_no_answer_is_unavailable_with_its_cause_and_never_an_empty_list(cause: Exception) -> None:
    """Field cases 128 and 131."""
    space = a_space(failing(cause))
    for read in (
        Note.list(space),
        Note.get(space, "s"),
        Chat.get(space, chat_id="c"),
        DRMemorySpace.list(space.client),
        Chat.post(space, tenant="a", topic="b", chat_id="c"),
    ):
        with pytest.raises(DRMemoryUnavailableError) as raised:
            await read
        assert raised.value.__cause__ is cause
        assert raised.value.status_code is None


@pytest.mark.parametrize("body", [b'{"items": [{"id": "s', b"", b"<html></html>", b'{"items": null}', b"[]", b"{}"])
async def test_half_an_answer_is_unavailable_and_never_an_empty_list(body: bytes) -> None:
    """Field cases 128 and 131."""
    space = a_space(lambda request: httpx.Response(200, content=body))
    with pytest.raises(DRMemoryUnavailableError) as raised:
        await Note.list(space)
    assert isinstance(raised.value.__cause__, httpx.DecodingError)


async def test_a_store_that_is_down_is_an_error_and_creates_nothing() -> None:
    """Field case 128."""
    methods: list[str] = []

    def down(request: httpx.Request) -> httpx.Response:
        methods.append(request.method)
        return httpx.Response(503, json={"detail": "The store gives no answer"})

    with pytest.raises(DRMemoryServiceError) as raised:
        await Chat.get(a_space(down), chat_id="c")
    assert raised.value.status_code == 503
    assert not isinstance(raised.value, DRMemoryNotFoundError)
    assert methods == ["GET"]


async def test_nothing_is_sent_twice_on_its_own() -> None:
    """Field case 131: only the application knows whether a write may be repeated."""
    sent: list[str] = []

    def lose(request: httpx.Request) -> httpx.Response:
        sent.append(request.method)
        raise httpx.ReadTimeout("timed out")

    with pytest.raises(DRMemoryUnavailableError):
        await Note.post(a_space(lose), text="x")
    assert sent == ["POST"]


async def test_a_key_that_is_freed_between_conflict_and_read_is_taken_again() -> None:
    answers = iter(
        [
            httpx.Response(409, json={"detail": "taken", "existingMemorySpaceId": "old"}),
            httpx.Response(404, json={"detail": "gone"}),
            httpx.Response(201, json={**SPACE, "memorySpaceId": "new"}),
        ]
    )
    client = connect(lambda request: next(answers))
    assert (await DRMemorySpace.post(client, deduplication_key="k")).id == "new"


async def test_a_conflict_that_names_nothing_is_raised() -> None:
    with pytest.raises(DRMemoryConflictError):
        await DRMemorySpace.post(connect(answering(409, {"detail": "taken"})), deduplication_key="k")


async def test_a_conflict_whose_owner_is_never_there_ends() -> None:
    requests: list[str] = []

    def never(request: httpx.Request) -> httpx.Response:
        requests.append(request.method)
        if request.method == "GET":
            return httpx.Response(404, json={"detail": "gone"})
        return httpx.Response(409, json={"detail": "taken", "existingMemorySpaceId": "ghost"})

    with pytest.raises(DRMemoryConflictError) as raised:
        await DRMemorySpace.post(connect(never), deduplication_key="k")
    assert raised.value.existing_id == "ghost"
    assert requests == ["POST", "GET"] * 3


async def test_principals_may_share_an_http_client() -> None:
    seen: list[tuple[str, str | None]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append((request.headers["Authorization"], request.headers.get("Cookie")))
        return httpx.Response(200, json={}, headers={"Set-Cookie": "session=alice; Path=/"})

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as shared:
        alice, bob = (
            DRMemoryServiceClient(endpoint="http://t.test", api_token=name, http_client=shared) for name in ("a", "b")
        )
        async with alice, bob:
            await asyncio.gather(alice.request("GET", "x/"), bob.request("GET", "x/"))
            await bob.request("GET", "x/", extra_headers={"Authorization": "Bearer a"})
        assert not shared.is_closed
    assert sorted(seen) == [("Bearer a", None), ("Bearer b", None), ("Bearer b", None)]


async def test_a_client_of_its_own_is_closed_with_the_context_and_keeps_no_cookie() -> None:
    async with DRMemoryServiceClient(endpoint="http://127.0.0.1:1/api/v2", api_token="t", timeout=5) as client:
        assert client.base_url == "http://127.0.0.1:1/api/v2/memory"
        with pytest.raises(DRMemoryUnavailableError) as raised:
            await client.request("GET", "")
        assert isinstance(raised.value.__cause__, httpx.ConnectError)
    with pytest.raises(RuntimeError, match="closed"):
        await client.request("GET", "")


async def test_a_request_of_ones_own_is_sent_as_it_is() -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={"ok": True})

    response = await connect(answer).request(
        "PATCH",
        "a/sessions/b/",
        params={"x": "a+b", "y": None, "z": [1, 2]},
        json={"metadata": {"a": "\ud83d"}},
        extra_headers={"If-Match": "3"},
    )
    assert response.json() == {"ok": True}
    (request,) = seen
    assert str(request.url) == "http://t.test/api/v2/memory/a/sessions/b/?x=a%2Bb&z=1&z=2"
    assert (request.headers["If-Match"], request.headers["Content-Type"]) == ("3", "application/json")
    assert request.content == b'{"metadata":{"a":"\\ud83d"}}'


async def test_one_bad_row_hides_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """Field case 134."""
    bodies: list[Any] = [
        {"content": "x"},
        {"content": "x", "extra": 1},
        {"content": 5},
        {"score": 1},
        None,
        {"score": "much"},
    ]
    events = [
        {
            "sequenceId": number,
            "body": body,
            "eventType": "message",
            "emitterType": "agent",
            "emitterId": None,
            "createdAt": "2026-11-29T12:00:00.123456Z",
        }
        for number, body in enumerate(bodies, 1)
    ]
    session = {
        "id": "s",
        "participants": ["p"],
        "description": "//chat/a/b/",
        "metadata": None,
        "createdAt": "never",
        "lifecycleStrategies": [],
        "version": None,
        "deduplicationKey": "c",
    }

    def answer(request: httpx.Request) -> httpx.Response:
        items = events if request.url.path.endswith("/events/") else [session]
        return httpx.Response(200, content=json.dumps({"items": items, "total": len(items)}))

    (chat,) = await Chat.list(a_space(answer))
    assert (chat.id, chat.version, chat.rev, chat.title, chat.created_at) == ("s", None, None, "", "never")
    messages = await ChatMessage.list(chat)
    assert [(message.content, message.score) for message in messages] == [
        ("x", 0.0),
        ("x", 0.0),
        (5, 0.0),
        (None, 1.0),
        (None, 0.0),
        (None, "much"),
    ]
    assert "event 3 of session s of ChatMessage: 'content' holds a value of type int, which does not fit" in caplog.text
