"""The ASGI application of the Memory Service."""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from threadkeep import __version__
from threadkeep.api import docs, openapi
from threadkeep.api.errors import json_response
from threadkeep.api.routes import events, sessions, spaces
from threadkeep.api.routing import Operation, routes
from threadkeep.api.schemas import VersionOut
from threadkeep.api.shell import build
from threadkeep.services.container import Container

PREFIX = "/api/v2"
OPERATIONS: list[Operation] = [*spaces.OPERATIONS, *sessions.OPERATIONS, *events.OPERATIONS]
# Routes are tried in order, so those that are called most come first.
_TRIED = [*events.OPERATIONS, *sessions.OPERATIONS, *spaces.OPERATIONS]
_VERSION = VersionOut(2, 49, "2.49.0", "2.49.0")
"""The version of the hosted contract that is served; its SDK probes for it."""


def create_app(container: Container) -> Starlette:
    """The Memory Service over HTTP, on services that are open; the caller closes them."""
    document = openapi.document(OPERATIONS, prefix=PREFIX, version=__version__)
    return build(
        [
            *routes(_TRIED, container, PREFIX),
            Route(f"{PREFIX}/version/", _version),
            *docs.routes(PREFIX, document),
        ],
        max_request_bytes=container.settings.max_request_bytes,
    )


async def _version(request: Request) -> Response:
    return json_response(_VERSION)
