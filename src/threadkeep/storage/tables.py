"""The one schema, for both engines.

Text, integers and nothing that only one engine has: see docs/decisions for the portable subset.
Every table of a space starts its key with `space_id`, the column that a distributed engine shards by.
Times are microseconds since 1970. JSON is kept as the text that came.
`live_key` holds the deduplication key while the row lives and NULL afterwards: that frees the key.
"""

from collections.abc import Iterator

from sqlalchemy import BigInteger, Column, Index, LargeBinary, MetaData, Table, Text, text

metadata = MetaData(
    naming_convention={"pk": "pk_%(table_name)s", "ix": "ix_%(table_name)s_%(column_0_N_name)s"},
)


def _key(*names: str) -> Iterator[Column[str]]:
    """Columns of text that the primary key has in this order."""
    return (Column(name, Text, primary_key=True) for name in names)


def _partial(name: str, wanted: str, *before: str, unique: bool = False) -> Index:
    """An index of the rows that have the column, and of no others."""
    there = text(f"{wanted} IS NOT NULL")
    return Index(name, *before, wanted, unique=unique, sqlite_where=there, postgresql_where=there)


def _deleted(table: str) -> Index:
    """Finds what is to be purged."""
    return _partial(f"ix_{table}_deleted_at", "deleted_at")


