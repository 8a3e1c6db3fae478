"""The tables of the database: keys, their usage, and glossaries."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Index,
    LargeBinary,
    MetaData,
    String,
    Table,
    UniqueConstraint,
    false,
    text,
)

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
    #: Without a number, the requests of a minute are allowed at once.
    Column("burst", BigInteger),
    Column("routes", JSON, nullable=False),
    Column("shares_cache", Boolean, nullable=False, server_default=false()),
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

#: Each ledger writes its own rows with its total counts, so writing one twice does no harm.
USAGE = Table(
    "usage",
    METADATA,
    Column("key_id", String(12), primary_key=True),
    #: Numbered from the year 0.
    Column("month", BigInteger, primary_key=True, autoincrement=False),
    Column("ledger", String(32), primary_key=True),
    Column("characters", BigInteger, nullable=False),
)

GLOSSARIES = Table(
    "glossaries",
    METADATA,
    Column("id", String(36), primary_key=True),
    #: The id of a key; empty if a stack has no keys.
    Column("owner", String(12), nullable=False, index=True),
    Column("name", String(1024), nullable=False),
    #: Unix milliseconds.
    Column("created_at_ms", BigInteger, nullable=False),
)

#: A row never changes: another row with another id replaces it.
DICTIONARIES = Table(
    "dictionaries",
    METADATA,
    Column("id", String(36), primary_key=True),
    Column("glossary_id", String(36), nullable=False),
    Column("source", String(8), nullable=False),
    Column("target", String(8), nullable=False),
    Column("entry_count", BigInteger, nullable=False),
    #: TSV in UTF-8.
    Column("entries", LargeBinary, nullable=False),
    UniqueConstraint("glossary_id", "source", "target"),
)
