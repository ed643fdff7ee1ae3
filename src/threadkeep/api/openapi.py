"""The OpenAPI document, made from the operations."""

from typing import Any

import msgspec

from threadkeep.api import schemas
from threadkeep.api.routing import Operation

_REF = "#/components/schemas/{name}"
_REASONS = {
    400: "At odds with what is stored",
    401: "No token, or an unknown one",
    404: "Not there, or not yours",
    409: "What is stored says otherwise",
    413: "The request is too large",
    422: "A value breaks a rule",
    429: "Too many requests",
    503: "The database gives no answer",
}
_ALWAYS = (401, 413, 429, 503)
_ERROR = {
    "title": "Error",
    "type": "object",
    "required": ["detail"],
    "properties": {
        "detail": {
            "anyOf": [
                {"type": "string"},
                {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["loc", "msg", "type"],
                        "properties": {
                            "loc": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}},
                            "msg": {"type": "string"},
                            "type": {"type": "string"},
                        },
                    },
                },
            ]
        }
    },
}


def document(operations: list[Operation], *, prefix: str, version: str) -> dict[str, Any]:
    """The OpenAPI 3.1 document of the operations."""
    types = [kind for operation in operations for kind in (operation.takes, _gives(operation)) if kind is not None]
    _, components = msgspec.json.schema_components(types, ref_template=_REF)
    components["Error"] = _ERROR
    paths: dict[str, Any] = {}
    for operation in operations:
        path = (prefix + operation.path).replace("space_id", "spaceId").replace("session_id", "sessionId")
        path = path.replace("sequence_id", "sequenceId")
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


def _gives(operation: Operation) -> Any:
    if operation.gives is None:
        return None
    return schemas.PageOut[operation.gives] if operation.page else operation.gives  # type: ignore[name-defined]


def _operation(operation: Operation, path: str) -> dict[str, Any]:
    gives = _gives(operation)
    answers: dict[str, Any] = {str(operation.status): {"description": "Done"}}
    if gives is not None:
        answers[str(operation.status)]["content"] = _json(_schema(gives))
    # A request without a body and without a query has nothing that could break a rule.
    checked = (422,) if operation.takes is not None or operation.query or "sequenceId" in path else ()
    for status in sorted({*operation.fails, *_ALWAYS, *checked}):
        answers[str(status)] = {
            "description": _REASONS[status],
            "content": _json({"$ref": _REF.format(name="Error")}),
        }
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in ("spaceId", "sessionId", "sequenceId")
        if f"{{{name}}}" in path
    ]
    parameters += [
        {"name": query.name, "in": "query", "schema": query.schema, "description": query.description}
        for query in operation.query
    ]
    parameters += [
        {"name": header.name, "in": "header", "schema": {"type": "string"}, "description": header.description}
        for header in operation.headers
    ]
    found: dict[str, Any] = {
        "tags": [_noun(path)],
        "summary": operation.summary,
        "parameters": parameters,
        "responses": answers,
    }
    if operation.takes is not None:
        found["requestBody"] = {"required": True, "content": _json(_schema(operation.takes))}
    return found


def _noun(path: str) -> str:
    return "Events" if "/events/" in path else "Sessions" if "/sessions/" in path else "Memory spaces"


def _schema(kind: Any) -> dict[str, Any]:
    (schema,), _ = msgspec.json.schema_components([kind], ref_template=_REF)
    return schema


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
