"""Translates texts through a server, many per request. What is wrong with one text is its
own error, and all others are translated.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from clients.bulk import pack
from clients.errors import ServerError
from clients.server import ApiClient, ApiRequest
from clients.tables import TextReply
from contract.tasks import PATHS, TRANSLATION

#: A request has no more texts and, unless it has one text only, no more characters.
MAX_TEXTS, MAX_CHARACTERS = 32, 8000
#: A longer text is cut at the ends of lines, else at those of sentences.
LONGEST_PIECE = 32_000
#: The statuses with which the server refuses a text.
_REFUSED = frozenset({400, 413, 422})
#: The statuses that a text may cause, and a fault of the server as well.
_DOUBTFUL = frozenset({500, 503, 504})
#: A request with several texts is divided at once after these.
_DIVIDED = frozenset({500, 504})
#: The failures of a text before the fault is its own, once others have been translated.
#: A worker that a text has ended is back before the last.
_MOST_FAULTS = 4

_PLACE = re.compile(r"(?s)src_text\[(\d+)\]: (.*)")
_ENDS = [
    re.compile(r"[\r\n]+"),
    re.compile(r"[.!?…।؟]+[\"'»”’)\]]*\s+|[。！？]+[」』”’）]*"),
    re.compile(r"\s+"),
]


@dataclass(frozen=True)
class TranslationOptions:
    """The target language, and how to translate."""

    target: str
    #: None: the server identifies the language of each text.
    source: str | None = None
    format: str = "text"
    glossary: str | None = None

    def write_body(self, texts: Sequence[str]) -> bytes:
        """The body of a request."""
        body: dict[str, Any] = {"src_text": texts, "tgt_lang": self.target}
        body |= {"format": self.format}
        body |= {"src_lang": self.source} if self.source else {}
        body |= {"glossary": self.glossary} if self.glossary else {}
        try:
            return json.dumps(body, ensure_ascii=False).encode()
        except UnicodeEncodeError:  # half a character, which only an escape can name
            return json.dumps(body).encode()


class _Answer(BaseModel):
    model_config = ConfigDict(strict=True)

    translated: list[str]
    warnings: list[str] = []


@dataclass(frozen=True)
class Translator:
    """Safe to share among threads."""

    server: ApiClient
    wanted: TranslationOptions

    def check(self) -> None:
        """Raises ServerError if the server does not do what is wanted."""
        self._ask([""])

    def translate(self, texts: Sequence[str]) -> list[TextReply]:
        """A reply for each text. Raises ServerError where it is not the texts' fault."""
        # A piece of HTML would be without the tags around it.
        longest = LONGEST_PIECE if self.wanted.format == "text" else sys.maxsize
        pieces = [cut(text, longest) for text in texts]
        groups = group([piece for each in pieces for piece in each])
        replies = chain.from_iterable(map(self._try, groups))
        return [_join([next(replies) for _ in each]) for each in pieces]

    def _try(
        self, texts: Sequence[str], most_faults: int | None = None
    ) -> list[TextReply]:
        final = _DIVIDED if len(texts) > 1 else frozenset()
        try:
            return self._ask(texts, final, most_faults)
        except ServerError as error:
            is_refused = error.status in _REFUSED | final
            if not (is_refused or (error.status in _DOUBTFUL and self._is_ready())):
                raise
            if len(texts) == 1:
                reason = error.reason.replace("src_text[0]: ", "")
                return [TextReply(None, error=reason)]
        middle = len(texts) // 2
        return [
            *self._try(texts[:middle], _MOST_FAULTS),
            *self._try(texts[middle:], _MOST_FAULTS),
        ]

    def _is_ready(self) -> bool:
        try:
            self.server.ask(ApiRequest("GET", "/readyz"))
        except ServerError:
            return False
        return True

    def _ask(
        self,
        texts: Sequence[str],
        final: frozenset[int] = frozenset(),
        most_faults: int | None = None,
    ) -> list[TextReply]:
        path = PATHS[TRANSLATION]
        body = self.wanted.write_body(texts)
        json_type = "application/json"
        request = ApiRequest("POST", path, [body], json_type, final, most_faults)
        url = f"{self.server.url}{path}"
        try:
            answer = _Answer.model_validate(self.server.ask(request))
        except ValidationError as error:
            raise ServerError(f"{url}: no translations") from error
        if len(answer.translated) != len(texts):
            raise ServerError(f"{url}: expected {len(texts)} translations")
        replies = [TextReply(text) for text in answer.translated]
        for warning in answer.warnings:
            if found := _PLACE.fullmatch(warning):
                place = int(found[1])
                replies[place] = replace(replies[place], warning=found[2])
        return replies


def group(texts: Iterable[str]) -> Iterator[list[str]]:
    """The texts of each request."""
    return pack(texts, lambda text: (1, len(text)), MAX_TEXTS, MAX_CHARACTERS)


def cut(text: str, longest: int) -> list[str]:
    """Pieces of similar length that make up the text, none longer than `longest`."""
    pieces: list[str] = []
    start = 0
    while len(text) - start > longest:
        left = len(text) - start
        size = -(-left // -(-left // longest))
        end = _find_end(text, start, start + size)
        pieces.append(text[start:end])
        start = end
    return [*pieces, text[start:]]


def _find_end(text: str, start: int, stop: int) -> int:
    """After the last line, else the last sentence, else the last word before `stop`."""
    for pattern in _ENDS:
        *_, last = (0, *(found.end() for found in pattern.finditer(text, start, stop)))
        if last:
            return last
    return stop


def _join(pieces: Sequence[TextReply]) -> TextReply:
    """The reply for a text that was cut; one piece without translation is one too many."""
    if len(pieces) == 1:
        return pieces[0]
    errors = [piece.error for piece in pieces if piece.error]
    warnings = [piece.warning for piece in pieces if piece.warning]
    if errors:
        return TextReply(None, error=errors[0])
    text = "".join(piece.text or "" for piece in pieces)
    return TextReply(text, warning=warnings[0] if warnings else None)
