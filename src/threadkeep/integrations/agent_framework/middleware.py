"""The middleware between the function loop and the client: it stores each service call, or marks it to be stored."""

import asyncio
import copy
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from typing import Any

from agent_framework import (
    AgentSession,
    ChatContext,
    ChatMiddleware,
    ChatResponse,
    ChatResponseUpdate,
    Message,
    ResponseStream,
)

from threadkeep.chat_history import MessageStatus
from threadkeep.integrations.agent_framework import conversation
from threadkeep.integrations.agent_framework.provider import ThreadkeepHistoryProvider
from threadkeep.integrations.agent_framework.record import RunRecord
from threadkeep.integrations.agent_framework.repair import repaired
from threadkeep.integrations.agent_framework.sessions import RecordedSession

# Writes that go on when whoever waited for them was cancelled; the loop itself holds them only weakly.
_writing: set[asyncio.Task[None]] = set()


class ChatHistoryPersistingMiddleware(ChatMiddleware):
    """Stores what each service call adds to a conversation; or only marks it, for one write at the end of the run.

    A `PersistentAgent` puts it in its place by itself. In a client stack of your own it is a chat middleware of the
    client:

    ```python
    client = OpenAIChatClient(middleware=[ChatHistoryPersistingMiddleware(history)])
    ```

    It also keeps the session's conversation id current after each call, and sends what a chat API accepts: calls
    without a result are answered by a text that says so, where history is kept here.

    Args:
        provider: whose chats are written.
        mark_only: mark messages and leave the writing to the end of the run.
    """

    holds_answers = False
    """Whether the last answer of a run is kept back until its caller has it, so that one which a filter refuses is not
    stored. For whoever commits the record at the end of the run."""

    def __init__(self, provider: ThreadkeepHistoryProvider, *, mark_only: bool = False) -> None:
        self.provider = provider
        self.mark_only = mark_only

    def record_for(self, session: AgentSession) -> RunRecord:
        """The record of the run that a service call belongs to."""
        return self.provider.shared_record_of(session)

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Send a service call what it needs, and note what it adds.

        Raises:
            ConversationConflict: the service keeps the conversation as well; what it answered is stored.
            DRMemoryServiceError: the call could not be stored.
        """
        session = context.session
        if session is None or isinstance(session, RecordedSession):
            await call_next()
            return
        self.provider.note_call(session)
        call = _ServiceCall(self, session, self.record_for(session))
        await call.begin(context)
        try:
            await call_next()
        except asyncio.CancelledError:
            await call.leave([])
            raise
        except Exception:
            # A filter further in may refuse what the service has answered; what it was sent has happened all the same.
            if isinstance(context.result, ChatResponse):
                await call.reject()
            raise
        if isinstance(context.result, ResponseStream):
            context.result = call.follow(context.result)
        elif context.result is not None:
            await call.end(context.result)


class _ServiceCall:
    """One service call on its way."""

    def __init__(self, middleware: ChatHistoryPersistingMiddleware, session: AgentSession, record: RunRecord) -> None:
        self._provider = middleware.provider
        self._mark_only = middleware.mark_only
        self._holds_answers = middleware.holds_answers
        self._session = session
        self._record = record
        self._inputs: list[Message] = []
        self._kept_by_service = False

    async def begin(self, context: ChatContext) -> None:
        if not self._mark_only and self._record.exchanges:
            # Whoever calls again has taken the answer before.
            await self._commit()
        options = dict(context.options or {})
        why = conversation.service_conversation(self._session, options, context.client)
        if why is not None and self._prefers_history():
            options.pop("conversation_id", None)
            context.kwargs.pop("conversation_id", None)
            context.options = {**options, "store": False}
            why = None
        self._kept_by_service = why is not None
        self._inputs = self._record.new_inputs(context.messages, self._provider.is_input)
        if why is None:
            context.messages = repaired(context.messages, dangling=self._provider.dangling)

    async def end(self, response: ChatResponse[Any]) -> None:
        """The service has answered."""
        unexpected = self._note_conversation(response)
        self._record.add(self._inputs, response.messages if self._provider.store_outputs else ())
        if not self._mark_only and (unexpected or not self._holds_answers or _asks_for_tools(response.messages)):
            await self._commit()
        if unexpected:
            raise conversation.refuse(unexpected)

    async def reject(self) -> None:
        """The service has answered, and the answer is not to be seen."""
        self._record.add(self._inputs, ())
        if not self._mark_only:
            await self._commit()

    async def leave(self, updates: Sequence[ChatResponseUpdate]) -> None:
        """Whoever asked has left, maybe in the middle of a text: what was said of it stays, marked interrupted."""
        partial = ChatResponse.from_updates(updates).messages if updates and self._provider.store_outputs else []
        self._record.add(self._inputs, [each for each in map(_spoken, partial) if each], MessageStatus.INTERRUPTED)
        if not self._mark_only:
            await to_the_end(self._commit())

    def follow(
        self, stream: ResponseStream[ChatResponseUpdate, ChatResponse[Any]]
    ) -> ResponseStream[ChatResponseUpdate, ChatResponse[Any]]:
        """The stream, followed to its end, wherever that is."""

        async def followed() -> AsyncGenerator[ChatResponseUpdate, None]:
            updates: list[ChatResponseUpdate] = []
            try:
                async for update in stream:
                    if self._prefers_history():
                        update.conversation_id = None
                    updates.append(copy.copy(update))
                    yield update
                response = await stream.get_final_response()
            except (GeneratorExit, asyncio.CancelledError):
                await stream.close()
                await self.leave(updates)
                raise
            except Exception:
                if updates:
                    await self.reject()
                raise
            await self.end(response)

        return ResponseStream(followed(), finalizer=lambda _: stream.get_final_response())

    def _prefers_history(self) -> bool:
        return self._provider.load_messages and self._provider.conflict == "prefer_history"

    def _note_conversation(self, response: ChatResponse[Any]) -> str | None:
        """Keep the session's conversation id current. Returns why this is a conflict, where it is an error."""
        if not conversation.is_service_id(response.conversation_id):
            return None
        if self._prefers_history():
            # The loop would send only what is new to a service that was asked to keep nothing.
            response.conversation_id = None
            return None
        self._session.service_session_id = response.conversation_id
        if self._kept_by_service or not self._provider.load_messages or self._provider.conflict == "prefer_service":
            return None
        why = f"it answered with the conversation {response.conversation_id!r}"
        if self._provider.conflict == "error":
            return why
        conversation.warn(why)
        return None

    async def _commit(self) -> None:
        await self._provider.commit(self._session, self._record)


def _asks_for_tools(messages: Sequence[Message]) -> bool:
    """Whether the function loop goes on after a response, so that it is not the run's answer."""
    return any(
        content.type == "function_approval_request"
        or (content.type == "function_call" and not content.informational_only)
        for message in messages
        for content in message.contents
    )


def _spoken(message: Message) -> Message | None:
    """What was said of a message that broke off. Calls that broke off were never made."""
    contents = [content for content in message.contents if content.type in ("text", "text_reasoning")]
    if not any(content.type == "text" and content.text for content in contents):
        return None
    spoken = copy.copy(message)
    spoken.contents = contents
    spoken.additional_properties = dict(message.additional_properties)
    return spoken


async def to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Do the work to its end. A second cancellation ends the waiting, not the work."""
    task = asyncio.create_task(work, name="store an interrupted service call")
    _writing.add(task)
    task.add_done_callback(_writing.discard)
    await asyncio.shield(task)
