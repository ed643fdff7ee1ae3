"""CopilotKit's routes of agents: what there is, run one, open a thread, stop it, ask for suggestions.

Each is served at a path of its own, and at one path for all with an envelope that names it.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from threadkeep.api.errors import json_response
from threadkeep.api.json import parse
from threadkeep.api.shell import path_part
from threadkeep.chat_history.ag_ui.endings import is_1_x
from threadkeep.chat_history.ag_ui.wire import event_json
from threadkeep.errors import Invalid, NotFound
from threadkeep.gateway.agents import AgentSource
from threadkeep.gateway.connecting import Connecting
from threadkeep.gateway.copilotkit.answers import not_stopped, runtime_info, stopped
from threadkeep.gateway.copilotkit.run_started import with_input
from threadkeep.gateway.endpoints import Endpoints
from threadkeep.gateway.guard import GuardedAgent
from threadkeep.gateway.histories import History
from threadkeep.gateway.inputs import RunBody, parse_body
from threadkeep.gateway.runs import Runs, RunStream
from threadkeep.gateway.sse import EventStream
from threadkeep.gateway.threads import Threads
from threadkeep.streams.run_log import Batch

_NO_BODY = b"{}"


class _Stop(msgspec.Struct):
    run_id: str | None = msgspec.field(default=None, name="runId")


class _Params(msgspec.Struct):
    agent_id: str | None = msgspec.field(default=None, name="agentId")
    thread_id: str = msgspec.field(default="", name="threadId")


class _Envelope(msgspec.Struct):
    method: str
    params: _Params = msgspec.field(default_factory=_Params)
    body: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(_NO_BODY))


_STOP = msgspec.json.Decoder(_Stop)
_ENVELOPE = msgspec.json.Decoder(_Envelope)
Act = Callable[[History, bytes], Awaitable[Response]]
"""What a route does with the body of a request."""


@dataclass(frozen=True, slots=True)
class Agent:
    """The one agent, by the name under which frontends ask for it. A stream says something now and then."""

    id: str
    source: AgentSource
    runs: Runs
    threads: Threads
    connecting: Connecting
    keepalive_seconds: float

    async def run(self, history: History, document: bytes) -> Response:
        """Run it, and stream what it says. Raises Invalid, RunActive, Conflict."""
        body = parse_body(document)
        stream = await self.runs.start(history, body)
        return self._answer(RunStream(stream.run_id, _with_input(stream.batches, body)))

    async def connect(self, history: History, document: bytes) -> Response:
        """Open a thread: what was said, and the live tail of its run. One that has said nothing yet ends at once."""
        body = parse_body(document)
        try:
            stream = await self.connecting.open(history, body.thread_id, speaks_1_x=is_1_x(body.protocol_version))
        except NotFound:
            # An empty snapshot would take away what its page already shows of a message that it is about to send.
            stream = RunStream(body.run_id, _nothing())
        return self._answer(stream)

    async def suggest(self, history: History, document: bytes) -> Response:
        """Run it for what a person could say next: nothing of it is stored, and it ends when its reader leaves."""
        given, agent = self.source.prepare(parse_body(document))
        return self._answer(RunStream(given.run_id, _unstored(GuardedAgent(agent), given)))

    async def stop(self, history: History, thread_id: str, document: bytes) -> Response:
        """Stop a run of the thread: the one that is named, else the active one."""
        named, reader = parse(document or _NO_BODY, _STOP)
        run_id = reader.optional_text(named.run_id)
        try:
            wanted = run_id or (await self.threads.get(history, thread_id))["activeRunId"]
            was_stopped = wanted is not None and await self.runs.cancel(history, thread_id, wanted)
        except NotFound:
            was_stopped = False
        return json_response(stopped() if was_stopped else not_stopped(thread_id, run_id))

    def check_id(self, agent_id: str) -> None:
        """Raise NotFound where another agent is asked for."""
        if agent_id != self.id:
            raise NotFound(f"There is no agent {agent_id!r}; the one here is {self.id!r}")

    def _answer(self, stream: RunStream) -> Response:
        return EventStream(stream.run_id, stream.batches, self.keepalive_seconds)


def agent_routes(endpoints: Endpoints, agent: Agent) -> list[Route]:
    """The routes below the prefix of `endpoints`."""
    acts: dict[str, Act] = {"run": agent.run, "connect": agent.connect, "suggest": agent.suggest}

    async def info(request: Request, history: History) -> Response:
        return json_response(runtime_info(agent.id))

    async def stop(request: Request, history: History) -> Response:
        agent.check_id(path_part(request, "agent_id"))
        return await agent.stop(history, path_part(request, "thread_id"), await request.body())

    def of_agent(act: Act) -> Callable[[Request, History], Awaitable[Response]]:
        async def handle(request: Request, history: History) -> Response:
            agent.check_id(path_part(request, "agent_id"))
            return await act(history, await request.body())

        return handle

    async def by_envelope(request: Request, history: History) -> Response:
        asked, reader = parse(await request.body(), _ENVELOPE)
        kind, _, name = asked.method.partition("/")
        document = reader.raw(asked.body).encode()
        if asked.method == "info":
            return json_response(runtime_info(agent.id))
        if kind != "agent" or name not in (*acts, "stop"):
            raise Invalid(f"{asked.method!r} is no method that is served here", ["method"])
        agent.check_id(reader.text(asked.params.agent_id or agent.id))
        if name == "stop":
            return await agent.stop(history, reader.text(asked.params.thread_id), document)
        return await acts[name](history, document)

    return [
        endpoints.route("", POST=by_envelope),
        endpoints.route("/", POST=by_envelope),
        endpoints.route("/info", GET=info),
        *(endpoints.route(f"/agent/{{agent_id}}/{name}", POST=of_agent(act)) for name, act in acts.items()),
        endpoints.route("/agent/{agent_id}/stop/{thread_id}", POST=stop),
    ]


async def _with_input(batches: AsyncGenerator[Batch, None], body: RunBody) -> AsyncGenerator[Batch, None]:
    async with aclosing(batches):
        async for batch in batches:
            yield [(index, with_input(event, body)) for index, event in batch]


async def _nothing() -> AsyncGenerator[Batch, None]:
    return
    yield


async def _unstored(agent: GuardedAgent, given: Any) -> AsyncGenerator[Batch, None]:
    async for event in agent.run(given):
        yield [(None, event_json(event))]
