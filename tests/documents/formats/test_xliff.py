"""XLIFF: units, states, inline elements and languages."""

from __future__ import annotations

import pytest

from documents.errors import DamagedDocument, RefusedContent
from tests.documents.formats.translating import read, shout, translate

OLD = """<?xml version="1.0" encoding="UTF-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
 <file original="a" source-language="en" target-language="{}"><body>{}</body></file>
</xliff>
"""
NEW = """<xliff version="2.0" srcLang="en" trgLang="{}">
 <file id="f"><unit id="1">{}</unit></file></xliff>"""
UNIT = '<trans-unit id="1">{}</trans-unit>'
DONE = "<source>a b</source><target>x</target>"


@pytest.mark.parametrize(
    ("content", "added"),
    [
        ("<source>a b</source>", "<target>A B</target>"),
        ("\n  <source>a b</source>", "\n  <target>A B</target>"),
        (
            '<source>a <g id="1">b</g><x id="2"/> <ph id="3">c</ph> &lt;</source>',
            '<target>A <g id="1">B</g><x id="2"/> <ph id="3">c</ph> &lt;</target>',
        ),
        (
            '<source>a <mrk mtype="protected">b</mrk></source>',
            '<target>A <mrk mtype="protected">b</mrk></target>',
        ),
        (
            '<source>a. b.</source><seg-source><mrk mid="1">a.</mrk> b.</seg-source>',
            '<target><mrk mid="1">A.</mrk> B.</target>',
        ),
        ("<source> a <!-- c --> </source>", "<target> A <!-- c --> </target>"),
        ("<source><![CDATA[a & b]]></source>", "<target>A &amp; B</target>"),
        ("<source>42</source>", "<target>42</target>"),
        ("<source/>", ""),
    ],
    ids="none indent inline protected segments space cdata number nothing".split(),
)
def test_a_unit_gets_a_target_behind_its_source(content, added):
    note = "\n  <note>n</note>"
    file = OLD.format("de", UNIT.format(content + note))
    expected = OLD.format("de", UNIT.format(content + added + note))
    assert translate("a.xlf", file.encode(), shout) == expected.encode()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("<target/>", "<target>A B</target>"),
        ('<target state="new" >a b</target>', '<target state="new" >A B</target>'),
        ("<target>x</target>", None),
        ("<target>a b</target>", "<target>A B</target>"),
        (
            "<target>x</target><alt-trans><source>c</source><target>d</target></alt-trans>",
            None,
        ),
    ],
    ids="empty new done copy alternative".split(),
)
def test_a_target_is_written_unless_it_has_a_translation(old, new):
    file = OLD.format("de", UNIT.format(f"<source>a b</source>{old}"))
    expected = file.replace(old, new or old)
    assert translate("a.xlf", file.encode(), shout) == expected.encode()


@pytest.mark.parametrize(
    ("content", "new"),
    [
        (
            "<segment><source>a <pc id='1'>b</pc><ph id='2'/></source></segment>",
            "<segment><source>a <pc id='1'>b</pc><ph id='2'/></source>"
            "<target>A <pc id='1'>B</pc><ph id='2'/></target></segment>",
        ),
        (
            "<segment state='initial'><source>a</source><target>x</target></segment>",
            "<segment state='initial'><source>a</source><target>A</target></segment>",
        ),
        (
            "<ignorable><source>a</source></ignorable>",
            "<ignorable><source>a</source></ignorable>",
        ),
        (
            "<segment><source>a <mrk id='m' translate='no'>b</mrk></source></segment>",
            "<segment><source>a <mrk id='m' translate='no'>b</mrk></source>"
            "<target>A <mrk id='m' translate='no'>b</mrk></target></segment>",
        ),
    ],
    ids=["inline", "initial", "ignorable", "mark"],
)
def test_segments_of_version_2(content, new):
    written = translate("a.xliff", NEW.format("de", content).encode(), shout)
    assert written == NEW.format("de", new).encode()


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        (f'<group translate="no">{UNIT.format(DONE)}</group>', []),
        (
            '<group translate="no"><trans-unit translate="yes">'
            "<source>a b</source></trans-unit></group>"
            f"{UNIT.format('<source>c</source>')}",
            ["a b", "c"],
        ),
        (UNIT.format(DONE), []),
        ('<trans-unit translate="no"><source>a</source></trans-unit>', []),
    ],
    ids=["group", "unit inside", "done", "unit"],
)
def test_what_is_not_to_be_translated_is_not_read(content, texts):
    assert read("a.xlf", OLD.format("de", content).encode()) == texts


@pytest.mark.parametrize(
    ("shape", "told", "new"),
    [
        (OLD, ' target-language="fr"', ' target-language="de"'),
        (OLD, "", ' target-language="de"'),
        (OLD, ' target-language="de-AT"', ' target-language="de-AT"'),
        (NEW, ' trgLang="fr"', ' trgLang="de"'),
        (NEW, "", ' trgLang="de"'),
    ],
    ids=["other", "none", "country", "other 2", "none 2"],
)
def test_the_file_says_its_target_language(shape, told, new):
    name = new.split("=")[0]
    file = shape.format("", "").replace(f'{name}=""', told)
    written = translate("a.xlf", file.encode(), shout)
    assert written.decode() == shape.format("", "").replace(f'{name}=""', new)


def test_a_file_in_another_language_is_translated_anew():
    file = OLD.format("fr", UNIT.format(DONE)).encode()
    assert b"<target>A B</target>" in translate("a.xlf", file, shout)


def test_names_with_a_prefix_are_read():
    file = '<x:xliff xmlns:x="u"><x:trans-unit><x:source>a</x:source></x:trans-unit></x:xliff>'
    assert b"<x:target>A</x:target>" in translate("a.xlf", file.encode(), shout)


@pytest.mark.parametrize(
    ("content", "error", "fault"),
    [
        ("text", DamagedDocument, "line 1, column 1"),
        ("<xliff><a></xliff>", DamagedDocument, "line 1, column 13: mismatched tag"),
        ("<html/>", DamagedDocument, "first element is not <xliff>"),
        ("<xliff>&a;</xliff>", DamagedDocument, "undefined entity"),
        (
            '<!DOCTYPE x [<!ENTITY a "b"><!ENTITY c "&a;&a;">]><xliff>&c;</xliff>',
            RefusedContent,
            "the entity 'a'",
        ),
        (
            '<!DOCTYPE x SYSTEM "file:///etc/passwd"><xliff>&a;</xliff>',
            RefusedContent,
            "the entity 'a'",
        ),
        ("<xliff>" + "<a>" * 200, RefusedContent, "more than 200 deep"),
    ],
    ids="text torn other undefined laughs external deep".split(),
)
def test_what_is_no_xliff_or_is_hostile_is_an_error(content, error, fault):
    with pytest.raises(error, match=fault):
        read("a.xlf", content.encode())


@pytest.mark.parametrize(
    "inside",
    ["<!--></a></b></c>-->", "<?a ></a></b></c>?>"],
    ids=["comment", "instruction"],
)
def test_tags_in_comments_and_instructions_are_none(inside):
    content = OLD.format("fr", inside + UNIT.format("<source>a b</source>")).encode()
    assert b"<target>A B</target>" in translate("a.xlf", content, shout)


def test_an_end_that_nothing_began_is_an_error():
    """A declaration has what looks like tags."""
    content = b"<!DOCTYPE xliff [<!-- ></a></b> -->]><xliff/>"
    with pytest.raises(DamagedDocument, match="did not begin"):
        read("a.xlf", content)
