"""The settings of the program that translates documents, from its environment."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt

from contract import variables


class DocumentSettings(BaseModel):
    """The variables that concern documents."""

    model_config = ConfigDict(frozen=True)

    documents: Path | None = Field(alias=variables.DOCUMENTS.name)
    gateway: str = Field(alias=variables.GATEWAY_BIND.name, pattern=r"^[^/\s]+:\d+$")
    kept_s: PositiveFloat = Field(alias=variables.DOCUMENTS_KEPT_S.name)
    at_once: PositiveInt = Field(alias=variables.DOCUMENTS_AT_ONCE.name)


def read_settings() -> DocumentSettings:
    """The settings in the environment. Raises pydantic's ValidationError, which names a wrong
    one."""
    shared = (
        *(variables.DOCUMENTS, variables.GATEWAY_BIND),
        *(variables.DOCUMENTS_KEPT_S, variables.DOCUMENTS_AT_ONCE),
    )
    given = {variable.name: variable.read() for variable in shared}
    return DocumentSettings.model_validate(
        given | {variables.DOCUMENTS.name: given[variables.DOCUMENTS.name] or None}
    )
