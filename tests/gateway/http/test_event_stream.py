"""Answers as event streams: the order of events, slow clients, heartbeats and disconnects."""

import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import gevent
from gevent.event import Event

from gateway.http import event_stream
from gateway.http.event_stream import EventStream


def read(block: Any) -> tuple[str, Any]:
    name, data, *_ = block.decode().split("\n")
    return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


def collect(work: Callable[[EventStream], Any]) -> list[tuple[str, Any]]:
    return [read(block) for block in EventStream(work, "id-1").respond().response]


def test_a_slow_client_gets_the_last_of_many_events_and_one_of_each_text():
    def work(stream: EventStream) -> str:
        for number in range(1000):
            for index in (0, 1):
                stream.tell(index, partial(list, (index, number)))
        return "all"

    events = collect(work)
    assert len(events) <= 2 + 2 * event_stream._MOST_WAITING
    assert events[-1] == ("done", "all")
    shown = [content for name, content in events if name == "text"]
    assert [0, 999] in shown
    assert [1, 999] in shown
    for index in (0, 1):
        numbers = [number for one, number in shown if one == index]
        assert numbers == sorted(numbers)


def test_events_of_many_texts_are_added_in_no_time():
    stream = EventStream(lambda _: None, "")
    began = time.process_time()
    for number in range(20_000):
        stream.tell(number, str)
    assert time.process_time() - began < 0.5


def test_a_client_that_pauses_need_not_wait_for_the_next_event():
    blocks: Any = iter(EventStream(lambda s: s.tell(0, str), "").respond().response)
    assert read(next(blocks)) == ("text", "")
    gevent.sleep(0.5)  # the connection is full
    with gevent.Timeout(1):
        assert next(blocks, None) is None


def test_quiet_work_gives_signs_of_life(monkeypatch):
    monkeypatch.setattr(event_stream, "_HEARTBEAT_S", 0.01)
    goes_on = Event()

    def work(stream: EventStream) -> int:
        stream.tell(0, lambda: "a")
        goes_on.wait(10)
        return 7

    blocks: Any = iter(EventStream(work, "").respond().response)
    assert read(next(blocks)) == ("text", "a")
    assert next(blocks).startswith(b":")
    goes_on.set()
    rest = [block for block in blocks if not block.startswith(b":")]
    assert [read(block) for block in rest] == [("done", 7)]


def test_the_work_ends_with_its_client():
    ended = Event()

    def work(stream: EventStream) -> None:
        stream.tell(0, lambda: "a")
        try:
            gevent.sleep(60)
        finally:
            ended.set()

    response = EventStream(work, "").respond()
    next(iter(response.response))
    response.close()
    assert ended.wait(10)
