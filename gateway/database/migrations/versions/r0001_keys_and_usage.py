"""The first tables: keys and usage."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create both tables."""
    op.create_table(
        "keys",
        sa.Column("id", sa.String(12), primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("characters_per_month", sa.BigInteger),
        sa.Column("requests_per_minute", sa.BigInteger),
        sa.Column("routes", sa.JSON, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("revoked_at", sa.BigInteger),
    )
    is_valid = sa.text("revoked_at IS NULL")
    op.create_index(
        "one_valid_key_of_a_name",
        "keys",
        ["name"],
        unique=True,
        sqlite_where=is_valid,
        postgresql_where=is_valid,
    )
    op.create_table(
        "usage",
        sa.Column("key_id", sa.String(12), primary_key=True),
        sa.Column("month", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("ledger", sa.String(32), primary_key=True),
        sa.Column("characters", sa.BigInteger, nullable=False),
    )
