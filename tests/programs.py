"""Runs programs for tests, and skips a test whose program is missing."""

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from deploy.programs import Program, find
from deploy.stack import ROOT


def call(
    *command: object,
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
    limit_s: float = 120,
) -> subprocess.CompletedProcess[str]:
    """Run a program, and return what it has said when it ends."""
    return subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env=env,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=limit_s,
    )


def run(*command: object, **options: Any) -> str:
    """Run a program that must succeed, and return its output."""
    done = call(*command, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def spawn(*command: object, cwd: Path = ROOT, **changed: str) -> subprocess.Popen[str]:
    """Start a program that Ctrl-C ends, with changes to the environment."""
    return subprocess.Popen(
        list(map(str, command)),
        cwd=cwd,
        env=os.environ | changed,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Programs that a shell starts in the background, and their children, ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def find_or_skip(program: Program) -> Path:
    """Return the program's file, or skip the test with the program's name."""
    found = find(program)
    if found is None:
        pytest.skip(f"{program.name} is missing: apt-get install {program.package}")
    return found


def make_certificate(folder: Path, names: str = "DNS:localhost,IP:127.0.0.1") -> str:
    """Write a self-signed certificate and its key; return both files as `--tls` takes them."""
    folder.mkdir(exist_ok=True)
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subject = ["-subj", "/CN=babelgate", "-addext", f"subjectAltName={names}"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    run("openssl", "req", "-x509", "-days", "2", *curve, *subject, *files)
    return f"{certificate},{key}"
