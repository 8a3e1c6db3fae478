"""`GET /` for browsers: the page for people, and `GET /page/<digest>/<name>`: what it is made
of. Without JavaScript its form comes to `GET /` or `POST /page`, and the translation is in
the page that answers.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

from babel import Locale
from babel.core import UnknownLocaleError
from flask import Blueprint, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from pydantic import Field

from contract.dialects import OURS
from contract.languages import SCRIPTS, normalize_language
from contract.tasks import TRANSLATION
from gateway.api import Services
from gateway.assets import PAGE, Asset, read_assets
from gateway.errors import MethodNotAllowed, NotFound, Problem
from gateway.http.middleware import write_problem_response
from gateway.http.request import read_fields, request
from gateway.openapi.operations import BodySchema, Operation, describe
from gateway.openapi.refusals import TRANSLATING
from gateway.schemas import Schema, parse_parameters, parse_translation
from gateway.services.translation import TranslationService
from text.composition import TranslatedText
from text.options import AUTO

_FORM = "application/x-www-form-urlencoded"
_HTML = "text/html"
_FOREVER, _ASK_AGAIN = "public, max-age=31536000, immutable", "no-cache"
#: The texts of a translation are nobody else's.
_NEVER = "no-store"
_POLICY = "; ".join(
    [
        *("default-src 'none'", "script-src 'self'", "style-src 'self'"),
        *("img-src 'self' blob: data:", "connect-src 'self'", "form-action 'self'"),
        *("base-uri 'none'", "frame-ancestors 'none'"),
    ]
)
#: Pages without a text that are kept, one per language of browsers and of links.
_EMPTY_PAGES = 64
#: Scripts that are written from right to left.
_FROM_RIGHT = {"Arabic", "Hebrew"}


class PageFields(Schema):
    """The fields of the page's form, which are those of its links."""

    source: str = Field(AUTO, description="The language of the text.")
    target: str = Field("", description="The language to translate into.")
    q: str = Field("", description="The text.")
    api_key: str = Field("", description="The key, where one is required.")


@dataclass(frozen=True)
class Shown:
    """The content of a page: the request, and the answer or why there is none."""

    source: str = AUTO
    target: str = ""
    text: str = ""
    answer: TranslatedText | None = None
    problem: str = ""
    #: Whether only the form may send the text: where keys are required, it has the key.
    needs_key: bool = False


_READING = Operation(
    "What the page is made of",
    media=("text/javascript", "text/css", "application/json"),
    refusals=(NotFound,),
    path={"digest": (), "name": list(read_assets().files)},
)


def make_blueprints(services: Services) -> list[Blueprint]:
    """The routes of the page."""
    service, is_key_required = services.translation, services.access.is_required
    blueprint = Blueprint("page", __name__)
    page = _Page(service, is_key_required)
    translating = _describe_operation(service.bounds.targets)

    @blueprint.get("/")
    @describe(
        replace(
            translating,
            summary="The page for people, where `Accept` has `text/html`",
            refusals=(*TRANSLATING, MethodNotAllowed),
            task=None,
            is_cached=True,
        )
    )
    def show() -> Response:
        if not _accepts_html():
            raise MethodNotAllowed("This path takes POST.", ["POST"])
        return page.answer()

    @blueprint.post("/page")
    @describe(translating)
    def translate() -> Response:
        return page.answer()

    @blueprint.get("/page/<digest>/<name>")
    @describe(_READING)
    def show_file(digest: str, name: str) -> str | dict[str, str]:
        assets = read_assets()
        if name not in assets.files:
            raise NotFound("There is no such file; see GET /.")
        is_current = digest == assets.digest
        # The annotation says what is in it.
        return _send_file(assets.files[name], is_current=is_current)  # type: ignore[return-value]

    _watch(blueprint, page, service)
    return [blueprint]


def _watch(blueprint: Blueprint, page: _Page, service: TranslationService) -> None:
    """Shows problems to people as a page, and counts what was translated."""

    @blueprint.errorhandler(Problem)
    def show_problem(problem: Problem) -> Response:
        is_asset = request.path.startswith("/page/")
        if is_asset or not _accepts_html():
            return write_problem_response(problem, OURS)
        return page.show_problem(problem)


def _describe_operation(languages: Collection[str]) -> Operation:
    bounds = {"target": {"enum": ["", *languages]}}
    return Operation(
        "The page with a translation, for browsers without JavaScript",
        bodies=(BodySchema(PageFields, (_FORM,), bounds=bounds),),
        media=(_HTML,),
        refusals=TRANSLATING,
        task=TRANSLATION,
    )


def _accepts_html() -> bool:
    """Browsers name it; programs that take anything want no page."""
    return any(media == _HTML for media, _ in request.accept_mimetypes)


def _choose_language(known: Collection[str], otherwise: str) -> str:
    """The first one that the browser asks for: `fr` for `fr-CA`."""
    wanted = (normalize_language(tag) for tag, _ in request.accept_languages)
    return next((language for language in wanted if language in known), otherwise)


