"""`GET /` for browsers: the page for people, and `GET /page/<digest>/<name>`: its files.
Without JavaScript, its form is sent to `GET /` or `POST /page`, which return a page with the
translation. `GET /openapi.json` describes every route, and `GET /docs` is a page to read about
the routes and to try them, without requests to other hosts."""

import gzip
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from importlib.util import find_spec
from operator import itemgetter
from pathlib import Path
from typing import Any

from flask import Blueprint, Response
from flask.blueprints import BlueprintSetupState
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from pydantic import Field

from contract.languages import LANGUAGES, normalize_language, normalize_variant
from contract.tasks import TRANSLATION
from gateway.api import Services
from gateway.api.status import name_language
from gateway.errors import MethodNotAllowed, NotFound, Problem
from gateway.http.middleware import write_problem_response
from gateway.http.request import GatewayRequest, read_fields
from gateway.openapi import TRANSLATING, BodySchema, Operation, build
from gateway.schemas import Schema, Text, parse_translation, validate
from text.composition import TranslatedText
from text.options import AUTO

PAGE = Path(__file__).parents[1] / "page"
_FORM = "application/x-www-form-urlencoded"
_HTML = "text/html"
_PAGE_MEDIA = f"{_HTML}; charset=utf-8"
_MEDIA = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
}
_FOREVER, _ASK_AGAIN = "public, max-age=31536000, immutable", "no-cache"
#: The texts of a translation are private.
_NEVER = "no-store"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "base-uri 'none'; frame-ancestors 'none'; "
)
_PAGE_POLICY = _POLICY + "img-src 'self' blob: data:; form-action 'self'"
_DOCS_POLICY = _POLICY + "img-src 'self' data:; form-action 'none'"
#: The files of the documentation: Swagger UI's from the package offapi, and one of ours.
_DOCS = PAGE.with_name("docs")
_DOCS_FILES = ("swagger_bundle.js", "swagger_style.css", "start.js")
#: Cached pages without a text, one per language of browsers and of links.
_EMPTY_PAGES = 64


@dataclass(frozen=True)
class Assets:
    """The page's files by name, words by language, and a digest of the files for their URLs."""

    files: Mapping[str, bytes]
    #: The files with gzip.
    packed: Mapping[str, bytes]
    words: Mapping[str, Mapping[str, str]]
    digest: str


@cache
def read_assets() -> Assets:
    """Read the files in the folder, once per process."""
    paths = [path for path in sorted(PAGE.rglob("*")) if path.suffix in _MEDIA]
    files = {path.name: path.read_bytes() for path in paths}
    whole = b"".join(name.encode() + b"\0" + files[name] for name in files)
    return Assets(
        files,
        # Without a time, equal files are compressed to equal bytes in every process.
        {name: gzip.compress(content, mtime=0) for name, content in files.items()},
        {
            path.stem: json.loads(files[path.name])
            for path in paths
            if path.parent.name == "words"
        },
        hashlib.sha256(whole).hexdigest()[:16],
    )


class PageFields(Schema):
    """The fields of the page's form and links."""

    source: Text = Field(AUTO, description="The language of the text.")
    target: Text = Field("", description="The language to translate into.")
    q: Text = Field("", description="The text.")
    api_key: Text = Field("", description="The key, if one is required.")


@dataclass(frozen=True)
class Shown:
    """The content of a page: the request, and the answer or problem."""

    source: str = AUTO
    target: str = ""
    text: str = ""
    answer: TranslatedText | None = None
    problem: str = ""
    #: Whether the text is not translated because only the form can send the required key.
    needs_key: bool = False


def make_blueprints(services: Services) -> list[Blueprint]:
    """Return the routes of the page and of the documentation."""
    return [_make_page(services), _make_documentation(services)]


