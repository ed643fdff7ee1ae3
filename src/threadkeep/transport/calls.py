"""Calls as values: one function per endpoint gives the request not yet sent, together with the reader of its answer.

Nothing here does I/O; `senders` sends a call, blocking or awaiting. Paths are relative to the service's base path.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import httpx

from threadkeep.contract.events import Event, EventFields, EventPatch, NewEvent, SpaceEvent
from threadkeep.contract.pages import Items, Page, Patched
from threadkeep.contract.sessions import NewSession, Session, SessionFields
from threadkeep.contract.spaces import NewSpace, Space, SpaceFields
from threadkeep.contract.version import Version
from threadkeep.transport.answers import read_items, read_lines, read_nothing, read_page, read_patched, read_row

T = TypeVar("T")
Params = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A request not yet sent; `read` turns its (successful) answer into a `T`. `json` None means no body."""

    method: str
    path: str
    params: Params = ()
    json: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    read: Callable[[httpx.Response], T] = field(kw_only=True)


def create_space(fields: NewSpace) -> Call[Space]:
    return Call("POST", "new/", json=fields, read=_read_space)


def list_spaces(
    *, offset: int | None = None, limit: int | None = None, deduplication_key: str | None = None
) -> Call[Page[Space]]:
    params = build_params({"offset": offset, "limit": limit, "deduplicationKey": deduplication_key})
    return Call("GET", "", params, read=read_page("memorySpaceId"))


def get_space(space_id: str) -> Call[Space]:
    return Call("GET", _space(space_id), read=_read_space)


def patch_space(space_id: str, fields: SpaceFields) -> Call[Space]:
    return Call("PATCH", _space(space_id), json=fields, read=_read_space)


def delete_space(space_id: str) -> Call[None]:
    return Call("DELETE", _space(space_id), read=read_nothing)


def create_session(space_id: str, fields: NewSession) -> Call[Session]:
    return Call("POST", _sessions(space_id), json=fields, read=_read_session)


def list_sessions(
    space_id: str,
    *,
    offset: int | None = None,
    limit: int | None = None,
    participants: Iterable[str] | None = None,
    description: str | None = None,
    deduplication_key: str | None = None,
) -> Call[Page[Session]]:
    params = build_params(
        {
            "offset": offset,
            "limit": limit,
            "participants": participants,
            "description": description,
            "deduplicationKey": deduplication_key,
        }
    )
    return Call("GET", _sessions(space_id), params, read=read_page("id"))


def get_session(space_id: str, session_id: str) -> Call[Session]:
    return Call("GET", _session(space_id, session_id), read=_read_session)


def patch_session(
    space_id: str, session_id: str, fields: SessionFields, *, if_match: int | None = None
) -> Call[Session]:
    headers = {} if if_match is None else {"If-Match": str(if_match)}
    return Call("PATCH", _session(space_id, session_id), json=fields, headers=headers, read=_read_session)


def delete_session(space_id: str, session_id: str) -> Call[None]:
    return Call("DELETE", _session(space_id, session_id), read=read_nothing)


def append_event(space_id: str, session_id: str, event: NewEvent) -> Call[Event]:
    return Call("POST", _events(space_id, session_id), json=event, read=_read_event)


def list_events(
    space_id: str,
    session_id: str,
    *,
    offset: int | None = None,
    limit: int | None = None,
    last_n: int | None = None,
    event_type: str | None = None,
) -> Call[Page[Event]]:
    params = build_params({"offset": offset, "limit": limit, "lastN": last_n, "eventType": event_type})
    return Call("GET", _events(space_id, session_id), params, read=read_page("sequenceId"))


def read_history(
    space_id: str, session_id: str, *, after: int | None = None, event_type: str | None = None
) -> Call[list[Event]]:
    return Call(
        "GET",
        f"{_session(space_id, session_id)}history/",
        build_params({"after": after, "eventType": event_type}),
        headers={"Accept": "application/x-ndjson, application/json"},
        read=read_lines("sequenceId"),
    )


