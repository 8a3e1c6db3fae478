"""The end of what a measurement has started."""

from __future__ import annotations

import signal

import pytest

from benchmarks.instruments import running


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
