"""Schemathesis reads the OpenAPI document, calls the service with what fits it and what does not, and compares."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from threadkeep import __version__, ids
from threadkeep.api import openapi
from threadkeep.api.app import OPERATIONS, PREFIX, create_app
from threadkeep.services.container import Container
from threadkeep.settings import Settings
from threadkeep.transport.in_process import InProcessTransport

EXAMPLES = 12
"""Random calls of each operation, besides those that try each limit; always the same ones."""
PEOPLE = ["ann", "bob\0"]
EVENTS = 5
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
# What no schema can say: these refuse a request that fits the document.
BEYOND_A_SCHEMA = (
    "events in one request",
    "Patch of incorrect version of event",
    "is named twice",
    "Nothing to change",
    "A second ",
    "soft_delete takes no options",
    "Give lastN or",
    "Give offset or after, not both",
    "Give cursor or offset, not both",
    "This key was used for another request",
    "is that of event",
    "in one request; the limit is 100",
    # JSON Schema counts 1.0 among the integers; the service asks for 1.
    "takes a whole number",
    "Expected `int`, got `float`",
)


def strict_document() -> dict[str, Any]:
    """The document that is served, but that an answer may hold no field that it does not name."""
    document = openapi.document(OPERATIONS, prefix=PREFIX, version=__version__)
    # Every call has its token: what happens without one is asked elsewhere.
    del document["security"], document["components"]["securitySchemes"]
    for name, schema in document["components"]["schemas"].items():
        if name.endswith(("Out", "Out_")) or name in ("Error", "Invalid", "Conflict"):
            schema["additionalProperties"] = False
    for operations in document["paths"].values():
        for operation in operations.values():
            # Calls on behalf of others find nothing; they have tests of their own.
            operation["parameters"] = [each for each in operation["parameters"] if each["name"] != "X-Threadkeep-User"]
    return document


SCHEMA = schemathesis.openapi.from_dict(
    strict_document(),
    config=SchemathesisConfig.from_dict({"generation": {"deterministic": True, "max-examples": EXAMPLES}}),
)


class Stage:
    """The service with something in it, which is put back when a call has taken it away."""

    def __init__(self, runner: asyncio.Runner, http: httpx.AsyncClient) -> None:
        self._runner = runner
        self._http = http
        self.statuses: set[int] = set()

    def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self._runner.run(self._http.request(method, path, **options))

    def set(self) -> None:
        self.space = self.send("POST", "memory/new/", json={"description": "d\0"}).json()["memorySpaceId"]
        self.set_session()

    def set_session(self) -> None:
        body = {
            "participants": PEOPLE,
            "description": "//thread/t-1/",
            "metadata": {"n": 1.50, "\0": None},
            "lifecycleStrategies": [
                {"type": "extract_memories", "trigger": {"idle": 9}, "opts": {"metadata": {"a": [1]}}},
                {"type": "soft_delete", "trigger": {"never": True}},
            ],
        }
        self.session = self.send("POST", f"memory/{self.space}/sessions/", json=body).json()["id"]
        drafts = [
            {"body": {"content": "hi", "n": 1e300}, "emitter": {"type": "user", "id": PEOPLE[n % 2]}, "type": "message"}
            for n in range(EVENTS)
        ]
        drafts[-1] = {"body": {}, "emitter": {"type": "agent"}, "lookupKeys": [f"key of {self.session}\0"]}
        path = f"memory/{self.space}/sessions/{self.session}/events/batch/"
        assert self.send("POST", path, json={"events": drafts}).status_code == 201
        self.set_memories()

    def set_memories(self) -> None:
        path = f"memory/{self.space}/v3/memories/add/"
        more = {"infer": False, "metadata": {"n": 1.50}, "expiration_date": "2999-12-31", "agent_id": "a\0"}
        kept = self.send("POST", path, json={"messages": [{"content": "likes tea"}], "user_id": "0", **more})
        asked = self.send("POST", path, json={"messages": "likes tea", "user_id": "0"})
        self.memory, self.event = kept.json()["results"][0]["id"], asked.json()["event_id"]

    def lead_inside(self, case: Case) -> None:
        """Put the ids of what is there in place of ids that are made up."""
        given = dict(case.path_parameters or {})
        there = {"spaceId": self.space, "sessionId": self.session, "memoryId": self.memory, "eventId": self.event}
        for name, real in there.items():
            if ids.is_id(str(given.get(name, ""))):
                given[name] = real
        for name, found in (("lookupKey", f"key of {self.session}\0"), ("sessionId", self.session)):
            asked = (case.query or {}).get(name)
            if isinstance(asked, list) and asked and isinstance(asked[0], str) and asked[0]:
                case.query[name] = [found, *asked[1:]]
        if isinstance(number := given.get("sequenceId"), int) and number > 0:
            given["sequenceId"] = 1 + number % EVENTS
        case.path_parameters = given
        if "/v1/" in case.operation.path or "/v3/" in case.operation.path or "/v2/memories" in case.operation.path:
            self._name_real_memories(case)
        if case.operation.label.startswith("PATCH") and case.operation.path.endswith("/batch/"):
            self._name_real_events(case)
        if case.operation.label.startswith("PATCH") and case.operation.path.endswith("/{sequenceId}/"):
            self._change_what_is_there(case)

    @staticmethod
    def _change_what_is_there(case: Case) -> None:
        """Let every second change be one of no version, by somebody who takes part."""
        if case.meta is None or case.meta.generation.mode is not GenerationMode.POSITIVE:
            return
        if isinstance(case.body, dict) and int((case.path_parameters or {}).get("sequenceId", 0)) % 2:
            case.query = {}
            if isinstance(case.body.get("emitter"), dict):
                case.body["emitter"] = {"type": "user", "id": PEOPLE[0]}

    def _name_real_memories(self, case: Case) -> None:
        """Of what fits the schema: the scope that there is, times that are some, and memories that are there."""
        if case.meta is None or case.meta.generation.mode is not GenerationMode.POSITIVE:
            return
        if case.operation.path.endswith("/v1/memories/") and isinstance(case.query, dict):
            case.query["user_id"] = "0"
        if not isinstance(case.body, dict):
            return
        for name in ("start_date", "end_date", "reference_date", "timestamp", "expiration_date"):
            if isinstance(case.body.get(name), int | float | str):
                case.body[name] = "2026-11-30"
        if "memories" in case.body:
            case.body["memories"] = [{"memory_id": self.memory, "text": "likes milk"}]
        elif "/{memoryId}/" not in case.operation.path:
            case.body.pop("filters", None)
            case.body |= {"user_id": "0", **({"messages": "likes tea"} if "messages" in case.body else {})}

    @staticmethod
    def _name_real_events(case: Case) -> None:
        events = case.body.get("events") if isinstance(case.body, dict) else None
        for index, item in enumerate(events if isinstance(events, list) else ()):
            if isinstance(item, dict) and isinstance(item.get("sequenceId"), int) and item["sequenceId"] > 0:
                item["sequenceId"] = index + 1
                if isinstance(item.get("createdAt"), str) and index % 2:
                    del item["createdAt"]

    def call(self, case: Case) -> httpx.Response:
        wanted = case.as_transport_kwargs(base_url="http://threadkeep.test")
        headers = {**wanted["headers"], "Authorization": self._http.headers["Authorization"]}
        body = {"content": wanted["data"]} if "data" in wanted else {}
        if "json" in wanted:
            body = {"content": json.dumps(wanted["json"])}
        answer = self.send(wanted["method"], wanted["url"], params=wanted.get("params"), headers=headers, **body)
        self.statuses.add(answer.status_code)
        if answer.status_code == 200 and wanted["method"] == "DELETE":
            self.set_memories()
        if answer.status_code == 204:
            if "sessionId" in case.path_parameters:
                self.set_session()
            else:
                self.set()
        return answer


@pytest.fixture
def stage(database: str) -> Iterator[Stage]:
    with asyncio.Runner() as runner:
        container = runner.run(Container.open(Settings(database=database)))
        _, secret = runner.run(container.tokens.create(user="alice", name="test"))
        http = httpx.AsyncClient(
            transport=InProcessTransport(create_app(container)),
            timeout=60,
            base_url=f"http://threadkeep.test{PREFIX}",
            headers={"Authorization": f"Bearer {secret}"},
        )
        found = Stage(runner, http)
        found.set()
        yield found
        runner.run(http.aclose())
        runner.run(container.close())
    assert found.statuses & {200, 201, 202, 204, 501}, "no call got past the checks"


@SCHEMA.parametrize()
@settings(deadline=None, suppress_health_check=list(HealthCheck))
def test_the_service_answers_as_its_document_says(case: Case, stage: Stage) -> None:
    stage.lead_inside(case)
    answer = stage.call(case)
    if answer.status_code == 501:
        # Said of the route itself, and never of what is sent there.
        assert set(case.operation.definition.raw["responses"]) >= {"501"}
        assert "200" not in case.operation.definition.raw["responses"]
        return
    case.validate_response(answer, checks=CHECKS)
    if answer.status_code == 422 and case.meta is not None and case.meta.generation.mode is GenerationMode.POSITIVE:
        assert any(reason in answer.text for reason in BEYOND_A_SCHEMA), answer.text


async def test_what_is_served_is_this_document(http: httpx.AsyncClient) -> None:
    served = (await http.get("openapi.json")).json()

    assert served == openapi.document(OPERATIONS, prefix=PREFIX, version=__version__)
