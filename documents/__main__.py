"""`python -m documents`: translates documents that the gateway has accepted, until SIGTERM."""

import faulthandler
import logging
import os
import re
import signal
import sys
from contextlib import closing
from pathlib import Path

from pydantic import BaseModel, Field, PositiveFloat, PositiveInt, ValidationError

from contract import variables
from contract.documents import find_documents, read_secret
from documents.gateway import Gateway
from documents.jobs import Jobs
from documents.sandbox import Sandbox
from documents.storage import DocumentStorage

log = logging.getLogger("documents")

_ID = re.compile(r"\b([0-9a-f]{8})[0-9a-f]{24}\b")
#: The time limit of one round of `Jobs.run`, and of the start.
_LONGEST_TURN_S = 120.0


class DocumentSettings(BaseModel, frozen=True):
    """The environment variables that concern documents."""

    documents: Path | None = Field(alias=variables.DOCUMENTS.name)
    gateway: str = Field(alias=variables.GATEWAY_BIND.name, pattern=r"^[^/\s]+:\d+$")
    kept_s: PositiveFloat = Field(alias=variables.DOCUMENTS_KEPT_S.name)
    at_once: PositiveInt = Field(alias=variables.DOCUMENTS_AT_ONCE.name)
    webhooks: str = Field(alias=variables.WEBHOOKS.name)


def main() -> None:
    """Run until SIGTERM. Exits with 1 if a setting is wrong or the folder cannot be used."""
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(message)s",
    )
    for handler in logging.getLogger().handlers:
        handler.addFilter(_shorten_ids)
    known = (*variables.SETTINGS, variables.GATEWAY_BIND)
    try:
        settings = DocumentSettings.model_validate(
            {each.name: each.read() or None for each in known}
        )
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
    # A step that never ends must not keep the process alive.
    os._exit(status)


def _shorten_ids(record: logging.LogRecord) -> bool:
    """Shorten the ids of documents: without keys, a full id grants access."""
    record.msg = _ID.sub(r"\1", record.getMessage())
    record.args = None
    return True


def _beat() -> None:
    """Reset the watchdog. If it expires, it logs where the program hangs and exits, even if no
    Python thread can run; supervisor then restarts the program."""
    faulthandler.dump_traceback_later(_LONGEST_TURN_S, exit=True)


def _translate(settings: DocumentSettings) -> None:
    _beat()
    folder = find_documents(settings.documents)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    gateway = Gateway(settings.gateway, read_secret())
    storage = DocumentStorage(folder)
    sandbox = Sandbox("documents.worker")
    given = settings.model_dump(include={"kept_s", "at_once", "webhooks"})
    jobs = Jobs(storage, gateway, sandbox.run, **given)
    with closing(sandbox), closing(jobs):
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: jobs.stop())
        log.info("waiting for documents")
        jobs.run(_beat)


if __name__ == "__main__":
    main()
