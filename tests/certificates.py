"""Certificates that tests sign themselves, with the distribution's openssl."""

from __future__ import annotations

from pathlib import Path

from tests.programs import run


def make_certificate(folder: Path, names: str = "DNS:localhost,IP:127.0.0.1") -> str:
    """Files of a certificate for these names and its key, as `--tls` takes them."""
    folder.mkdir(exist_ok=True)
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subject = ["-subj", "/CN=babelgate", "-addext", f"subjectAltName={names}"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    run("openssl", "req", "-x509", "-days", "2", *curve, *subject, *files)
    return f"{certificate},{key}"
