"""Parses request bodies and parameters into typed values, or raises errors that name the field
and the values expected."""

import json
from codecs import BOM_UTF8
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Annotated, Any, Literal, TypeVar, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    create_model,
    model_validator,
)

from contract.dialects import KEY_FIELDS
from contract.languages import LANGUAGES
from contract.options import ALTERNATIVES, BEAM_SIZE, THRESHOLD, TOP_K
from contract.validation import kind, list_faults, suggest
from contract.webhooks import Webhook, make_webhook
from gateway.errors import InvalidRequest, MalformedRequest, UnknownLanguage
from text.errors import LanguageNotServed
from text.options import (
    AUTO,
    TAGS,
    TranslationRequest,
    read_candidates,
    read_source,
    read_target,
)

#: A character of base64.
_64 = "[A-Za-z0-9+/]"
#: The most unknown fields that an answer names.
_MOST_UNKNOWN = 5


def _read_digits(text: str) -> str:
    """Return the digits of a number in a URL. Raises ValueError for others that int() accepts:
    spaces, underscores, digits outside ASCII."""
    if text.isascii() and text.isdigit():
        return text
    raise ValueError


#: A whole number in a URL.
Digits = Annotated[int, Field(strict=False), BeforeValidator(_read_digits)]
#: Words of other APIs, which may be in capitals.
Lower = BeforeValidator(lambda given: given.lower() if type(given) is str else given)
#: Any bound on the length makes pydantic reject halves of surrogate pairs.
Text = Annotated[str, Field(min_length=0)]


def _find_shape(given: Any) -> str:
    return "texts" if isinstance(given, list) else "text"


#: One text, or several.
Texts = Annotated[
    Annotated[Text, Tag("text")] | Annotated[list[Text], Tag("texts")],
    Discriminator(_find_shape),
]
_Code = Annotated[
    Text, Field(examples=["en"], json_schema_extra={"format": "language code"})
]
_Candidates = Annotated[list[_Code], Field(min_length=1, max_length=len(LANGUAGES))]


class Schema(BaseModel, strict=True, frozen=True):
    """Fields of our API. Unknown ones are ignored; `warn_of_unknown` names them."""


Model = TypeVar("Model", bound=BaseModel)
Answer = TypeVar("Answer", bound=Mapping[str, Any])
PairsHook = Callable[[list[tuple[str, Any]]], Any]


class TranslationBody(Schema):
    """The body of `POST /translate`; `TranslationLimits` adds a stack's limits."""

    src_lang: _Code = Field(
        AUTO, description="The language of the text; identified if it is missing."
    )
    src_text: str | list[str]
    tgt_lang: _Code = Field(description="The language to translate into.")
    beam_size: int
    alternatives: int
    format: Literal["text", "html", "xml"] = Field(
        "text", description="Whether tags are markup."
    )
    protect: bool = Field(
        True, description="Whether placeholders, addresses, code etc. stay unchanged."
    )
    glossary: Text | None = Field(
        None, description="The id or name of a glossary to use."
    )
    languages: _Candidates | None = Field(
        None, description="The possible languages of a text, if it is identified."
    )
    explain: bool = Field(
        False, description="Whether to return the model and the timing."
    )
    quality: bool = Field(
        False, description="Whether to return the quality of each text and sentence."
    )
    min_quality: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Texts with a lower quality are returned untranslated.",
    )


class IdentificationBody(Schema):
    """The body of `POST /identify`; `TranslationLimits` adds a stack's limit."""

    src_text: str | list[str]
    languages: _Candidates | None = Field(
        None, description="The possible languages of a text."
    )


class DocumentForm(Schema):
    """The form of `POST /documents`."""

    src_lang: _Code = Field(
        AUTO, description="The language of the document; identified if it is missing."
    )
    tgt_lang: _Code = Field(description="The language to translate into.")
    glossary: Text | None = Field(None, description="A glossary's id or name.")
    filename: Text | None = Field(
        None, description="The document's name, instead of the file's."
    )
    webhook: Text = Field(
        "",
        max_length=2000,
        examples=["https://example.org/done"],
        description="An HTTPS URL to notify when the document is done.",
    )
    webhook_secret: str = Field(
        "",
        pattern=rf"^((whsec_)?({_64}{{4}}){{8,21}}({_64}{{2}}==|{_64}{{3}}=)?)?$",
        json_schema_extra={"format": "secret of 24 to 64 bytes in base64"},
        description="The secret that signs notifications, as in Standard Webhooks.",
    )


class ClassificationParameters(Schema):
    """The URL's parameters of `POST /classify`."""

    top_k: Digits = Field(**TOP_K.limit(), description="The number of labels.")


class DetectionParameters(Schema):
    """The URL's parameters of `POST /detect-objects`."""

    threshold: float = Field(
        **THRESHOLD.limit(),
        strict=False,
        description="The score that an object must exceed.",
    )


