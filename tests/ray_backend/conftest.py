"""An ASGI client, and replicas whose handlers the tests hold back."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from handlers.base import ModelConfig, Outcome, Row, TaskHandler
from ray_backend.config import Arguments
from ray_backend.replica import Replica

LIMIT_S = 60
KEY = "sesame"
PATH = "/predictions/ko"
DIGEST = hashlib.sha256(KEY.encode()).hexdigest()

Result = TypeVar("Result")


def make_arguments(**settings: Any) -> Arguments:
    """A translation model of the map, which waits for no further row."""
    return Arguments(
        name="ko",
        task="translation",
        languages=("ko",),
        devices=("cpu",),
        settings={"engine": "echo", "max_batch_delay": 0, **settings},
        key_digest=DIGEST,
    )


def run(coroutine: Awaitable[Result]) -> Result:
    """Run a coroutine in a loop of its own and return its result."""

    async def limited() -> Result:
        async with asyncio.timeout(LIMIT_S):
            return await coroutine

    return asyncio.run(limited())


@dataclass(frozen=True)
class Answer:
    """The answer to a client."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def content(self) -> Any:
        return json.loads(self.body)

    @property
    def slug(self) -> str:
        return str(self.content["type"]).removeprefix("urn:babelgate:")


@dataclass
class Client:
    """Calls an application as uvicorn does, at the model's path."""

    replica: Replica
    headers: Mapping[str, str] = field(
        default_factory=lambda: {"authorization": f"Bearer {KEY}"}
    )

    async def ask(
        self,
        *parts: bytes,
        method: str = "POST",
        path: str = PATH,
        is_cut: bool = False,
        **headers: str,
    ) -> Answer:
        """The answer to a body that comes in parts; with `is_cut` its end never comes.
        Underscores in headers are hyphens."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        messages = [
            {"type": "http.request", "body": part, "more_body": True} for part in parts
        ]
        end = "http.disconnect" if is_cut else "http.request"
        waiting = iter([*messages, {"type": end}])
        sent: list[Any] = []

        async def receive() -> Any:
            return next(waiting)

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "method": method,
            "root_path": PATH,
            "path": path,
            "headers": [
                (name.encode("latin-1"), value.encode("latin-1"))
                for name, value in {**self.headers, **given}.items()
            ],
        }
        await self.replica(scope, receive, send)
        start, body = sent
        return Answer(
            start["status"],
            {name.decode(): value.decode() for name, value in start["headers"]},
            body["body"],
        )


class Held(TaskHandler[str]):
    """Answers every row with its body, once it is let on."""

    def __init__(self) -> None:
        self.batches: list[list[Row]] = []
        self.begun = threading.Semaphore(0)
        self.open = threading.Event()

    def load_model(self, config: ModelConfig) -> None:
        pass

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
    """A handler that is held back until the test opens it."""
    handler = Held()
    handler.start(ModelConfig(directory=..., device="cpu", device_index=0, options={}))  # type: ignore[arg-type]
    yield handler
    handler.open.set()


@pytest.fixture
def counts() -> Counter[str]:
    """The counts of the replica."""
    return Counter()


@pytest.fixture
def serve(held: Held, counts: Counter[str]) -> Iterator[Callable[..., Client]]:
    """Makes a client of a replica of the held handler, with these settings."""
    replicas: list[Replica] = []

    def serve(**settings: Any) -> Client:
        replicas.append(Replica(make_arguments(**settings), held, counts.update))
        return Client(replicas[-1])

    yield serve
    held.open.set()
    for replica in replicas:
        replica.close()
