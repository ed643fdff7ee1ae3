"""Several gateways on one database, as several processes have them: each with services and a bus of its own."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.gateway.stack import Client, open_client, serve
from threadkeep.api.app import create_app
from threadkeep.chat_history import AGUIAgent
from threadkeep.gateway.agents import agents_of
from threadkeep.services.container import Container
from threadkeep.settings import Settings


@dataclass
class Station:
    """One gateway and a client of it. `leave` closes both, as a process does that is asked to stop."""

    container: Container
    alice: Client
    stack: AsyncExitStack

    async def leave(self) -> None:
        await self.stack.aclose()


@asynccontextmanager
async def fleet(
    database: str, agent: AGUIAgent, count: int = 2, *, keepalive_seconds: float = 15.0, **settings: Any
) -> AsyncIterator[list[Station]]:
    """So many gateways before one agent, each with a client of the same user.

    A busy machine is no process that has died: a run is lost after a minute, where a test says nothing else.
    """
    settings = {"run_lease": 60, **settings}
    async with AsyncExitStack() as opened:
        stations: list[Station] = []
        secret: str | None = None
        for _ in range(count):
            stack = await opened.enter_async_context(AsyncExitStack())
            container = await Container.open(Settings(database=database, **settings))
            stack.push_async_callback(container.close)
            if secret is None:
                _, secret = await container.tokens.create(user="alice", name="test", may_act_for=True)
            gateway = await stack.enter_async_context(
                serve(container, create_app(container), agents_of(agent), keepalive_seconds=keepalive_seconds)
            )
            alice = await stack.enter_async_context(open_client(gateway, secret))
            stations.append(Station(container, alice, stack))
        yield stations
