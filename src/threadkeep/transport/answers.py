"""Readers of answers: a response becomes data of the contract's types, or an error that says what is wrong with it."""

import json
import math
import re
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar, cast

import httpx
from pydantic_core import from_json

from threadkeep import clock
from threadkeep.contract.pages import Items, Page, Patched

T = TypeVar("T")
_SECONDS = re.compile(r"(\d{1,9})(?:\.(\d+))?", re.ASCII)


def read_json(response: httpx.Response) -> Any:
    """The decoded body; lone surrogate escapes are kept as they are.

    Raises httpx.DecodingError where the body is no JSON, such as one that was cut or a proxy's HTML.
    """
    try:
        return json.loads(response.content)
    except (ValueError, RecursionError) as error:
        raise _unreadable(response, "is no JSON") from error


def read_nothing(response: httpx.Response) -> None:
    """A delete has nothing to say."""


def read_row(identity: str) -> Callable[[httpx.Response], Any]:
    """A reader of one object that must hold the key `identity`."""

    def read(response: httpx.Response) -> Any:
        return _row(response, read_json(response), identity)

    return read


def read_page(identity: str) -> Callable[[httpx.Response], Page[Any]]:
    """A reader of a list, each row of which must hold the key `identity`."""

    def read(response: httpx.Response) -> Page[Any]:
        page = read_json(response)
        if not (isinstance(page, dict) and isinstance(page.get("items"), list) and isinstance(page.get("total"), int)):
            raise _unreadable(response, "is not a page of a list")
        for item in page["items"]:
            _row(response, item, identity)
        return cast(Page[Any], page)

    return read


def read_lines(identity: str) -> Callable[[httpx.Response], list[Any]]:
    """A reader of lines of JSON, each of which must hold the key `identity`."""

    def read(response: httpx.Response) -> list[Any]:
        try:
            rows = [_read_line(line) for line in response.content.split(b"\n") if line]
        except (ValueError, RecursionError) as error:
            raise _unreadable(response, "has a line that is no JSON") from error
        return [_row(response, row, identity) for row in rows]

    return read


def _read_line(line: bytes) -> Any:
    """A long history has many: the faster reader takes nearly all of them, and no lone surrogates."""
    try:
        return from_json(line)
    except ValueError:
        return json.loads(line)


def read_items(identity: str) -> Callable[[httpx.Response], Items[Any]]:
    """A reader of the answer to a batch."""

    def read(response: httpx.Response) -> Items[Any]:
        answer = read_json(response)
        if not (isinstance(answer, dict) and isinstance(answer.get("items"), list)):
            raise _unreadable(response, "is not the answer to a batch")
        for item in answer["items"]:
            _row(response, item, identity)
        return cast(Items[Any], answer)

    return read


def read_patched(identity: str) -> Callable[[httpx.Response], Patched[Any]]:
    """A reader of the answer to a batch of changes that appended events as well."""
    items = read_items(identity)

    def read(response: httpx.Response) -> Patched[Any]:
        answer = cast(Patched[Any], items(response))
        if not isinstance(answer.get("appended"), list):
            raise _unreadable(response, "does not say what was appended")
        for item in answer["appended"]:
            _row(response, item, identity)
        return answer

    return read


def read_error(response: httpx.Response) -> tuple[str, Any]:
    """What an error answer says: one line of text, and the decoded body (`None` where it is no JSON)."""
    try:
        payload = read_json(response)
    except httpx.DecodingError:
        text = " ".join(response.text.split())[:300]
        return text or response.reason_phrase or f"HTTP {response.status_code}", None
    detail = payload.get("detail") if isinstance(payload, Mapping) else None
    if isinstance(detail, list):
        return "; ".join(_problem(item) for item in detail), payload
    return str(detail or response.reason_phrase or f"HTTP {response.status_code}"), payload


def parse_retry_after(text: str | None, now: int) -> int | None:
    """The whole seconds to wait that a Retry-After header asks for, rounded up; `None` where it says nothing usable.

    RFC 9110, section 10.2.3, allows seconds and an HTTP date; `now` is in microseconds since 1970. Never raises.
    """
    text = (text or "").strip()
    if match := _SECONDS.fullmatch(text):
        whole, fraction = match.groups()
        return int(whole) + bool((fraction or "").strip("0"))
    try:
        moment = clock.from_datetime(parsedate_to_datetime(text))
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return max(0, math.ceil((moment - now) / 1_000_000))


def _row(response: httpx.Response, value: Any, identity: str) -> Any:
    if not (isinstance(value, dict) and identity in value):
        raise _unreadable(response, f"lacks {identity!r}")
    return value


def _problem(item: Any) -> str:
    if not isinstance(item, Mapping):
        return str(item)
    place = ".".join(str(part) for part in item.get("loc") or ())
    return f"{place}: {item.get('msg')}" if place else str(item.get("msg"))


def _unreadable(response: httpx.Response, why: str) -> httpx.DecodingError:
    request = response.request
    return httpx.DecodingError(
        f"The answer to {request.method} {request.url.path} (HTTP {response.status_code}) {why}", request=request
    )
