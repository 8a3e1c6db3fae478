"""The limits of uploads agree, wherever they stand: in nginx, the gateway and TorchServe."""

import re

import pytest

import catalog
from contract.tasks import PATHS
from gateway.app import create_app
from gateway.http.bodies import DocumentBlueprint
from gateway.settings import ROW_BYTES, Settings
from tests.test_docs import (
    NGINX,
    default_of,
    read_location,
    read_nginx,
    read_seconds,
    read_torchserve,
)

#: Where nginx takes uploads.
UPLOADS = "~ ^/(caption|classify|detect-objects)$"
DOCUMENTS = "~ ^/(documents|v2/document|translate_file)/?$"


def test_nginx_takes_uploads_as_large_as_the_gateway_does_and_keeps_none():
    found = read_nginx("client_max_body_size", read_location(UPLOADS))
    assert int(found.removesuffix("m")) << 20 == default_of("max_upload_bytes")
    assert re.findall(r"proxy_request_buffering (\w+);", NGINX) == ["off"]


def test_nginx_takes_documents_as_large_as_the_gateway_does():
    found = read_nginx("client_max_body_size", read_location(DOCUMENTS))
    assert int(found.removesuffix("m")) << 20 == default_of("document_bytes")


def test_nginx_takes_documents_for_every_route_that_takes_them():
    app = create_app(Settings.model_construct(), models=catalog.load())
    taking = {
        name
        for name, blueprint in app.blueprints.items()
        if isinstance(blueprint, DocumentBlueprint)
    }
    routes = {
        rule.rule.removeprefix("/")
        for rule in app.url_map.iter_rules()
        if rule.endpoint.partition(".")[0] in taking
    }
    assert routes == set(DOCUMENTS.partition("(")[2].partition(")")[0].split("|"))


def test_nginx_takes_uploads_for_every_task_that_takes_images():
    routes = {PATHS[task].removeprefix("/") for task in catalog.VISION}
    assert routes == set(UPLOADS.partition("(")[2].partition(")")[0].split("|"))


@pytest.mark.parametrize("location", [UPLOADS, DOCUMENTS])
@pytest.mark.parametrize(
    "limit", ["proxy_send_timeout", "proxy_read_timeout", "lingering_time"]
)
def test_the_gateway_answers_an_upload_before_nginx_loses_patience(limit, location):
    seconds = read_seconds(limit, read_location(location))
    assert default_of("upload_timeout_s") < seconds


def test_nginx_takes_glossaries_with_their_escapes():
    location = "~ ^/(glossaries|v[23]/glossaries)(/|$)"
    found = read_nginx("client_max_body_size", read_location(location))
    assert int(found.removesuffix("m")) << 20 == 4 * default_of("max_glossary_bytes")


def test_what_nginx_says_of_a_large_body_names_all_limits():
    (detail,) = re.findall(r'body_too_large\$\s+"(.*?)"', NGINX)
    limits = ("max_upload_bytes", "document_bytes", "max_body_bytes")
    uploads, document, body = (int(default_of(limit)) >> 20 for limit in limits)
    assert f"{uploads} MiB of images or arrays, {document} MiB of a document" in detail
    assert f"{body} MiB of anything else" in detail


def test_torchserve_takes_the_largest_image_and_array_with_its_header():
    most = int(read_torchserve("max_request_size"))
    assert most >= max(ROW_BYTES, default_of("max_image_bytes")) + 1024
