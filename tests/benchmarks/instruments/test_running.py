"""The end of what a measurement has started, and the stacks that it cannot ask."""

from __future__ import annotations

import signal

import pytest

from benchmarks.instruments import running
from benchmarks.instruments.generator import Request
from benchmarks.instruments.running import Running
from deploy.stack import StackError
from tests.benchmarks.conftest import Server


def test_a_second_interrupt_leaves_no_stack_behind(tmp_path, monkeypatch):
    done = []

    def deploy(command: str, *_: object, **__: object) -> None:
        signal.raise_signal(signal.SIGINT)
        done.append(command)

    monkeypatch.setattr(running, "_deploy", deploy)
    before = signal.getsignal(signal.SIGTERM)
    # In the background of a shell, a program ignores Ctrl-C.
    heeded = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with (
            pytest.raises(KeyboardInterrupt),
            running.start(tmp_path, tmp_path / "map.json"),
        ):
            pass
    finally:
        signal.signal(signal.SIGINT, heeded)
    assert done == ["down"]
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_stack_that_wants_a_key_is_not_asked_again(server: Server):
    server.statuses = [401]
    stack = Running(server.url, {}, headers={"X-Any": "1"})
    with pytest.raises(StackError, match=r"with 401\. .* wants a key"):
        stack.aim([Request(b"{}")])
    assert len(server.asked) == 1
    assert stack.aim([Request(b"{}")]).headers == stack.headers
