"""The gateway before an AG-UI server, and a plain proxy: `python -m bench.run_server DATABASE PORT UPSTREAM`.

The proxy hands on the bytes of the same upstream, with the same HTTP server and client, and does nothing with them.
"""

import asyncio
import sys
from collections.abc import AsyncIterator

import uvicorn
import uvloop
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from bench.server import TOKEN
from threadkeep.api.app import create_app
from threadkeep.cli.serving import tune_interpreter
from threadkeep.gateway.app import open_gateway
from threadkeep.gateway.upstream import Upstream
from threadkeep.services.container import Container
from threadkeep.settings import Settings

PLAIN = "/plain/"
BACKLOG = 2048


async def serve(database: str, port: int, url: str) -> None:
    container = await Container.open(Settings(database=database, upstream=url))
    await container.tokens.ensure(TOKEN)
    upstream = Upstream(url)

    async def plain(scope: Scope, receive: Receive, send: Send) -> None:
        answer = await upstream.send(await Request(scope, receive).body())

        async def chunks() -> AsyncIterator[bytes]:
            async for chunk in answer.aiter_raw():
                yield chunk
            await answer.aclose()

        await StreamingResponse(chunks(), media_type="text/event-stream")(scope, receive, send)

    async with open_gateway(container, create_app(container)) as gateway:

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await (plain if scope.get("path") == PLAIN else gateway)(scope, receive, send)

        tune_interpreter()
        config = uvicorn.Config(app, port=port, lifespan="off", log_level="error", access_log=False, backlog=BACKLOG)
        await uvicorn.Server(config).serve()
    await upstream.aclose()
    await container.close()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
