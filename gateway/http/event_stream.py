"""Server-sent events (HTML Living Standard, 9.2): the progress of unfinished work."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import gevent
from flask import Response
from gevent.queue import Empty, SimpleQueue
from pydantic_core import to_json

from contract.dialects import EVENT_STREAM
from gateway.errors import InternalError, Problem
from gateway.redaction import describe

log = logging.getLogger(__name__)

#: Seconds between two heartbeats.
_HEARTBEAT_S = 5.0
#: Events that wait for a slow client before one of a text replaces the last one of it.
_MOST_WAITING = 64
#: The share of the time that is spent on writing. Each event repeats its text so far, and the
#: many events of a long text must not delay other requests.
_WRITING_SHARE = 0.25
_DONE, _ERROR = "done", "error"


@dataclass
class StreamEvent:
    """An event. Its content is read when it is sent; if that is None, it is not sent."""

    name: str
    read: Callable[[], Any]
    #: The number of its text, if it is about one.
    index: int = -1


class EventStream:
    """The events of one request, whose work runs in a greenlet and ends with the stream."""

    def __init__(self, work: Callable[[EventStream], Any], request_id: str) -> None:
        """`work` returns the content of the last event, `done`; a Problem becomes `error`."""
        self._request_id = request_id
        self._events: SimpleQueue[StreamEvent] = SimpleQueue()
        #: The last event of each text, while it waits.
        self._last: dict[int, StreamEvent] = {}
        self._worker = gevent.spawn(self._run, work)

    def tell(self, index: int, read: Callable[[], Any], name: str = "text") -> None:
        """Add an event with the translated part of a text, which may replace the last one."""
        if self._events.qsize() >= _MOST_WAITING and index in self._last:
            self._last[index].read = read
            return
        self._last[index] = event = StreamEvent(name, read, index)
        self._events.put(event)

    def respond(self) -> Response:
        """Return the answer once there is an event. Raises the Problem of work that failed."""
        first = self._events.peek()
        if first.name == _ERROR:
            raise first.read()
        response = Response(self._write_all(), mimetype=EVENT_STREAM)
        response.headers["Cache-Control"] = "no-store"
        response.headers["X-Accel-Buffering"] = "no"  # nginx would buffer events
        response.call_on_close(self._worker.kill)
        return response

    def _run(self, work: Callable[[EventStream], Any]) -> None:
        try:
            content = work(self)
            name = _DONE
        except Problem as problem:
            name, content = _ERROR, problem
        except Exception as error:
            log.error("a streamed request failed: %s", describe(error))
            name = _ERROR
            content = InternalError("The request failed.")
        self._events.put(StreamEvent(name, lambda: content))

    def _write_all(self) -> Iterator[bytes]:
        name = ""
        while name not in (_DONE, _ERROR):
            try:
                event = self._events.get(timeout=_HEARTBEAT_S)
            except Empty:
                yield b": still at work\n\n"
                continue
            self._last.pop(event.index, None)
            began = time.monotonic()
            name, content = event.name, event.read()
            if isinstance(content, Problem):
                content = content.to_document(request_id=self._request_id)
            block = b"event: %s\ndata: %s\n\n" % (name.encode(), to_json(content))
            spent_s = time.monotonic() - began
            if content is not None:
                yield block  # waits for the client, which is no work
            gevent.sleep(spent_s / _WRITING_SHARE - spent_s)
