"""The gateway's settings, each declared once with its description in `docs/configuration.md`.
The environment variable `BABELGATE_<NAME>` sets one, unless the setting names another variable.
They are read at the start and never change."""

import difflib
import importlib.util
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_settings import BaseSettings, SettingsConfigDict

import catalog
from contract import variables
from contract.variables import Variable
from contract.webhooks import check_networks

PREFIX = "BABELGATE_"

#: A program's address, without a path.
_ADDRESS = r"http://(\[[^\]/,\s]+\]|[^/,\s:\[\]]+)(:[0-9]{1,5})?"
_Address = Annotated[str, Field(pattern=f"^{_ADDRESS}$")]
#: The address of a Redis or Valkey.
_REDIS = (
    r"^$|^(redis|valkey)\+unix://.+|^(redis|valkey)s?://([^/?]*@)?"
    r"(\[[^\]]+\]|[^/?:\[\]]*)(:[0-9]{0,5})?([/?].*)?$"
)
_Networks = Annotated[str, AfterValidator(check_networks)]
_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]

#: The most bytes of a row with several frames.
ROW_BYTES = 8 << 20
#: Bytes of an upload in memory without a row yet: a chunk or two, and Gunicorn's read-ahead.
AHEAD_BYTES = 2 << 20
#: The bytes by which JSON and forms may encode one byte of a glossary.
_GLOSSARY_ESCAPES = 4


class SettingsError(ValueError):
    """A variable that is unknown or invalid; the message names it."""


def _share(variable: Variable, **bounds: Any) -> Any:
    """Return the field of a setting that other programs read too."""
    given = variable.default
    default = int(given) if given.isdecimal() else given or None
    shared = {"default": default, "description": variable.meaning}
    return Field(**shared | bounds, validate_default=True)


