"""The house's rules, checked on the source: imports follow the request, code stays small."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = (
    "gateway",
    "torchserve_backend",
    "handlers",
    "models",
    "deploy",
    "benchmarks",
    "clients",
)

#: What each room may import of the others; a longer name wins over a shorter one.
ALLOWED = {
    "gateway": {
        "gateway.embedded",
        "torchserve_backend.catalog",
        "torchserve_backend.checkpoint",
        "torchserve_backend.devices",
        "torchserve_backend.management",
    },
    "gateway.embedded": {
        "gateway",
        "handlers.base",
        "handlers.engine",
        "torchserve_backend",
    },
    "torchserve_backend": {"handlers.engine"},
    "handlers": {"handlers.engine"},
    "handlers.engine": set(),
    "models": {"handlers.engine"},
    "deploy": {"torchserve_backend", "handlers.engine"},
    "benchmarks": {
        "clients",
        "handlers.base",
        "handlers.engine",
        "models",
        "deploy",
        "torchserve_backend",
    },
    "clients": set(),
}
#: Packages that a room must not need.
FORBIDDEN = {
    "gateway": {"torch", "transformers", "ctranslate2", "sentencepiece", "ts"},
    "gateway.embedded": {"torch", "transformers", "ctranslate2", "sentencepiece", "ts"},
    "handlers": {"flask", "gunicorn", "gevent", "requests"},
    "handlers.engine": {"flask", "gunicorn", "gevent", "requests", "ts"},
    "clients": {"flask", "torch", "transformers", "ctranslate2", "ts"},
}
MAX_FILE_LINES, MAX_BODY_LINES, MAX_DEPTH, MAX_POSITIONAL = 400, 40, 3, 4
#: Functions over a budget, each with its reason.
EXCEPTIONS: dict[str, str] = {}

SOURCES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
Function = ast.FunctionDef | ast.AsyncFunctionDef


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def room_of(module: str, rooms: dict[str, set[str]]) -> str | None:
    """The most specific room that a module is in."""
    parts = module.split(".")
    candidates = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
    return next((candidate for candidate in candidates if candidate in rooms), None)


def imports_of(path: Path) -> Iterator[str]:
    """Every imported module, `from a import b` as `a.b`."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def functions_of(path: Path) -> Iterator[Function]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, Function):
            yield node


def depth(node: ast.AST) -> int:
    """How deep blocks are nested below a node; `elif` is not one deeper."""
    blocks = ast.If | ast.For | ast.While | ast.With | ast.Try | ast.Match
    deepest = 0
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function | ast.ClassDef):
            continue
        is_elif = isinstance(node, ast.If) and child in node.orelse
        is_block = isinstance(child, blocks) and not is_elif
        deepest = max(deepest, depth(child) + is_block)
    return deepest


def body_lines(function: Function) -> int:
    """Lines of the body without its docstring."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_imports_follow_the_request(path: Path):
    room = room_of(".".join(path.relative_to(ROOT).with_suffix("").parts), ALLOWED)
    assert room is not None
    for module in imports_of(path):
        if module.split(".")[0] not in ROOMS or room_of(module, ALLOWED) == room:
            continue
        is_allowed = any(
            f"{module}.".startswith(f"{entry}.") for entry in ALLOWED[room]
        )
        assert is_allowed, f"{room} must not import {module}"


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_a_room_does_not_need_what_belongs_elsewhere(path: Path):
    room = room_of(".".join(path.relative_to(ROOT).with_suffix("").parts), ALLOWED)
    assert room is not None
    needed = {module.split(".")[0] for module in imports_of(path)}
    assert not needed & FORBIDDEN.get(room, set())


@pytest.mark.parametrize("path", SOURCES + TESTS, ids=name)
def test_files_and_functions_stay_small(path: Path):
    text = path.read_text("utf-8")
    assert len(text.splitlines()) <= MAX_FILE_LINES
    for function in functions_of(path):
        where = f"{name(path)}:{function.name}"
        if where in EXCEPTIONS:
            continue
        assert body_lines(function) <= MAX_BODY_LINES, where
        assert depth(function) <= MAX_DEPTH, where


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_few_parameters_are_positional(path: Path):
    for function in functions_of(path):
        if function.decorator_list:
            continue  # a command's options have names on the command line
        parameters = [a.arg for a in function.args.args if a.arg not in ("self", "cls")]
        assert len(parameters) <= MAX_POSITIONAL, f"{name(path)}:{function.name}"


@pytest.mark.parametrize("path", SOURCES + TESTS, ids=name)
def test_a_module_opens_with_what_it_is(path: Path):
    text = path.read_text("utf-8")
    assert not text or ast.get_docstring(ast.parse(text)), name(path)


@pytest.mark.parametrize("path", SOURCES + TESTS, ids=name)
def test_files_are_named_after_what_they_hold(path: Path):
    vague = {"utils", "util", "common", "helpers", "helper", "manager", "misc"}
    assert path.stem not in vague


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_public_functions_and_classes_say_what_they_do(path: Path):
    tree = ast.parse(path.read_text("utf-8"))
    for node in tree.body:
        if isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_"):
            assert ast.get_docstring(node), f"{name(path)}:{node.name}"


def test_five_files_and_the_management_client_know_torchserve():
    known = {
        "gateway/backend.py",
        "handlers/base.py",
        "torchserve_backend/archiver.py",
        "torchserve_backend/registrar.py",
        "torchserve_backend/management.py",
    }
    marks = ("/predictions/", "set_response_status", "jobQueueSize", "min_worker=")
    found = {
        name(path)
        for path in SOURCES
        if any(mark in path.read_text("utf-8") for mark in marks)
    }
    assert found <= known
