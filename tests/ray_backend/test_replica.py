"""A replica's keys, refusals, batches and end, and Ray Serve's application and counters."""

import asyncio
import hashlib
import json
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any
from unittest.mock import AsyncMock

import pytest
from pydantic import ValidationError
from ray.serve import Application
from ray.util import metrics

from handlers.base import (
    LoadError,
    ModelConfig,
    Outcome,
    ReloadableHandler,
    Row,
    TaskHandler,
)
from ray_backend.application import BatchCounters, ReplicaServer, build
from ray_backend.config import Arguments, write_arguments
from ray_backend.replica import Replica, Stuck, load_handler

LIMIT_S = 60
KEY = "sesame"
PATH = "/predictions/ko"
ROW = {"src_lang": "en", "src_text": "Good morning", "tgt_lang": "ko"}
DIGEST = hashlib.sha256(KEY.encode()).hexdigest()


def make_arguments(**settings: Any) -> Arguments:
    """The arguments of a translation model that does not wait for further rows."""
    return Arguments(
        name="ko",
        task="translation",
        languages=("ko",),
        devices=("cpu",),
        settings={"engine": "echo", "max_batch_delay": 0, **settings},
        key_digest=DIGEST,
    )


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test in an event loop of its own."""

    @wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(asyncio.wait_for(test(**fixtures), LIMIT_S))

    return run


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def content(self) -> Any:
        return json.loads(self.body)

    @property
    def slug(self) -> str:
        return str(self.content["type"]).removeprefix("urn:babelgate:")


@dataclass
class Client:
    """A client that calls an application as uvicorn does, at the model's path."""

    replica: Replica

    async def ask(
        self,
        *parts: bytes,
        method: str = "POST",
        path: str = PATH,
        is_cut: bool = False,
        **headers: str,
    ) -> Answer:
        """Send a body in parts; with `is_cut`, disconnect before its end. Underscores in the
        names of headers become hyphens."""
        given = {"authorization": f"Bearer {KEY}"} | headers
        messages: list[dict[str, Any]] = [
            {"type": "http.request", "body": part, "more_body": True} for part in parts
        ]
        messages.append({"type": "http.disconnect" if is_cut else "http.request"})
        send = AsyncMock()
        scope = {
            "type": "http",
            "method": method,
            "root_path": PATH,
            "path": path,
            "headers": [
                (name.replace("_", "-").encode("latin-1"), value.encode("latin-1"))
                for name, value in given.items()
            ],
        }
        await self.replica(scope, AsyncMock(side_effect=messages), send)
        start, body = (call.args[0] for call in send.await_args_list)
        return Answer(
            start["status"],
            {name.decode(): value.decode() for name, value in start["headers"]},
            body["body"],
        )


class Held(TaskHandler[str]):
    """A handler that waits for `open`, and then answers every row with its body."""

    def __init__(self) -> None:
        self.batches: list[list[Row]] = []
        self.begun = threading.Semaphore(0)
        self.open = threading.Event()

    def load_model(self, config: ModelConfig) -> None:
        self.config = config

    def preprocess(self, row: Row) -> str:
        return bytes(row.body).decode()

    def infer(self, items: Sequence[str], deadline: float) -> Outcome:
        return Outcome([{"echo": item} for item in items], {})

    def answer(self, rows: Sequence[Row]) -> Outcome:
        self.batches.append(list(rows))
        self.begun.release()
        assert self.open.wait(LIMIT_S)
        return super().answer(rows)

    async def wait_for_batch(self) -> None:
        assert await asyncio.to_thread(self.begun.acquire, timeout=LIMIT_S)


@pytest.fixture
def held() -> Iterator[Held]:
    handler = Held()
    handler.start(ModelConfig(directory=..., gpu=None, options={}))  # type: ignore[arg-type]
    yield handler
    handler.open.set()


@pytest.fixture
def counts() -> Counter[str]:
    """The replica's counters."""
    return Counter()


