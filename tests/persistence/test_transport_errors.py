"""Field case 131: what both clients make of a service that asks to wait, hangs, or breaks off."""

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from threadkeep import clock
from threadkeep.errors import ClientError, ServerError
from threadkeep.models.client import Client
from threadkeep.models.memory import MemorySpace
from threadkeep.persistence import (
    DRMemoryRateLimitError,
    DRMemoryServiceClient,
    DRMemorySpace,
    DRMemoryUnavailableError,
)

CASE = json.loads((Path(__file__).parent.parent / "cases/131-rate-limit-and-transport-errors.json").read_text())
URL = "http://threadkeep.test/api/v2"
NOW = clock.parse_timestamp("2026-10-21T07:27:30.25Z")
# What each reply of the case means: the seconds to wait, or that there was no answer that can be read.
UNAVAILABLE = "unavailable"
MEANING: dict[str, int | str | None] = {
    "429 Retry-After: 30": 30,
    "429 Retry-After: 1.5": 2,
    "429 Retry-After: Wed, 21 Oct 2026 07:28:00 GMT": 30,
    "429 Retry-After: Fri, 01 Jan 99999 00:00:00 GMT": None,
    "429": None,
    "connect timeout": UNAVAILABLE,
    "200 with half a JSON body": UNAVAILABLE,
}
Handler = Callable[[httpx.Request], httpx.Response]


def replying(reply: str, sent: list[httpx.Request]) -> Handler:
    """A service that answers every call with this reply."""
    status, _, retry_after = reply.partition(" Retry-After: ")

    def handle(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        if reply == "connect timeout":
            raise httpx.ConnectTimeout("nobody answers", request=request)
        if reply.startswith("200"):
            return httpx.Response(200, content=b'{"memorySpaceId": "0')
        headers = {"Retry-After": retry_after} if retry_after else {}
        return httpx.Response(int(status), json={"detail": "Too many requests"}, headers=headers)

    return handle


def test_the_case_is_known_whole() -> None:
    assert list(MEANING) == CASE["input"]["replies"]


@pytest.mark.parametrize("reply", CASE["input"]["replies"])
async def test_the_orm_raises_a_typed_error_with_its_cause_and_sends_a_call_once(
    reply: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "now", lambda: NOW)
    sent: list[httpx.Request] = []
    async with (
        httpx.AsyncClient(transport=httpx.MockTransport(replying(reply, sent))) as http,
        DRMemoryServiceClient(endpoint=URL, api_token="t", http_client=http) as client,
    ):
        with pytest.raises((DRMemoryRateLimitError, DRMemoryUnavailableError)) as raised:
            await DRMemorySpace.post(client, description="no key of its own")

    assert len(sent) == 1, "a call without a key might be done twice"
    error = raised.value
    if MEANING[reply] == UNAVAILABLE:
        assert isinstance(error, DRMemoryUnavailableError)
        assert isinstance(error.__cause__, httpx.HTTPError)
    else:
        assert isinstance(error, DRMemoryRateLimitError)
        assert (error.status_code, error.retry_after) == (429, MEANING[reply])


@pytest.mark.parametrize("reply", CASE["input"]["replies"])
def test_the_sdk_raises_an_error_of_its_own_and_sends_a_call_once(reply: str) -> None:
    sent: list[httpx.Request] = []
    with (
        httpx.Client(transport=httpx.MockTransport(replying(reply, sent))) as http,
        Client(endpoint=URL, token="t", http_client=http),
        pytest.raises((ClientError, ServerError)) as raised,
    ):
        MemorySpace.create(description="no key of its own")

    assert len(sent) == 1
    error = raised.value
    if MEANING[reply] == UNAVAILABLE:
        assert isinstance(error, ServerError)
        assert isinstance(error.__cause__, httpx.HTTPError)
    else:
        assert isinstance(error, ClientError)
        assert error.status_code == 429
