"""The do-it-yourself peer: Flask in one process of Gunicorn, and a thread that runs batches."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from flask import Flask, request
from gunicorn.app.base import BaseApplication  # type: ignore[import-untyped]

from benchmarks.compare.peers.options import Options, read_options
from benchmarks.compare.peers.translator import Refused, Translator
from gateway.embedded.microbatcher import MicroBatcher, QueueFull
from handlers.engine.translation.m2m100 import Sentence

#: A thread per request that is answered at the same time, and no more of them than wait.
_THREADS = _QUEUE_SIZE = 512
_ANSWER_S = 600


def create_app(options: Options) -> Flask:
    """Loads the model and answers `POST /`."""
    app = Flask(__name__)
    translator = Translator(options)
    batcher: MicroBatcher[Sentence, str] = MicroBatcher(
        translator.translate,
        batch_size=options.batch_size,
        wait_s=options.wait_s,
        queue_size=_QUEUE_SIZE,
    )

    @app.post("/")
    def translate() -> dict[str, str]:
        sentence = translator.parse(request.get_json())
        return {"translated": batcher.ask(sentence, _ANSWER_S)}

    @app.errorhandler(Refused)
    def refuse(error: Refused) -> tuple[str, HTTPStatus]:
        return str(error), HTTPStatus.UNPROCESSABLE_ENTITY

    @app.errorhandler(QueueFull)
    def turn_away(_: QueueFull) -> tuple[str, HTTPStatus]:
        return "too many requests wait", HTTPStatus.SERVICE_UNAVAILABLE

    return app


class Server(BaseApplication):  # type: ignore[misc]
    """Gunicorn, configured by this program instead of a file."""

    def __init__(self, options: Options) -> None:
        self._options = options
        super().__init__()

    def load_config(self) -> None:
        """One process, so that the model is loaded once."""
        settings: dict[str, Any] = {
            "bind": f"{self._options.host}:{self._options.port}",
            "workers": 1,
            "worker_class": "gthread",
            "threads": _THREADS,
            "timeout": _ANSWER_S,
            "control_socket_disable": True,
        }
        for name, value in settings.items():
            self.cfg.set(name, value)

    def load(self) -> Flask:
        """The application, in the worker."""
        return create_app(self._options)


if __name__ == "__main__":
    Server(read_options()).run()
