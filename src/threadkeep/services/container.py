"""The few objects of the server, built by hand in one place."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from threadkeep.domain.run import Fence
from threadkeep.memory.endpoints import Endpoints
from threadkeep.memory.ports import Embedder
from threadkeep.services.additions import Additions
from threadkeep.services.attempts import Models
from threadkeep.services.compaction import Compaction
from threadkeep.services.embedding import Embedding
from threadkeep.services.erasure import Erasure
from threadkeep.services.events import Events
from threadkeep.services.extraction import Extractions
from threadkeep.services.health import Health
from threadkeep.services.inference import Inference
from threadkeep.services.interrupts import Interrupts
from threadkeep.services.jobs import Jobs
from threadkeep.services.lifecycle import Lifecycle
from threadkeep.services.memories import Memories
from threadkeep.services.purge import Purge
from threadkeep.services.rates import Rates
from threadkeep.services.run_log import RunLog
from threadkeep.services.runs import Runs
from threadkeep.services.sessions import Sessions
from threadkeep.services.space_events import SpaceEvents
from threadkeep.services.spaces import Spaces
from threadkeep.services.tokens import Tokens
from threadkeep.services.transfer import Transfer
from threadkeep.settings import Settings
from threadkeep.storage.database import Database, identity_of, open_database
from threadkeep.storage.fenced import FencedDatabase
from threadkeep.storage.migrate import migrate
from threadkeep.streams.bus import Bus
from threadkeep.streams.local import LocalBus
from threadkeep.telemetry.access_log import AccessLog

if TYPE_CHECKING:
    from threadkeep.telemetry.tracing import Tracing

FINAL_EXTRACTIONS = ("always", "expired", "never")


@dataclass(frozen=True, slots=True)
class Container:
    """The services on one open database."""

    settings: Settings
    database: Database
    spaces: Spaces
    sessions: Sessions
    events: Events
    space_events: SpaceEvents
    tokens: Tokens
    bus: Bus
    runs: Runs
    run_log: RunLog
    interrupts: Interrupts
    jobs: Jobs
    lifecycle: Lifecycle
    purge: Purge
    compaction: Compaction
    erasure: Erasure
    transfer: Transfer
    memories: Memories
    additions: Additions
    embedding: Embedding
    models: Models
    extractions: Extractions
    inference: Inference
    health: Health
    rates: Rates
    access_log: AccessLog | None = None
    tracing: "Tracing | None" = None

    @classmethod
    async def open(
        cls,
        settings: Settings,
        *,
        access_log: AccessLog | None = None,
        tracing: "Tracing | None" = None,
        embedder: Embedder | None = None,
        models: Models | None = None,
    ) -> "Container":
        """Bring the schema up to date, open the database and wire the services.

        Memories are extracted with `models` and searched by meaning with the `embedder`, where these are given instead
        of those that the settings say.
        Requests are told to `access_log` and `tracing`, which stay the caller's: they are not closed here.
        Raises BadDatabaseURL, BadValkeyURL, BadModelSettings, BadAllowance, MissingExtra, SchemaTooNew, Unavailable.
        """
        endpoints = Endpoints(settings)
        bus = _bus(settings)
        try:
            await migrate(settings.database)
            database = await open_database(settings.database, connections=settings.database_connections)
        except BaseException:
            await bus.close()
            raise
        if tracing is not None:
            from threadkeep.storage.traced import TracedDatabase

            database = TracedDatabase(database, tracing)
        along = settings.delete_memories_along
        embedding = Embedding(database, embedder or endpoints.embedder)
        memories = Memories(database, embedding)
        jobs = Jobs(database)
        models = models or endpoints
        return cls(
            settings,
            database,
            Spaces(database),
            Sessions(database, final_extraction=settings.final_extraction == "always", memories_too=along),
            Events(database, max_content=settings.max_content, memories_too=along),
            SpaceEvents(database),
            Tokens(database),
            bus,
            Runs(database, bus),
            RunLog(database, bus),
            Interrupts(database),
            jobs,
            Lifecycle(database, final_extraction=settings.final_extraction != "never"),
            Purge(database, after_days=settings.purge_after),
            Compaction(database, jobs),
            Erasure(database),
            Transfer(database),
            memories,
            Additions(database),
            embedding,
            models,
            Extractions(database, jobs, memories.candidates, models, attempts=settings.llm_attempts),
            Inference(database, jobs, memories.candidates, models, attempts=settings.llm_attempts),
            Health(database),
            Rates(settings.rate_limit),
            access_log,
            tracing,
        )

    def events_behind(self, fence: Fence) -> Events:
        """The events for what is done in the name of a run: writes raise LeaseLost where it is its owner's no more."""
        settings, fenced = self.settings, FencedDatabase(self.database, fence)
        return Events(fenced, max_content=settings.max_content, memories_too=settings.delete_memories_along)

    async def close(self) -> None:
        """Finish what was accepted and let go of the database."""
        await self.tokens.close()
        await self.models.close()
        await self.bus.close()
        await self.database.close()


def _bus(settings: Settings) -> Bus:
    if settings.valkey is None:
        return LocalBus()
    from threadkeep.streams.valkey import ValkeyBus

    return ValkeyBus(settings.valkey, identity_of(settings.database))
