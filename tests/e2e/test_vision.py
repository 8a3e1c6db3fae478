"""Captions, labels and boxes through port 7777 of a real stack, for one client and many."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import requests
from av.video.frame import VideoFrame
from PIL import Image

from deploy.stack import Stack
from models.phrasebook_recipe import phrasebook
from models.phrasebook_recipe.corpus import Corpus
from models.shapes_recipe import rendering
from models.shapes_recipe.samples import (
    Sample,
    ShapesTask,
    draw_clip,
    held_out,
    plan_clip,
)
from models.shapes_recipe.scenes import classify, describe
from tests.e2e.test_translation import translate_pairs
from tests.handlers.encoding import write_image, write_npy
from tests.programs import run

SEED = 11
TIMEOUT_S = 120


def post(url: str, route: str, body: Any = None, **options: Any) -> requests.Response:
    return requests.post(f"{url}{route}", data=body, timeout=TIMEOUT_S, **options)


def ask(url: str, route: str, body: bytes, **options: Any) -> Any:
    response = post(url, route, body, **options)
    assert response.status_code == 200, response.text
    return response.json()


def caption(url: str, body: bytes) -> list[str]:
    return list(ask(url, "/caption", body)["captions"])


def draw(task: ShapesTask, count: int) -> list[Sample]:
    return list(held_out(task, count, seed=SEED))


@pytest.fixture(scope="module")
def samples() -> list[Sample]:
    return draw(ShapesTask.CAPTIONING, 40)


def test_an_image_gets_its_caption_in_every_form(vision: Stack, samples: list[Sample]):
    picture = samples[0].picture
    parts = [
        ("image", ("one.png", write_image(picture))),
        ("image", ("two", write_npy(picture))),
    ]
    forms = {
        "png": caption(vision.url, write_image(picture)),
        "webp": caption(vision.url, write_image(picture, "WEBP")),
        "one frame": caption(vision.url, write_npy(picture)),
        "frames": caption(vision.url, write_npy([picture, picture])),
        "parts": post(vision.url, "/caption", files=parts).json()["captions"],
    }
    (alone,) = forms["png"]
    assert {text for captions in forms.values() for text in captions} == {alone}
    counts = {name: len(captions) for name, captions in forms.items()}
    assert counts == {"png": 1, "webp": 1, "one frame": 1, "frames": 2, "parts": 2}


def test_many_clients_get_the_captions_of_their_own_frames(vision, samples):
    """A caption is the same alone and among others, from any client."""
    size = (64, 64)
    squares = [np.asarray(Image.fromarray(s.picture).resize(size)) for s in samples]
    alone = [caption(vision.url, write_npy(square))[0] for square in squares]
    ranges = [range(i % 7, len(samples), 1 + i % 5) for i in range(24)]

    def ask_for(chosen: range) -> list[str]:
        return caption(vision.url, write_npy([squares[i] for i in chosen]))

    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(ask_for, ranges))
    assert answers == [[alone[i] for i in chosen] for chosen in ranges]


def test_labels_are_right_and_as_many_as_were_asked_for(vision: Stack):
    pictures = draw(ShapesTask.CLASSIFICATION, 60)

    def find_labels(sample: Sample) -> Any:
        body = write_image(sample.picture, "JPEG")
        return ask(vision.url, "/classify", body, params={"top_k": 3})["labels"]

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(find_labels, pictures))
    assert {len(labels) for labels in answers} == {3}
    assert all(a["score"] >= b["score"] for a, b, _ in answers)
    pairs = zip(answers, pictures, strict=True)
    right = sum(found[0]["label"] == classify(sample.scene) for found, sample in pairs)
    assert right >= 0.95 * len(pictures)


def test_objects_are_found_in_images_of_many_sizes_at_once(vision: Stack):
    pictures = draw(ShapesTask.DETECTION, 40)
    assert len({sample.picture.shape for sample in pictures}) > 20

    def find_objects(sample: Sample) -> Any:
        return ask(vision.url, "/detect-objects", write_image(sample.picture))

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(find_objects, pictures))
    wanted = found = 0
    for sample, answer in zip(pictures, answers, strict=True):
        height, width, _ = sample.picture.shape
        assert (answer["width"], answer["height"]) == (width, height)
        truth = rendering.boxes(sample.scene, width, height)
        wanted += len(truth)
        things = answer["objects"]
        found += sum(any(_is_same(box, thing) for thing in things) for box in truth)
    assert found >= 0.85 * wanted


def _is_same(box: rendering.FigureBox, thing: dict[str, Any]) -> bool:
    at = rendering.FigureBox(thing["label"], **thing["box"])
    return box.label == at.label and rendering.measure_overlap(box, at) >= 0.5


BAD = [
    ("not an image", b"hello", 415, "unsupported-image"),
    ("cut", write_image(np.zeros((40, 40, 3), np.uint8))[:60], 422, "invalid-image"),
]


@pytest.mark.parametrize("route", ["/caption", "/classify", "/detect-objects"])
def test_bad_images_are_refused_and_harm_no_other(vision, samples, route):
    good = write_image(samples[0].picture)
    expected = ask(vision.url, route, good)
    bodies = [body for _, bad, *_ in BAD for body in (good, bad)] * 4
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda body: post(vision.url, route, body), bodies))
    for answer in answers[::2]:
        assert (answer.status_code, answer.json()) == (200, expected)
    for answer, (name, _, status, slug) in zip(answers[1::2], BAD * 4, strict=True):
        assert answer.status_code == status, name
        assert answer.json()["type"] == f"urn:babelgate:{slug}", name
        assert "xpected" in answer.json()["detail"]


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A video of two hundred frames with known captions."""
    path = tmp_path_factory.mktemp("video") / "shapes.mp4"
    with av.open(path, "w") as container:
        stream = container.add_stream("libx264", 30)
        stream.width, stream.height, stream.pix_fmt = 320, 180, "yuv420p"
        for one in draw_clip(SEED, 200, width=320, height=180):
            container.mux(stream.encode(VideoFrame.from_ndarray(one.picture)))
        container.mux(stream.encode())
    return path


def test_a_video_is_captioned_in_every_way_alike(vision, video, tmp_path):
    texts = {}
    for mode in ("stream-prebatch", "stream-single", "single"):
        out = tmp_path / f"{mode}.jsonl"
        command = (sys.executable, "-m", "clients", "caption", video, "-o", out)
        run(*command, "--url", vision.url, "--mode", mode)
        texts[mode] = out.read_text("utf-8")
    assert len(set(texts.values())) == 1
    records = list(map(json.loads, texts["single"].splitlines()))
    assert [record["frame"] for record in records] == list(range(200))
    pairs = zip(records, plan_clip(SEED, 200), strict=True)
    right = sum(record["caption"] == describe(scene) for record, scene in pairs)
    assert right >= 0.8 * 200


def test_placement_changes_no_translation(stack: Stack, vision: Stack):
    maps = [json.loads(one.map.read_text()) for one in (stack, vision)]
    assert [m["translation"]["placement"] for m in maps] == ["language", "device"]
    pairs = Corpus(phrasebook.load()).held_out(500)
    assert translate_pairs(stack.url, pairs) == translate_pairs(vision.url, pairs)
