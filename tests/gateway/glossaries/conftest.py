"""Databases of SQLite and PostgreSQL, as for keys."""

from tests.gateway.access.conftest import database, postgresql

__all__ = ["database", "postgresql"]
