"""`python -m documents`: translates documents that the gateway has taken, until SIGTERM."""

from __future__ import annotations

import faulthandler
import logging
import os
import re
import signal
import sys

from pydantic import ValidationError

from documents.jobs import open_jobs
from documents.settings import DocumentSettings, read_settings

log = logging.getLogger("documents")

_ID = re.compile(r"\b([0-9a-f]{8})[0-9a-f]{24}\b")
#: The most seconds that a look for documents, or the start, may take.
_LONGEST_TURN_S = 120.0


def main() -> None:
    """Ends with 1 where a setting is wrong, or the folder cannot be used."""
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(message)s",
    )
    for handler in logging.getLogger().handlers:
        handler.addFilter(_shorten_ids)
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
        log.error("the folder cannot be used: %s", error)
        status = 1
    logging.shutdown()
    # A document whose step does not end must not keep the process.
    os._exit(status)


def _shorten_ids(record: logging.LogRecord) -> bool:
    """Without keys, who knows the whole id of a document may have it."""
    record.msg, record.args = _ID.sub(r"\1", record.getMessage()), None
    return True


def _beat() -> None:
    """A program that does not get here again says where it hangs and ends: supervisor starts
    it again. No thread of ours needs to run for that."""
    faulthandler.dump_traceback_later(_LONGEST_TURN_S, exit=True)


def _translate(settings: DocumentSettings) -> None:
    _beat()
    with open_jobs(settings) as jobs:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: jobs.stop())
        log.info("waiting for documents")
        jobs.run(_beat)


if __name__ == "__main__":
    main()
