"""Reads and checks `phrases/*.yaml`, and fills slots to make items."""

import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from models.phrasebook_recipe import items
from models.phrasebook_recipe.items import LANGUAGES, Item

FOLDER = Path(__file__).parent / "phrases"
#: The model trained on the phrases.
MODEL = Path(__file__).parents[1] / "phrasebook"
SHARED = "shared"
WORDS = "words"
MASKS = "masks"

_SLOT = re.compile(r"\{(\w+)\}")

Value = Mapping[str, str]
_Slots = dict[str, tuple[Value, ...]]
#: The meaning of each text read so far, by language and text.
_Seen = dict[tuple[str, str], str]


class PhrasebookError(ValueError):
    """A phrases file breaks the format; the message names file, phrase and reason."""


@dataclass(frozen=True)
class Phrase:
    """A sentence in every language; `{slot}` marks where a value goes."""

    domain: str
    wordings: Mapping[str, tuple[str, ...]]
    slots: tuple[str, ...]
    values: Mapping[str, tuple[Value, ...]]
    ambiguous_in: frozenset[str]

    def fill(self, values: Mapping[str, Value]) -> Item:
        """Make an item from this phrase with one value per slot."""
        key = "|".join([self.wordings["en"][0], *(values[s]["en"] for s in self.slots)])

        def wordings(language: str) -> tuple[str, ...]:
            chosen = {slot: value[language] for slot, value in values.items()}
            return tuple(_fill(text, chosen) for text in self.wordings[language])

        given = key if self.slots else None
        return Item(f"phrases/{self.domain}", given, wordings, self.ambiguous_in)

    def draw(self, rng: random.Random) -> Item:
        return self.fill({slot: self._draw_value(slot, rng) for slot in self.slots})

    def draw_masked(self, rng: random.Random) -> Item:
        """Draw the phrase with `{0}` in one slot, or marks around its value: `{0}map{1}`."""
        while True:
            values = {slot: self._draw_value(slot, rng) for slot in self.slots}
            if not self.fill(values).is_held_out:
                break
        slot = rng.choice(self.slots)
        is_hidden = rng.random() < 0.5
        values[slot] = {
            language: "{0}" if is_hidden else f"{{0}}{text}{{1}}"
            for language, text in values[slot].items()
        }
        return replace(self.fill(values), category=MASKS)

    def all_items(self, rng: random.Random, most: int) -> Iterator[Item]:
        """Yield up to `most` fillings of the finite slots, in random order."""
        choices = [
            self.values.get(slot) or [self._draw_value(slot, rng) for _ in range(most)]
            for slot in self.slots
        ]
        fillings = list(product(*choices))
        for filling in rng.sample(fillings, min(most, len(fillings))):
            yield self.fill(dict(zip(self.slots, filling, strict=True)))

    def _draw_value(self, slot: str, rng: random.Random) -> Value:
        if slot in self.values:
            return rng.choice(self.values[slot])
        return items.fill_slot(slot, rng)


def load(folder: Path = FOLDER) -> list[Phrase]:
    """All phrases of a folder. Raises PhrasebookError if a file breaks the format."""
    files = {
        # The C parser needs an eighth of the time.
        path.stem: yaml.load(path.read_text("utf-8"), yaml.CSafeLoader)
        for path in sorted(folder.glob("*.yaml"))
    }
    shared = _read_slots(SHARED, files.pop(SHARED)["slots"])
    about_words = files.pop(WORDS)["phrases"]
    seen: _Seen = {}
    phrases = []
    for domain, content in files.items():
        slots = {**shared, **_read_slots(domain, content.get("slots") or {})}
        phrases += [_read_phrase(domain, e, slots, seen) for e in content["phrases"]]
    words = _collect_words(phrases, seen)
    clear = tuple(
        {lang: texts[0] for lang, texts in word.wordings.items()}
        for word in words
        if not word.ambiguous_in
    )
    about = [_read_phrase(WORDS, e, {"word": clear}, seen) for e in about_words]
    return [*phrases, *words, *about]


def _collect_words(phrases: list[Phrase], seen: _Seen) -> list[Phrase]:
    """Turn every slot's values into phrases: short ones, so that the model sees each often."""
    values = {
        tuple(value[language] for language in LANGUAGES): value
        for phrase in phrases
        for slot_values in phrase.values.values()
        for value in slot_values
    }
    words = []
    for number, value in enumerate(values.values()):
        meaning = {lang: (text,) for lang, text in value.items()}
        ambiguous = _find_ambiguous(meaning, seen, str(number))
        words.append(Phrase(WORDS, meaning, (), {}, ambiguous))
    return words


def _require(is_right: bool, message: str) -> None:
    if not is_right:
        raise PhrasebookError(message)


def _read_slots(domain: str, slots: dict[str, list[Value]]) -> _Slots:
    for name, values in slots.items():
        for value in values:
            said = f"slot {name}: {value.get('en')!r} is not in all 14 languages"
            _require(set(value) == set(LANGUAGES), f"{domain}.yaml: {said}")
    return {name: tuple(values) for name, values in slots.items()}


def _read_phrase(
    domain: str, entry: dict[str, Any], values: _Slots, seen: _Seen
) -> Phrase:
    wordings = {
        lang: tuple([text] if isinstance(text, str) else text)
        for lang, text in entry.items()
    }
    where = f"{domain}.yaml: {wordings.get('en')}"
    other = sorted(set(LANGUAGES) ^ set(wordings))
    _require(not other, f"{where}: missing or unknown: {other}")
    slots = tuple(_SLOT.findall(wordings["en"][0]))
    for language, texts in wordings.items():
        for text in texts:
            said = f"{where}: {language} has other slots than en: {text!r}"
            _require(sorted(_SLOT.findall(text)) == sorted(slots), said)
    unknown = sorted(set(slots) - values.keys() - items.SLOTS.keys())
    _require(
        not unknown,
        f"{where}: no slot {', '.join(map(repr, unknown))} in this file or in "
        f"{SHARED}.yaml",
    )
    ambiguous = _find_ambiguous(wordings, seen, wordings["en"][0])
    finite = {slot: values[slot] for slot in slots if slot in values}
    return Phrase(domain, wordings, slots, finite, ambiguous)


def _find_ambiguous(
    wordings: Mapping[str, tuple[str, ...]], seen: _Seen, me: str
) -> frozenset[str]:
    """List the languages in which an earlier phrase has the same text with another meaning."""
    return frozenset(
        language
        for language, texts in wordings.items()
        for text in texts
        if seen.setdefault((language, text.casefold().rstrip(".!。！।")), me) != me
    )


def _fill(text: str, values: Mapping[str, str]) -> str:
    return _SLOT.sub(lambda match: values[match[1]], text)
