"""The house's rules, checked on the source: imports follow the request, code stays small."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = sorted({path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"})

#: What each room may import of the others; a longer name wins over a shorter one.
ALLOWED = {
    "contract": set(),
    "text": set(),
    "catalog": {"handlers.engine"},
    "gateway": {
        *("catalog", "text", "torchserve_backend.management"),
        "gateway.backends.embedded",
        *("documents.budget", "documents.errors", "documents.formats"),
        *("documents.pages", "documents.paths", "documents.postgresql"),
        "documents.storage",
    },
    "gateway.backends.embedded": {
        *("catalog", "gateway"),
        *("handlers.base", "handlers.engine", "handlers.microbatcher"),
    },
    "torchserve_backend": {"catalog", "handlers.engine"},
    "ray_backend": {"catalog", "handlers", "ray_backend.bulk.command"},
    "ray_backend.bulk": {
        *("clients", "gateway.errors", "gateway.schemas", "ray_backend"),
        *("catalog", "handlers", "text"),
    },
    "handlers": {"handlers.engine"},
    "handlers.engine": set(),
    "models": {"handlers.engine"},
    "deploy": {
        "catalog",
        *("gateway.settings", "handlers.engine", "ray_backend", "torchserve_backend"),
        "documents.paths",
    },
    "benchmarks": {
        "catalog",
        *("clients", "handlers.base", "handlers.engine", "models", "deploy"),
        *("handlers.microbatcher", "ray_backend", "torchserve_backend"),
    },
    "clients": set(),
    "documents": {"text"},
}
MODEL_LIBRARIES = {"torch", "transformers", "ctranslate2", "sentencepiece"}
#: Packages that a room must not need.
FORBIDDEN = {
    "text": {*MODEL_LIBRARIES, "flask", "gevent", "requests", "sqlalchemy", "urllib3"},
    "gateway": {*MODEL_LIBRARIES, "ray", "ts"},
    "gateway.backends.embedded": {*MODEL_LIBRARIES, "ray", "ts"},
    "handlers": {"flask", "gunicorn", "gevent", "ray", "requests"},
    "handlers.engine": {"flask", "gunicorn", "gevent", "ray", "requests", "ts"},
    "ray_backend": {"flask", "gunicorn", "gevent", "ts"},
    "clients": {"flask", "torch", "transformers", "ctranslate2", "ts"},
    "documents": {"flask", "gunicorn", "gevent", "ts", *MODEL_LIBRARIES},
    "catalog": MODEL_LIBRARIES,
}
#: The gateway's rooms, from the ground up: each may import those before it.
GATEWAY = (
    "gateway.redaction",
    "gateway.errors",
    "gateway.problems",
    "gateway.openapi",
    "gateway.schemas",
    "gateway.settings",
    "gateway.metrics.registry",
    "gateway.http",
    "gateway.shared_memory",
    "gateway.database",
    "gateway.access",
    "gateway.glossaries",
    "gateway.backends",
    "gateway.admission",
    "gateway.metrics.collectors",
    "gateway.services",
    "gateway.metrics.status",
    "gateway.assets",
    "gateway.uploads",
    "gateway.backends.embedded",
    "gateway.load_shedding",
    "gateway.api",
    "gateway.app",
    "gateway.gunicorn",
)
#: The only file that makes things durable, and what no other one calls.
DURABLE = "contract/durable.py"
DURABLE_CALLS = (
    *(".fsync", ".fdatasync", "os.replace", "os.rename", "shutil.move"),
    *(".flock", ".lockf", ".commit"),
)
MAX_FILE_LINES, MAX_FUNCTION_LINES, MAX_DEPTH, MAX_POSITIONAL = 600, 60, 3, 4
#: Commands whose signatures are their many options.
LONG = {"clients/__main__.py: caption", "ray_backend/bulk/command.py: command"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class File:
    """A Python file of ours, parsed once."""

    path: Path
    text: str

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @property
    def module(self) -> str:
        return ".".join(self.path.relative_to(ROOT).with_suffix("").parts)

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def statements(self) -> list[ast.AST]:
        """All of them, those within others included."""
        return list(walk(self.tree))

    @cached_property
    def imports(self) -> list[str]:
        """Every imported module, `from a import b` as `a.b`."""
        return list(list_imports(self.statements))

    @cached_property
    def needs(self) -> list[str]:
        """What is imported when the module is, not when a function runs."""
        return list(list_imports(self.tree.body))

    @property
    def functions(self) -> Iterator[Function]:
        """Every function, methods included."""
        return (node for node in self.statements if isinstance(node, Function))


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """All that is below a node, but for expressions, which hold no statement."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr):
            yield child
            yield from walk(child)


def list_imports(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def read_files(*rooms: str) -> list[File]:
    paths = sorted(path for room in rooms for path in (ROOT / room).rglob("*.py"))
    return [File(path, path.read_text("utf-8")) for path in paths]


SOURCES = read_files(*ROOMS)
ALL = SOURCES + read_files("tests")
MODULES = {file.module: file for file in SOURCES}


def room_of(module: str, rooms: Iterable[str]) -> str | None:
    """The most specific room that a module is in."""
    parts = module.split(".")
    candidates = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
    return next((candidate for candidate in candidates if candidate in rooms), None)


@cache
def find_owner(module: str) -> File | None:
    """The file of ours that an import reads."""
    return MODULES.get(room_of(module, MODULES) or "")


def depth(node: ast.AST) -> int:
    """How deep blocks are nested below a node; `elif` is not one deeper."""
    blocks = ast.If | ast.For | ast.While | ast.With | ast.Try | ast.Match
    deepest = 0
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function | ast.ClassDef | ast.expr):
            continue
        is_elif = isinstance(node, ast.If) and child in node.orelse
        is_block = isinstance(child, blocks) and not is_elif
        deepest = max(deepest, depth(child) + is_block)
    return deepest