def _make_page(services: Services) -> Blueprint:
    page = _Page(services)
    blueprint = Blueprint("page", __name__)
    bounds = {"target": {"enum": ["", *services.translation.bounds.targets]}}
    translating = Operation(
        "The page with a translation, for browsers without JavaScript",
        TRANSLATION,
        bodies=(BodySchema(PageFields, (_FORM,), bounds=bounds),),
        media=(_HTML,),
        refusals=TRANSLATING,
        show_problem=page.show_problem,
    )

    @blueprint.get("/")
    @replace(
        translating,
        summary="The page for people, if `Accept` contains `text/html`",
        refusals=(*TRANSLATING, MethodNotAllowed),
        task=None,
        is_cached=True,
        is_open=True,
    )
    def show(request: GatewayRequest) -> Response:
        if not _accepts_html(request):
            raise MethodNotAllowed("This path takes POST.", ["POST"])
        return page.answer(request)

    @blueprint.post("/page")
    @translating
    def translate(request: GatewayRequest) -> Response:
        return page.answer(request)

    @blueprint.get("/page/<digest>/<name>")
    @Operation(
        "A file of the page",
        media=("text/javascript", "text/css", "application/json"),
        refusals=(NotFound,),
        path={"name": list(read_assets().files)},
        is_open=True,
        show_problem=page.show_problem,
    )
    def show_file(
        request: GatewayRequest, digest: str, name: str
    ) -> str | dict[str, str]:
        assets = read_assets()
        if name not in assets.files:
            raise NotFound("There is no such file; see GET /.")
        # A page of another version gets the current file, which caches must revalidate.
        return _send(  # type: ignore[return-value]  # the annotation is the content's type
            request,
            assets.files[name],
            _MEDIA[Path(name).suffix],
            kept=_FOREVER if digest == assets.digest else _ASK_AGAIN,
            packed=lambda: assets.packed[name],
        )

    return blueprint


def _make_documentation(services: Services) -> Blueprint:
    catalog = services.catalog
    blueprint = Blueprint("documentation", __name__)
    served = {*catalog.tasks, *([TRANSLATION] if catalog.languages else [])}

    registered: list[BlueprintSetupState] = []
    blueprint.record(registered.append)
    send = partial(_send, kept=_ASK_AGAIN, policy=_DOCS_POLICY, has_tag=True)

    @cache
    def write() -> bytes:
        # Flask knows all routes once all blueprints are registered.
        document = build(
            registered[0].app, served, needs_key=services.access.is_required
        )
        return json.dumps(document, ensure_ascii=False).encode()

    @blueprint.get("/openapi.json")
    @Operation("This document", is_cached=True, is_open=True)
    def openapi(request: GatewayRequest) -> dict[str, Any]:
        # The annotation is the content's type.
        return send(request, write(), _MEDIA[".json"])  # type: ignore[return-value]

    @blueprint.get("/docs")
    @Operation("A page to try the routes", media=(_HTML,), is_cached=True, is_open=True)
    def docs(request: GatewayRequest) -> Response:
        return send(request, _read_docs("index.html"), _PAGE_MEDIA)

    @blueprint.get("/docs/<name>")
    @Operation(
        "A file of the page",
        media=("text/javascript", "text/css"),
        is_cached=True,
        refusals=(NotFound,),
        path={"name": _DOCS_FILES},
        is_open=True,
    )
    def docs_file(request: GatewayRequest, name: str) -> Response:
        if name not in _DOCS_FILES:
            raise NotFound("There is no such file; see GET /docs.")
        return send(request, _read_docs(name), _MEDIA[Path(name).suffix])

    return blueprint


def _accepts_html(request: GatewayRequest) -> bool:
    """Whether a browser sends the request: programs that accept anything want no page."""
    return any(media == _HTML for media, _ in request.accept_mimetypes)


