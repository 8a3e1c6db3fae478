"""A new task is one file per package and one line in `contract/`: a toy is added and asked."""

from __future__ import annotations

import json
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
PACKAGES = ("catalog", "contract", "gateway", "handlers", "text", "torchserve_backend")

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
from contract.tasks import PATHS
from gateway.http.bodies import UploadBlueprint


def make_blueprints(services):
    blueprint = UploadBlueprint("brightness", __name__)

    @blueprint.post(PATHS["brightness"])
    def measure():
        (answer,) = services.images.answer("brightness", is_single=True)
        return answer.content

    return [blueprint]
"""
ASK = """
import os, sys
from gateway.app import create_app
from gateway.settings import read_settings
client = create_app(read_settings()).test_client()
with open("image.png", "rb") as image:
    print(client.post("/brightness", data=image.read()).text, flush=True)
os._exit(0)
"""


def add_brightness(tree: Path, model: Path) -> None:
    """The toy, in a copy of the packages."""
    for package in PACKAGES:
        shutil.copytree(
            ROOT / package, tree / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    tasks = tree / "contract/tasks.py"
    last = f'"{PATHS["detection"]}",\n'
    text = tasks.read_text("utf-8")
    assert last in text
    tasks.write_text(text.replace(last, f'{last}    "brightness": "/brightness",\n'))
    section = tree / "catalog/sections/brightness.py"
    section.write_text(SECTION.replace("MODEL", str(model)))
    (tree / "handlers/brightness.py").write_text(HANDLER)
    (tree / "gateway/api/brightness.py").write_text(ROUTE)


def write_model(model: Path) -> None:
    """A directory with what every model for images has."""
    model.mkdir()
    (model / "config.json").write_text('{"architectures": ["Brightness"]}')
    (model / "preprocessor_config.json").write_text('{"size": 8}')
    (model / "model.safetensors").touch()


def test_a_task_costs_a_file_per_package_and_a_line(tmp_path: Path):
    write_model(tmp_path / "model")
    add_brightness(tmp_path, tmp_path / "model")
    (tmp_path / "map.json").write_text('{"brightness": {"devices": "cpu"}}')
    (frame,) = draw_frames(1, height=8, width=8)
    (tmp_path / "image.png").write_bytes(write_image(frame))
    env = {"PATH": "", "GATEWAY_BACKEND": "embedded", "BABELGATE_MAP": "map.json"}
    said = run(sys.executable, "-c", ASK, cwd=tmp_path, env=env)
    assert json.loads(said) == {"brightness": frame.mean() / 255}
