"""The do-it-yourself peer: Flask in one process of Gunicorn, and a thread that runs batches."""

from __future__ import annotations

import sys
from http import HTTPStatus

from flask import Flask, request
from gunicorn.app.wsgiapp import run  # type: ignore[import-untyped]

from benchmarks.compare.peers.translator import PeerTranslator, read_options
from handlers.engine.translation.engine import Sentence
from handlers.microbatcher import MicroBatcher, QueueFull

#: A thread per request that is answered at the same time, and no more of them than wait.
_THREADS = _QUEUE_SIZE = 512
_ANSWER_S = 600
_APP = "benchmarks.compare.peers.serve_flask:create_app"


def create_app(argument: str) -> Flask:
    """Loads the model and answers `POST /`."""
    app = Flask(__name__)
    options = read_options(argument)
    translator = PeerTranslator(options)
    batcher: MicroBatcher[Sentence, str] = MicroBatcher(
        translator.translate,
        batch_size=options.batch_size,
        wait_s=options.wait_s,
        queue_size=_QUEUE_SIZE,
    )

    @app.post("/")
    def translate() -> dict[str, str] | tuple[str, HTTPStatus]:
        try:
            sentence = translator.parse(request.get_json())
        except ValueError as error:
            return str(error), HTTPStatus.UNPROCESSABLE_ENTITY
        return {"translated": batcher.ask(sentence, _ANSWER_S)}

    @app.errorhandler(QueueFull)
    def turn_away(_: QueueFull) -> tuple[str, HTTPStatus]:
        return "too many requests wait", HTTPStatus.SERVICE_UNAVAILABLE

    return app


if __name__ == "__main__":
    given = read_options()
    sys.argv[1:] = [
        *("--bind", f"{given.host}:{given.port}", "--no-control-socket"),
        # One process, so that the model is loaded once.
        *("--workers", "1", "--worker-class", "gthread", "--threads", str(_THREADS)),
        *("--timeout", str(_ANSWER_S), f"{_APP}({sys.argv[1]!r})"),
    ]
    run()
