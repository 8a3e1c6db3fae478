"""The document is OpenAPI 3.1, has every route, and follows the map and the settings."""

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from contract.dialects import FOREIGN, OURS
from contract.languages import list_variants
from tests.gateway.conftest import LANGUAGES, write_map


def test_it_is_openapi_3_1_with_unique_names(description):
    names = [found["operationId"] for *_, found in description.list_operations()]
    assert len(names) == len(set(names))
    assert description.document["openapi"] == "3.1.0"
    assert description.document["security"] == []
    assert list(OpenAPIV31SpecValidator(description.document).iter_errors()) == []


def test_it_has_every_route(shared_client, description):
    routes = {
        (rule.rule.replace("<", "{").replace(">", "}"), method.lower())
        for rule in shared_client.application.url_map.iter_rules()
        for method in rule.methods - {"HEAD"}
    }
    assert {found[:2] for found in description.list_operations()} == routes


@pytest.mark.parametrize(
    ("languages", "tasks", "missing"),
    [
        (LANGUAGES, ["captioning"], {"/classify", "/detect-objects"}),
        (
            (),
            ["captioning", "classification", "detection"],
            {
                "/page",
                "/frontend/settings",
                "/documents",
                "/glossaries",
                *(p for api in (OURS, *FOREIGN) for p in api.translating if p != "/"),
                *(path for api in FOREIGN for path in api.glossaries),
            },
        ),
    ],
    ids=["languages and captions", "no languages"],
)
def test_it_has_the_tasks_of_the_map(
    description, make_client, map_path, languages, tasks, missing
):
    everything = description.document["paths"].keys()
    write_map(map_path, languages, tasks)
    found = make_client().get("/openapi.json").json["paths"].keys()
    assert missing <= everything - found
    assert found >= {"/caption", "/languages", "/healthz"}


def test_it_has_the_limits_of_the_map_and_the_settings(make_client):
    document = make_client(max_texts=7).get("/openapi.json").json
    schemas = document["components"]["schemas"]
    ours = schemas["TranslationBody"]["properties"]
    served = list_variants(LANGUAGES)
    assert ours["tgt_lang"]["enum"] == served
    assert ours["src_text"]["oneOf"][1]["maxItems"] == 7
    assert ours["beam_size"]["maximum"] == 8
    theirs = schemas["libretranslate.TranslateFields"]["properties"]
    assert theirs["target"]["enum"] == served
    assert theirs["q"]["maxItems"] == 7
    assert theirs["alternatives"]["maximum"] == 5
    deepls = schemas["deepl.TranslateFields"]["properties"]["target_lang"]["enum"]
    assert deepls[:5] == ["KO", "EN-GB", "EN-US", "ZH", "ZH-HANS"]
    assert deepls[5:] == ["ZH-HANT", "ZH-HK", "PT-BR", "PT-PT"]
