"""Pages, docstrings and comments are plain English, and pages name files that exist."""

import ast
import re
from collections.abc import Iterable, Iterator

from tests.test_architecture import ALL, PACKAGES, PAGES, ROOT, SOURCES

#: Words that a sentence does not begin with, phrases that have a shorter form, and old
#: names of ours for things that have a name of their own.
AWKWARD = re.compile(
    r"(?:^|[.!?:;|]\s+|\n\s*[-*]\s|\n\n)(?:Of|Who)\s"
    r"|(?i:so many|at the most|\b(?:anew|save where|in vain|no word on|bears|whoever"
    r"|what is told|lanes?|crowd|rooms|(?:the|our|a) (?:room|doors?|house))\b)"
)
#: Beginnings of a docstring without a head.
HEADLESS = re.compile(
    r"\A(?:What(?:ever)?|Who(?:ever|se)?|As (?:many|much|long)|Those"
    r"|None where|As `|All that)\b"
)
#: A question is no head either.
CLAUSE = re.compile(r"\A(?:How|Where|When|Which|Why)\b")
CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
#: `text/html` and `text/plain` are types of media.
FOLDERS = "|".join((*PACKAGES, "docs", "nginx", "tests"))
FILE = re.compile(rf"`((?!text/(?:html|plain)`)(?:{FOLDERS})/[\w./-]+)`")
#: Configuration files, with comments on separate lines or after the code.
CONFIGURATION = (
    "Makefile", "pyproject.toml", "constraints.txt", "nginx/*.conf",
    "deploy/**/*.conf", "deploy/**/*.y*ml", "deploy/image/*",
    "torchserve_backend/*.properties", "benchmarks/**/*.yaml", "gateway/page/*.js",
)  # fmt: skip


def list_docstrings() -> Iterator[tuple[str, str]]:
    """Yield every docstring with its file."""
    for file in ALL:
        for node in (file.tree, *file.statements):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                yield file.name, ast.get_docstring(node) or ""


def list_comments() -> Iterator[tuple[str, str]]:
    """Yield every comment with its file; adjacent comment lines are one comment."""
    for file in ALL:
        for found in re.findall(r"(?m)(?:^ *#.*\n)+|  # .*$", file.text):
            yield file.name, re.sub(r"(?m)^ *#:? ?", "", found)


def list_texts() -> Iterator[tuple[str, str]]:
    """Yield every page, docstring and comment with its file, without the code in it."""
    for page in PAGES:
        yield page.name, CODE.sub("", page.read_text("utf-8"))
    for name, text in (*list_docstrings(), *list_comments()):
        yield name, CODE.sub("", text)
    for pattern in CONFIGURATION:
        for path in ROOT.glob(pattern):
            comments = re.findall(r"(?m)(?:^|\s)(?:#|//|;) .*", path.read_text("utf-8"))
            yield path.name, "\n".join(comments)


def find(pattern: re.Pattern[str], texts: Iterable[tuple[str, str]]) -> list[str]:
    return [
        f"{name}: {text[match.start() : match.end() + 40]}"
        for name, text in texts
        for match in pattern.finditer(text)
    ]


def test_sentences_are_plain():
    assert find(AWKWARD, list_texts()) == []


def test_docstrings_begin_with_a_verb_or_a_noun():
    assert find(HEADLESS, (*list_docstrings(), *list_comments())) == []
    assert find(CLAUSE, list_docstrings()) == []


def test_docstrings_of_functions_are_not_in_the_third_person():
    """A function "writes" where another one's docstring begins with "Write"."""
    first = [
        (file.name, text.split()[0])
        for file in SOURCES
        for node in file.statements
        if isinstance(node, ast.FunctionDef) and (text := ast.get_docstring(node))
    ]
    words = {word for _, word in first} - {"It"}
    stems = ((each, each[1].removesuffix("s")) for each in first)
    assert [each for each, stem in stems if stem != each[1] and stem in words] == []


def test_files_that_pages_name_exist():
    missing = [
        (page.name, name)
        for page in PAGES
        for name in FILE.findall(page.read_text("utf-8"))
        if not (ROOT / name).exists()
    ]
    assert missing == []
