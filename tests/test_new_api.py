"""Another API is one file and one entry: those of CONTRIBUTING.md are added and asked."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.programs import run

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PACKAGES = ("contract", "deploy", "gateway")
ASK = """
import json, pathlib
from deploy.rendering import render_errors
from tests.gateway.conftest import LANGUAGES, make_clients, write_map
from tests.gateway.fake_torchserve import FakeTorchServe
folder = pathlib.Path.cwd()
models = write_map(folder / "map.json", LANGUAGES, ())
with FakeTorchServe(folder / "key") as fake, make_clients(fake, models, folder) as make:
    client = make()
    for target in ("ko", "xx"):
        answer = client.post("/short", json={"t": "Hello", "to": target})
        print(json.dumps([answer.status_code, answer.json]))
    shapes = client.get("/openapi.json").json["components"]["schemas"]
print(json.dumps(["ShortError" in shapes, "~/short/deadline$" in render_errors()]))
"""


def read_example() -> tuple[str, str]:
    """The entry and the file of the section in CONTRIBUTING.md."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    section = text.partition("## Adding an API")[2].partition("\n## ")[0]
    entry, file = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    return entry, file


def test_an_api_costs_a_file_and_an_entry(tmp_path: Path):
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, tmp_path / package, ignore=ignored)
    entry, file = read_example()
    dialects = tmp_path / "contract/dialects.py"
    text = dialects.read_text("utf-8")
    before, mark, after = text.partition("#: The APIs beside ours.\nFOREIGN = (")
    assert mark
    dialects.write_text(f"{before}{entry}{mark}SHORT, {after}")
    (tmp_path / "gateway/api/short.py").write_text(file)
    env = {"PATH": "", "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    said = run(sys.executable, "-c", ASK, cwd=tmp_path, env=env)
    translated, refused, others = map(json.loads, said.splitlines())
    assert translated == [200, {"text": "ko:Hello"}]
    status, content = refused
    assert status == content["code"] == 400
    assert content["why"].startswith("wrong: to: found 'xx', expected one of")
    assert others == [True, True]