class Settings(BaseSettings):
    """The settings; `read_settings` also refuses unknown variables."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, populate_by_name=True, loc_by_alias=False
    )

    backend: Literal["torchserve", "embedded", "ray"] = Field(
        "torchserve",
        validation_alias="GATEWAY_BACKEND",
        description="The backend of the models; `make up BACKEND=…` sets it. `embedded`: the "
        "gateway's own process, [without TorchServe](embedded.md). `ray`: a [Ray "
        "cluster](scaling.md).",
    )
    map: Path = _share(variables.MAP, default=catalog.MAP)
    model: str | None = _share(variables.MODEL)
    inference_url: _Address = _share(variables.INFERENCE_URL)
    management_url: _Address = _share(variables.MANAGEMENT_URL)
    metrics_url: _Address | None = _share(variables.METRICS_URL)
    key_file: Path = _share(variables.KEY_FILE)
    ray_urls: str = _share(
        variables.RAY_URLS, pattern=rf"^{_ADDRESS}(,\s*{_ADDRESS})*$"
    )
    ray_key_file: Path = _share(variables.RAY_KEY_FILE)
    timeout_s: _Positive = Field(
        30, description="Time limit of a request, in seconds. `X-Timeout-Ms` lowers it."
    )
    max_body_bytes: PositiveInt = Field(
        1 << 20, description="Largest request body, in bytes."
    )
    max_upload_bytes: PositiveInt = Field(
        500 << 20, description="Largest upload of images or arrays, in bytes."
    )
    max_image_bytes: PositiveInt = Field(
        32 << 20, description="Largest image file or frame of an array, in bytes."
    )
    upload_timeout_s: _Positive = Field(
        120,
        description="Time limit of an upload, in seconds. `X-Timeout-Ms` lowers it.",
    )
    body_grace_s: _Positive = Field(
        10, description="Longest pause in the arrival of a body, in seconds."
    )
    max_texts: PositiveInt = Field(1000, description="Maximum texts in a request.")
    max_rows: PositiveInt = Field(10_000, description="Maximum sentences in a request.")
    max_glossaries: PositiveInt = Field(
        1000,
        description="Maximum number of [glossaries](glossaries.md) per key or, without keys, "
        "of all clients.",
    )
    max_glossary_bytes: PositiveInt = Field(
        10 << 20,
        description="Maximum bytes of the entries of one glossary, and of all in a request.",
    )
    glossaries_kept_bytes_of_one: PositiveInt = Field(
        100 << 20,
        description="Maximum bytes of the entries of all glossaries of a key or, without keys, "
        "of all clients.",
    )
    glossaries_kept_bytes: PositiveInt = Field(
        1 << 30, description="Maximum bytes of the entries of all glossaries."
    )
    disk_reserve_bytes: NonNegativeInt = Field(
        1 << 30,
        description="Disk space that documents and glossaries leave free, in bytes.",
    )
    sentences_at_once: PositiveInt = Field(
        64, description="Sentences of a request that are translated at the same time."
    )
    keys: Literal["off", "required"] = Field(
        "off",
        description="Whether clients need a [key](keys.md). `off`: keys in requests are "
        "ignored.",
    )
    database_url: str | None = _share(variables.DATABASE_URL, repr=False)
    limits_url: str | None = _share(variables.LIMITS_URL, repr=False, pattern=_REDIS)
    cache_bytes: NonNegativeInt = Field(
        64 << 20,
        description="Memory of the [cache of sentences](cache.md) on a machine, in bytes. "
        "0: no cache.",
    )
    cache_url: str | None = _share(variables.CACHE_URL, repr=False, pattern=_REDIS)
    identifier: Literal["py3langid", "lingua"] = Field(
        "py3langid",
        description="The library that identifies languages. `lingua` needs more "
        "memory and time, and leaves more short texts unidentified.",
    )
    cors_origins: str = Field(
        "*",
        pattern=r"^(\*|(https?://[^/,\s]+(,\s*|$))*)$",
        description="The origins of web pages that may request translations, separated by "
        "commas, such as `https://example.org`. `*`: all. Documents and glossaries need "
        "[a key or a named origin](compatibility.md#what-these-apis-have-in-common).",
    )
    connections: PositiveInt = Field(
        1024,
        description="Connections to TorchServe or to the Ray cluster per gateway process.",
    )

    documents: Path | None = _share(variables.DOCUMENTS)
    document_bytes: PositiveInt = _share(variables.DOCUMENT_BYTES)
    documents_waiting: PositiveInt = _share(variables.DOCUMENTS_WAITING)
    documents_of_one: PositiveInt = _share(variables.DOCUMENTS_OF_ONE)
    # The program for documents reads these two; the gateway refuses wrong values.
    documents_at_once: PositiveInt = _share(variables.DOCUMENTS_AT_ONCE)
    documents_kept_s: PositiveFloat = _share(variables.DOCUMENTS_KEPT_S)
    webhooks: _Networks = _share(variables.WEBHOOKS)
    documents_kept_bytes: PositiveInt = Field(
        16 << 30,
        description="Maximum bytes of all documents; an unfinished one counts twice.",
    )
    documents_kept_bytes_of_one: PositiveInt = Field(
        4 << 30,
        description="Maximum bytes of the documents of one key or, without keys, of one "
        "address.",
    )

    @property
    def longest_s(self) -> float:
        """The longest time limit of a request."""
        return max(self.timeout_s, self.upload_timeout_s)

    @property
    def upload_bytes(self) -> int:
        """The most bytes of an upload in memory: a row, and the bytes read ahead."""
        return AHEAD_BYTES + max(ROW_BYTES, self.max_image_bytes)

    @property
    def upload_buffer_bytes(self) -> int:
        """The memory of a process for uploads, and the same for other bodies, in bytes. It
        suffices for two uploads, so that a slow one delays no others."""
        return 2 * self.upload_bytes

    @property
    def most_glossary_body_bytes(self) -> int:
        """The largest body of a request with a glossary."""
        return _GLOSSARY_ESCAPES * self.max_glossary_bytes

    @property
    def ray_addresses(self) -> list[str]:
        """The addresses in `ray_urls`, each once."""
        return list(dict.fromkeys(re.split(r",\s*", self.ray_urls)))

    @field_validator("limits_url", "cache_url", "identifier")
    @classmethod
    def _is_installed(cls, value: str | None, info: ValidationInfo) -> str | None:
        library = value if info.field_name == "identifier" else "redis"
        if value and library and importlib.util.find_spec(library) is None:
            raise ValueError(
                f"{library} is missing: `make .venv/ready-{library}` installs it"
            )
        return value


def read_settings() -> Settings:
    """Return the settings in the environment. Raises SettingsError if a variable with our
    prefix is unknown or invalid."""
    shared = (entry.name for entry in variables.SETTINGS + variables.INTERNAL)
    known = {*map(name_variable, Settings.model_fields), *shared}
    given = {name.upper() for name in os.environ if name.upper().startswith(PREFIX)}
    faults = [_describe_unknown(name, known) for name in sorted(given - known)]
    try:
        settings = Settings()
    except ValidationError as error:
        faults += [
            _describe_fault(str(fault["loc"][0]), fault["msg"], fault["input"])
            for fault in error.errors()
        ]
    if faults:
        raise SettingsError("; ".join(faults))
    return settings


def name_variable(setting: str) -> str:
    """Return the variable that sets `setting`."""
    alias = Settings.model_fields[setting].validation_alias
    return alias if isinstance(alias, str) else PREFIX + setting.upper()


def _describe_fault(setting: str, fault: str, found: object) -> str:
    """Describe a fault, without repeating a URL that may contain a password."""
    described = f"{name_variable(setting)}: {fault}"
    is_secret = not Settings.model_fields[setting].repr
    return described if is_secret else f"{described}, found {found!r}"


def _describe_unknown(variable: str, known: Iterable[str]) -> str:
    names = {name.removeprefix(PREFIX): name for name in known}
    close = difflib.get_close_matches(variable.removeprefix(PREFIX), names, n=1)
    hint = f"did you mean {names[close[0]]}?" if close else "nothing reads it"
    return f"{variable}: unknown variable, {hint}"
