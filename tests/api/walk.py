"""Walks over all routes of an application, as it lists them itself: a new route joins without being named."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx
from starlette.applications import Starlette
from starlette.routing import Mount, Route

PUBLIC = frozenset(
    {
        "/api/v2/version/",
        "/api/v2/openapi.json",
        "/api/v2/docs/",
        "/api/v2/docs/static",
        "/healthz",
        "/readyz",
        "/metrics",
    }
)
"""What anybody may ask. All else needs a token."""


@dataclass(frozen=True)
class Step:
    """One method on one route."""

    method: str
    path: str

    def names(self, name: str) -> bool:
        return f"{{{name}}}" in self.path or f"{{{name}:path}}" in self.path

    def url(self, ids: Mapping[str, str]) -> str:
        path = self.path
        for name, value in ids.items():
            path = path.replace(f"{{{name}:path}}", f"{{{name}}}").replace(f"{{{name}}}", quote(value, safe=""))
        assert "{" not in path, f"the walk knows no id for {path}"
        return f"http://threadkeep.test{path}"


def steps(app: Starlette) -> Iterator[Step]:
    """Every method of every route that is not public."""
    for route in app.routes:
        assert isinstance(route, Route | Mount)
        if route.path in PUBLIC:
            continue
        assert isinstance(route, Route)
        for method in sorted(route.methods or ()):
            yield Step(method, route.path)


def without_ids(answer: httpx.Response, ids: Mapping[str, str]) -> tuple[int, bytes, dict[str, str]]:
    """All of an answer but the id of the request and the ids that were asked for."""
    body, headers = answer.content, {name: value for name, value in answer.headers.items() if name != "x-request-id"}
    # A short one may be a piece of a long one.
    for name, value in sorted(ids.items(), key=lambda item: -len(item[1])):
        body = body.replace(value.encode(), f"<{name}>".encode())
    return answer.status_code, body, headers


def example(schema: Mapping[str, Any], components: Mapping[str, Any]) -> Any:
    """A value that fits a schema of the OpenAPI document, so that a request gets past the checks of its body."""
    if "$ref" in schema:
        return example(components[schema["$ref"].rpartition("/")[2]], components)
    if "anyOf" in schema:
        return example(schema["anyOf"][0], components)
    kinds = schema.get("type", "object")
    if "null" in kinds and kinds != "null":
        return None
    if kinds == "object":
        fields = schema.get("properties", {})
        names = list(fields)[: schema.get("maxProperties", len(fields))]
        return {name: example(fields[name], components) for name in names}
    if kinds == "array":
        return [example(schema.get("items", {}), components) for _ in range(schema.get("minItems", 1))]
    if kinds == "string":
        return schema.get("enum", ["2026-11-30T00:00:00Z" if schema.get("format") == "date-time" else "xyz"])[-1]
    return {"integer": schema.get("minimum", 1), "number": 0.5, "boolean": True}[kinds]
