"""Pages and docstrings are plain English, and pages name files that exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.test_architecture import ALL, PACKAGES, PAGES, ROOT

#: Words that a sentence does not begin with, and phrases that have a shorter form.
AWKWARD = re.compile(
    r"(?:^|[.!?:;|]\s+|\n\s*[-*]\s|\n\n)(?:Of|Who)\s|(?i:so many|at the most)"
)
CODE = re.compile(r"```.*?```", re.DOTALL)
#: `text/html` and `text/plain` are types of media.
FOLDERS = "|".join((*PACKAGES, "docs", "nginx", "tests"))
FILE = re.compile(rf"`((?!text/(?:html|plain)`)(?:{FOLDERS})/[\w./-]+)`")


def list_texts() -> Iterator[tuple[str, str]]:
    """Every page without its code, and every docstring, each with its file."""
    for page in PAGES:
        yield page.name, CODE.sub("", page.read_text("utf-8"))
    for file in ALL:
        for node in (file.tree, *file.statements):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                yield file.name, ast.get_docstring(node) or ""


def test_sentences_are_plain():
    offenders = [
        (name, text[match.start() : match.end() + 40])
        for name, text in list_texts()
        for match in AWKWARD.finditer(text)
    ]
    assert offenders == []


def test_files_that_pages_name_exist():
    missing = [
        (page.name, name)
        for page in PAGES
        for name in FILE.findall(page.read_text("utf-8"))
        if not (ROOT / name).exists()
    ]
    assert missing == []
