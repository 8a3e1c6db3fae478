"""The reasons why a text, or its terms, cannot be used."""

from collections.abc import Mapping, Sequence
from typing import Any


class TextError(Exception):
    """The message says what is wrong, and where."""


class NotWellFormed(TextError):
    """A text that is no XML."""


class EntriesError(TextError):
    """Entries of a dictionary that nobody can translate by."""


class TooManySentences(TextError):
    """The texts of a job have more sentences than they may."""


class TermsUnavailable(TextError):
    """A dictionary cannot be read, or was replaced a moment ago."""


class SentenceRefused(TextError):
    """A sentence that the model does not take. `members` say more of it."""

    def __init__(self, detail: str, members: Mapping[str, Any]) -> None:
        super().__init__(detail)
        self.members = members


class LanguageNotServed(TextError):
    """A language that a stack does not translate. `field` names it in a request; `beside`
    says with which other language that is so, if not with all."""

    def __init__(
        self, field: str, found: str, served: Sequence[str], beside: str = ""
    ) -> None:
        expected = f"expected one of {', '.join(served)}"
        super().__init__(f"{field}: {found!r} is not served{beside}; {expected}")
        self.field, self.served = field, list(served)
