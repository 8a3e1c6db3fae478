"""Uploads of glossaries, parsed here or in another process, and the end of the library."""

import json
from typing import Any

import gevent
import psutil
import pytest
from pydantic import ValidationError

from gateway.errors import DeadlineExceeded, InternalError
from gateway.glossaries.glossary import DictionaryDraft, GlossaryContent
from gateway.glossaries.library import Glossaries
from gateway.glossaries.reading import (
    ANSWERS,
    SCHEMAS,
    GlossaryFault,
    GlossaryUpload,
    answer,
    read,
    write_upload,
)
from gateway.settings import Settings

OURS = {"name": "a", "src_lang": "EN", "tgt_lang": "nb", "entries": {"a": "b"}}
PAIR = {"source_lang": "en-GB", "target_lang": "DE"}
THEIRS = {**PAIR, "entries": "a\tb", "entries_format": "tsv"}
JSON, FORM = "application/json", "application/x-www-form-urlencoded"
PLAIN, SEVERAL = "GlossaryFields", "MultilingualFields"
READ = GlossaryContent("a", (DictionaryDraft("en", "de", b"a\tb", 1),))


def make(
    schema: str, body: bytes | dict[str, Any], media: str = JSON, query: str = ""
) -> GlossaryUpload:
    content = json.dumps(body).encode() if isinstance(body, dict) else body
    return GlossaryUpload(schema, media, query, content)


@pytest.mark.parametrize(
    "upload",
    [
        pytest.param(make(PLAIN, THEIRS, query="name=a"), id="a field in the URL"),
        pytest.param(make(PLAIN, {"name": "a", **THEIRS}, FORM), id="JSON as a form"),
        pytest.param(
            make(
                SEVERAL,
                b"name=a&dictionaries[0].source_lang=en&dictionaries[0].target_lang=de"
                b"&dictionaries%5B0%5D.entries=a%2Cb&dictionaries[0][entries_format]=CSV",
                FORM,
            ),
            id="dictionaries in a form",
        ),
    ],
)
def test_what_a_client_sends_is_read_in_one_way(upload):
    assert read(upload) == READ
    assert ANSWERS.validate_json(answer(write_upload(upload))) == READ


@pytest.mark.parametrize(
    ("fields", "name", "drafts"),
    [
        ({"name": "a", "dictionaries": None}, "a", ()),
        ({"name": "", "dictionaries": [THEIRS]}, None, READ.drafts),
    ],
)
def test_null_and_an_empty_name_change_nothing(fields, name, drafts):
    assert read(make("ChangeFields", fields)) == GlossaryContent(name, drafts)


FAULTS = [
    (make("OurGlossary", b"{"), "body", "", "not JSON"),
    (make("OurGlossary", b'{"a": {"b": 1, "b": 2}}'), "body", "", "'b' is repeated in"),
    (make("OurGlossary", b"\xff", FORM), "body", "", "not UTF-8: byte 0"),
    (make("OurGlossary", b"entries=%E9", FORM), "body", "", "field is not UTF-8"),
    (make("OurGlossary", {}), "missing", "name", "missing, expected a string"),
    (make("OurGlossary", OURS | {"name": " "}), "wrong", "name", "expected 1 to 1024"),
    (make("OurGlossary", OURS | {"name": "a\0"}), "wrong", "name", "no control"),
    (make("OurGlossary", OURS | {"entries": 1}), "wrong", "entries", "an object or"),
    (make("OurGlossary", OURS | {"entries": {}}), "entries", "entries", "no entries"),
    (
        make(SEVERAL, {"name": "a", "dictionaries": [THEIRS, {}]}),
        "missing", "dictionaries[1].source_lang", "missing, expected a string",
    ),
    (
        make(SEVERAL, {"name": "a", "dictionaries": ["b"]}),
        "wrong", "dictionaries", "expected a list of dictionaries",
    ),
    (
        make(SEVERAL, {"name": "a", "dictionaries": [THEIRS] * 10_001}),
        "wrong", "dictionaries", "expected a list of dictionaries",
    ),
    (make("ChangeFields", {}), "wrong", "name", "expected a name or dictionaries"),
]  # fmt: skip


@pytest.mark.parametrize(("upload", "kind", "field", "message"), FAULTS)
def test_what_is_wrong_is_said_with_its_field(upload, kind, field, message):
    elsewhere = ANSWERS.validate_json(answer(write_upload(upload)))
    for fault in (read(upload), elsewhere):
        assert isinstance(fault, GlossaryFault)
        assert (fault.kind, fault.field) == (kind, field)
        assert message in fault.message


def test_only_the_first_of_many_faults_takes_memory():
    entries = dict.fromkeys(map(str, range(9999)), 1)
    for schema, field in ("OurGlossary", entries), (SEVERAL, [{}] * 9999):
        with pytest.raises(ValidationError) as refused:
            SCHEMAS[schema].model_validate(
                OURS | {"entries": field, "dictionaries": field}
            )
        assert refused.value.error_count() < 10


@pytest.fixture
def glossaries(tmp_path):
    return Glossaries(Settings(database_url=f"sqlite:///{tmp_path}/db", timeout_s=600))


def test_a_large_body_is_read_by_another_process(glossaries):
    entries = {str(number): "x" * 20 for number in range(3000)}
    upload = make("OurGlossary", OURS | {"entries": entries})
    assert glossaries.read(upload) == read(upload)
    fault = glossaries.read(make("OurGlossary", OURS | {"entries": "\n" * 40_000}))
    assert isinstance(fault, GlossaryFault)
    assert "no entries" in fault.message


def test_who_waits_for_a_turn_has_less_time_to_be_read(glossaries):
    glossaries._timeout_s = 1
    glossaries._turn.acquire()
    gevent.spawn_later(0.95, glossaries._turn.release)
    with pytest.raises(DeadlineExceeded):
        glossaries.read(make("OurGlossary", b" " * 40_000))


def test_a_process_that_fails_is_a_fault_of_ours(glossaries):
    with pytest.raises(InternalError):
        glossaries.read(GlossaryUpload("none", "", "", b" " * 40_000))
    assert "none" not in SCHEMAS


def test_the_database_is_closed_with_the_glossaries(tmp_path, glossaries):
    assert glossaries.ask(lambda storage: storage.list_all("open")) == []
    assert str(tmp_path / "db") in {f.path for f in psutil.Process().open_files()}
    glossaries.close()
    assert str(tmp_path / "db") not in {f.path for f in psutil.Process().open_files()}
