"""The tables of the database: keys, and what they have used."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Column, Index, MetaData, String, Table, text

METADATA = MetaData()

KEYS = Table(
    "keys",
    METADATA,
    Column("id", String(12), primary_key=True),
    Column("name", String(200), nullable=False),
    #: SHA-256 of the key, in hexadecimal.
    Column("digest", String(64), nullable=False),
    Column("characters_per_month", BigInteger),
    Column("requests_per_minute", BigInteger),
    Column("routes", JSON, nullable=False),
    #: Unix seconds.
    Column("created_at", BigInteger, nullable=False),
    Column("revoked_at", BigInteger),
)

_IS_VALID = text("revoked_at IS NULL")
Index(
    "one_valid_key_of_a_name",
    KEYS.c.name,
    unique=True,
    sqlite_where=_IS_VALID,
    postgresql_where=_IS_VALID,
)

#: Each ledger writes rows of its own, with all that it has counted: writing one twice does
#: no harm.
USAGE = Table(
    "usage",
    METADATA,
    Column("key_id", String(12), primary_key=True),
    #: Numbered from the year 0.
    Column("month", BigInteger, primary_key=True, autoincrement=False),
    Column("ledger", String(32), primary_key=True),
    Column("characters", BigInteger, nullable=False),
)
