"""The connection of the synchronous SDK: which client is used, and what its failures are."""

from collections.abc import Callable, Iterator

import httpx
import pytest

import threadkeep
from threadkeep.errors import ClientError, MemorySessionDeduplicationError, MemorySpaceDeduplicationError, ServerError
from threadkeep.models import client as connection
from threadkeep.models.memory import MemorySpace
from threadkeep.transport.target import ENDPOINT_VARIABLES, TOKEN_VARIABLES


@pytest.fixture(autouse=True)
def no_connection(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in (*ENDPOINT_VARIABLES, *TOKEN_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(connection, "_default", None)
    yield
    if connection._default is not None:
        connection._default.close()


def connect(handler: Callable[[httpx.Request], httpx.Response], token: str = "t") -> threadkeep.Client:
    http_client = httpx.Client(transport=httpx.MockTransport(handler))
    return threadkeep.Client("http://t.test/api/v2", token, http_client=http_client)


def space_of(request: httpx.Request) -> httpx.Response:
    row = {
        "memorySpaceId": request.headers["Authorization"],
        "userId": "u",
        "tenantId": "t",
        "description": None,
        "llmModelName": None,
        "llmBaseUrl": None,
        "customInstructions": None,
        "createdAt": "2026-11-29T12:00:00.123456Z",
        "deduplicationKey": None,
    }
    return httpx.Response(200, json=row)


def test_without_variables_the_first_call_names_them() -> None:
    with pytest.raises(ValueError, match="THREADKEEP_ENDPOINT or DATAROBOT_ENDPOINT"):
        MemorySpace.list()


def test_the_variables_are_read_at_the_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THREADKEEP_ENDPOINT", "http://127.0.0.1:1/api/v2")
    monkeypatch.setenv("THREADKEEP_API_TOKEN", "t")
    with pytest.raises(ServerError, match=r"No answer to GET http://127\.0\.0\.1:1/api/v2/memory/"):
        MemorySpace.list()
    assert connection.default_client() is connection.default_client()


def test_the_latest_client_is_the_default_and_objects_keep_their_own() -> None:
    connect(space_of, "alice")
    of_alice = MemorySpace.get("x")
    with connect(space_of, "bob"):
        assert MemorySpace.get("x").id == "Bearer bob"
        of_alice.update(description="x")
    assert of_alice._connection()._target.token == "alice"
    with pytest.raises(ValueError, match="THREADKEEP_ENDPOINT"):
        MemorySpace.get("x")


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (401, {"detail": "who?"}, ClientError),
        (404, {"detail": "gone"}, ClientError),
        (409, {"detail": "other"}, ClientError),
        (409, {"detail": "taken", "existingMemorySpaceId": "m"}, MemorySpaceDeduplicationError),
        (409, {"detail": "taken", "existingSessionId": "s"}, MemorySessionDeduplicationError),
        (429, {"detail": "slow down"}, ClientError),
        (500, {"detail": "broken"}, ServerError),
        (503, {"detail": "down"}, ServerError),
    ],
)
def test_each_status_is_one_error(status: int, body: dict[str, str], error: type[ClientError | ServerError]) -> None:
    connect(lambda request: httpx.Response(status, json=body))
    with pytest.raises((ClientError, ServerError), match=body["detail"]) as raised:
        MemorySpace.list()
    assert type(raised.value) is error
    assert (raised.value.status_code, raised.value.json) == (status, body)


def test_an_error_page_of_a_proxy_has_no_json() -> None:
    connect(lambda request: httpx.Response(403, text="<h1>Forbidden</h1>"))
    with pytest.raises(ClientError, match="Forbidden") as raised:
        MemorySpace.list()
    assert raised.value.json == {}


@pytest.mark.parametrize(
    "cause", [httpx.ConnectTimeout("timed out"), httpx.ConnectError("refused"), httpx.RemoteProtocolError("cut")]
)
def test_no_answer_is_a_server_error_with_its_cause(cause: Exception) -> None:
    def fail(request: httpx.Request) -> httpx.Response:
        raise cause

    connect(fail)
    with pytest.raises(ServerError) as raised:
        MemorySpace.list()
    assert (raised.value.__cause__, raised.value.status_code) == (cause, None)


@pytest.mark.parametrize("content", [b'{"items": [{"memory', b"", b"{}", b"[]"])
def test_half_an_answer_is_a_server_error_and_never_an_empty_list(content: bytes) -> None:
    connect(lambda request: httpx.Response(200, content=content))
    with pytest.raises(ServerError):
        MemorySpace.list()


def test_an_unknown_name_of_the_package_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'Nope'"):
        _ = threadkeep.Nope
    assert threadkeep.Client is connection.Client
