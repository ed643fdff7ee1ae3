"""What surrounds every call: tokens, paths, ids of requests, limits, and answers to what nobody foresaw."""

import json
from dataclasses import replace
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from threadkeep.api.app import OPERATIONS, PREFIX, create_app
from threadkeep.services.container import Container
from threadkeep.settings import Settings
from threadkeep.transport.in_process import InProcessTransport

NOWHERE = "01a22a37-1f9c-7be3-a935-be3b47e3a157"
PATHS = sorted({(operation.method, operation.path) for operation in OPERATIONS if operation.needs_token})
PATHS_OF_A_SPACE = [(method, path) for method, path in PATHS if "{space_id}" in path]
BODIES: dict[str, Any] = {
    "/memory/new/": {},
    "/memory/{space_id}/sessions/": {"participants": ["a"]},
    "/memory/{space_id}/sessions/{session_id}/events/": {"body": {}, "emitter": {"type": "agent"}},
    "/memory/{space_id}/sessions/{session_id}/events/batch/": {
        "events": [{"body": {}, "emitter": {"type": "agent"}, "sequenceId": 1}]
    },
    "/memory/{space_id}/sessions/{session_id}/events/{sequence_id}/": {"type": "x"},
    "/memory/{space_id}/": {"description": "x"},
    "/memory/{space_id}/sessions/{session_id}/": {"description": "x"},
}


async def call(http: httpx.AsyncClient, method: str, path: str, ids: dict[str, str], **options: Any) -> httpx.Response:
    for name, value in ids.items():
        path = path.replace(f"{{{name}}}", value)
    body = None
    if method in ("POST", "PATCH"):
        pattern = next(pattern for m, pattern in PATHS if m == method and _fits(pattern, path))
        body = json.dumps(BODIES.get(pattern, {}))
    return await http.request(method, f"http://threadkeep.test{PREFIX}{path}", content=body, **options)


def _fits(pattern: str, path: str) -> bool:
    ours, theirs = pattern.split("/"), path.split("/")
    return len(ours) == len(theirs) and all(a == b or a.startswith("{") for a, b in zip(ours, theirs, strict=True))


async def test_an_id_of_any_form_is_not_there(http: httpx.AsyncClient) -> None:
    for bad in ("x", "%00", "%ff", "..", "a" * 5000, NOWHERE.upper(), "0", "%ED%A0%80"):
        for method, path in PATHS_OF_A_SPACE:
            for ids in ({"space_id": bad, "session_id": bad}, {"space_id": NOWHERE, "session_id": bad}):
                answer = await call(http, method, path, {**ids, "sequence_id": "1"})
                assert answer.status_code in (404, 405), (method, path, bad)


async def test_a_path_without_its_slash_is_told_the_right_one(http: httpx.AsyncClient) -> None:
    for path in (f"{PREFIX}/memory", f"{PREFIX}/memory/{NOWHERE}/sessions", f"{PREFIX}/version"):
        answer = await http.get(f"http://threadkeep.test{path}")
        assert answer.status_code == 404
        assert answer.json()["detail"].endswith(f": {path}/")
    assert (await http.get("nothing/here/")).json() == {"detail": "There is nothing at /api/v2/nothing/here/"}


async def test_a_query_may_hold_what_a_body_may(http: httpx.AsyncClient) -> None:
    space = (await http.post("memory/new/", json={})).json()["memorySpaceId"]
    made = await http.post(
        f"memory/{space}/sessions/", content=rb'{"participants":["a"],"deduplicationKey":"\ud83d\u0000"}'
    )

    found = await http.get(f"memory/{space}/sessions/?deduplicationKey=%ED%A0%BD%00")
    nothing = await http.get(f"memory/{space}/sessions/?deduplicationKey=%FF")

    assert [session["id"] for session in found.json()["items"]] == [made.json()["id"]]
    assert nothing.json()["items"] == []


async def test_an_encoded_slash_leads_to_no_other_route(http: httpx.AsyncClient) -> None:
    space = (await http.post("memory/new/", json={})).json()["memorySpaceId"]

    assert (await http.get(f"memory/{space}/sessions/")).status_code == 200
    assert (await http.get(f"memory/{space}%2Fsessions/")).status_code == 404


async def test_a_method_that_is_not_served_is_405(http: httpx.AsyncClient) -> None:
    answer = await http.put("memory/")

    assert answer.status_code == 405
    assert answer.json() == {"detail": "PUT is not served at /api/v2/memory/"}
    assert "GET" in answer.headers["Allow"]


