"""The host and the maps of the catalog's tests."""

from tests.catalog.conftest import clean_environment, write_map

__all__ = ["clean_environment", "write_map"]
