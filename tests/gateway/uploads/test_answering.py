"""An upload's rows are answered several at a time and end with the first that fails."""

import io
from collections.abc import Callable
from typing import Any

import gevent
import numpy as np
import pytest
from gevent.event import Event

import catalog
from catalog.sections.captioning import CaptioningSection
from gateway.admission.control import Admission
from gateway.backends.backend import RowRequest
from gateway.errors import InvalidImage, Overloaded, RowProblem, UnsupportedImage
from gateway.http.request import GatewayRequest
from gateway.metrics import Telemetry
from gateway.openapi import Operation
from gateway.schemas import Schema
from gateway.settings import Settings
from gateway.uploads.images import ROWS_AT_ONCE, FrameAnswer, ImageService
from tests.gateway.conftest import StatelessBackend
from tests.handlers.encoding import write_npy

FRAMES = 32 * 10
#: Memory for one image.
SMALL = {"max_image_bytes": 8 << 20}
REFUSAL = {"type": "urn:babelgate:x", "title": "t", "status": 422, "detail": "No."}


class Parameters(Schema):
    a: str = "b"


class FakeBackend(StatelessBackend):
    """A backend that answers each row with a function, and counts the rows in progress."""

    def __init__(self, answer: Callable[[int, RowRequest], dict[str, Any]]) -> None:
        self.rows: list[RowRequest] = []
        self.at_once = self.most_at_once = 0
        self._answer = answer

    def predict(self, model, row, *, deadline) -> dict[str, Any]:
        assert (model, row.parameters) == ("captioning", {"a": "b"})
        self.rows.append(row)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            return self._answer(len(self.rows) - 1, row)
        finally:
            self.at_once -= 1


class Body:
    """A body that arrives in pieces, each after a `pause`."""

    def __init__(self, data: bytes, pause: Callable[[], object] = gevent.sleep) -> None:
        self._file = io.BytesIO(data)
        self._pause = pause

    def read(self, size: int, /) -> bytes:
        self._pause()
        return self._file.read(min(size, 4096))


def make_array(frames: int = FRAMES) -> bytes:
    """Return a `.npy` file whose frames' first pixels count up."""
    array = np.zeros((frames, 8, 8, 3), np.uint8)
    array[:, 0, 0, 0] = np.arange(frames)
    return write_npy(array)


def see(_: int, row: RowRequest) -> dict[str, Any]:
    return {"seen": np.load(io.BytesIO(row.body))[:, 0, 0, 0].tolist()}


def make_service(backend: FakeBackend, **given: Any) -> ImageService:
    """Make a service whose model accepts many rows at once."""
    settings = CaptioningSection(batch_size=8)
    model = catalog.Model("captioning", "captioning", (), ("cpu",), settings)
    models = catalog.Catalog({("captioning", ""): model})
    admission = Admission(backend, [model])
    return ImageService(models, admission, Telemetry(), Settings(**given))


def ask(service: ImageService, body: Body) -> list[FrameAnswer]:
    environ = {"wsgi.input": body, "wsgi.input_terminated": True}
    environ["HTTP_TRANSFER_ENCODING"] = "chunked"
    request = GatewayRequest(environ)
    request.operation = Operation("", "captioning", query=Parameters, takes="images")
    return service.answer(request)


def test_the_answers_come_in_the_order_of_the_frames():
    turns = [Event() for _ in range(10)]

    def answer(number: int, row: RowRequest) -> dict[str, Any]:
        # The last of each four is answered first.
        if number % 4 < 3 and number < 8:
            assert turns[number + 1].wait(60)
        turns[number].set()
        return see(number, row)

    backend = FakeBackend(answer)
    answers = ask(make_service(backend), Body(make_array()))
    assert [one.frames for one in answers] == [32] * 10
    seen = [pixel for one in answers for pixel in one.content["seen"]]
    assert seen == [number % 256 for number in range(FRAMES)]
    assert backend.most_at_once == ROWS_AT_ONCE


def test_a_row_that_fails_does_not_wait_for_slower_ones():
    def answer(number: int, _: RowRequest) -> dict[str, Any]:
        if number == 0:
            assert Event().wait(60)
        raise Overloaded("Full.")

    with pytest.raises(Overloaded) as caught:
        ask(make_service(FakeBackend(answer)), Body(make_array(64)))
    assert caught.value.detail == "frames 32-63: Full."


@pytest.mark.parametrize("pause", [gevent.sleep, lambda: None], ids=["slow", "fast"])
def test_however_uploads_end_they_hold_nothing_afterwards(pause):
    def answer(_: int, row: RowRequest) -> dict[str, Any]:
        if row.body.startswith(b"\xff"):
            return {}
        gevent.sleep()
        raise RowProblem(REFUSAL)

    service = make_service(FakeBackend(answer), **SMALL)
    cut_off = make_array(90)[:-1]
    for data in [make_array(90), cut_off, cut_off[:-100], b"GIF"] * 100:
        with pytest.raises((RowProblem, InvalidImage, UnsupportedImage)):
            ask(service, Body(data, pause))
    image = b"\xff\xd8\xff".ljust(8 << 20)
    assert ask(service, Body(image, lambda: None)) == [FrameAnswer(1, {})]
