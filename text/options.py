"""The options of a translation."""

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from contract.languages import (
    VARIANTS,
    choose_language,
    normalize_language,
    normalize_variant,
)
from contract.options import ALTERNATIVES, BEAM_SIZE
from text.errors import LanguageNotServed

#: The `src_lang` with which each text's language is identified.
AUTO = "auto"

#: A plain text is divided at lines and sentences, at sentences only, or nowhere.
Splitting: TypeAlias = Literal["lines", "sentences", "none"]


@dataclass(frozen=True)
class Tags:
    """The way to read a text's tags, and the client's lists of element names: those to leave
    unchanged, those that end a sentence, and those that do not."""

    is_xml: bool = False
    ignored: tuple[str, ...] = ()
    splitting: tuple[str, ...] = ()
    inline: tuple[str, ...] = ()
    #: Whether other XML elements end a sentence if there is no text next to them.
    finds_outline: bool = True


#: HTML, if the client lists no elements.
HTML_TAGS = Tags()
#: XML, likewise. XLIFF's inline elements never end a sentence.
XML_TAGS = Tags(is_xml=True, inline=("g", "x"))
#: The way to read the tags of each text format.
TAGS: Mapping[str, Tags | None] = {"text": None, "html": HTML_TAGS, "xml": XML_TAGS}


@dataclass(frozen=True)
class TranslationRequest:
    """A request to translate. Without a `source`, each text's language is identified; without
    `tags`, texts are plain; with `is_list`, the client wants a list. Source and target may be
    variants."""

    source: str | None
    target: str
    texts: tuple[str, ...]
    is_list: bool
    tags: Tags | None = None
    splitting: Splitting = "lines"
    is_protected: bool = True
    beam_size: int = BEAM_SIZE.default
    alternatives: int = ALTERNATIVES.default
    #: Ids or names of glossaries; entries of earlier ones take precedence.
    glossaries: tuple[str, ...] = ()
    #: The languages to choose from if a text's language is identified; if empty, all.
    languages: tuple[str, ...] = ()
    #: The languages and variants that models write themselves.
    written: Container[str] = ()
    #: Whether to return the quality of each text and sentence.
    is_rated: bool = False
    #: A text whose translation has a lower quality is returned untranslated.
    min_quality: float = 0.0

    @property
    def target_language(self) -> str:
        """The language of `target`, in which texts are only converted."""
        return VARIANTS.get(self.target, self.target)

    @property
    def model_target(self) -> str:
        """The language to request from the model: `target` if the model writes that."""
        return self.target if self.target in self.written else self.target_language

    @property
    def model_source(self) -> str | None:
        """The language of `source`."""
        return VARIANTS.get(self.source, self.source) if self.source else None


def read_source(
    code: str, served: Sequence[str], known: Sequence[str] = ()
) -> str | None:
    """Read any language code, preferably as a `known` one: only the model can decide which
    codes it reads. Returns None to identify the language. Raises LanguageNotServed."""
    if code in known:
        return code
    language = choose_language(code, known)
    if language == AUTO:
        return None
    if not re.match("[a-z]{2,3}(-|$)", language):
        raise LanguageNotServed("src_lang", code[:40], served)
    return language if language in known else normalize_variant(code)


def read_candidates(codes: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    """Read the languages that a text may be in. Raises LanguageNotServed for an unknown one."""
    languages = tuple(choose_language(normalize_language(c), known) for c in codes)
    for index, language in enumerate(languages):
        if language not in known:
            raise LanguageNotServed(f"languages[{index}]", codes[index][:40], known)
    return languages


def read_target(code: str, served: Sequence[str]) -> str:
    """Read the code of a language or variant that is served. Raises LanguageNotServed."""
    language = code if code in served else choose_language(code, served)
    if language not in served:
        raise LanguageNotServed("tgt_lang", code[:40], served)
    return language
