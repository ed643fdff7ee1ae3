"""What is told of requests: access lines, errors in the log, spans. And what never is: what users say."""

import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from threadkeep.api.app import create_app
from threadkeep.gateway.agents import load_agent
from threadkeep.gateway.app import build_app as create_gateway
from threadkeep.services.container import Container
from threadkeep.settings import Settings
from threadkeep.telemetry.access_log import AccessLog
from threadkeep.telemetry.context import request_id
from threadkeep.telemetry.tracing import Tracing
from threadkeep.transport.in_process import InProcessTransport

SECRET = "what-somebody-said"
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"


class Told:
    """A service whose operator keeps all that it tells."""

    def __init__(self, container: Container, http: httpx.AsyncClient, token_id: str, exporter: InMemorySpanExporter):
        self.container = container
        self.http = http
        self.token_id = token_id
        self._exporter = exporter
        self._written: list[str] = []

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    @property
    def requests(self) -> list[ReadableSpan]:
        return [span for span in self.spans if span.kind is SpanKind.SERVER]

    def lines(self) -> list[dict[str, Any]]:
        assert self.container.access_log is not None
        self.container.access_log.flush()
        return [json.loads(line) for text in self._written for line in text.splitlines()]

    def forget(self) -> None:
        self.lines()
        self._written.clear()
        self._exporter.clear()


@pytest.fixture
async def told(database: str) -> AsyncIterator[Told]:
    exporter, written = InMemorySpanExporter(), list[str]()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing = Tracing(provider)
    container = await Container.open(
        Settings(database=database), access_log=AccessLog("json", written.append), tracing=tracing
    )
    token, secret = await container.tokens.create(user="alice", name="t")
    async with httpx.AsyncClient(
        transport=InProcessTransport(create_app(container)),
        timeout=60,
        base_url="http://threadkeep.test/api/v2",
        headers={"Authorization": f"Bearer {secret}"},
    ) as http:
        found = Told(container, http, token.id, exporter)
        found._written = written
        found.forget()
        yield found
    await container.close()
    tracing.close()


async def append(told: Told) -> None:
    """A space, a session and an event, in all of which somebody says something."""
    http = told.http
    space = (await http.post("memory/new/", json={"description": SECRET})).json()["memorySpaceId"]
    session = (await http.post(f"memory/{space}/sessions/", json={"participants": [SECRET]})).json()["id"]
    path = f"memory/{space}/sessions/{session}/events/"
    await http.post(path, json={"body": {"content": SECRET}, "emitter": {"type": "agent"}})
    await http.get(f"memory/{space}/sessions/", params={"description": SECRET})
    await http.get(f"{SECRET}/")


async def test_each_request_has_a_line_with_its_route_status_time_id_and_token(told: Told) -> None:
    await told.http.get("memory/", headers={"X-Request-ID": "r-1"})
    await told.http.get("memory/", headers={"X-Request-ID": "r-2", "Authorization": "Bearer wrong"})
    await told.http.post("memory/00000000-0000-0000-0000-000000000000/sessions/", json={})

    first, second, third = told.lines()
    assert first.pop("time") < second["time"]
    assert 0 < first.pop("ms") < 60_000
    assert first == {
        "level": "info",
        "logger": "threadkeep.access",
        "message": "request",
        "request_id": "r-1",
        "method": "GET",
        "route": "/api/v2/memory/",
        "status": 200,
        "token_id": told.token_id,
    }
    assert (second["request_id"], second["status"], "token_id" in second) == ("r-2", 401, False)
    assert (third["route"], third["status"]) == ("/api/v2/memory/{space_id}/sessions/", 422)


async def test_nothing_that_users_say_is_told(told: Told, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="threadkeep")
    await append(told)

    lines, spans = told.lines(), told.spans
    assert [line["status"] for line in lines] == [201, 201, 201, 200, 404]
    assert lines[-1]["route"] == "none"
    assert len(spans) > len(lines)
    everything = json.dumps(lines) + "".join(span.to_json() for span in spans) + caplog.text
    secret = told.http.headers["Authorization"].split()[1]
    assert SECRET not in everything
    assert secret not in everything


async def test_probes_that_find_all_well_are_not_told(told: Told) -> None:
    for path in ("healthz", "readyz", "metrics"):
        await told.http.get(f"http://threadkeep.test/{path}")
    assert told.lines() == []

    told.container.health.stop()
    await told.http.get("http://threadkeep.test/readyz")
    assert [(line["route"], line["status"]) for line in told.lines()] == [("/readyz", 503)]


