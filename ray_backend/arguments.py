"""The arguments of a replica: the `args` of a Serve application, as JSON."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from catalog import SECTIONS, Model
from catalog.sections import PLACEMENT


class Arguments(BaseModel):
    """A model of the map without its placement, and who may ask it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    task: str
    languages: tuple[str, ...]
    devices: tuple[str, ...]
    settings: dict[str, Any]
    #: The SHA-256 of the key that the gateway sends, in hexadecimal digits.
    key_digest: str

    @property
    def model(self) -> Model:
        """The model. Raises ValidationError if its settings are of another version."""
        settings = SECTIONS[self.task].model_validate(self.settings)
        return Model(self.name, self.task, self.languages, self.devices, settings)


def write_arguments(model: Model, key_digest: str) -> dict[str, Any]:
    """A model as `Arguments` reads it."""
    return Arguments(
        name=model.name,
        task=model.task,
        languages=model.languages,
        devices=model.devices,
        # A change of the placement would otherwise restart every replica.
        settings=model.settings.model_dump(mode="json", exclude=PLACEMENT),
        key_digest=key_digest,
    ).model_dump(mode="json")
