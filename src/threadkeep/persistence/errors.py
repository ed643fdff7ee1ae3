"""What the ORM raises, and the one place where an answer of the service becomes an error.

DRMemoryServiceError             anything the service refuses or fails at (`detail`, `status_code`, `payload`)
├── DRMemoryNotFoundError        404: it is not there, or it belongs to somebody else
├── DRMemoryBadRequestError      400: well-formed, but at odds with what is stored
├── DRMemoryValidationError      422: a value breaks a rule of the service
├── DRMemoryConflictError        409: the deduplication key is taken (`existing_id`, `location`, or the event's number)
├── DRMemoryVersionConflictError 409 of a session, 422 of an event: it has changed since it was read
├── DRMemoryRateLimitError       429: too many requests (`retry_after` in seconds)
└── DRMemoryUnavailableError     no answer, or none that can be read; the httpx error is its cause
"""

from collections.abc import Mapping
from typing import Any

import httpx

from threadkeep import clock
from threadkeep.errors import ThreadkeepError
from threadkeep.transport.answers import parse_retry_after, read_error

_STALE_SESSION = "Session version mismatch"
_STALE_EVENT = "Patch of incorrect version of event"


class DRMemoryServiceError(ThreadkeepError):
    """The service refused a call or failed at it.

    `detail` is the service's own text, `status_code` the HTTP status (`None` without an answer), `payload` the decoded
    body of the answer (`None` where it was no JSON).
    """

    def __init__(self, detail: str, status_code: int | None = None, payload: Any = None) -> None:
        super().__init__(detail if status_code is None else f"{detail} (HTTP {status_code})")
        self.detail = detail
        self.status_code = status_code
        self.payload = payload


class DRMemoryNotFoundError(DRMemoryServiceError):
    """Nothing of that id or key is visible to the caller (404)."""


class DRMemoryBadRequestError(DRMemoryServiceError):
    """The request is well-formed, but at odds with what is stored (400)."""


class DRMemoryValidationError(DRMemoryServiceError):
    """A value breaks a rule of the service (422)."""


class DRMemoryConflictError(DRMemoryServiceError):
    """What is stored says otherwise (409).

    Where a deduplication key is taken, `existing_id` is the id of the thing that has it and `location` its URL;
    both are `None` for other conflicts. Where it is that of an event, `existing_sequence_id` is its number.
    Where it is a lookup key, `existing_id` is the session of the event that has it, `existing_sequence_id` its number.
    """

    def __init__(
        self,
        detail: str,
        status_code: int | None = 409,
        payload: Any = None,
        *,
        existing_id: str | None = None,
        location: str | None = None,
        existing_sequence_id: int | None = None,
    ) -> None:
        super().__init__(detail, status_code, payload)
        self.existing_id = existing_id
        self.location = location
        self.existing_sequence_id = existing_sequence_id


class DRMemoryVersionConflictError(DRMemoryServiceError):
    """The session (409) or event (422) has changed since it was read: read it again, then repeat the change."""


class DRMemoryRateLimitError(DRMemoryServiceError):
    """Too many requests (429). `retry_after` is in whole seconds, `None` where the service names no usable time."""

    def __init__(
        self, detail: str, status_code: int | None = 429, payload: Any = None, *, retry_after: int | None = None
    ) -> None:
        super().__init__(detail, status_code, payload)
        self.retry_after = retry_after


class DRMemoryUnavailableError(DRMemoryServiceError):
    """The service gave no answer (timeout, refused connection, TLS), or one that cannot be read.

    Whether a write took effect is not known. The httpx error is the `__cause__`.
    """


_BY_STATUS: Mapping[int, type[DRMemoryServiceError]] = {
    400: DRMemoryBadRequestError,
    404: DRMemoryNotFoundError,
    422: DRMemoryValidationError,
}


def error_of(response: httpx.Response) -> DRMemoryServiceError:
    """The error that an unsuccessful answer stands for."""
    status = response.status_code
    detail, payload = read_error(response)
    if (status == 409 and detail.startswith(_STALE_SESSION)) or (status == 422 and detail.startswith(_STALE_EVENT)):
        return DRMemoryVersionConflictError(detail, status, payload)
    if status == 409:
        body = payload if isinstance(payload, Mapping) else {}
        location = (
            response.headers.get("Location") or body.get("existingSessionUrl") or body.get("existingMemorySpaceUrl")
        )
        existing_id = body.get("existingSessionId") or body.get("existingMemorySpaceId")
        return DRMemoryConflictError(
            detail,
            status,
            payload,
            existing_id=existing_id,
            location=location,
            existing_sequence_id=body.get("existingSequenceId"),
        )
    if status == 429:
        wait = parse_retry_after(response.headers.get("Retry-After"), clock.now())
        return DRMemoryRateLimitError(detail, status, payload, retry_after=wait)
    return _BY_STATUS.get(status, DRMemoryServiceError)(detail, status, payload)
