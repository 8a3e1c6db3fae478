"""Whether a value that a program wrote is language, or a name, an address or a code that
other programs read.
"""

from __future__ import annotations

import re

_LONGEST_WORD = 64
_CODES = re.compile(
    r"""
    [a-z][\w+.-]*://.*                              # an address
    | (?:mailto|tel|data|urn|javascript):.*
    | \S+@\S+\.\w+                                  # a mailbox
    | .*[\d_@\\={}<>\[\]|$%].*                      # a number, an identifier, a variable
    | .*\w[.:]+\w.*                                 # a file, a domain, a name in a name
    | [./~\#]\S*[/\w]\S*                            # a path, a selector
    | (?:application|audio|font|image|message|model|multipart|text|video)/\S+
    | \S+/                                          # a folder
    | [a-z]+[A-Z]\S*                                # camelCase
    | (?:[A-Z][a-z]+){2,}                           # PascalCase
    | [a-z]+(?:-[a-z]+){2,}                         # kebab-case-with-parts
    | [a-z]{2,3}-(?:[A-Z]{2}|[A-Z][a-z]{3})         # a language
    | true | false | null
    """,
    re.VERBOSE,
)
_VARIABLES = re.compile(
    r"\{\{[^{}]*\}\}|\$?\{[^{}]*\}|%(?:\(\w+\))?(?:\d+\$)?[-+#0 ]?\d*[a-zA-Z@]|<[^<>]*>"
)
_IDENTIFIER = re.compile(r"[a-z][a-z0-9_-]*", re.ASCII)


def is_prose(text: str) -> bool:
    """Whether a value is to be translated: it has letters, and is not a single word that
    looks like an identifier, an address, a path, a language or another code."""
    text = text.strip()
    if not any(map(str.isalpha, text)):
        return False
    if any(map(str.isspace, text)):
        return any(map(str.isalpha, _VARIABLES.sub("", text)))
    # Languages without spaces have sentences that look like one word.
    if not text.isascii():
        return "://" not in text
    return len(text) <= _LONGEST_WORD and not _CODES.fullmatch(text)


def is_identifier(text: str) -> bool:
    """Whether a column's name is one for programs."""
    return _IDENTIFIER.fullmatch(text) is not None
