"""`POST /caption`, `POST /classify` and `POST /detect-objects`: descriptions of images."""

from functools import partial
from typing import Any, NotRequired, cast

from flask import Blueprint
from typing_extensions import TypedDict

from contract.tasks import CAPTIONING, CLASSIFICATION, DETECTION, PATHS
from gateway.api import Services
from gateway.http.request import GatewayRequest
from gateway.openapi import LOOKING, Operation
from gateway.schemas import (
    ClassificationParameters,
    DetectionParameters,
    Schema,
    note_unknown,
)

_describe = partial(Operation, refusals=LOOKING, has_limit=True)


class Captions(TypedDict):
    """The captions, one for each image and frame, in order."""

    captions: list[str]
    warnings: NotRequired[list[str]]


class Label(TypedDict):
    """A label of an image, and its score."""

    label: str
    score: float


class Labels(TypedDict):
    """The labels, best first."""

    labels: list[Label]
    warnings: NotRequired[list[str]]


class Box(TypedDict):
    """The position of an object, in pixels of the image."""

    left: float
    top: float
    right: float
    bottom: float


class Found(Label):
    """An object in the image."""

    box: Box


class Objects(TypedDict):
    """The objects, best first, and the size of the image."""

    objects: list[Found]
    width: int
    height: int
    warnings: NotRequired[list[str]]


def make_blueprints(services: Services) -> list[Blueprint]:
    """Return the routes of the three tasks."""
    answer = services.images.answer
    captioning, classification, detection = blueprints = [
        Blueprint(task, __name__) for task in (CAPTIONING, CLASSIFICATION, DETECTION)
    ]

    def answer_one(request: GatewayRequest) -> Any:
        (row,) = answer(request)
        return note_unknown(row.content, request.operation.query, request.args)

    @captioning.post(PATHS[CAPTIONING])
    @_describe("A sentence about each image or frame", CAPTIONING, takes="images")
    def caption(request: GatewayRequest) -> Captions:
        captions: list[str] = []
        for row in answer(request):
            found = row.content["captions"]
            if len(found) != row.frames:
                raise ValueError(f"{len(found)} captions for {row.frames} frames")
            captions += found
        return note_unknown(Captions(captions=captions), Schema, request.args)

    @classification.post(PATHS[CLASSIFICATION])
    @_describe(
        "Labels of an image, with scores",
        CLASSIFICATION,
        query=ClassificationParameters,
        takes="image",
    )
    def classify(request: GatewayRequest) -> Labels:
        return cast(Labels, answer_one(request))

    @detection.post(PATHS[DETECTION])
    @_describe(
        "The objects in an image: boxes, labels and scores",
        DETECTION,
        query=DetectionParameters,
        takes="image",
    )
    def detect_objects(request: GatewayRequest) -> Objects:
        return cast(Objects, answer_one(request))

    return [*blueprints]
