"""The variables that a stack is started with. It keeps them over its restarts, whatever the
shell of the next command has.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from contract import variables

_PREFIXES = ("BABELGATE_", "HF_", "CUDA_VISIBLE_DEVICES", "WEB_CONCURRENCY")
#: `up` sets these itself, has an option for them, or they are the caller's own.
_OTHERS = {
    *(variable.name for variable in variables.INTERNAL),
    *(variables.MAP.name, variables.MODEL.name, variables.CLIENT_KEY.name),
    *variables.RUN_NAMES,
}


def find_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Find the settings in an environment that a stack keeps. The gateway reads small
    letters as well."""
    given = {name.upper(): value for name, value in environment.items()}
    return {
        name: given[name]
        for name in given.keys() - _OTHERS
        if name.startswith(_PREFIXES)
    }


def apply(settings: Mapping[str, str]) -> None:
    """Gives this process, and what it starts, these settings and no others."""
    for name in list(os.environ):
        if find_settings({name: ""}):
            del os.environ[name]
    os.environ.update(settings)


def is_shown(name: str) -> bool:
    """Whether a setting's value may be printed. Addresses and tokens may hold secrets."""
    return not name.startswith("HF_") and not name.endswith("_URL")
