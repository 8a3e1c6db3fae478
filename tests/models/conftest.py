"""One thread for PyTorch."""

from tests.handlers.conftest import one_thread

__all__ = ["one_thread"]
