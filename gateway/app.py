"""Wires the gateway: settings in, a Flask application out."""

from __future__ import annotations

import re
import uuid

from flask import Flask, Response, g, request

from gateway.backend import Backend, TorchServeBackend
from gateway.connection import register_reading
from gateway.errors import TOO_LARGE, BodyTooLarge, register_error_handlers
from gateway.langid import Identifier
from gateway.observation import make_collectors
from gateway.readers import Readers
from gateway.routes import (
    captioning,
    classification,
    detection,
    health,
    identification,
    languages,
    tasks,
    translation,
)
from gateway.routes.reception import Reception
from gateway.settings import Settings, read_settings
from gateway.telemetry import Telemetry, register_telemetry
from gateway.translator import Translator
from gateway.uploads import Uploads
from torchserve_backend import catalog
from torchserve_backend.catalog import Catalog
from torchserve_backend.devices import count_gpus
from torchserve_backend.management import Management

_REQUEST_ID = re.compile(r"[\w-]{1,64}", re.ASCII)


def create_app(
    settings: Settings | None = None,
    *,
    models: Catalog | None = None,
    backend: Backend | None = None,
) -> Flask:
    """The application that Gunicorn serves; tests pass parts of their own."""
    settings = settings or read_settings()
    models = models or catalog.load(
        settings.map, gpus=count_gpus(), model=settings.model
    )
    if backend is None and settings.backend == "embedded":
        models, backend = _embed(models)
    backend = backend or TorchServeBackend(
        settings.inference_url,
        Management(settings.management_url, settings.key_file),
        settings.key_file,
        connections=settings.connections,
    )
    collectors = make_collectors(models, backend)
    telemetry = Telemetry(models.languages, collectors, models.tasks)
    app = Flask(__name__, static_folder=None)
    # Flask's own answer to OPTIONS is text/html.
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = False
    app.json.ensure_ascii = False  # type: ignore[attr-defined]
    app.json.sort_keys = False  # type: ignore[attr-defined]
    register_reading(app)
    _register_request_id(app)
    register_telemetry(app, telemetry)
    register_error_handlers(app)
    _register_body_limit(app, settings.max_body_bytes)
    identifier = Identifier(models.sources, library=settings.identifier)
    translator = Translator(
        models, backend, identifier, telemetry, Readers(settings.readers), settings
    )
    app.register_blueprint(translation.make_blueprint(settings, translator, telemetry))
    app.register_blueprint(identification.make_blueprint(settings, identifier))
    reception = Reception(models, Uploads(backend, settings), telemetry, settings)
    for task in (captioning, classification, detection):
        app.register_blueprint(task.make_blueprint(reception))
    app.register_blueprint(tasks.make_blueprint(models, backend))
    app.register_blueprint(languages.make_blueprint(models, backend))
    app.register_blueprint(health.make_blueprint(models, backend))
    return app


def _embed(models: Catalog) -> tuple[Catalog, Backend]:
    """The models in this process. Nothing else needs the handlers' libraries."""
    from gateway.embedded import EmbeddedBackend, share

    shared = share(models)
    return shared, EmbeddedBackend(shared.models)


def _register_request_id(app: Flask) -> None:
    """nginx gives every request an id; it comes back in the answer and in each problem."""

    @app.before_request
    def take_request_id() -> None:
        given = request.headers.get("X-Request-ID", "")
        g.request_id = given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex

    @app.after_request
    def answer_request_id(response: Response) -> Response:
        response.headers["X-Request-ID"] = g.request_id
        return response


def _register_body_limit(app: Flask, most_bytes: int) -> None:
    """Of a longer body in chunks Werkzeug gives the start and says nothing: the byte too
    many tells."""

    @app.before_request
    def refuse_large_body() -> None:
        if request.blueprint in catalog.VISION:
            return  # these read it piece by piece
        request.max_content_length = most_bytes + 1
        if len(request.get_data()) > most_bytes:
            raise BodyTooLarge(TOO_LARGE)