@dataclass(frozen=True)
class TranslationLimits:
    """The limits of a request: target and source languages, and amounts."""

    targets: tuple[str, ...]
    sources: tuple[str, ...]
    max_texts: int
    max_beam_size: int
    max_alternatives: int
    #: The targets that models produce without a conversion of variants.
    written: Container[str] = ()

    @cached_property
    def schema(self) -> type[TranslationBody]:
        """The schema of bodies of `POST /translate` with a stack's limits."""
        beams = BEAM_SIZE.limit(self.max_beam_size)
        others = ALTERNATIVES.limit(self.max_alternatives)
        said = "The number of search hypotheses."
        of_others = "The number of other translations to return."
        return create_model(
            "TranslationBody",
            __base__=TranslationBody,
            src_text=_limit_texts(self.max_texts),
            beam_size=(int, Field(**beams, description=said)),
            alternatives=(int, Field(**others, description=of_others)),
        )

    @cached_property
    def identification(self) -> type[IdentificationBody]:
        """The schema of bodies of `POST /identify` with a stack's limit."""
        return create_model(
            "IdentificationBody",
            __base__=IdentificationBody,
            src_text=_limit_texts(self.max_texts),
        )


@dataclass(frozen=True)
class DocumentRequest:
    """A request to translate a document. Without a `source`, its language is identified."""

    source: str | None
    target: str
    glossary: str | None = None
    webhook: Webhook | None = None


@contextmanager
def _explained() -> Iterator[None]:
    """Raise UnknownLanguage for languages that are not served."""
    try:
        yield
    except LanguageNotServed as error:
        raise UnknownLanguage(error) from error


@_explained()
def parse_translation(
    content: Mapping[str, Any], limits: TranslationLimits
) -> TranslationRequest:
    """Parse a body's JSON object. Raises InvalidRequest or UnknownLanguage."""
    given = validate(limits.schema, content)
    return TranslationRequest(
        source=read_source(given.src_lang, limits.targets, limits.sources),
        target=read_target(given.tgt_lang, limits.targets),
        texts=list_texts(given.src_text),
        is_list=isinstance(given.src_text, list),
        tags=TAGS[given.format],
        splitting="lines" if given.format == "text" else "sentences",
        is_protected=given.protect,
        beam_size=given.beam_size,
        alternatives=given.alternatives,
        glossaries=(given.glossary,) if given.glossary else (),
        languages=read_candidates(given.languages or (), limits.sources),
        written=limits.written,
        is_rated=given.quality,
        min_quality=given.min_quality,
    )


@_explained()
def parse_document(
    fields: Mapping[str, Any], targets: Sequence[str], webhooks: str
) -> DocumentRequest:
    """Parse the fields of a form. `webhooks` is the setting with allowed addresses. Raises
    InvalidRequest or UnknownLanguage."""
    given = validate(DocumentForm, fields)
    source = read_source(given.src_lang, targets)
    target = read_target(given.tgt_lang, targets)
    try:
        webhook = make_webhook(given.webhook, given.webhook_secret, webhooks)
    except ValueError as error:
        raise InvalidRequest({"webhook": str(error)}) from error
    return DocumentRequest(source, target, given.glossary or None, webhook)


@_explained()
def parse_identification(
    content: Mapping[str, Any], limits: TranslationLimits
) -> tuple[str | list[str], tuple[str, ...]]:
    """Return the text or list of texts in a body's JSON object, and their possible languages.
    Raises InvalidRequest or UnknownLanguage."""
    given = validate(limits.identification, content)
    return given.src_text, read_candidates(given.languages or (), limits.sources)


def _limit_texts(most: int) -> Any:
    texts = Annotated[list[Text], Field(min_length=1, max_length=most)]
    shapes = Annotated[
        Annotated[Text, Tag("text")] | Annotated[texts, Tag("texts")],
        Discriminator(_find_shape),
    ]
    return shapes, Field(description="A text, or a list of them.")


def _find_unknown(
    schema: type[BaseModel], content: Mapping[str, Any]
) -> dict[str, str]:
    """Return the first unknown fields, each with the nearest known one. Fields in which clients
    of other APIs send keys count as known."""
    known = schema.model_fields
    if content.keys() <= known.keys():
        return {}
    unknown = (n for n in content if n not in known and n not in KEY_FIELDS)
    named = islice(unknown, _MOST_UNKNOWN)
    return {_quote(n): f"unknown field{suggest(n, known)}" for n in named}


def warn_of_unknown(schema: type[BaseModel], content: Mapping[str, Any]) -> list[str]:
    """Return a warning for each ignored field, or for the first few of many."""
    return [f"{n}: {fault}" for n, fault in _find_unknown(schema, content).items()]


