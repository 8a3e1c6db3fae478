"""Reads the path that a client asks for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from flask import Flask

from contract.dialects import OURS, find_dialect
from contract.tasks import PATHS, TRANSLATION

_SLASHES = re.compile("//+")
#: Our own paths that may end with a slash. nginx has rules for others, which end without one.
_TEXTS = (f"{PATHS[TRANSLATION]}/", "/languages/", "/identify/")


def register_paths(app: Flask) -> None:
    """Several slashes are one, and one at the end of a path for texts is none: clients put
    their URLs together from parts. Flask would redirect them, and some would ask again without
    their body."""
    app.wsgi_app = _join_slashes(app.wsgi_app)  # type: ignore[method-assign]


def _join_slashes(serve: Callable[..., Iterable[bytes]]) -> Any:
    def serve_joined(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if "//" in path:
            path = environ["PATH_INFO"] = _SLASHES.sub("/", path)
        if path.endswith("/") and (path in _TEXTS or find_dialect(path) is not OURS):
            environ["PATH_INFO"] = path[:-1]
        return serve(environ, start_response)

    return serve_joined
