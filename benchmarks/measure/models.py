"""Finds the best checkpoint for your texts: `python -m benchmarks models` serves one after the
other, and compares their translations with references, their speed and their memory.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory

import requests
from sacrebleu.metrics.chrf import CHRF

from benchmarks import report
from benchmarks.driver import read_numbers, read_words, take_turns
from benchmarks.instruments import load, running
from benchmarks.instruments.generator import Target
from benchmarks.instruments.load import LoadFigures
from benchmarks.instruments.workload import write_request
from catalog.checkpoint import find_languages
from clients.files import TABLES, find_sources
from clients.tables import Column, open_table
from handlers.engine.translation.engine import Sentence
from handlers.engine.translation.guard import Fault, find_fault
from models.phrasebook_recipe import phrasebook
from models.phrasebook_recipe.corpus import Corpus
from models.phrasebook_recipe.items import LANGUAGES

#: The number of texts in a request, and its time limit.
_AT_ONCE, _TIMEOUT_S = 64, 600
#: Lines of the phrasebook if no file is given.
_DRAWN = 200

#: A text in several languages, by language tag.
Line = Mapping[str, str]


@dataclass(frozen=True)
class ModelFigures:
    """The quality, speed and memory of a checkpoint."""

    #: By language, from 0 to 100.
    chrf: Mapping[str, float]
    #: Translations that equal their texts, and those that repeat themselves.
    copies: int
    loops: int
    #: By number of clients, each of which sends one line at a time.
    lines_per_s: Mapping[str, float]
    #: The memory of the whole stack.
    memory_mb: float


def answer(
    models: list[str],
    *,
    languages: str,
    source: str,
    pairs: Path | None,
    clients: str,
    seconds: float,
    warm_s: float,
    rounds: int,
) -> report.Findings:
    """Compare checkpoints on a file of texts and references: chrF++, copies, loops, lines per
    second and memory.

    The file, a .csv, .tsv or .jsonl, has a column per language. Without it, lines of the
    phrasebook are used. A checkpoint translates only into languages that it supports.
    """
    targets = read_words(languages)
    wanted = (source, *targets)
    lines = list(read_lines(pairs, wanted) if pairs else draw_lines(wanted))
    asked = {
        target: [Sentence(line[source], source, target) for line in lines]
        for target in targets
    }
    levels = read_numbers(clients)
    ask = partial(load.measure_levels, levels=levels, seconds=seconds, warm_s=warm_s)
    ways = {name: partial(_measure, name, lines, asked, ask) for name in models}
    turns = take_turns(ways, rounds)
    return replace(report.compare_turns({"": turns}), charts=[_plot(turns)])


def _measure(
    name: str,
    lines: Sequence[Line],
    asked: Mapping[str, Sequence[Sentence]],
    measure_loads: Callable[[Target], Mapping[str, LoadFigures]],
) -> ModelFigures:
    path = running.find_model(name)
    known = find_languages(path).targets
    asked = {target: some for target, some in asked.items() if target in known}
    with TemporaryDirectory() as folder:
        map_path = running.write_map(Path(folder) / "map.json", {}, asked)
        with running.start(Path(folder) / "run", map_path, path) as stack:
            answers = {
                t: list(_translate(stack.url, some)) for t, some in asked.items()
            }
            sentences = list(chain.from_iterable(asked.values()))
            loads = measure_loads(stack.aim(list(map(write_request, sentences))))
    translated = chain.from_iterable(answers.values())
    faults = Counter(
        find_fault(sentence.text, text, sentence.source, sentence.target)
        for sentence, text in zip(sentences, translated, strict=True)
    )
    return ModelFigures(
        {t: score(some, [line[t] for line in lines]) for t, some in answers.items()},
        copies=faults[Fault.UNTRANSLATED],
        loops=faults[Fault.LOOP],
        lines_per_s={
            f"{clients} client{'s' * (clients != '1')}": one.requests_per_s
            for clients, one in loads.items()
        },
        memory_mb=sum([*loads.values()][-1].memory_mb.values()),
    )


def read_lines(path: Path, languages: Sequence[str]) -> Iterator[Line]:
    """Read the lines of a file with a column per language. Raises ClientError, and ValueError
    with the number of a line that lacks one of these languages."""
    (source,) = find_sources([str(path)], TABLES)
    columns = [Column(tag, f"{tag} translated") for tag in languages]
    cells = open_table(source, columns).read()
    for row in zip(*[cells] * len(columns), strict=True):
        line = dict(zip(languages, (cell.text for cell in row), strict=True))
        if missing := [tag for tag, text in line.items() if not text]:
            number = f"{path}: line {row[0].row}"
            raise ValueError(f"{number}: no text in {', '.join(missing)}")
        yield {tag: text or "" for tag, text in line.items()}


def draw_lines(languages: Sequence[str]) -> Iterator[Line]:
    """Draw lines of the phrasebook on which its own model was not trained. Raises ValueError
    for a language that it lacks."""
    if missing := set(languages) - set(LANGUAGES):
        raise ValueError(
            f"{', '.join(missing)}: not in the phrasebook; give --pairs FILE"
        )
    corpus = Corpus(phrasebook.load())
    rng = random.Random(0)
    for _ in range(_DRAWN):
        item = corpus.draw_item("phrases", rng, held_out=True)
        yield {language: item.text(language) for language in languages}


def score(translated: Sequence[str], references: Sequence[str]) -> float:
    """Return chrF++ from 0 to 100 (Popović 2017)."""
    return float(CHRF(word_order=2).corpus_score(translated, [references]).score)


def _translate(url: str, sentences: Sequence[Sentence]) -> Iterator[str]:
    for start in range(0, len(sentences), _AT_ONCE):
        some = sentences[start : start + _AT_ONCE]
        texts = [sentence.text for sentence in some]
        pair = {"src_lang": some[0].source, "tgt_lang": some[0].target}
        reply = requests.post(url, json={**pair, "src_text": texts}, timeout=_TIMEOUT_S)
        reply.raise_for_status()
        yield from reply.json()["translated"]


def _plot(turns: Mapping[str, Sequence[ModelFigures]]) -> report.Chart:
    """Plot quality, the mean of the languages, over speed with the most clients."""
    dots = {
        name: [(list(one.lines_per_s.values())[-1], mean(one.chrf.values()))]
        for name, (one, *_) in turns.items()
    }
    return report.Chart("quality over speed", "lines/s", "chrF++", {}, dots)
