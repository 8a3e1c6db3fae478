"""The README's curl commands, run verbatim, return the answers in the README."""

import json
import re
from pathlib import Path
from typing import Any

from deploy.stack import DOOR, ROOT, Stack
from tests.programs import run

README = (ROOT / "README.md").read_text("utf-8")
#: A curl command with the others of its block, and the answer below it.
EXAMPLES = re.findall(
    r"```sh\n((?:(?!```).+\n)*?)(curl .+)\n```\n```json\n(.+?)\n```", README
)


def ask(stack: Stack, command: str, folder: Path) -> Any:
    moved = command.replace(str(DOOR), str(DOOR + stack.port_offset))
    return json.loads(run("bash", "-c", f"{moved} -s", cwd=folder))


def test_the_readmes_curl_gets_the_readmes_answer(stack: Stack):
    (_, command, answer), _ = EXAMPLES
    assert ask(stack, command, ROOT) == json.loads(answer)


def test_the_readmes_image_gets_the_readmes_caption(vision: Stack, tmp_path: Path):
    _, (others, command, answer) = EXAMPLES
    up, draw = others.strip().splitlines()
    assert up == f"make up CONFIG={vision.map.relative_to(ROOT)}"
    moved = draw.replace("run/images", str(tmp_path / "run/images"))
    run("bash", "-c", moved)
    assert ask(vision, command, tmp_path) == json.loads(answer)
    labelled = command.replace("caption", "'classify?top_k=1'")
    (label,) = re.findall("`/classify.*?` says `(.+?)`", README)
    (found,) = ask(vision, labelled, tmp_path)["labels"]
    assert found["label"] == label
