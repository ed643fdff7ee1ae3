"""A durable log for the runs of agents in this process, in the database of an embedded client.

What a run says is in the session of its chat, so that it goes when the chat goes, and nobody but its owner reads it.
"""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from threadkeep.chat_history import ChatCreate, ChatRepository
from threadkeep.chat_history.ag_ui.wire import input_json, message_fields
from threadkeep.chat_history.chat_names import name_of_chat
from threadkeep.chat_history.constants import chat_deduplication_key
from threadkeep.domain.interrupt import Interrupt
from threadkeep.domain.resume import BLOCK, CANCEL, read_answers
from threadkeep.domain.run import Run, RunKey
from threadkeep.embedded.client import Inside, behind
from threadkeep.embedded.leases import Leases
from threadkeep.errors import NotFound, RunActive, ThreadkeepError
from threadkeep.ids import new_id
from threadkeep.services.run_log import RunLog as Events
from threadkeep.services.run_writer import RunWriter
from threadkeep.services.runs import Runs
from threadkeep.services.sessions import Filters
from threadkeep.streams.run_log import LoggedEvent, RunEnding


@asynccontextmanager
async def run_log(
    chats: ChatRepository, user_uuid: UUID, *, lease_seconds: float = 15.0, open_interrupts: str = BLOCK
) -> AsyncIterator["RunLog"]:
    """The log of one user's runs, for a StreamPersistenceManager. Leave its block when the runs are drained.

    ```python
    async with embedded.client("sqlite:///chats.db") as client:
        space = await DRMemorySpace.post(client, deduplication_key="my-app")
        chats, messages = ChatRepository(space), MessageRepository(space)
        async with embedded.run_log(chats, user_uuid) as log:
            manager = StreamPersistenceManager(
                lambda: AGUIStorageAgent("assistant", user_uuid, chats, messages, agent), run_log=log
            )
    ```

    Args:
        chats: Where the user's chats are kept, on a client that `embedded.client` has opened.
        user_uuid: Whose chats these are; the same as the storage agent's.
        lease_seconds: Seconds within which another process that has such a log ends the runs of one that has died.
        open_interrupts: What an input without answers does while its thread has open interrupts: `block` (`manager.run`
            raises InterruptsOpen), `cancel` (they are cancelled; put it into the `resume` that your agent gets if it
            has to know), or `auto` (block where the input says that it is of AG-UI 1.x, else cancel).

    Raises:
        TypeError: The client is on a service of another process.
        ValueError: `open_interrupts` is none of these, or `lease_seconds` is not positive.
    """
    if open_interrupts not in (BLOCK, CANCEL, "auto"):
        raise ValueError(f"open_interrupts is block, cancel or auto, not {open_interrupts!r}")
    if lease_seconds <= 0:
        raise ValueError(f"lease_seconds is a positive number, not {lease_seconds!r}")
    inside = behind(chats.space.client)
    leases = Leases(inside.container, chats.space.id, new_id(), lease_seconds)
    async with leases.kept():
        yield RunLog(inside, chats, user_uuid, leases, open_interrupts)


