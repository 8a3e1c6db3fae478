"""gettext catalogs: entries, plural forms, flags and headers."""

import pytest
from babel.messages.pofile import read_po

from handlers.engine.translation.families.m2m100 import CODES as M2M100
from tests.documents.formats.translating import keep, shout, translate

HEADER = r"""# A title
msgid ""
msgstr ""
"Project-Id-Version: A project\n"
"Language: {}\n"
"Content-Type: text/plain; charset=UTF-8\n"
{}
"""
PLURALS = r'"Plural-Forms: nplurals={}; plural={};\n"' + "\n"
FILES = """
#, c-format
msgid "%d file"
msgid_plural "%d files"
msgstr[0] "{}"
msgstr[1] "{}"
"""


def make(entry: str, language: str = "de") -> bytes:
    return (HEADER.format(language, "") + entry).encode()


@pytest.mark.parametrize(
    ("target", "forms"),
    [
        ("ja", ["%D FILES"]),
        ("de", ["%D FILE", "%D FILES"]),
        ("ru", ["%D FILE", "%D FILES", "%D FILES"]),
        ("lv", ["%D FILE", "%D FILES", "%D FILES"]),
        ("id", ["%D FILES"]),
        ("ar", ["%D FILES", "%D FILE", *["%D FILES"] * 4]),
    ],
)
def test_a_language_gets_its_plural_forms(target, forms):
    content = make(FILES.format("", ""), "")
    new = translate("a.pot", content, shout, target).decode()
    assert [line for line in new.splitlines() if "msgstr[" in line] == [
        f'msgstr[{n}] "{form}"' for n, form in enumerate(forms)
    ]
    assert f"nplurals={len(forms)};" in new


@pytest.mark.parametrize("target", [*M2M100, "zh-Hant", "ks-Deva", "ace"])
def test_other_programs_read_the_catalog(target, tmp_path):
    wrapped = '"Plural-Forms: nplurals=3; "\n"plural=(n==1 ? 0 : n==2 ? 1 : 2);\\n"\n'
    content = HEADER.format("xx", wrapped) + FILES.format("", "")
    new = tmp_path / "new.po"
    new.write_bytes(translate("a.po", content.encode(), keep, target))
    with new.open("rb") as file:
        catalog = read_po(file, abort_invalid=True)
    message = catalog.get("%d file")
    assert (catalog.project, catalog.version) == ("A", "project")
    assert message is not None
    assert isinstance(message.string, tuple)
    assert len(message.string) == catalog.num_plurals
    assert set(message.string) <= {"%d file", "%d files"}


def test_a_long_text_is_broken_where_its_source_is():
    words = "some words " * 12
    entry = f'msgid ""\n"{words}"\n"{words}"\nmsgstr ""\n'
    new = translate("a.po", make(entry), keep).decode()
    added = new.removeprefix(HEADER.format("de", "")).splitlines()[4:]
    assert "".join(line.strip('"') for line in added) == words * 2
    assert max(map(len, added)) <= 79


@pytest.mark.parametrize("plural", ["n%0", "1/0", "n", "n+", "n*" * 600 + "1"])
def test_plural_forms_that_cannot_be_worked_out_are_those_of_the_language(plural):
    header = HEADER.format("de", PLURALS.format(2, plural))
    new = translate("a.po", (header + FILES.format("", "")).encode(), shout).decode()
    assert new.startswith(header)
    assert new.count("msgstr[") == 2


def test_a_long_text_of_spaces_is_broken():
    entry = 'msgid "a b\\n"\n"' + " " * 500 + '"\nmsgstr ""\n'
    assert b'msgstr ""\n"A B\\n"\n"  ' in translate("a.po", make(entry), shout)


def test_the_translation_of_a_template_is_not_marked_as_fuzzy():
    """pybabel compiles no catalog whose header has this mark, as those of templates do."""
    template = b"#, fuzzy\n" + make('msgid "a b"\nmsgstr ""\n', "").split(b"\n", 1)[1]
    assert translate("a.pot", template, shout).startswith(b'msgid ""\n')
    own = template.replace(b"Language: ", b"Language: de")
    assert translate("a.po", own, shout).startswith(b"#, fuzzy\n")


def test_a_variant_is_a_language_of_its_own():
    entry = '\nmsgid "a b"\nmsgstr "已"\n'
    for language in ("zh_TW", "zh_Hant"):
        kept = make(entry, language)
        assert translate("a.po", kept, shout, "zh-Hant").endswith(entry.encode())
    new = translate("a.po", make(entry, "zh_CN"), shout, "zh-Hant").decode()
    assert '"Language: zh_Hant\\n"' in new
    assert '"Plural-Forms: nplurals=1; plural=0;\\n"' in new
    assert new.endswith('msgstr "A B"\n')
