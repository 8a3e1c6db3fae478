"""Webhooks go to public addresses by HTTPS, and to other addresses only if they are allowed."""

import socket

import pytest

from contract.webhooks import Webhook, check_networks, find_addresses, make_webhook

PRIVATE = """
    0.0.0.0 10.0.0.1 100.64.0.1 127.0.0.1 169.254.169.254 172.16.0.1 192.168.0.1 198.18.0.1
    224.0.0.1 255.255.255.255 :: ::1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::8.8.8.8
    64:ff9b::a00:1 2001::1 2001:db8::1 2002:a00:1::1 fd00:ec2::254 fe80::1 fec0::1 ff02::1
""".split()
PUBLIC = ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8"]
NO_URLS = [
    "http://a.example/", "ftp://a.example", "a.example", "https://", "https:///x",
    "https://u@a.example", "https://u:p@a.example/", "https://a..example",
    "https://a.example\\@b.example/", "https://a.example:0", "https://a.example:x",
    "https://a.example:65536", "https://a.example/\r\nX: y", "https://ü.example",
    "https://[::1", *(f"https://{host}" for host in ("0x7f.1", "2130706433", "0")),
]  # fmt: skip


def write_url(address: str) -> str:
    return f"https://[{address}]:8443/" if ":" in address else f"https://{address}/?a=b"


@pytest.mark.parametrize("url", [*map(write_url, PRIVATE), *NO_URLS])
def test_a_url_is_refused(url):
    with pytest.raises(ValueError, match="expected a URL with https and a public"):
        make_webhook(url, "secret", "public")


@pytest.mark.parametrize("url", [*map(write_url, PUBLIC)])
def test_a_public_address_needs_a_secret_and_that_webhooks_are_not_off(url):
    assert make_webhook(url, "secret", "public") == Webhook(url, "secret")
    with pytest.raises(ValueError, match="no webhooks"):
        make_webhook(url, "secret", "off")
    with pytest.raises(ValueError, match="webhook_secret"):
        make_webhook(url, "", "public")


def test_networks_are_allowed_beside_public_addresses_or_alone(monkeypatch):
    places = [(2, 1, 6, "", (address, 443)) for address in [*PRIVATE, *PUBLIC]]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: places)
    url, ours = "https://a.example", ["10.0.0.1", "::ffff:10.0.0.1"]
    assert find_addresses(url, "public") == PUBLIC
    assert find_addresses(url, check_networks("10.0.0.0/8")) == ours
    both = find_addresses(url, "public, 10.0.0.0/8, fd00::/8")
    assert set(both) == {*ours, "fd00:ec2::254", *PUBLIC}
    with pytest.raises(PermissionError):
        find_addresses(url, "off")
    with pytest.raises(ValueError, match=r"10\.0\.0\.1/8"):
        check_networks("10.0.0.1/8")
