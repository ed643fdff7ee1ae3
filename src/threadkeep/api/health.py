"""What machines ask of a server: is it alive, is it ready, what has it counted. None of it needs a token."""

import asyncio

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from threadkeep.api.errors import json_response
from threadkeep.errors import Unavailable
from threadkeep.services.container import Container
from threadkeep.telemetry import metrics

PATHS = frozenset(("/healthz", "/readyz", "/metrics"))


def routes(services: Container) -> list[Route]:
    """`/healthz`, `/readyz` and `/metrics`."""

    async def alive(request: Request) -> Response:
        return json_response({"status": "alive"})

    async def ready(request: Request) -> Response:
        try:
            revision = await services.health.check()
        except Unavailable as error:
            return json_response({"status": "not ready", "detail": str(error)}, 503)
        return json_response({"status": "ready", "schema": revision})

    async def counted(request: Request) -> Response:
        body, media_type = await asyncio.to_thread(metrics.exposed, request.headers.get("accept", ""))
        return Response(body, headers={"Content-Type": media_type})

    return [Route("/healthz", alive), Route("/readyz", ready), Route("/metrics", counted)]
