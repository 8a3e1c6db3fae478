"""Python imports this file when a process of TorchServe starts. TorchServe imports torch in
every worker, for handlers that return tensors. Ours return bytes, so a worker whose engine
does not need torch starts faster, and its imports use 40 MB instead of 230.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Torch(ModuleType):
    """A stand-in for torch in TorchServe's module, which imports torch for any attribute."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module("torch"), name)


def _import_protocol() -> None:
    """Import TorchServe's protocol with a stand-in for torch. Later imports get torch."""
    sys.modules["torch"] = _Torch("torch")
    try:
        import_module("ts.protocol.otf_message_handler")
    finally:
        del sys.modules["torch"]


_import_protocol()
