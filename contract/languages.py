"""The languages of M2M100, the scripts in which they are written, and the tags by which
clients ask for them.
"""

from __future__ import annotations

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
#: Subtags that mark Chinese in traditional characters.
_TRADITIONAL = frozenset({"hant", "tw", "hk", "mo", "zt"})


def normalize_language(tag: str) -> str:
    """The language of a tag, in M2M100's code: `zh` of `zh-CN`, `pt` of `pt_BR`, `en` of
    `EN`, `he` of `iw`. A tag of no language comes back in lower case."""
    language = tag.strip().lower().replace("_", "-").partition("-")[0]
    return _OTHER_CODES.get(language, language)


def is_traditional_chinese(tag: str) -> bool:
    """Whether a tag asks for Chinese in traditional characters, which M2M100 reads but does
    not write."""
    parts = tag.strip().lower().replace("_", "-").split("-")
    if normalize_language(tag) != "zh" or "hans" in parts:
        return False
    return not _TRADITIONAL.isdisjoint(parts)
