"""The state of the stack: `GET /healthz` shows whether this process is alive, `GET /readyz`
whether everything in the map is ready; `GET /tasks` and `GET /languages` list it. `GET /status`
and, for Prometheus, `GET /metrics` return running totals, whose differences show activity."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NotRequired

from babel import Locale
from babel.core import UnknownLocaleError
from flask import Blueprint, Response
from prometheus_client import CONTENT_TYPE_LATEST
from typing_extensions import TypedDict

from catalog import Catalog
from catalog.checkpoint import find_input_size
from catalog.inventory import find_license
from contract.dialects import LIBRETRANSLATE, OURS
from contract.languages import (
    LANGUAGES,
    choose_language,
    list_variants,
    normalize_variant,
)
from contract.tasks import PATHS, TRANSLATION
from gateway.api import Services
from gateway.errors import LocalOnly, NotReady
from gateway.http.request import GatewayRequest
from gateway.metrics import BUCKETS, ServedStatus
from gateway.openapi import Operation

#: The codes of Chinese that LibreTranslate's clients expect, besides ours.
_OTHER_CODES = ("zh-Hans", "zt")
#: Cached names: those of all languages in a dozen languages.
_NAMES = 8192


class Health(TypedDict):
    """The answer of a gateway that is alive."""

    status: str


class Readiness(TypedDict):
    """The readiness of the whole stack."""

    status: str
    languages: list[str]
    tasks: list[str]


class Size(TypedDict):
    """The size of an image in pixels."""

    height: int
    width: int


class Task(TypedDict):
    """A task, and the image size of its model."""

    task: str
    route: str
    ready: bool
    input: NotRequired[Size]


class License(TypedDict):
    """The licence of a model's weights, if it is known."""

    license: NotRequired[str]


class Language(License):
    """A language that can be translated into, and the fields of LibreTranslate's clients."""

    code: str
    name: str
    own_name: str
    device: str
    ready: bool
    targets: list[str]


class Status(TypedDict):
    """The status of all models, and its time in seconds of a monotonic clock."""

    at_s: float
    bounds_s: list[float]
    served: list[ServedStatus]


def make_blueprints(services: Services) -> list[Blueprint]:
    """Return the routes that show the service's state, languages and tasks."""
    return [*_make_states(services), *_make_lists(services)]


def _make_states(services: Services) -> tuple[Blueprint, Blueprint]:
    catalog, figures = services.catalog, services.figures
    of_health, of_work = Blueprint("health", __name__), Blueprint("status", __name__)

    @of_health.get("/healthz")
    @Operation("Whether the gateway is alive", is_open=True)
    def healthz(_: GatewayRequest) -> Health:
        return {"status": "alive"}

    @of_health.get("/readyz")
    @Operation("Whether everything in the map is ready", is_open=True)
    def readyz(_: GatewayRequest) -> Readiness:
        served = figures.find_readiness()
        ready = served.languages | {task: served.tasks[task] for task in catalog.tasks}
        missing = [name for name, is_ready in ready.items() if not is_ready]
        if missing:
            reasons: Any = {"reasons": served.reasons} if served.reasons else {}
            said = f"No worker is READY for {', '.join(missing)}."
            raise NotReady(said, missing=missing, **reasons)
        languages = list(catalog.languages)
        return {"status": "ready", "languages": languages, "tasks": list(served.tasks)}

    @of_work.get("/status")
    @Operation("The work of each language and task, as running totals")
    def status(_: GatewayRequest) -> Status:
        at_s, served = figures.read()
        return {"at_s": round(at_s, 3), "bounds_s": list(BUCKETS), "served": served}

    @of_work.get("/metrics")
    @Operation(
        "Prometheus metrics, from this machine only",
        refusals=(LocalOnly,),
        media=("text/plain",),
        is_open=True,
    )
    def metrics(_: GatewayRequest) -> Response:
        return Response(figures.render(), content_type=CONTENT_TYPE_LATEST)

    return of_health, of_work


def _make_lists(services: Services) -> tuple[Blueprint, Blueprint]:
    catalog, figures = services.catalog, services.figures
    weights = {model.settings.model: model for model in catalog.models}
    # A text may stay in its language and only change its variant.
    targets = {
        source: list_codes(
            code
            for code in catalog.languages
            if code == source or catalog.find_path(source, code)
        )
        for source in catalog.languages
    }
    of_tasks = Blueprint("tasks", __name__)
    of_languages = Blueprint("languages", __name__)

    @of_tasks.get("/tasks")
    @Operation("The tasks that this stack serves, and whether each is ready")
    def tasks(_: GatewayRequest) -> list[Task]:
        return [
            _describe_task(catalog, task, is_ready=is_ready)
            for task, is_ready in figures.find_readiness().tasks.items()
        ]

    # Some of LibreTranslate's clients send POST.
    @of_languages.route("/languages", methods=["GET", "POST"])
    @Operation(
        "The languages that can be translated into, and whether each is ready",
        dialects=(OURS, LIBRETRANSLATE),
        is_open=True,
    )
    def languages(_: GatewayRequest) -> list[Language]:
        ready = figures.find_readiness().languages
        licenses: dict[str, License] = {
            name: {"license": found} if (found := find_license(model)) else {}
            for name, model in weights.items()
        }
        written = {
            code: choose_language(code, ready)
            for language in ready
            for code in list_codes([language])
        }
        return [
            {
                "code": code,
                "name": name_language(code, "en"),
                "own_name": name_language(code, code),
                "device": catalog.route(TRANSLATION, language).device,
                "ready": ready[language],
                "targets": targets[language],
                **licenses[catalog.route(TRANSLATION, language).settings.model],
            }
            for code, language in written.items()
        ]

    return of_tasks, of_languages


def _describe_task(catalog: Catalog, task: str, *, is_ready: bool) -> Task:
    """Describe a task. The image size of its model is known once the model is loaded; clients
    may send larger images."""
    found: Task = {"task": task, "route": f"POST {PATHS[task]}", "ready": is_ready}
    size = find_input_size(catalog.tasks[task]) if task in catalog.tasks else None
    if size:
        found["input"] = {"height": size.height, "width": size.width}
    return found


def list_codes(languages: Iterable[str]) -> list[str]:
    """Return languages and variants, by our codes and those of LibreTranslate's clients."""
    found = list_variants(languages)
    return found + [code for code in _OTHER_CODES if normalize_variant(code) in found]


@lru_cache(_NAMES)
def name_language(code: str, display: str) -> str:
    """Return the name of `code` in the language `display`: CLDR's, else the English one."""
    tag = code if "-" in code else normalize_variant(code)
    known = LANGUAGES.get(tag)
    name = known.name if known else code
    if known and display == code:
        return known.own_name or name
    try:
        shown = Locale.parse(normalize_variant(display), sep="-")
        found = Locale.parse(tag, sep="-") if "-" in tag else None
    except UnknownLocaleError:
        return name
    if found is None:
        return str(shown.languages.get(code, name))
    # Babel parses a script for which it has no locale as another one.
    is_read = tag.partition("-")[2] in (found.script, found.territory)
    return str(found.get_display_name(shown) if is_read else name)
