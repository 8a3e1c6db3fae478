"""Builds the gateway's Flask application from its settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from flask import Flask, Response
from flask.globals import request_ctx

import catalog
from catalog import Catalog, checkpoint
from contract import variables
from gateway.access import Access, open_access
from gateway.admission import Admission
from gateway.api import Services, list_blueprints
from gateway.backends.backend import Backend
from gateway.backends.ray.backend import RayBackend
from gateway.backends.torchserve import TorchServeBackend
from gateway.glossaries.library import Glossaries
from gateway.http.bodies import Bodies
from gateway.http.middleware import (
    Arrival,
    BodyReader,
    BodyRest,
    Middleware,
    NoRedirects,
    Origins,
    QueryLimit,
    answer_errors,
    clean_path,
)
from gateway.http.request import GatewayRequest
from gateway.load_shedding import LoadShedder
from gateway.metrics.registry import RequestMetrics, Telemetry
from gateway.metrics.status import Figures
from gateway.services.images import ImageService
from gateway.services.readers import Readers
from gateway.services.translation import TranslationService
from gateway.settings import Settings, read_settings
from gateway.uploads.answering import Uploads
from gateway.uploads.documents import Documents
from text.langid import Identifier
from torchserve_backend.management import Management

#: Fields of a form beside its texts.
_OTHER_FIELDS = 100
#: Processes that read long texts: one, so that long texts leave the CPU to other requests.
_READERS = 1


class GatewayApp(Flask):
    """Flask with requests of our own, layers around its routes, and parts to close. It has no
    asynchronous functions, for which Flask would look at every hook of every request."""

    request_class = GatewayRequest

    def __init__(self, settings: Settings) -> None:
        super().__init__(__name__, static_folder=None)
        self.config["MAX_FORM_PARTS"] = settings.max_texts + _OTHER_FIELDS
        # Flask's own answer to OPTIONS is text/html.
        self.config["PROVIDE_AUTOMATIC_OPTIONS"] = False
        self.json.ensure_ascii = False  # type: ignore[attr-defined]
        self.json.sort_keys = False  # type: ignore[attr-defined]
        answer_errors(self)

    def fold(self, middleware: Sequence[Middleware]) -> None:
        """Puts these layers around every route, the outermost first."""
        self.middleware = middleware
        self._before = [m.before for m in middleware if _has(m, "before")]
        self._after = [m.after for m in reversed(middleware) if _has(m, "after")]

    def assemble(self, services: Services, load_shedder: LoadShedder) -> None:
        """Takes its parts, and the routes that call them."""
        self.access, self.load_shedder = services.access, load_shedder
        self._glossaries = services.translation.glossaries
        for blueprint in list_blueprints(services):
            self.register_blueprint(blueprint)

    def close(self) -> None:
        """Writes what keys have used, and ends what runs beside the loop."""
        self.access.close()
        self._glossaries.close()

    def wsgi_app(self, environ: dict[str, Any], start_response: Any) -> Any:
        """As Flask's, for the path that the client means."""
        environ["PATH_INFO"] = clean_path(environ["PATH_INFO"])
        return super().wsgi_app(environ, start_response)

    def preprocess_request(self) -> Response | None:
        """Asks the layers, from the outermost on, for an answer in the route's place."""
        request = cast(GatewayRequest, request_ctx.request)
        for before in self._before:
            answer = before(request)
            if answer is not None:
                return answer
        return None

    def process_response(self, response: Response) -> Response:
        """Shows the layers an answer, the outermost last."""
        response = super().process_response(response)
        request = cast(GatewayRequest, request_ctx.request)
        for after in self._after:
            after(request, response)
        return response

    def ensure_sync(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """The function itself."""
        return func


def create_app(
    settings: Settings | None = None,
    *,
    models: Catalog | None = None,
    backend: Backend | None = None,
) -> GatewayApp:
    """The application that Gunicorn serves; tests pass parts of their own."""
    settings = settings or read_settings()
    models = models or _load(settings)
    telemetry = Telemetry(models.languages, models.tasks)
    if backend is None and settings.backend == "embedded":
        models, backend = _embed(models, telemetry)
    backend = backend or _connect(settings, models)
    admission = Admission(backend, models.models, _place_board(settings))
    bodies = Bodies(settings)
    access = open_access(settings, bodies)
    app = GatewayApp(settings)
    app.fold(list_middleware(settings, telemetry, access, bodies))
    sources = checkpoint.find_sources(models)
    identifier = Identifier(sources, library=settings.identifier)
    readers = Readers(_READERS)
    services = Services(
        models,
        backend,
        access,
        TranslationService(
            *(models, admission, identifier, telemetry, readers, settings),
            sources=sources,
            glossaries=Glossaries(settings),
        ),
        ImageService(models, Uploads(admission, settings), telemetry, settings),
        Documents(settings),
        Figures(models, admission, telemetry, settings.metrics_url),
    )
    app.assemble(services, LoadShedder(admission, models, settings, telemetry))
    return app


def list_middleware(
    settings: Settings, telemetry: Telemetry, access: Access, bodies: Bodies
) -> list[Middleware]:
    """The layers around every route, the outermost first."""
    return [
        BodyRest(),
        Arrival(settings.timeout_s),
        RequestMetrics(telemetry),
        NoRedirects(),
        Origins(settings.cors_origins, is_key_required=access.is_required),
        QueryLimit(),
        *access.middleware,
        BodyReader(bodies, settings.max_body_bytes),
    ]


def _has(layer: Middleware, half: str) -> bool:
    """Whether a layer has this half: the other ones cost no request anything."""
    return getattr(type(layer), half) is not getattr(Middleware, half)


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
    """Return the file in which the gateway's processes and TorchServe's workers share
    figures; None without a stack."""
    run = variables.find_run() if settings.backend != "embedded" else None
    return run / "admission" if run else None


def _embed(models: Catalog, telemetry: Telemetry) -> tuple[Catalog, Backend]:
    """The models in this process. Nothing else needs the handlers' libraries."""
    from gateway.backends.embedded import EmbeddedBackend, share

    shared = share(models)
    return shared, EmbeddedBackend(shared.models, telemetry.registry)
