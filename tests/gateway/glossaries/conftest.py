"""Databases of both kinds, as for keys."""

from tests.gateway.access.conftest import database, postgresql

__all__ = ["database", "postgresql"]
