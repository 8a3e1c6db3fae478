"""Builds the gateway's Flask application from its settings."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from flask import Flask, Request, Response
from flask.globals import request_ctx
from flask.json.provider import DefaultJSONProvider
from flask.sessions import NullSession, SessionInterface
from werkzeug.datastructures import Headers
from werkzeug.routing import MapAdapter, Rule

import catalog
from catalog import Catalog, checkpoint
from contract import variables
from contract.languages import list_variants
from gateway.access import open_access
from gateway.admission.control import Admission
from gateway.admission.idle import start_unloading
from gateway.api import Services, list_blueprints
from gateway.backends.backend import Backend
from gateway.backends.ray import RayBackend
from gateway.backends.torchserve import TorchServeBackend
from gateway.cache.sentences import SentenceCache
from gateway.glossaries.library import Glossaries
from gateway.http.bodies import Bodies
from gateway.http.message import TRANSLATING
from gateway.http.middleware import (
    BodyReader,
    BodyRest,
    Middleware,
    Origins,
    UrlCheck,
    answer_errors,
    clean_path,
)
from gateway.http.request import GatewayRequest
from gateway.load_shedding import LoadShedder
from gateway.metrics import Arrival, Figures, Telemetry
from gateway.services.readers import Readers
from gateway.services.translation import TranslationService
from gateway.settings import Settings, read_settings
from gateway.uploads.documents import Documents
from gateway.uploads.images import ImageService
from text.langid import Identifier
from torchserve_backend.management import Management

#: Fields of a form beside its texts.
_OTHER_FIELDS = 100


class CompactJson(DefaultJSONProvider):
    """Writes JSON with one encoder; Flask would make one for each answer."""

    _encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

    def dumps(self, obj: Any, **kwargs: Any) -> str:
        """The content as JSON, whose fields keep their order."""
        return self._encode(obj)


class PlainResponse(Response):
    """Sends its headers as they are where its length is known: werkzeug would copy them, and
    look for some that only other answers have."""

    def get_wsgi_headers(self, environ: dict[str, Any]) -> Headers:
        if self.status_code == HTTPStatus.OK and "Content-Length" in self.headers:
            return self.headers
        return super().get_wsgi_headers(environ)


class KnownRoute(MapAdapter):
    """The way to one route, which need not be looked for."""

    def __init__(self, rule: Rule) -> None:
        self._found = rule, dict[str, Any]()

    def match(self, *args: Any, **kwargs: Any) -> Any:
        """The route, with the variable parts of its path: none."""
        return self._found


class NoSessions(SessionInterface):
    """Gives every request the same empty session: no route has one."""

    _session = NullSession()

    def open_session(self, app: Flask, request: Request) -> NullSession:
        return self._session


class GatewayApp(Flask):
    """Flask with requests of our own, layers around its routes, and parts to close. It has no
    sessions, no functions for the end of every request, and no asynchronous ones, for all of
    which Flask would look at every request."""

    request_class = GatewayRequest
    response_class = PlainResponse
    json_provider_class = CompactJson
    session_interface = NoSessions()

    def __init__(self, settings: Settings) -> None:
        super().__init__(__name__, static_folder=None)
        self.config["MAX_FORM_PARTS"] = settings.max_texts + _OTHER_FIELDS
        # Flask's own answer to OPTIONS is text/html.
        self.config["PROVIDE_AUTOMATIC_OPTIONS"] = False
        answer_errors(self)

    def assemble(
        self,
        middleware: Sequence[Middleware],
        services: Services,
        load_shedder: LoadShedder,
    ) -> None:
        """Takes its parts: the layers around every route, the outermost first, and what the
        routes call."""
        self.middleware = middleware
        self._before = [m.before for m in middleware if _has(m, "before")]
        self._after = [m.after for m in reversed(middleware) if _has(m, "after")]
        self.access, self.load_shedder = services.access, load_shedder
        self._glossaries = services.translation.glossaries
        for blueprint in list_blueprints(services):
            self.register_blueprint(blueprint)
        self._routes = {
            rule.rule: KnownRoute(rule)
            for rule in self.url_map.iter_rules()
            if rule.rule in TRANSLATING and "POST" in (rule.methods or ())
        }

    def close(self) -> None:
        """Writes what keys have used, and ends what runs beside the loop."""
        self.access.close()
        self._glossaries.close()

    def wsgi_app(self, environ: dict[str, Any], start_response: Any) -> Any:
        """As Flask's, for the path that the client means."""
        environ["PATH_INFO"] = clean_path(environ["PATH_INFO"])
        return super().wsgi_app(environ, start_response)

    def create_url_adapter(self, request: Request | None) -> MapAdapter | None:
        """As Flask's, without a search where a text is to be translated."""
        if request and request.method == "POST":
            known = self._routes.get(request.environ["PATH_INFO"])
            if known is not None:
                return known
        return super().create_url_adapter(request)

    def full_dispatch_request(self) -> Response:
        """Asks the layers, from the outermost on, for an answer in the route's place, and shows
        them the answer, the outermost last."""
        context = request_ctx._get_current_object()  # type: ignore[attr-defined]
        request = context.request
        try:
            answer = self._ask_layers(request) or self.dispatch_request()
        except Exception as error:
            answer = self.handle_user_exception(error)
        response = self.make_response(answer)
        for complete in context._after_request_functions:
            response = complete(response)
        for after in self._after:
            after(request, response)
        return response

    def ensure_sync(self, func: Callable[..., Any]) -> Callable[..., Any]:
        return func

    def do_teardown_request(self, exc: BaseException | None = None) -> None:
        """Nothing."""

    def do_teardown_appcontext(self, exc: BaseException | None = None) -> None:
        """Nothing."""

    def _ask_layers(self, request: GatewayRequest) -> Response | None:
        for before in self._before:
            answer = before(request)
            if answer is not None:
                return answer
        return None


