"""A certificate and its key: checks before any program stops, and nginx's configuration."""

import ssl
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from deploy import stack, tls
from deploy.monitoring import write_configuration
from deploy.stack import DOOR, Stack, StackError
from tests.programs import make_certificate, run


@pytest.fixture
def pair(tmp_path):
    return make_certificate(tmp_path)


def test_a_good_pair_is_taken_with_whole_paths(pair, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert tls.read_option("certificate.pem,key.pem") == pair


def test_what_nginx_could_not_use_is_refused(pair, tmp_path):
    certificate, key = pair.split(",")
    other = make_certificate(tmp_path / "other").split(",")[1]
    (tmp_path / "text").write_text("no certificate")
    for given, said in {
        certificate: "expected certificate.pem,key.pem separated by a comma",
        f"{pair},{key}": "expected certificate.pem,key.pem",
        f"{certificate},{tmp_path}/none": "none cannot be read: No such file",
        f"{tmp_path},{key}": "cannot be read: Is a directory",
        f"~nobody.here/c,{key}": "cannot be read: No such file",
        f"{certificate},{other}": "is not the key for",
        f"{tmp_path}/text,{key}": "expected a certificate in",
        f"{certificate},{certificate}": "and a key without a password",
    }.items():
        with pytest.raises(StackError, match=said):
            tls.read_option(given)


def test_lines_of_nginxs_file_keep_their_numbers(pair, tmp_path, monkeypatch):
    places = set()
    for is_there, given in [(True, None), (True, pair), (False, None), (False, pair)]:
        monkeypatch.setattr(stack, "has_ipv6", lambda found=is_there: found)
        text = Stack(tmp_path, tmp_path, tls=given).write_nginx(tmp_path).read_text()
        assert ("listen [::]:7777" in text) == is_there
        places.add((text.count("\n"), text.splitlines().index("    server {")))
    assert len(places) == 1


def test_a_stack_whose_certificate_has_expired_is_asked_nonetheless(pair, tmp_path):
    certificate, key = pair.split(",")
    files = ("-in", certificate, "-out", certificate, "-signkey", key)
    run("openssl", "x509", "-days", "-1", *files)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as nginx:
        nginx.socket = context.wrap_socket(nginx.socket, server_side=True)
        Thread(target=nginx.handle_request, daemon=True).start()
        stack = Stack(tmp_path, tmp_path, None, nginx.server_port - DOOR, pair)
        assert tls.post(stack, b"{}").status == 501  # its handler knows no method


def test_prometheus_asks_a_stack_with_a_certificate_by_tls(pair, tmp_path):
    stack = Stack(tmp_path, tmp_path, None, 10_000, pair)
    assert "scheme: https" in write_configuration(stack).read_text()
