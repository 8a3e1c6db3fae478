"""Webhooks are called when a document ends, only at allowed addresses, and retried until they
answer; one that hangs delays nothing else.
"""

import os
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import pytest

from contract.webhooks import Webhook
from documents import webhooks
from documents.jobs import Jobs
from documents.storage import DocumentFolder, Gone, State, describe
from tests.documents.conftest import take_step
from tests.programs import make_certificate
from tests.webhook_receiver import SECRET, WebhookReceiver

LOCAL = "127.0.0.0/8"
END = State(status="done", texts=1, texts_done=1, expires_at=1e12)
#: The log's reason for a failed attempt, by the behaviour of the server.
FAULTS = {
    "fail": "500",
    "bad head": "500",
    "redirect": "307",
    "long head": "LineTooLong",
    **dict.fromkeys(("hang", "drip", "go on"), "TimeoutError"),
}


@pytest.fixture(autouse=True)
def _logged(caplog) -> None:
    caplog.set_level("INFO")


@pytest.fixture
def shorten(monkeypatch) -> Callable[[], None]:
    """A function that lowers the time limit of an attempt to one second."""
    return lambda: monkeypatch.setattr(webhooks, "_ATTEMPT_S", 1.0)


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("pair")
    return make_certificate(folder, "DNS:hooks.test,IP:127.0.0.1")


@pytest.fixture
def receiver(pair, monkeypatch) -> Iterator[WebhookReceiver]:
    monkeypatch.setenv("SSL_CERT_FILE", pair.split(",")[0])
    with WebhookReceiver(pair=pair) as receiver:
        yield receiver


@pytest.fixture
def end(add, storage, receiver) -> Callable[..., DocumentFolder]:
    """Add a document that has just ended."""

    def end(url: str = "", caller: str = "somebody") -> DocumentFolder:
        webhook = Webhook(url or f"{receiver.url}/done?token=abc", SECRET)
        document: DocumentFolder = add("one", caller=caller, webhook=webhook)
        document.write_state(END)
        (job,) = (j for j in storage.list_jobs() if j.id == document.order.id)
        storage.finish(job)
        return document

    return end


def test_a_webhook_is_told_once_what_its_owner_is_told(end, receiver):
    document = end()
    assert webhooks.tell(document, LOCAL) == 0
    (notice,) = receiver.notices
    assert notice.path == "/done?token=abc"
    assert notice.read() == describe(document.order, END)
    assert notice.headers["webhook-id"] == document.order.id
    assert abs(time.time() - int(notice.headers["webhook-timestamp"])) < 60
    with pytest.raises(Gone):
        webhooks.tell(document, LOCAL)


def make_older(document: DocumentFolder, seconds: int) -> None:
    """Move the end of a document into the past."""
    ended_at = time.time() - seconds
    os.utime(document.state, (ended_at, ended_at))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_webhook_is_told_again_after(fault, end, receiver, shorten, caplog):
    document = end()
    receiver.will(fault)
    if FAULTS[fault] == "TimeoutError":
        shorten()
    assert 2 < webhooks.tell(document, LOCAL) < 10
    assert f"again: {FAULTS[fault]}" in caplog.text
    assert len(receiver.notices) == 1
    make_older(document, 1000)
    receiver.will("fail")
    assert 500 <= webhooks.tell(document, LOCAL) < 1010
    assert webhooks.tell(document, LOCAL) == 0
    assert "token" not in caplog.text  # a URL may contain a secret
    assert "127.0.0.1" not in caplog.text


@pytest.mark.parametrize("answer", ["gone", "huge", "fail"])
def test_a_webhook_is_not_told_again_after(answer, end, receiver, caplog):
    document = end()
    receiver.will(answer)
    if answer == "fail":
        make_older(document, 86_400)
    assert webhooks.tell(document, LOCAL) == 0
    assert ("given up: 500" in caplog.text) is (answer == "fail")
    assert not document.webhook.exists()


def test_a_server_that_never_speaks_tls_is_left(end, shorten, caplog):
    shorten()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}/"
        assert webhooks.tell(end(url), LOCAL) > 0
    assert "again: TimeoutError" in caplog.text


