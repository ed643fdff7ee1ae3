"""Around every request: an id, the limit on its body, and an answer even where something breaks.

Pure ASGI: nothing is buffered here, so that streams pass through.
"""

import logging
import re
import time

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from threadkeep import errors, ids
from threadkeep.api import errors as error_table

_log = logging.getLogger("threadkeep.requests")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")


class RequestContext:
    """Gives each response an `X-Request-ID`: the caller's own where it is a plain one, else a new one."""

    def __init__(self, app: ASGIApp, *, max_request_bytes: int) -> None:
        self._app = app
        self._limit = max_request_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        request_id = given if _REQUEST_ID.fullmatch(given) else ids.new_id()
        started = time.perf_counter()
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-ID"] = request_id
            await send(message)

        try:
            announced = headers.get("content-length", "")
            if announced.isdecimal() and int(announced) > self._limit:
                raise self._too_large()
            await self._app(scope, self._counted(receive), send_with_id)
        except errors.ThreadkeepError as error:
            if status:
                raise
            await error_table.answer(error)(scope, receive, send_with_id)
        except Exception:
            _log.exception("request failed id=%s method=%s path=%s", request_id, scope["method"], scope["path"])
            if status:
                raise
            broken = error_table.json_response({"detail": f"Internal error; see the log for {request_id}"}, 500)
            await broken(scope, receive, send_with_id)
        finally:
            if _log.isEnabledFor(logging.INFO):
                taken = (time.perf_counter() - started) * 1000
                _log.info(
                    "id=%s method=%s path=%s status=%s ms=%.1f",
                    request_id,
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
