"""The baseline of comparisons, which answers as the original system did."""

import json
import zipfile
from pathlib import Path
from types import SimpleNamespace

import yaml

from benchmarks.compare.baseline import launch
from benchmarks.compare.baseline.gateway import create_app
from benchmarks.compare.baseline.handler import BaselineHandler
from models.phrasebook_recipe.phrasebook import MODEL as PHRASEBOOK
from tests.benchmarks.conftest import Server

ROW = {"src_lang": "en", "src_text": "Good morning.", "tgt_lang": "de"}


def test_the_handler_translates_a_batch_of_several_languages():
    handler = BaselineHandler()
    handler.initialize(
        SimpleNamespace(
            model_yaml_config={"handler": {"model_path": str(PHRASEBOOK)}},
            system_properties={"gpu_id": None},
            model_name="de",
        )
    )
    french = {"src_lang": "fr", "src_text": "Merci.", "tgt_lang": "de"}
    answers = handler.handle([{"body": ROW}, {"body": french}], None)
    texts = [answer["translated"].rstrip(".") for answer in answers]
    assert texts == ["Guten Morgen", "Danke"]


def test_the_gateway_forwards_to_the_model_of_the_language(server: Server):
    client = create_app(f"{server.url}/predictions").test_client()
    response = client.post("/", data=json.dumps(ROW))
    assert response.status_code == 200
    assert response.get_json() == {"translated": "Hallo"}
    assert server.asked == [("/predictions/de", ROW)]


def test_there_is_an_archive_per_language(tmp_path: Path):
    run = tmp_path / "run"
    launch.lay_out(run, {"de": "cpu", "fr": "2"}, tmp_path / "model", 500)
    store = run / "torchserve/store"
    assert sorted(path.name for path in store.iterdir()) == ["de.mar", "fr.mar"]
    with zipfile.ZipFile(store / "fr.mar") as archive:
        manifest = json.loads(archive.read("MAR-INF/MANIFEST.json"))
        config = yaml.safe_load(archive.read("model-config.yaml"))
    assert manifest["model"]["modelName"] == "fr"
    assert (config["deviceType"], config["deviceIds"]) == ("gpu", [2])
    assert config["handler"] == {"model_path": str(tmp_path / "model")}
    assert "listen 127.0.0.1:8277" in (run / "nginx.conf").read_text()
    assert ":10499" in (run / "torchserve/config.properties").read_text()
