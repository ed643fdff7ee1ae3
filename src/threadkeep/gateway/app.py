"""The gateway as an ASGI application: what it is wired of, and the way in for a server that has both APIs.

Each noun has a file of routes, such as `run_routes.py`; what they share is in `endpoints.py`.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from threadkeep.api.shell import build
from threadkeep.gateway.agents import AgentSource, load_agent
from threadkeep.gateway.connect_routes import connect_routes
from threadkeep.gateway.connecting import Connecting
from threadkeep.gateway.copilotkit.routes import PREFIX as COPILOTKIT_PREFIX
from threadkeep.gateway.copilotkit.routes import copilotkit_routes
from threadkeep.gateway.endpoints import PREFIX, Endpoints, Identify
from threadkeep.gateway.histories import Histories
from threadkeep.gateway.interrupt_routes import interrupt_routes
from threadkeep.gateway.run_routes import run_routes
from threadkeep.gateway.runs import Runs
from threadkeep.gateway.thread_routes import thread_routes
from threadkeep.gateway.threads import Threads
from threadkeep.gateway.upstream import Upstream
from threadkeep.services.container import Container

KEEPALIVE_SECONDS = 15.0


@asynccontextmanager
async def open_gateway(container: Container, api: ASGIApp) -> AsyncIterator[ASGIApp]:
    """The Memory Service `api` and the gateway before the agent of the settings, as one application.

    Raises BadAgent.
    """
    settings = container.settings
    source: AgentSource = Upstream(settings.upstream) if settings.upstream else load_agent(settings.agent or "")
    gateway = build_app(container, api, source)

    async def both(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        is_ours = any(path == prefix or path.startswith(f"{prefix}/") for prefix in (PREFIX, COPILOTKIT_PREFIX))
        app = gateway if is_ours else api
        await app(scope, receive, send)

    try:
        async with gateway.router.lifespan_context(gateway):
            yield both
    finally:
        await source.aclose()


def build_app(
    container: Container,
    api: ASGIApp,
    agent: AgentSource,
    *,
    keepalive_seconds: float = KEEPALIVE_SECONDS,
    prefix: str = PREFIX,
    identify: Identify | None = None,
    has_probes: bool = True,
) -> Starlette:
    """The gateway before `agent`, on services that are open and the Memory Service `api` on the same services.

    Its lifespan has to run: it keeps the leases of runs, and stops them at the end. Its routes are below `prefix`,
    those of CopilotKit's runtime below their own; `identify` says who asks, where it is not our tokens that do.
    """
    histories = Histories(api)
    runs = Runs(container, histories, agent)
    threads = Threads(container, runs)
    connecting = Connecting(container, runs)
    endpoints = Endpoints(container, histories, prefix=prefix, identify=identify)
    # Below a mount, and beside the gateway's own routes in a server.
    copilotkit = Endpoints(container, histories, prefix=COPILOTKIT_PREFIX, identify=identify)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await runs.open()
        try:
            yield
        finally:
            await runs.close()

    return build(
        [
            *run_routes(endpoints, runs, keepalive_seconds),
            *thread_routes(endpoints, threads),
            *interrupt_routes(endpoints, container),
            *connect_routes(endpoints, connecting, keepalive_seconds),
            *copilotkit_routes(copilotkit, container, agent, runs, threads, connecting, keepalive_seconds),
        ],
        container,
        lifespan=lifespan,
        has_probes=has_probes,
    )
