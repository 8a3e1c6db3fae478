"""The burst of a key: the requests that may come at once."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Existing keys get the requests of a minute."""
    op.add_column("keys", sa.Column("burst", sa.BigInteger))