@cache
def _load_template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(PAGE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("index.html")


class _Page:
    """Writes pages in the words that a browser asks for."""

    def __init__(self, service: TranslationService, is_key_required: bool) -> None:
        self._service = service
        self._is_key_required = is_key_required
        self._catalog = service.catalog
        self._settings = self._write_settings()
        self._write_empty = lru_cache(_EMPTY_PAGES)(self._write)

    def answer(self) -> Response:
        """The page for the current request. Raises what a translation raises."""
        shown = self._read()
        if shown.text.strip() and not shown.needs_key:
            shown = replace(shown, answer=self._translate(shown))
        return self._send(shown)

    def show_problem(self, problem: Problem) -> Response:
        """The page that says what is wrong."""
        try:
            shown = self._read()
        except Problem:  # its fields are what is wrong
            shown = Shown()
        response = self._send(replace(shown, problem=problem.detail))
        response.status_code = problem.status
        response.headers.extend(problem.headers)
        return response

    def _read(self) -> Shown:
        given = parse_parameters(PageFields, read_fields(request))
        return Shown(
            given["source"] or AUTO,
            given["target"] or self._choose_target(),
            given["q"].replace("\r\n", "\n"),  # as forms send it
            needs_key=self._is_key_required and request.method != "POST",
        )

    def _choose_target(self) -> str:
        """The browser's language, else the map's first."""
        languages = self._catalog.languages
        return request.accept_languages.best_match(languages, next(iter(languages), ""))

    def _translate(self, shown: Shown) -> TranslatedText:
        body = {
            "src_lang": shown.source,
            "src_text": shown.text,
            "tgt_lang": shown.target,
        }
        limits = self._service.limits
        wanted = parse_translation(body, limits)
        (answer,) = self._service.translate(wanted, request.open_call(wanted.target))
        return answer

    def _send(self, shown: Shown) -> Response:
        words = read_assets().words
        language = _choose_language(words, "en")
        is_empty = not (shown.text or shown.problem)
        write = self._write_empty if is_empty else self._write
        content = write(shown, language)
        response = Response(content, content_type=f"{_HTML}; charset=utf-8")
        response.headers["Content-Security-Policy"] = _POLICY
        response.headers["Cache-Control"] = _ASK_AGAIN if is_empty else _NEVER
        response.vary.update(["Accept", "Accept-Language"])
        if is_empty:
            response.add_etag()
            response.make_conditional(request)
        if response.status_code != 304:
            _pack(response, lambda: gzip.compress(content, 5))
        return _protect(response)

    def _write(self, shown: Shown, language: str) -> bytes:
        assets = read_assets()
        languages = self._catalog.languages
        context: dict[str, Any] = {
            "shown": shown,
            "words": assets.words[language],
            "language": language,
            "tongues": {code: _name(code, code) for code in assets.words},
            "targets": _name_all(languages, language),
            "sources": _name_all(self._service.sources, language),
            "find_direction": find_direction,
            "is_key_required": self._is_key_required,
            "settings": json.dumps(self._settings, ensure_ascii=False),
            "root": f"page/{assets.digest}",
            "modules": assets.modules,
        }
        return _load_template().render(context).encode()

    def _write_settings(self) -> Mapping[str, Any]:
        """Write the settings that the modules must know before they ask for anything."""
        sources = self._service.sources
        languages = self._catalog.languages
        return {
            "languages": list(languages),
            "tasks": list(self._catalog.tasks),
            "keys": self._is_key_required,
            "from_right": [
                code
                for code in dict.fromkeys([*sources, *languages])
                if find_direction(code) == "rtl"
            ],
            "alternatives": self._service.bounds.max_alternatives,
            "texts": self._service.bounds.max_texts,
        }


def find_direction(language: str) -> str:
    """Return a language's direction in HTML's words; `auto` where it is not known."""
    scripts = SCRIPTS.get(language)
    if scripts is None:
        return "auto"
    return "rtl" if scripts[0] in _FROM_RIGHT else "ltr"


def _name_all(codes: Any, language: str) -> list[tuple[str, str]]:
    return sorted(
        ((code, _name(code, language)) for code in codes), key=lambda pair: pair[1]
    )


@cache
def _name(code: str, language: str) -> str:
    """A language in another's words, as a list begins its entries: with a capital."""
    try:
        name = str(Locale.parse(language).languages.get(code, code))
    except UnknownLocaleError:
        name = code
    return name[:1].upper() + name[1:]


def _send_file(asset: Asset, *, is_current: bool) -> Response:
    """A page of another version gets today's file, which nobody keeps under its address."""
    response = Response(asset.content, content_type=asset.media)
    response.headers["Cache-Control"] = _FOREVER if is_current else _ASK_AGAIN
    _pack(response, lambda: asset.packed)
    return _protect(response)


def _pack(response: Response, find_packed: Any) -> None:
    response.vary.add("Accept-Encoding")
    if request.accept_encodings["gzip"]:
        response.data = find_packed()
        response.headers["Content-Encoding"] = "gzip"


def _protect(response: Response) -> Response:
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "no-referrer"
    return response
