"""Notifies webhooks of finished documents, signed as standardwebhooks.com specifies."""

import hmac
import json
import logging
import random
import socket
import time
from base64 import b64decode, b64encode
from contextlib import closing, suppress
from http import HTTPStatus
from http.client import HTTPException
from threading import Timer
from urllib.parse import urlsplit

from urllib3.connection import HTTPSConnection
from urllib3.exceptions import HTTPError

from contract.webhooks import Webhook, find_addresses
from documents.storage import DocumentFolder, describe

log = logging.getLogger(__name__)
# urllib3's warnings contain the URL, which may include a secret.
logging.getLogger("urllib3").setLevel(logging.ERROR)

#: Seconds per attempt, without the DNS lookup.
_ATTEMPT_S = 10.0
#: Seconds from a document's end to the last attempt, and the bounds of the pauses between.
_PATIENCE_S, _SHORTEST_S, _LONGEST_S = 86_400.0, 5.0, 3600.0


def tell(document: DocumentFolder, allowed: str) -> float:
    """Call a document's webhook once, at an `allowed` address. Return the seconds until the
    next attempt, or 0 if there is none. Raises Gone and OSError."""
    webhook, order = document.read_webhook(), document.order
    age_s = time.time() - document.state.stat().st_mtime
    # Pauses equal the document's age, so they double whichever program makes the attempts.
    delay_s = min(_LONGEST_S, max(_SHORTEST_S, age_s)) * random.uniform(0.5, 1)
    body = json.dumps(describe(order, document.read_state()))
    try:
        addresses = find_addresses(webhook.url, allowed)
        # The system lists what it can reach first, such as IPv4 before IPv6.
        address = addresses[0] if age_s < _SHORTEST_S else random.choice(addresses)
        found: int | str = _post(webhook, order.id, body, address)
    except (OSError, ValueError, HTTPError, HTTPException) as error:
        found = type(error).__name__
    is_told = found in (*range(200, 300), HTTPStatus.GONE)
    is_late = age_s + delay_s > _PATIENCE_S
    said = "delivered" if is_told else "given up" if is_late else "to be sent again"
    log.info("document %s: webhook %s: %s", order.id, said, found)
    if not (is_told or is_late):
        return delay_s
    document.webhook.unlink(missing_ok=True)
    return 0.0


def _post(webhook: Webhook, name: str, body: str, address: str) -> int:
    """Return the status of the response."""
    parts = urlsplit(webhook.url)
    sent_at = str(int(time.time()))
    key = b64decode(webhook.secret.removeprefix("whsec_"))
    digest = hmac.digest(key, f"{name}.{sent_at}.{body}".encode(), "sha256")
    headers = {
        "Host": parts.netloc,
        "Content-Type": "application/json",
        "webhook-id": name,
        "webhook-timestamp": sent_at,
        "webhook-signature": f"v1,{b64encode(digest).decode()}",
    }
    give_up_at = time.monotonic() + _ATTEMPT_S
    connection = HTTPSConnection(
        address,
        parts.port or 443,
        timeout=_ATTEMPT_S / 2,  # once for connecting, once for TLS
        server_hostname=parts.hostname,
    )
    with closing(connection):
        connection.connect()
        connection.timeout = left_s = max(0.1, give_up_at - time.monotonic())
        # No other limit stops a server that sends a byte now and then.
        timer = Timer(left_s, _cut_off, [connection.sock])
        timer.start()
        try:
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request("POST", path, body, headers, preload_content=False)
            answer = connection.getresponse()
            answer.close()
        finally:
            timer.cancel()
            if time.monotonic() > give_up_at:
                raise TimeoutError  # a truncated response may look complete
    return answer.status


def _cut_off(connection: socket.socket) -> None:
    """Shut a connection down unless it has just been closed. After TLS's own `shutdown`, the
    reader would continue without TLS."""
    with suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
