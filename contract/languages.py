"""The languages of M2M100, the scripts in which they are written, and the tags by which
clients ask for them.
"""

from __future__ import annotations

from collections.abc import Iterable

#: ISO 639 codes, in the order of M2M100's ids.
LANGUAGES = """
    af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga
    gd gl gu ha he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt
    lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr
    ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu
""".split()

_LATIN = """
    af ast az br ca ceb cs cy da de en es et ff fi fr fy ga gd gl ha hr ht hu id ig ilo is
    it jv lb lg ln lt lv mg ms nl no ns oc pl pt ro sk sl so sq ss su sv sw tl tn tr vi wo
    xh yo zu
"""
#: By the names of Unicode's `Script` property.
SCRIPTS = {
    language: tuple(scripts.split())
    for languages, scripts in (
        (_LATIN, "Latin"),
        ("ba be bg kk mk mn ru uk", "Cyrillic"),
        ("bs sr uz", "Latin Cyrillic"),
        ("ar fa ps ur", "Arabic"),
        ("sd", "Arabic Devanagari"),
        ("he yi", "Hebrew"),
        ("hi mr ne", "Devanagari"),
        ("zh", "Han Bopomofo"),
        ("ja", "Han Hiragana Katakana"),
        ("ko", "Hangul"),
        ("am", "Ethiopic"),
        ("bn", "Bengali"),
        ("el", "Greek"),
        ("gu", "Gujarati"),
        ("hy", "Armenian"),
        ("ka", "Georgian"),
        ("km", "Khmer"),
        ("kn", "Kannada"),
        ("lo", "Lao"),
        ("ml", "Malayalam"),
        ("my", "Myanmar"),
        ("or", "Oriya"),
        ("pa", "Gurmukhi"),
        ("si", "Sinhala"),
        ("ta", "Tamil"),
        ("th", "Thai"),
    )
    for language in languages.split()
}

#: Ways to write a language that a model knows in one way only, and that language.
VARIANTS = {"zh-Hant": "zh", "zh-HK": "zh", "sr-Cyrl": "sr", "sr-Latn": "sr"}
SCRIPTS |= {
    "zh-Hant": SCRIPTS["zh"],
    "zh-HK": SCRIPTS["zh"],
    "sr-Cyrl": ("Cyrillic",),
    "sr-Latn": ("Latin",),
}

#: The tags that need no normalizing, as those of most requests.
_KNOWN = frozenset(LANGUAGES)
#: Codes that other services and older standards use.
_OTHER_CODES = {
    "cmn": "zh",
    "fil": "tl",
    "in": "id",
    "iw": "he",
    "ji": "yi",
    "jw": "jv",
    "nb": "no",
    "pb": "pt",
    "zt": "zh",
}
#: The parts of a tag that tell a variant; an earlier one wins: `zh-Hans-TW` is simplified.
_PARTS = {
    "zh": {
        "hans": "zh",
        **dict.fromkeys(("hk", "mo"), "zh-HK"),
        **dict.fromkeys(("hant", "tw", "zt"), "zh-Hant"),
    },
    "sr": {
        **dict.fromkeys(("cyrl", "cyrillic"), "sr-Cyrl"),
        **dict.fromkeys(("latn", "latin"), "sr-Latn"),
    },
}


def normalize_language(tag: str) -> str:
    """The language of a tag, in M2M100's code: `zh` of `zh-CN`, `pt` of `pt_BR`, `en` of
    `EN`, `he` of `iw`. A tag of no language comes back in lower case."""
    if tag in _KNOWN:
        return tag
    language = _split(tag)[0]
    return _OTHER_CODES.get(language, language)


def normalize_variant(tag: str) -> str:
    """The variant of a tag: `zh-Hant` of `zh_TW` and `zt`, `sr-Latn` of `sr@latin`, or else
    its language."""
    if tag in _KNOWN:
        return tag
    language = normalize_language(tag)
    if language not in _PARTS:
        return language
    parts = _split(tag)
    found = (name for part, name in _PARTS[language].items() if part in parts)
    return next(found, language)


def list_variants(languages: Iterable[str]) -> list[str]:
    """Languages, and the variants of each behind it."""
    return [
        name
        for language in languages
        for name in (language, *(v for v, base in VARIANTS.items() if base == language))
    ]


def _split(tag: str) -> list[str]:
    return tag.strip().lower().replace("_", "-").replace("@", "-").split("-")
