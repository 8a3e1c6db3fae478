"""Whether a key shares its cached sentences with all other keys that share theirs."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the column. Existing keys do not share."""
    shares = sa.Column(
        "shares_cache", sa.Boolean, nullable=False, server_default=sa.false()
    )
    op.add_column("keys", shares)
