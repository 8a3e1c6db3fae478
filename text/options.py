"""The options of a translation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from contract.options import ALTERNATIVES, BEAM_SIZE

#: The places where a plain text is divided: at lines and sentences, at sentences only,
#: or nowhere.
Splitting: TypeAlias = Literal["lines", "sentences", "none"]


@dataclass(frozen=True)
class Tags:
    """The reading of a text's tags, and the client's lists of elements by their names:
    those to be left as they are, those that end a sentence, and those that do not."""

    is_xml: bool = False
    ignored: tuple[str, ...] = ()
    splitting: tuple[str, ...] = ()
    inline: tuple[str, ...] = ()
    #: Whether other elements of XML end a sentence where nothing but elements is beside them.
    finds_outline: bool = True


#: HTML, as it is read where the client says nothing of elements.
HTML_TAGS = Tags()
#: XML, likewise. XLIFF's elements for what is inside a sentence are always inside one.
XML_TAGS = Tags(is_xml=True, inline=("g", "x"))


@dataclass(frozen=True)
class TranslationRequest:
    """A request to translate. Without a `source` each text's own is identified, and without
    `tags` they are plain; `is_list` says in which shape the client wants the answer.
    """

    source: str | None
    target: str
    texts: tuple[str, ...]
    is_list: bool
    tags: Tags | None = None
    splitting: Splitting = "lines"
    is_protected: bool = True
    beam_size: int = BEAM_SIZE.default
    alternatives: int = ALTERNATIVES.default
    #: Ids or names of glossaries; an entry of an earlier one wins.
    glossaries: tuple[str, ...] = ()
