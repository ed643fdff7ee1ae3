"""Every route, called by somebody else and by nobody: what is not one's own does not exist."""

import json
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from tests.api.walk import Step, example, steps, without_ids
from threadkeep.api import openapi
from threadkeep.api.app import OPERATIONS, PREFIX
from threadkeep.services.container import Container

NOWHERE = {
    "space_id": "01a22a37-1f9c-7be3-a935-be3b47e3a157",
    "session_id": "01a22a37-1f9c-7be3-a935-be3b47e3a158",
    "sequence_id": "9",
    "memory_id": "01a22a37-1f9c-7be3-a935-be3b47e3a159",
    "event_id": "01a22a37-1f9c-7be3-a935-be3b47e3a15a",
    "entity_type": "user",
    "entity_name": "xyz",
    "org_id": "xyz",
    "project_id": "xyz",
    "webhook_id": "xyz",
    "job_id": "xyz",
}
DOCUMENT = openapi.document(OPERATIONS, prefix=PREFIX, version="1")


def body_of(step: Step) -> bytes | None:
    """A body that the route takes, read from its own page in the OpenAPI document."""
    operation = DOCUMENT["paths"].get(openapi.documented_path(step.path), {}).get(step.method.lower(), {})
    if "requestBody" not in operation:
        return None
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    return json.dumps(example(schema, DOCUMENT["components"]["schemas"])).encode()


class Alice:
    """A user with something in every place, and what she sees of it."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http
        self.ids: dict[str, str] = {}

    async def write(self) -> None:
        space = await self.http.post("memory/new/", json={"deduplicationKey": "xyz", "description": "hers"})
        session = await self.http.post(
            f"memory/{space.json()['memorySpaceId']}/sessions/",
            json={"participants": ["xyz"], "deduplicationKey": "xyz", "description": "hers"},
        )
        made = {"space_id": space.json()["memorySpaceId"], "session_id": session.json()["id"], "sequence_id": "1"}
        self.ids = {**NOWHERE, **made}
        draft = {"body": {"content": "hers"}, "emitter": {"type": "user", "id": "xyz"}}
        await self.http.post(Step("POST", f"{PREFIX}{self.events}").url(self.ids), json=draft)
        words = {"messages": "hers", "user_id": "xyz"}
        kept = await self.http.post(f"memory/{made['space_id']}/v3/memories/add/", json={**words, "infer": False})
        asked = await self.http.post(f"memory/{made['space_id']}/v3/memories/add/", json=words)
        self.ids |= {"memory_id": kept.json()["results"][0]["id"], "event_id": asked.json()["event_id"]}

    events = "/memory/{space_id}/sessions/{session_id}/events/"

    async def sees(self) -> list[Any]:
        within = (
            "sessions/",
            "v1/memories/?user_id=xyz",
            "v1/entities/",
            "v1/events/",
            "v1/memories/{memory_id}/history/",
        )
        places = ("/memory/", self.events, *(f"/memory/{{space_id}}/{place}" for place in within))
        return [(await self.http.get(Step("GET", PREFIX + place).url(self.ids))).json() for place in places]


@pytest.fixture
async def alice(http: httpx.AsyncClient) -> Alice:
    user = Alice(http)
    await user.write()
    return user


@pytest.fixture
async def bob(container: Container) -> dict[str, str]:
    """The headers of another user."""
    _, secret = await container.tokens.create(user="bob", name="bob")
    return {"Authorization": f"Bearer {secret}"}


async def test_another_users_ids_are_answered_as_ids_of_nothing(
    app: Starlette, alice: Alice, bob: dict[str, str]
) -> None:
    """Field case 125."""
    before = await alice.sees()
    own = (await alice.http.post("memory/new/", json={}, headers=bob)).json()["memorySpaceId"]
    walked = 0

    async def answer(step: Step, ids: dict[str, str]) -> tuple[int, bytes, dict[str, str]]:
        found = await alice.http.request(step.method, step.url(ids), content=body_of(step), headers=bob)
        return without_ids(found, ids)

    for step in steps(app):
        if not step.names("space_id"):
            continue
        # Her space, and his own with a session or a memory of hers in it.
        for hers in (alice.ids, {**alice.ids, "space_id": own}):
            # The name of an entity is no id: it is a word that both may use.
            if hers["space_id"] == own and not any(map(step.names, ("session_id", "memory_id", "event_id"))):
                continue
            nothing = {**NOWHERE, "space_id": own} if hers["space_id"] == own else NOWHERE
            theirs = await answer(step, hers)
            assert theirs == await answer(step, {**nothing, "sequence_id": "1"}), step
            assert theirs[0] == 404, step
            walked += 1

    assert walked > 60
    assert await alice.sees() == before


async def test_lists_and_keys_of_another_user_show_nothing(app: Starlette, alice: Alice, bob: dict[str, str]) -> None:
    """Field case 125: neither a filter nor a conflict tells of a key that is somebody else's."""
    lists = [step for step in steps(app) if step.method == "GET" and not step.names("space_id")]
    for step in lists:
        for query in ({}, {"deduplicationKey": "xyz"}):
            found = await alice.http.get(step.url({}), params=query, headers=bob)
            assert found.json() == {"items": [], "total": 0, "offset": 0, "limit": 100}, step

    made = await alice.http.post("memory/new/", json={"deduplicationKey": "xyz"}, headers=bob)

    assert lists
    assert made.status_code == 201
    assert made.json()["memorySpaceId"] != alice.ids["space_id"]
    assert made.json()["userId"] != (await alice.sees())[0]["items"][0]["userId"]


async def test_a_user_of_the_callers_own_is_another_user(app: Starlette, alice: Alice) -> None:
    for step in steps(app):
        if step.names("space_id"):
            headers = {"X-Threadkeep-User": "ann"}
            found = await alice.http.request(step.method, step.url(alice.ids), content=body_of(step), headers=headers)
            assert found.status_code == 404, step


@pytest.mark.parametrize("scheme", ["Bearer", "Token"])
async def test_no_route_answers_without_a_token_that_is_alive(
    app: Starlette, alice: Alice, container: Container, scheme: str
) -> None:
    _, expired = await container.tokens.create(user="alice", name="expired", expires_in=-1)
    token, revoked = await container.tokens.create(user="alice", name="revoked")
    used = await alice.http.get("memory/", headers={"Authorization": f"{scheme} {revoked}"})
    await container.tokens.revoke(token.id)
    before = await alice.sees()
    headers = ["", scheme, f"{scheme} ", f"{scheme} nonsense", f"{scheme} {expired}", f"{scheme} {revoked}"]

    for step in steps(app):
        for header in (*headers, f"Basic {expired}"):
            found = await alice.http.request(
                step.method, step.url(alice.ids), content=body_of(step), headers={"Authorization": header}
            )
            assert found.status_code == 401, (step, header)
            assert found.headers["WWW-Authenticate"] == "Bearer"
            assert list(found.json() if step.method != "HEAD" else {"detail": ""}) == ["detail"]

    assert used.status_code == 200
    assert await alice.sees() == before
