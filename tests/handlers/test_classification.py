"""Labels for images, as many as each row wants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from handlers.classification import ClassificationHandler
from tests.handlers.encoding import write_image
from tests.handlers.fakes import ask, ask_one
from tests.handlers.test_vision import start
from tests.random_vision import LABELS, draw_frames

pytestmark = pytest.mark.usefixtures("one_thread")

(FRAME,) = draw_frames(1)
BODY = write_image(FRAME)


@pytest.fixture(scope="module")
def handler(resnet: Path) -> Any:
    return start("classification", resnet)


def test_labels_come_with_scores_the_best_first(handler: ClassificationHandler):
    labels = ask_one(handler, BODY).content["labels"]
    assert {label["label"] for label in labels} == set(LABELS)
    scores = [label["score"] for label in labels]
    assert scores == sorted(scores, reverse=True)
    assert sum(scores) == pytest.approx(1, abs=0.001)
    assert scores == [round(score, 4) for score in scores]


def test_each_row_gets_as_many_labels_as_it_wants(handler: ClassificationHandler):
    wanted = {0: {"top_k": "1"}, 2: {"top_k": "2"}, 3: {"top_k": "100"}}
    answers = ask(handler, [BODY] * 4, parameters=wanted)
    labels = [answer.content["labels"] for answer in answers]
    assert [len(found) for found in labels] == [1, 3, 2, 3]
    assert labels[0] == labels[1][:1]
