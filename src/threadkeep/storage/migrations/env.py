"""Run by Alembic: migrate over the connection that `storage.migrate` hands in."""

from alembic import context

from threadkeep.storage.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
