"""The history provider: chats of Threadkeep as the history of the framework's agents."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID
from weakref import WeakKeyDictionary, WeakSet

from agent_framework import (
    AgentSession,
    HistoryProvider,
    Message,
    SessionContext,
    SupportsAgentRun,
)

from threadkeep.chat_history import (
    ChatRepository,
    ChatRepositoryLike,
    ChatSessionRegistry,
    MessageRepository,
    MessageRepositoryLike,
    MessageStatus,
)
from threadkeep.chat_history import Message as Row
from threadkeep.integrations.agent_framework import conversation
from threadkeep.integrations.agent_framework.approvals import open_calls, restore_pending
from threadkeep.integrations.agent_framework.chats import Chats
from threadkeep.integrations.agent_framework.contents import restored
from threadkeep.integrations.agent_framework.conversation import CONFLICTS, Conflict
from threadkeep.integrations.agent_framework.leftovers import open_calls_of, stand_in_for, stand_ins
from threadkeep.integrations.agent_framework.marks import mark_stored
from threadkeep.integrations.agent_framework.matrix import Persistence, persistence_of
from threadkeep.integrations.agent_framework.record import RunRecord
from threadkeep.integrations.agent_framework.repair import Dangling, repaired
from threadkeep.integrations.agent_framework.rows import FrameworkMessage, FrameworkToolCallUpdate, RowChange, Write
from threadkeep.integrations.agent_framework.sessions import RecordedSession, session_of, user_of
from threadkeep.persistence import DRMemorySpace


class ThreadkeepHistoryProvider(HistoryProvider):
    """Keeps the history of agents as chats: the rows that the gateway writes and the API lists.

    ```python
    history = ThreadkeepHistoryProvider(space, user_id)
    agent = PersistentAgent(client, tools=[...], context_providers=[history])
    await agent.run("Hello!", session=history.create_session("thread-1"))
    ```

    A session's id is the thread id of its chat. In a `PersistentAgent` the chat is written after each service call; in
    a plain `Agent` at the end of each run, like by the framework's own providers. Nothing is stored twice: a message is
    known by its mark, by its id, or by its place in the conversation.

    Args:
        space: where the chats live. Not needed with repositories of your own.
        user_id: whose chats these are, unless a session names another user.
        chats: where chats are kept, instead of the space.
        messages: where messages are kept, instead of the space.
        source_id: names the provider among those of an agent.
        conflict: what happens where the model's service keeps the conversation as well.
        dangling: what a model is told of calls that have no result.
        load_messages: load history before a run. Without it the provider is a record that no model sees.
        store_inputs: store what agents are told.
        store_context_messages: store what other context providers add, as well.
        store_context_from: of which providers; all if None.
        store_outputs: store what agents say.

    Raises:
        ValueError: there is neither a space nor a pair of repositories, or `conflict` is unknown.
    """

    def __init__(
        self,
        space: DRMemorySpace | None = None,
        user_id: UUID | None = None,
        *,
        chats: ChatRepositoryLike | None = None,
        messages: MessageRepositoryLike | None = None,
        source_id: str = "threadkeep",
        conflict: Conflict = "error",
        dangling: Dangling = "close",
        load_messages: bool = True,
        store_inputs: bool = True,
        store_context_messages: bool = False,
        store_context_from: set[str] | None = None,
        store_outputs: bool = True,
    ) -> None:
        super().__init__(
            source_id,
            load_messages=load_messages,
            store_inputs=store_inputs,
            store_context_messages=store_context_messages,
            store_context_from=store_context_from,
            store_outputs=store_outputs,
        )
        if conflict not in CONFLICTS:
            raise ValueError(f"conflict is {conflict!r}; it must be one of {', '.join(CONFLICTS)}")
        if space is not None:
            registry = ChatSessionRegistry(space)
            chats = chats or ChatRepository(space, registry)
            messages = messages or MessageRepository(space, registry, message_cls=FrameworkMessage)
        if chats is None or messages is None:
            raise ValueError("A history provider needs a space, or chats and messages")
        self.user_id = user_id
        self.conflict: Conflict = conflict
        self.dangling: Dangling = dangling
        self._chats = Chats(chats, messages, "" if space is None else space.id)
        self._given_up: WeakKeyDictionary[AgentSession, list[Write]] = WeakKeyDictionary()
        self._records: WeakKeyDictionary[AgentSession, RunRecord] = WeakKeyDictionary()
        # Sessions whose run has come to its middleware: none does where another one answers in the model's place.
        self._called: WeakSet[AgentSession] = WeakSet()

    def create_session(self, thread_id: str, *, user_id: UUID | None = None) -> AgentSession:
        """A session for a thread.

        Args:
            thread_id: AG-UI's thread id; the session's id.
            user_id: whose chat it is; the provider's own user if None.

        Raises:
            ValueError: no user is named, here or for the provider.
        """
        return session_of(user_of({"user_id": user_id}, self.user_id), thread_id, self.source_id)

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        """The conversation of a thread as it is stored, results after their calls.

        Calls without a result are in it as they are; `repaired` makes of it what a model can be sent.

        Args:
            session_id: the thread id; None has no history.
            state: the provider's state in the session, which may name the user.
            kwargs: nothing.

        Raises:
            ValueError: no user is named.
            DRMemoryServiceError: the chat could not be read, which is not the same as its being empty.
        """
        if session_id is None:
            return []
        user_id = user_of(state, self.user_id)
        return self._restored(await self._chats.read(user_id, session_id), self._chats.key(user_id, session_id))

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Store those of these messages that the thread does not have yet.

        Args:
            session_id: the thread id; with None nothing is stored.
            messages: new ones, or a conversation that goes on from what is stored.
            state: the provider's state in the session, which may name the user.
            kwargs: nothing.

        Raises:
            ValueError: no user is named.
            DRMemoryServiceError: as for every call.
        """
        if session_id is None:
            return
        history = await self.get_messages(session_id, state=state)
        user_id = user_of(state, self.user_id)
        record = self._record(user_id, session_id)
        record.add(record.new_inputs([*history, *messages], lambda message: True), [])
        await self._chats.write(user_id, session_id, [*record.take(), *record.delivered(messages)])

    async def before_run(
        self, *, agent: SupportsAgentRun, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Load the conversation into the run, unless its service keeps it.

        Beside a service only the calls that a run left open are looked for: the service is told that nobody answers
        them, since it would refuse to go on.

        Raises:
            ConversationConflict: the service keeps it too, and `conflict` is "error".
            ValueError: no user is named.
            DRMemoryServiceError: the chat could not be read.
        """
        if isinstance(session, RecordedSession):
            return
        if persistence_of(agent) is not Persistence.INJECTED:
            self._records.pop(session, None)
        self._called.discard(session)
        options = {**getattr(agent, "default_options", {}), **context.options}
        why = conversation.service_conversation(session, options, getattr(agent, "client", None))
        beside_service = why is not None and not self._prefers_history(why)
        if beside_service and session.service_session_id is None:
            return
        if why is not None and not beside_service:
            session.service_session_id = None
        user_id = user_of(state, self.user_id)
        rows = await self._chats.read(user_id, session.session_id)
        history = self._restored(rows, self._chats.key(user_id, session.session_id))
        restore_pending(session, history, context.input_messages)
        awaited = open_calls(context.input_messages)
        self._give_up(session, rows, awaited)
        if beside_service:
            context.extend_messages(self, stand_ins(rows, awaited))
            return
        said = {call.agui_id or str(call.uuid): stand_in_for(call) for row in rows for call in row.tool_calls}
        context.extend_messages(self, repaired(history, dangling=self.dangling, open_calls=awaited, said=said))

    async def after_run(
        self, *, agent: SupportsAgentRun, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Store the run, where that is not done after each service call.

        Raises:
            ValueError: no user is named.
            DRMemoryServiceError: as for every call.
        """
        persistence = persistence_of(agent)
        was_called = session in self._called
        self._called.discard(session)
        if isinstance(session, RecordedSession) or persistence is Persistence.CALLERS_OWN:
            return
        if persistence is Persistence.INJECTED and was_called:
            return
        record = self._records.pop(session, None)
        if record is None:
            record = self.record_of(session, author=getattr(agent, "name", None) or "")
            self._add_run(record, context)
        response = context.response
        await self.commit(session, record, response.messages if response is not None else ())

    # What the middleware asks for

    def note_call(self, session: AgentSession) -> None:
        """Note that the middleware has a service call of the session's run."""
        self._called.add(session)

    def record_of(self, session: AgentSession, author: str = "") -> RunRecord:
        """A new record for a run on a session."""
        return self._record(user_of(session.state.get(self.source_id), self.user_id), session.session_id, author)

    def shared_record_of(self, session: AgentSession) -> RunRecord:
        """The record of the run that is going on in a session, where the middleware is part of the client."""
        record = self._records.get(session)
        if record is None:
            record = self._records[session] = self.record_of(session)
        return record

    async def commit(
        self,
        session: AgentSession,
        record: RunRecord,
        delivered: Sequence[Message] = (),
        *,
        with_last_response: bool = True,
    ) -> None:
        """Store what a record holds, in one transaction.

        Args:
            session: the session of the run.
            record: the record; empty afterwards.
            delivered: what the caller of the run is given, where it has ended.
            with_last_response: whether the last response was taken by whoever asked for it.
        """
        writes = record.take(with_last_response=with_last_response) + record.delivered(delivered)
        if writes:
            given_up = self._given_up.pop(session, [])
            user_id = user_of(session.state.get(self.source_id), self.user_id)
            await self._chats.write(user_id, session.session_id, [*given_up, *writes])

    def is_input(self, message: Message) -> bool:
        """Whether a message is to be stored that is part of what a service call is sent."""
        attribution = message.additional_properties.get("_attribution")
        source = attribution.get("source_id") if isinstance(attribution, Mapping) else None
        if source is None or source == self.source_id:
            return self.store_inputs
        return self.store_context_messages and (self.store_context_from is None or source in self.store_context_from)

    # The machinery

    def _prefers_history(self, why: str) -> bool:
        """Whether chat history is loaded although the service keeps the conversation. Raises where that is an error."""
        if self.conflict == "error":
            raise conversation.refuse(why)
        if self.conflict == "warn":
            conversation.warn(why)
        return self.conflict == "prefer_history"

    def _record(self, user_id: UUID, thread_id: str, author: str = "") -> RunRecord:
        key = self._chats.key(user_id, thread_id)
        return RunRecord(key, lambda: self._chats.stamp(key), author)

    def _restored(self, rows: Sequence[Row], key: str) -> list[Message]:
        history: list[Message] = []
        for row in rows:
            calls = {call.agui_id or str(call.uuid): call.uuid for call in row.tool_calls}
            for message in restored(row):
                if message.role == "tool":
                    mark_stored(message, key, None, {})
                else:
                    mark_stored(message, key, row.message_uuid, calls)
                history.append(message)
        return history

    def _give_up(self, session: AgentSession, rows: Sequence[Row], awaited: set[str]) -> None:
        """Note which calls nobody will answer any more: they end with the next write to the chat."""
        update = FrameworkToolCallUpdate(status=MessageStatus.INTERRUPTED, in_progress=False, awaiting=False)
        self._given_up[session] = [RowChange(call.uuid, update) for call in open_calls_of(rows, awaited)]

    def _add_run(self, record: RunRecord, context: SessionContext) -> None:
        """All messages of a run, as the framework has them at its end."""
        others: list[Message] = []
        if self.store_context_messages:
            others = context.get_messages(sources=self.store_context_from, exclude_sources={self.source_id})
        history = context.context_messages.get(self.source_id, [])
        asked = [*history, *others, *(context.input_messages if self.store_inputs else ())]
        answered = context.response.messages if context.response is not None and self.store_outputs else []
        record.add(record.new_inputs(asked, self.is_input), answered)
