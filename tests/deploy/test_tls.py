"""A certificate and its key: what is refused before anything stops, and what nginx gets."""

from pathlib import Path

import pytest

from deploy import tls
from deploy.monitoring import write_configuration
from deploy.stack import Stack, StackError
from tests.certificates import make_certificate


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
        certificate: "expected certificate.pem,key.pem with a comma between",
        f"{pair},{key}": "expected certificate.pem,key.pem",
        f"{certificate},{tmp_path}/none": "none cannot be read: No such file",
        f"{tmp_path},{key}": "cannot be read: Is a directory",
        f"{certificate},{other}": "is not the key of",
        f"{tmp_path}/text,{key}": "expected a certificate in",
        f"{certificate},{certificate}": "and a key without a password",
    }.items():
        with pytest.raises(StackError, match=said):
            tls.read_option(given)


def list_listening(stack: Stack, folder: Path) -> list[str]:
    text = stack.write_nginx(folder).read_text()
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return [line for line in lines if line.startswith(("listen ", "include tls"))]


def test_nothing_speaks_tls_without_a_certificate_and_all_with_one(pair, tmp_path):
    assert list_listening(Stack(tmp_path, tmp_path), tmp_path / "nginx") == [
        "listen 7777 backlog=4096;"
    ]
    stack = Stack(tmp_path, tmp_path, None, 10_000, pair)
    assert list_listening(stack, tmp_path / "nginx") == [
        "listen 17777 ssl http2 backlog=4096;",
        "include tls.conf;",
    ]
    assert "scheme: https" in write_configuration(stack).read_text()
