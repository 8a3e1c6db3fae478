"""Runs Alembic's steps on the connection that `gateway/database/connections.py` gives it."""

from alembic import context

from gateway.database.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"], target_metadata=METADATA
)
with context.begin_transaction():
    context.run_migrations()