@pytest.fixture
def serve(held: Held, counts: Counter[str]) -> Iterator[Callable[..., Client]]:
    """Start a replica of the held handler with these settings, and return a client of it."""
    replicas: list[Replica] = []

    def serve(**settings: Any) -> Client:
        handler = ReloadableHandler(lambda: held)
        replicas.append(Replica(make_arguments(**settings), handler, counts.update))
        return Client(replicas[-1])

    yield serve
    held.open.set()
    for each in replicas:
        each.close()


Serve = Callable[..., Client]


async def wait_until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(0.001)


#: The header that names the remedy, by status.
HELP = {401: ("www-authenticate", "Bearer"), 405: ("allow", "GET, POST")}
REFUSALS: dict[str, tuple[dict[str, Any], int, str]] = {
    "no key": ({"authorization": ""}, 401, "invalid-key"),
    "another key": ({"authorization": "Bearer open"}, 401, "invalid-key"),
    "no bearer": ({"authorization": f"Basic {KEY}"}, 401, "invalid-key"),
    "a key in Latin-1": ({"authorization": "Bearer s\xe9same"}, 401, "invalid-key"),
    "no state": ({"method": "GET", "authorization": ""}, 401, "invalid-key"),
    "a longer path": ({"path": f"{PATH}/x"}, 404, "not-found"),
    "another model's path": ({"path": f"{PATH}k"}, 404, "not-found"),
    "a method": ({"method": "DELETE"}, 405, "method-not-allowed"),
    "a limit that is no number": ({"x_remaining_ms": "soon"}, 400, "malformed-request"),
    "a limit without end": ({"x_remaining_ms": "inf"}, 400, "malformed-request"),
    "a limit that is past": ({"x_remaining_ms": "-1"}, 504, "deadline"),
    "half a body": ({"is_cut": True}, 400, "malformed-request"),
}


@pytest.mark.parametrize(
    ("request_", "status", "slug"), REFUSALS.values(), ids=REFUSALS.keys()
)
@in_loop
async def test_what_is_refused_reaches_no_batch(serve, held, request_, status, slug):
    held.open.set()
    answer = await serve().ask(b"a", **request_)
    assert (answer.status, answer.slug) == (status, slug)
    assert answer.content["status"] == status
    assert answer.headers["content-type"] == "application/problem+json"
    if helpful := HELP.get(status):
        assert helpful in answer.headers.items()
    assert held.batches == []


@in_loop
async def test_every_answer_names_its_replica(serve: Serve, held: Held):
    held.open.set()
    asked: list[dict[str, Any]] = [{}, {"method": "GET"}, {"authorization": ""}]
    names = [
        {(await client.ask(b"a", **each)).headers["x-replica"] for each in asked}
        for client in (serve(), serve())
    ]
    assert [len(each) for each in (*names, names[0] | names[1])] == [1, 1, 2]


@in_loop
async def test_the_gateway_bounds_the_size_of_a_row(serve: Serve, held: Held):
    held.open.set()
    answer = await serve().ask(b"abc", bytes(35 << 20))  # BABELGATE_MAX_IMAGE_BYTES
    assert answer.status == 200


@in_loop
async def test_a_row_has_its_parameters_and_its_time(serve: Serve, held: Held):
    held.open.set()
    client = serve(response_timeout=90)
    query = "top_k=2&name=a%20b"
    await client.ask(b"a", x_remaining_ms="1500", x_parameters=query, traceparent="a")
    await client.ask(b"b")
    (short,), (default,) = held.batches
    assert short.parameters == {"top_k": "2", "name": "a b"}
    assert (short.trace, default.trace) == ("a", "")
    for row, expected_s in ((short, 1.5), (default, 90)):
        assert row.sent_at is not None
        assert row.deadline - row.sent_at == pytest.approx(expected_s)


@asynccontextmanager
async def run_batch(client: Client, held: Held) -> AsyncIterator[asyncio.Task[Any]]:
    """Run a batch of one row for the duration of the block."""
    running = asyncio.create_task(client.ask(b"running"))
    await held.wait_for_batch()
    yield running
    held.open.set()
    assert (await running).content == {"echo": "running"}


