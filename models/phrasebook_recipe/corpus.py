"""Draws training pairs and held-out items from phrases, names and generated values."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from pathlib import Path

import yaml

from models.phrasebook_recipe import items, phrasebook
from models.phrasebook_recipe.items import LANGUAGES, Item

#: The weights for drawing kinds of items, names and values.
MIX = yaml.safe_load(Path(__file__).with_name("mix.yaml").read_text("utf-8"))
_FINAL_MARKS = ".!?。！？।؟"
_OPENING_MARKS = "¿¡"


@dataclass(frozen=True)
class TextPair:
    """A text and its translation."""

    category: str
    source_language: str
    target_language: str
    source: str
    target: str


class Corpus:
    """All items of the phrasebook and of CLDR, from `sources` into `targets`."""

    def __init__(
        self,
        phrases: list[phrasebook.Phrase],
        sources: Sequence[str] = LANGUAGES,
        targets: Sequence[str] = LANGUAGES,
    ) -> None:
        self.phrases = phrases
        self.sources, self.targets = sources, targets
        self.names = items.list_names()
        self._slotted = [p for p in phrases if p.slots and p.domain != phrasebook.WORDS]
        self._weights = list(accumulate(map(_weigh, phrases)))

    def draw(self, rng: random.Random, *, held_out: bool = False) -> TextPair:
        """Draw a random pair; for training, vary the source's capitals and final mark."""
        kind = _choose(rng, "kinds")
        item = self.draw_item(kind, rng, held_out)
        sources = [lang for lang in self.sources if lang not in item.ambiguous_in]
        if not sources:
            return self.draw(rng, held_out=held_out)
        given = rng.choice(sources)
        target = rng.choice([lang for lang in self.targets if lang != given])
        wordings = item.wordings(given)
        source = wordings[0] if held_out or rng.random() < 0.6 else rng.choice(wordings)
        if not held_out and kind != "values":
            source = vary(source, rng)
        return TextPair(item.category, given, target, source, item.text(target))

    def held_out(self, count: int, seed: int = 1) -> list[TextPair]:
        """Draw pairs of items that training never draws."""
        rng = random.Random(seed)
        return [self.draw(rng, held_out=True) for _ in range(count)]

    def finite(self) -> list[TextPair]:
        """Every phrase without slots and every name, in all 182 directions."""
        phrases = (phrase.fill({}) for phrase in self.phrases if not phrase.slots)
        return [
            TextPair(
                item.category, source, target, item.text(source), item.text(target)
            )
            for item in chain(phrases, *self.names.values())
            for source in LANGUAGES
            if source not in item.ambiguous_in
            for target in LANGUAGES
            if target != source
        ]

    def draw_item(self, kind: str, rng: random.Random, held_out: bool) -> Item:
        """Draw a random item of a kind in `MIX["kinds"]`."""
        if kind == "names" and held_out:
            kind = "values"
        while True:
            match kind:
                case "phrases":
                    (phrase,) = rng.choices(self.phrases, cum_weights=self._weights)
                    item = phrase.draw(rng)
                case "masks":
                    item = rng.choice(self._slotted).draw_masked(rng)
                case "names":
                    item = rng.choice(self.names[_choose(rng, "names")])
                case _:
                    item = items.draw(_choose(rng, "values"), rng)
            if item.is_held_out == held_out:
                return item


def _choose(rng: random.Random, among: str) -> str:
    weights: Mapping[str, float] = MIX[among]
    return rng.choices(list(weights), list(weights.values()))[0]


def _weigh(phrase: phrasebook.Phrase) -> int:
    """Return how often to draw a phrase. A fixed sentence is learnt long before one with a slot
    and its dozen values; everybody tries greetings first; there are hundreds of words."""
    if phrase.domain == phrasebook.WORDS:
        return 50 if phrase.slots else 1
    if phrase.values or phrase.domain == "greetings":
        return 12
    return 3 if phrase.slots else 2


def vary(text: str, rng: random.Random) -> str:
    """Vary a text as if typed in a hurry: another or no final mark, other or no capitals."""
    chance = rng.random()
    if chance < 0.5:
        return text
    if text[-1] not in _FINAL_MARKS:
        changes = [
            (0.65, text + rng.choice((".", "!"))),
            (0.8, _lower_first(text)),
            (1.0, text.lower()),
        ]
    else:
        bare = text.rstrip(_FINAL_MARKS).lstrip(_OPENING_MARKS).strip()
        changes = [
            (0.65, bare),
            (0.75, _lower_first(text)),
            (0.88, _lower_first(bare)),
            (1.0, bare.lower()),
        ]
    return next(changed for most, changed in changes if chance < most)


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]
