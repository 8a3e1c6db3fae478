"""Files in bulk through port 7777: the commands as users run them, killed and repeated."""

import json
import sys

import pytest

from tests.clients.processes import run_process as run
from tests.clients.processes import start
from tests.e2e.real_stack import wait_until
from tests.e2e.test_translation import NEWCOMERS, translate
from tests.programs import call


@pytest.fixture(scope="module")
def french(url: str) -> dict[str, str]:
    """The stack's translation of each text alone."""
    return {text: translate(url, text, "en", "fr") for text in NEWCOMERS}


def list_texts(count: int) -> list[str]:
    return [NEWCOMERS[number % len(NEWCOMERS)] for number in range(count)]


def test_a_column_has_the_translations_that_each_text_has_alone(url, french, tmp_path):
    texts = list_texts(200)
    rows = [json.dumps({"t": text}) for text in texts]
    (tmp_path / "a.jsonl").write_text("\n".join(rows))
    command = ("translate", "a.jsonl", "--column", "t", "--from", "en", "--to", "fr")
    assert run(tmp_path, url, *command) == (0, "")
    written = (tmp_path / "a.fr.jsonl").read_text("utf-8").splitlines()
    found = [json.loads(row)["t_fr"] for row in written]
    assert found == [french[text] for text in texts]


def test_a_text_on_standard_input_is_translated_on_standard_output(url):
    command = (sys.executable, "-m", "clients", "translate", "-", "--url", url)
    text = "- Good morning\n- See you tomorrow\n"
    done = call(*command, "--to", "de", "--from", "en", stdin=text)
    answer = "- Guten Morgen\n- Bis morgen\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, answer, "")


def test_documents_are_translated_and_a_killed_run_goes_on(url, french, tmp_path):
    for number in range(6):
        path = tmp_path / f"in/{number % 2}/{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{text}\n" for text in list_texts(500 + number)))
    command = ("document", "in", "--from", "en", "--to", "fr", "-o", "out")
    journal = tmp_path / "out.part"
    killed = start(tmp_path, url, *command)
    wait_until(lambda: journal.exists() and journal.read_bytes().count(b"\n") > 2)
    killed.kill()
    killed.communicate(timeout=60)
    code, said = run(tmp_path, url, *command)
    assert (code, said.count("Wrote ")) == (0, 6)
    for number in range(6):
        found = (tmp_path / f"out/{number % 2}/{number}.fr.txt").read_text("utf-8")
        expected = [french[text] for text in list_texts(500 + number)]
        assert found.splitlines() == expected
