"""The gateway alone with the model that ships in it, as docs/embedded.md starts it."""

import json
import re
import signal
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests

import catalog
from contract.languages import normalize_language
from contract.tasks import CAPTIONING, CLASSIFICATION, DETECTION
from deploy.stack import ROOT
from tests import random_vision
from tests.e2e.real_stack import is_ready, read_metric, wait_until, write_command
from tests.gateway.test_gunicorn import is_alive, serve
from tests.handlers.encoding import write_image

LIMIT_S = 120
#: A batch that waits this long for more rows fails its test.
FOR_EVER_MS = 10 * LIMIT_S * 1000
BATCH = 64
#: The page's command, which `serve` runs.
COMMAND = (
    "\nGATEWAY_BACKEND=embedded .venv/bin/gunicorn --config gateway/gunicorn.conf.py "
    '"gateway.app:create_app()"\n'
)
#: Variables of a gateway in a stack.
OTHERS = ("BABELGATE_SENTENCES_AT_ONCE", "PROMETHEUS_MULTIPROC_DIR", "WEB_CONCURRENCY")
GREETING = {"src_lang": "en", "src_text": "Good morning", "tgt_lang": "fr"}
#: A sentence that is slow to translate, in as many wordings as a batch has rows.
LONG = [
    f"where is station number {n} please and how much is a ticket to stop {n} " * 3
    for n in range(BATCH)
]


@dataclass(frozen=True)
class Gateway:
    url: str
    master: psutil.Popen
    log: Path

    def ask(self, route: str = "/translate", **body: Any) -> requests.Response:
        limit = {"X-Timeout-Ms": str(body.pop("timeout_ms", LIMIT_S * 1000))}
        row, url = GREETING | body, self.url + route
        return requests.post(url, json=row, headers=limit, timeout=LIMIT_S)

    def show(self, route: str, image: bytes) -> requests.Response:
        return requests.post(self.url + route, data=image, timeout=LIMIT_S)

    def count(self, name: str) -> float:
        return read_metric(f"{self.url}/metrics", name)


@contextmanager
def start(
    folder: Path, cache: Path, **sections: Mapping[str, Any]
) -> Iterator[Gateway]:
    """Start Gunicorn by the page's command; yield once the models are loaded."""
    content = json.loads(catalog.MAP.read_text("utf-8")) | sections
    map_path = folder / "embedded.json"
    map_path.write_text(json.dumps(content))
    assert COMMAND in (ROOT / "docs/embedded.md").read_text("utf-8")
    variables = {
        **dict.fromkeys(OTHERS, ""),
        "GATEWAY_BACKEND": "embedded",
        "BABELGATE_MAP": str(map_path),
        "BABELGATE_CACHE": str(cache),
        "BABELGATE_TIMEOUT_S": str(LIMIT_S),
    }
    with serve(folder, **variables) as (url, master):
        wait_until(lambda: is_ready(url))
        yield Gateway(url, master, folder / "log")


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[Gateway]:
    """A gateway that answers only when a batch is full."""
    section = {"batch_size": BATCH, "max_batch_delay": FOR_EVER_MS}
    folder = tmp_path_factory.mktemp("patient")
    with start(folder, cache, translation=section) as running:
        yield running


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[Gateway]:
    """A gateway with random models for each task on images."""
    builders = {
        CAPTIONING: random_vision.build_blip2,
        CLASSIFICATION: random_vision.build_resnet,
        DETECTION: random_vision.build_rt_detr,
    }
    sections = {
        task: {"model": str(build(tmp_path_factory.mktemp(task))), "devices": "cpu"}
        for task, build in builders.items()
    }
    with start(tmp_path_factory.mktemp("embedded"), cache, **sections) as running:
        yield running


@pytest.fixture
def clients() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(BATCH) as pool:
        yield pool


def test_texts_and_documents_are_translated_by_one_process(gateway: Gateway):
    assert gateway.ask("/").json() == {"translated": "Bonjour"}
    assert gateway.ask(src_text="Thanks", timeout_ms=20).status_code in (429, 504)
    texts = ["Good morning", "Thank you", "Good morning"]
    answer = gateway.ask(src_text=texts).json()["translated"]
    assert answer == ["Bonjour", "Merci", "Bonjour"]
    document = "Good morning.\n\n  Thank you! See https://example.org/.\n"
    translated = gateway.ask(src_text=document).json()["translated"]
    assert translated.startswith("Bonjour")
    assert "\n\n  Merci" in translated
    assert "https://example.org/" in translated
    commands = map(write_command, gateway.master.children(recursive=True))
    is_reader = ["gateway.services.reader" in one for one in commands if one]
    assert sorted(is_reader) in ([False], [False, True])


