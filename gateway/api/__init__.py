"""The HTTP routes, one file per task or purpose. Every file here is registered."""

import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module

from flask import Blueprint

from catalog import Catalog
from gateway.access import Access
from gateway.metrics import Figures
from gateway.services.translation import TranslationService
from gateway.uploads.documents import Documents
from gateway.uploads.images import ImageService

__all__ = ["Services", "list_blueprints"]


@dataclass(frozen=True)
class Services:
    """The objects that routes call."""

    catalog: Catalog
    access: Access
    translation: TranslationService
    images: ImageService
    documents: Documents
    figures: Figures


def list_blueprints(services: Services) -> Iterator[Blueprint]:
    """Yield the routes of every file in this package."""
    for found in pkgutil.iter_modules(__path__):
        yield from import_module(f"{__name__}.{found.name}").make_blueprints(services)
