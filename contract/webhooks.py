"""The webhooks of documents: their URLs, and the addresses that these may have."""

import re
import socket
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

_OFF, _PUBLIC = "off", "public"
#: An HTTPS URL with a name or address and an optional port, without a user.
_URL = re.compile(
    r'(?i:https)://(\[[\da-fA-F:.]+\]|[\w.-]+)(:[1-9]\d{0,4})?([/?][!"$-~]*)?', re.A
)
#: Public IPv6; 6to4, the second, is excluded because it can reach any IPv4 address.
_UNICAST, _6TO4 = IPv6Network("2000::/3"), IPv6Network("2002::/16")


@dataclass(frozen=True)
class Webhook:
    """A URL to notify of a document's end, and the secret that signs the notification."""

    url: str
    secret: str


def check_networks(allowed: str) -> str:
    """Return the setting without spaces. Raises ValueError if it is invalid."""
    allowed = allowed.replace(" ", "")
    for word in {*allowed.split(",")} - {_OFF, _PUBLIC}:
        ip_network(word)
    return allowed


def make_webhook(url: str, secret: str, allowed: str) -> Webhook | None:
    """Return the webhook; None without a URL. Names are resolved later. Raises ValueError."""
    if not url:
        return None
    if allowed == _OFF:
        raise ValueError("this server sends no webhooks")
    if not secret:
        raise ValueError("expected a webhook_secret as well")
    try:
        is_url = _URL.fullmatch(url)
        with suppress(socket.gaierror):  # a name
            find_addresses(url, allowed, socket.AI_NUMERICHOST)
    except (ValueError, PermissionError):
        is_url = None
    if not is_url:
        expected = "a URL with https and a public address, without a user name"
        raise ValueError(f"expected {expected}, such as https://example.org/done")
    return Webhook(url, secret)


def find_addresses(url: str, allowed: str, flags: int = 0) -> list[str]:
    """Return the allowed addresses of a URL's host. Connect to one of them: the name may change
    its address. Raises PermissionError if there is none, OSError and ValueError."""
    parts = urlsplit(url)
    kind = socket.SOCK_STREAM
    found = socket.getaddrinfo(parts.hostname, parts.port, type=kind, flags=flags)
    addresses = [str(place[0]) for *_, place in found]
    if reachable := [each for each in addresses if _may_reach(each, allowed)]:
        return reachable
    raise PermissionError


def _may_reach(address: str, allowed: str) -> bool:
    given = ip_address(address)
    found = getattr(given, "ipv4_mapped", None) or given
    is_public = found.is_global and not found.is_multicast
    if found.version == 6:
        is_public &= found in _UNICAST and found not in _6TO4
    return any(
        is_public if word == _PUBLIC else word != _OFF and found in ip_network(word)
        for word in allowed.replace(" ", "").split(",")
    )
