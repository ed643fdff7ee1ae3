"""Every error that Threadkeep raises, on both sides of the wire.

    ThreadkeepError
    ├── Invalid                          a value breaks a rule of the contract; names the place
    │   └── StaleEvent                   the event has changed since it was read
    ├── BadRequest                       well-formed, but at odds with what is stored
    ├── Unauthorized                     no token, or not one that is known
    ├── Forbidden                        the token is known, but not for calls of this kind
    ├── NotFound                         it is not there, or it belongs to somebody else
    ├── Conflict                         what is stored says otherwise
    │   ├── DeduplicationConflict        the key is taken; carries the id that took it
    │   ├── EventDeduplicationConflict   the key is taken in the session; carries the number of the event that has it
    │   ├── EventLookupConflict          the lookup key is taken in the space; carries the session and number
    │   ├── SessionVersionMismatch       the session has changed since it was read
    │   ├── StrategyClosed               the lifecycle strategy has run; names its type
    │   ├── RunActive                    the thread already has a run; carries its id
    │   └── InterruptConflict            the interrupts of the thread say otherwise
    │       ├── InterruptsOpen           they wait for answers; carries their ids
    │       ├── InterruptAnswered        one has its answer; carries the id of the run that brought it
    │       └── InterruptExpired         one can only be cancelled; carries its id
    ├── NotOffered                       a known call of a public client that is not served here
    ├── TooLarge                         the request is over the body limit
    ├── RateLimited                      too many requests; carries the seconds to wait
    ├── Unavailable                      the store gives no answer; trying again later may help
    ├── ModelFailed                      a language model or an embedder gave no answer, or none that can be used
    │   └── AddressRefused               the operator does not let models be asked at that address
    ├── LeaseLost                        the job or the run is no longer this process's
    ├── MissingExtra                     an optional part is not installed; names the install line
    └── ClientError                      the service refused a call of the synchronous SDK (4xx)
        ├── MemorySpaceDeduplicationError
        ├── MemorySessionDeduplicationError
        ├── MemoryEventDeduplicationError
        └── MemoryEventLookupError
        ServerError                      the service failed at a call of the synchronous SDK (5xx)

The classes know nothing of HTTP; `api.errors` holds the one table from class to status.
The async client's family (`DRMemoryServiceError`) lives in `persistence.errors`: its names belong to the ORM.
"""

from collections.abc import Mapping, Sequence
from typing import Any


class ThreadkeepError(Exception):
    """The root of the family."""


class Invalid(ThreadkeepError):
    """A value breaks a rule.

    `loc` names the place as a path from the outside in, e.g. `("body", "events", 3, "emitter", "type")`.
    """

    def __init__(self, message: str, loc: Sequence[str | int] = (), kind: str = "value_error") -> None:
        super().__init__(message)
        self.message = message
        self.loc = tuple(loc)
        self.kind = kind

    def under(self, *prefix: str | int) -> "Invalid":
        """The same error seen from further out: `prefix` goes before its place."""
        return type(self)(self.message, (*prefix, *self.loc), self.kind)


class StaleEvent(Invalid):
    """The event was changed after the caller read it."""


class BadRequest(ThreadkeepError):
    """Well-formed, but at odds with what is stored."""


class Unauthorized(ThreadkeepError):
    """No token, or one that is unknown, expired or revoked."""


class Forbidden(ThreadkeepError):
    """The token is known, but its scopes leave this kind of call out."""


class NotFound(ThreadkeepError):
    """Nothing of that id is visible to the caller."""


class Conflict(ThreadkeepError):
    """What is stored says otherwise."""


class DeduplicationConflict(Conflict):
    """The deduplication key is taken by a live thing: `noun` is what it is, `existing_id` which one."""

    def __init__(self, noun: str, key: str, existing_id: str) -> None:
        super().__init__(f"A live {noun} with the deduplication key {key!r} already exists: {existing_id}")
        self.noun = noun
        self.key = key
        self.existing_id = existing_id


class EventDeduplicationConflict(Conflict):
    """The deduplication key is taken in this session by the event `existing_sequence_id`."""

    def __init__(self, key: str, existing_sequence_id: int) -> None:
        super().__init__(f"Event {existing_sequence_id} of this session has the deduplication key {key!r}")
        self.key = key
        self.existing_sequence_id = existing_sequence_id


class EventLookupConflict(Conflict):
    """The lookup key is taken by an event of the same type: `existing_sequence_id` of `existing_session_id`."""

    def __init__(self, key: str, existing_session_id: str, existing_sequence_id: int) -> None:
        super().__init__(
            f"Event {existing_sequence_id} of session {existing_session_id} has the lookup key {key!r}, and its type"
        )
        self.key = key
        self.existing_session_id = existing_session_id
        self.existing_sequence_id = existing_sequence_id


class SessionVersionMismatch(Conflict):
    """The session was changed after the caller read it."""

    def __init__(self, expected: int, actual: int) -> None:
        super().__init__(f"Session version mismatch: the request expects {expected}, the stored version is {actual}")
        self.expected = expected
        self.actual = actual


class StrategyClosed(Conflict):
    """The strategies of a type that has run for the session cannot be changed."""

    def __init__(self, strategy_type: str) -> None:
        super().__init__(
            f"{strategy_type} has run for this session and is closed to change: send its strategies as they are"
        )
        self.strategy_type = strategy_type


