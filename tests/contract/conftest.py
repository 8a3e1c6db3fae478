"""The cases run against the gateway and the fake TorchServe of `tests/gateway`."""

from tests.gateway.conftest import (
    clean_environment,
    make_client,
    map_path,
    run,
    shared_client,
    torchserve,
)

__all__ = [
    "clean_environment",
    "make_client",
    "map_path",
    "run",
    "shared_client",
    "torchserve",
]