def create_app(
    settings: Settings | None = None,
    *,
    models: Catalog | None = None,
    backend: Backend | None = None,
) -> GatewayApp:
    """The application that Gunicorn serves; tests pass parts of their own."""
    settings = settings or read_settings()
    is_embedded = settings.backend == "embedded"
    models = models or catalog.load(
        settings.map,
        gpus=None,
        model=settings.model,
        is_cluster=settings.backend == "ray",
        is_embedded=is_embedded,
    )
    telemetry = Telemetry(models.languages, models.tasks)
    if backend is None and is_embedded:
        # Nothing else needs the handlers' libraries.
        from gateway.backends.embedded import EmbeddedBackend

        backend = EmbeddedBackend(models.models, telemetry.registry)
    backend = backend or _connect(settings, models)
    models = replace(models, reads=checkpoint.find_reads(models))
    # The gateway's processes and TorchServe's workers share figures in a file of the stack.
    run = None if is_embedded else variables.find_run()
    admission = Admission(backend, models.models, run and run / "admission")
    if isinstance(backend, TorchServeBackend):
        start_unloading(admission, models.models, backend.unload)
    cache = SentenceCache(backend, models.models, settings, telemetry)
    bodies = Bodies(settings)
    access = open_access(settings, bodies)
    sources = checkpoint.find_sources(models)
    identifier = Identifier(sources, library=settings.identifier)
    readers = Readers()
    services = Services(
        models,
        backend,
        access,
        TranslationService(
            *(models, admission, cache, identifier, telemetry, readers, settings),
            sources=list_variants(sources),
            glossaries=Glossaries(settings),
        ),
        ImageService(models, admission, telemetry, settings),
        Documents(settings),
        Figures(models, admission, telemetry, settings.metrics_url),
    )
    middleware = [
        BodyRest(),
        Arrival(telemetry, settings.timeout_s),
        Origins(settings.cors_origins, is_key_required=access.is_required),
        UrlCheck(),
        *access.middleware,
        BodyReader(bodies, settings.max_body_bytes),
    ]
    load_shedder = LoadShedder(admission, models, settings, telemetry)
    app = GatewayApp(settings)
    app.assemble(middleware, services, load_shedder)
    return app


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
        models.models,
        connections=settings.connections,
    )
