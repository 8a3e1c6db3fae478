"""Ray Serve with one replica, whose thread translates while it collects the next batch."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from contextlib import suppress

import ray
from ray import serve
from starlette.requests import Request
from starlette.responses import Response

from benchmarks.compare.peers import translator
from handlers.base import Result, Row, write_answer

#: Concurrent requests of the replica: with Ray's default of 5, no batch could fill.
_ONGOING = 1024
#: Ray's default is a third of the memory, but nothing is stored here.
_OBJECT_STORE_BYTES = 100_000_000
#: Ray would replace 127.0.0.1 by this machine's external address.
_NODE = "127.0.0.2"


class PeerReplica:
    """The deployment that answers `POST /`."""

    def __init__(self, options: translator.PeerOptions) -> None:
        self._handler = translator.load_handler(options)
        self.translate.set_max_batch_size(options.batch_size)
        self.translate.set_batch_wait_timeout_s(options.wait_s)

    async def __call__(self, request: Request) -> Response:
        result = await self.translate(Row(await request.body()))
        status, content_type, body = write_answer(result)
        return Response(body, status, media_type=content_type)

    @serve.batch  # type: ignore[untyped-decorator]
    async def translate(self, rows: Sequence[Row]) -> list[Result]:
        outcome = await asyncio.to_thread(self._handler.answer, rows)
        return outcome.results


def main() -> None:
    """Serve until SIGTERM or Ctrl-C."""
    options = translator.read_options()
    ray.init(
        include_dashboard=False,
        object_store_memory=_OBJECT_STORE_BYTES,
        _node_ip_address=_NODE,
    )
    # Ray's own handler would exit without the shutdown below.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    serve.start(http_options={"host": translator.HOST, "port": options.port})
    deployment = serve.deployment(PeerReplica, max_ongoing_requests=_ONGOING)
    serve.run(deployment.bind(options))
    with suppress(KeyboardInterrupt):
        signal.pause()
    # Serve's own shutdown would first wait for half a minute.
    ray.shutdown()


if __name__ == "__main__":
    main()
