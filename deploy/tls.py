"""TLS on port 7777: checks a certificate and its key, and shows a curl command."""

import os
import socket
import ssl
from pathlib import Path

import urllib3

from deploy.stack import DOOR, Stack, StackError

_ANSWER_S = 40
_LOOPBACK = ("localhost", "127.0.0.1")
#: OpenSSL's X509_V_FLAG_NO_CHECK_TIME, which Python's module does not name.
_WHENEVER = 0x200000


def read_option(text: str) -> str | None:
    """Return `certificate.pem,key.pem` with absolute paths, or None. Raises StackError."""
    if not text:
        return None
    certificate, comma, key = text.partition(",")
    if not (certificate and comma and key) or "," in key:
        raise StackError(
            f"TLS: expected certificate.pem,key.pem separated by a comma, found {text!r}."
        )
    files = [Path(os.path.expanduser(name)).absolute() for name in (certificate, key)]
    for file in files:
        try:
            file.read_bytes()
        except OSError as error:
            raise StackError(
                f"TLS: {file} cannot be read: {error.strerror}."
            ) from error
    _check_pair(*files)
    return ",".join(map(str, files))


def _check_pair(certificate: Path, key: Path) -> None:
    try:
        # nginx has no terminal to ask for a password on.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
            certificate, key, password=lambda: ""
        )
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise StackError(f"TLS: {key} is not the key for {certificate}.") from error
        raise StackError(
            f"TLS: expected a certificate in {certificate} and a key without a password "
            f"in {key}, both PEM ({error.reason or 'no PEM lines'})."
        ) from error


def post(stack: Stack, body: bytes) -> urllib3.BaseHTTPResponse:
    """Post to the stack. Its certificate must be the configured one, with any names."""
    context = _make_context(stack) if stack.tls else None
    with urllib3.PoolManager(ssl_context=context, assert_hostname=False) as pool:
        return pool.request(
            "POST", stack.url, body=body, retries=False, timeout=_ANSWER_S
        )


def write_curl(stack: Stack) -> str:
    """Return `curl` and the URL, with the options that make it trust the certificate."""
    if not stack.tls:
        return f"curl {stack.url}"
    certificate = stack.tls.partition(",")[0]
    port = DOOR + stack.port_offset
    names = _find_names(stack)
    name = next((name for name in (*_LOOPBACK, *names) if name in names), None)
    if name is None:
        return f"curl --insecure {stack.url}"
    name = name.replace("*", "translate")
    is_here = name in _LOOPBACK
    resolve = "" if is_here else f" --resolve {name}:{port}:127.0.0.1"
    return f"curl --cacert {certificate}{resolve} https://{name}:{port}"


def _make_context(stack: Stack) -> ssl.SSLContext:
    assert stack.tls
    context = ssl.create_default_context(cafile=stack.tls.partition(",")[0])
    context.check_hostname = False
    # An expired certificate must not keep systemd from starting the stack.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | _WHENEVER
    return context


def _find_names(stack: Stack) -> list[str]:
    """Return the names in nginx's present certificate."""
    address = ("127.0.0.1", DOOR + stack.port_offset)
    context = _make_context(stack)
    with (
        socket.create_connection(address, timeout=_ANSWER_S) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        found = secure.getpeercert() or {}
    alternatives: tuple[tuple[str, str], ...] = found.get("subjectAltName", ())  # type: ignore
    return [name for _, name in alternatives]
