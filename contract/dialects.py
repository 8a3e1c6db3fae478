"""The APIs that clients speak, one entry each. nginx's error documents, load shedding, keys,
CORS, OpenAPI and the tests get all facts about an API from its entry."""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from contract.options import BEAM_SIZE
from contract.problems import CONTENT_TYPE, ErrorAnswer
from contract.tasks import PATHS, TRANSLATION

Document = Mapping[str, Any]

#: The content type of a streamed answer.
EVENT_STREAM = "text/event-stream"
#: The statuses that other APIs' servers send instead of ours.
_STATUSES = {401: 403, 422: 400}
#: The words of their servers, by slug.
_WORDS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
#: The beam size if a client of DeepL requests quality.
_WIDE_BEAM = 5
_FOR_QUALITY = ("quality_optimized", "prefer_quality_optimized")


def _count_one(fields: Document, most: int) -> int:
    return 1


class FieldNames(NamedTuple):
    """An API's names for `src_text`, `src_lang` and `tgt_lang`."""

    text: str
    source: str
    target: str


@dataclass(frozen=True, eq=False)
class Dialect:
    """An API. Its paths equal one of `paths`, or extend it after a slash."""

    name: str
    #: The name shown to people.
    title: str
    paths: tuple[str, ...]
    #: The routes that translate texts.
    translating: tuple[str, ...]
    fields: FieldNames
    #: Converts a problem document, which already has this API's status.
    write: Callable[[Document], dict[str, Any]]
    #: The statuses, by slug, in which this API differs from the others.
    statuses: Mapping[str, int] = field(default_factory=dict)
    content_type: str = "application/json"
    #: Returns the number of hypotheses in a request; the second argument is the map's limit.
    count_beams: Callable[[Document, int], int] = _count_one
    #: Where clients send keys, besides `Authorization: Bearer`.
    key_fields: tuple[str, ...] = ()
    key_header: str | None = None
    key_scheme: str | None = None
    #: Paths of documents and of glossaries, closed to web pages of unknown origins.
    documents: tuple[str, ...] = ()
    glossaries: tuple[str, ...] = ()

    def answer(self, document: Document) -> ErrorAnswer:
        """Return a problem as this API's error answer."""
        slug = _read_slug(document)
        status = document["status"]
        if self in FOREIGN:
            status = self.statuses.get(slug) or _STATUSES.get(status, status)
            detail = document["detail"]
            for ours, own in zip(OURS.fields, self.fields, strict=True):
                detail = detail.replace(ours, own)
            document = {**document, "status": status, "detail": detail}
        return ErrorAnswer(status, self.content_type, self.write(document))


@lru_cache(64)
def find_dialect(path: str) -> Dialect:
    """Return the API of a path: ours for `/translate`, which is LibreTranslate's too."""
    for dialect in FOREIGN:
        if any(f"{path}/".startswith(f"{begin}/") for begin in dialect.paths):
            return dialect
    return OURS


def _read_slug(document: Document) -> str:
    return str(document["type"]).rpartition(":")[2]


def _write_both(document: Document) -> dict[str, Any]:
    return {**LIBRETRANSLATE.write(document), **document}


#: The form field whose faults have a separate wording.
_FILE = "file"


def _write_words(
    name: str, words: Mapping[str, str], document: Document
) -> dict[str, str]:
    """Return the wording of the API's own server, which clients compare; `detail` has ours."""
    faulty = [error["field"] for error in document.get("errors", ())]
    slug = _FILE if _FILE in faulty else _read_slug(document)
    ours = document["detail"] if slug in words else document.get("explanation")
    said = {name: words.get(slug) or document["detail"]}
    return said | ({"detail": ours} if ours else {})


def _write_google(document: Document) -> dict[str, Any]:
    status = document["status"]
    said = document["detail"], document.get("explanation")
    message = ": ".join(filter(None, said))
    known = _WORDS["google"].get(_read_slug(document), "invalid")
    reason = document.get("reason") or known
    one = {"message": message, "domain": "global", "reason": reason}
    name = _WORDS["google-statuses"].get(str(status), "INVALID_ARGUMENT")
    return {
        "error": {"code": status, "message": message, "errors": [one], "status": name}
    }


def _count_alternatives(fields: Document, most: int) -> int:
    return int(fields.get("alternatives") or 0) + 1


def _count_ours(fields: Document, most: int) -> int:
    return max(int(fields.get("beam_size") or 0), _count_alternatives(fields, most))


def _count_deepl(fields: Document, most: int) -> int:
    is_wide = str(fields.get("model_type")).lower() in _FOR_QUALITY
    return min(_WIDE_BEAM if is_wide else BEAM_SIZE.default, most)


OURS = Dialect(
    name="babelgate",
    title="Babelgate",
    paths=(),
    translating=("/", PATHS[TRANSLATION]),
    fields=FieldNames("src_text", "src_lang", "tgt_lang"),
    write=dict,
    content_type=CONTENT_TYPE,
    count_beams=_count_ours,
    key_header="X-API-Key",
    key_scheme="Bearer",
    documents=("/documents",),
    glossaries=("/glossaries",),
)
#: The API of a request to `/translate` that could be ours or LibreTranslate's.
EITHER = replace(OURS, name="either", write=_write_both)
LIBRETRANSLATE = Dialect(
    name="libretranslate",
    title="LibreTranslate",
    paths=("/detect", "/frontend", "/suggest", "/health", "/spec")
    + ("/translate_file", "/download_file"),
    translating=(PATHS[TRANSLATION],),
    fields=FieldNames("q", "source", "target"),
    write=partial(_write_words, "error", _WORDS["libretranslate"]),
    statuses={"too-many-rows": 400, "unknown-format": 400},
    count_beams=_count_alternatives,
    key_fields=("api_key",),
    documents=("/translate_file", "/download_file"),
)
DEEPL = Dialect(
    name="deepl",
    title="DeepL",
    paths=("/v2", "/v3"),
    translating=("/v2/translate",),
    fields=FieldNames("text", "source_lang", "target_lang"),
    write=partial(_write_words, "message", _WORDS["deepl"]),
    statuses={"quota-exceeded": 456, "unknown-format": 400, "not-done": 503},
    count_beams=_count_deepl,
    key_fields=("auth_key",),
    key_scheme="DeepL-Auth-Key",
    documents=("/v2/document",),
    glossaries=("/v2/glossaries", "/v3/glossaries"),
)
GOOGLE = Dialect(
    name="google",
    title="Google",
    paths=("/language/translate",),
    translating=("/language/translate/v2",),
    fields=FieldNames("q", "source", "target"),
    write=_write_google,
    key_fields=("key",),
    key_header="X-Goog-Api-Key",
)
#: The APIs besides ours.
FOREIGN = (LIBRETRANSLATE, DEEPL, GOOGLE)
#: The headers whose whole value is a key, and the fields with a key.
KEY_HEADERS = tuple(each.key_header for each in (OURS, *FOREIGN) if each.key_header)
KEY_FIELDS = tuple(name for each in FOREIGN for name in each.key_fields)