def note_unknown(
    answer: Answer, schema: type[BaseModel], content: Mapping[str, Any]
) -> Answer:
    """Return the answer, with `warnings` about ignored fields if there are any."""
    warnings = warn_of_unknown(schema, content)
    return cast(Answer, {**answer, "warnings": warnings}) if warnings else answer


def validate(schema: type[Model], given: Mapping[str, Any]) -> Model:
    """Validate the fields of a body or a URL; the first value of each name counts. Raises
    InvalidRequest."""
    content = dict(given.items())
    try:
        return schema.model_validate(content)
    except ValidationError as error:
        faults = list_faults(error.errors(include_url=False), schema)
        raise InvalidRequest(faults | _find_unknown(schema, content)) from error


class ForeignSchema(BaseModel, frozen=True):
    """Fields of another API. Numbers may be text, as in forms. Unknown fields are ignored, and
    so are empty optional ones."""

    @model_validator(mode="before")
    @classmethod
    def _drop_empty(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        required = {name for name, it in cls.model_fields.items() if it.is_required()}
        return {n: v for n, v in given.items() if n in required or v not in ("", None)}


@dataclass(frozen=True)
class Wording:
    """Another server's messages about a `{field}` that is missing or wrong, and about too many
    texts, to which we add an `advice`."""

    missing: str
    wrong: str
    too_many: str = "Too many texts."
    advice: str = "found {found}, expected at most {most}"
    #: Messages about some fields; they may quote the value `{found}`.
    fields: Mapping[str, str] = field(default_factory=dict)
    #: Returns the server's codes for targets.
    list_codes: Callable[[Sequence[str]], Sequence[str]] = tuple

    def miss(self, field: str) -> MalformedRequest:
        """Return the refusal of a request without a field."""
        return MalformedRequest(self.missing.format(field=field), reason="required")

    def refuse(
        self, field: str, explanation: str, found: object = ""
    ) -> MalformedRequest:
        """Return the refusal of a wrong field; the explanation is ours."""
        words = self.fields.get(field, self.wrong)
        return refuse(words.format(field=field, found=_quote(found)), explanation)

    def refuse_language(
        self, field: str, tag: str, expected: str = ""
    ) -> MalformedRequest:
        """Return the refusal of a language that is not served."""
        found = "" if field in self.fields else f"found {tag[:40]!r}"
        return self.refuse(field, ", ".join(filter(None, (found, expected))), tag)

    def list_texts(
        self, field: str, given: str | list[str], most: int
    ) -> tuple[str, ...]:
        """Return the texts of a field. Raises MalformedRequest for none, or too many."""
        texts = list_texts(given)
        if not texts:
            raise self.miss(field)
        if len(texts) > most:
            counts = {"found": len(texts), "most": most}
            raise refuse(self.too_many.format(**counts), self.advice.format(**counts))
        return texts


def _quote(found: object) -> str:
    """Return the beginning of a value, without halves of surrogate pairs."""
    return str(found)[:40].encode(errors="replace").decode()


def refuse(message: str, explanation: str | None = None) -> MalformedRequest:
    """Return a refusal in another server's wording, with our explanation."""
    extra: dict[str, Any] = {"explanation": explanation} if explanation else {}
    return MalformedRequest(message, **extra)


def parse_fields(
    schema: type[Model], fields: Mapping[str, Any], wording: Wording
) -> Model:
    """Parse the fields of a request. Raises MalformedRequest with the first fault."""
    try:
        return schema.model_validate(fields)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        field = str(errors[0]["loc"][0])
        if errors[0]["type"] == "missing":
            raise wording.miss(field) from error
        fault = list_faults(errors, schema)[field]
        raise wording.refuse(field, fault, fields[field]) from error


def list_texts(given: str | list[str]) -> tuple[str, ...]:
    """Return the texts of a field that may contain one or several."""
    return (given,) if isinstance(given, str) else tuple(given)


def read_object(body: bytes, hook: PairsHook | None = None) -> dict[str, Any]:
    """Parse a body's JSON object; `hook` builds objects from pairs. Raises MalformedRequest."""
    try:
        text = body.removeprefix(BOM_UTF8).decode("utf-8")
        content = json.loads(text, object_pairs_hook=hook)
    except UnicodeDecodeError as error:
        raise MalformedRequest(
            f"The body is not UTF-8: byte {error.start} is wrong."
        ) from error
    except json.JSONDecodeError as error:
        raise MalformedRequest(
            f"The body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}."
        ) from error
    except RecursionError as error:
        raise MalformedRequest("The body is nested too deeply.") from error
    except ValueError as error:
        raise MalformedRequest(
            "The body contains a number with too many digits."
        ) from error
    if not isinstance(content, dict):
        raise MalformedRequest(f"Expected a JSON object, found {kind(content)}.")
    return content