async def test_every_answer_has_a_request_id(http: httpx.AsyncClient) -> None:
    made = await http.get("memory/")
    kept = await http.get("memory/", headers={"X-Request-ID": "my.id:7"})
    refused = await http.get("nothing/", headers={"X-Request-ID": "my.id:8"})
    odd = await http.get("memory/", headers={"X-Request-ID": "a b\t"})

    assert made.headers["X-Request-ID"] != (await http.get("memory/")).headers["X-Request-ID"]
    assert kept.headers["X-Request-ID"] == "my.id:7"
    assert refused.headers["X-Request-ID"] == "my.id:8"
    assert odd.headers["X-Request-ID"] != "a b"


async def test_a_request_over_the_limit_is_413_before_it_is_parsed(container: Container, token: str) -> None:
    small = replace(container, settings=Settings(max_request_bytes=1024))
    async with httpx.AsyncClient(
        transport=InProcessTransport(create_app(small)),
        timeout=60,
        base_url="http://threadkeep.test/api/v2",
        headers={"Authorization": f"Bearer {token}"},
    ) as http:

        async def chunks() -> Any:
            for _ in range(3):
                yield b"[" * 512

        announced = await http.post("memory/new/", content=b"[" * 1025)
        streamed = await http.post("memory/new/", content=chunks())
        fits = await http.post("memory/new/", content=b" " * 1022 + b"{}")

    assert announced.status_code == streamed.status_code == 413
    assert announced.json() == {"detail": "The request is too large; the limit is 1,024 bytes"}
    assert "X-Request-ID" in announced.headers
    assert fits.status_code == 201


async def test_a_database_that_gives_no_answer_is_503(http: httpx.AsyncClient, container: Container) -> None:
    """As case 128: never an empty list, never 404."""
    await container.close()

    made = await http.post("memory/new/", json={})

    assert made.status_code == 503
    assert "database" in made.json()["detail"]


async def test_what_nobody_foresaw_is_500_with_its_id_and_in_the_log(
    http: httpx.AsyncClient, container: Container, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("secret words")

    monkeypatch.setattr(type(container.spaces), "page", broken)

    answer = await http.get("memory/", headers={"X-Request-ID": "r-1"})

    assert answer.status_code == 500
    assert "r-1" in answer.json()["detail"]
    assert "secret" not in answer.text
    assert "r-1" in caplog.text


async def test_a_token_may_name_a_user_of_its_own(http: httpx.AsyncClient) -> None:
    await http.post("memory/new/", json={"deduplicationKey": "k"})

    anns = await http.post("memory/new/", json={"deduplicationKey": "k"}, headers={"X-Threadkeep-User": "ann"})
    listed = (await http.get("memory/", headers={"X-Threadkeep-User": "ann"})).json()

    assert anns.status_code == 201
    assert [space["memorySpaceId"] for space in listed["items"]] == [anns.json()["memorySpaceId"]]


async def test_the_openapi_document_names_every_route(http: httpx.AsyncClient, app: Starlette) -> None:
    document = (await http.get("openapi.json", headers={"Authorization": ""})).json()

    served = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert len(served) == len(OPERATIONS)
    assert document["openapi"] == "3.1.0"
    references = {part.split('"')[0] for part in json.dumps(document).split('"#/components/schemas/')[1:]}
    assert references <= set(document["components"]["schemas"])


async def test_the_document_says_which_routes_need_no_token(http: httpx.AsyncClient) -> None:
    paths = (await http.get("openapi.json")).json()["paths"]

    free = {path for path, methods in paths.items() if any(says.get("security") == [] for says in methods.values())}
    assert free == {"/api/v2/version/"}
    version = paths["/api/v2/version/"]["get"]
    assert set(version["responses"]) == {"200", "413"}
    assert version["parameters"] == []
    assert "403" in paths["/api/v2/memory/"]["get"]["responses"]


async def test_the_documentation_is_served_from_here(http: httpx.AsyncClient) -> None:
    page = await http.get("docs/")
    script = await http.get("docs/static/swagger-ui-bundle.js")

    assert 'src="static/swagger-ui-bundle.js"' in page.text
    assert "://" not in page.text
    assert script.status_code == 200
    assert len(script.content) > 500_000
