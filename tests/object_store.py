"""A server that speaks S3, as a process of its own, which ends with its test."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import requests

from tests.e2e.real_stack import wait_until

_STARTED = re.compile(r"Running on (http://\S+)")
_LIMIT_S = 60


@contextmanager
def serve_objects(folder: Path, bucket: str) -> Iterator[dict[str, str]]:
    """Serve an empty bucket. Returns the environment of its clients; logs go to the folder."""
    log = folder / "moto.log"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file)
    try:
        url = _find_url(process, log)
        requests.put(f"{url}/{bucket}", timeout=_LIMIT_S).raise_for_status()
        yield {
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "the-secret",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": url,
        }
    finally:
        process.kill()
        process.wait(_LIMIT_S)


def _find_url(process: subprocess.Popen[bytes], log: Path) -> str:
    def has_started() -> bool:
        assert process.poll() is None, log.read_text()
        return bool(_STARTED.search(log.read_text()))

    wait_until(has_started)
    found: list[str] = _STARTED.findall(log.read_text())
    return found[0]
