"""A fake TorchServe that echoes each row at once, on a local port."""

import json
import sys
from typing import Any

from gevent import socket
from gevent.server import StreamServer

_READY = {
    "modelVersion": "1.0",
    "batchSize": 64,
    "maxBatchDelay": 0,
    "minWorkers": 1,
    "workers": [{"id": "9000", "status": "READY"}],
    "jobQueueStatus": {"remainingCapacity": 4096, "pendingRequests": 0},
}


def serve(client: socket.socket, _: object) -> None:
    """Serve a connection, faster than a usual server: the gateway must be the slower one."""
    stream = client.makefile("rb")
    while request := stream.readline():
        length = 0
        while line := stream.readline().strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        body = json.dumps(answer(request.decode(), stream.read(length))).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n"
        client.sendall(head.encode() + body)


def answer(request: str, body: bytes) -> Any:
    """Return a row's answer, or a model's state."""
    if request.startswith("POST"):
        text = json.loads(body)["src_text"]
        return {"translated": text, "score": 0.0, "model": "instant"}
    return [{"modelName": request.split()[1].rpartition("/")[2], **_READY}]


if __name__ == "__main__":
    StreamServer(("127.0.0.1", int(sys.argv[1])), serve).serve_forever()
