"""Runs Alembic's migrations on the connection from `gateway/database/connections.py`."""

from alembic import context

from gateway.database.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"], target_metadata=METADATA
)
with context.begin_transaction():
    context.run_migrations()
