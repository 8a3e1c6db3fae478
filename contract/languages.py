"""The languages of M2M100, and the scripts in which they are written."""

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
