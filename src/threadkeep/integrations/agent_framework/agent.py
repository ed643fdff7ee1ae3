"""An agent whose history is stored after each service call, by the framework's own `Agent`."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any

from agent_framework import (
    Agent,
    AgentContext,
    AgentMiddleware,
    AgentResponse,
    AgentResponseUpdate,
    AgentSession,
    ContextProvider,
    MiddlewareTypes,
    ResponseStream,
)

from threadkeep.integrations.agent_framework.matrix import Persistence, persistence
from threadkeep.integrations.agent_framework.middleware import ChatHistoryPersistingMiddleware, to_the_end
from threadkeep.integrations.agent_framework.provider import ThreadkeepHistoryProvider
from threadkeep.integrations.agent_framework.record import RunRecord
from threadkeep.integrations.agent_framework.sessions import RecordedSession

logger = logging.getLogger("threadkeep.integrations.agent_framework")


class PersistentAgent(Agent[Any]):
    """The framework's `Agent`, whose chats are written after each service call of the function loop.

    ```python
    history = ThreadkeepHistoryProvider(space, user_id)
    agent = PersistentAgent(client, tools=[get_weather], context_providers=[history])
    await agent.run("How is the weather?", session=history.create_session("thread-1"))
    ```

    | `use_provided_chat_client_as_is` | `persist_chat_history_at_end_of_run` | what is stored |
    | --- | --- | --- |
    | False | False | each service call when it has been answered: its new inputs and its response |
    | True | False | what the middleware in the client's own stack stores, or nothing |
    | False | True | the same as in the first row, in one write at the end of the run; nothing of a run that fails |
    | True | True | what the middleware in the client's own stack has marked; all messages, and a warning, without one |

    Args:
        client: the chat client.
        instructions: what the agent is to do.
        persist_chat_history_at_end_of_run: store a run at its end instead of each service call.
        use_provided_chat_client_as_is: put nothing between the function loop and the client.
        context_providers: `ThreadkeepHistoryProvider`s among them are written as the matrix says; others are left to
            the framework.
        middleware: as for `Agent`.
        kwargs: as for `Agent`.
    """

    def __init__(
        self,
        client: Any,
        instructions: str | None = None,
        *,
        persist_chat_history_at_end_of_run: bool = False,
        use_provided_chat_client_as_is: bool = False,
        context_providers: Sequence[ContextProvider] | None = None,
        middleware: Sequence[MiddlewareTypes] | None = None,
        **kwargs: Any,
    ) -> None:
        self.chat_history_persistence = persistence(
            client_as_is=use_provided_chat_client_as_is, at_end_of_run=persist_chat_history_at_end_of_run
        )
        own: list[MiddlewareTypes] = []
        if self.chat_history_persistence is Persistence.INJECTED:
            own.append(_PersistedRuns(at_end=persist_chat_history_at_end_of_run))
        super().__init__(
            client,
            instructions,
            context_providers=context_providers,
            middleware=[*own, *(middleware or ())],
            **kwargs,
        )
        if self.chat_history_persistence is Persistence.AT_END and not is_persisting(client):
            logger.warning(
                "agent %r uses its chat client as it is and stores at the end of runs, but there is no "
                "ChatHistoryPersistingMiddleware in the client: all messages are stored, results included that no "
                "service call ever received",
                self.name or self.id,
            )


def is_persisting(client: object) -> bool:
    """Whether a chat client has the persisting middleware in its own stack."""
    middleware = getattr(client, "chat_middleware", None) or ()
    return any(isinstance(each, ChatHistoryPersistingMiddleware) for each in middleware)


class _PersistedRuns(AgentMiddleware):
    """Stands around each run: gives it its records, and stores what is left of them when the run has ended."""

    def __init__(self, *, at_end: bool) -> None:
        self._at_end = at_end

    async def process(self, context: AgentContext, call_next: Callable[[], Awaitable[None]]) -> None:
        if isinstance(context.session, RecordedSession):
            await call_next()
            return
        run = _PersistedRun(context, at_end=self._at_end)
        context.client_kwargs = {**context.client_kwargs, "middleware": [*run.outer_middleware(), *run.middleware]}
        try:
            await call_next()
        except Exception:
            await run.fail()
            raise
        except BaseException:
            await run.leave()
            raise
        result = context.result
        if isinstance(result, ResponseStream):
            context.result = run.follow(result)
        elif result is not None:
            await run.end(result)


class _PersistedRun:
    """One run: a record and a middleware for each provider."""

    def __init__(self, context: AgentContext, *, at_end: bool) -> None:
        self._at_end = at_end
        self._context = context
        providers = getattr(context.agent, "context_providers", ())
        self.middleware = [
            _RunMiddleware(provider, mark_only=at_end, author=context.agent.name or "")
            for provider in providers
            if isinstance(provider, ThreadkeepHistoryProvider)
        ]

    def outer_middleware(self) -> list[Any]:
        given = self._context.client_kwargs.get("middleware") or ()
        return list(given) if isinstance(given, Sequence) else [given]

    async def end(self, response: AgentResponse[Any]) -> None:
        for each in reversed(self.middleware):
            await each.commit(response)

    async def fail(self) -> None:
        """The run has failed. What was stored stays; an answer that nobody was given is not stored."""
        for each in reversed(self.middleware):
            if self._at_end:
                each.forget()
            else:
                await each.commit(None, with_last_response=False)

    async def leave(self) -> None:
        """Whoever asked has left. What was said until then stays, unless the run is stored as a whole or not at all."""
        for each in reversed(self.middleware):
            if self._at_end:
                each.forget()
            else:
                await to_the_end(each.commit(None))

    def follow(
        self, stream: ResponseStream[AgentResponseUpdate, AgentResponse[Any]]
    ) -> ResponseStream[AgentResponseUpdate, AgentResponse[Any]]:
        async def followed() -> AsyncGenerator[AgentResponseUpdate, None]:
            try:
                async for update in stream:
                    yield update
                response = await stream.get_final_response()
            except (GeneratorExit, asyncio.CancelledError):
                # The function loop is told first, so that the service call that is going on can end.
                await stream.close()
                await self.leave()
                raise
            except Exception:
                await self.fail()
                raise
            await self.end(response)

        return ResponseStream(followed(), finalizer=lambda _: stream.get_final_response())


class _RunMiddleware(ChatHistoryPersistingMiddleware):
    """The middleware of one run. Its record begins with the first service call, when the session is known."""

    holds_answers = True

    def __init__(self, provider: ThreadkeepHistoryProvider, *, mark_only: bool, author: str) -> None:
        super().__init__(provider, mark_only=mark_only)
        self._author = author
        self._session: AgentSession | None = None
        self._record: RunRecord | None = None
        self._began_at: Any = None

    def record_for(self, session: AgentSession) -> RunRecord:
        if self._record is None:
            self._session, self._began_at = session, session.service_session_id
            self._record = self.provider.record_of(session, self._author)
        return self._record

    def forget(self) -> None:
        """The run is not stored: the session is where it was before, at its service as well."""
        if self._session is not None:
            self._session.service_session_id = self._began_at

    async def commit(self, response: AgentResponse[Any] | None, *, with_last_response: bool = True) -> None:
        if self._record is None or self._session is None:
            return
        delivered = response.messages if response is not None else ()
        if delivered:
            self._record.replace_answer(delivered)
        await self.provider.commit(self._session, self._record, delivered, with_last_response=with_last_response)
