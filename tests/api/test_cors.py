"""Pages of other origins: none may call, or those that the operator names."""

import httpx
import pytest
from starlette.applications import Starlette

from threadkeep.api.cors import allow_origins
from threadkeep.errors import Invalid
from threadkeep.transport.in_process import InProcessTransport

PAGE = "https://app.example.com"


async def asked(app: Starlette, origins: str | None, method: str, origin: str, **headers: str) -> httpx.Response:
    transport = InProcessTransport(allow_origins(app, origins))
    async with httpx.AsyncClient(transport=transport, base_url="http://threadkeep.test") as http:
        return await http.request(method, "/api/v2/version/", headers={"Origin": origin, **headers})


async def test_without_origins_no_page_of_another_origin_may_call(app: Starlette) -> None:
    answer = await asked(app, None, "GET", PAGE)
    assert answer.status_code == 200
    assert "access-control-allow-origin" not in answer.headers


async def test_a_page_of_a_named_origin_may_call_and_others_may_not(app: Starlette) -> None:
    origins = f"https://other.example.com, {PAGE}"
    answer = await asked(app, origins, "GET", PAGE)
    assert answer.headers["access-control-allow-origin"] == PAGE
    assert answer.headers["access-control-expose-headers"] == "X-Request-ID, Retry-After, Location"
    assert "access-control-allow-credentials" not in answer.headers
    answer = await asked(app, origins, "GET", "https://evil.example.com")
    assert "access-control-allow-origin" not in answer.headers


async def test_a_browser_that_asks_before_is_told_without_a_token(app: Starlette) -> None:
    wanted = {"Access-Control-Request-Method": "PATCH", "Access-Control-Request-Headers": "authorization,last-event-id"}
    answer = await asked(app, "*", "OPTIONS", PAGE, **wanted)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "*"
    assert "PATCH" in answer.headers["access-control-allow-methods"]
    assert answer.headers["access-control-allow-headers"] == "authorization,last-event-id"


async def test_a_page_reads_why_it_was_refused(app: Starlette) -> None:
    transport = InProcessTransport(allow_origins(app, PAGE))
    async with httpx.AsyncClient(transport=transport, base_url="http://threadkeep.test") as http:
        answer = await http.get("/api/v2/memory/", headers={"Origin": PAGE})
    assert answer.status_code == 401
    assert answer.headers["access-control-allow-origin"] == PAGE


@pytest.mark.parametrize("name", ["https://app.example.com/", "app.example.com", "https://*.example.com", "null"])
def test_what_no_browser_would_send_is_refused_at_the_start(app: Starlette, name: str) -> None:
    with pytest.raises(Invalid, match="is no origin"):
        allow_origins(app, name)
