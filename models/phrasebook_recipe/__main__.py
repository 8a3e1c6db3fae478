"""`python -m models.phrasebook_recipe`: makes `models/phrasebook` from scratch."""

import json
import os
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from handlers.engine.directories import SETTINGS_FILE
from handlers.engine.translation import conversion
from handlers.engine.translation.ctranslate2 import CTranslate2Engine
from handlers.engine.translation.families.m2m100 import IDS_FILE, PIECES_FILE
from models.phrasebook_recipe import (
    corpus,
    evaluation,
    pair,
    phrasebook,
    training,
    words,
)
from models.phrasebook_recipe.items import LANGUAGES
from models.training import Machine, Minutes, Work, read_facts, write_card

app = typer.Typer(add_completion=False, help="Train and evaluate the included model.")
app.command("pair")(pair.train)

CARD = Path(__file__).with_name("card.txt")
WORK = Path("run/phrasebook-training")
Out = Annotated[Path, typer.Option(help="The model directory to write or to read.")]


@app.command()
def train(
    minutes: Minutes = 60, work: Work = WORK, out: Out = phrasebook.MODEL
) -> None:
    """Train, or continue the last run, then export the model.

    Ctrl-C loses at most five minutes; the same command resumes. With 0 minutes, it only
    exports the last checkpoint of a training, which may still be running.
    """
    texts = corpus.Corpus(phrasebook.load())
    if not (work / IDS_FILE).exists():
        training.train_tokenizer(texts, work)
    vocabulary = training.Vocabulary(work)
    trainer = training.PhrasebookTrainer(texts, vocabulary, work, minutes=minutes)
    if minutes:
        trainer.run(typer.echo)
    # The included one has all 100 language tokens in their original order, so that Transformers
    # decodes cleanly and CTranslate2's stock converter finds the ids.
    configuration = phrasebook.MODEL / "tokenizer_config.json"
    trainer.export(out, work / PIECES_FILE, work / IDS_FILE, configuration)


@app.command()
def evaluate(
    out: Out = phrasebook.MODEL,
    items: Annotated[int, typer.Option(help="Number of held-out items.")] = 4000,
    machine: Machine = "",
) -> None:
    """Evaluate the model, set its warning threshold and quality weights, and write its card."""
    texts = corpus.Corpus(phrasebook.load())
    with tempfile.TemporaryDirectory() as cache:
        engine = CTranslate2Engine(conversion.convert(out, Path(cache), "int8"))
        report = evaluation.evaluate(engine, texts, items)
    settings = {
        "languages": LANGUAGES,
        "min_score": report["min_score"],
        "warning": evaluation.WARNING,
        "quality": report["weights"]._asdict(),
    }
    (out / SETTINGS_FILE).write_text(json.dumps(settings, indent=2) + "\n")
    report |= read_facts(out) | {
        "codes": LANGUAGES,
        "phrases": sum(p.domain != phrasebook.WORDS for p in texts.phrases),
        "parameters": (out / "model.safetensors").stat().st_size / 2e6,
        "machine": machine or f"{os.cpu_count()} CPU cores",
    }
    write_card(CARD, out, report)
    typer.echo(
        "{overall:.1%} right; CLDR {cldr:.1%}, phrases {phrase_share:.1%}, "
        "known phrases {finite:.1%}, names {names:.1%}; ".format(**report)
        + f"worst language {min(report['by_language'].values()):.1%}"
    )


@app.command("words")
def write_words() -> None:
    """Write the words by which the gateway identifies the language of short texts."""
    words.WORDS.write_text(words.write_words(), "utf-8")


if __name__ == "__main__":
    app()
