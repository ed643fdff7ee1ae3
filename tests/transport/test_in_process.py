"""The in-process transport: an app behaves as behind a socket."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from threadkeep.transport.in_process import InProcessTransport


async def echo(request: Request) -> Response:
    body = await request.body()
    return JSONResponse(
        {
            "path": request.scope["path"],
            "raw_path": request.scope["raw_path"].decode(),
            "query": request.scope["query_string"].decode(),
            "body": body.decode(),
            "who": request.scope.get("threadkeep.principal"),
            "host": request.headers["host"],
        },
        201,
        {"X-A": "1"},
    )


def client_of(*routes: Route, **scope: object) -> httpx.AsyncClient:
    transport = InProcessTransport(
        Starlette(routes=routes), {key.replace("_", "."): value for key, value in scope.items()}
    )
    return httpx.AsyncClient(transport=transport, base_url="http://app.test")


async def test_a_request_reaches_the_app_as_it_was_sent_and_the_scope_is_merged() -> None:
    async with client_of(Route("/a b", echo, methods=["POST"]), threadkeep_principal="alice") as client:
        response = await client.post("/a%20b?x=%2B", content="hi")
    assert response.status_code == 201
    assert response.headers["X-A"] == "1"
    assert response.json() == {
        "path": "/a b",
        "raw_path": "/a%20b",
        "query": "x=%2B",
        "body": "hi",
        "who": "alice",
        "host": "app.test",
    }


async def test_a_stream_is_read_while_the_app_still_writes_it() -> None:
    go_on = asyncio.Event()

    async def lines() -> AsyncIterator[str]:
        yield "first"
        await go_on.wait()
        yield "second"

    async def stream(request: Request) -> Response:
        return StreamingResponse(lines())

    async with client_of(Route("/", stream)) as client, client.stream("GET", "/") as response:
        chunks = response.aiter_text()
        assert await anext(chunks) == "first"
        go_on.set()
        assert [chunk async for chunk in chunks] == ["second"]


async def test_an_app_that_raises_is_a_protocol_error_with_its_cause() -> None:
    async def broken(scope: object, receive: object, send: object) -> None:
        raise RuntimeError("boom")

    async with httpx.AsyncClient(transport=InProcessTransport(broken)) as client:
        with pytest.raises(httpx.RemoteProtocolError, match="boom") as raised:
            await client.get("http://app.test/")
    assert isinstance(raised.value.__cause__, RuntimeError)


async def test_an_app_that_answers_500_before_it_raises_is_read_as_behind_a_server() -> None:
    async def fail(request: Request) -> Response:
        raise RuntimeError("boom")

    async with client_of(Route("/", fail)) as client:
        assert (await client.get("/")).status_code == 500


async def test_an_app_that_breaks_off_its_response_is_never_a_complete_one() -> None:
    async def cut() -> AsyncIterator[str]:
        yield "half"
        raise RuntimeError("boom")

    async def stream(request: Request) -> Response:
        return StreamingResponse(cut())

    async with client_of(Route("/", stream)) as client:
        with pytest.raises(httpx.RemoteProtocolError):
            await client.get("/")


async def test_an_app_that_ends_without_a_response_is_a_protocol_error() -> None:
    async def silent(scope: object, receive: object, send: object) -> None:
        return

    async with httpx.AsyncClient(transport=InProcessTransport(silent)) as client:
        with pytest.raises(httpx.RemoteProtocolError, match="ended before"):
            await client.get("http://app.test/")


async def test_a_caller_that_leaves_does_not_stop_the_app() -> None:
    entered, done = asyncio.Event(), asyncio.Event()

    async def slow(request: Request) -> Response:
        entered.set()
        assert (await request.receive())["type"] == "http.request"
        assert (await request.receive())["type"] == "http.disconnect"
        done.set()
        return PlainTextResponse("nobody reads this")

    async with client_of(Route("/", slow)) as client:
        call = asyncio.create_task(client.get("/"))
        await entered.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await done.wait()


async def test_closing_the_transport_ends_what_still_runs() -> None:
    entered = asyncio.Event()
    ended: list[str] = []

    async def forever(request: Request) -> Response:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")
        raise AssertionError

    async with client_of(Route("/", forever)) as client:
        call = asyncio.create_task(client.get("/"))
        await entered.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert ended == ["cancelled"]


async def test_a_reader_that_stops_early_frees_an_app_that_waits_for_room() -> None:
    done = asyncio.Event()

    async def many() -> AsyncIterator[bytes]:
        for _ in range(1_000):
            yield b"x"
        done.set()

    async def unwatched(scope: object, receive: object, send: object) -> None:
        # Without Starlette's watch for a disconnect, which would cancel the stream itself.
        await send({"type": "http.response.start", "status": 200, "headers": []})  # type: ignore[operator]
        async for chunk in many():
            await send({"type": "http.response.body", "body": chunk, "more_body": True})  # type: ignore[operator]

    async with httpx.AsyncClient(transport=InProcessTransport(unwatched)) as client:
        async with client.stream("GET", "http://app.test/") as response:
            await anext(response.aiter_raw())
        await done.wait()


async def test_a_silent_app_is_left_after_the_read_timeout() -> None:
    left = asyncio.Event()

    async def silent(scope: object, receive: object, send: object) -> None:
        await receive()  # type: ignore[operator]
        assert await receive() == {"type": "http.disconnect"}  # type: ignore[operator]
        left.set()

    async with httpx.AsyncClient(transport=InProcessTransport(silent), timeout=0.001) as client:
        with pytest.raises(httpx.ReadTimeout):
            await client.get("http://app.test/")
        await left.wait()


async def test_a_stream_that_falls_silent_is_left_after_the_read_timeout() -> None:
    async def lines() -> AsyncIterator[str]:
        yield "first"
        await asyncio.Event().wait()

    async def stream(request: Request) -> Response:
        return StreamingResponse(lines())

    async with client_of(Route("/", stream)) as client:
        with pytest.raises(httpx.ReadTimeout):
            await client.get("/", timeout=0.02)
