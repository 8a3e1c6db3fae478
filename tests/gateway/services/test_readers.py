"""Long texts, which a separate process reads, and the faults of that process."""

import gc
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import gevent
import gevent.subprocess
import psutil
import pytest

from gateway.errors import (
    ClientGone,
    DeadlineExceeded,
    GlossariesUnavailable,
    NotReady,
    Overloaded,
    TooManyRows,
)
from gateway.glossaries.glossary import DictionaryDraft, GlossaryContent
from gateway.glossaries.storage import open_storage
from gateway.http.request import Call, Deadline
from gateway.services.readers import Readers, _Reader
from gateway.settings import Settings
from text.document import ReadingJob, collect, scan
from text.options import HTML_TAGS, Tags
from text.terms import Choice

pytestmark = pytest.mark.slow

LONG = "One {name} is here. Two are `there`! 😀\n" * 100
ENDLESS = "a\n" * 200_000
PATIENT = 60.0


def make_job(*texts: str, max_rows: int = 10_000) -> ReadingJob:
    return ReadingJob(tuple((text, "en") for text in texts), None, True, max_rows)


def wait(
    seconds: float = PATIENT, has_gone: Callable[[], bool] = lambda: False
) -> Call:
    class Watched(Call):
        def has_gone(self) -> bool:
            return has_gone()

    return Watched("", seconds, Deadline(time.monotonic() + seconds))


def find_processes() -> list[psutil.Process]:
    return [
        child
        for child in psutil.Process().children()
        if child.status() != psutil.STATUS_ZOMBIE
        and "gateway.services.reader" in child.cmdline()
    ]


@pytest.fixture
def readers() -> Iterator[Readers]:
    """The readers, with one process that ends with the test."""
    for other in find_processes():  # of an application that another test has made
        other.kill()
        other.wait(PATIENT)
    own = Readers()
    yield own
    own.close()
    assert not find_processes()


#: The options with which the texts of a job are read.
WAYS: dict[str, dict[str, Any]] = {
    "text": {},
    "one sentence": {"splitting": "none"},
    "HTML": {"tags": HTML_TAGS, "splitting": "sentences"},
    "XML": {"tags": Tags(is_xml=True, ignored=("b",), splitting=("br", "a"))},
}


@pytest.mark.parametrize("way", WAYS)
def test_a_process_reads_what_would_be_read_here(readers, way):
    readers.read(make_job("a. b. c."), wait())
    assert not find_processes(), "a short text needs none"
    texts = (LONG, "", "<b>a</b> &amp; b <br>" * 200, "b{x}{y}", "ü😀\n" * 1000)
    job = make_job(*texts, "A B. C D. {x}")
    job = replace(job, target="zh", **WAYS[way])
    for _ in range(2):
        assert readers.read(job, wait()) == list(collect(job, scan(job)))
    assert len(find_processes()) == 1


@pytest.mark.parametrize("text", ["a\n" * 3, "a\n" * 1001], ids=["here", "there"])
def test_sentences_are_counted(readers, text):
    rows = text.count("a")
    readers.read(make_job(text, max_rows=rows), wait())
    with pytest.raises(TooManyRows, match=f"more than {rows - 1} sentences"):
        readers.read(make_job(text, max_rows=rows - 1), wait())
    readers.read(make_job(text, max_rows=rows), wait())


def test_what_takes_too_long_ends_and_is_not_begun_where_it_is_too_late(readers):
    with pytest.raises(DeadlineExceeded):
        readers.read(make_job(ENDLESS, max_rows=1 << 30), wait(0.3))
    readers.read(make_job(LONG), wait())
    (process,) = find_processes()
    with pytest.raises(DeadlineExceeded):
        readers.read(make_job(LONG), wait(-1))
    assert find_processes() == [process]


def test_a_client_that_goes_ends_the_reading(readers):
    looks = iter([False, False])
    call = wait(has_gone=lambda: next(looks, True))
    with pytest.raises(ClientGone):
        readers.read(make_job(ENDLESS, max_rows=1 << 30), call)
    assert readers.read(make_job(LONG), wait())
    (process,) = find_processes()
    readers._reader._socket.close()
    process.wait(PATIENT)  # it ends with its gateway


def test_a_reader_that_is_killed_is_replaced(readers):
    def kill() -> bool:
        for process in find_processes():
            process.kill()
        return False

    # From now on, libev collects the exit statuses of all children.
    gevent.subprocess.run(["true"], check=True)
    with pytest.raises(NotReady):
        readers.read(make_job(ENDLESS, max_rows=1 << 30), wait(has_gone=kill))
    assert readers.read(make_job(LONG), wait())
    (idle,) = find_processes()
    idle.kill()
    idle.wait(PATIENT)
    assert readers.read(make_job(LONG), wait())


def test_a_request_that_goes_on_while_its_process_exits_is_not_ready(readers):
    """Python then ends the readers and closes their sockets."""

    def exit_soon() -> bool:
        for found in gc.get_objects():
            if type(found) is _Reader:  # isinstance() would ask proxies, too
                found.end()
        return False

    with pytest.raises(NotReady):
        readers.read(make_job(ENDLESS, max_rows=1 << 30), wait(has_gone=exit_soon))


def test_a_short_text_goes_before_longer_ones(readers, monkeypatch):
    monkeypatch.setattr("gateway.services.readers._CHARACTERS_PER_S", 1)
    order: list[str] = []

    def read(name: str, text: str) -> None:
        readers.read(make_job(text, max_rows=1 << 30), wait())
        order.append(name)

    first = gevent.spawn(read, "first", LONG)
    gevent.sleep(0)
    long = gevent.spawn(read, "long", 2 * LONG)
    gevent.sleep(0)
    short = gevent.spawn(read, "short", LONG)
    gevent.joinall([first, long, short], timeout=PATIENT, raise_error=True)
    assert order == ["first", "short", "long"]


def test_only_so_many_wait(readers, monkeypatch):
    monkeypatch.setattr("gateway.services.readers._MOST_WAITING", 2)
    reading = [gevent.spawn(readers.read, make_job(LONG), wait()) for _ in range(2)]
    gevent.sleep(0)
    with pytest.raises(DeadlineExceeded):
        readers.read(make_job(LONG), wait(0.01))  # and leaves its place to others
    reading.append(gevent.spawn(readers.read, make_job(LONG), wait()))
    gevent.sleep(0)
    with pytest.raises(Overloaded):
        readers.read(make_job(LONG), wait())
    gevent.joinall(reading, timeout=PATIENT, raise_error=True)


def test_any_thread_may_read(readers):
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda _: readers.read(make_job(LONG), wait()), range(6)))
    assert len(found) == 6


@pytest.mark.parametrize("text", ["One server.", LONG + "One server."])
def test_terms_are_found_here_and_in_a_process(readers, tmp_path, text):
    url = f"sqlite:///{tmp_path}/db"
    storage = open_storage(url)
    made = storage.create(
        "",
        GlossaryContent("a", (DictionaryDraft("en", "de", b"server\tRechner", 1),)),
        Settings(disk_reserve_bytes=0),
    )
    choice = Choice(url, {"en": (made.dictionaries[0].id,)})
    job = replace(make_job(text), target="de", dictionaries=choice)
    for _ in range(2):
        (document,) = readers.read(job, wait())
        shown = [p.shown for s in document.segments for p in s.placeholders]
        assert shown.count("Rechner") == 1
    storage.delete("", made.id)
    gone = replace(choice, by_source={"en": ("none",)})
    for _ in range(2):
        with pytest.raises(GlossariesUnavailable):
            readers.read(replace(job, dictionaries=gone), wait())
    storage.close()
