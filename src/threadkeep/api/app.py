"""The ASGI application of the Memory Service."""

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from threadkeep import __version__
from threadkeep.api import docs, openapi
from threadkeep.api.context import RequestContext
from threadkeep.api.errors import json_response
from threadkeep.api.routes import events, sessions, spaces
from threadkeep.api.routing import Operation, routes
from threadkeep.api.schemas import VersionOut
from threadkeep.services.container import Container

PREFIX = "/api/v2"
OPERATIONS: list[Operation] = [*spaces.OPERATIONS, *sessions.OPERATIONS, *events.OPERATIONS]
_VERSION = VersionOut(2, 49, "2.49.0", "2.49.0")
"""The version of the hosted contract that is served; its SDK probes for it."""


def create_app(container: Container) -> Starlette:
    """The Memory Service over HTTP, on services that are open; the caller closes them."""
    document = openapi.document(OPERATIONS, prefix=PREFIX, version=__version__)
    app = Starlette(
        routes=[
            Route(f"{PREFIX}/version/", _version),
            *docs.routes(PREFIX, document),
            *routes(OPERATIONS, container, PREFIX),
        ],
        middleware=[Middleware(RequestContext, max_request_bytes=container.settings.max_request_bytes)],
        exception_handlers={HTTPException: _http_error},
    )
    # A redirect would lose the body or the token in some clients; the 404 names the right path.
    app.router.redirect_slashes = False
    return app


async def _version(request: Request) -> Response:
    return json_response(_VERSION)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = error.detail
    if error.status_code == 404:
        detail = _no_such_path(request)
    if error.status_code == 405:
        detail = f"{request.method} is not served at {request.url.path}"
    return json_response({"detail": detail}, error.status_code, error.headers)


def _no_such_path(request: Request) -> str:
    path = request.url.path
    if not path.endswith("/") and _is_served(request, path + "/"):
        return f"There is nothing at {path}; every path ends in a slash: {path}/"
    return f"There is nothing at {path}"


def _is_served(request: Request, path: str) -> bool:
    served: list[BaseRoute] = request.app.routes
    return any(isinstance(route, Route) and route.path_regex.match(path) for route in served)
