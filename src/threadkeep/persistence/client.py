"""The ORM's connection to a Memory Service: one principal, one httpx client, every failure in the ORM's own errors."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from threadkeep.persistence.errors import DRMemoryServiceError, DRMemoryUnavailableError, error_of
from threadkeep.transport import calls
from threadkeep.transport.answers import read_nothing
from threadkeep.transport.calls import Call, build_params
from threadkeep.transport.senders import refuse_cookies, send_async
from threadkeep.transport.target import Target, find_target

T = TypeVar("T")
_NO_SUCH_ROUTE = (400, 401, 403, 404, 405, 410, 501)
"""How a service answers that knows nothing of the version route, or keeps it from callers of this one."""


class DRMemoryServiceClient:
    """An async connection to a Memory Service, used as a context manager.

    ```python
    async with DRMemoryServiceClient(endpoint="http://127.0.0.1:8421/api/v2", api_token="tk-...") as client:
        space = await DRMemorySpace.post(client, deduplication_key="my-app")
    ```

    Args:
        endpoint: URL of the API, such as `http://127.0.0.1:8421/api/v2`. Without it, the variables
            `THREADKEEP_ENDPOINT`, then `DATAROBOT_ENDPOINT`.
        api_token: The caller's token. Without it, `THREADKEEP_API_TOKEN`, then `DATAROBOT_API_TOKEN`.
        base_path: Where the Memory Service lives under the endpoint.
        http_client: An httpx client to send with. It stays yours: it is not closed here, and its own timeouts hold.
            It may serve many principals at once: each request carries its own `Authorization`, and no cookie is kept
            or sent.
        timeout: Seconds to wait for a connection, for each read and each write. Of no effect with `http_client`.

    Raises:
        ValueError: There is no endpoint or no token, or one that cannot be used.
    """

    def __init__(
        self,
        *,
        endpoint: str | None = None,
        api_token: str | None = None,
        base_path: str = "memory",
        http_client: httpx.AsyncClient | None = None,
        timeout: float = 30.0,
    ) -> None:
        self._target = find_target(endpoint, api_token, base_path)
        self._owned = http_client is None
        if http_client is None:
            http_client = httpx.AsyncClient(timeout=timeout)
            refuse_cookies(http_client)
        self._http = http_client
        self._features: frozenset[str] | None = None

    @property
    def base_url(self) -> str:
        """The URL of the Memory Service, without a slash at its end."""
        return self._target.base_url

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        json: Any = None,
        extra_headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Send one request and return its successful answer.

        Args:
            method: `GET`, `POST`, `PATCH` or `DELETE`.
            path: Relative to `base_url`, already percent-encoded, with a slash at its end: `"new/"`.
            params: Query parameters; `None` is left out, a list repeats its name.
            json: The body; `None` sends none.
            extra_headers: Further headers, such as `If-Match`. `Authorization` is always the client's own.

        Raises:
            DRMemoryServiceError: One of its children, by the status of the answer.
            DRMemoryUnavailableError: There was no answer.
        """
        call = Call(method, path, build_params(params or {}), json, extra_headers or {}, read=read_nothing)
        return await self._answer(call)

    async def send(self, call: Call[T]) -> T:
        """Send a call of `threadkeep.transport.calls` and read its answer.

        Raises:
            DRMemoryServiceError: As `request` does; an answer that cannot be read counts as none.
        """
        response = await self._answer(call)
        try:
            return call.read(response)
        except httpx.HTTPError as error:
            raise DRMemoryUnavailableError(str(error), response.status_code) from error

    async def features(self) -> frozenset[str]:
        """What the service serves beyond the hosted contract, such as `lookupKeys`. It is asked once.

        Raises:
            DRMemoryServiceError: The service fails, or gives no answer. One that knows no such question has none.
        """
        if self._features is None:
            named: Any = None
            try:
                named = (
                    calls.get_version().read(await self._answer(calls.get_version(), self._target.root)).get("features")
                )
            except DRMemoryServiceError as error:
                if error.status_code not in _NO_SUCH_ROUTE:
                    raise
            except httpx.HTTPError:
                # Whatever answers there, it says nothing of features.
                named = None
            self._features = frozenset(named if isinstance(named, list) else ())
        return self._features

    async def aclose(self) -> None:
        """Close the connections, unless they belong to an injected client."""
        if self._owned:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _answer(self, call: Call[Any], target: Target | None = None) -> httpx.Response:
        target = target or self._target
        try:
            response = await send_async(self._http, target, call)
        except httpx.HTTPError as error:
            what = str(error) or type(error).__name__
            raise DRMemoryUnavailableError(
                f"No answer to {call.method} {target.base_url}/{call.path}: {what}"
            ) from error
        if not response.is_success:
            raise error_of(response)
        return response
