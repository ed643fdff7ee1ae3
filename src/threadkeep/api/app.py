"""The ASGI application of the Memory Service."""

from starlette.applications import Starlette

from threadkeep import __version__
from threadkeep.api import docs, openapi
from threadkeep.api.routes import events, extractions, mem0, mem0_more, sessions, space_events, spaces, version
from threadkeep.api.routing import Operation, routes
from threadkeep.api.shell import build
from threadkeep.services.container import Container

PREFIX = "/api/v2"
OPERATIONS: list[Operation] = [
    *spaces.OPERATIONS,
    *sessions.OPERATIONS,
    *events.OPERATIONS,
    *extractions.OPERATIONS,
    *space_events.OPERATIONS,
    *mem0_more.OPERATIONS,
    *mem0.OPERATIONS,
    *version.OPERATIONS,
]
# Routes are tried in order, so those that are called most come first.
_TRIED = [
    *events.OPERATIONS,
    *sessions.OPERATIONS,
    *space_events.OPERATIONS,
    *spaces.OPERATIONS,
    *extractions.OPERATIONS,
    *mem0_more.OPERATIONS,
    *mem0_more.ALIASES,
    *mem0.OPERATIONS,
    *version.OPERATIONS,
]


def create_app(container: Container) -> Starlette:
    """The Memory Service over HTTP, on services that are open; the caller closes them."""
    document = openapi.document(OPERATIONS, prefix=PREFIX, version=__version__)
    return build(
        [
            *routes(_TRIED, container, PREFIX),
            *docs.routes(PREFIX, document),
        ],
        container,
    )
