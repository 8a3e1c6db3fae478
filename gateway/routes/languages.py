"""`GET /languages`: what can be translated into, and whether it can right now."""

from __future__ import annotations

from typing import Any

from babel import Locale
from babel.core import UnknownLocaleError
from flask import Blueprint

from gateway.backend import Backend
from torchserve_backend.catalog import TRANSLATION, Catalog


def make_blueprint(catalog: Catalog, backend: Backend) -> Blueprint:
    """The languages route."""
    blueprint = Blueprint("languages", __name__)

    @blueprint.get("/languages")
    def languages() -> list[dict[str, Any]]:
        states = backend.states([model.name for model in catalog.models])
        return [
            {
                "code": code,
                "name": _name(code, "en"),
                "own_name": _name(code, code),
                "device": model.device,
                "ready": bool((state := states[model.name]) and state.is_ready),
            }
            for code in catalog.languages
            for model in [catalog.route(TRANSLATION, code)]
        ]

    return blueprint


def _name(code: str, display: str) -> str:
    """The name of `code` in the language `display`; the code itself where CLDR has none."""
    try:
        return str(Locale.parse(display).languages.get(code, code))
    except UnknownLocaleError:
        return code
