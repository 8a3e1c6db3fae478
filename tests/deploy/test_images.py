"""The Containerfile agrees with the repository, and a build gets pip's configuration."""

import re

import pytest

from deploy.images import (
    CONTAINERFILE,
    list_places,
    parse_pip_options,
    write_pip_configuration,
)
from deploy.stack import ROOT

TEXT = CONTAINERFILE.read_text("utf-8")
#: The files that the final stage copies from the repository.
COPIED = re.findall(r"(?m)^COPY (?!--from)(\S+) ", TEXT.rpartition("FROM ")[2])
#: Packages that no program in a container needs: they are run elsewhere, or by hand.
LEFT_OUT = {"benchmarks", "models", "tests"}

LISTED = """\
:env:.cert='/etc/ssl/certs/ca.crt'
:env:.retries='one'
global.retries='two'
global.exists-action='three four'
freeze.timeout='10'
"""


def test_what_is_copied_exists_and_no_package_is_missing():
    assert [name for name in COPIED if not (ROOT / name).exists()] == []
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages - LEFT_OUT <= set(COPIED)


def test_the_models_that_ship_are_in_the_image_without_their_recipes():
    models = {name for name in COPIED if name.startswith("models/")}
    found = [*ROOT.glob("models/*/config.json"), *ROOT.glob("models/*/*/config.json")]
    assert models == {"/".join(path.relative_to(ROOT).parts[:2]) for path in found}


def test_the_containerfile_names_no_registry_and_no_root():
    assert set(re.findall(r"https?://[^/\"\s]+", TEXT)) == {"http://127.0.0.1:8888"}
    assert re.findall(r"^USER (.*)$", TEXT, re.MULTILINE) == ["10001:10001"]
    assert re.findall(r"^ARG (.*)$", TEXT, re.MULTILINE) == ["BASE=python:3.11-slim"]


def test_pip_in_the_build_gets_this_machines_options_once():
    assert write_pip_configuration(parse_pip_options(LISTED)) == (
        "[global]\ncert = /mnt/etc/ssl/certs/ca.crt\nretries = two\n"
        "exists-action = three four\n"
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("file://{0}/index/simple", ["{0}/index"], id="an index's files"),
        pytest.param("{0}/ca.crt {0}/wheels", ["{0}/ca.crt", "{0}/wheels"], id="two"),
        pytest.param("https://other.invalid/packages", [], id="of another machine"),
        pytest.param("{0}/gone", [], id="a folder that is not there"),
        pytest.param("30", [], id="no path"),
    ],
)
def test_a_build_sees_the_folders_that_pip_names(tmp_path, value, expected):
    (tmp_path / "wheels").mkdir()
    (tmp_path / "index/simple").mkdir(parents=True)
    (tmp_path / "ca.crt").touch()
    found = list_places([("option", value.format(tmp_path))])
    assert found == [path.format(tmp_path) for path in expected]
