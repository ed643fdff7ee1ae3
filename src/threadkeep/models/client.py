"""The connection of the synchronous SDK: explicit or default, every failure as one of `threadkeep.errors`."""

import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from threadkeep.errors import (
    ClientError,
    MemoryEventDeduplicationError,
    MemoryEventLookupError,
    MemorySessionDeduplicationError,
    MemorySpaceDeduplicationError,
    ServerError,
)
from threadkeep.transport.answers import read_error
from threadkeep.transport.calls import Call
from threadkeep.transport.senders import refuse_cookies, send
from threadkeep.transport.target import find_target

T = TypeVar("T")
_lock = threading.Lock()
_default: "Client | None" = None


class Client:
    """A connection to a Memory Service, and from its making on the one that `threadkeep.models` uses by default.

    Without one, the first call makes it from the environment. Objects keep the client that they were read with. A
    client may be shared by threads.

    ```python
    threadkeep.Client(endpoint="http://127.0.0.1:8421/api/v2", token="tk-...")
    space = MemorySpace.create(description="Chats of my app")
    ```

    Args:
        endpoint: URL of the API, such as `http://127.0.0.1:8421/api/v2`. Without it, the variables
            `THREADKEEP_ENDPOINT`, then `DATAROBOT_ENDPOINT`.
        token: The caller's token. Without it, `THREADKEEP_API_TOKEN`, then `DATAROBOT_API_TOKEN`.
        timeout: Seconds to wait for a connection, for each read and each write.
        http_client: An httpx client to send with; it stays yours and its own timeouts hold.

    Raises:
        ValueError: There is no endpoint or no token, or one that cannot be used.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        token: str | None = None,
        *,
        timeout: float = 30.0,
        http_client: httpx.Client | None = None,
    ) -> None:
        self._target = find_target(endpoint, token)
        self._owned = http_client is None
        if http_client is None:
            http_client = httpx.Client(timeout=timeout)
            refuse_cookies(http_client)
        self._http = http_client
        _make_default(self)

    @property
    def base_url(self) -> str:
        """The URL of the Memory Service, without a slash at its end."""
        return self._target.base_url

    def send(self, call: Call[T]) -> T:
        """Send a call of `threadkeep.transport.calls` and read its answer.

        Raises:
            ClientError: The service refused it (4xx).
            ServerError: The service failed (5xx), or gave no answer that can be read (the httpx error is the cause).
        """
        try:
            response = send(self._http, self._target, call)
            if response.is_success:
                return call.read(response)
        except httpx.HTTPError as error:
            what = str(error) or type(error).__name__
            raise ServerError(f"No answer to {call.method} {self.base_url}/{call.path}: {what}") from error
        raise _error_of(response)

    def close(self) -> None:
        """Close the connections, unless they belong to an injected client; later calls make a new default."""
        if self._owned:
            self._http.close()
        _drop_default(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client(endpoint={self.base_url.removesuffix('/memory')!r})"


def default_client() -> Client:
    """The latest client made, else a new one from the environment.

    Raises ValueError, naming the variables, where they are not set.
    """
    return _default or Client()


def _make_default(client: Client) -> None:
    global _default
    with _lock:
        _default = client


def _drop_default(client: Client) -> None:
    global _default
    with _lock:
        if _default is client:
            _default = None


def _error_of(response: httpx.Response) -> ClientError | ServerError:
    status = response.status_code
    detail, payload = read_error(response)
    json: Mapping[str, Any] = payload if isinstance(payload, Mapping) else {}
    message = f"{detail} (HTTP {status})"
    if not 400 <= status < 500:
        return ServerError(message, status, json)
    if status == 409 and "existingMemorySpaceId" in json:
        return MemorySpaceDeduplicationError(message, status, json)
    if status == 409 and "existingSessionId" in json and "existingSequenceId" in json:
        return MemoryEventLookupError(message, status, json)
    if status == 409 and "existingSessionId" in json:
        return MemorySessionDeduplicationError(message, status, json)
    if status == 409 and "existingSequenceId" in json:
        return MemoryEventDeduplicationError(message, status, json)
    return ClientError(message, status, json)
