"""The burst of a key: the requests that it may send at once."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the column. Existing keys have no number: their burst is the requests of a minute."""
    op.add_column("keys", sa.Column("burst", sa.BigInteger))
