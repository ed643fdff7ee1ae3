"""The OpenAPI document, made from the operations."""

import re
from typing import Any

import msgspec

from threadkeep.api import constraints, schemas
from threadkeep.api.idempotency import REPLAYED
from threadkeep.api.routing import LINES, Operation

_PATH_NAME = re.compile(r"\{(\w+)(?::path)?\}")
_REF = "#/components/schemas/{name}"
_REASONS = {
    400: "At odds with what is stored",
    401: "No token, or an unknown one",
    403: "The token is not for calls of this kind",
    404: "Not there, or not yours",
    409: "What is stored says otherwise",
    413: "The request is too large",
    422: "A value breaks a rule",
    429: "Too many requests",
    501: "Known, and not offered here",
    503: "The database gives no answer",
}
_ALWAYS = (401, 403, 413, 422, 429, 503)
"""Any call may have a bad token or header, be too large or too frequent, or meet a database that is down."""
_PLAIN = (400, 401, 403, 413, 429, 503)
"""The same where what breaks a rule is answered by a sentence."""
_WITHOUT_TOKEN = (413,)
_PATH_PARAMETERS = {
    "spaceId": constraints.ID,
    "sessionId": constraints.ID,
    "sequenceId": constraints.SEQUENCE_ID,
    "memoryId": constraints.ID,
    "eventId": constraints.ID,
    "entityType": {"enum": ["user", "agent", "app", "run"]},
    **{name: {"type": "string"} for name in ("entityName", "orgId", "projectId", "webhookId", "jobId")},
}
_REQUEST_ID = {"description": "Names this request in the server's log.", "schema": {"type": "string"}}
_HEADERS: dict[int, dict[str, Any]] = {
    401: {"WWW-Authenticate": {"required": True, "schema": {"const": "Bearer"}}},
    409: {"Location": {"description": "What has the deduplication key.", "schema": {"type": "string"}}},
    429: {"Retry-After": {"required": True, "schema": {"type": "integer", "minimum": 1}}},
}
_ON_BEHALF_OF = {
    "name": "X-Threadkeep-User",
    "in": "header",
    "description": "A user of the caller's own, for whom the call is made: needs the right to act for others.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200},
}
_RULE = {
    "type": "object",
    "required": ["loc", "msg", "type"],
    "properties": {
        "loc": {"type": "array", "items": {"type": ["string", "integer"]}},
        "msg": {"type": "string"},
        "type": {"type": "string"},
    },
}
_ERROR = {
    "title": "Error",
    "type": "object",
    "required": ["detail"],
    "properties": {"detail": {"type": "string"}},
}
_INVALID = {
    "title": "Invalid",
    "description": "Each rule that is broken, with its place; a text where an event has changed meanwhile.",
    "type": "object",
    "required": ["detail"],
    "properties": {"detail": {"anyOf": [{"type": "array", "minItems": 1, "items": _RULE}, {"type": "string"}]}},
}
_CONFLICT = {
    "title": "Conflict",
    "description": "What is in the way; for a deduplication key, its name, and the id and address of what has it.",
    "type": "object",
    "required": ["detail"],
    "properties": {
        "detail": {"type": "string"},
        "errorName": {"type": "string"},
        "existingMemorySpaceId": constraints.ID,
        "existingMemorySpaceUrl": {"type": "string", "format": "uri"},
        "existingSessionId": constraints.ID,
        "existingSessionUrl": {"type": "string", "format": "uri"},
        "existingSequenceId": constraints.SEQUENCE_ID,
    },
}
_BODIES = {409: "Conflict", 422: "Invalid"}


def document(operations: list[Operation], *, prefix: str, version: str) -> dict[str, Any]:
    """The OpenAPI 3.1 document of the operations."""
    types = [kind for operation in operations for kind in (operation.takes, _gives(operation)) if kind is not None]
    _, components = msgspec.json.schema_components(types, ref_template=_REF)
    components |= {"Error": _ERROR, "Invalid": _INVALID, "Conflict": _CONFLICT}
    paths: dict[str, Any] = {}
    for operation in operations:
        path = documented_path(prefix + operation.path)
        paths.setdefault(path, {})[operation.method.lower()] = _operation(operation, path)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Threadkeep",
            "version": version,
            "description": "Memory spaces, sessions and ordered events: what agents and people say, kept.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def documented_path(path: str) -> str:
    """The path of a route as the document names it."""
    return _PATH_NAME.sub(lambda match: "{" + _camel(match[1]) + "}", path)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _gives(operation: Operation) -> Any:
    if operation.gives is None:
        return None
    return schemas.PageOut[operation.gives] if operation.page else operation.gives  # type: ignore[name-defined]


def _operation(operation: Operation, path: str) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": schema}
        for name, schema in _PATH_PARAMETERS.items()
        if f"{{{name}}}" in path
    ]
    parameters += [
        {
            "name": query.name,
            "in": "query",
            "schema": query.schema,
            "description": query.description,
            **({"required": True} if query.required else {}),
        }
        for query in operation.query
    ]
    parameters += [
        {"name": header.name, "in": "header", "schema": header.schema, "description": header.description}
        for header in operation.headers
    ]
    found: dict[str, Any] = {
        "tags": [_noun(path)],
        "summary": operation.summary,
        "operationId": f"{operation.handler.__module__.rpartition('.')[2]}{operation.handler.__name__}",
        "parameters": [*parameters, _ON_BEHALF_OF] if operation.needs_token else parameters,
        "responses": _answers(operation),
    }
    if not operation.needs_token:
        found["security"] = []
    if operation.takes is not None:
        required = any(field.required for field in msgspec.structs.fields(operation.takes))
        found["requestBody"] = {"required": required, "content": _json(_schema(operation.takes))}
    return found


def _answers(operation: Operation) -> dict[str, Any]:
    gives = _gives(operation)
    done: dict[str, Any] = {"description": "Done", "headers": {"X-Request-ID": {"required": True, **_REQUEST_ID}}}
    if operation.method == "POST":
        done["headers"][REPLAYED] = {"description": "This is the first answer, once more.", "schema": {"const": "true"}}
    if operation.lines:
        done["content"] = {LINES: {"schema": {"type": "string", "description": f"A line each: {gives.__name__}"}}}
    elif gives is not None:
        done["content"] = _json(_schema(gives))
    is_offered = operation.status < 400
    answers = {str(operation.status): done} if is_offered else {}
    for status in sorted({*operation.fails, *_always(operation), *(() if is_offered else (operation.status,))}):
        answers[str(status)] = {
            "description": _REASONS[status],
            "headers": {"X-Request-ID": {"required": True, **_REQUEST_ID}, **_HEADERS.get(status, {})},
            "content": _json({"$ref": _REF.format(name=_BODIES.get(status, "Error"))}),
        }
    return answers


def _always(operation: Operation) -> tuple[int, ...]:
    if not operation.needs_token:
        return _WITHOUT_TOKEN
    return _PLAIN if operation.plain else _ALWAYS


def _noun(path: str) -> str:
    if path.endswith("/version/"):
        return "Version"
    return (
        "Events"
        if "/events/" in path or path.endswith("/history/")
        else "Sessions"
        if "/sessions/" in path
        else "Memory spaces"
    )


def _schema(kind: Any) -> dict[str, Any]:
    (schema,), _ = msgspec.json.schema_components([kind], ref_template=_REF)
    return schema


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
