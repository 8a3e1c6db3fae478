"""Misbehaving steps for a sandbox's worker, by name."""

import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def run(request: Mapping[str, Any]) -> dict[str, Any]:
    """Do the `deed`, after writing the ids of the process and its parent to the file `told`."""
    if told := request.get("told"):
        Path(told).write_text(json.dumps([os.getpid(), os.getppid()]))
    deed = _DEEDS[request["deed"]]
    return {"answer": deed(request)}


def _take_memory(_: Mapping[str, Any]) -> None:
    kept = []
    while True:
        kept.append(b"x" * (1 << 20))


def _hide_memory(request: Mapping[str, Any]) -> None:
    """Replace the MemoryError, like a library with its own exceptions."""
    try:
        _take_memory(request)
    except MemoryError as error:
        raise ValueError("damaged") from error


def _match_forever(_: Mapping[str, Any]) -> None:
    """Block the interpreter, so that no Python signal handler can run."""
    re.match(r"(?:a|a)*b", "a" * 60)


def _write(request: Mapping[str, Any]) -> None:
    with Path(request["file"]).open("wb") as file:
        while True:
            file.write(b"x" * (1 << 16))


def _fail(_: Mapping[str, Any]) -> None:
    raise ValueError("what the document says")


_DEEDS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "answer": lambda request: request["what"],
    "take memory": _take_memory,
    "hide memory": _hide_memory,
    "match forever": _match_forever,
    "sleep": lambda _: time.sleep(600),
    "write": _write,
    "stand still": lambda _: os.kill(os.getpid(), signal.SIGSTOP),
    "end": lambda _: os.kill(os.getpid(), signal.SIGKILL),
    "fail": _fail,
    "look around": lambda _: [dict(os.environ), "urllib3" in sys.modules],
}
