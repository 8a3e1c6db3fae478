"""The do-it-yourself peer: Flask in one process of Gunicorn, and a thread that runs batches."""

from __future__ import annotations

import sys
from http import HTTPStatus

from flask import Flask, Response, request
from gunicorn.app.wsgiapp import run  # type: ignore[import-untyped]

from benchmarks.compare.peers.translator import HOST, load_handler, read_options
from handlers.base import Result, Row, write_answer
from handlers.microbatcher import MicroBatcher, QueueFull

#: The number of concurrent requests, each of which has a thread and may wait in the queue.
_THREADS = _QUEUE_SIZE = 512
_ANSWER_S = 600
_APP = "benchmarks.compare.peers.serve_flask:create_app"


def create_app(argument: str) -> Flask:
    """Load the model, and return the application that answers `POST /`."""
    app = Flask(__name__)
    options = read_options(argument)
    handler = load_handler(options)
    batcher: MicroBatcher[Row, Result] = MicroBatcher(
        lambda rows: handler.answer(rows).results,
        batch_size=options.batch_size,
        wait_s=options.wait_s,
        queue_size=_QUEUE_SIZE,
    )

    @app.post("/")
    def translate() -> Response:
        result = batcher.submit(Row(request.get_data())).result(_ANSWER_S)
        status, content_type, body = write_answer(result)
        return Response(body, status, content_type=content_type)

    @app.errorhandler(QueueFull)
    def turn_away(_: QueueFull) -> tuple[str, HTTPStatus]:
        return "too many requests wait", HTTPStatus.SERVICE_UNAVAILABLE

    return app


if __name__ == "__main__":
    given = read_options()
    sys.argv[1:] = [
        "--bind", f"{HOST}:{given.port}", "--no-control-socket",
        # One process, so that the model is loaded once.
        "--workers", "1", "--worker-class", "gthread", "--threads", str(_THREADS),
        "--timeout", str(_ANSWER_S), f"{_APP}({sys.argv[1]!r})",
    ]  # fmt: skip
    run()
