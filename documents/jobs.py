"""Which documents this machine translates, and when: durable jobs in a database, by the library
DBOS. A document in `unfinished` has a job; a job that has ended without finishing its document,
or whose machine is gone, is begun again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice

from dbos import (
    DBOS,
    DBOSConfig,
    DBOSPortableJSONSerializer,
    SetEnqueueOptions,
    SetWorkflowID,
    WorkflowStatus,
)

from documents.asking import MOST_AT_ONCE, Gateway
from documents.paths import (
    find_documents,
    find_jobs,
    read_machine,
    read_name,
    read_secret,
)
from documents.sandbox import Sandbox
from documents.settings import DocumentSettings
from documents.storage import DocumentJob, DocumentStorage, Gone
from documents.translation import DocumentTranslation, WorkerStopped

log = logging.getLogger(__name__)

#: A new version of ours goes on with the jobs of an older one.
_VERSION = "1"
#: PostgreSQL's schema for the library's tables.
_SCHEMA = "babelgate_documents"
#: Seconds between two looks for new documents, and for jobs that must be begun again.
_SCAN_S, _MEND_S, _SWEEP_S = 0.25, 10.0, 20.0
#: Seconds between two looks at all documents, and how many are looked at in a turn.
_WALK_S, _WALKED = 86_400.0, 50
#: Seconds between two looks at a document that another program translates.
_LOCKED_S = 5.0
#: How long a stop waits for answers that are on their way.
_STOP_S = 60
_ACTIVE = ["ENQUEUED", "PENDING", "DELAYED"]
_OVER = ["SUCCESS", "ERROR", "CANCELLED"]


@contextmanager
def open_jobs(settings: DocumentSettings) -> Iterator[Jobs]:
    """The jobs of this machine, which end with the block. Raises OSError, and what the library
    raises where the database cannot be used."""
    folder = find_documents(settings.documents)
    name = f"documents-{read_name(folder)[:12]}"
    gateway = Gateway(settings.gateway, read_secret(), MOST_AT_ONCE * settings.at_once)
    DBOS(config=_configure(settings.database_url, name))
    sandbox = Sandbox("documents.worker")
    jobs = Jobs(
        DocumentStorage(folder), gateway, sandbox, kept_s=settings.kept_s, name=name
    )
    try:
        DBOS.launch()
        DBOS.register_queue(
            name,
            worker_concurrency=settings.at_once,
            partition_worker_concurrency=max(1, settings.at_once // 2),
            polling_interval_sec=_SCAN_S,
            on_conflict="always_update",
        )
        yield jobs
    finally:
        jobs.stop()
        DBOS.destroy(workflow_completion_timeout_sec=_STOP_S)
        gateway.close()
        sandbox.close()


def _configure(database_url: str, name: str) -> DBOSConfig:
    """Nothing is pickled, and nothing goes to anybody but the database."""
    return DBOSConfig(
        name=name,
        system_database_url=_find_database(database_url),
        dbos_system_schema=_SCHEMA,
        application_version=_VERSION,
        executor_id=read_machine(),
        serializer=DBOSPortableJSONSerializer(),
        use_listen_notify=False,
        enable_otlp=False,
        log_level="WARNING",
    )


def _find_database(url: str) -> str:
    """PostgreSQL's URL, or that of a file of this machine."""
    scheme, _, rest = url.partition("://")
    if scheme.partition("+")[0] in ("postgres", "postgresql"):
        return f"postgresql+psycopg://{rest}"
    return f"sqlite:///{find_jobs() / 'jobs.db'}"


