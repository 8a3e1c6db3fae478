"""An engine that answers at once, and TorchServe's own context and metrics for a batch."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from ts.context import Context, RequestProcessor  # type: ignore[import-untyped]

from catalog import SECTIONS, Model, describe_handler
from catalog.map import check
from contract import rows
from handlers.base import TaskHandler
from handlers.engine.errors import OutOfMemory
from handlers.engine.translation.engine import Decoding, Sentence, Translation
from handlers.engine.translation.tokenizer import Tokenizer


class FakeTokenizer(Tokenizer):
    """A tokenizer with one token per word, and one at each end."""

    def __init__(self) -> None:
        super().__init__({}, set())

    def list_first(self, sentence: Sentence) -> list[str]:
        return [f"__{sentence.source}__"]

    def split(self, texts: Sequence[str]) -> list[list[str]]:
        return [[f"▁{word}" for word in text.split()] for text in texts]

    def _join(self, rows: Sequence[Sequence[str]]) -> list[str]:
        return ["".join(row) for row in rows]


@dataclass
class FakeEngine:
    """An engine that translates `text` to `[ko] text`; its errors quote the batch's texts."""

    max_tokens: int = 10
    translators: int = 1
    scores: Mapping[str, float] = field(default_factory=dict)
    breaks_on: str = ""
    #: The number of words, with padding, that fit into its memory.
    memory: int = 1_000_000
    #: Its answers to texts without a careful search, and with one.
    says: Mapping[str, str] = field(default_factory=dict)
    says_carefully: Mapping[str, str] = field(default_factory=dict)
    tokenizer: Tokenizer = field(default_factory=FakeTokenizer)
    #: The texts of every batch, and their decoding.
    batches: list[list[str]] = field(default_factory=list)
    decodings: list[Decoding] = field(default_factory=list)

    def translate(self, sentences: Sequence[Sentence]) -> list[Translation]:
        texts = [sentence.text for sentence in sentences]
        (decoding,) = {sentence.decoding for sentence in sentences}
        self.batches.append(texts)
        self.decodings.append(decoding)
        if self.breaks_on and self.breaks_on in texts:
            raise RuntimeError(f"a bug about {texts}")
        if len(texts) * max(len(text.split()) for text in texts) > self.memory:
            raise OutOfMemory("out of memory")
        is_careful = decoding.no_repeat_ngram_size > 0
        says = self.says_carefully if is_careful else self.says
        return [
            Translation(
                says.get(s.text, f"[{s.target}] {s.text}"),
                self.scores.get(s.text, -0.1),
                tuple(
                    Translation(f"[{s.target}] {s.text} {i}", -1.0 - i)
                    for i in range(decoding.alternatives)
                ),
            )
            for s in sentences
        ]


@dataclass
class FakeMetrics:
    """A set of counters that add up, as TorchServe's do, or raise if `is_broken`."""

    counters: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    is_broken: bool = False

    def add_counter(self, name: str, value: int, idx: int) -> None:
        if self.is_broken:
            raise ValueError("no such metric")
        self.calls += 1
        self.counters[name] += value


@dataclass(frozen=True)
class Answer:
    """The answer to one row."""

    status: int
    phrase: str
    content_type: str | None
    body: bytes

    @property
    def content(self) -> Any:
        return json.loads(self.body.decode("utf-8"))


def make_context(
    rows: int = 1,
    *,
    headers: Mapping[int, Mapping[str, str]] | None = None,
    config: Mapping[str, Any] | None = None,
    gpu: int | None = None,
    metrics: Any = None,
) -> Context:
    """Make TorchServe's context for a handler, for a batch whose rows have these headers."""
    context = Context(
        "ko", "/store/ko", {}, 64, gpu, "0.12.0", model_yaml_config=config
    )
    context.metrics = metrics or FakeMetrics()
    context.request_processor = [
        RequestProcessor(dict((headers or {}).get(i, {}))) for i in range(rows)
    ]
    return context


def make_options(task: str, directory: Path, **changes: Any) -> dict[str, Any]:
    """Make the options of a handler on the CPU from the map's defaults and `changes`."""
    model = Model(task, task, (), ("cpu",), check(SECTIONS[task], {}))
    return describe_handler(model, directory) | changes


def ask(
    handler: TaskHandler[Any],
    bodies: Sequence[Any],
    headers: Mapping[int, Mapping[str, str]] | None = None,
    *,
    parameters: Mapping[int, Mapping[str, str]] | None = None,
    metrics: Any = None,
) -> list[Answer]:
    """Pass a batch to a handler, and return the answers that TorchServe would send."""
    given = {i: dict(of_row) for i, of_row in (headers or {}).items()}
    for i, of_row in (parameters or {}).items():
        given.setdefault(i, {})[rows.PARAMETERS] = urlencode(of_row)
    context = make_context(len(bodies), headers=given, metrics=metrics)
    answers = handler.handle([{"body": body} for body in bodies], context)
    handler.counting.submit(int).result(10)  # by then the earlier counts are written
    assert len(answers) == len(bodies)
    return [
        Answer(
            status=context.get_response_status(i)[0],
            phrase=context.get_response_status(i)[1] or "",
            content_type=context.get_response_content_type(i),
            body=body,
        )
        for i, body in enumerate(answers)
    ]


def ask_one(handler: TaskHandler[Any], content: Any) -> Answer:
    (answer,) = ask(handler, [content])
    return answer


def row(text: Any = "Hello", **fields: Any) -> dict[str, Any]:
    return {"src_lang": "en", "src_text": text, "tgt_lang": "ko"} | fields


def body(text: Any = "Hello", **fields: Any) -> bytes:
    return json.dumps(row(text, **fields)).encode()