def count_lines(function: Function) -> int:
    """Lines from the signature to the end, without the docstring."""
    docstring = function.body[0] if ast.get_docstring(function) else None
    count = (function.end_lineno or 0) - function.lineno + 1
    if docstring:
        count -= (docstring.end_lineno or 0) - docstring.lineno + 1
    return count


def test_imports_follow_the_request():
    offenders = []
    for file in SOURCES:
        room = room_of(file.module, ALLOWED)
        assert room is not None, file.name
        for module in file.imports:
            other = room_of(module, ALLOWED)
            if other in (None, room, "contract"):
                continue
            if room_of(module, ALLOWED[room]) is None:
                offenders.append(f"{file.name}: {room} must not import {module}")
    assert offenders == []


def test_nobody_imports_a_command_line():
    doors = [
        (file.name, m) for file in SOURCES for m in file.imports if "__main__" in m
    ]
    assert doors == []


def test_no_room_of_the_gateway_calls_back():
    offenders = []
    for file in SOURCES:
        room = room_of(file.module, GATEWAY)
        for module in file.imports if room else ():
            other = room_of(module, GATEWAY)
            if other and GATEWAY.index(other) > GATEWAY.index(room or ""):
                offenders.append(f"{file.name}: {room} must not import {module}")
    assert offenders == []


def test_the_ground_floor_needs_the_standard_library_only():
    files = [file for file in SOURCES if file.module.startswith("contract")]
    needed = {module.split(".")[0] for file in files for module in file.imports}
    assert needed - set(sys.stdlib_module_names) == {"contract"} & needed


def test_one_module_makes_things_durable():
    offenders = [
        f"{file.name}:{node.lineno}"
        for file in SOURCES
        if file.name != DURABLE
        for node in ast.walk(file.tree)
        if isinstance(node, ast.Call) and is_durable(node)
    ]
    assert offenders == []


def is_durable(call: ast.Call) -> bool:
    """Whether a call syncs, renames, locks or commits by itself."""
    name = ast.unparse(call.func)
    if name.startswith("durable."):
        return False
    is_of_path = name.endswith((".rename", ".replace")) and len(call.args) == 1
    return is_of_path or name.endswith(DURABLE_CALLS)


def test_a_room_does_not_need_what_belongs_elsewhere():
    offenders = []
    for file in SOURCES:
        forbidden = FORBIDDEN.get(room_of(file.module, FORBIDDEN) or "")
        if not forbidden:
            continue
        needed = {module.split(".")[0] for module in (*file.imports, *reach(file))}
        offenders += [f"{file.name}: {module}" for module in needed & forbidden]
    assert offenders == []


def reach(file: File) -> set[str]:
    """All that is imported with a file, by whatever it imports in turn."""
    found: set[str] = set()
    waiting = list(file.needs)
    while waiting:
        module = waiting.pop()
        if module in found:
            continue
        found.add(module)
        owner = find_owner(module)
        if owner:
            waiting += owner.needs
    return found


def test_files_are_short():
    counts = {file.name: len(file.text.splitlines()) for file in ALL}
    assert [name for name, count in counts.items() if count > MAX_FILE_LINES] == []


def test_functions_are_short_and_flat():
    offenders = {
        f"{file.name}: {function.name}"
        for file in ALL
        for function in file.functions
        if count_lines(function) > MAX_FUNCTION_LINES or depth(function) > MAX_DEPTH
    }
    assert offenders - LONG == set()


def test_few_parameters_are_positional():
    offenders = [
        f"{file.name}: {function.name}"
        for file in SOURCES
        for function in file.functions
        # A command's options have names on the command line.
        if not function.decorator_list
        and len([a for a in function.args.args if a.arg not in ("self", "cls")])
        > MAX_POSITIONAL
    ]
    assert offenders == []


def test_modules_open_with_what_they_are_for():
    offenders = [f.name for f in ALL if f.text and not ast.get_docstring(f.tree)]
    assert offenders == []


def test_files_are_named_after_what_they_hold():
    vague = {"utils", "util", "common", "helpers", "helper", "manager", "misc"}
    assert [file.name for file in ALL if file.path.stem in vague] == []


def test_public_functions_and_classes_say_what_they_do():
    offenders = [
        f"{file.name}: {node.name}"
        for file in SOURCES
        for node in file.tree.body
        if isinstance(node, Function | ast.ClassDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
    ]
    assert offenders == []


def test_five_files_and_the_management_client_know_torchserve():
    known = {
        "contract/rows.py",
        "handlers/base.py",
        "torchserve_backend/archiver.py",
        "torchserve_backend/registrar.py",
        "torchserve_backend/management.py",
    }
    marks = ("/predictions/", "set_response_status", "jobQueueSize", "min_worker=")
    found = {file.name for file in SOURCES if any(mark in file.text for mark in marks)}
    assert found <= known
