"""The options of a request, with their bounds and defaults."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class Option(Generic[Number]):
    """A number that a request may choose."""

    least: Number
    most: Number
    default: Number

    def limit(self, most: Number | None = None) -> dict[str, Any]:
        """Return the arguments of pydantic's `Field`, perhaps with a lower maximum."""
        most = self.most if most is None else most
        return {"default": min(self.default, most), "ge": self.least, "le": most}


#: Hypotheses of the beam search. A map may lower this maximum, and that of alternatives.
BEAM_SIZE = Option(1, 8, 2)
#: Translations besides the best.
ALTERNATIVES = Option(0, 5, 0)
#: Labels of an image.
TOP_K = Option(1, 100, 5)
#: The score that an object must exceed.
THRESHOLD = Option(0.0, 1.0, 0.5)
