"""The async client on an in-process service: no server, no port."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import httpx

from threadkeep.errors import MissingExtra
from threadkeep.persistence import DRMemoryServiceClient
from threadkeep.transport.in_process import InProcessTransport

try:
    from threadkeep.api.app import create_app
    from threadkeep.api.context import PRINCIPAL
    from threadkeep.domain.principal import Principal
    from threadkeep.services.container import Container
    from threadkeep.settings import Settings
    from threadkeep.workers.runner import working
except ModuleNotFoundError as error:
    raise MissingExtra("server", "threadkeep.embedded") from error

# Nothing resolves or checks these; they only have to look like an address and a token.
_ENDPOINT = "http://threadkeep.embedded/api/v2"
_TOKEN = "embedded"
_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Inside:
    """What is behind a client of this process: the services, and the user who owns what it stores."""

    container: Container
    principal: Principal


_inside: WeakKeyDictionary[DRMemoryServiceClient, Inside] = WeakKeyDictionary()


@asynccontextmanager
async def client(
    database: str = "sqlite:///threadkeep.db", *, user: str = "local", work: bool = True
) -> AsyncIterator[DRMemoryServiceClient]:
    """A client on a Memory Service that runs inside this process and ends with the context.

    ```python
    async with embedded.client("sqlite:///chats.db") as client:
        space = await DRMemorySpace.post(client, deduplication_key="my-app")
    ```

    The database may be served later, by `threadkeep serve --database ...`: `threadkeep token create --user local` makes
    a token that sees what was stored here.

    Args:
        database: `sqlite:///FILE` or `postgresql://USER:PASSWORD@HOST/NAME`. Its schema is made, or brought up to date.
        user: The name of the user who owns what is stored; made where there is none.
        work: Run lifecycle strategies and the purge while the context is open, as a server would. What came due while
            nothing was open is done soon after the next opening.

    Raises:
        MissingExtra: The `server` extra is not installed, or `postgres` for a PostgreSQL database.
        Unavailable: The database gives no answer.
        ThreadkeepError: The URL cannot be used, or the schema is newer than this version knows.
    """
    container = await Container.open(Settings(database=database))
    try:
        principal = await container.tokens.local_principal(user)
        transport = InProcessTransport(create_app(container), {PRINCIPAL: principal})
        async with (
            working(container) if work else nullcontext(),
            httpx.AsyncClient(transport=transport, trust_env=False, timeout=_SECONDS) as http_client,
            DRMemoryServiceClient(endpoint=_ENDPOINT, api_token=_TOKEN, http_client=http_client) as opened,
        ):
            _inside[opened] = Inside(container, principal)
            yield opened
    finally:
        await container.close()


def behind(client: DRMemoryServiceClient) -> Inside:
    """The services behind a client that `client` has opened. Raises TypeError for one of another process."""
    inside = _inside.get(client)
    if inside is None:
        raise TypeError("The client is on a service of another process; open one with threadkeep.embedded.client")
    return inside
