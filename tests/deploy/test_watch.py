"""Log files stay within their bounds while programs write to them."""

import shutil
import sys
from pathlib import Path
from subprocess import PIPE, Popen
from typing import get_args

from deploy.stack import Backend, Stack
from deploy.watch import BOUNDS, rotate

#: Appends numbered lines until its input ends.
WRITER = """
import os, select, sys
log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
number = 0
while not select.select([sys.stdin], [], [], 0.0005)[0]:
    os.write(log, b"%d\\n" % number)
    number += 1
print(number)
"""


def test_every_program_has_a_bound():
    stacks = [Stack(Path(), Path(), backend=name) for name in get_args(Backend)]
    assert set(BOUNDS) == {name for stack in stacks for name in stack.programs}


def test_the_oldest_is_dropped(tmp_path: Path):
    log = tmp_path / "nginx.log"
    for content in ("first", "second", "third", "fourth"):
        log.write_text(content)
        rotate(log, most_bytes=5, kept=2)
    log.write_text("now")
    rotate(log, most_bytes=5, kept=2)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "nginx.log": "now",
        "nginx.log.1": "fourth",
        "nginx.log.2": "third",
    }


def test_a_program_goes_on_writing_and_its_lines_are_kept(tmp_path: Path):
    log = tmp_path / "nginx.log"
    command = [sys.executable, "-c", WRITER, str(log)]
    with Popen(command, stdin=PIPE, stdout=PIPE) as writer:
        for _ in range(3):
            while not log.exists() or log.stat().st_size < 500:
                assert writer.poll() is None
            rotate(log, most_bytes=500, kept=3)
        said, _ = writer.communicate()
    kept = [tmp_path / f"nginx.log.{number}" for number in (3, 2, 1)]
    lines = b"".join(path.read_bytes() for path in (*kept, log)).split()
    # A line written in the microseconds between copying and truncating is lost.
    assert len(lines) >= int(said) - len(kept)
    assert list(map(int, lines)) == sorted(map(int, lines))


def test_a_full_disk_keeps_the_log_small_all_the_same(tmp_path, monkeypatch, full_disk):
    log = tmp_path / "nginx.log"
    log.write_bytes(bytes(600))
    monkeypatch.setattr(shutil, "copyfileobj", full_disk)
    rotate(log, most_bytes=500, kept=3)
    assert [path.name for path in tmp_path.iterdir()] == ["nginx.log"]
    assert log.stat().st_size == 0
