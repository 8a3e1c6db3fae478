"""The families of translation models, identified by a checkpoint's files."""

from collections.abc import Collection
from pathlib import Path

from handlers.engine.directories import ModelError, read_object, read_settings
from handlers.engine.translation.families.m2m100 import M2M100
from handlers.engine.translation.families.madlad import Madlad
from handlers.engine.translation.families.marian import Marian
from handlers.engine.translation.families.nllb import Nllb
from handlers.engine.translation.family import Family, Languages

__all__ = ["Family", "Languages", "find_family", "guess_family", "list_languages"]

#: If two match, the earlier one wins.
_FAMILIES: tuple[Family, ...] = (Nllb(), M2M100(), Marian(), Madlad())


def find_family(directory: Path) -> Family:
    """Return a directory's family, from its `babelgate.json`, which a conversion writes, else
    from `config.json`. Raises ModelError if there is none."""
    name = read_settings(directory).get("family")
    path = directory / "config.json"
    kind = read_object(path).get("model_type")
    for family in _FAMILIES:
        if family.name == name:
            return family
        if not name and family.model_type == kind and family.suits(directory):
            return family
    expected = " or ".join(dict.fromkeys(repr(f.model_type) for f in _FAMILIES))
    raise ModelError(f"{path}: model_type is {kind!r}, expected {expected}")


def guess_family(names: Collection[str]) -> Family:
    """Guess a checkpoint's family from its file names alone."""

    def share(family: Family) -> float:
        found = [any(name in names for name in choice) for choice in family.files]
        return sum(found) / len(found)

    return max((_FAMILIES[1], *_FAMILIES), key=share)


def list_languages(directory: Path) -> Languages:
    """List a model's languages: those in its `babelgate.json`, as `languages` for both sides or
    as `sources` and `targets`, else those in its other files. Raises ModelError."""
    settings = read_settings(directory)
    both = settings.get("languages")
    sources, targets = (settings.get(side, both) for side in Languages._fields)
    if not (sources and targets):
        own = find_family(directory).list_languages(directory)
        sources, targets = sources or own.sources, targets or own.targets
    return Languages(tuple(sources), tuple(targets))
