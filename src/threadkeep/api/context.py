"""Around every request: an id, the limit on its body, an answer even where something breaks, and what is told of it.

Pure ASGI: nothing is buffered here, so that streams pass through.
"""

import itertools
import logging
import re
import secrets
import time
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from threadkeep import errors
from threadkeep.api import errors as error_table
from threadkeep.api import health
from threadkeep.services.container import Container
from threadkeep.telemetry import metrics
from threadkeep.telemetry.context import request_id as current_request

if TYPE_CHECKING:
    from threadkeep.telemetry.tracing import RequestSpan

PRINCIPAL = "threadkeep.principal"
"""Where an in-process caller puts the principal that it vouches for; no network client reaches this."""
FENCE = "threadkeep.fence"
"""Where it puts the fence of the run in whose name it calls."""
TOKEN_ID = "threadkeep.token_id"
"""Where the id of the caller's token stands, once it is known."""

_log = logging.getLogger("threadkeep.requests")
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")


class RequestContext:
    """Gives each response an `X-Request-ID`: the caller's own where it is a plain one, else a new one.

    Routes are found by the path as it was sent, in which a slash inside an id is still `%2F`.
    A call from inside the process is part of the request that makes it: it has that one's id, and is not told of.
    """

    def __init__(self, app: ASGIApp, *, services: Container) -> None:
        self._app = app
        self._limit = services.settings.max_request_bytes
        self._access_log = services.access_log
        self._tracing = services.tracing
        self._process = secrets.token_hex(8)
        self._numbers = itertools.count(1)
        self._tellers: dict[tuple[str, str], metrics.Tell] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = announced = b""
        for name, value in scope["headers"]:
            if name == b"x-request-id":
                given = value
            elif name == b"content-length":
                announced = value
        raw_path = scope.get("raw_path")
        scope["path"] = raw_path.decode("ascii", "replace") if raw_path else quote(scope["path"])
        inside = PRINCIPAL in scope
        request_id = self._name(given, current_request.get() if inside else "")
        before = current_request.set(request_id)
        exchange = _Exchange(send, request_id)
        if not announced.isdigit():
            receive = self._counted(receive)
        try:
            if inside:
                await self._answer(scope, receive, exchange, announced)
            elif self._tracing is None:
                await self._answer_and_tell(scope, receive, exchange, announced, None)
            else:
                with self._tracing.request(_method_of(scope), scope["scheme"], scope["headers"]) as span:
                    await self._answer_and_tell(scope, receive, exchange, announced, span)
        finally:
            current_request.reset(before)

    async def _answer_and_tell(
        self, scope: Scope, receive: Receive, exchange: "_Exchange", announced: bytes, span: "RequestSpan | None"
    ) -> None:
        metrics.requests_in_flight.inc()
        started = time.perf_counter()
        try:
            await self._answer(scope, receive, exchange, announced)
        finally:
            metrics.requests_in_flight.dec()
            self._tell(scope, exchange, time.perf_counter() - started, span)

    async def _answer(self, scope: Scope, receive: Receive, exchange: "_Exchange", announced: bytes) -> None:
        try:
            # The server sees to it that no more comes than was announced.
            if announced.isdigit() and int(announced) > self._limit:
                raise self._too_large()
            await self._app(scope, receive, exchange.send)
        except errors.ThreadkeepError as error:
            if exchange.status:
                raise
            await error_table.answer(error)(scope, receive, exchange.send)
        except Exception:
            _log.exception(
                "request failed id=%s method=%s route=%s", exchange.request_id, scope["method"], _route_of(scope)
            )
            if exchange.status:
                raise
            detail = f"Internal error; see the log for {exchange.request_id}"
            await error_table.json_response({"detail": detail}, 500)(scope, receive, exchange.send)

    def _tell(self, scope: Scope, exchange: "_Exchange", taken: float, span: "RequestSpan | None") -> None:
        method, route = _method_of(scope), _route_of(scope)
        tell = self._tellers.get((method, route))
        if tell is None:
            tell = self._tellers[method, route] = metrics.teller(method, route)
        tell(exchange.status, taken)
        token_id = scope.get(TOKEN_ID)
        if span is not None:
            span.end(route, exchange.status, exchange.request_id, token_id)
        # A probe that finds all well would only be in the way of what is worth reading.
        if self._access_log and not (route in health.PATHS and exchange.status == 200):
            self._access_log.tell(exchange.request_id, method, route, exchange.status, taken, token_id)

    def _name(self, given: bytes, outer: str) -> str:
        if _REQUEST_ID.fullmatch(given):
            return given.decode()
        return outer or f"{self._process}-{next(self._numbers)}"

    def _counted(self, receive: Receive) -> Receive:
        received = 0

        async def receive_counted() -> Message:
            nonlocal received
            message = await receive()
            if message["type"] == "http.request":
                received += len(message.get("body", b""))
                if received > self._limit:
                    raise self._too_large()
            return message

        return receive_counted

    def _too_large(self) -> errors.TooLarge:
        return errors.TooLarge(f"The request is too large; the limit is {self._limit:,} bytes")


def _route_of(scope: Scope) -> str:
    """The route as the code has it, and never the path as it was sent."""
    return getattr(scope.get("route"), "path", metrics.NO_ROUTE)


def _method_of(scope: Scope) -> str:
    """The method, where it is one that there is."""
    return scope["method"] if scope["method"] in metrics.METHODS else "other"


class _Exchange:
    """A request that is being answered: its id, and the status once one was sent."""

    __slots__ = ("_send", "request_id", "status")

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self.request_id = request_id
        self.status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", ()), (b"x-request-id", self.request_id.encode())]
        await self._send(message)
