"""A stack's state and the secret of its cluster."""

import re
from dataclasses import replace
from pathlib import Path

from contract import durable
from deploy import stack
from deploy.stack import Stack
from tests.durability.running import Diary

OFFSETS = (100, 200)


def prepare(folder: Path) -> None:
    Stack(folder, folder / "map.json").remember()


def interfere(folder: Path, diary: Diary) -> None:
    diary.tell("secret", durable.make_secret(folder / "token"))
    Stack(folder, folder / "map.json", port_offset=OFFSETS[-1]).remember()


def act(folder: Path, diary: Diary) -> None:
    token = folder / "token"
    if diary.attempt("secret", lambda: durable.make_secret(token), OSError):
        diary.tell("secret", token.read_text())
    for offset in OFFSETS:
        state = Stack(folder, folder / "map.json", port_offset=offset)
        diary.attempt(str(offset), state.remember, OSError)


def check(folder: Path, diary: Diary) -> None:
    token = folder / "token"
    secret = durable.make_secret(token)
    assert re.fullmatch("[0-9a-f]{64}", secret)
    assert set(diary.find("secret")) <= {secret}
    found = stack.read(folder)
    assert found
    done = [int(each) for each in diary.find("done") if each.isdecimal()]
    assert found.port_offset in (0, *OFFSETS)
    assert found.port_offset >= max(done, default=0)
    replace(found, port_offset=300).remember()
    names = {path.name for path in folder.iterdir()}
    assert names == {"token", "stack.json"}
