"""`python -m documents`: translates documents that the gateway has taken, until SIGTERM."""

from __future__ import annotations

import logging
import signal
import sys

from pydantic import ValidationError

from documents.jobs import open_jobs
from documents.settings import read_settings

log = logging.getLogger("documents")


def main() -> None:
    """Ends with 1 where a setting is wrong."""
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(message)s",
    )
    try:
        settings = read_settings()
    except ValidationError as error:
        for fault in error.errors(include_input=False):
            log.error("%s: %s", fault["loc"][0], fault["msg"])
        sys.exit(1)
    with open_jobs(settings) as jobs:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: jobs.stop())
        log.info("waiting for documents")
        jobs.run()
    log.info("ended")


if __name__ == "__main__":
    main()
