"""What the Memory Service has stored for its caller, read over HTTP, in a form that two runs can be compared by.

UUIDs become numbers in the order of their appearance, and times become their shape, so that an id that points at the
wrong thing and a time that is written in another way still differ.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import httpx

Row = dict[str, Any]

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})")
_LOCATOR = "//loc/"
"""How the description of a locator begins. Locators are written side by side, so their order says nothing."""


class Account:
    """The one caller that scenarios have on a server."""

    def __init__(self, endpoint: str, token: str) -> None:
        self.endpoint = endpoint
        self.token = token
        self.http = httpx.Client(base_url=f"{endpoint}/memory/", headers={"Authorization": f"Bearer {token}"})

    def empty(self) -> None:
        """Delete every space."""
        for space in list(self._all("")):
            self.http.delete(f"{space['memorySpaceId']}/").raise_for_status()

    def rows(self) -> list[Row]:
        """All spaces with their sessions and events, oldest first, locators last; ids and times normalised."""
        spaces = list(self._all(""))[::-1]
        for space in spaces:
            space["sessions"] = list(self._all(f"{space['memorySpaceId']}/sessions/"))
            for session in space["sessions"]:
                session["events"] = list(self._all(f"{space['memorySpaceId']}/sessions/{session['id']}/events/"))
        return normalised(spaces)

    def _all(self, path: str) -> Iterator[Row]:
        offset, total = 0, 1
        while offset < total:
            page = self.http.get(path, params={"offset": offset, "limit": 100}).raise_for_status().json()
            yield from page["items"]
            offset, total = offset + 100, page["total"]


def normalised(spaces: list[Row]) -> list[Row]:
    """The rows with their UUIDs numbered and their times reduced to their shape."""
    numbers: dict[str, str] = {}
    result: list[Row] = []
    for space in spaces:
        locators = [session for session in space["sessions"] if _is_locator(session)]
        chats = {**space, "sessions": [session for session in space["sessions"] if not _is_locator(session)]}
        row = _walk(chats, lambda text: _text(text, numbers))
        # What a locator points at has its number by now; its own id may be any.
        locators.sort(key=lambda locator: str(_walk(locator["deduplicationKey"], lambda text: _text(text, numbers))))
        row["sessions"] += [_walk({**locator, "id": "any"}, lambda text: _text(text, numbers)) for locator in locators]
        result.append(row)
    return result


def _is_locator(session: Mapping[str, Any]) -> bool:
    return (session["description"] or "").startswith(_LOCATOR)


def _walk(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {name: _walk(item, change) for name, item in value.items()}
    if isinstance(value, list):
        return [_walk(item, change) for item in value]
    return change(value) if isinstance(value, str) else value


def _text(text: str, numbers: dict[str, str]) -> str:
    text = _UUID.sub(lambda match: numbers.setdefault(match[0], f"<uuid {len(numbers) + 1}>"), text)
    return _TIME.sub(lambda match: re.sub(r"\d", "0", match[0]), text)
