"""Placeholders are protected, hidden from the model, and put back."""

import sys

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from text.placeholders import (
    Placeholder,
    Role,
    fill,
    find_protected,
    restore,
    substitute,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See https://a.b/c?d=1&e=(2).", ["https://a.b/c?d=1&e=(2)"]),
        (
            "(see https://a.b/c_(d)) or (https://a.b).",
            ["https://a.b/c_(d)", "https://a.b"],
        ),
        (
            "Https://a.b WWW.C.D or xHTTP://e.f",
            ["Https://a.b", "WWW.C.D", "HTTP://e.f"],
        ),
        ("देखें https://a.b।", ["https://a.b"]),
        ("Hi {{ user.name }} and {name}", ["{{ user.name }}", "{name}"]),
        ("Hi {{{ user.name }}}, bye", ["{{{ user.name }}}"]),
        ("{0} of {1:d} ${total} {}", ["{0}", "{1:d}", "${total}", "{}"]),
        ("%s has %d of %1$s,", ["%s", "%d", "%1$s"]),
        ("%(n)s, %.2f, %@", ["%(n)s", "%.2f", "%@"]),
        ("Nice :smile: :+1: at 10:30:45", [":smile:", ":+1:"]),
        ("Run `make up` or ``a b``", ["`make up`", "``a b``"]),
        ("```\ncode. More\n```", ["```\ncode. More\n```"]),
        ("5 km, 3.5GB, 20 °C and 1,000 kg", ["5 km", "3.5GB", "20 °C", "1,000 kg"]),
        ("Hi 😀 👩‍👩‍👧 🇩🇪 👍🏽 ❤️", ["😀", "👩‍👩‍👧", "🇩🇪", "👍🏽", "❤️"]),
        (
            "Go \U0001f3f4\U000e0067\U000e007f ☎\ufe0e",
            ["\U0001f3f4\U000e0067\U000e007f", "☎\ufe0e"],
        ),
        ("ACME-42, ISO-9001:2015 and", ["ACME-42", "ISO-9001:2015"]),
        ("and AB-12-CD", ["AB-12-CD"]),
        ("v2.10.3, V1.2 and 2.0.0-rc.1.", ["v2.10.3", "V1.2", "2.0.0-rc.1"]),
        ("2030-01-31, 12-3456-78 or", ["2030-01-31", "12-3456-78"]),
        ("or 555-123-4567.", ["555-123-4567"]),
        ("ISO 9001:2015, ISO/IEC 27001 and", ["ISO 9001:2015", "ISO/IEC 27001"]),
        ("and RFC 9110.", ["RFC 9110"]),
        ("{{count}} items of %{size} or {$n}", ["{{count}}", "%{size}", "{$n}"]),
        ("Click <0>here</0><1/> or", ["<0>", "</0>", "<1/>"]),
        ("or <a b='{c}'>there</a><br />", ["<a b='{c}'>", "</a>", "<br />"]),
        ("a <2> b, c</3>, d < e > f, <0>, g<h>, <i j>k", []),
        ("#{a} {b!r:>10} {c:dd/MM}", ["#{a}", "{b!r:>10}", "{c:dd/MM}"]),
        ("{d: e} https://f.g/{h}?i={j}.", ["{d: e}", "https://f.g/{h}?i={j}"]),
        ("See $t(a.key, {n: 1}) @:b.c.", ["$t(a.key, {n: 1})", "@:b.c"]),
        ("@.lower:d @:(e f) @:(g)", ["@.lower:d", "@:(g)"]),
        ("Dear :name, (:user_id) has :Count", [":name", ":user_id", ":Count"]),
        ("At 10:30, a :) b :D, 3:am a:b, c: d ::e, a@b: $t t()", []),
        ("10-20, 3-2-style, 1-2-, ISO, RFC-Editor, MISO 5, 2-3-4.5", []),
        ("22.11.2026, 1.9.24, 1.234.567 and 3.50", []),
        ("COVID-19-Pandemie, U-21-Team, v2-style, ACME-42s", []),
        ("50% of people, 5 minutes, 3 million", []),
        ("(https://zh.example.org/wiki/中文)", ["https://zh.example.org/wiki/中文"]),
        ("", []),
    ],
)
def test_what_must_survive_is_found(text, expected):
    assert [p.shown for p in find_protected(text)] == expected


@pytest.mark.parametrize(
    "kept",
    ["https://a.b/c?d=1", "www.example.org", "ann.lee+x@example.co.uk", "{count}", "%s"]
    + [":smile:", "`a`", "5 km", "ACME-42", "v2.10.3"],
)
def test_letters_without_spaces_are_no_part_of_what_they_touch(kept):
    frames = ("私の名前は{}です。", "我叫{}。", "제 이름은 {}입니다.", "ดูที่{}ได้", "({})")
    for frame in frames:
        text = frame.replace("{}", kept)
        assert [p.shown for p in find_protected(text)] == [kept], text


def test_every_character_that_is_protected_alone_is_found():
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    protected = set(regex.findall(r"\p{Extended_Pictographic}", every))
    alone = {sign for sign in protected if find_protected(f"a {sign} b")}
    assert alone == protected


@given(st.text())
def test_a_model_that_copies_placeholders_loses_nothing(text):
    placeholders, end = find_protected(text), 0
    assert restore(substitute(text, placeholders), placeholders, str) in (text, None)
    assert fill(text, placeholders, [p.shown for p in placeholders]) == text
    for placeholder in placeholders:
        assert end <= placeholder.start < placeholder.end
        assert placeholder.shown == text[placeholder.start : placeholder.end]
        end = placeholder.end


@pytest.mark.parametrize(
    ("translated", "expected"),
    [
        ("{0} und {1}", "<b> und </b>"),
        ("{1} und {0}", None),
        ("{0} und", None),
        ("{0} {1} {2}", None),
        ("{0}und{1} {", None),
        ("& {0}a{1}", "&amp; <b>a</b>"),
        # A tag that encloses text must enclose some in the translation.
        ("a {0} {1}", None),
    ],
)
def test_tags_come_back_once_each_and_in_order(translated, expected):
    tags = [
        Placeholder(0, 0, "<b>", Role.OPENING),
        Placeholder(1, 1, "</b>", Role.CLOSING),
    ]
    escape = lambda text: text.replace("&", "&amp;")  # noqa: E731
    assert restore(translated, tags, escape) == expected
    outer = [tags[1], tags[0]._replace(start=2, end=2)]
    assert restore("{0} und {1}a", outer, escape) is None
    assert restore("a{0} und {1}", outer, escape) is None
    assert restore("{1} - {0}", find_protected("{a} {b}"), str) == "{b} - {a}"
    assert restore("{0}", [], str) == "{0}"
