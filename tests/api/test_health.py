"""What machines ask of a server: health, readiness, numbers."""

import re
import sqlite3
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette

from threadkeep.api.app import create_app
from threadkeep.gateway.agents import load_agent
from threadkeep.gateway.app import build_app as create_gateway
from threadkeep.services.container import Container
from threadkeep.settings import Settings
from threadkeep.storage.migrate import newest_revision
from threadkeep.transport.in_process import InProcessTransport

USER = "65f000000000000000000001"


def without_token(app: Starlette) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=InProcessTransport(app), timeout=60, base_url="http://threadkeep.test")


async def numbers(http: httpx.AsyncClient) -> dict[str, float]:
    """Each series with its value."""
    text = (await http.get("http://threadkeep.test/metrics", headers={"Authorization": ""})).text
    return {series: float(value) for series, value in re.findall(r"^(threadkeep\S+) (\S+)$", text, re.MULTILINE)}


async def test_a_server_that_runs_is_alive_whatever_its_database_does(app: Starlette, container: Container) -> None:
    await container.close()
    async with without_token(app) as http:
        answer = await http.get("/healthz")

    assert (answer.status_code, answer.json()) == (200, {"status": "alive"})


async def test_a_server_is_ready_when_its_database_has_the_schema_of_the_code(app: Starlette) -> None:
    async with without_token(app) as http:
        answer = await http.get("/readyz")

    assert (answer.status_code, answer.json()) == (200, {"status": "ready", "schema": newest_revision()})


async def test_a_server_is_not_ready_while_its_database_gives_no_answer(app: Starlette, container: Container) -> None:
    await container.close()
    async with without_token(app) as http:
        answer = await http.get("/readyz")

    assert answer.status_code == 503
    assert answer.json() == {"status": "not ready", "detail": "The database gives no answer"}
    assert "X-Request-ID" in answer.headers


async def test_a_server_whose_database_was_migrated_by_a_later_version_is_not_ready(tmp_path: Path) -> None:
    container = await Container.open(Settings(database=f"sqlite:///{tmp_path}/t.db"))
    try:
        async with without_token(create_app(container)) as http:
            assert (await http.get("/readyz")).status_code == 200
            with sqlite3.connect(tmp_path / "t.db") as connection:
                connection.execute("UPDATE alembic_version SET version_num = '2099_01_01_later'")
            connection.close()
            answer = await http.get("/readyz")
    finally:
        await container.close()

    assert answer.status_code == 503
    detail = f"The database has the schema '2099_01_01_later'; this version of Threadkeep needs '{newest_revision()}'"
    assert answer.json() == {"status": "not ready", "detail": detail}


async def test_a_server_that_is_going_to_stop_is_alive_and_not_ready(app: Starlette, container: Container) -> None:
    container.health.stop()
    async with without_token(app) as http:
        answer = await http.get("/readyz")
        alive = await http.get("/healthz")

    assert answer.status_code == 503
    assert answer.json() == {"status": "not ready", "detail": "The server is stopping"}
    assert alive.status_code == 200


async def test_requests_are_counted_by_the_route_and_not_by_the_path(http: httpx.AsyncClient) -> None:
    space = (await http.post("memory/new/", json={})).json()["memorySpaceId"]
    route = '{method="GET",route="/api/v2/memory/{space_id}/"'
    before = await numbers(http)

    await http.get(f"memory/{space}/")
    await http.get(f"memory/{space}/?secret=words")
    await http.get("memory/of-nobody/")
    await http.get("secret-words/")
    await http.request("BREW", "memory/")
    after = await numbers(http)

    def grown(series: str) -> float:
        return after[series] - before.get(series, 0)

    assert grown(f'threadkeep_http_requests_total{route},status="200"}}') == 2
    assert grown(f'threadkeep_http_requests_total{route},status="404"}}') == 1
    assert grown(f"threadkeep_http_request_seconds_count{route}}}") == 3
    assert grown('threadkeep_http_requests_total{method="GET",route="none",status="404"}') == 1
    assert grown('threadkeep_http_requests_total{method="other",route="/api/v2/memory/",status="405"}') == 1
    assert after["threadkeep_http_requests_in_flight"] == 1, "the one that asks"
    text = (await http.get("http://threadkeep.test/metrics")).text
    assert "secret" not in text
    assert space not in text
    assert "BREW" not in text


async def test_events_are_counted_and_the_groups_that_they_are_written_in(http: httpx.AsyncClient) -> None:
    space = (await http.post("memory/new/", json={})).json()["memorySpaceId"]
    session = (await http.post(f"memory/{space}/sessions/", json={"participants": [USER]})).json()["id"]
    before = await numbers(http)

    event = {"body": {}, "emitter": {"type": "agent"}}
    await http.post(f"memory/{space}/sessions/{session}/events/", json=event)
    await http.post(f"memory/{space}/sessions/{session}/events/batch/", json={"events": [event] * 3})
    await http.post(f"memory/{space}/sessions/{session}/events/", json={"body": {}, "emitter": {"type": "nobody"}})
    after = await numbers(http)

    assert after["threadkeep_events_appended_total"] - before["threadkeep_events_appended_total"] == 4
    name = "threadkeep_append_group_size_count"
    assert after[name] - before[name] == 2


async def test_numbers_come_in_the_format_that_is_asked_for(app: Starlette) -> None:
    async with without_token(app) as http:
        plain = await http.get("/metrics")
        open_metrics = await http.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})

    assert plain.headers["Content-Type"].startswith("text/plain; version=")
    assert open_metrics.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert open_metrics.text.endswith("# EOF\n")


async def test_the_gateway_is_asked_the_same_and_its_calls_inside_are_not_requests(
    app: Starlette, container: Container, token: str
) -> None:
    gateway = create_gateway(container, app, load_agent("threadkeep.demo:agent"))
    async with gateway.router.lifespan_context(gateway), without_token(gateway) as http:
        assert (await http.get("/healthz")).json() == {"status": "alive"}
        assert (await http.get("/readyz")).status_code == 200
        before = await numbers(http)
        listed = await http.get("/agui/threads/", headers={"Authorization": f"Bearer {token}"})
        after = await numbers(http)

    assert listed.status_code == 200
    changed = {name for name in after if "requests_total" in name and after[name] != before.get(name)}
    assert changed == {
        'threadkeep_http_requests_total{method="GET",route="/agui/threads/",status="200"}',
        'threadkeep_http_requests_total{method="GET",route="/metrics",status="200"}',
    }


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
async def test_only_reading_is_served(app: Starlette, path: str) -> None:
    async with without_token(app) as http:
        assert (await http.post(path)).status_code == 405
        assert (await http.head(path)).status_code == 200
