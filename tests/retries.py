"""The tests that get a second try. Any other test fails when it fails once."""

from __future__ import annotations

from datetime import date

#: The reason, and the day since when, by a test's id such as
#: `tests/e2e/test_uploads.py::test_a_deadline`. At most five, and none for longer than a month.
RETRIED: dict[str, tuple[str, date]] = {}
