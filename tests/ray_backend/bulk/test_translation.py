"""A row of a file gets the same answer as from `POST /translate` with the same model."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from flask.testing import FlaskClient

import catalog
from catalog import ROOT, Catalog, checkpoint
from clients.tables import TextReply
from contract.tasks import TRANSLATION
from gateway.app import create_app
from gateway.errors import RowProblem
from gateway.settings import Settings
from handlers import base
from handlers.base import TaskError
from handlers.translation import TranslationHandler
from ray_backend.bulk import job
from ray_backend.bulk.command import read_request
from ray_backend.bulk.job import LocalModel, translate_texts
from ray_backend.replica import load_handler
from tests.gateway.conftest import StatelessBackend
from text.langid import Identifier

PLAIN = [
    "Good morning", "See you tomorrow!", "", "  ", "\n", "123", "?!",
    "Thank you, my friend. See you tomorrow.\n\n- Good morning\n\t- Good night",
    "GOOD MORNING, MY FRIEND.",
    "Write to {name} at mail@example.org or https://example.org/a?b=c.",
    "Run `make up` and wait for {0} of {1}.",
    "Bonjour, mon ami.",
    "Guten Morgen, mein Freund. Bis morgen.",
    "zzz qqq xxx",
    "Good morning\u2028See you tomorrow\u2029Thank you\x85Good night",
]  # fmt: skip
LONG = ["Good morning " * 200, " ".join(f"Sentence {n} is here." for n in range(66))]
TAGGED = [
    "<p>Good <b>morning</b>, my friend.</p>",
    "<ul><li>Good morning</li><li>See you tomorrow</li></ul>",
    "Good &amp; bad <br> <code>x = 1</code>",
    "<p>Unclosed <i>tag",
    "1 < 2 and 3 > 2",
]


class Backend(StatelessBackend):
    """A backend of the gateway that calls the handler directly."""

    def __init__(self, handler: TranslationHandler) -> None:
        self._handler = handler

    def predict(self, model, row, *, deadline) -> dict[str, Any]:
        (result,) = self._handler.answer([base.Row(row.body)]).results
        if isinstance(result, TaskError):
            raise RowProblem(result.to_document())
        return result


@pytest.fixture(scope="module")
def models() -> Catalog:
    return catalog.load(model=str(ROOT / "models/phrasebook"))


@pytest.fixture(scope="module")
def handler(models: Catalog) -> TranslationHandler:
    model = models.route(TRANSLATION, "fr")
    handler = load_handler(model, checkpoint.default_cache())
    assert isinstance(handler, TranslationHandler)
    return handler


@pytest.fixture(scope="module")
def client(models, handler, tmp_path_factory) -> Iterator[FlaskClient]:
    folder = tmp_path_factory.mktemp("gateway")
    settings = Settings(database_url=f"sqlite:///{folder}/db", documents=folder)
    app = create_app(settings, models=models, backend=Backend(handler))
    yield app.test_client()
    app.close()


def ask(client: FlaskClient, text: str, **options: str) -> TextReply:
    """Return the API's answer to a text."""
    body = {"src_text": text, "tgt_lang": "fr", **options}
    response = client.post("/translate", json=body)
    answer = response.get_json()
    if response.status_code != 200:
        return TextReply(None, error=answer["detail"])
    warnings = answer.get("warnings", [])
    return TextReply(answer["translated"], warning=warnings[0] if warnings else None)


def translate(
    models: Catalog,
    handler: TranslationHandler,
    texts: Sequence[str],
    source: str | None,
    kind: str = "text",
) -> list[TextReply]:
    request = read_request(models, "fr", source, kind)
    identifier = Identifier(handler.sources)
    return translate_texts(LocalModel(handler.answer), identifier, request, texts)


@pytest.mark.parametrize(
    ("source", "kind", "texts"),
    [
        ("en", "text", [*PLAIN, *LONG]),
        (None, "text", PLAIN),
        ("en", "html", TAGGED),
        ("en", "xml", TAGGED),
        (None, "xml", TAGGED),
    ],
    ids=["text", "text-identified", "html", "xml", "xml-identified"],
)
def test_a_row_gets_what_the_api_answers(models, handler, client, source, kind, texts):
    options = {"format": kind} | ({"src_lang": source} if source else {})
    expected = [ask(client, text, **options) for text in texts]
    assert translate(models, handler, texts, source, kind) == expected


def test_a_worker_asks_its_model_for_a_recent_sentence_once(
    models, handler, monkeypatch
):
    monkeypatch.setattr(job, "_MOST_KEPT", 2)
    sizes: list[int] = []

    def answer(rows: Sequence[base.Row]) -> Any:
        sizes.append(len(rows))
        return handler.answer(rows)

    given = LocalModel(answer), Identifier(handler.sources)
    request = read_request(models, "fr", "en", "text")
    one, two, three = "Good morning", "See you tomorrow!", "Thank you."
    texts = [[one, two], [two, one], [one, three], [three, one], [two]]
    answers = [translate_texts(*given, request, each) for each in texts]
    assert sizes == [2, 1, 1]
    assert answers[0] == answers[1][::-1]
    assert answers[2] == answers[3][::-1]
    assert answers[4] == answers[0][1:]


def test_a_language_that_the_model_cannot_read_is_the_rows_own_error(models, handler):
    (reply,) = translate(models, handler, ["Kio estas tio?"], "eo")
    assert reply.text is None
    assert reply.error is not None
    assert "src_lang: 'eo' is not served" in reply.error