def patch_event(
    space_id: str, session_id: str, sequence_id: int, fields: EventFields, *, created_at: str | None = None
) -> Call[Event]:
    params = build_params({"createdAt": created_at})
    return Call("PATCH", _event(space_id, session_id, sequence_id), params, json=fields, read=_read_event)


def delete_event(space_id: str, session_id: str, sequence_id: int) -> Call[None]:
    return Call("DELETE", _event(space_id, session_id, sequence_id), read=read_nothing)


def append_events(space_id: str, session_id: str, events: list[NewEvent]) -> Call[Items[Event]]:
    return Call("POST", _batch(space_id, session_id), json={"events": events}, read=read_items("sequenceId"))


def patch_events(space_id: str, session_id: str, events: list[EventPatch]) -> Call[Items[Event]]:
    return Call("PATCH", _batch(space_id, session_id), json={"events": events}, read=read_items("sequenceId"))


def patch_and_append_events(
    space_id: str, session_id: str, events: list[EventPatch], append: list[NewEvent]
) -> Call[Patched[Event]]:
    body = {"events": events, "append": append}
    return Call("PATCH", _batch(space_id, session_id), json=body, read=read_patched("sequenceId"))


def find_events(
    space_id: str,
    lookup_keys: Iterable[str],
    *,
    event_type: str | None = None,
    offset: int | None = None,
    limit: int | None = None,
) -> Call[Page[SpaceEvent]]:
    params = build_params({"lookupKey": lookup_keys, "eventType": event_type, "offset": offset, "limit": limit})
    return Call("GET", f"{_space(space_id)}events/", params, read=read_page("sessionId"))


def newest_events(
    space_id: str, session_ids: Iterable[str], *, event_type: str | None = None
) -> Call[Page[SpaceEvent]]:
    params = build_params({"sessionId": session_ids, "eventType": event_type})
    return Call("GET", f"{_space(space_id)}events/newest/", params, read=read_page("sessionId"))


def get_version() -> Call[Version]:
    """Relative to the API that the service is a part of."""
    return Call("GET", "version/", read=read_row("versionString"))


def build_params(values: Mapping[str, Any]) -> Params:
    """Query parameters as pairs: `None` is left out, a list repeats its name, a bool is `true` or `false`."""
    pairs: list[tuple[str, str]] = []
    for name, value in values.items():
        several = value if isinstance(value, Iterable) and not isinstance(value, str | bytes) else [value]
        pairs.extend((name, _text(item)) for item in several if item is not None)
    return tuple(pairs)


def encode_params(params: Params) -> str:
    """The query string; everything but unreserved characters is escaped, the `+` of a timestamp too."""
    return "&".join(f"{_escape(name)}={_escape(value)}" for name, value in params)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.decode() if isinstance(value, bytes) else str(value)


def _escape(text: str) -> str:
    # Any Python string goes through, a lone surrogate as the three bytes that UTF-8 would have for it.
    return quote(text, safe="", errors="surrogatepass")


def _segment(what: str, value: object) -> str:
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise TypeError(f"A {what} is a string, not {type(value).__name__}")
    text = _escape(str(value))
    if not text:
        raise ValueError(f"The {what} is empty")
    # `.` and `..` would be folded away by whoever normalises the path on the way.
    return text.replace(".", "%2E") if text in (".", "..") else text


def _space(space_id: str) -> str:
    return f"{_segment('memory space id', space_id)}/"


def _sessions(space_id: str) -> str:
    return f"{_space(space_id)}sessions/"


def _session(space_id: str, session_id: str) -> str:
    return f"{_sessions(space_id)}{_segment('session id', session_id)}/"


def _events(space_id: str, session_id: str) -> str:
    return f"{_session(space_id, session_id)}events/"


def _event(space_id: str, session_id: str, sequence_id: int) -> str:
    return f"{_events(space_id, session_id)}{_segment('sequence id', sequence_id)}/"


def _batch(space_id: str, session_id: str) -> str:
    return f"{_events(space_id, session_id)}batch/"


_read_space: Callable[[httpx.Response], Space] = read_row("memorySpaceId")
_read_session: Callable[[httpx.Response], Session] = read_row("id")
_read_event: Callable[[httpx.Response], Event] = read_row("sequenceId")