class Jobs:
    """The jobs of this machine. There is one in a process. `name` is that of its queue and of
    the application, so that stacks with other documents may use the same database."""

    def __init__(
        self,
        storage: DocumentStorage,
        gateway: Gateway,
        sandbox: Sandbox,
        *,
        kept_s: float,
        name: str,
    ) -> None:
        self._storage = storage
        self._gateway = gateway
        self._sandbox = sandbox
        self._kept_s = kept_s
        self._name = name
        self._stopping = threading.Event()
        self._known: set[str] = set()
        self._unseen: Iterator[None] = iter(())

        def work(owner: str, caller: str, document_id: str) -> None:
            self.translate(DocumentJob(owner, caller, document_id))

        # It may begin as often as it takes: `DocumentTranslation` knows when that is of no use.
        self._work = DBOS.workflow(name="translate", max_recovery_attempts=None)(work)

    def stop(self) -> None:
        """Ends `run` soon. What is being translated stays unfinished."""
        self._stopping.set()

    def run(self, beat: Callable[[], None] = lambda: None) -> None:
        """Looks for work until `stop`, and calls `beat` as often as it looks."""
        plan = {self._mend: _MEND_S, self._sweep: _SWEEP_S, self._walk: _WALK_S}
        due_at = dict.fromkeys([*plan, self._scan], 0.0)
        while not self._stopping.is_set():
            beat()
            for act in due_at:
                if time.monotonic() < due_at[act]:
                    continue
                due_at[act] = time.monotonic() + plan.get(act, 0.0)
                with _told("looking for documents"):
                    act()
            self._stopping.wait(_SCAN_S)

    def translate(self, job: DocumentJob) -> None:
        """Translates a document, unless it is deleted or this program is to end."""
        began = time.monotonic()
        with _told(f"document {job.id}"), suppress(WorkerStopped):
            try:
                self._translate_alone(job)
            except Gone:
                self._storage.put_aside(job.owner, job.id)
            self._storage.finish(job)
            seconds = time.monotonic() - began
            log.info("document %s: ended after %.1f s", job.id, seconds)

    def _translate_alone(self, job: DocumentJob) -> None:
        document = self._storage.find(job.owner, job.id)
        while True:
            with document.lock() as is_ours:
                if is_ours:
                    work = (document, self._gateway, self._sandbox, self._stopping)
                    DocumentTranslation(*work).run(self._kept_s)
                    return
            if self._stopping.wait(_LOCKED_S):
                raise WorkerStopped

    def _scan(self) -> None:
        """Gives each new document a job; it has one already if another machine was faster.
        Looks at a few of all others as well."""
        unfinished = self._storage.list_unfinished()
        for job in unfinished:
            if job.id not in self._known and self._storage.is_complete(job):
                self._enqueue(job)
                self._known.add(job.id)
        self._known &= {job.id for job in unfinished}
        for _ in islice(self._unseen, _WALKED):
            pass

    def _enqueue(self, job: DocumentJob) -> None:
        with SetWorkflowID(job.id), SetEnqueueOptions(queue_partition_key=job.caller):
            DBOS.enqueue_workflow(self._name, self._work, *job)

    def _mend(self) -> None:
        """Begins jobs again that have ended without finishing their documents, and those of
        machines that are gone: nobody holds the locks of their documents."""
        unfinished = self._storage.list_unfinished()
        active = {found.workflow_id: found for found in self._list_workflows(_ACTIVE)}
        for job in unfinished:
            if not self._storage.is_complete(job):
                continue
            found = active.get(job.id)
            if found is None:
                DBOS.delete_workflow(job.id)
                self._known.discard(job.id)
            elif found.status == "PENDING" and found.executor_id != DBOS.executor_id:
                self._take_over(job)

    def _take_over(self, job: DocumentJob) -> None:
        with suppress(Gone, PermissionError):
            with self._storage.find(job.owner, job.id).lock() as is_free:
                pass
            if is_free:
                log.warning("document %s: its machine is gone", job.id)
                DBOS.resume_workflow(job.id, queue_name=self._name)

    def _sweep(self) -> None:
        for document_id in self._storage.sweep(time.time()):
            log.info("document %s: deleted, its time has come", document_id)
        unfinished = {job.id for job in self._storage.list_unfinished()}
        over = {found.workflow_id for found in self._list_workflows(_OVER)}
        if over - unfinished:
            DBOS.delete_workflows(list(over - unfinished))

    def _walk(self) -> None:
        self._unseen = self._storage.walk()

    def _list_workflows(self, statuses: list[str]) -> list[WorkflowStatus]:
        return DBOS.list_workflows(
            status=statuses,
            application_name=self._name,
            load_input=False,
            load_output=False,
        )


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Logs what failed; whatever it was, it is tried again later."""
    try:
        yield
    except Exception as error:  # a thread's edge
        log.error("%s failed: %s", what, type(error).__name__)
