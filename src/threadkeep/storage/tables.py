"""The one schema, for both engines.

Text, integers and nothing that only one engine has: see docs/decisions for the portable subset.
Every table of a space starts its key with `space_id`, the column that a distributed engine shards by.
Times are microseconds since 1970. JSON is kept as the text that came.
`live_key` holds the deduplication key while the row lives and NULL afterwards: that frees the key.
"""

from sqlalchemy import BigInteger, Column, Index, MetaData, Table, Text

metadata = MetaData(
    naming_convention={"pk": "pk_%(table_name)s", "ix": "ix_%(table_name)s_%(column_0_N_name)s"},
)

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
)

sessions = Table(
    "sessions",
    metadata,
    Column("space_id", Text, primary_key=True),
    Column("session_id", Text, primary_key=True),
    Column("participants", Text, nullable=False),
    Column("description", Text),
    Column("description_folded", Text),
    Column("metadata", Text),
    Column("strategies", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("deduplication_key", Text),
    Column("live_key", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("deleted_at", BigInteger),
    # The append transaction keeps these current; last_seq is what makes the numbers gapless.
    Column("last_seq", BigInteger, nullable=False),
    Column("event_count", BigInteger, nullable=False),
    Column("last_activity_at", BigInteger, nullable=False),
    # The type of all events while they have one ('' is none), NULL when they differ: saves counting by type.
    Column("sole_type", Text),
    Index("uq_sessions_live_key", "space_id", "live_key", unique=True),
)

participants = Table(
    "participants",
    metadata,
    Column("space_id", Text, primary_key=True),
    Column("participant", Text, primary_key=True),
    # A session's ids sort by its time of creation, so this key is also the order of a list.
    Column("session_id", Text, primary_key=True),
    sqlite_with_rowid=False,
)

events = Table(
    "events",
    metadata,
    Column("space_id", Text, primary_key=True),
    Column("session_id", Text, primary_key=True),
    Column("seq", BigInteger, primary_key=True),
    Column("type", Text),
    Column("emitter_type", Text, nullable=False),
    Column("emitter_id", Text),
    Column("body", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    # The version token: what the wire calls createdAt.
    Column("updated_at", BigInteger, nullable=False),
    Column("deleted_at", BigInteger),
)

runs = Table(
    "runs",
    metadata,
    Column("space_id", Text, primary_key=True),
    Column("session_id", Text, primary_key=True),
    Column("run_id", Text, primary_key=True),
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
    Index("uq_runs_active_session", "space_id", "active_session", unique=True),
    Index("ix_runs_status", "status", "lease_until"),
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
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("revoked_at", BigInteger),
    Index("uq_tokens_digest", "digest", unique=True),
)
