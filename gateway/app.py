"""Builds the gateway's Flask application from its settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from flask import Flask, Response, g, request

import catalog
from catalog import Catalog, checkpoint
from contract import variables
from gateway.access import Access, register_access
from gateway.admission import Admission
from gateway.api import Services, list_blueprints
from gateway.backends.backend import Backend
from gateway.backends.ray.backend import RayBackend
from gateway.backends.torchserve import TorchServeBackend
from gateway.glossaries.library import Glossaries
from gateway.http.bodies import Bodies, register_bodies
from gateway.http.caller import read_request_id
from gateway.http.connection import register_reading
from gateway.http.fields import find_spoken, register_fields
from gateway.http.origins import register_origins
from gateway.http.paths import register_paths
from gateway.http.worker import ACCESS, EXTENSION
from gateway.load_shedding import LoadShedder
from gateway.metrics.collectors import States
from gateway.metrics.registry import Telemetry, register_telemetry
from gateway.metrics.status import Figures
from gateway.problems import register_error_handlers
from gateway.services.images import ImageService
from gateway.services.readers import Readers
from gateway.services.translation import TranslationService
from gateway.settings import Settings, read_settings
from gateway.uploads.answering import Uploads
from gateway.uploads.documents import Documents
from text.langid import Identifier
from torchserve_backend.management import Management

#: The application's extension that has the glossaries.
GLOSSARIES = "babelgate.glossaries"
#: Fields of a form beside its texts.
_OTHER_FIELDS = 100
#: Processes that read long texts: one, so that long texts leave the CPU to other requests.
_READERS = 1


def create_app(
    settings: Settings | None = None,
    *,
    models: Catalog | None = None,
    backend: Backend | None = None,
) -> Flask:
    """The application that Gunicorn serves; tests pass parts of their own."""
    settings = settings or read_settings()
    models = models or _load(settings)
    telemetry = Telemetry(models.languages, models.tasks)
    if backend is None and settings.backend == "embedded":
        models, backend = _embed(models, telemetry)
    backend = backend or _connect(settings, models)
    admission = Admission(backend, models.models, _place_board(settings))
    app = _make_flask(settings)
    register_paths(app)
    register_reading(app)
    _register_request_id(app)
    register_telemetry(app, telemetry, States(models, admission))
    register_error_handlers(app, find_spoken)
    access = app.extensions[ACCESS] = _register_checks(app, settings)
    sources = checkpoint.find_sources(models)
    identifier = Identifier(sources, library=settings.identifier)
    readers = Readers(_READERS)
    stored = app.extensions[GLOSSARIES] = Glossaries(settings)
    services = Services(
        models,
        backend,
        access,
        TranslationService(
            *(models, admission, identifier, telemetry, readers, settings),
            sources=sources,
            glossaries=stored,
        ),
        ImageService(models, Uploads(admission, settings), telemetry, settings),
        Documents(settings),
        Figures(models, admission, telemetry, settings.metrics_url),
    )
    for blueprint in list_blueprints(services):
        app.register_blueprint(blueprint)
    app.extensions[EXTENSION] = LoadShedder(admission, models, settings, telemetry)
    return app


def _register_checks(app: Flask, settings: Settings) -> Access:
    """Register the checks before a route, in this order."""
    is_key_required = settings.keys == "required"
    register_origins(app, settings.cors_origins, is_key_required=is_key_required)
    register_fields(app)
    bodies = Bodies(settings)
    access = register_access(app, settings, bodies)
    register_bodies(app, bodies, settings.max_body_bytes)
    return access


def _connect(settings: Settings, models: Catalog) -> Backend:
    if settings.backend == "ray":
        return RayBackend(
            settings.ray_addresses,
            settings.ray_key_file,
            models.models,
            connections=settings.connections,
        )
    return TorchServeBackend(
        settings.inference_url,
        Management(settings.management_url, settings.key_file),
        settings.key_file,
        connections=settings.connections,
    )


def _load(settings: Settings) -> Catalog:
    """The map; on a cluster, whatever GPUs this machine has."""
    return catalog.load(
        settings.map,
        gpus=None,
        model=settings.model,
        is_cluster=settings.backend == "ray",
    )


def _place_board(settings: Settings) -> Path | None:
    """Where the gateway's processes, and TorchServe's workers, share figures; None without a
    stack."""
    run = variables.find_run() if settings.backend != "embedded" else None
    return run / "admission" if run else None


class _Gateway(Flask):
    """Flask without asynchronous functions: it would look at every hook of every request
    whether it is one."""

    def ensure_sync(self, func: Callable[..., Any]) -> Callable[..., Any]:
        return func


def _make_flask(settings: Settings) -> Flask:
    app = _Gateway(__name__, static_folder=None)
    app.config["MAX_FORM_PARTS"] = settings.max_texts + _OTHER_FIELDS
    # Flask's own answer to OPTIONS is text/html.
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = False
    app.json.ensure_ascii = False  # type: ignore[attr-defined]
    app.json.sort_keys = False  # type: ignore[attr-defined]
    return app


def _embed(models: Catalog, telemetry: Telemetry) -> tuple[Catalog, Backend]:
    """The models in this process. Nothing else needs the handlers' libraries."""
    from gateway.backends.embedded import EmbeddedBackend, share

    shared = share(models)
    return shared, EmbeddedBackend(shared.models, telemetry.registry)


def _register_request_id(app: Flask) -> None:
    """nginx gives every request an id; it comes back in the answer and in each problem."""

    @app.before_request
    def take_request_id() -> None:
        g.request_id = read_request_id(request.environ)

    @app.after_request
    def answer_request_id(response: Response) -> Response:
        response.headers["X-Request-ID"] = g.request_id
        return response
