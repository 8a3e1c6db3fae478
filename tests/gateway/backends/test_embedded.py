"""The backend without TorchServe, and the notebook of docs/embedded.md in another process."""

from __future__ import annotations

import json
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import gevent
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from catalog import Model, checkpoint
from gateway.backends.backend import ModelState, write_row
from gateway.backends.embedded import EmbeddedBackend
from gateway.errors import DeadlineExceeded, NotReady, Overloaded, RowProblem
from handlers import base
from handlers.base import ModelConfig, Outcome, Result, TaskError, TaskHandler
from tests.gateway.conftest import make_model
from tests.gateway.test_metrics import read
from tests.programs import run

LIMIT_S = 60

Ask = Callable[..., dict[str, Any]]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """Fail if a backend's threads outlive a test."""
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The handler of all tasks, which answers with its input and its GPU. It loads and runs
    unless a test clears its events."""

    class Slow(TaskHandler[str]):
        loaded: list[ModelConfig] = []
        batches: list[list[str]] = []
        may_load, may_run = threading.Event(), threading.Event()
        begun = threading.Semaphore(0)
        is_broken, starts = False, 0

        def load_model(self, config: ModelConfig) -> None:
            type(self).starts += 1
            assert self.may_load.wait(LIMIT_S)
            if self.is_broken or "broken" in config.directory.name:
                raise RuntimeError("no such weights")
            self.index = config.gpu or 0
            self.loaded.append(config)

        def preprocess(self, row: base.Row) -> str:
            text = str(row.read_json())
            if text == "bad":
                raise TaskError("internal", "No.", limit=3)
            return text + "".join(row.parameters.values())

        def infer(self, items: Sequence[str], deadline: float) -> Outcome:
            self.batches.append(list(items))
            self.begun.release()
            assert self.may_run.wait(LIMIT_S)
            said: list[Result] = [{"said": item, "index": self.index} for item in items]
            return Outcome(
                said, {"BabelgateFrames": len(items), "BabelgateUndeclared": 1}
            )

    Slow.may_load.set()
    Slow.may_run.set()
    monkeypatch.setattr(base, "find_class", lambda *_: Slow)
    monkeypatch.setattr(
        checkpoint, "prepare", lambda model, _: Path(model.settings.model)
    )
    return Slow


make = partial(make_model, max_batch_delay=1)


@contextmanager
def serve(
    slow: Any, *models: Model, registry: CollectorRegistry | None = None
) -> Iterator[tuple[EmbeddedBackend, Ask]]:
    registry = registry or CollectorRegistry()
    backend = EmbeddedBackend(models or [make()], registry)

    def ask(
        text: str = "a", *, model: str = "ko", limit_s: float = LIMIT_S, **parameters
    ) -> dict[str, Any]:
        row = replace(write_row({}), body=json.dumps(text).encode())
        row = replace(row, parameters=parameters)
        return backend.predict(model, row, deadline=time.monotonic() + limit_s)

    try:
        yield backend, ask
    finally:
        slow.may_load.set()
        slow.may_run.set()
        backend.close(LIMIT_S)


def wait_until(condition: Callable[[], object]) -> None:
    """Let other greenlets run until a condition is true."""
    with gevent.Timeout(LIMIT_S):
        while not condition():
            gevent.sleep(0.001)


def look(backend: EmbeddedBackend, model: str = "ko") -> ModelState:
    state = backend.states([model])[model]
    assert state
    return state


def test_a_bad_row_gets_the_handlers_words_and_others_their_answers(slow):
    with serve(slow) as (_, ask):
        with pytest.raises(RowProblem) as caught:
            ask("bad")
        assert ask("good", top_k="5") == {"said": "good5", "index": 0}
    problem = caught.value
    assert (problem.status, problem.slug, problem.detail) == (500, "internal", "No.")
    assert problem.extra == {"limit": 3}


def test_a_queue_is_bounded_and_what_is_late_or_given_up_is_not_run(slow):
    registry = CollectorRegistry()
    model = make(batch_size=2, queue_size=4)
    with serve(slow, model, registry=registry) as (backend, ask):
        slow.may_run.clear()
        asking = [gevent.spawn(ask, "running")]
        wait_until(lambda: slow.begun.acquire(blocking=False))
        asking += [gevent.spawn(ask, text) for text in ("a", "b")]
        wait_until(lambda: look(backend).queued_rows == 2)
        gone = gevent.spawn(ask, "gone")
        wait_until(lambda: look(backend).queued_rows == 3)
        gone.kill(timeout=LIMIT_S)
        for limit_s in (0.01, 0, -5):
            with pytest.raises(DeadlineExceeded):
                ask("late", limit_s=limit_s)
        asking += [gevent.spawn(ask, text) for text in ("c", "d")]
        gevent.sleep(0)
        with pytest.raises(Overloaded, match="ko is full"):
            ask("refused")
        slow.may_run.set()
        gevent.joinall(asking, timeout=LIMIT_S, raise_error=True)
    assert slow.batches == [["running"], ["a", "b"], ["c", "d"]]
    counted = read(generate_latest(registry).decode())
    assert counted.pop(("BabelgateQueueMs", "ko")) >= 10
    assert counted.pop(("BabelgateComputeMs", "ko")) >= 10
    assert counted == {
        ("BabelgateBatches", "ko"): 3,
        ("BabelgateRows", "ko"): 5,
        ("BabelgateFrames", "ko"): 5,
        ("BabelgateDroppedRows", "ko"): 4,
    }


def test_models_whose_turn_to_be_loaded_has_not_come_are_not_loaded_any_more(slow):
    slow.may_load.clear()
    with serve(slow, make("first"), make()) as (backend, ask):
        asking = gevent.spawn(ask)
        wait_until(lambda: look(backend).queued_rows == 0)
        closing = threading.Thread(target=backend.close, args=(LIMIT_S,))
        closing.start()
        with pytest.raises(NotReady, match="stopped"):
            asking.get(timeout=LIMIT_S)
        slow.may_load.set()
        closing.join(LIMIT_S)
    assert len(slow.loaded) == 1


def test_a_model_that_cannot_be_loaded_is_not_ready_and_others_are(slow, caplog):
    broken = make("broken", model="broken")
    with serve(slow, broken, make()) as (backend, ask):
        assert ask("a")["said"] == "a"
        with pytest.raises(NotReady, match="could not be loaded"):
            ask("a", model="broken")
        ready = [look(backend, name).is_ready for name in ("broken", "ko")]
        assert ready == [False, True]
    said = "the model broken cannot be loaded: RuntimeError: no such weights"
    assert caplog.messages == [said]


def test_an_unused_model_is_unloaded_and_waiting_rows_load_it_once(slow):
    with serve(slow, make(idle_unload_s=1)) as (backend, ask):
        ask("first")
        slow.may_load.clear()
        wait_until(lambda: backend._served["ko"].load_left_s)
        assert look(backend).is_ready
        for _ in range(2):  # the first row starts the loading
            with pytest.raises(Overloaded, match="loaded again") as caught:
                ask("hurry", limit_s=0.05)
            assert caught.value.headers["Retry-After"] == "1"
            wait_until(lambda: slow.starts == 2)
        asking = [gevent.spawn(ask, text) for text in "abc"]
        wait_until(lambda: look(backend).queued_rows == 4)
        slow.may_load.set()
        gevent.joinall(asking, timeout=LIMIT_S, raise_error=True)
    assert [greenlet.value["said"] for greenlet in asking] == [*"abc"]
    assert all(greenlet.value["loading_ms"] > 0 for greenlet in asking)
    assert len(slow.loaded) == 2


def test_a_model_that_cannot_be_loaded_again_is_tried_with_the_next_row(slow):
    with serve(slow, make(idle_unload_s=1)) as (backend, ask):
        ask("first")
        slow.is_broken = True
        wait_until(lambda: backend._served["ko"].load_left_s)
        with pytest.raises(NotReady, match="could not be loaded"):
            ask("lost")
        slow.is_broken = False
        assert ask("found")["said"] == "found"


def test_every_gpu_of_a_model_gets_its_workers_and_one_queue(slow):
    slow.may_run.clear()
    model = make(devices=("0", "2"), workers=2, batch_size=1)
    with serve(slow, model) as (_, ask):
        asking = [gevent.spawn(ask, str(n)) for n in range(4)]
        wait_until(lambda: len(slow.batches) == 4)
        slow.may_run.set()
        gevent.joinall(asking, timeout=LIMIT_S, raise_error=True)
    assert sorted(greenlet.value["index"] for greenlet in asking) == [0, 0, 2, 2]
    assert sorted(config.gpu for config in slow.loaded) == [0, 0, 2, 2]


ROOT = Path(__file__).parents[3]
PYTHON = (sys.executable, "-W", "error", "-c")


@pytest.mark.slow
def test_the_notebooks_lines_on_the_page_work(tmp_path):
    page = (ROOT / "docs/embedded.md").read_text("utf-8")
    ask, serve_it = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    code = "\n".join([ask, serve_it, ASK_IT]).replace("8888", port)
    said = run(*PYTHON, code, env={"PATH": "", "BABELGATE_CACHE": str(tmp_path)})
    assert said.split() == ["Bonjour", "Bonjour"]


#: Its last line ends the process abruptly, like a notebook's kernel: an interpreter that shuts
#: down around an event loop in a thread may crash.
ASK_IT = """
import os
import requests
while True:
    try:
        answer = requests.post("http://127.0.0.1:8888/translate", json=wanted, timeout=60)
        break
    except requests.ConnectionError:
        pass
print(answer.json()["translated"], flush=True)
os._exit(0)
"""
