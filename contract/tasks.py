"""The tasks, and the paths at which clients reach them."""

from __future__ import annotations

from typing import Final

TRANSLATION: Final = "translation"
CAPTIONING: Final = "captioning"
CLASSIFICATION: Final = "classification"
DETECTION: Final = "detection"

#: Each is a `POST`; `/` translates as well.
PATHS = {
    TRANSLATION: "/translate",
    CAPTIONING: "/caption",
    CLASSIFICATION: "/classify",
    DETECTION: "/detect-objects",
}
#: The tasks that take uploads of images.
UPLOADS = tuple(task for task in PATHS if task != TRANSLATION)
