"""Operations: a route, what it takes and gives, and the function behind it, in one place.

From an operation come the route that serves it and its page in the OpenAPI document.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
from starlette.datastructures import ImmutableMultiDict
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from threadkeep.api import errors as error_table
from threadkeep.api import idempotency
from threadkeep.api.context import FENCE, PRINCIPAL, TOKEN_ID
from threadkeep.api.json import Reader, parse
from threadkeep.api.shell import invalid, query_params
from threadkeep.domain import limits
from threadkeep.domain.principal import Principal
from threadkeep.domain.run import Fence
from threadkeep.domain.token import READ, WRITE
from threadkeep.errors import DeduplicationConflict, Forbidden, Invalid, ThreadkeepError
from threadkeep.services.container import Container
from threadkeep.services.events import Events
from threadkeep.services.idempotency import Answered, Once

T = TypeVar("T")
LINES = "application/x-ndjson"
_NOBODY = Principal("", "", scopes=frozenset())


@dataclass(slots=True)
class Call:
    """One request on its way through an operation."""

    request: Request
    services: Container
    principal: Principal
    body: Any = None
    reader: Reader = field(default_factory=Reader)
    key: idempotency.RequestKey | None = None

    @property
    def space_id(self) -> str:
        return str(self.request.path_params["space_id"])

    @property
    def session_id(self) -> str:
        return str(self.request.path_params["session_id"])

    @property
    def events(self) -> Events:
        """The events, behind the fence of the run in whose name the call is made."""
        fence: Fence | None = self.request.scope.get(FENCE)
        return self.services.events if fence is None else self.services.events_behind(fence)

    def once(self, answer: Callable[[T], Response]) -> Once[T] | None:
        """How the call acts once, where its sender gave it an Idempotency-Key; `answer` is what a result becomes."""
        return None if self.key is None else self.key.once(self.principal, answer)

    def query(self, name: str) -> str | None:
        """The last value of a query parameter, as clients that repeat one expect."""
        return self.params.get(name)

    @property
    def params(self) -> ImmutableMultiDict[str, str]:
        return query_params(self.request)

    def integer(self, name: str, default: int) -> int:
        """A whole number from the query. Raises Invalid."""
        text = self.query(name)
        return default if text is None else parse_integer(text, "query", name)


Handler = Callable[[Call], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Query:
    """A query parameter, as the OpenAPI document shows it."""

    name: str
    schema: dict[str, Any]
    description: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class Header:
    """A request header, as the OpenAPI document shows it."""

    name: str
    schema: dict[str, Any]
    description: str


@dataclass(frozen=True, slots=True)
class Operation:
    """One method on one path."""

    method: str
    path: str
    summary: str
    handler: Handler
    takes: Any = None
    gives: Any = None
    status: int = 200
    query: tuple[Query, ...] = ()
    headers: tuple[Header, ...] = ()
    fails: tuple[int, ...] = ()
    page: bool = False
    lines: bool = False
    needs_token: bool = True
    reads: bool = False
    """Whether a token that may only read may call it, though it is no GET: a search has a body."""
    plain: bool = False
    """Whether what breaks a rule is answered by a 400 with a sentence, for clients that read no list of rules."""


IDEMPOTENCY_KEY = Header(
    "Idempotency-Key",
    {"type": "string", "pattern": idempotency.PATTERN},
    "Lets the request be repeated: the first answer to the key comes again, and nothing is done twice.",
)
LIMIT = Query("limit", {"type": "integer", "minimum": 1, "maximum": limits.PAGE, "default": limits.PAGE}, "Items.")
EVENT_TYPE = Query("eventType", {"type": "string"}, "Only events of exactly this type.")
OFFSET = Query(
    "offset",
    {"type": "integer", "minimum": 0, "maximum": limits.INTEGER, "default": 0},
    "Items to leave out at the start.",
)


def routes(operations: list[Operation], services: Container, prefix: str) -> list[Route]:
    """The routes that serve the operations."""
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in operations:
        by_path.setdefault(operation.path, {})[operation.method] = operation
    return [
        Route(prefix + path, _Endpoint(by_method, services), methods=list(by_method))
        for path, by_method in by_path.items()
    ]


def parse_integer(text: str, *loc: str | int) -> int:
    """Raises Invalid where the text is no whole number."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 19:
        raise Invalid(f"{text!r} is not a whole number that is served here", loc, "int_parsing")
    return int(text)


class _Endpoint:
    """What is behind a path. An ASGI application and no function, which spares each request some wrapping."""

    def __init__(self, by_method: dict[str, Operation], services: Container) -> None:
        self._services = services
        self._by_method = {
            method: (operation, None if operation.takes is None else msgspec.json.Decoder(operation.takes))
            for method, operation in by_method.items()
        }
        if "GET" in by_method:
            self._by_method["HEAD"] = self._by_method["GET"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._answer(Request(scope, receive, send))
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        operation, decoder = self._by_method[request.method]
        try:
            principal = (
                await authenticate(request, self._services, reads=operation.reads) if operation.needs_token else _NOBODY
            )
            call = Call(request, self._services, principal)
            if decoder is not None:
                # A client that has nothing to say may send nothing.
                document = await _read(request)
                call.body, call.reader = parse(document or b"{}", decoder)
                if operation.method == "POST":
                    call.key = idempotency.read(request, document)
            return await operation.handler(call)
        except Answered as first:
            return idempotency.again(first)
        except DeduplicationConflict as error:
            collection = request.scope["path"].removesuffix("new/")
            return error_table.answer(error, f"{request.base_url}".rstrip("/") + collection)
        except Invalid as error:
            if operation.plain:
                return error_table.plain_answer(error)
            return invalid(error, "query" if decoder is None else "body")
        except ThreadkeepError as error:
            return error_table.answer(error)


async def _read(request: Request) -> bytes:
    """The body; nearly always it comes in one piece."""
    message = await request.receive()
    body: bytes = message.get("body", b"")
    if not message.get("more_body", False):
        return body
    parts = [body]
    while message.get("more_body", False):
        message = await request.receive()
        parts.append(message.get("body", b""))
    return b"".join(parts)


async def authenticate(request: Request, services: Container, *, reads: bool = False) -> Principal:
    """Who is calling, with a token that is for calls of this kind.

    A refusal says nothing of what there is. Raises Unauthorized, Forbidden, RateLimited, Invalid.
    """
    vouched: Principal | None = request.scope.get(PRINCIPAL)
    if vouched is not None:
        return vouched
    authorization = on_behalf_of = None
    for name, value in request.scope["headers"]:
        if name == b"authorization":
            authorization = value.decode("latin-1")
        elif name == b"x-threadkeep-user":
            on_behalf_of = value.decode("latin-1")
    principal = await services.tokens.authenticate(authorization, on_behalf_of)
    if principal.token_id is not None:
        request.scope[TOKEN_ID] = principal.token_id
        services.rates.check(principal.token_id)
    scope = READ if reads or request.method in ("GET", "HEAD") else WRITE
    if scope not in principal.scopes:
        raise Forbidden(f"This token may only {' and '.join(sorted(principal.scopes))}: {request.method} is a {scope}")
    return principal
