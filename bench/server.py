"""The server under load, with an empty endpoint beside its own: `python -m bench.server DATABASE PORT`.

The empty endpoint reads the body and does nothing with it.
"""

import asyncio
import sys

import uvicorn
import uvloop
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from threadkeep.api.app import create_app
from threadkeep.cli.serving import tune_interpreter
from threadkeep.services.container import Container
from threadkeep.settings import Settings

TOKEN = "tk_bench"


async def _empty(request: Request) -> Response:
    await request.body()
    return Response(b"{}", 201, media_type="application/json")


async def serve(database: str, port: int) -> None:
    container = await Container.open(Settings(database=database))
    await container.tokens.ensure(TOKEN)
    app = create_app(container)
    app.router.routes.insert(0, Route("/empty/", _empty, methods=["POST"]))
    tune_interpreter()
    config = uvicorn.Config(app, port=port, lifespan="off", log_level="error", access_log=False, backlog=2048)
    await uvicorn.Server(config).serve()
    await container.close()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(sys.argv[1], int(sys.argv[2])))
