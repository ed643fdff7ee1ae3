"""The one table from error to status and body."""

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from threadkeep import errors
from threadkeep.api.json import dump

STATUS: dict[type[errors.ThreadkeepError], int] = {
    errors.Invalid: 422,
    errors.BadRequest: 400,
    errors.Unauthorized: 401,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.Conflict: 409,
    errors.LeaseLost: 410,
    errors.NotOffered: 501,
    errors.TooLarge: 413,
    errors.RateLimited: 429,
    errors.Unavailable: 503,
}
_CONFLICTS = {
    "memory space": ("MemorySpaceDeduplicationConflict", "existingMemorySpaceId", "existingMemorySpaceUrl"),
    "session": ("SessionDeduplicationConflict", "existingSessionId", "existingSessionUrl"),
}


def plain_answer(error: errors.Invalid) -> Response:
    """The 400 of a wire whose clients read no list of rules: the place and the rule in one sentence."""
    place = ".".join(map(str, error.loc))
    return json_response({"detail": f"{place}: {error.message}" if place else error.message}, 400)


def answer(error: errors.ThreadkeepError, url: str = "") -> Response:
    """The response for an error; `url` is the address of the collection that a deduplication conflict is about."""
    status = next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)
    body: dict[str, Any] = {"detail": _detail(error)}
    headers: dict[str, str] = {}
    if isinstance(error, errors.DeduplicationConflict):
        name, id_field, url_field = _CONFLICTS[error.noun]
        location = f"{url}{error.existing_id}/"
        body |= {"errorName": name, id_field: error.existing_id, url_field: location}
        headers["Location"] = location
    if isinstance(error, errors.EventDeduplicationConflict):
        body |= {"errorName": "EventDeduplicationConflict", "existingSequenceId": error.existing_sequence_id}
    if isinstance(error, errors.EventLookupConflict):
        body |= {
            "errorName": "EventLookupConflict",
            "existingSessionId": error.existing_session_id,
            "existingSequenceId": error.existing_sequence_id,
        }
    if isinstance(error, errors.RunActive):
        body |= {"errorName": "RunActive", "activeRunId": error.run_id}
    if isinstance(error, errors.InterruptsOpen):
        body |= {"errorName": "InterruptsOpen", "openInterrupts": error.interrupt_ids}
    if isinstance(error, errors.InterruptAnswered):
        body |= {"errorName": "InterruptAnswered", "interruptId": error.interrupt_id, "runId": error.run_id}
    if isinstance(error, errors.InterruptExpired):
        body |= {"errorName": "InterruptExpired", "interruptId": error.interrupt_id}
    if isinstance(error, errors.StrategyClosed):
        body["errorName"] = "LifecycleStrategyClosed"
    if isinstance(error, errors.RateLimited):
        headers["Retry-After"] = str(error.retry_after)
    if isinstance(error, errors.Unauthorized):
        headers["WWW-Authenticate"] = "Bearer"
    return json_response(body, status, headers)


def json_response(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return _JSONResponse(dump(body), status, headers)


class _JSONResponse(Response):
    """A response whose headers need no working out."""

    def init_headers(self, headers: Mapping[str, str] | None = None) -> None:
        self.raw_headers = [
            (b"content-length", b"%d" % len(self.body)),
            (b"content-type", b"application/json"),
            *((name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in (headers or {}).items()),
        ]


def _detail(error: errors.ThreadkeepError) -> Any:
    if isinstance(error, errors.StaleEvent) or not isinstance(error, errors.Invalid):
        return str(error)
    return [{"loc": list(error.loc), "msg": error.message, "type": error.kind}]
