"""The languages that models of our families know, by their BCP 47 tags in `languages.tsv`; the
scripts in which they are written, and the codes by which clients and models call them.
"""

from collections.abc import Container, Iterable, Mapping
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

#: By ISO 15924's codes, the names of Unicode's `Script` property.
_SCRIPT_NAMES = dict(
    pair.split("=")
    for pair in """
    Arab=Arabic Armn=Armenian Beng=Bengali Cans=Canadian_Aboriginal Cher=Cherokee
    Cyrl=Cyrillic Deva=Devanagari Ethi=Ethiopic Geor=Georgian Goth=Gothic Grek=Greek
    Gujr=Gujarati Guru=Gurmukhi Hang=Hangul Hans=Han,Bopomofo Hant=Han,Bopomofo
    Hebr=Hebrew Jpan=Han,Hiragana,Katakana Khmr=Khmer Knda=Kannada Laoo=Lao Latn=Latin
    Mlym=Malayalam Mtei=Meetei_Mayek Mymr=Myanmar Olck=Ol_Chiki Orya=Oriya Sinh=Sinhala
    Syrc=Syriac Taml=Tamil Telu=Telugu Tfng=Tifinagh Thaa=Thaana Thai=Thai Tibt=Tibetan
    """.split()
)
_FROM_RIGHT = ("Arabic", "Hebrew", "Syriac", "Thaana")


class Language(NamedTuple):
    """A language, or one of its ways of writing that models take for one. `own_name` is empty
    where CLDR has none, and `scripts` has the most usual one first."""

    tag: str
    name: str
    own_name: str
    scripts: tuple[str, ...]
    is_right_to_left: bool


#: By other codes and by tags in lower case, the tags of the table.
_TAGS: dict[str, str] = {}
#: The script that a tag need not tell, as models' codes do.
_USUAL_SCRIPTS: dict[str, str] = {}


def _read_table() -> Iterable[Language]:
    table = Path(__file__).with_suffix(".tsv").read_text("utf-8")
    for line in table.splitlines()[1:]:
        tag, name, own_name, codes, others, *_ = *line.split("\t"), ""
        names = ",".join(map(_SCRIPT_NAMES.__getitem__, codes.split()))
        scripts = tuple(names.split(","))
        _USUAL_SCRIPTS[tag] = codes.split()[0].lower()
        keys = (tag, *others.split())
        _TAGS.update((key.lower().replace("_", "-"), tag) for key in keys)
        yield Language(tag, name, own_name, scripts, scripts[0] in _FROM_RIGHT)


LANGUAGES: Mapping[str, Language] = MappingProxyType(
    {language.tag: language for language in _read_table()}
)
#: By the names of Unicode's `Script` property.
SCRIPTS = {tag: language.scripts for tag, language in LANGUAGES.items()}
#: Ways to write a language that can be made of another way, and the language.
VARIANTS = {"zh-Hant": "zh", "zh-HK": "zh", "sr-Cyrl": "sr", "sr-Latn": "sr"}

#: Further parts of a tag that tell a variant; an earlier one wins: `zh-Hans-TW` is simplified.
_PARTS = {
    "zh": {"hans": "zh", "hk": "zh-HK", "mo": "zh-HK", "tw": "zh-Hant"},
    "sr": {"cyrillic": "sr-Cyrl", "latin": "sr-Latn"},
}


def normalize_language(tag: str) -> str:
    """The language of a tag: `zh` of `zh-CN` and `zh-Hant`, `pt` of `pt_BR`, `en` of `EN` and
    `eng`, `he` of `iw`. A tag of no language comes back in lower case."""
    variant = normalize_variant(tag)
    return VARIANTS.get(variant, variant)


def normalize_variant(tag: str) -> str:
    """The variant of a tag: `zh-Hant` of `zh_TW` and `zt`, `sr-Latn` of `sr@latin`, or else
    its language."""
    if tag in LANGUAGES:
        return tag
    code, *parts = _split(tag)
    language = _TAGS.get(code, code)
    of_language = _PARTS.get(language, {}).items()
    found = (name for part, name in of_language if part in parts)
    keys = (f"{language}-{part}" for part in parts)
    return next(chain(found, (_TAGS[key] for key in keys if key in _TAGS)), language)


def choose_language(tag: str, served: Container[str]) -> str:
    """The one of the `served` languages that a tag stands for: itself, the language that it is
    a variant of, or the one that it names a script of. If none is, its language."""
    if tag in served:
        return tag
    variant, language = normalize_variant(tag), normalize_language(tag)
    found = (variant, language, variant.partition("-")[0])
    return next((one for one in found if one in served), language)


def find_tag(code: str) -> str | None:
    """The tag of a model's code: `zh-Hant` of `zho_Hant`, `en` of `eng_Latn`, `fr` of `fra`.
    None if it is not exactly a language of the table."""
    first, *parts = _split(code)
    # MADLAD-400 has tokens of countries and scripts: `CA`, `Cyrl`.
    if first not in code:
        return None
    language = _TAGS.get(first, first)
    if parts == [_USUAL_SCRIPTS.get(language)]:
        return language
    return _TAGS.get("-".join((language, *parts)).lower())


def list_variants(languages: Iterable[str]) -> list[str]:
    """Languages, and the variants of each behind it."""
    found = (
        name
        for language in languages
        for name in (language, *(v for v, base in VARIANTS.items() if base == language))
    )
    return [*dict.fromkeys(found)]


def _split(tag: str) -> list[str]:
    return tag.strip().lower().replace("_", "-").replace("@", "-").split("-")
