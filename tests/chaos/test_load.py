"""The clients of the chaos against a server that lies, and the search for what they sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from tests.chaos.load import (
    BROKEN,
    CUT,
    PROBLEM,
    RIGHT,
    WRONG,
    Question,
    ask,
    keep_asking,
    learn,
    write_questions,
)
from tests.chaos.traces import find_in_files
from tests.closing_server import ClosingServer, QuietHandler

QUESTION = Question("sentence", b"{}", "Bonjour")
PROBLEM_TYPE = "application/problem+json"
NOT_READY = json.dumps({"type": "urn:babelgate:not-ready"})


class Answering(QuietHandler):
    answer: ClassVar[tuple[int, str, str, int]]

    def do_POST(self) -> None:
        status, content_type, body, extra = self.answer
        length = str(len(body) + extra)
        headers = {"Content-Type": content_type, "Content-Length": length}
        self.reply(status, body.encode(), headers)


@pytest.fixture
def server() -> Iterator[ClosingServer]:
    server = ClosingServer(("127.0.0.1", 0), Answering)
    server.start()
    yield server
    server.stop()


def translate(text: str) -> str:
    return json.dumps({"translated": text})


JSON = "application/json"
ANSWERS = {
    "right": ((200, JSON, translate("Bonjour"), 0), RIGHT, ""),
    "wrong": ((200, JSON, translate("Salut"), 0), WRONG, ""),
    "a problem": ((503, PROBLEM_TYPE, NOT_READY, 0), PROBLEM, ""),
    "no problem document": ((502, "text/html", "{}", 0), WRONG, ""),
    "no JSON": ((200, JSON, "{", 0), WRONG, "JSONDecodeError"),
    "cut": ((200, JSON, translate("Bonjour"), 9), BROKEN, CUT),
}


@pytest.mark.parametrize(
    ("answer", "outcome", "detail"), ANSWERS.values(), ids=ANSWERS.keys()
)
def test_an_answer_is_right_or_not(
    server: ClosingServer, answer: tuple[int, str, str, int], outcome: str, detail: str
):
    Answering.answer = answer
    exchange = ask(server.url, QUESTION, 5.0)
    assert (exchange.outcome, exchange.detail) == (outcome, detail)
    assert exchange.began <= exchange.ended


def test_a_server_that_is_not_there_breaks_the_connection():
    assert ask("http://127.0.0.1:9", QUESTION, 5.0).outcome == BROKEN


def test_right_answers_are_learnt_and_asked_for(server: ClosingServer):
    Answering.answer = (200, "application/json", translate("Bonjour"), 0)
    questions = learn(server.url, write_questions("word"))
    assert {question.right for question in questions} == {"Bonjour"}
    with keep_asking(server.url, questions, seed=1) as exchanges:
        while len(exchanges) < 10:
            ask(server.url, QUESTION, 5.0)
    assert {exchange.outcome for exchange in exchanges} == {RIGHT}


def test_every_question_has_the_word():
    assert all(b"word" in question.body for question in write_questions("word"))


def test_a_word_is_found_in_files(tmp_path: Path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.log").write_text("a word")
    (tmp_path / "b.log").write_text("another")
    assert find_in_files(tmp_path, "word") == [str(tmp_path / "logs" / "a.log")]
