"""`python -m documents`: translates documents that the gateway has taken, until SIGTERM."""

from __future__ import annotations

import logging
import os
import signal
import sys

from pydantic import ValidationError

from documents.jobs import open_jobs
from documents.settings import Settings, read_settings

log = logging.getLogger("documents")


def main() -> None:
    """Ends with 1 where a setting is wrong, or the database or the folder cannot be used."""
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(message)s",
    )
    logging.getLogger("dbos").addFilter(_shorten)
    try:
        settings = read_settings()
    except ValidationError as error:
        for fault in error.errors(include_input=False):
            log.error("%s: %s", fault["loc"][0], fault["msg"])
        sys.exit(1)
    status = 0
    try:
        _translate(settings)
        log.info("ended")
    except Exception as error:  # the process's edge
        said = str(error).partition("\n")[0]
        log.error("the database or the folder cannot be used: %s", said)
        status = 1
    logging.shutdown()
    # A thread of DBOS that still asks a database for something must not keep the process.
    os._exit(status)


def _shorten(record: logging.LogRecord) -> bool:
    """The library's messages say enough without the places in its code."""
    record.exc_info = None
    return True


def _translate(settings: Settings) -> None:
    with open_jobs(settings) as jobs:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: jobs.stop())
        log.info("waiting for documents")
        jobs.run()


if __name__ == "__main__":
    main()
