"""The gateway's settings, each declared once. The environment variable
`BABELGATE_<NAME>` sets one, unless the setting names its own variable. They are read at
the start and never change.
"""

from __future__ import annotations

import difflib
import importlib.util
import os
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from gateway.uploads.rows import AHEAD_BYTES, ROW_BYTES
from torchserve_backend import catalog

PREFIX = "BABELGATE_"

#: Variables with our prefix that others read: gunicorn.conf.py, deploy, torchserve_backend.
READ_ELSEWHERE = frozenset(
    "BIN CACHE GATEWAY_BIND NGINX PYTHON ROOT RUN RUN_DIR STORE".split()
)

_URL = r"^http://[^/\s]+$"


class SettingsError(ValueError):
    """A variable that is unknown or cannot be read; the message names it."""


class Settings(BaseSettings):
    """What can be set; `read_settings` is what also refuses unknown variables."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, populate_by_name=True, loc_by_alias=False
    )

    backend: Literal["torchserve", "embedded"] = Field(
        "torchserve",
        validation_alias="GATEWAY_BACKEND",
        description="Where the models are: in TorchServe, or in the gateway's own process.",
    )
    map: Path = Field(
        catalog.MAP, description="The map of languages, models and devices."
    )
    model: str | None = Field(None, description="Use this model instead of the map's.")
    inference_url: str = Field(
        "http://127.0.0.1:9999", pattern=_URL, description="TorchServe's inference API."
    )
    management_url: str = Field(
        "http://127.0.0.1:8081",
        pattern=_URL,
        description="TorchServe's management API.",
    )
    key_file: Path = Field(
        Path("run/torchserve/key_file.json"),
        description="Where TorchServe writes its keys.",
    )
    timeout_s: float = Field(
        30,
        gt=0,
        allow_inf_nan=False,
        description="Longest time for a request; the header X-Timeout-Ms lowers it.",
    )
    max_body_bytes: int = Field(
        1 << 20,
        gt=0,
        description="Largest request body; nginx has the same limit in nginx.conf.",
    )
    max_upload_bytes: int = Field(
        500 << 20,
        gt=0,
        description="Largest upload of images or arrays; nginx has the same limit.",
    )
    max_image_bytes: int = Field(
        32 << 20,
        gt=0,
        description="Largest image file, and largest frame of an array.",
    )
    upload_timeout_s: float = Field(
        120,
        gt=0,
        allow_inf_nan=False,
        description="Longest time for an upload; the header X-Timeout-Ms lowers it.",
    )
    body_bytes_per_s: float = Field(
        1024,
        gt=0,
        allow_inf_nan=False,
        description="A body that comes more slowly is refused, after the grace.",
    )
    body_grace_s: float = Field(
        10,
        gt=0,
        allow_inf_nan=False,
        description="How long nothing of a body needs to come.",
    )
    upload_buffer_bytes: int = Field(
        72 << 20,
        validate_default=True,
        description="Bytes of uploads that a process holds; more uploads wait.",
    )
    max_texts: int = Field(1000, gt=0, description="Most texts in one request.")
    max_rows: int = Field(
        10_000, gt=0, description="Most sentences in all texts of one request."
    )
    readers: int = Field(
        1,
        gt=0,
        description="Processes beside each gateway process that read long texts.",
    )
    sentences_at_once: int = Field(
        64,
        gt=0,
        description="Sentences of one request that are with TorchServe at the same time.",
    )
    identifier: Literal["py3langid", "lingua"] = Field(
        "py3langid",
        description="Which library identifies languages; lingua is an optional extra.",
    )
    connections: int = Field(
        1024,
        gt=0,
        description="Connections to TorchServe per process; more requests wait.",
    )

    @field_validator("upload_buffer_bytes")
    @classmethod
    def _holds_a_row(cls, size: int, info: ValidationInfo) -> int:
        least = AHEAD_BYTES + max(ROW_BYTES, info.data.get("max_image_bytes", 0))
        if size < least:
            raise ValueError(f"the largest image, and what is read ahead, need {least}")
        return size

    @field_validator("identifier")
    @classmethod
    def _is_installed(cls, library: str) -> str:
        if importlib.util.find_spec(library) is None:
            raise ValueError(f"not installed: pip install 'babelgate[{library}]'")
        return library


def read_settings() -> Settings:
    """The settings in the environment.

    Raises SettingsError where a variable with our prefix is unknown or cannot be read.
    """
    faults = [_describe_unknown(name) for name in sorted(_find_unknown())]
    try:
        settings = Settings()
    except ValidationError as error:
        faults += [
            f"{name_variable(str(fault['loc'][0]))}: {fault['msg']}, "
            f"found {fault['input']!r}"
            for fault in error.errors()
        ]
    if faults:
        raise SettingsError("; ".join(faults))
    return settings


def name_variable(setting: str) -> str:
    """The variable that sets `setting`."""
    alias = Settings.model_fields[setting].validation_alias
    return alias if isinstance(alias, str) else PREFIX + setting.upper()


def _find_known() -> dict[str, str]:
    """Every variable that somebody reads, by its name without our prefix."""
    ours = map(name_variable, Settings.model_fields)
    known = [*ours, *(PREFIX + name for name in READ_ELSEWHERE)]
    return {variable.removeprefix(PREFIX): variable for variable in known}


def _find_unknown() -> set[str]:
    given = {name.upper() for name in os.environ}
    ours = {name for name in given if name.startswith(PREFIX)}
    return ours - set(_find_known().values())


def _describe_unknown(variable: str) -> str:
    known = _find_known()
    close = difflib.get_close_matches(variable.removeprefix(PREFIX), known, n=1)
    hint = f"did you mean {known[close[0]]}?" if close else "no room reads it"
    return f"{variable}: unknown variable, {hint}"
