"""Glossaries and their dictionaries."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create both tables."""
    op.create_table(
        "glossaries",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("owner", sa.String(12), nullable=False),
        sa.Column("name", sa.String(1024), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_glossaries_owner", "glossaries", ["owner"])
    op.create_table(
        "dictionaries",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("glossary_id", sa.String(36), nullable=False),
        sa.Column("source", sa.String(8), nullable=False),
        sa.Column("target", sa.String(8), nullable=False),
        sa.Column("entry_count", sa.BigInteger, nullable=False),
        sa.Column("entries", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("glossary_id", "source", "target"),
    )
