"""`POST /detect-objects`: the objects in an image and where they are."""

from __future__ import annotations

from typing import Any

from flask import Blueprint

from gateway.routes.reception import Reception
from gateway.schemas import parse_detection
from torchserve_backend.catalog import DETECTION


def make_blueprint(reception: Reception) -> Blueprint:
    """The detection route."""
    blueprint = Blueprint(DETECTION, __name__)

    @blueprint.post("/detect-objects")
    def detect_objects() -> dict[str, Any]:
        (answer,) = reception.answer(DETECTION, parse_detection, is_single=True)
        return answer.content

    return blueprint
