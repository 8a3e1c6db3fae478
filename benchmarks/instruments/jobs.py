"""Documents that a running stack translates as jobs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import requests

from deploy.stack import StackError

_TIMEOUT_S = 60
_PAUSE_S = 0.2


@dataclass(frozen=True)
class Job:
    """A document on the stack at `url`, and how far it is."""

    url: str
    status: str
    texts: int
    texts_done: int

    @property
    def is_done(self) -> bool:
        """Whether all of it is translated."""
        return self.status == "done"


def upload(stack_url: str, content: str, source: str, target: str) -> Job:
    """Sends a plain text as a document. Raises StackError if it is refused."""
    answer = requests.post(
        f"{stack_url}/documents",
        data={"src_lang": source, "tgt_lang": target},
        files={"file": ("document.txt", content.encode())},
        timeout=_TIMEOUT_S,
    )
    return _read(f"{stack_url}/documents/{_check(answer)['id']}", answer)


def read(job: Job) -> Job:
    """The same job as it is now. Raises StackError if it has failed."""
    found = _read(job.url, requests.get(job.url, timeout=_TIMEOUT_S))
    if found.status == "failed":
        raise StackError(f"{job.url} has failed.")
    return found


def wait_for_begin(job: Job, limit_s: float) -> Job:
    """The job once texts of it are translated. Raises StackError after the limit."""
    return _wait(job, limit_s, has_begun=True)


def wait_for_end(job: Job, limit_s: float) -> Job:
    """The job once it is done. Raises StackError after the limit."""
    return _wait(job, limit_s, has_begun=False)


def remove(job: Job) -> None:
    """Deletes the document, and ends its job if it is under way."""
    requests.delete(job.url, timeout=_TIMEOUT_S).raise_for_status()


def _wait(job: Job, limit_s: float, *, has_begun: bool) -> Job:
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        job = read(job)
        if job.is_done or (has_begun and job.texts_done):
            return job
        time.sleep(_PAUSE_S)
    raise StackError(f"{job.url} is {job.status} after {limit_s:g} s.")


def _read(url: str, answer: requests.Response) -> Job:
    status = _check(answer)
    texts, done = (status[name] or 0 for name in ("texts", "texts_done"))
    return Job(url, status["status"], texts, done)


def _check(answer: requests.Response) -> dict[str, Any]:
    if not answer.ok:
        raise StackError(f"{answer.url} answered {answer.status_code}: {answer.text}")
    content: dict[str, Any] = answer.json()
    return content
