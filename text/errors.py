"""The reasons why a text, or its terms, cannot be used."""

from collections.abc import Mapping, Sequence
from typing import Any


class TextError(Exception):
    """A text cannot be used; the message names the fault and its place."""


class NotWellFormed(TextError):
    """The text is not XML."""


class EntriesError(TextError):
    """The entries of a dictionary are invalid."""


class TooManySentences(TextError):
    """The texts of a job have more sentences than allowed."""


class TermsUnavailable(TextError):
    """A dictionary cannot be read, or was replaced a moment ago."""


class SentenceRefused(TextError):
    """The model refuses a sentence. `members` are further fields of the refusal."""

    def __init__(self, detail: str, members: Mapping[str, Any]) -> None:
        super().__init__(detail)
        self.members = members


class LanguageNotServed(TextError):
    """The stack does not translate a language, which `field` names in a request. `beside` names
    the other language if only the pair is not served."""

    def __init__(
        self, field: str, found: str, served: Sequence[str], beside: str = ""
    ) -> None:
        expected = f"expected one of {', '.join(served)}"
        super().__init__(f"{field}: {found!r} is not served{beside}; {expected}")
        self.field = field
        self.served = list(served)
