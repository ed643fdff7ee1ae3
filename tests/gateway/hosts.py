"""Applications of other frameworks that mount the gateway, and a real server for them."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI
from litestar import Litestar, asgi
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp

from threadkeep.gateway import Gateway

Host = Callable[..., ASGIApp]


def fastapi(path: str, gateway: Gateway, *, has_lifespan: bool = True) -> ASGIApp:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with gateway:
            yield

    app = FastAPI(lifespan=lifespan if has_lifespan else None)
    app.mount(path, gateway)
    return app


def starlette(path: str, gateway: Gateway, *, has_lifespan: bool = True) -> ASGIApp:
    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with gateway:
            yield

    return Starlette(routes=[Mount(path, gateway)], lifespan=lifespan if has_lifespan else None)


def litestar(path: str, gateway: Gateway, *, has_lifespan: bool = True) -> ASGIApp:
    mounted = asgi(path, is_mount=True, copy_scope=True)(gateway)  # type: ignore[arg-type]
    app: Any = Litestar([mounted], lifespan=[lambda _: gateway] if has_lifespan else [], openapi_config=None)
    return app


HOSTS: list[Host] = [fastapi, starlette, litestar]


@asynccontextmanager
async def served(app: ASGIApp) -> AsyncIterator[str]:
    """The application behind a real server; yields its URL, and shuts the server down as a signal would."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=5))
    running = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        while not server.started:
            assert not running.done(), "the server did not start"
            await asyncio.sleep(0)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await running
        listener.close()
