"""LitServe with its batching: one worker process, because the engine uses all cores,
and ZeroMQ, which LitServe recommends from 100 requests/s on; release 0.2.19 accepts that
option and ignores it.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence

import litserve  # type: ignore[import-not-found]
from starlette.responses import Response

from benchmarks.compare.peers import translator
from handlers.base import Result, Row, write_answer

_ANSWER_S = 600


class TranslationApi(litserve.LitAPI):  # type: ignore[misc]
    """The API that answers `POST /`."""

    def __init__(self, options: translator.PeerOptions) -> None:
        super().__init__(
            max_batch_size=options.batch_size,
            batch_timeout=options.wait_s,
            api_path="/",
        )
        self._options = options

    def setup(self, device: str) -> None:
        self._handler = translator.load_handler(self._options)

    # LitServe would make FastAPI models from annotations of this method and `encode_response`.
    # Without them, it accepts JSON as it is, as in its examples.
    def decode_request(self, request):  # type: ignore[no-untyped-def]
        return Row(request)

    def predict(self, x: Sequence[Row]) -> list[Result]:
        return self._handler.answer(x).results

    def encode_response(self, output):  # type: ignore[no-untyped-def]
        status, content_type, body = write_answer(output)
        return Response(body, status, media_type=content_type)


if __name__ == "__main__":
    given = translator.read_options()
    api = TranslationApi(given)
    server = litserve.LitServer(
        api, accelerator="cpu", devices=1, timeout=_ANSWER_S, fast_queue=True
    )
    # LitServe stops its workers at Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    address = {"host": translator.HOST, "port": given.port}
    server.run(**address, log_level="warning", generate_client_file=False)
