"""Packages that only some programs need: each is declared where it is imported, make verbs add
it (checked by a dry run), and a program without it prints the command that installs it.
"""

import itertools
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from deploy.stack import ROOT
from tests.programs import run
from tests.test_architecture import ALL, File, find_package

EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())[
    "project"
]["optional-dependencies"]
#: Our packages, and the extras of a machine that runs them.
RUN_WITH = {
    "clients": "clients",
    "clients.decoding": "clients+captioner",
    "clients.parquet": "clients+parquet",
    "contract": "clients",
    "contract.tracing": "otel",
    "gateway": "gateway",
    "text": "gateway",
    "documents": "gateway",
    "handlers": "engine",
    "catalog": "engine gateway",
    "torchserve_backend": "stack",
    "deploy": "stack",
    "models": "stack",
    "ray_backend": "cluster+stack",
    "benchmarks": "dev",
    "tests": "dev",
}
#: Programs with their own environments.
APART = ("benchmarks/compare/peers/serve", "tests/e2e/foreign")

URL = "BABELGATE_LIMITS_URL=redis://127.0.0.1:6379"


@pytest.mark.parametrize(
    ("given", "extras"),
    [
        ("up", []),
        ("up BACKEND=ray", ["cluster"]),
        ("join HEAD=10.0.0.1", ["cluster"]),
        ("service BACKEND=ray", ["cluster"]),
        ("service HEAD=10.0.0.1", ["cluster"]),
        (f"up BABELGATE_IDENTIFIER=lingua {URL}", ["lingua", "redis"]),
        ("up OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318", ["otel"]),
        *((verb, ["dev"]) for verb in ("test", "quick", "check", "image", "bench")),
        (".venv/ready-parquet", ["parquet"]),
    ],
)
def test_a_verb_adds_the_packages_that_it_needs(tmp_path, given, extras):
    commands = list_commands(tmp_path, given)
    assert commands.count("-m venv ") == 1
    assert re.findall(r"Adding the Python packages for \"(\w+)\"", commands) == extras
    assert re.findall(r"--editable '\.\[(\w+)\]'", commands) == ["stack", *extras]


@pytest.mark.parametrize("verb", ["up", "service"])
def test_a_unit_gets_the_options_of_a_start(tmp_path, verb):
    given = "MODEL=a CONFIG=b ADDRESS=c TLS=d,e BACKEND=ray"
    options = '--model "a" --map "b" --address "c" --tls "d,e" --backend "ray"'
    assert options in list_commands(tmp_path, f"{verb} {given}")


def test_a_start_after_an_upgrade_renews_the_packages_that_were_added(tmp_path):
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv/ready-cluster").touch()
    assert "'.[cluster]'" in list_commands(tmp_path, "up")


def list_commands(folder: Path, given: str) -> str:
    """Return the commands that make would run for a target in an empty clone."""
    for name in ("pyproject.toml", "constraints.txt"):
        (folder / name).touch()
    place = ("--directory", str(folder), "--file", str(ROOT / "Makefile"))
    arguments = ["--dry-run", "--always-make", *given.split()]
    return run("make", *place, *arguments, env={"PATH": os.environ["PATH"]})


@pytest.mark.parametrize(
    ("module", "missing", "extra"),
    [("ray_backend", "obstore", "cluster"), ("benchmarks", "simpy", "dev")],
)
def test_a_program_says_in_one_line_what_installs_its_packages(
    tmp_path, module, missing, extra
):
    said = f"No module named '{missing}'"
    (tmp_path / f"{missing}.py").write_text(f'raise ModuleNotFoundError("{said}")')
    done = subprocess.run(
        [sys.executable, "-m", module, "--help"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr == f"{said}: `make .venv/ready-{extra}` installs it.\n"


def test_every_import_is_declared_where_it_is_needed():
    distributions = packages_distributions()
    undeclared = {
        f"{file.name}: {name} in {extra}"
        for file in ALL
        if not file.name.startswith(APART)
        for name, extra in list_needs(file)
        if list_declared(extra).isdisjoint(map(normalize, distributions.get(name, [])))
    }
    assert undeclared == set()


def list_needs(file: File) -> Iterator[tuple[str, str]]:
    """Yield each foreign module that a file imports, with the extras that must have its
    package. A function may import a package that its program can do without."""
    extras = RUN_WITH[find_package(file.module, RUN_WITH) or ""].split()
    known = {*sys.stdlib_module_names, *RUN_WITH}
    needed = {module.partition(".")[0] for module in file.needs} - known
    later = {module.partition(".")[0] for module in file.imports} - known - needed
    yield from itertools.product(needed, extras)
    yield from itertools.product(later, ["+".join(EXTRAS)])


@cache
def list_declared(extras: str) -> set[str]:
    """Return the packages of extras, including those of nested extras."""
    found: set[str] = set()
    for extra in extras.split("+"):
        for requirement in EXTRAS[extra]:
            name, _, inner = requirement.rstrip("]").partition("[")
            if name == "babelgate":
                found |= list_declared(inner.replace(",", "+"))
            else:
                found.add(normalize(name))
    return found


def normalize(package: str) -> str:
    return package.lower().replace("_", "-")


def test_clients_need_no_model_library():
    assert list_declared("clients") & {"torch", "torchserve", "transformers"} == set()
