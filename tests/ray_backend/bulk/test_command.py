"""The command refuses wrong arguments before anything starts, and chooses its workers."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from catalog import Model, TranslationSection
from catalog.sections import ClusterSection
from contract.cpus import count_cpus
from ray_backend.bulk import command
from ray_backend.bulk.command import choose_pool


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a table and a map of two languages."""
    monkeypatch.chdir(tmp_path)
    model = tmp_path / "one"
    model.mkdir()
    (model / "babelgate.json").write_text('{"languages": ["de"], "sources": ["en"]}')
    section = {"targets": {"de": {"model": str(model)}}, "pivot": "fr"}
    content = {"cuda_id": {"fr": "cpu", "de": "cpu"}, "translation": section}
    (tmp_path / "map.json").write_text(json.dumps(content))
    monkeypatch.setenv("BABELGATE_MAP", str(tmp_path / "map.json"))
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.jsonl").write_text('{"text": "one"}\n')
    return tmp_path


def ask(*arguments: str) -> tuple[int, str]:
    """Run the command, and return its exit code and error output."""
    app = typer.Typer()
    app.command()(command.command)
    result = CliRunner().invoke(app, [*arguments])
    return result.exit_code, result.stderr


REFUSED = {
    "--to xx --column text": "tgt_lang: 'xx' is not served; expected one of fr, de",
    "--to fr --column text --from english": (
        "src_lang: 'english' is not served; expected one of fr, de"
    ),
    "--to fr --column text --from de,xx": (
        "languages[1]: 'xx' is not served; expected one of en, ko, zh, es, fr, ru, id, ja, "
        "vi, de, it, hi, ar, pt"
    ),
    "--to de --column text --from ko": "--from ko: a run has one model, and one reads en",
    "--to fr": "src/a.jsonl: name its column of texts with --column",
    "--to fr --column text --format srt": "--format srt: expected text, html, xml",
    "": "the map serves no captioning; to translate, add --to",
    "--to fr --column text --into a --into b": (
        "--into was given 2 times: expected one for each --column, 1"
    ),
}


@pytest.mark.parametrize(("options", "said"), REFUSED.items())
def test_what_cannot_be_done_is_said_in_one_line(folder, options, said):
    assert ask("src", "dst", *options.split()) == (1, f"{said}\n")
    assert not (folder / "dst").exists()


def test_a_wrong_format_of_captions_is_refused(folder):
    content = {"captioning": {"devices": "cpu"}}
    (folder / "map.json").write_text(json.dumps(content))
    said = "--format html: expected jsonl, srt, vtt\n"
    assert ask("src", "dst", "--format", "html") == (1, said)
    assert ask("src", "dst", "--every", "0")[0] == 1


def test_a_missing_source_and_a_malformed_map_are_named(folder):
    command = ("nothing", "dst", "--to", "fr", "--column", "text")
    assert ask(*command) == (1, "nothing: no such file or folder\n")
    (folder / "map.json").write_text("{")
    code, said = ask(*command)
    assert code == 1
    assert "map.json" in said


CORES = count_cpus()


def make_model(*devices: str, workers: int = 1, gpus: Any = "auto") -> Model:
    section, cluster = TranslationSection(workers=workers), ClusterSection(gpus=gpus)
    return Model("fr", "translation", ("fr",), devices, section, cluster)


@pytest.mark.parametrize(
    ("model", "options", "expected"),
    [
        (make_model("cpu"), (None, None, None), (1, CORES, 0)),
        (make_model("cpu"), (2 * CORES, None, None), (2 * CORES, 1, 0)),
        (make_model("cpu"), (3, 5, 1.0), (3, 5, 0)),
        (make_model("0", "1", workers=2), (None, None, None), (4, 1, 0.5)),
        (make_model("0", gpus=0.25), (None, 2, None), (1, 2, 0.25)),
        (make_model("0", gpus=0.25), (8, None, 1.0), (8, 1, 1.0)),
    ],
    ids=[
        "all cores",
        "more workers than cores",
        "as asked, without GPUs",
        "two GPUs, two workers each",
        "the map's share",
        "another share",
    ],
)
def test_workers_share_what_there_is(model, options, expected):
    pool = choose_pool(model, *options, is_cluster=False)
    assert (pool.size, pool.cpus, pool.gpus) == expected