def test_every_language_is_served_by_one_model(gateway: Gateway):
    languages = requests.get(f"{gateway.url}/languages", timeout=LIMIT_S).json()
    assert all(language["ready"] for language in languages)
    assert len({normalize_language(row["code"]) for row in languages}) == 14
    for language in languages:
        target = language["code"]
        source = "fr" if target == "en" else "en"
        text = "Bonjour" if target == "en" else "Good morning"
        answer = gateway.ask(src_lang=source, src_text=text, tgt_lang=target)
        assert answer.json()["translated"] not in ("", text)
    metrics = requests.get(f"{gateway.url}/metrics", timeout=LIMIT_S).text
    queues = re.findall(r"^babelgate_queued_rows{(.*)}", metrics, re.MULTILINE)
    assert queues.count('model="translation-cpu"') == 1
    assert len(queues) == len(catalog.SECTIONS)
    counted = re.findall(r"^(Babelgate\w+){(.*)} [1-9]", metrics, re.MULTILINE)
    wanted = ("Batches", "Rows", "QueueMs", "ComputeMs", "Tokens")
    named = {(f"Babelgate{name}", 'ModelName="translation-cpu"') for name in wanted}
    assert named <= {*counted}


def test_while_a_batch_runs_the_gateway_answers_others(gateway, clients):
    """The time before the batch begins is too short for all of these checks."""
    answer = clients.submit(gateway.ask, src_text=LONG, beam_size=8)
    alive = 0
    while not answer.done():
        assert is_alive(gateway.url)
        alive += 1
    assert answer.result().status_code == 200
    assert alive > 50


def test_a_reload_drops_no_request(gateway: Gateway):
    (old,) = gateway.master.children()
    gateway.master.send_signal(signal.SIGHUP)
    statuses = set()
    while old in gateway.master.children() or not is_ready(gateway.url):
        statuses.add(gateway.ask().status_code)
    assert statuses <= {200}
    assert gateway.ask().status_code == 200


def test_clients_are_one_batch_and_wait_without_keeping_others(patient, clients):
    """The requests are answered only when the batch is full."""
    texts = [f"It is {n} o'clock" for n in range(BATCH - 1)]
    answers = [clients.submit(patient.ask, src_text=text) for text in texts]
    wait_until(lambda: patient.count("babelgate_queued_rows") == BATCH - 1)
    assert is_alive(patient.url)
    assert not any(answer.done() for answer in answers)
    assert patient.ask().json() == {"translated": "Bonjour"}
    assert [answer.result().status_code for answer in answers] == [200] * (BATCH - 1)


@pytest.mark.parametrize(
    ("route", "answer"),
    [("/classify?top_k=3", "labels"), ("/detect-objects?threshold=0", "objects")],
)
def test_images_of_many_clients_are_answered_as_each_alone(
    gateway, clients, route, answer
):
    images = [
        write_image(frame)
        for n in range(8)
        for frame in random_vision.draw_frames(1, height=60 + n, width=90, seed=n)
    ]
    broken = clients.submit(gateway.show, route, images[0][:200])
    together = list(clients.map(gateway.show, [route] * len(images), images))
    assert broken.result().status_code == 422
    for image, found in zip(images, together, strict=True):
        alone = gateway.show(route, image).json()[answer]
        assert [one["score"] for one in found.json()[answer]] == pytest.approx(
            [one["score"] for one in alone], abs=1e-3
        )


def test_whoever_has_asked_before_it_ends_is_answered(tmp_path, cache, clients):
    rows = ("babelgate_waiting_rows", "babelgate_queued_rows")
    with start(tmp_path, cache, translation={"batch_size": 1}) as gateway:
        answers = [clients.submit(gateway.ask, src_text=LONG[:40], beam_size=8)]
        answers += [clients.submit(gateway.ask) for _ in range(8)]
        wait_until(lambda: sum(map(gateway.count, rows)) > 16)
        gateway.master.terminate()
        assert [answer.result().status_code for answer in answers] == [200] * 9
        assert gateway.master.wait(LIMIT_S) == 0
        log = gateway.log.read_text()
    assert "Worker exiting" in log, "it was killed"
    assert "Traceback" not in log
