"""The first schema: spaces, sessions, events, runs, users and tokens."""

import sqlalchemy as sa
from alembic import op

revision = "2026_11_30_first_schema"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
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
        sa.PrimaryKeyConstraint("space_id", "session_id", "seq", name=op.f("pk_events")),
    )
    op.create_table(
        "participants",
        sa.Column("space_id", sa.Text(), nullable=False),
        sa.Column("participant", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("space_id", "participant", "session_id", name=op.f("pk_participants")),
        sqlite_with_rowid=False,
    )
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
        sa.PrimaryKeyConstraint("space_id", "session_id", "run_id", name=op.f("pk_runs")),
    )
    op.create_index("ix_runs_status", "runs", ["status", "lease_until"], unique=False)
    op.create_index("uq_runs_active_session", "runs", ["space_id", "active_session"], unique=True)
    op.create_table(
        "sessions",
        sa.Column("space_id", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("participants", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("description_folded", sa.Text(), nullable=True),
        sa.Column("metadata", sa.Text(), nullable=True),
        sa.Column("strategies", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("deduplication_key", sa.Text(), nullable=True),
        sa.Column("live_key", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("deleted_at", sa.BigInteger(), nullable=True),
        sa.Column("last_seq", sa.BigInteger(), nullable=False),
        sa.Column("event_count", sa.BigInteger(), nullable=False),
        sa.Column("last_activity_at", sa.BigInteger(), nullable=False),
        sa.Column("sole_type", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("space_id", "session_id", name=op.f("pk_sessions")),
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
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
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