@cache
def _load_template() -> Template:
    return Environment(
        loader=FileSystemLoader(PAGE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    ).get_template("index.html")


class _Page:
    """A writer of pages in the browser's language."""

    def __init__(self, services: Services) -> None:
        self._service = services.translation
        self._is_key_required = services.access.is_required
        self._languages = self._service.bounds.targets
        known = dict.fromkeys([*self._service.sources, *self._languages])
        #: The modules need these before their first request.
        self._settings = {
            "languages": list(self._languages),
            "tasks": list(services.catalog.tasks),
            "keys": self._is_key_required,
            "from_right": [code for code in known if find_direction(code) == "rtl"],
            "alternatives": self._service.bounds.max_alternatives,
            "texts": self._service.bounds.max_texts,
        }
        self._write_empty = lru_cache(_EMPTY_PAGES)(self._write_page)

    def answer(self, request: GatewayRequest) -> Response:
        """Return the page for a request. Raises the errors of a translation."""
        shown = self._read_form(request)
        if shown.text.strip() and not shown.needs_key:
            shown = replace(shown, answer=self._translate(request, shown))
        return self._send(request, shown)

    def show_problem(self, problem: Problem, request: GatewayRequest) -> Response:
        """Return the page with an error; for programs and for files, the problem document."""
        if request.path.startswith("/page/") or not _accepts_html(request):
            return write_problem_response(problem, request)
        try:
            shown = self._read_form(request)
        except Problem:  # the fault is in the fields
            shown = Shown()
        response = self._send(request, replace(shown, problem=problem.detail))
        response.status_code = problem.status
        response.headers.extend(problem.headers)
        return response

    def _read_form(self, request: GatewayRequest) -> Shown:
        given = validate(PageFields, read_fields(request))
        # The browser's language, else the map's first.
        first = next(iter(self._languages), "")
        wanted = (normalize_variant(tag) for tag, _ in request.accept_languages)
        target = next((found for found in wanted if found in self._languages), first)
        return Shown(
            given.source or AUTO,
            given.target or target,
            given.q.replace("\r\n", "\n"),  # as forms send line breaks
            needs_key=self._is_key_required and request.method != "POST",
        )

    def _translate(self, request: GatewayRequest, shown: Shown) -> TranslatedText:
        languages = {"src_lang": shown.source, "tgt_lang": shown.target}
        body = languages | {"src_text": shown.text}
        wanted = parse_translation(body, self._service.limits)
        (answer,) = self._service.translate(
            wanted, request.open_call(wanted.model_target)
        )
        return answer

    def _send(self, request: GatewayRequest, shown: Shown) -> Response:
        # The first known one that the browser requests: `fr` for `fr-CA`.
        wanted = [normalize_language(tag) for tag, _ in request.accept_languages]
        known = read_assets().words
        language = next((found for found in wanted if found in known), "en")
        is_empty = not (shown.text or shown.problem)
        write = self._write_empty if is_empty else self._write_page
        content = write(shown, language)
        response = _send(
            request,
            content,
            _PAGE_MEDIA,
            kept=_ASK_AGAIN if is_empty else _NEVER,
            policy=_PAGE_POLICY,
            packed=lambda: gzip.compress(content, 5),
            has_tag=is_empty,
        )
        response.vary.update(["Accept", "Accept-Language"])
        return response

    def _write_page(self, shown: Shown, language: str) -> bytes:
        assets = read_assets()
        context: dict[str, Any] = {
            "shown": shown,
            "words": assets.words[language],
            "language": language,
            "tongues": {code: _name(code, code) for code in assets.words},
            "targets": _name_all(self._languages, language),
            "sources": _name_all(self._service.sources, language),
            "find_direction": find_direction,
            "is_key_required": self._is_key_required,
            "settings": json.dumps(self._settings, ensure_ascii=False),
            "root": f"page/{assets.digest}",
            # A browser may fetch all modules at once.
            "modules": [name for name in assets.files if name.endswith(".js")],
        }
        return _load_template().render(context).encode()


def find_direction(language: str) -> str:
    """Return a language's direction in HTML's words; `auto` if it is unknown."""
    known = LANGUAGES.get(language)
    if known is None:
        return "auto"
    return "rtl" if known.is_right_to_left else "ltr"


def _name_all(codes: Iterable[str], language: str) -> list[tuple[str, str]]:
    return sorted(((code, _name(code, language)) for code in codes), key=itemgetter(1))


@cache
def _name(code: str, language: str) -> str:
    """Return a language's name in another language, with a capital for a list."""
    name = name_language(code, language)
    return name[:1].upper() + name[1:]


def _send(
    request: GatewayRequest,
    content: bytes,
    media: str,
    *,
    kept: str,
    policy: str = "",
    packed: Callable[[], bytes] | None = None,
    has_tag: bool = False,
) -> Response:
    """Return a whole answer, or 304 if the client already has this entity tag."""
    response = Response(content, content_type=media)
    response.headers["Cache-Control"] = kept
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "no-referrer"
    if policy:
        response.headers["Content-Security-Policy"] = policy
    if has_tag:
        response.add_etag()
        response.make_conditional(request)
    if packed and response.status_code != 304:
        response.vary.add("Accept-Encoding")
        if request.accept_encodings["gzip"]:
            response.data = packed()
            response.headers["Content-Encoding"] = "gzip"
    return response


@cache
def _read_docs(name: str) -> bytes:
    """Read a file of ours, or of offapi, whose module would load all of its viewers."""
    path = _DOCS / name
    if not path.is_file():
        found = find_spec("offapi")
        assert found
        assert found.origin
        path = Path(found.origin).with_name(name)
    return path.read_bytes()