async def wait_for_rows(client: Client, count: int) -> None:
    await wait_until(lambda: client.replica._batcher.waiting == count)


@in_loop
async def test_rows_that_come_together_are_one_batch_and_counted(serve, held, counts):
    client = serve(batch_size=4)
    async with run_batch(client, held):
        rows = [asyncio.create_task(client.ask(b"%d" % i)) for i in range(4)]
        await wait_for_rows(client, 4)
        state = await client.ask(method="GET")
    answers = await asyncio.gather(*rows)
    ready = {"is_ready": True, "reason": "", "life": ""}
    assert state.content == ready | {"batch_size": 4, "queued_rows": 4}
    assert [answer.content for answer in answers] == [{"echo": each} for each in "0123"]
    assert [len(batch) for batch in held.batches] == [1, 4]
    assert (counts["BabelgateBatches"], counts["BabelgateRows"]) == (2, 5)


@in_loop
async def test_a_full_queue_says_when_to_come_again(serve: Serve, held: Held):
    client = serve(queue_size=1)
    async with run_batch(client, held):
        waiting = asyncio.create_task(client.ask(b"waiting"))
        await wait_for_rows(client, 1)
        refused = await client.ask(b"refused")
    assert (refused.status, refused.slug) == (429, "queue-full")
    assert refused.headers["retry-after"] == "1"
    assert (await waiting).status == 200


@in_loop
async def test_a_row_without_the_time_to_load_its_model_has_it_loaded(serve, held):
    client, may_load = serve(idle_unload_s=1), threading.Event()
    handler = client.replica._handler
    handler._start = lambda: held if may_load.wait(LIMIT_S) else None
    await wait_until(lambda: handler.load_left_s)
    handler._load_s = 1.9  # the duration of the last load
    assert (await client.ask(method="GET")).content["is_ready"]
    refused = await client.ask(b"late", x_remaining_ms="1000")
    assert (refused.slug, refused.headers["retry-after"]) == ("unloaded", "2")
    await wait_until(lambda: client.replica._began_at < time.monotonic())
    client.replica._began_at -= 61  # seconds, one more than a batch may take
    may_load.set()
    await held.wait_for_batch()
    client.replica.check_health()
    held.open.set()
    assert (refused.status, (await client.ask(b"patient")).status) == (429, 200)


@in_loop
async def test_a_row_that_is_late_or_whose_client_has_gone_is_not_run(serve, held):
    client = serve()
    async with run_batch(client, held):
        late = await client.ask(b"late", x_remaining_ms="20")
        gone = asyncio.create_task(client.ask(b"gone"))
        await wait_for_rows(client, 1)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
    await client.ask(b"next")
    assert (late.status, late.slug) == (504, "deadline")
    bodies = [bytes(row.body) for batch in held.batches for row in batch]
    assert bodies == [b"running", b"next"]


@in_loop
async def test_a_batch_that_hangs_makes_the_replica_unhealthy(serve: Serve, held: Held):
    client = serve(response_timeout=1)
    client.replica.check_health()
    hanging = asyncio.create_task(client.ask(b"a"))
    await held.wait_for_batch()
    await wait_until(lambda: bool(client.replica._find_fault()))
    state = (await client.ask(method="GET")).content
    assert state["is_ready"] is False
    assert state["reason"] == "A batch has run for longer than 1 s."
    with pytest.raises(Stuck, match=state["reason"]):
        client.replica.check_health()
    client.replica.close()  # does not wait for the batch
    held.open.set()
    assert (await hanging).status == 504


@in_loop
async def test_an_error_of_the_handler_costs_its_batch_only(
    serve, held, monkeypatch, caplog
):
    client = serve()
    held.open.set()
    with monkeypatch.context() as patch, caplog.at_level(logging.ERROR):
        patch.setattr(held, "answer", lambda rows: 1 / len(rows[0].parameters))
        failed = await client.ask(b"secret")
    assert (failed.status, failed.slug) == (500, "internal")
    assert "ZeroDivisionError" in caplog.text
    assert "secret" not in caplog.text
    assert (await client.ask(b"a")).status == 200
    client.replica.check_health()


