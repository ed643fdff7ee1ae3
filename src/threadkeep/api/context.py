"""Around every request: an id, the limit on its body, and an answer even where something breaks.

Pure ASGI: nothing is buffered here, so that streams pass through.
"""

import itertools
import logging
import re
import secrets
import time
from urllib.parse import quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from threadkeep import errors
from threadkeep.api import errors as error_table

_log = logging.getLogger("threadkeep.requests")
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")


class RequestContext:
    """Gives each response an `X-Request-ID`: the caller's own where it is a plain one, else a new one.

    Routes are found by the path as it was sent, in which a slash inside an id is still `%2F`.
    """

    def __init__(self, app: ASGIApp, *, max_request_bytes: int) -> None:
        self._app = app
        self._limit = max_request_bytes
        self._process = secrets.token_hex(8)
        self._numbers = itertools.count(1)

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
        request_id = given if _REQUEST_ID.fullmatch(given) else b"%s-%d" % (self._process.encode(), next(self._numbers))
        raw_path = scope.get("raw_path")
        scope["path"] = raw_path.decode("ascii", "replace") if raw_path else quote(scope["path"])
        started = time.perf_counter()
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", request_id)]
            await send(message)

        try:
            if announced.isdigit():
                # The server sees to it that no more comes than was announced.
                if int(announced) > self._limit:
                    raise self._too_large()
            else:
                receive = self._counted(receive)
            await self._app(scope, receive, send_with_id)
        except errors.ThreadkeepError as error:
            if status:
                raise
            await error_table.answer(error)(scope, receive, send_with_id)
        except Exception:
            named = request_id.decode()
            _log.exception("request failed id=%s method=%s path=%s", named, scope["method"], scope["path"])
            if status:
                raise
            broken = error_table.json_response({"detail": f"Internal error; see the log for {named}"}, 500)
            await broken(scope, receive, send_with_id)
        finally:
            if _log.isEnabledFor(logging.INFO):
                taken = (time.perf_counter() - started) * 1000
                _log.info(
                    "id=%s method=%s path=%s status=%s ms=%.1f",
                    request_id.decode(),
                    scope["method"],
                    scope["path"],
                    status,
                    taken,
                )

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
