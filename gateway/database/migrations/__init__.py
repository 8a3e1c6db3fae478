"""Alembic's migrations of a database to the tables of this version."""
