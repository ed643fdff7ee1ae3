"""All routes of CopilotKit's runtime protocol, for one agent."""

from starlette.routing import Route

from threadkeep.gateway.agents import AgentSource
from threadkeep.gateway.archive import Archive
from threadkeep.gateway.connecting import Connecting
from threadkeep.gateway.copilotkit.agent_routes import Agent, agent_routes
from threadkeep.gateway.copilotkit.inspection import Inspection
from threadkeep.gateway.copilotkit.thread_routes import thread_routes
from threadkeep.gateway.endpoints import Endpoints
from threadkeep.gateway.runs import Runs
from threadkeep.gateway.threads import Threads
from threadkeep.services.container import Container

PREFIX = "/copilotkit"


def copilotkit_routes(
    endpoints: Endpoints,
    container: Container,
    source: AgentSource,
    runs: Runs,
    threads: Threads,
    connecting: Connecting,
    keepalive_seconds: float,
) -> list[Route]:
    """The routes below the prefix of `endpoints`, on the same runs and threads as the gateway's own."""
    agent_id = container.settings.copilotkit_agent
    agent = Agent(agent_id, source, runs, threads, connecting, keepalive_seconds)
    return [
        *agent_routes(endpoints, agent),
        *thread_routes(endpoints, threads, Archive(container), Inspection(container), agent_id),
    ]
