"""The body of `POST /agui/`: read leniently, and refused with the place that is wrong before anything is stored.

What the gateway itself needs is checked; the rest passes as it came: an agent of any version gets what it knows.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from threadkeep.chat_history import InputRules
from threadkeep.domain import limits
from threadkeep.errors import Invalid

THREAD_ID = 900
"""Characters of a thread id, each `/` and `%` counting three times: the id is part of a session's description."""
RUN_ID = 500

INPUT_RULES = {
    "any": InputRules(),
    "whole": InputRules(whole=True),
    "new": InputRules(whole=False),
    "strict": InputRules(strict=True),
}
"""How the messages of a body are read, by the setting `client_messages`."""

_SPACE = re.compile(r"[ \t\n\r]*")
Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class RunBody:
    """A checked body: its decoded `fields`, and the JSON text of each member as it came."""

    fields: dict[str, Any]
    members: dict[str, str]

    @property
    def thread_id(self) -> str:
        return str(self.fields["threadId"])

    @property
    def run_id(self) -> str:
        return str(self.fields["runId"])

    @property
    def parent_run_id(self) -> str | None:
        return self.fields.get("parentRunId")

    @property
    def protocol_version(self) -> str | None:
        return self.fields.get("protocolVersion")


def parse_body(document: bytes) -> RunBody:
    """Read and check the body of a run. Raises Invalid that names the place."""
    try:
        body = _parse_object(document.decode("utf-8-sig"))
    except RecursionError as error:
        raise Invalid("The body is nested too deeply", kind="json_invalid") from error
    except ValueError as error:
        raise Invalid(f"The body is not JSON: {error}", kind="json_invalid") from error
    check_fields(body.fields)
    return body


def input_text(body: RunBody) -> str:
    """The body as JSON again, each member in the text in which it came."""
    return "{" + ",".join(f"{json.dumps(name)}:{text}" for name, text in body.members.items()) + "}"


def check_fields(fields: Mapping[str, Any]) -> None:
    """Raise Invalid where the input of a run lacks what the gateway needs of it."""
    place: Place = ()
    thread_id = _check_id(fields, "threadId", place)
    limits.check_text(thread_id.replace("%", "%25").replace("/", "%2F"), THREAD_ID, *place, "threadId")
    run_id = _check_id(fields, "runId", place)
    limits.check_text(run_id, RUN_ID, *place, "runId")
    for name, value in (("threadId", thread_id), ("runId", run_id)):
        if value in (".", ".."):
            # No client could ask for it: URLs drop such segments, however they are written.
            raise Invalid(f"{name} is {value!r}, which cannot stand in a URL", (*place, name))
    limits.check_text(_check_optional(fields, "parentRunId", str, place), RUN_ID, *place, "parentRunId")
    _check_optional(fields, "protocolVersion", str, place)
    if fields.get("messages") is None:
        raise Invalid("messages is missing", (*place, "messages"), "missing")
    _check_each(fields, "messages", _check_message, place)
    _check_each(fields, "tools", lambda tool, at: _check_id(tool, "name", at), place)
    _check_each(fields, "context", lambda _, __: None, place)
    _check_each(fields, "resume", lambda entry, at: _check_id(entry, "interruptId", at), place)


def _check_message(message: Mapping[str, Any], place: Place) -> None:
    _check_id(message, "id", place)
    role = _check_id(message, "role", place)
    content = message.get("content")
    if role in ("developer", "system", "user", "tool", "reasoning"):
        is_parts = role in ("user", "tool") and isinstance(content, list)
        if not isinstance(content, str) and not is_parts:
            kind = "a string or a list of parts" if role in ("user", "tool") else "a string"
            raise Invalid(f"content is {kind}, not {_name(content)}", (*place, "content"), "type_error")
        if is_parts:
            _check_each(message, "content", lambda part, at: _check_id(part, "type", at), place)
    if role == "tool":
        _check_id(message, "toolCallId", place)
    if role == "assistant":
        _check_each(message, "toolCalls", _check_call, place)


def _check_call(call: Mapping[str, Any], place: Place) -> None:
    _check_id(call, "id", place)
    function = call.get("function")
    if not isinstance(function, dict):
        raise Invalid(f"function is an object, not {_name(function)}", (*place, "function"), "type_error")
    _check_id(function, "name", (*place, "function"))
    _check_optional(function, "arguments", str, (*place, "function"))


def _check_id(fields: Mapping[str, Any], name: str, place: Place) -> str:
    value = fields.get(name)
    if name not in fields:
        raise Invalid(f"{name} is missing", (*place, name), "missing")
    if not isinstance(value, str):
        raise Invalid(f"{name} is a string, not {_name(value)}", (*place, name), "type_error")
    if not value:
        raise Invalid(f"{name} is empty", (*place, name), "too_short")
    return value


def _check_optional(fields: Mapping[str, Any], name: str, kind: type, place: Place) -> Any:
    value = fields.get(name)
    if value is not None and not isinstance(value, kind):
        expected = "a string" if kind is str else "a list"
        raise Invalid(f"{name} is {expected} or null, not {_name(value)}", (*place, name), "type_error")
    return value


def _check_each(
    fields: Mapping[str, Any], name: str, check: Callable[[dict[str, Any], Place], object], place: Place
) -> None:
    items: Sequence[Any] = _check_optional(fields, name, list, place) or ()
    for index, item in enumerate(items):
        at = (*place, name, index)
        if not isinstance(item, dict):
            raise Invalid(f"An item of {name} is an object, not {_name(item)}", at, "type_error")
        check(item, at)


def _name(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    names: list[tuple[type, str]] = [(str, "a string"), (list, "a list"), (dict, "an object")]
    return next((name for kind, name in names if isinstance(value, kind)), "a number")


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON number")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _parse_object(text: str) -> RunBody:
    """An object and the text of its members. A name that comes twice counts as the last one, as everywhere."""
    at = _skip(text, 0)
    if text[at : at + 1] != "{":
        _DECODER.raw_decode(text, at)
        raise ValueError("it is not an object")
    fields: dict[str, Any] = {}
    members: dict[str, str] = {}
    at = _skip(text, at + 1)
    while text[at : at + 1] != "}" or fields:
        if text[at : at + 1] != '"':
            raise json.JSONDecodeError("Expecting property name enclosed in double quotes", text, at)
        name, at = _DECODER.raw_decode(text, at)
        start = _skip(text, _expect(":", text, at))
        fields[name], at = _DECODER.raw_decode(text, start)
        members[name] = text[start:at]
        at = _skip(text, at)
        if text[at : at + 1] == "}":
            break
        at = _skip(text, _expect(",", text, at))
    at = _skip(text, at + 1)
    if at != len(text):
        raise json.JSONDecodeError("Extra data", text, at)
    return RunBody(fields, members)


def _expect(sign: str, text: str, at: int) -> int:
    at = _skip(text, at)
    if text[at : at + 1] != sign:
        raise json.JSONDecodeError(f"Expecting {sign!r} delimiter", text, at)
    return at + 1


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at