@pytest.fixture
def look_up(monkeypatch) -> list[str]:
    """The names looked up. A name has our address in the first lookup, then another."""
    find, asked = socket.getaddrinfo, list[str]()

    def look_up(host: str, *given: Any, **more: Any) -> Any:
        if host != "127.0.0.1":
            asked.append(host)
            host = "127.0.0.1" if asked.count(host) == 1 else "10.0.0.1"
        return find(host, *given, **more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return asked


def test_the_address_that_was_checked_is_asked_by_its_name(end, receiver, look_up):
    url = f"https://hooks.test:{receiver.server.server_port}"
    assert webhooks.tell(end(url), LOCAL) == 0
    (notice,) = receiver.notices
    assert (notice.headers["Host"], notice.path) == (url.removeprefix("https://"), "/")
    assert look_up == ["hooks.test"]
    assert webhooks.tell(end(url), LOCAL) > 0
    assert len(receiver.notices) == 1


def test_the_address_that_the_system_prefers_is_asked_first(end, monkeypatch):
    places = [(2, 1, 6, "", (f"127.0.0.{number}", 0)) for number in range(1, 100)]
    addresses = list[str]()

    def connect(place: tuple[str, int], *_: object, **__: object) -> NoReturn:
        addresses.append(place[0])
        raise OSError

    document = end("https://hooks.test")
    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", lambda *_, **__: places)
        patch.setattr("urllib3.util.connection.create_connection", connect)
        webhooks.tell(document, LOCAL)
        make_older(document, 6)
        for _ in range(20):
            webhooks.tell(document, LOCAL)
    assert addresses[0] == "127.0.0.1"
    assert len(set(addresses)) > 2


@pytest.mark.parametrize(
    ("name", "allowed", "said"),
    [
        ("hooks.test", "public", "PermissionError"),
        ("hooks.test", "off", "PermissionError"),
        ("others.test", LOCAL, "SSLCertVerificationError"),
    ],
)
def test_a_name_leads_only_where_it_may(
    name, allowed, said, end, receiver, look_up, caplog
):
    url = f"https://{name}:{receiver.server.server_port}/"
    assert webhooks.tell(end(url), allowed) > 0
    assert f"again: {said}" in caplog.text
    assert receiver.notices == []


@pytest.fixture
def run_until(storage, asking) -> Iterator[Callable[..., None]]:
    """Run a program's jobs until a condition is true."""
    jobs = Jobs(storage, asking, take_step, kept_s=60, at_once=1, webhooks=LOCAL)

    def run_until(is_so: Callable[[], bool]) -> None:
        give_up_at = time.monotonic() + 60

        def beat() -> None:
            if is_so() or time.monotonic() > give_up_at:
                jobs.stop()

        jobs.run(beat)
        assert is_so()

    yield run_until
    jobs.close()


def test_webhooks_that_hang_delay_no_translation_and_no_new_webhook(
    add, end, receiver, run_until, shorten
):
    shorten()
    hanging = [end() for _ in range(40)]
    receiver.will(*["hang"] * 100)
    add("one", webhook=Webhook(f"{receiver.url}/new", SECRET))
    run_until(lambda: any(notice.path == "/new" for notice in receiver.notices))
    assert receiver.notices[-1].read()["status"] == "done"
    assert len(receiver.notices) < len(hanging)


def test_the_webhook_of_a_deleted_document_is_not_told(
    end, storage, receiver, run_until
):
    """Neither is the webhook of a document whose folder another program has locked."""
    deleted, failed, locked, kept = (end() for _ in range(4))
    failed.write_state(State(status="failed", error={"status": 422}))
    storage.delete(deleted)
    with locked.lock():
        run_until(lambda: len(storage.list_jobs("webhooks")) == 1)
    told = sorted(notice.read()["id"] for notice in receiver.notices)
    assert told == sorted([failed.order.id, kept.order.id])


def test_a_lost_mark_of_a_webhook_comes_back_unless_too_many_wait(
    end, storage, monkeypatch
):
    monkeypatch.setattr("documents.storage._WEBHOOKS_OF_ONE", 2)
    first, *rest = [end() for _ in range(3)] + [end(caller="another")]
    jobs = storage.list_jobs("webhooks")
    assert len(jobs) == 3
    for job in jobs:
        (storage.folder / "webhooks" / "~".join(job[:3])).unlink()
    first.webhook.unlink()
    list(storage.walk(time.time()))
    found = {job.id for job in storage.list_jobs("webhooks")}
    assert found == {each.order.id for each in rest}
