"""TLS on the real nginx as `make up TLS=…` configures it, and traces of a stack with TLS."""

import itertools
import json
import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.client import HTTPConnection

import pytest
import requests
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from benchmarks.instruments.running import claim_port_offset
from contract import variables
from deploy import tls
from deploy.stack import DOOR, GATEWAY, Stack
from tests.collector import Collector
from tests.e2e.real_stack import operate, start_stack, wait_until
from tests.e2e.reverse_proxy import run_nginx
from tests.e2e.test_reverse_proxy import serve_echo
from tests.programs import make_certificate, run
from tests.scripted_server import LIMIT_S


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """nginx with a certificate for one name, before a gateway that returns its headers."""
    folder = tmp_path_factory.mktemp("tls")
    pair = make_certificate(folder / "pair", "DNS:babelgate.test")
    stack = Stack(folder / "run", folder / "map", None, claim_port_offset(), pair)
    stack.write("{}")
    port = DOOR + stack.port_offset
    with serve_echo(GATEWAY + stack.port_offset), run_nginx(stack.run / "nginx", port):
        yield stack


def shake_hands(stack: Stack, version: ssl.TLSVersion) -> tuple[str | None, str]:
    """Return the protocol and cipher that nginx negotiates with a client of one TLS version."""
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


@pytest.mark.parametrize("name", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_modern_versions_are_spoken_and_no_old_one(stack, name):
    spoken, cipher = shake_hands(stack, ssl.TLSVersion[name.replace(".", "_")])
    assert spoken == name
    assert "GCM" in cipher or "CHACHA20" in cipher
    with pytest.raises(ssl.SSLError):
        shake_hands(stack, ssl.TLSVersion.TLSv1_1)


@pytest.mark.parametrize("version", ["2", "1.1"])
def test_the_curl_that_is_shown_works_with_both_versions_of_http(stack, version):
    shown = tls.write_curl(stack)
    assert "--resolve babelgate.test:" in shown
    said = run(*shown.split(), f"--http{version}", "-s", "-w", "\n%{http_version}")
    headers, found = said.rsplit("\n", 1)
    assert found == version
    assert json.loads(headers)["X-Forwarded-Proto"] == "https"


def test_a_body_comes_through_http_2(stack):
    curl = [*tls.write_curl(stack).split(), "--http2", "-s", "--data-binary", "@-"]
    said = run(*curl, stdin="x" * 1_000_000)
    assert json.loads(said)["Content-Length"] == "1000000"


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


@pytest.fixture(scope="module")
def small(tmp_path_factory, cache) -> Iterator[tuple[Stack, Collector]]:
    """A stack of one language, and the collector of its spans."""
    folder = tmp_path_factory.mktemp("small")
    options = ("--tls", make_certificate(folder / "pair"))
    content = {"cuda_id": {"fr": "cpu"}}
    with Collector() as collector, pytest.MonkeyPatch.context() as patch:
        patch.setenv(variables.OTLP_ENDPOINT.name, collector.url)
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        with start_stack(folder / "run", cache, *options, content=content) as stack:
            yield stack, collector


def test_up_with_tls_is_remembered_and_shows_a_curl_that_works(small, cache):
    stack, _ = small
    assert stack.url.startswith("https:")
    up = (stack.run, cache, "up", "--map", str(stack.map))
    said = operate(*up)
    assert "already running" in said
    shown, answer = said.partition("curl --cacert")[1:][1].splitlines()[:2]
    said = run("bash", "-c", f"curl -s --cacert{shown}")
    assert json.loads(said) == json.loads(answer)
    operate(stack.run, cache, "reload")
    assert "cannot be read" in operate(*up, "--tls", "no,no", expect=1)
    assert tls.post(stack, b"{}").status == 422


def test_traces_lead_from_clients_to_the_batch_that_they_share(small):
    stack, collector = small
    numbers, client, secret = itertools.count(1), "b" * 16, "xylophone7391"

    def ask(number: int) -> None:
        headers = {"traceparent": f"00-{number:032x}-{client}-01"}
        body = {"src_lang": "en", "src_text": f"{secret} {number}", "tgt_lang": "fr"}
        options = {"verify": stack.tls.partition(",")[0], "timeout": LIMIT_S}
        assert requests.post(stack.url, json=body, headers=headers, **options).ok

    def list_shared() -> list[Span]:
        """Send a request from each client, and list the batches with several requests."""
        with ThreadPoolExecutor(8) as clients:
            list(clients.map(ask, itertools.islice(numbers, 8)))
        return [span for span in collector.list_spans("batch") if len(span.links) > 1]

    wait_until(list_shared)
    batch = list_shared()[0]
    linked = {link.span_id: link.trace_id for link in batch.links}

    def list_asked() -> list[Span]:
        spans = collector.list_spans("gateway")
        return [span for span in spans if span.span_id in linked]

    wait_until(lambda: len(list_asked()) == len(linked))
    for span in list_asked():
        assert span.trace_id == linked[span.span_id]
        assert span.trace_id.startswith(bytes(8))  # a client's
        assert span.parent_span_id.hex() == client
    assert linked.keys() <= {q.parent_span_id for q in collector.list_spans("queue")}
    computed = {each.parent_span_id for each in collector.list_spans("compute")}
    assert batch.span_id in computed
    assert secret.encode() not in b"".join(collector.payloads)
