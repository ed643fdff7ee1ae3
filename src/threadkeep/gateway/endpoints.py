"""What every route of the gateway has around it: who asks, whose history that is, and what an error is answered as."""

import logging
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from threadkeep.api import errors as error_table
from threadkeep.api.errors import json_response
from threadkeep.api.routing import authenticate, parse_integer
from threadkeep.api.shell import invalid, query_params
from threadkeep.domain import limits
from threadkeep.domain.principal import Principal
from threadkeep.errors import Invalid, ThreadkeepError
from threadkeep.gateway.histories import Histories, History
from threadkeep.persistence.errors import DRMemoryServiceError
from threadkeep.services.container import Container

PREFIX = "/agui"

_log = logging.getLogger("threadkeep.gateway")

Handler = Callable[[Request, History], Awaitable[Response]]
"""What a route does with a request of a user whose history is known."""

Identify = Callable[[Request], Awaitable[Principal]]
"""Who sends a request. Raises Unauthorized."""


class Endpoints:
    """Makes routes of handlers, below `prefix`. Users are told by our tokens, or by what `identify` says."""

    def __init__(
        self, container: Container, histories: Histories, *, prefix: str = PREFIX, identify: Identify | None = None
    ) -> None:
        self._histories = histories
        self._prefix = prefix
        self._identify = identify or (lambda request: authenticate(request, container))

    def route(self, path: str, /, **by_method: Handler) -> Route:
        """The route at `path` below the gateway's prefix, with a handler for each method that it takes."""

        async def endpoint(request: Request) -> Response:
            return await self._answer(request, by_method["GET" if request.method == "HEAD" else request.method])

        return Route(self._prefix + path, endpoint, methods=list(by_method))

    async def _answer(self, request: Request, handler: Handler) -> Response:
        try:
            principal = await self._identify(request)
            return await handler(request, await self._histories.of(principal))
        except Invalid as error:
            return invalid(error, "query" if request.method == "GET" else "body")
        except ThreadkeepError as error:
            return error_table.answer(error)
        except DRMemoryServiceError as error:
            _log.warning("the store refused a call of the gateway: %s", error)
            return json_response({"detail": str(error)}, error.status_code or 503)


def page_offset(request: Request) -> int:
    """How many items come before the page that the `cursor` of the query asks for. Raises Invalid."""
    text = query_params(request).get("cursor", "0")
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise Invalid(f"{text!r} is no cursor of this list", ["query", "cursor"])
    return int(text)


def page_limit(request: Request) -> int:
    """How many items the query asks for. Raises Invalid."""
    text = query_params(request).get("limit")
    return limits.PAGE if text is None else parse_integer(text, "query", "limit")
