"""An S3 server that ends with its test."""

from collections.abc import Iterator
from contextlib import contextmanager

import requests
from moto.server import ThreadedMotoServer


@contextmanager
def serve_objects(bucket: str) -> Iterator[dict[str, str]]:
    """Serve an empty bucket, and yield the environment of its clients."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    try:
        requests.put(f"{url}/{bucket}", timeout=60).raise_for_status()
        yield {
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "the-secret",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": url,
        }
    finally:
        server.stop()
