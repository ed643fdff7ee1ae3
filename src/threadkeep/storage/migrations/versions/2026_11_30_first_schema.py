"""The first schema: spaces, sessions, events, memories, runs, jobs, users and tokens."""

import sqlalchemy as sa
from alembic import op

revision = "2026_11_30_first_schema"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "event_lookup_keys",
        sa.Column("space_id", sa.Text(), nullable=False),
        sa.Column("lookup_key", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("space_id", "lookup_key", "type", name=op.f("pk_event_lookup_keys")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_event_lookup_keys_event", "event_lookup_keys", ["space_id", "session_id", "seq"], unique=False)
    op.create_table(
        "events",
        sa.Column("space_id", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("type", sa.Text(), nullable=True),
        sa.Column("emitter_type", sa.Text(), nullable=False),
        sa.Column("emitter_id", sa.Text(), nullable=True),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("deleted_at", sa.BigInteger(), nullable=True),
        sa.Column("deduplication_key", sa.Text(), nullable=True),
        sa.Column("lookup_keys", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("space_id", "session_id", "seq", name=op.f("pk_events")),
    )
    op.create_index(
        "ix_events_deleted_at",
        "events",
        ["deleted_at"],
        unique=False,
        sqlite_where=sa.text("deleted_at IS NOT NULL"),
        postgresql_where=sa.text("deleted_at IS NOT NULL"),
    )
    op.create_index(
        "uq_events_deduplication_key",
        "events",
        ["space_id", "session_id", "deduplication_key"],
        unique=True,
        sqlite_where=sa.text("deduplication_key IS NOT NULL"),
        postgresql_where=sa.text("deduplication_key IS NOT NULL"),
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("space_id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("idempotency_key", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("space_id", "user_id", "idempotency_key", name=op.f("pk_idempotency_keys")),
    )
    op.create_index("ix_idempotency_keys_created_at", "idempotency_keys", ["created_at"], unique=False)
    op.create_table(
        "jobs",
        sa.Column("space_id", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("bucket", sa.BigInteger(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        sa.Column("claimed_by", sa.Text(), nullable=True),
        sa.Column("claimed_until", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("attempts", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("payload", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("space_id", "session_id", "kind", name=op.f("pk_jobs")),
    )
    op.create_index("ix_jobs_due", "jobs", ["kind", "bucket", "due_at"], unique=False)
    _make_memories()
    _make_extractions()
    op.create_table(
        "participants",
        sa.Column("space_id", sa.Text(), nullable=False),
        sa.Column("participant", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("description_folded", sa.Text(), nullable=True),
        sa.Column("listed_at", sa.BigInteger(), nullable=False),
        sa.Column("archived", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("space_id", "participant", "session_id", name=op.f("pk_participants")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_participants_listed", "participants", ["space_id", "participant", "listed_at"], unique=False)
    op.create_index("ix_participants_session", "participants", ["space_id", "session_id"], unique=False)
    _make_runs()
    op.create_table(
        "session_counters",
        sa.Column("space_id", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("last_seq", sa.BigInteger(), nullable=False),
        sa.Column("event_count", sa.BigInteger(), nullable=False),
        sa.Column("last_activity_at", sa.BigInteger(), nullable=False),
        sa.Column("listed_at", sa.BigInteger(), nullable=False),
        sa.Column("sole_type", sa.Text(), nullable=True),
        sa.Column("wake_count", sa.BigInteger(), nullable=True),
        sa.Column("token_count", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("tokens_to", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("token_edits", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("space_id", "session_id", name=op.f("pk_session_counters")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "sessions",
        sa.Column("space_id", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("participants", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("description_folded", sa.Text(), nullable=True),
        sa.Column("metadata", sa.Text(), nullable=True),
        sa.Column("strategies", sa.Text(), nullable=False),
        sa.Column("ran", sa.Text(), server_default="", nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("deduplication_key", sa.Text(), nullable=True),
        sa.Column("live_key", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("deleted_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("space_id", "session_id", name=op.f("pk_sessions")),
    )
    op.create_index(
        "ix_sessions_deleted_at",
        "sessions",
        ["deleted_at"],
        unique=False,
        sqlite_where=sa.text("deleted_at IS NOT NULL"),
        postgresql_where=sa.text("deleted_at IS NOT NULL"),
    )
    op.create_index("uq_sessions_live_key", "sessions", ["space_id", "live_key"], unique=True)
    op.create_table(
        "spaces",
        sa.Column("space_id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("llm_model_name", sa.Text(), nullable=True),
        sa.Column("llm_base_url", sa.Text(), nullable=True),
        sa.Column("custom_instructions", sa.Text(), nullable=True),
        sa.Column("deduplication_key", sa.Text(), nullable=True),
        sa.Column("live_key", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("deleted_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("space_id", name=op.f("pk_spaces")),
    )
    op.create_index(
        "ix_spaces_deleted_at",
        "spaces",
        ["deleted_at"],
        unique=False,
        sqlite_where=sa.text("deleted_at IS NOT NULL"),
        postgresql_where=sa.text("deleted_at IS NOT NULL"),
    )
    op.create_index("ix_spaces_user", "spaces", ["user_id", "space_id"], unique=False)
    op.create_index("uq_spaces_live_key", "spaces", ["user_id", "live_key"], unique=True)
    op.create_table(
        "tokens",
        sa.Column("token_id", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("may_act_for", sa.BigInteger(), nullable=False),
        sa.Column("scopes", sa.Text(), server_default="", nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.Column("last_used_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("token_id", name=op.f("pk_tokens")),
    )
    op.create_index("uq_tokens_digest", "tokens", ["digest"], unique=True)
    op.create_table(
        "users",
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("user_id", name=op.f("pk_users")),
    )
    op.create_index("uq_users_name", "users", ["name"], unique=True)
    _make_search()


def _make_runs() -> None:
    op.create_table(
        "runs",
        sa.Column("space_id", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("parent_run_id", sa.Text(), nullable=True),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("usage", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.Column("lease_until", sa.BigInteger(), nullable=False),
        sa.Column("active_session", sa.Text(), nullable=True),
        sa.Column("cancel_wanted_at", sa.BigInteger(), nullable=True),
        sa.Column("compacted_at", sa.BigInteger(), nullable=True),
        sa.Column("input", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("space_id", "session_id", "run_id", name=op.f("pk_runs")),
    )
    op.create_index("ix_runs_status", "runs", ["status", "lease_until"], unique=False)
    op.create_index("uq_runs_active_session", "runs", ["space_id", "active_session"], unique=True)
    op.create_index(
        "ix_runs_cancel_wanted_at",
        "runs",
        ["owner", "cancel_wanted_at"],
        unique=False,
        sqlite_where=sa.text("cancel_wanted_at IS NOT NULL"),
        postgresql_where=sa.text("cancel_wanted_at IS NOT NULL"),
    )
    op.create_table(
        "run_events",
        sa.Column("space_id", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("first_index", sa.BigInteger(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("form", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("space_id", "session_id", "run_id", "first_index", name=op.f("pk_run_events")),
    )
    op.create_table(
        "interrupts",
        sa.Column("space_id", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("interrupt_id", sa.Text(), nullable=False),
        sa.Column("place", sa.BigInteger(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_by", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("space_id", "session_id", "run_id", "interrupt_id", name=op.f("pk_interrupts")),
    )


def _make_memories() -> None:
    op.create_table(
        "memories",
        sa.Column("space_id", sa.Text(), nullable=False),
        sa.Column("memory_id", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=True),
        sa.Column("agent_id", sa.Text(), nullable=True),
        sa.Column("app_id", sa.Text(), nullable=True),
        sa.Column("run_id", sa.Text(), nullable=True),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("metadata", sa.Text(), nullable=True),
        sa.Column("categories", sa.Text(), nullable=False),
        sa.Column("attributed_to", sa.Text(), nullable=True),
        sa.Column("expiration_date", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("deleted_at", sa.BigInteger(), nullable=True),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("space_id", "memory_id", name=op.f("pk_memories")),
    )
    op.create_index("ix_memories_scope", "memories", ["space_id", "scope", "memory_id"], unique=False)
    op.create_index("ix_memories_version", "memories", ["space_id", "version"], unique=False)
    op.create_index("ix_memories_digest", "memories", ["space_id", "digest"], unique=False)
    for name in ("user_id", "agent_id", "app_id", "run_id", "expiration_date", "deleted_at"):
        there = sa.text(f"{name} IS NOT NULL")
        op.create_index(
            f"ix_memories_{name}",
            "memories",
            [name] if name == "deleted_at" else ["space_id", name],
            unique=False,
            sqlite_where=there,
            postgresql_where=there,
        )
    op.create_table(
        "memory_sources",
        sa.Column("space_id", sa.Text(), nullable=False),
        sa.Column("memory_id", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("space_id", "memory_id", "session_id", "seq", name=op.f("pk_memory_sources")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_memory_sources_session", "memory_sources", ["space_id", "session_id", "seq"], unique=False)
    op.create_table(
        "memory_history",
        sa.Column("space_id", sa.Text(), nullable=False),
        sa.Column("memory_id", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("old_text", sa.Text(), nullable=True),
        sa.Column("new_text", sa.Text(), nullable=True),
        sa.Column("attributed_to", sa.Text(), nullable=True),
        sa.Column("sources", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("space_id", "memory_id", "number", name=op.f("pk_memory_history")),
    )
    op.create_table(
        "memory_vectors",
        sa.Column("space_id", sa.Text(), nullable=False),
        sa.Column("memory_id", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("space_id", "memory_id", name=op.f("pk_memory_vectors")),
    )
    op.create_index("ix_memory_vectors_version", "memory_vectors", ["space_id", "version", "memory_id"], unique=False)
    op.create_table(
        "memory_versions",
        sa.Column("space_id", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("removed", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("space_id", name=op.f("pk_memory_versions")),
    )
    if op.get_bind().dialect.name == "sqlite":
        op.execute(
            "CREATE VIRTUAL TABLE memory_search USING fts5"
            "(space_id UNINDEXED, memory_id UNINDEXED, words, tokenize = 'ascii')"
        )
        return
    op.create_table(
        "memory_search",
        sa.Column("space_id", sa.Text(), nullable=False),
        sa.Column("memory_id", sa.Text(), nullable=False),
        sa.Column("words", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("space_id", "memory_id", name=op.f("pk_memory_search")),
    )
    op.execute("CREATE INDEX ix_memory_search_words ON memory_search USING gin (to_tsvector('simple', words))")


def _make_extractions() -> None:
    op.create_table(
        "extractions",
        sa.Column("space_id", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("read_to", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("wanted_to", sa.BigInteger(), nullable=False),
        sa.Column("asked", sa.Text(), nullable=False),
        sa.Column("deletes", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("found", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("attempts", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("requested_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("space_id", "session_id", name=op.f("pk_extractions")),
    )
    op.create_table(
        "memory_additions",
        sa.Column("space_id", sa.Text(), nullable=False),
        sa.Column("event_id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("request", sa.Text(), nullable=True),
        sa.Column("results", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("attempts", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("space_id", "event_id", name=op.f("pk_memory_additions")),
    )
    op.create_index(
        "ix_memory_additions_user_id",
        "memory_additions",
        ["space_id", "user_id"],
        unique=False,
        sqlite_where=sa.text("user_id IS NOT NULL"),
        postgresql_where=sa.text("user_id IS NOT NULL"),
    )
    op.create_index("ix_memory_additions_created_at", "memory_additions", ["created_at"], unique=False)


def _make_search() -> None:
    """What finds a substring of a description quickly: each engine's own, and outside the tables they share."""
    connection = op.get_bind()
    if connection.dialect.name == "sqlite":
        op.execute(
            "CREATE VIRTUAL TABLE session_search USING fts5"
            "(session_id UNINDEXED, description, tokenize = 'trigram case_sensitive 1')"
        )
        return
    try:
        with connection.begin_nested():
            op.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
            # No list of pending entries: walking it would cost each search more than it saves the inserts.
            op.execute(
                "CREATE INDEX ix_sessions_description_trigrams ON sessions"
                " USING gin (description_folded gin_trgm_ops) WITH (fastupdate = off)"
            )
    except sa.exc.DBAPIError:
        # Without the extension, or the right to install it, the search walks the space: slower, and as exact.
        return
