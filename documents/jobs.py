"""The queue of documents on this machine. A document in `unfinished` waits for its translation,
one in `webhooks` for its webhook call. The program that has locked its folder does the work.
The system releases the lock if that program or machine dies, so that another can continue.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice

from contract import variables
from documents.gateway import Gateway
from documents.sandbox import TakeStep
from documents.storage import DocumentFolder, DocumentStorage, Gone, UnfinishedDocument
from documents.translation import DocumentTranslation, WorkerStopped
from documents.webhooks import tell

log = logging.getLogger(__name__)

#: Seconds between scans for new documents, and for leftovers of killed programs.
_SCAN_S, _SWEEP_S = 0.25, 20.0
#: Seconds between walks through all documents, and the number of documents per step.
_WALK_S, _WALKED = 300.0, 50
#: Seconds before a retry if another program has locked the document, or after a failure.
_LOCKED_S, _FAILED_S = 5.0, 10.0
#: The maximum number of concurrent webhook calls.
_WEBHOOKS_AT_ONCE = 16
#: Seconds that `close` waits for running jobs, which save the answers received meanwhile.
_STOP_S = 60.0


@dataclass
class Jobs:
    """The jobs of this machine: up to `at_once` concurrent translations, half of them for one
    caller. Webhook calls run in addition."""

    storage: DocumentStorage
    gateway: Gateway
    take_step: TakeStep
    kept_s: float
    at_once: int
    webhooks: str = variables.WEBHOOKS.default

    def __post_init__(self) -> None:
        self._stopping = threading.Event()
        self._most = {"unfinished": self.at_once, "webhooks": _WEBHOOKS_AT_ONCE}
        self._pool = ThreadPoolExecutor(self.at_once + _WEBHOOKS_AT_ONCE, "document")
        #: The work for each kind of job. It returns the seconds until a retry, or 0.
        self._acts: dict[str, Callable[[DocumentFolder], float]] = {
            "unfinished": self._translate,
            "webhooks": partial(tell, allowed=self.webhooks),
        }
        #: When each job may start: the oldest documents first, but the newest webhooks.
        self._due_at: dict[UnfinishedDocument, float] = {}
        self._running: dict[UnfinishedDocument, Future[float]] = {}
        self._unseen: Iterator[str | None] = iter(())
        self._walks_at = 0.0

    def stop(self) -> None:
        """End `run` soon. Running translations stay in the queue."""
        self._stopping.set()

    def close(self) -> None:
        """Stop, and wait up to `_STOP_S` for the running jobs."""
        self.stop()
        wait(self._running.values(), _STOP_S)
        self._pool.shutdown(wait=False)

    def run(self, beat: Callable[[], None] = lambda: None) -> None:
        """Look for work until `stop`. Calls `beat` before each round."""
        pauses_s = {self._sweep: _SWEEP_S, self._walk: 0.0, self._scan: 0.0}
        due_at = dict.fromkeys(pauses_s, 0.0)
        while not self._stopping.is_set():
            beat()
            for act in (act for act in due_at if time.monotonic() >= due_at[act]):
                due_at[act] = time.monotonic() + pauses_s[act]
                with _told("looking for documents"):
                    act()
            self._stopping.wait(_SCAN_S)

    def work_on(self, job: UnfinishedDocument) -> float:
        """Translate a document or call its webhook, unless it is deleted or this program stops.
        Return the seconds until a retry if the job is still queued."""
        with _told(f"document {job.id} in {job.kind}"), suppress(WorkerStopped):
            delay_s = 0.0
            with suppress(Gone):
                document = self.storage.find(job.owner, job.id)
                with document.lock() as is_ours:
                    delay_s = self._acts[job.kind](document) if is_ours else _LOCKED_S
            if delay_s:
                return delay_s
            self.storage.finish(job)
        return _FAILED_S

    def _translate(self, document: DocumentFolder) -> float:
        began = time.monotonic()
        DocumentTranslation(document, self.gateway, self.take_step, self._stopping).run(
            self.kept_s
        )
        seconds = time.monotonic() - began
        log.info("document %s: ended after %.1f s", document.order.id, seconds)
        return 0.0

    def _scan(self) -> None:
        """Start as many waiting jobs as the limits allow."""
        now = time.monotonic()
        for job, ended in [*self._running.items()]:
            if ended.done():
                self._due_at[job] = now + ended.result()
                del self._running[job]
        jobs = [job for kind in self._acts for job in self.storage.list_jobs(kind)]
        for job in self._due_at.keys() - jobs:
            del self._due_at[job]
        new = self.storage.sort_by_age(set(jobs) - self._due_at.keys())
        # Old webhooks may hang on every attempt, so the newest come first.
        last = dict.fromkeys((j for j in reversed(new) if j.kind == "webhooks"), now)
        self._due_at = last | self._due_at
        for job in new:
            if job not in last and self.storage.is_complete(job):
                self._due_at[job] = now
        self._begin(now)

    def _begin(self, now: float) -> None:
        counts = Counter((job.kind, job.caller) for job in self._running)
        for job, due_at in self._due_at.items():
            if now < due_at or job in self._running:
                continue
            most = self._most[job.kind]
            mine = (job.kind, job.caller)
            count = sum(n for (kind, _), n in counts.items() if kind == job.kind)
            is_full = count == most or counts[mine] == max(1, most // 2)
            if not is_full:
                self._running[job] = self._pool.submit(self.work_on, job)
                counts[mine] += 1

    def _sweep(self) -> None:
        self.storage.sweep(time.time())

    def _walk(self) -> None:
        """Review the next few documents; after the last one, pause and start over."""
        looked = [*islice(self._unseen, _WALKED)]
        for document_id in filter(None, looked):
            log.info("document %s: deleted because it has expired", document_id)
        if len(looked) < _WALKED and time.monotonic() >= self._walks_at:
            self._walks_at = time.monotonic() + _WALK_S
            self._unseen = self.storage.walk(time.time())


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Log an error instead of raising it: all work is retried later."""
    try:
        yield
    except Exception as error:  # a thread's edge
        log.error("%s failed: %s", what, type(error).__name__)
