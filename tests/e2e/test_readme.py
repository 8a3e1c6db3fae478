"""The README's curl command, run as it stands there, gives the answer that stands there."""

from __future__ import annotations

import json
import re
import subprocess

from deploy.stack import DOOR, ROOT, Stack


def test_the_readmes_curl_gets_the_readmes_answer(stack: Stack):
    text = (ROOT / "README.md").read_text("utf-8")
    command = re.search(r"^curl .+$", text, re.MULTILINE)
    answer = re.search(r"```json\n(.+?)\n```", text, re.DOTALL)
    assert command
    assert answer
    moved = command[0].replace(str(DOOR), str(DOOR + stack.port_offset))
    done = subprocess.run(
        ["bash", "-c", f"{moved} -s"], capture_output=True, text=True, timeout=60
    )
    assert json.loads(done.stdout) == json.loads(answer[1])
