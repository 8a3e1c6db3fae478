"""`python -m gateway keys`, in a temporary run directory."""

import json
import shlex
import sys
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from gateway.__main__ import app
from gateway.access.keys import read_id
from tests import programs

pytestmark = pytest.mark.usefixtures("run")


def call(command: str) -> Result:
    return CliRunner().invoke(app, ["keys", *shlex.split(command)])


def add(options: str) -> str | None:
    """Add a key and return its id."""
    result = call(f"add --name :cat: {options}")
    assert result.exit_code == 0, result.output
    return read_id(result.stdout.strip())


def list_keys() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(call("list --json").stdout)
    return found


def test_a_key_is_listed_with_all_that_it_allows():
    key_id = add(
        "--characters-per-month 1000 --requests-per-minute 60 --burst 20 "
        "--routes '/translate,/v2/*' --share-cache"
    )
    (found,) = list_keys()
    assert found.pop("created_at").endswith("Z")
    assert found == {
        "id": key_id,
        "name": ":cat:",
        "characters_this_month": 0,
        "characters_per_month": 1000,
        "requests_per_minute": 60,
        "burst": 20,
        "routes": ["/translate", "/v2/*"],
        "shares_cache": True,
        "revoked_at": None,
    }


def test_the_table_says_what_the_json_does():
    key_id = add("--characters-per-month 1000")
    assert call("revoke :cat:").exit_code == 0
    (found,) = list_keys()
    assert found["revoked_at"] >= found["created_at"]
    shown = call("list").stdout
    for part in (str(key_id), ":cat:", "1,000", "all", "revoked 20"):
        assert part in shown


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ("revoke nobody", 1, "There is no active key 'nobody'"),
        ("revoke \udcff", 1, "There is no active key '\\udcff'"),
        ("add", 2, "Missing option '--name'"),
        ("add --name 'a\nb'", 2, "1 to 200 printable"),
        ("add --name a --requests-per-minute 0", 2, "greater than or equal to 1"),
        ("add --name a --characters-per-month many", 2, "unable to parse"),
        ("add --name a --routes v2", 2, "expected a path"),
    ],
)
def test_what_cannot_be_done_is_told(arguments, code, said):
    result = call(arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert said in " ".join(result.stderr.replace("│", "").split())


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("BABELGATE_DATABASE_URL", "mysql://a:secret@b/c", "mysql://a:***@b/c"),
        ("BABELGATE_DATABASE_URL", "sqlite:////proc/none/a", "cannot be used"),
        ("BABELGATE_LIMITS_URL", "http://a:secret@b", "BABELGATE_LIMITS_URL"),
        ("BABELGATE_KEY", "required", "did you mean BABELGATE_KEYS?"),
    ],
)
def test_a_wrong_setting_is_told_without_its_password(monkeypatch, name, value, said):
    monkeypatch.setenv(name, value)
    result = call("list")
    assert result.exit_code == 1
    assert said in result.stderr
    assert "secret" not in result.stderr


@pytest.mark.parametrize("command", ["list", "list --json", "add --name a"])
def test_output_that_nothing_takes_is_told_without_a_traceback(command):
    keys = f"{sys.executable} -m gateway keys {command}"
    done = programs.call("sh", "-c", f"{keys} >/dev/full")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith("[Errno 28] No space left on device\n")
    assert "Traceback" not in done.stderr
