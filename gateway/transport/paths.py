"""Reads the path that a client asks for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from flask import Flask

_SLASHES = re.compile("//+")


def register_paths(app: Flask) -> None:
    """Several slashes are one: clients add a path to a URL that ends with a slash. Flask would
    redirect them, and some would ask again without their body."""
    app.wsgi_app = _join_slashes(app.wsgi_app)  # type: ignore[method-assign]


def _join_slashes(serve: Callable[..., Iterable[bytes]]) -> Any:
    def serve_joined(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if "//" in environ["PATH_INFO"]:
            environ["PATH_INFO"] = _SLASHES.sub("/", environ["PATH_INFO"])
        return serve(environ, start_response)

    return serve_joined
