"""Installing, configuring, starting and stopping peers; Flask and LitServe get real requests.
Ray is not started: it needs 600 MB of packages and listens beyond the loopback interface."""

import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import requests

from benchmarks.compare.peers import launch
from benchmarks.compare.peers.launch import HERE, PEERS, prepare_peer, start_peer
from benchmarks.compare.peers.translator import load_handler
from benchmarks.instruments import running
from benchmarks.instruments.running import write_map
from deploy.launch import is_alive
from deploy.stack import ROOT, StackError
from handlers.base import Row

pytestmark = pytest.mark.slow

ROW = {"src_lang": "en", "src_text": "Good morning.", "tgt_lang": "de"}
LIMIT_S = 60


@pytest.mark.parametrize(
    ("name", "find_python", "processes"),
    [
        ("flask", lambda: Path(sys.executable), 2),
        ("litserve", partial(prepare_peer, "litserve"), 5),
    ],
    ids=["flask", "litserve"],
)
@pytest.mark.faults
def test_a_peer_serves_batches_and_leaves_nothing_behind(
    tiny, tmp_path, monkeypatch, name, find_python, processes
):
    python = find_python()  # from the permanent cache
    monkeypatch.setenv("BABELGATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    map_path = write_map(tmp_path / "map.json", {"max_batch_delay": 20})
    bodies = [{**ROW, "src_text": f"Good morning {n}."} for n in range(20)]
    with (
        start_peer(name, tmp_path / "run", map_path, tiny, python=python) as stack,
        ThreadPoolExecutor(20) as pool,
    ):
        ask = partial(requests.post, stack.url, timeout=LIMIT_S)
        answers = list(pool.map(lambda body: ask(json=body), bodies))
        refused = ask(json={**ROW, "tgt_lang": "tlh"})
        not_json = ask(data="{")
        leader = stack.leaders[name]
        family = [leader, *leader.children(recursive=True)]
    assert [answer.status_code for answer in answers] == [200] * 20
    handler = load_handler(launch.choose(map_path, tiny))
    expected = handler.answer([Row(body) for body in bodies]).results
    texts = [answer.json()["translated"] for answer in answers]
    assert texts == [each["translated"] for each in expected if isinstance(each, dict)]
    assert (refused.status_code, not_json.ok) == (422, False)
    assert len(family) == processes
    assert not any(map(is_alive, family))


def test_an_environment_is_made_once_and_again_for_other_versions(tmp_path: Path):
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("")
    python = launch.prepare_environment(requirements, tmp_path / "environment")
    stamp = python.lstat().st_mtime_ns
    assert launch.prepare_environment(requirements, tmp_path / "environment") == python
    assert python.lstat().st_mtime_ns == stamp
    requirements.write_text("/there/is/no/such.whl\n")
    with pytest.raises(StackError, match=r"install(?s:.*)such\.whl"):
        launch.prepare_environment(requirements, tmp_path / "environment")


def test_every_package_of_a_peer_is_pinned_once():
    text = (ROOT / "constraints.txt").read_text("utf-8")
    ours = {line.partition("==")[0].lower() for line in text.splitlines()}
    for name in PEERS:
        lines = (HERE / f"requirements-{name}.txt").read_text("utf-8").splitlines()
        for line in lines:
            package, pinned, _ = line.partition("==")
            assert bool(pinned) != (package.partition("[")[0].lower() in ours), line


@pytest.mark.parametrize(
    ("gpus", "engine"), [(0, "transformers"), (16, "ctranslate2")], ids=str
)
def test_what_a_peer_cannot_run_is_said(tmp_path, monkeypatch, gpus, engine):
    monkeypatch.setattr(running, "count_gpus", lambda: gpus)
    map_path = write_map(tmp_path / "map.json", {"engine": engine})
    with pytest.raises(StackError, match="CTranslate2 on the CPU"):
        launch.choose(map_path, tmp_path)
