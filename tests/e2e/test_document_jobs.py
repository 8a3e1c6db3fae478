"""Documents on a real stack: the commands of the docs, and `kill -9` of every process."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests

from contract import variables
from deploy.stack import Stack
from tests.e2e.real_stack import (
    VICTIMS,
    kill,
    operate,
    processes,
    start_stack,
    wait_until,
)
from tests.programs import make_certificate, run
from tests.webhook_receiver import SECRET, WebhookReceiver

LIMIT_S = 240
#: An engine that returns every text unchanged, so that missing or doubled texts show.
ECHO = {"cuda_id": {"de": "cpu"}, "translation": {"engine": "echo"}}
DOCUMENTS, LINES = 20, 1000
GOODBYE = "Bis morgen\n"


def test_a_file_is_translated_as_libretranslate_does(url: str):
    answer = requests.post(
        f"{url}/translate_file",
        data={"source": "auto", "target": "de", "api_key": "any-key"},
        files={"file": ("a.txt", "See you tomorrow\n")},
        timeout=LIMIT_S,
    )
    where = answer.json()["translatedFileUrl"]
    assert where.startswith(f"{url}/download_file/")
    found = requests.get(where, timeout=LIMIT_S)
    assert (found.status_code, found.text) == (200, GOODBYE)
    assert "a.de.txt" in found.headers["Content-Disposition"]


def test_the_commands_of_the_page_work(url: str, tmp_path: Path):
    (tmp_path / "report.md").write_text("# Good morning\n\nSee you *tomorrow*.\n")
    curl = partial(run, "curl", "-sS", cwd=tmp_path)
    form = ("-F", "file=@report.md", "-F", "tgt_lang=de")
    where = f"{url}/documents/{json.loads(curl(f'{url}/documents', *form))['id']}"
    wait_until(lambda: json.loads(curl(where))["status"] == "done", limit_s=LIMIT_S)
    assert json.loads(curl(where))["src_lang"] == "en"
    curl("-OJ", f"{where}/result")
    (found,) = set(tmp_path.iterdir()) - {tmp_path / "report.md"}
    assert re.match(r"# Guten Morgen\n\n.*\*.*\*", found.read_text())
    curl("-X", "DELETE", where)
    assert json.loads(curl(where))["type"] == "urn:babelgate:no-document"


def upload(
    url: str, content: str | bytes, fields: Mapping[str, str] = {}, /, **headers: str
) -> str:
    """Upload a document, and return its URL."""
    answer = requests.post(
        f"{url}/documents",
        data={"src_lang": "en", "tgt_lang": "de", **fields},
        files={"file": ("a.txt", content)},
        headers=headers,
        timeout=LIMIT_S,
    )
    assert answer.status_code == 202, answer.text
    return f"{url}{answer.headers['Location']}"


def ask_state(where: str, **headers: str) -> dict[str, Any]:
    """Return the state of a document, or an empty one while no gateway answers."""
    try:
        answer = requests.get(where, headers=headers, timeout=LIMIT_S)
    except requests.ConnectionError:
        return {}
    return dict(answer.json()) if answer.ok else {}


def count_done(places: list[str], **headers: str) -> int:
    return sum(ask_state(where, **headers).get("texts_done", 0) for where in places)


def is_done(where: str, **headers: str) -> bool:
    return ask_state(where, **headers).get("status") == "done"


def test_a_large_document_passes_nginx(url: str, stack: Stack):
    where = upload(url, "".join(f"Number {line}\n" for line in range(100)) * 2000)
    wait_until(lambda: count_done([where]) > 0, limit_s=LIMIT_S)
    assert requests.delete(where, timeout=LIMIT_S).status_code == 204
    unfinished = stack.run / "documents" / "unfinished"
    wait_until(lambda: not list(unfinished.iterdir()), limit_s=LIMIT_S)


@pytest.fixture(scope="module")
def receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebhookReceiver]:
    pair = make_certificate(tmp_path_factory.mktemp("pair"))
    with WebhookReceiver(pair=pair) as receiver:
        yield receiver


@pytest.fixture(scope="module")
def echo(
    tmp_path_factory: pytest.TempPathFactory, cache: Path, receiver: WebhookReceiver
) -> Iterator[Stack]:
    """A stack that returns every text unchanged and sends webhooks to this machine."""
    folder = tmp_path_factory.mktemp("echo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", receiver.pair.split(",")[0])
        patch.setenv(variables.WEBHOOKS.name, "127.0.0.0/8")
        with start_stack(folder, cache, content=ECHO) as started:
            yield started


def kill_all(stack: Stack) -> None:
    """Kill all processes at once, as a power loss does."""
    victims = processes(stack)
    for end in (psutil.Process.suspend, psutil.Process.kill):
        for victim in victims:
            with suppress(psutil.NoSuchProcess):  # some have ended already
                end(victim)
    psutil.wait_procs(victims, timeout=LIMIT_S)


@pytest.mark.faults
def test_a_webhook_is_told_though_it_fails_and_hangs_and_its_program_is_killed(
    echo: Stack, receiver: WebhookReceiver
):
    receiver.will("fail", "hang", "take")
    hook = {"webhook": f"{receiver.url}/?token=abc", "webhook_secret": SECRET}
    where = upload(echo.url, GOODBYE, hook)
    receiver.wait_until(lambda: len(receiver.notices) == 1)
    kill(echo, "documents", limit_s=LIMIT_S)
    receiver.wait_until(lambda: len(receiver.notices) == 2)
    kill(echo, "documents", limit_s=LIMIT_S)
    waiting = echo.run / "documents" / "webhooks"
    wait_until(lambda: not list(waiting.iterdir()), limit_s=LIMIT_S)
    told = ask_state(where)
    assert told["status"] == "done"
    assert [notice.read() for notice in receiver.notices] == [told] * 3
    for log in (echo.run / "logs").iterdir():
        assert "token=abc" not in log.read_text(errors="replace")
    requests.delete(where, timeout=LIMIT_S)


@pytest.mark.faults
def test_twenty_documents_survive_the_death_of_every_process(echo: Stack, cache: Path):
    contents: dict[str, str] = {}
    unfinished: list[str] = []

    def upload_until(count: int) -> None:
        """Upload until `count` documents are unfinished, however fast the machine is."""
        unfinished[:] = [where for where in unfinished if not is_done(where)]
        while len(unfinished) < count:
            content = "".join(
                f"Sentence {line} of document {len(contents)}.\n"
                for line in range(LINES)
            )
            unfinished.append(where := upload(echo.url, content))
            contents[where] = content

    def has_gone_on(before: int) -> bool:
        upload_until(2)
        return count_done(list(contents)) > before

    upload_until(DOCUMENTS)
    for name in ("documents", *VICTIMS, "all", "documents"):
        before = count_done(list(contents))
        wait_until(partial(has_gone_on, before), limit_s=LIMIT_S)
        if name == "all":
            kill_all(echo)
            offset = ("--port-offset", str(echo.port_offset))
            operate(echo.run, cache, "up", "--map", str(echo.map), *offset)
        elif name != "supervisord":
            kill(echo, name, limit_s=LIMIT_S)
    wait_until(lambda: all(map(is_done, unfinished)), limit_s=LIMIT_S)
    for where, content in contents.items():
        assert requests.get(f"{where}/result", timeout=LIMIT_S).text == content
    kept = echo.run / "documents" / "kept" / "open"
    assert len(list(kept.iterdir())) == len(contents)
    # A document's name is removed after its end: later, if a program was killed in between.
    left = echo.run / "documents" / "unfinished"
    wait_until(lambda: not list(left.iterdir()), limit_s=LIMIT_S)
    for where in contents:
        assert requests.delete(where, timeout=LIMIT_S).status_code == 204
    assert list(kept.iterdir()) == []