async def test_whatever_is_logged_on_the_way_knows_its_request(
    told: Told, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    async def broken(*_: Any, **__: Any) -> None:
        seen.append(request_id.get())
        raise ZeroDivisionError(SECRET)

    monkeypatch.setattr(type(told.container.spaces), "page", broken)
    answer = await told.http.get("memory/", headers={"X-Request-ID": "r-9"})

    assert answer.status_code == 500
    assert seen == ["r-9"]
    assert request_id.get() == ""
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("threadkeep.requests", "ERROR")
    assert record.exc_info is not None
    assert record.getMessage() == "request failed id=r-9 method=GET route=/api/v2/memory/"
    assert [(line["status"], line["request_id"]) for line in told.lines()] == [(500, "r-9")]
    (span,) = told.requests
    assert span.status.status_code is StatusCode.ERROR
    assert dict(span.attributes or {})["error.type"] == "500"
    assert span.events == ()


async def test_a_request_is_a_span_in_the_trace_of_its_caller(told: Told) -> None:
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "X-Request-ID": "r-1"}
    await told.http.get("memory/", headers=headers)

    (span,) = told.requests
    assert span.name == "GET /api/v2/memory/"
    assert span.parent is not None
    assert (f"{span.context.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, PARENT)
    assert dict(span.attributes or {}) == {
        "http.request.method": "GET",
        "url.scheme": "http",
        "http.route": "/api/v2/memory/",
        "http.response.status_code": 200,
        "threadkeep.request_id": "r-1",
        "threadkeep.token_id": told.token_id,
    }


async def test_a_request_without_a_trace_begins_one(told: Told) -> None:
    await told.http.get("memory/", headers={"traceparent": "nonsense"})
    await told.http.get("nothing/")

    first, second = told.requests
    assert first.parent is second.parent is None
    assert first.context.trace_id != second.context.trace_id
    assert (second.name, "http.route" in (second.attributes or {})) == ("GET", False)


async def test_visits_to_the_database_are_spans_under_their_request(told: Told) -> None:
    await append(told)

    appending = next(span for span in told.requests if span.name.startswith("POST") and span.name.endswith("/events/"))
    inside = [span for span in told.spans if span.parent and span.parent.span_id == appending.context.span_id]
    (visit,) = [span for span in inside if span.name.startswith("append")]
    engine = told.container.database.dialect
    assert (visit.name, visit.kind) == (f"append {engine}", SpanKind.CLIENT)
    assert dict(visit.attributes or {}) == {"db.system.name": engine, "db.operation.name": "append"}
    verbs = {span.name.split()[0] for span in told.spans if span.kind is SpanKind.CLIENT}
    assert {"read", "write", "append"} <= verbs


async def test_a_database_that_gives_no_answer_is_a_span_that_failed(told: Told) -> None:
    await told.http.get("memory/")
    told.forget()
    await told.container.close()
    assert (await told.http.get("memory/")).status_code == 503

    (visit,) = [span for span in told.spans if span.kind is SpanKind.CLIENT and not span.status.is_ok]
    assert visit.status.status_code is StatusCode.ERROR
    assert dict(visit.attributes or {})["error.type"] == "Unavailable"
    (span,) = told.requests
    assert span.status.status_code is StatusCode.ERROR


async def test_calls_inside_the_gateway_belong_to_the_request_and_are_none_of_their_own(told: Told) -> None:
    gateway = create_gateway(told.container, create_app(told.container), load_agent("threadkeep.demo:agent"))
    async with (
        gateway.router.lifespan_context(gateway),
        httpx.AsyncClient(
            transport=InProcessTransport(gateway),
            timeout=60,
            base_url="http://threadkeep.test",
            headers=told.http.headers,
        ) as http,
    ):
        told.forget()
        await http.get("/agui/threads/", headers={"X-Request-ID": "r-5"})

    assert [(line["route"], line["request_id"]) for line in told.lines()] == [("/agui/threads/", "r-5")]
    (span,) = told.requests
    inside = [visit for visit in told.spans if visit.context.trace_id == span.context.trace_id and visit is not span]
    assert inside, "the visits to the database of the calls inside are in the same trace"
