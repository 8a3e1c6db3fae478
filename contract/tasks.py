"""The tasks, and the paths at which clients reach them."""

from importlib import import_module
from typing import Any, Final

TRANSLATION: Final = "translation"
CAPTIONING: Final = "captioning"
CLASSIFICATION: Final = "classification"
DETECTION: Final = "detection"

#: Each is a `POST`; `/` translates too.
PATHS = {
    TRANSLATION: "/translate",
    CAPTIONING: "/caption",
    CLASSIFICATION: "/classify",
    DETECTION: "/detect-objects",
}
#: The tasks that accept uploads of images.
UPLOADS = tuple(task for task in PATHS if task != TRANSLATION)


def find_class(package: str, task: str) -> Any:
    """Return the only class that a task's file in a package defines, as TorchServe does."""
    module = import_module(f"{package}.{task}")
    (found,) = (
        value
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__ == module.__name__
    )
    return found
