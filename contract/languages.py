"""The languages of the supported model families, by their BCP 47 tags in `languages.tsv`; their
scripts, and the codes that clients and models use for them."""

import tomllib
from collections.abc import Container, Iterable, Mapping
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

_FOLDER = Path(__file__).parent
#: Values of Unicode's `Script` property, by ISO 15924 code.
_SCRIPTS = tomllib.loads((_FOLDER / "scripts.toml").read_text("utf-8"))
_FROM_RIGHT = ("Arabic", "Hebrew", "Syriac", "Thaana")


class Language(NamedTuple):
    """A language, or a way of writing it that models treat as a language. `own_name` is empty
    if CLDR has none; `scripts` starts with the most usual one."""

    tag: str
    name: str
    own_name: str
    scripts: tuple[str, ...]
    is_right_to_left: bool


#: The table's tags, by other codes and by tags in lower case.
_TAGS: dict[str, str] = {}
#: The default script of each tag: tags omit it, models' codes include it.
_USUAL_SCRIPTS: dict[str, str] = {}


def _read_table() -> Iterable[Language]:
    for line in (_FOLDER / "languages.tsv").read_text("utf-8").splitlines()[1:]:
        tag, name, own_name, codes, others, *_ = *line.split("\t"), ""
        scripts = tuple(name for code in codes.split() for name in _SCRIPTS[code])
        _USUAL_SCRIPTS[tag] = codes.split()[0].lower()
        keys = (tag, *others.split())
        _TAGS.update((key.lower().replace("_", "-"), tag) for key in keys)
        yield Language(tag, name, own_name, scripts, scripts[0] in _FROM_RIGHT)


LANGUAGES: Mapping[str, Language] = MappingProxyType(
    {language.tag: language for language in _read_table()}
)
#: Each language's scripts, as values of Unicode's `Script` property.
SCRIPTS = {tag: language.scripts for tag, language in LANGUAGES.items()}
#: Variants that are converted from another way of writing a language, and the language.
VARIANTS = {"zh-Hant": "zh", "zh-HK": "zh", "sr-Cyrl": "sr", "sr-Latn": "sr"}

#: Subtags that select a variant; an earlier entry wins: `zh-Hans-TW` is simplified.
_PARTS = {
    "zh": {"hans": "zh", "hk": "zh-HK", "mo": "zh-HK", "tw": "zh-Hant"},
    "sr": {"cyrillic": "sr-Cyrl", "latin": "sr-Latn"},
}


def normalize_language(tag: str) -> str:
    """Return the language of a tag: `zh` for `zh-CN` and `zh-Hant`, `pt` for `pt_BR`, `en` for
    `EN` and `eng`, `he` for `iw`. For an unknown tag, return its first part in lower case."""
    variant = normalize_variant(tag)
    return VARIANTS.get(variant, variant)


def normalize_variant(tag: str) -> str:
    """Return the variant of a tag: `zh-Hant` for `zh_TW` and `zt`, `sr-Latn` for `sr@latin`,
    else its language."""
    if tag in LANGUAGES:
        return tag
    code, *parts = _split(tag)
    language = _TAGS.get(code, code)
    of_language = _PARTS.get(language, {}).items()
    found = (name for part, name in of_language if part in parts)
    keys = (f"{language}-{part}" for part in parts)
    return next(chain(found, (_TAGS[key] for key in keys if key in _TAGS)), language)


def choose_language(tag: str, served: Container[str]) -> str:
    """Return the `served` language that a tag means: itself, its variant, its language, or the
    language whose script it names. If none is served, return its language."""
    if tag in served:
        return tag
    variant, language = normalize_variant(tag), normalize_language(tag)
    found = (variant, language, variant.partition("-")[0])
    return next((one for one in found if one in served), language)


def find_tag(code: str) -> str | None:
    """Return the tag of a model's code: `zh-Hant` for `zho_Hant`, `en` for `eng_Latn`, `fr` for
    `fra`. None if it does not match a language of the table exactly."""
    first, *parts = _split(code)
    # MADLAD-400 also has tokens for countries and scripts: `CA`, `Cyrl`.
    if first not in code:
        return None
    language = _TAGS.get(first, first)
    if parts == [_USUAL_SCRIPTS.get(language)]:
        return language
    return _TAGS.get("-".join((language, *parts)).lower())


def list_variants(languages: Iterable[str]) -> list[str]:
    """Return the languages, each followed by its variants."""
    found = (
        name
        for language in languages
        for name in (language, *(v for v, base in VARIANTS.items() if base == language))
    )
    return [*dict.fromkeys(found)]


def _split(tag: str) -> list[str]:
    return tag.strip().lower().replace("_", "-").replace("@", "-").split("-")
