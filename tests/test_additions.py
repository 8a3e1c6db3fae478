"""A new task takes one file per package and a line in `contract/`, another API one file and an
entry: a toy task and the API of CONTRIBUTING.md are added and used."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from contract.tasks import PATHS
from tests.handlers.encoding import write_image
from tests.programs import run
from tests.random_vision import draw_frames

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]

SECTION = """
from catalog.sections import VisionSection


class BrightnessSection(VisionSection):
    model: str = "MODEL"
"""
HANDLER = """
from handlers.base import Outcome, TaskHandler
from handlers.images import read_frame


class BrightnessHandler(TaskHandler[float]):
    def load_model(self, config):
        self.max_pixels = config.options["max_pixels"]

    def preprocess(self, row):
        return read_frame(row, self.max_pixels)

    def infer(self, items, deadline):
        results = [{"brightness": float(frame.mean()) / 255} for frame in items]
        return Outcome(results, {"BabelgateFrames": len(items)})
"""
ROUTE = """
from flask import Blueprint
from contract.tasks import PATHS
from gateway.openapi import Operation


def make_blueprints(services):
    blueprint = Blueprint("brightness", __name__)

    @blueprint.post(PATHS["brightness"])
    @Operation("How bright an image is", "brightness", takes="image")
    def measure(request):
        (answer,) = services.images.answer(request)
        return answer.content

    return [blueprint]
"""
ASK_TASK = """
import os, sys
from gateway.app import create_app
from gateway.settings import read_settings
client = create_app(read_settings()).test_client()
with open("image.png", "rb") as image:
    print(client.post("/brightness", data=image.read()).text, flush=True)
os._exit(0)
"""
ASK_API = """
import json, pathlib
from deploy.rendering import render_errors
from tests.gateway.conftest import serve_fake
with serve_fake(pathlib.Path.cwd()) as make:
    client = make()
    for target in ("ko", "xx"):
        answer = client.post("/short", json={"t": "Hello", "to": target})
        print(json.dumps([answer.status_code, answer.json]))
    shapes = client.get("/openapi.json").json["components"]["schemas"]
print(json.dumps(["ShortError" in shapes, "~/short/deadline$" in render_errors()]))
"""


def copy_packages(tree: Path, *packages: str) -> None:
    ignored = shutil.ignore_patterns("__pycache__")
    for package in packages:
        shutil.copytree(ROOT / package, tree / package, ignore=ignored)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_task_costs_a_file_per_package_and_a_line(tmp_path: Path):
    copy_packages(tmp_path, "catalog", "contract", "gateway", "handlers", "text")
    copy_packages(tmp_path, "torchserve_backend")
    last = f'"{PATHS["detection"]}",\n'
    new = f'{last}    "brightness": "/brightness",\n'
    edit(tmp_path / "contract/tasks.py", last, new)
    # The files that every model for images has.
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text('{"architectures": ["Brightness"]}')
    (model / "preprocessor_config.json").write_text('{"size": 8}')
    (model / "model.safetensors").touch()
    section = SECTION.replace("MODEL", str(model))
    (tmp_path / "catalog/sections/brightness.py").write_text(section)
    (tmp_path / "handlers/brightness.py").write_text(HANDLER)
    (tmp_path / "gateway/api/brightness.py").write_text(ROUTE)
    (tmp_path / "map.json").write_text('{"brightness": {"devices": "cpu"}}')
    (frame,) = draw_frames(1, height=8, width=8)
    (tmp_path / "image.png").write_bytes(write_image(frame))
    env = {"PATH": "", "GATEWAY_BACKEND": "embedded", "BABELGATE_MAP": "map.json"}
    said = run(sys.executable, "-c", ASK_TASK, cwd=tmp_path, env=env)
    assert json.loads(said) == {"brightness": frame.mean() / 255}


def test_an_api_costs_a_file_and_an_entry(tmp_path: Path):
    copy_packages(tmp_path, "contract", "deploy", "gateway")
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    section = page.partition("## Adding an API")[2].partition("\n## ")[0]
    entry, file = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    mark = "#: The APIs besides ours.\nFOREIGN = ("
    edit(tmp_path / "contract/dialects.py", mark, f"{entry}{mark}SHORT, ")
    (tmp_path / "gateway/api/short.py").write_text(file)
    env = {"PATH": "", "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    said = run(sys.executable, "-c", ASK_API, cwd=tmp_path, env=env)
    translated, refused, others = map(json.loads, said.splitlines())
    assert translated == [200, {"text": "ko:Hello"}]
    status, content = refused
    assert status == content["code"] == 400
    assert content["why"] == "wrong: to"
    assert content["detail"].startswith("found 'xx', expected one of")
    assert others == [True, True]