spaces = Table(
    "spaces",
    metadata,
    Column("space_id", Text, primary_key=True),
    Column("user_id", Text, nullable=False),
    Column("tenant_id", Text, nullable=False),
    Column("description", Text),
    Column("llm_model_name", Text),
    Column("llm_base_url", Text),
    Column("custom_instructions", Text),
    Column("deduplication_key", Text),
    Column("live_key", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("deleted_at", BigInteger),
    Index("uq_spaces_live_key", "user_id", "live_key", unique=True),
    Index("ix_spaces_user", "user_id", "space_id"),
    _deleted("spaces"),
)

sessions = Table(
    "sessions",
    metadata,
    *_key("space_id", "session_id"),
    Column("participants", Text, nullable=False),
    Column("description", Text),
    Column("description_folded", Text),
    Column("metadata", Text),
    Column("strategies", Text, nullable=False),
    # The types of strategy that have run, with commas between: what has run is closed to change.
    Column("ran", Text, nullable=False, server_default=""),
    Column("version", BigInteger, nullable=False),
    Column("deduplication_key", Text),
    Column("live_key", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("deleted_at", BigInteger),
    Index("uq_sessions_live_key", "space_id", "live_key", unique=True),
    _deleted("sessions"),
)

# What every append changes, apart from what it does not: a description or metadata can be large.
# A deleted session has no row here, so that nothing can be appended to it.
session_counters = Table(
    "session_counters",
    metadata,
    *_key("space_id", "session_id"),
    # What makes the numbers gapless: an append takes its range from here, under the lock of this row.
    Column("last_seq", BigInteger, nullable=False),
    Column("event_count", BigInteger, nullable=False),
    Column("last_activity_at", BigInteger, nullable=False),
    # The activity that `participants` knows of: the last but for less than a second.
    Column("listed_at", BigInteger, nullable=False),
    # The type of all events while they have one ('' is none), NULL when they differ: saves counting by type.
    Column("sole_type", Text),
    # From this number of events on, an append makes the session's lifecycle due. NULL: never.
    Column("wake_count", BigInteger),
    # Tokens of the events up to the number `tokens_to`, where a strategy asks for them.
    Column("token_count", BigInteger, nullable=False, server_default="0"),
    Column("tokens_to", BigInteger, nullable=False, server_default="0"),
    # Changes to events that may have been counted: a count that was begun before the last of them is void.
    Column("token_edits", BigInteger, nullable=False, server_default="0"),
    sqlite_with_rowid=False,
)

# Who takes part in the sessions that live, with all that a list of a person's sessions is narrowed and sorted by.
participants = Table(
    "participants",
    metadata,
    *_key("space_id", "participant"),
    # A session's ids sort by its time of creation, so this key is also the order of a list.
    Column("session_id", Text, primary_key=True),
    Column("description_folded", Text),
    Column("listed_at", BigInteger, nullable=False),
    # 1 where the session's metadata says that it is archived: lists may leave such ones out.
    Column("archived", BigInteger, nullable=False, server_default="0"),
    Index("ix_participants_listed", "space_id", "participant", "listed_at"),
    Index("ix_participants_session", "space_id", "session_id"),
    sqlite_with_rowid=False,
)

events = Table(
    "events",
    metadata,
    *_key("space_id", "session_id"),
    Column("seq", BigInteger, primary_key=True),
    Column("type", Text),
    Column("emitter_type", Text, nullable=False),
    Column("emitter_id", Text),
    Column("body", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    # The version token: what the wire calls createdAt.
    Column("updated_at", BigInteger, nullable=False),
    Column("deleted_at", BigInteger),
    # NULL where none was given, and again when the event is deleted: that frees the key.
    Column("deduplication_key", Text),
    # A JSON list, or NULL where there are none. `event_lookup_keys` is its index, for as long as the event lives.
    Column("lookup_keys", Text),
    # Partial: an event without a key costs the index nothing.
    _partial("uq_events_deduplication_key", "deduplication_key", "space_id", "session_id", unique=True),
    _deleted("events"),
)

# What sessions left behind, and what was said to be kept.
memories = Table(
    "memories",
    metadata,
    *_key("space_id", "memory_id"),
    # All four ids in one: equal for equal scopes, and for no others.
    Column("scope", Text, nullable=False),
    Column("user_id", Text),
    Column("agent_id", Text),
    Column("app_id", Text),
    Column("run_id", Text),
    Column("text", Text, nullable=False),
    # Of the text without case and space around it: what says the same in other letters is there already.
    Column("digest", Text, nullable=False),
    Column("metadata", Text),
    Column("categories", Text, nullable=False),
    Column("attributed_to", Text),
    Column("expiration_date", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("deleted_at", BigInteger),
    # That of the space when the text was last another one, or when the memory went: whoever holds words or vectors of a
    # space in memory reads on from there.
    Column("version", BigInteger, nullable=False),
    Index("ix_memories_scope", "space_id", "scope", "memory_id"),
    Index("ix_memories_version", "space_id", "version"),
    Index("ix_memories_digest", "space_id", "digest"),
    _partial("ix_memories_user_id", "user_id", "space_id"),
    _partial("ix_memories_agent_id", "agent_id", "space_id"),
    _partial("ix_memories_app_id", "app_id", "space_id"),
    _partial("ix_memories_run_id", "run_id", "space_id"),
    _partial("ix_memories_expiration_date", "expiration_date", "space_id"),
    _deleted("memories"),
)

# The events that a memory came from.
memory_sources = Table(
    "memory_sources",
    metadata,
    *_key("space_id", "memory_id", "session_id"),
    Column("seq", BigInteger, primary_key=True),
    Index("ix_memory_sources_session", "space_id", "session_id", "seq"),
    sqlite_with_rowid=False,
)

memory_history = Table(
    "memory_history",
    metadata,
    *_key("space_id", "memory_id"),
    Column("number", BigInteger, primary_key=True),
    Column("event", Text, nullable=False),
    Column("old_text", Text),
    Column("new_text", Text),
    Column("attributed_to", Text),
    Column("sources", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
)

# What the memories of a space say, as float32 of the model that is named.
memory_vectors = Table(
    "memory_vectors",
    metadata,
    *_key("space_id", "memory_id"),
    Column("model", Text, nullable=False),
    Column("vector", LargeBinary, nullable=False),
    # That of the space when it was written: whoever holds the vectors of a space in memory reads on from there.
    Column("version", BigInteger, nullable=False),
    # The memory too: so they are read in order without sorting them.
    Index("ix_memory_vectors_version", "space_id", "version", "memory_id"),
)

# Where the memories of a space are: changed under the lock of this row, and so one change after the other.
memory_versions = Table(
    "memory_versions",
    metadata,
    Column("space_id", Text, primary_key=True),
    Column("version", BigInteger, nullable=False),
    # The version at which memories were last removed for good.
    Column("removed", BigInteger, nullable=False, server_default="0"),
)

# The words of memories, as `storage.memory_search` spells them. A full-text table on SQLite, which numbers its rows.
memory_search = Table(
    "memory_search",
    metadata,
    *_key("space_id", "memory_id"),
    Column("words", Text, nullable=False),
)

# How far the events of a session were read for memories, and how that went. It outlives its session, as the events do.
extractions = Table(
    "extractions",
    metadata,
    *_key("space_id", "session_id"),
    Column("state", Text, nullable=False),
    # Up to this number each event was read, once; up to that one they are to be read.
    Column("read_to", BigInteger, nullable=False, server_default="0"),
    Column("wanted_to", BigInteger, nullable=False),
    # Why it was asked for, and with which options, as JSON.
    Column("asked", Text, nullable=False),
    # Whether the session is to be deleted when its events are read.
    Column("deletes", BigInteger, nullable=False, server_default="0"),
    Column("found", BigInteger, nullable=False, server_default="0"),
    Column("attempts", BigInteger, nullable=False, server_default="0"),
    Column("error", Text),
    Column("requested_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
)

# Messages that somebody handed in for memories to be found in them, and what became of each request.
memory_additions = Table(
    "memory_additions",
    metadata,
    Column("space_id", Text, primary_key=True),
    # Ids sort by their time of creation.
    Column("event_id", Text, primary_key=True),
    Column("user_id", Text),
    Column("state", Text, nullable=False),
    # As JSON; NULL when it was carried out: the messages are not kept.
    Column("request", Text),
    Column("results", Text),
    Column("error", Text),
    Column("attempts", BigInteger, nullable=False, server_default="0"),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    _partial("ix_memory_additions_user_id", "user_id", "space_id"),
    Index("ix_memory_additions_created_at", "created_at"),
)

# Which event of a space is found by a key: one for each type of events ('' is none). Rows of a session that is deleted
# stay until it is purged, and count for nothing.
event_lookup_keys = Table(
    "event_lookup_keys",
    metadata,
    Column("space_id", Text, primary_key=True),
    # Before the type, which a look-up need not name.
    *_key("lookup_key", "type"),
    Column("session_id", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Index("ix_event_lookup_keys_event", "space_id", "session_id", "seq"),
    sqlite_with_rowid=False,
)

# Work that waits for its time: one row for each kind of work on a session, held by a worker under a lease.
jobs = Table(
    "jobs",
    metadata,
    *_key("space_id", "session_id", "kind"),
    Column("bucket", BigInteger, nullable=False),
    Column("due_at", BigInteger, nullable=False),
    Column("claimed_by", Text),
    Column("claimed_until", BigInteger, nullable=False, server_default="0"),
    Column("attempts", BigInteger, nullable=False, server_default="0"),
    Column("payload", Text),
    Column("error", Text),
    Column("created_at", BigInteger, nullable=False),
    # The kind first: what waits for a kind of worker that does not run must not be in the way of the rest.
    Index("ix_jobs_due", "kind", "bucket", "due_at"),
)

# The first answers to requests that carried an Idempotency-Key. `space_id` is '' where the request made a space.
idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    *_key("space_id", "user_id", "idempotency_key"),
    Column("fingerprint", Text, nullable=False),
    Column("answer", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Index("ix_idempotency_keys_created_at", "created_at"),
)

runs = Table(
    "runs",
    metadata,
    *_key("space_id", "session_id", "run_id"),
    Column("parent_run_id", Text),
    Column("user_id", Text, nullable=False),
    Column("tenant_id", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("outcome", Text),
    Column("usage", Text),
    Column("error", Text),
    Column("started_at", BigInteger, nullable=False),
    Column("finished_at", BigInteger),
    Column("lease_until", BigInteger, nullable=False),
    # The run that holds the session: its id while it is active, else NULL.
    Column("active_session", Text),
    Column("cancel_wanted_at", BigInteger),
    # When the log was rewritten as few rows that are deflated; NULL until then.
    Column("compacted_at", BigInteger),
    # What the client sent. Last, so that what reads the other columns need not pass it: it may be large.
    Column("input", Text),
    Index("uq_runs_active_session", "space_id", "active_session", unique=True),
    Index("ix_runs_status", "status", "lease_until"),
    _partial("ix_runs_cancel_wanted_at", "cancel_wanted_at", "owner"),
)

# What runs have said: a row holds a few events as they came, one after the other.
run_events = Table(
    "run_events",
    metadata,
    *_key("space_id", "session_id", "run_id"),
    # The events of a run are numbered from 0, without a gap.
    Column("first_index", BigInteger, primary_key=True),
    # 0 says: whoever had the run before may write nothing here any more.
    Column("count", BigInteger, nullable=False),
    Column("size", BigInteger, nullable=False),
    # 0: as `domain.run_group` packs them. 1: deflated.
    Column("form", BigInteger, nullable=False, server_default="0"),
    Column("payload", LargeBinary, nullable=False),
    Column("created_at", BigInteger, nullable=False),
)

# Questions that a run has ended with, and what became of them.
interrupts = Table(
    "interrupts",
    metadata,
    *_key("space_id", "session_id", "run_id", "interrupt_id"),
    # Its place among those of the run.
    Column("place", BigInteger, nullable=False),
    Column("payload", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("expires_at", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger),
    # The run that answered it.
    Column("ended_by", Text),
)

users = Table(
    "users",
    metadata,
    Column("user_id", Text, primary_key=True),
    Column("tenant_id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Index("uq_users_name", "name", unique=True),
)

tokens = Table(
    "tokens",
    metadata,
    Column("token_id", Text, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("tenant_id", Text, nullable=False),
    Column("may_act_for", BigInteger, nullable=False),
    # The scopes, with commas between; '' is all of them.
    Column("scopes", Text, nullable=False, server_default=""),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("revoked_at", BigInteger),
    Column("last_used_at", BigInteger),
    Index("uq_tokens_digest", "digest", unique=True),
)