class RunActive(Conflict):
    """The thread already has an active run."""

    def __init__(self, thread_id: str, run_id: str) -> None:
        super().__init__(f"Thread {thread_id!r} already has an active run: {run_id!r}")
        self.thread_id = thread_id
        self.run_id = run_id


class InterruptConflict(Conflict):
    """The interrupts of the thread say otherwise."""


class InterruptsChanged(InterruptConflict):
    """They are not what they were when the run was prepared."""

    def __init__(self) -> None:
        super().__init__("The interrupts of the thread have changed in this moment; try again")


class InterruptsOpen(InterruptConflict):
    """The thread waits for answers to the interrupts of these ids, and the input of the run has none."""

    def __init__(self, interrupt_ids: Sequence[str]) -> None:
        names = ", ".join(dict.fromkeys(map(repr, interrupt_ids)))
        super().__init__(f"The thread has open interrupts: {names}; answer all of them in resume, or cancel them")
        self.interrupt_ids = [*interrupt_ids]


class InterruptAnswered(InterruptConflict):
    """The interrupt was answered by the run `run_id`, or cancelled without one."""

    def __init__(self, interrupt_id: str, status: str, run_id: str | None) -> None:
        by = "without a run" if run_id is None else f"by the run {run_id!r}"
        super().__init__(f"The interrupt {interrupt_id!r} was {status} {by}")
        self.interrupt_id = interrupt_id
        self.run_id = run_id


class InterruptExpired(InterruptConflict):
    """The interrupt is too old to be answered."""

    def __init__(self, interrupt_id: str, expired_at: str) -> None:
        super().__init__(f"The interrupt {interrupt_id!r} expired at {expired_at}; it can only be cancelled")
        self.interrupt_id = interrupt_id


class NotOffered(ThreadkeepError):
    """A call of a public client that is known here and not served; the message says what is."""


class TooLarge(ThreadkeepError):
    """The request is over the body limit."""


class RateLimited(ThreadkeepError):
    """Too many requests; `retry_after` is in whole seconds."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"Too many requests; try again in {retry_after} s")
        self.retry_after = retry_after


class Unavailable(ThreadkeepError):
    """The store gives no answer now."""


class ModelFailed(ThreadkeepError):
    """A language model or an embedder gave no answer, or none that can be used.

    `retry_after` is how many seconds its endpoint wants to be left alone, where it said so.
    `is_final` says that asking the same again is of no use: the key is wrong, or there is no such model.
    """

    def __init__(self, message: str, *, retry_after: float | None = None, is_final: bool = False) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.is_final = is_final


class AddressRefused(ModelFailed):
    """The operator does not let models be asked at that address."""

    def __init__(self, message: str) -> None:
        super().__init__(message, is_final=True)


class LeaseLost(ThreadkeepError):
    """The lease on a job or a run ran out, or another process has it: what was to be written under it is not."""


class MissingExtra(ThreadkeepError, ImportError):
    """An optional part is not installed."""

    def __init__(self, extra: str, wanted_for: str, line: str | None = None) -> None:
        line = line or f"pip install 'threadkeep[{extra}]'"
        super().__init__(f"{wanted_for} needs an extra that is not installed: {line}")
        self.extra = extra


class ClientError(ThreadkeepError):
    """The service refused a call of the synchronous SDK (4xx).

    `status_code` is the HTTP status; `json` is the decoded body, or an empty dict where there is none.
    """

    def __init__(self, message: str, status_code: int, json: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.status_code = status_code
        self.json = dict(json or {})


class ServerError(ThreadkeepError):
    """The service failed at a call of the synchronous SDK (5xx), or gave no answer at all."""

    def __init__(self, message: str, status_code: int | None = None, json: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.status_code = status_code
        self.json = dict(json or {})


class MemorySpaceDeduplicationError(ClientError):
    """A live memory space of this user already has the deduplication key."""

    existing_memory_space_id: str | None
    existing_memory_space_url: str | None

    def __init__(self, message: str, status_code: int, json: Mapping[str, Any] | None = None) -> None:
        super().__init__(message, status_code, json)
        self.existing_memory_space_id = self.json.get("existingMemorySpaceId")
        self.existing_memory_space_url = self.json.get("existingMemorySpaceUrl")


class MemorySessionDeduplicationError(ClientError):
    """A live session of this memory space already has the deduplication key."""

    existing_session_id: str | None
    existing_session_url: str | None

    def __init__(self, message: str, status_code: int, json: Mapping[str, Any] | None = None) -> None:
        super().__init__(message, status_code, json)
        self.existing_session_id = self.json.get("existingSessionId")
        self.existing_session_url = self.json.get("existingSessionUrl")


class MemoryEventLookupError(ClientError):
    """An event of this memory space and of the same type already has the lookup key."""

    existing_session_id: str | None
    existing_sequence_id: int | None

    def __init__(self, message: str, status_code: int, json: Mapping[str, Any] | None = None) -> None:
        super().__init__(message, status_code, json)
        self.existing_session_id = self.json.get("existingSessionId")
        self.existing_sequence_id = self.json.get("existingSequenceId")


class MemoryEventDeduplicationError(ClientError):
    """An event of this session already has the deduplication key."""

    existing_sequence_id: int | None

    def __init__(self, message: str, status_code: int, json: Mapping[str, Any] | None = None) -> None:
        super().__init__(message, status_code, json)
        self.existing_sequence_id = self.json.get("existingSequenceId")