class RunLog:
    """What `run_log` opens: where the runs of a user are kept, and read again at any time, by any process."""

    def __init__(
        self, inside: Inside, chats: ChatRepository, user_uuid: UUID, leases: Leases, open_interrupts: str
    ) -> None:
        self._services = inside.container
        self._principal = inside.principal
        self._chats = chats
        self._user_uuid = user_uuid
        self._leases = leases
        self._open_interrupts = open_interrupts

    async def begin(self, run_input: Any, cancel: Callable[[], object]) -> RunWriter:
        """Begin a run, or find it where it was begun before: what StreamPersistenceManager calls.

        Raises RunActive (the thread has another run), Invalid, InterruptsOpen, InterruptAnswered, InterruptExpired,
        Unavailable.
        """
        await self._leases.recover()
        session_id = await self._session_of(run_input)
        key = RunKey(self._chats.space.id, session_id, run_input.run_id)
        async with self._leases.beginning.of(key):
            run, is_ours = await self._begin(key, run_input)
            if not is_ours:
                return _Known(self._services.runs, self._services.run_log, run)
            self._leases.hold(key, cancel)
        return _Held(self._services.runs, self._services.run_log, run, self._leases)

    async def _begin(self, key: RunKey, run_input: Any) -> tuple[Run, bool]:
        """The run's row, and whether it is for the caller to carry out."""
        text = input_json(run_input).decode("utf-8", "surrogatepass")
        place = (self._principal, key.space_id, key.session_id)
        parent = getattr(run_input, "parent_run_id", None)
        try:
            answers = read_answers(json.loads(text), self._open_interrupts)
            seen = await self._services.interrupts.preview(*place, answers, run_id=key.run_id, parent_run_id=parent)
            begun = await self._services.runs.begin(
                *place,
                run_id=key.run_id,
                parent_run_id=parent,
                owner=self._leases.owner,
                lease_seconds=self._leases.seconds,
                input=text,
                answers=answers,
                seen=seen,
            )
            return begun, True
        except ThreadkeepError as error:
            known = await self._get(key.session_id, key.run_id)
            if known is not None:
                # Made by a call whose answer was lost, be it this one: nobody else knows of it.
                is_ours = known.is_open and known.owner == self._leases.owner and known.input == text
                return known, is_ours and not self._leases.has(key)
            if isinstance(error, RunActive):
                raise RunActive(run_input.thread_id, error.run_id) from None
            raise

    async def follow(self, thread_id: str, run_id: str, after: int = -1) -> AsyncIterator[LoggedEvent]:
        """The events of a run behind an index, those that are there and those that come, to its end.

        Args:
            thread_id: AG-UI's thread id.
            run_id: AG-UI's run id.
            after: The index of the last event that the reader has seen; -1 for all.

        Raises:
            NotFound: The user has no such run.
            Unavailable: The database gives no answer.
        """
        async for event in self._services.run_log.follow((await self._find(thread_id, run_id)).key, after):
            yield event

    async def cancel(self, thread_id: str, run_id: str) -> bool:
        """Have a run end, whatever process carries it out. It ends a moment later; `follow` says when.

        Returns:
            Whether there was something to cancel; False for a run that has ended.

        Raises:
            NotFound: The user has no such run.
            Unavailable: The database gives no answer.
        """
        key = (await self._find(thread_id, run_id)).key
        return await self._services.runs.want_cancel(self._principal, key.space_id, key.session_id, key.run_id)

    async def interrupts(self, thread_id: str) -> list[Interrupt]:
        """The newest hundred interrupts of a thread, those that can be answered first.

        Raises:
            NotFound: The user has no such thread.
            Unavailable: The database gives no answer.
        """
        session_id = await self._known_session(thread_id)
        return await self._services.interrupts.page(self._principal, self._chats.space.id, session_id)

    async def _session_of(self, run_input: Any) -> str:
        """The session of the thread's chat; a thread begins with its first run."""
        try:
            return await self._known_session(run_input.thread_id)
        except NotFound:
            messages = [message_fields(each) for each in run_input.messages]
            new = ChatCreate(user_uuid=self._user_uuid, thread_id=run_input.thread_id, name=name_of_chat(messages))
            return (await self._chats.create_chat(new)).id

    async def _known_session(self, thread_id: str) -> str:
        filters = Filters(key=chat_deduplication_key(self._user_uuid, thread_id))
        found, _ = await self._services.sessions.page(self._principal, self._chats.space.id, filters, limit=1)
        if not found:
            raise NotFound(f"There is no thread {thread_id!r}")
        return found[0].id

    async def _find(self, thread_id: str, run_id: str) -> Run:
        run = await self._get(await self._known_session(thread_id), run_id)
        if run is None:
            raise NotFound(f"There is no run {run_id!r} in the thread {thread_id!r}")
        return run

    async def _get(self, session_id: str, run_id: str) -> Run | None:
        try:
            return await self._services.runs.get(self._principal, self._chats.space.id, session_id, run_id)
        except NotFound:
            return None


class _Known(RunWriter):
    """A run that was begun before: it is followed, here or in the process that carries it out."""

    is_new = False


class _Held(RunWriter):
    """A run whose lease is this process's until it has ended, or somebody else has it."""

    def __init__(self, runs: Runs, log: Events, run: Run, leases: Leases) -> None:
        super().__init__(runs, log, run)
        self._leases = leases

    async def append(self, first: int, events: Sequence[bytes]) -> None:
        """Raises LeaseLost, Unavailable."""
        with self._leases.dropping(self.run.key):
            await super().append(first, events)

    async def finish(self, first: int, events: Sequence[bytes], ending: RunEnding) -> None:
        """Raises LeaseLost, Unavailable."""
        with self._leases.dropping(self.run.key):
            await super().finish(first, events, ending)
        self._leases.drop(self.run.key)
