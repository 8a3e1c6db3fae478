"""Builds the gateway's Flask application from its settings."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from flask import Flask, Response
from werkzeug.exceptions import HTTPException

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
from gateway.errors import Problem
from gateway.glossaries.library import Glossaries
from gateway.http.bodies import Bodies
from gateway.http.message import TRANSLATING
from gateway.http.middleware import (
    After,
    Before,
    Origins,
    answer_error,
    check_url,
    clean_path,
    read_rest,
    write_answer,
)
from gateway.http.request import GatewayRequest
from gateway.load_shedding import LoadShedder
from gateway.metrics import Arrival, Figures, Telemetry
from gateway.redaction import describe
from gateway.services.readers import Readers
from gateway.services.translation import TranslationService
from gateway.settings import Settings, read_settings
from gateway.uploads.documents import Documents
from gateway.uploads.images import ImageService
from text.langid import Identifier
from torchserve_backend.management import Management

#: Fields of a form besides its texts.
_OTHER_FIELDS = 100


class GatewayApp(Flask):
    """A Flask application with layers around its routes, and services to close. Functions get
    the request as an argument: Flask's contexts and the globals that read them stay empty."""

    def __init__(
        self,
        settings: Settings,
        services: Services,
        load_shedder: LoadShedder,
        *,
        before: Sequence[Before],
        after: Sequence[After],
    ) -> None:
        """The layers around every route are in the order in which they are called."""
        super().__init__(__name__, static_folder=None)
        # Flask's own answer to OPTIONS is text/html.
        self.config["PROVIDE_AUTOMATIC_OPTIONS"] = False
        self._most_fields = settings.max_texts + _OTHER_FIELDS
        self._before, self._after = before, after
        self.access, self.load_shedder = services.access, load_shedder
        self._glossaries = services.translation.glossaries
        for blueprint in list_blueprints(services):
            self.register_blueprint(blueprint)
        #: The routes that are found without Werkzeug's search.
        self._known = {
            rule.rule: (rule, None)
            for rule in self.url_map.iter_rules()
            if rule.rule in TRANSLATING and "POST" in (rule.methods or ())
        }

    def close(self) -> None:
        """Write the usage of keys, and close the databases."""
        self.access.close()
        self._glossaries.close()

    def wsgi_app(self, environ: dict[str, Any], start_response: Any) -> Any:
        """Answer the request, and pass the answer to the layers, the outermost last."""
        environ["PATH_INFO"] = clean_path(environ["PATH_INFO"])
        request = self._route(environ)
        try:
            response = self._answer(request)
            for after in self._after:
                after(request, response)
            return response(environ, start_response)
        finally:
            request.close()

    def _route(self, environ: dict[str, Any]) -> GatewayRequest:
        """Return the request, with its route or its routing exception."""
        request = GatewayRequest(environ, populate_request=False)
        request.most_fields = self._most_fields
        found: Any = request.method == "POST" and self._known.get(environ["PATH_INFO"])
        try:
            if not found:
                routes = self.url_map.bind_to_environ(environ, subdomain="")
                found = routes.match(return_rule=True)
            request.url_rule, request.view_args = found
            view = self.view_functions[request.url_rule.endpoint]
            request.operation = view.__dict__["operation"]
        except HTTPException as error:
            request.routing_exception = error
        return request

    def _answer(self, request: GatewayRequest) -> Response:
        try:
            return write_answer(self._ask(request), request)
        except Exception as error:
            if not isinstance(error, Problem | HTTPException):
                self.logger.error("request %s failed: %s", request.id, describe(error))
            return answer_error(error, request)

    def _ask(self, request: GatewayRequest) -> Any:
        """Return the first answer of a layer, from the outermost on, or else the route's."""
        for before in self._before:
            if answer := before(request):
                return answer
        if request.routing_exception is not None:
            raise request.routing_exception
        assert request.url_rule
        view = self.view_functions[request.url_rule.endpoint]
        return view(request, **(request.view_args or {}))


def create_app(
    settings: Settings | None = None,
    *,
    models: Catalog | None = None,
    backend: Backend | None = None,
) -> GatewayApp:
    """Return the application that Gunicorn serves; tests pass their own parts."""
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
    backend = backend or _open_backend(settings, models, telemetry)
    models = replace(models, reads=checkpoint.find_reads(models))
    # The gateway's processes and TorchServe's workers share counters in a file of the stack.
    run = None if is_embedded else variables.find_run()
    admission = Admission(backend, models.models, run and run / "admission")
    if isinstance(backend, TorchServeBackend):
        start_unloading(admission, models.models, backend.unload)
    cache = SentenceCache(backend, models.models, settings, telemetry)
    bodies = Bodies(settings)
    access = open_access(settings, bodies)
    sources = checkpoint.find_sources(models)
    identifier = Identifier(sources, library=settings.identifier)
    services = Services(
        models,
        access,
        TranslationService(
            models,
            admission,
            cache,
            identifier,
            telemetry,
            Readers(),
            settings,
            sources=list_variants(sources),
            glossaries=Glossaries(settings),
        ),
        ImageService(models, admission, telemetry, settings),
        Documents(settings, access),
        Figures(models, admission, telemetry, settings.metrics_url),
    )
    arrival = Arrival(telemetry, settings.timeout_s)
    origins = Origins(settings.cors_origins, is_key_required=access.is_required)
    before = arrival.before, origins.before, check_url
    return GatewayApp(
        settings,
        services,
        LoadShedder(admission, models, settings, telemetry),
        before=[*before, *access.before, bodies.read_for_route],
        after=[origins.after, arrival.after, read_rest],
    )


def _open_backend(settings: Settings, models: Catalog, telemetry: Telemetry) -> Backend:
    if settings.backend == "embedded":
        # Only this backend needs the handlers' libraries.
        from gateway.backends.embedded import EmbeddedBackend

        return EmbeddedBackend(models.models, telemetry.registry)
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
