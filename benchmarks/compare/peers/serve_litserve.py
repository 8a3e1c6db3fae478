"""LitServe with its batching: one worker process, because the engine uses all cores,
and ZeroMQ, which LitServe advises from 100 requests/s on; release 0.2.19 accepts that
option and ignores it. In LitServe, a request that cannot be parsed fails its whole
batch.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from http import HTTPStatus

import litserve  # type: ignore[import-not-found]
from fastapi import HTTPException

from benchmarks.compare.peers import translator
from handlers.engine.translation.engine import Sentence

_ANSWER_S = 600


class TranslationApi(litserve.LitAPI):  # type: ignore[misc]
    """Answers `POST /`."""

    def __init__(self, options: translator.PeerOptions) -> None:
        super().__init__(
            max_batch_size=options.batch_size,
            batch_timeout=options.wait_s,
            api_path="/",
        )
        self._options = options

    def setup(self, device: str) -> None:
        self._translator = translator.PeerTranslator(self._options)

    # LitServe makes FastAPI's model of a body of this annotation, and of an answer of the
    # other's: without them it takes JSON as it is, as in its examples.
    def decode_request(self, request):  # type: ignore[no-untyped-def]
        try:
            return self._translator.parse(request)
        except ValueError as error:
            raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error

    def predict(self, x: Sequence[Sentence]) -> list[str]:
        return self._translator.translate(x)

    def encode_response(self, output):  # type: ignore[no-untyped-def]
        return {"translated": output}


if __name__ == "__main__":
    given = translator.read_options()
    api = TranslationApi(given)
    server = litserve.LitServer(
        api, accelerator="cpu", devices=1, timeout=_ANSWER_S, fast_queue=True
    )
    # LitServe takes its workers along at Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    address = {"host": given.host, "port": given.port}
    server.run(**address, log_level="warning", generate_client_file=False)
