"""Times in the format that clients get."""

from datetime import UTC, datetime


def write_time(seconds: float, timespec: str = "seconds") -> str:
    """Return a Unix time in UTC, such as `2026-11-22T12:00:00Z`."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec=timespec).replace("+00:00", "Z")
