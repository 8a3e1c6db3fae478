"""Packages that only some programs need: each is declared where it is imported, make verbs add
it (checked by a dry run), and a program without it prints the command that installs it."""

import hashlib
import itertools
import os
import re
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from deploy.stack import ROOT
from tests.programs import call, run
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


def test_a_stop_forgets_only_if_that_is_wanted(tmp_path):
    stops = [list_commands(tmp_path, f"down FORGET={said}") for said in ("yes", "no")]
    assert ["--forget" in each for each in stops] == [True, False]


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


def test_every_pinned_package_but_pytorch_has_hashes():
    pinned = (ROOT / "constraints.txt").read_text("utf-8")
    pinned = pinned.replace("_", "-").replace("zope.", "zope-")
    text = (ROOT / "hashes.txt").read_text("utf-8")
    hashed = set(re.findall(r"^(\S+) \\\n    --hash=", text, re.MULTILINE))
    (torch,) = set(pinned.split()) ^ hashed
    assert torch.startswith("torch==")


@pytest.mark.parametrize("is_other", [False, True], ids=["the same", "another"])
def test_make_installs_a_package_only_with_its_hash(tmp_path, is_other):
    with zipfile.ZipFile(tmp_path / "small-1-py3-none-any.whl", "w") as wheel:
        for name, text in (
            ("METADATA", "Metadata-Version: 2.1\nName: small\nVersion: 1\n"),
            ("WHEEL", "Wheel-Version: 1.0\n"),
            ("RECORD", ""),
        ):
            wheel.writestr(f"small-1.dist-info/{name}", text)
    digest = hashlib.sha256(Path(wheel.filename or "").read_bytes() + b"x" * is_other)
    project = "[project]\nname='a'\nversion='1'\noptional-dependencies={x=['small']}"
    (tmp_path / "pyproject.toml").write_text(project)
    (tmp_path / "constraints.txt").write_text("small==1")
    line = f"small==1 --hash=sha256:{digest.hexdigest()}"
    (tmp_path / "hashes.txt").write_text(line)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv/ready").touch()
    asked = ("make", "-C", tmp_path, "-f", ROOT / "Makefile", ".venv/ready-x")
    options = {"PIP_DRY_RUN": "1", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}
    environment = os.environ | options
    done = call(*asked, f"BIN={sys.prefix}/bin", "COMPILE=true", env=environment)
    assert ("DO NOT MATCH THE HASHES" in done.stderr) is is_other, done.stderr
    assert (done.returncode != 0) is is_other


@pytest.mark.parametrize(
    ("module", "missing", "extra"),
    [("ray_backend", "obstore", "cluster"), ("benchmarks", "simpy", "dev")],
)
def test_a_program_says_in_one_line_what_installs_its_packages(
    tmp_path, module, missing, extra
):
    said = f"No module named '{missing}'"
    (tmp_path / f"{missing}.py").write_text(f'raise ModuleNotFoundError("{said}")')
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = call(sys.executable, "-m", module, "--help", env=environment)
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
