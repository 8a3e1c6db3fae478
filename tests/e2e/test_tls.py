"""TLS on the real nginx, as `make up TLS=…` has it written."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from http.client import HTTPConnection

import pytest

from benchmarks.instruments.running import claim_port_offset
from deploy import programs, tls
from deploy.stack import DOOR, GATEWAY, Stack, is_taken
from tests.certificates import make_certificate
from tests.e2e.real_stack import operate, start_stack, wait_until
from tests.e2e.test_reverse_proxy import serve_echo
from tests.scripted_server import LIMIT_S


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """nginx with a certificate of one name, before a gateway that says what it gets."""
    folder = tmp_path_factory.mktemp("tls")
    pair = make_certificate(folder / "pair", "DNS:babelgate.test")
    stack = Stack(folder / "run", folder / "map", None, claim_port_offset(), pair)
    stack.write("{}")
    nginx = programs.find(programs.NGINX)
    assert nginx
    files = ("-p", f"{stack.run}/nginx/", "-c", "nginx.conf")
    command = [str(nginx), *files, "-g", "daemon off;"]
    with (
        serve_echo(GATEWAY + stack.port_offset),
        (folder / "log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as process,
    ):
        try:
            wait_until(lambda: is_taken(DOOR + stack.port_offset))
            yield stack
        finally:
            process.terminate()
            process.wait(LIMIT_S)


def shake_hands(stack: Stack, version: ssl.TLSVersion) -> tuple[str | None, str]:
    """The protocol and cipher that nginx agrees to, of a client of one version."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = version
    context.set_ciphers("ALL:@SECLEVEL=0")
    address = ("127.0.0.1", DOOR + stack.port_offset)
    with (
        socket.create_connection(address, timeout=LIMIT_S) as plain,
        context.wrap_socket(plain, server_hostname="babelgate.test") as secure,
    ):
        cipher = secure.cipher()
        return secure.version(), cipher[0] if cipher else ""


@pytest.mark.parametrize(
    ("version", "name"),
    [(ssl.TLSVersion.TLSv1_2, "TLSv1.2"), (ssl.TLSVersion.TLSv1_3, "TLSv1.3")],
)
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_modern_versions_are_spoken_and_no_old_one(stack, version, name):
    spoken, cipher = shake_hands(stack, version)
    assert spoken == name
    assert "GCM" in cipher or "CHACHA20" in cipher
    with pytest.raises(ssl.SSLError):
        shake_hands(stack, ssl.TLSVersion.TLSv1_1)


@pytest.mark.parametrize(
    ("option", "version"), [("--http2", "2"), ("--http1.1", "1.1")]
)
def test_the_curl_that_is_shown_works_with_both_versions_of_http(
    stack, option, version
):
    shown = tls.write_curl(stack)
    assert "--resolve babelgate.test:" in shown
    curl = [*shown.split(), option, "-s", "-w", "\n%{http_version}"]
    done = subprocess.run(curl, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    headers, found = done.stdout.rsplit("\n", 1)
    assert found == version
    assert json.loads(headers)["X-Forwarded-Proto"] == "https"


def test_a_body_comes_through_http_2(stack):
    curl = [*tls.write_curl(stack).split(), "--http2", "-s", "--data-binary", "@-"]
    body = "x" * 1_000_000
    done = subprocess.run(curl, input=body, capture_output=True, text=True)
    assert json.loads(done.stdout)["Content-Length"] == "1000000"


def test_up_asks_with_the_certificate_that_was_given(stack, tmp_path):
    assert tls.post(stack, b"{}").status == 200
    other = make_certificate(tmp_path, "DNS:babelgate.test")
    with pytest.raises(Exception, match="certificate verify failed"):
        tls.post(replace(stack, tls=other), b"{}")


def test_plain_http_is_told_that_it_is_plain(stack):
    client = HTTPConnection("127.0.0.1", DOOR + stack.port_offset, timeout=LIMIT_S)
    client.request("GET", "/healthz")
    with client.getresponse() as answer:
        assert answer.status == 400
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert json.load(answer)["type"] == "urn:babelgate:tls-required"
    client.close()


def test_up_with_tls_is_remembered_and_shows_a_curl_that_works(tmp_path, cache):
    options = ("--tls", make_certificate(tmp_path / "pair"))
    small = {"cuda_id": {"fr": "cpu"}}
    with start_stack(tmp_path / "run", cache, *options, content=small) as stack:
        assert stack.url.startswith("https:")
        up = (stack.run, cache, "up", "--map", str(stack.map))
        said = operate(*up)
        assert "running already" in said
        shown, answer = said.partition("curl --cacert")[1:][1].splitlines()[:2]
        done = subprocess.run(
            f"curl -s --cacert{shown}", shell=True, capture_output=True, text=True
        )
        assert json.loads(done.stdout) == json.loads(answer), done.stderr
        operate(stack.run, cache, "reload")
        assert "cannot be read" in operate(*up, "--tls", "no,no", expect=1)
        assert tls.post(stack, b"{}").status == 422
