"""Keys whose translated sentences are kept for all keys that share theirs."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Keys that are there do not."""
    shares = sa.Column(
        "shares_cache", sa.Boolean, nullable=False, server_default=sa.false()
    )
    op.add_column("keys", shares)
