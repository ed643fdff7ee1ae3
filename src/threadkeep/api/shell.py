"""What the Memory Service and the gateway have around their routes: one way to find a route and one shape of error."""

from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote

from starlette.applications import Starlette
from starlette.datastructures import ImmutableMultiDict
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from threadkeep.api import errors as error_table
from threadkeep.api import health
from threadkeep.api.context import RequestContext
from threadkeep.api.errors import json_response
from threadkeep.errors import Invalid
from threadkeep.services.container import Container

_SECTIONS = ("query", "path", "header")
"""Where in a request a value stands, if not in its body; no body has fields of these names."""


def build(
    routes: Sequence[BaseRoute],
    services: Container,
    *,
    lifespan: Callable[..., Any] | None = None,
    has_probes: bool = True,
) -> Starlette:
    """An application of these routes, matched by the path as it was sent; `has_probes` adds those that machines ask."""
    app = Starlette(
        routes=[*routes, *(health.routes(services) if has_probes else ())],
        middleware=[Middleware(RequestContext, services=services)],
        exception_handlers={HTTPException: _http_error},
        lifespan=lifespan,
    )
    # A redirect would lose the body or the token in some clients; the 404 names the right path.
    app.router.redirect_slashes = False
    return app


def path_part(request: Request, name: str) -> str:
    """A part of the path, decoded. It may hold any character, a slash and half a surrogate pair included."""
    text: str = request.path_params[name]
    try:
        return unquote(text, errors="surrogatepass")
    except UnicodeDecodeError:
        return unquote(text)


def query_params(request: Request) -> ImmutableMultiDict[str, str]:
    """The query, decoded as a part of the path is."""
    text = request.scope["query_string"].decode("latin-1")
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="surrogatepass")
    except UnicodeDecodeError:
        pairs = parse_qsl(text, keep_blank_values=True)
    return ImmutableMultiDict(pairs)


def invalid(error: Invalid, section: str) -> Response:
    """The answer to what breaks a rule, in `section` of the request where its place does not say another."""
    return error_table.answer(error if error.loc and error.loc[0] in _SECTIONS else error.under(section))


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.scope["path"]
    detail = error.detail
    if error.status_code == 404:
        hint = f"; every path ends in a slash: {path}/" if _is_served(request, path + "/") else ""
        detail = f"There is nothing at {path}{hint}"
    elif error.status_code == 405:
        detail = f"{request.method} is not served at {path}"
    return json_response({"detail": detail}, error.status_code, error.headers)


def _is_served(request: Request, path: str) -> bool:
    served: list[BaseRoute] = request.app.routes
    inside = path.removeprefix(request.scope.get("root_path", ""))
    return any(isinstance(route, Route) and route.path_regex.match(inside) for route in served)
