"""`GET /languages`: the target languages, and whether each is ready. LibreTranslate's
clients find their fields in the same list, and some of them send POST.
"""

from __future__ import annotations

from babel import Locale
from babel.core import UnknownLocaleError
from flask import Blueprint
from typing_extensions import TypedDict

from contract.dialects import LIBRETRANSLATE, OURS
from contract.tasks import TRANSLATION
from gateway.api import Services
from gateway.metrics.status import find_ready
from gateway.openapi.operations import Operation, describe


class Language(TypedDict):
    """A language that can be translated into, and the fields of LibreTranslate's clients."""

    code: str
    name: str
    own_name: str
    device: str
    ready: bool
    targets: list[str]


def make_blueprints(services: Services) -> list[Blueprint]:
    """The languages route."""
    catalog, backend = services.catalog, services.backend
    blueprint = Blueprint("languages", __name__)

    @blueprint.get("/languages")
    @blueprint.post("/languages")
    @describe(
        Operation(
            "The languages that can be translated into, and whether each is ready",
            dialects=(OURS, LIBRETRANSLATE),
        )
    )
    def languages() -> list[Language]:
        return [
            {
                "code": code,
                "name": name_language(code, "en"),
                "own_name": name_language(code, code),
                "device": catalog.route(TRANSLATION, code).device,
                "ready": is_ready,
                "targets": list(catalog.languages),
            }
            for code, is_ready in find_ready(catalog, backend).items()
        ]

    return [blueprint]


def name_language(code: str, display: str) -> str:
    """The name of `code` in the language `display`, or the code itself if CLDR has none."""
    try:
        return str(Locale.parse(display).languages.get(code, code))
    except UnknownLocaleError:
        return code