@in_loop
async def test_what_was_taken_is_answered_before_the_end(serve: Serve, held: Held):
    """Start and end the application by lifespan messages, as uvicorn does."""
    client = serve(batch_size=1)
    messages: asyncio.Queue[Any] = asyncio.Queue()
    send = AsyncMock()
    life = asyncio.create_task(client.replica({"type": "lifespan"}, messages.get, send))
    messages.put_nowait({"type": "lifespan.startup"})
    asked = [asyncio.create_task(client.ask(b"%d" % i)) for i in range(3)]
    await wait_for_rows(client, 2)
    messages.put_nowait({"type": "lifespan.shutdown"})
    await wait_until(lambda: client.replica._is_closed)
    state = (await client.ask(method="GET")).content
    held.open.set()
    await life
    sent = [call.args[0]["type"] for call in send.await_args_list]
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert [answer.status for answer in await asyncio.gather(*asked)] == [200] * 3
    late = await client.ask(b"late")
    assert (late.status, late.slug) == (503, "not-ready")
    assert (state["is_ready"], state["reason"]) == (False, late.content["detail"])


@in_loop
async def test_a_websocket_is_closed(serve: Serve):
    send = AsyncMock()
    await serve().replica({"type": "websocket"}, AsyncMock(), send)
    send.assert_awaited_once_with({"type": "websocket.close"})


def test_why_a_model_cannot_be_loaded_is_said_and_logged(tmp_path, caplog):
    model = make_arguments(model=str(tmp_path / "missing")).model
    with pytest.raises(LoadError) as refusal:
        load_handler(model, tmp_path / "cache")
    assert str(refusal.value).startswith("ko cannot be loaded: ModelError: ")
    assert str(tmp_path / "missing") in str(refusal.value)
    assert "the model ko cannot be loaded" in caplog.text


def test_a_model_is_loaded_onto_the_gpu_that_ray_gives(tmp_path, monkeypatch):
    monkeypatch.setattr("handlers.base.find_class", lambda *_: Held)
    arguments = make_arguments().model_copy(update={"devices": ("3", "4")})
    handler = load_handler(arguments.model, tmp_path)
    assert isinstance(handler, Held)
    assert handler.config.gpu == 0


def test_the_arguments_of_the_configuration_are_an_application():
    args = write_arguments(make_arguments().model, DIGEST)
    assert isinstance(build(args), Application)


def test_arguments_of_another_version_are_refused():
    args = make_arguments().model_dump(mode="json")
    with pytest.raises(ValidationError, match="language"):
        build(args | {"language": "ko"})
    with pytest.raises(ValidationError, match="batchsize"):
        build(args | {"settings": {"batchsize": 8}})


@pytest.mark.parametrize(("given", "left"), [("1", None), ("4", "4"), (None, None)])
def test_ray_does_not_decide_how_many_threads_compute(monkeypatch, given, left):
    monkeypatch.setenv("OMP_NUM_THREADS", given or "")
    if given is None:
        monkeypatch.delenv("OMP_NUM_THREADS")
    ReplicaServer(make_arguments().model_dump(mode="json"))
    assert os.environ.get("OMP_NUM_THREADS") == left


def test_declared_counts_are_added_and_others_dropped(monkeypatch: pytest.MonkeyPatch):
    added: list[tuple[str, float, dict[str, str]]] = []

    def inc(counter: metrics.Counter, value: float, tags: dict[str, str]) -> None:
        assert value > 0  # Ray refuses other values
        added.append((counter.info["name"], value, tags))

    monkeypatch.setattr(metrics.Counter, "inc", inc)
    counters = BatchCounters("ko")
    counters.add({"BabelgateRows": 3, "BabelgateComputeMs": 0, "Unknown": 1})
    assert added == [("BabelgateRows", 3, {"ModelName": "ko"})]
