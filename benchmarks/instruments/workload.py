"""The requests that benchmarks send for each task: sentences, or images of shapes."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator
from typing import Literal

import numpy as np
from PIL import Image

from benchmarks.instruments import sentences
from benchmarks.instruments.generator import Request
from contract.tasks import CAPTIONING, PATHS, TRANSLATION
from models.shapes_recipe import samples

#: The tasks that can be measured.
MeasuredTask = Literal["translation", "captioning", "classification", "detection"]

#: Usually drawn for a measurement.
REQUESTS = 2000
#: More would be drawn for longer than most measurements take.
_PICTURES = 200


def draw_requests(
    task: str,
    count: int,
    *,
    targets: Collection[str] = (),
    tokens: tuple[int, int] | None = None,
) -> list[Request]:
    """The same requests in every run; `targets` and `tokens` are those of `sentences.draw`."""
    if task == TRANSLATION:
        drawn = sentences.draw(count, targets, tokens=tokens)
        return [sentences.write_request(sentence) for sentence in drawn]
    bodies = list(_draw_bodies(task, min(count, _PICTURES)))
    return [Request(bodies[i % len(bodies)], PATHS[task]) for i in range(count)]


def _draw_bodies(task: str, count: int) -> Iterator[bytes]:
    """Draw the bodies of requests: frames as arrays, images as JPEG."""
    for sample in samples.held_out(samples.ShapesTask(task), count):
        stream = io.BytesIO()
        if task == CAPTIONING:
            np.save(stream, sample.picture)
        else:
            Image.fromarray(sample.picture).save(stream, "JPEG", quality=90)
        yield stream.getvalue()
