"""The imports of a gateway, and the notebook of docs/embedded.md, in a Python of their own."""

from __future__ import annotations

import re
import socket
import sys
from pathlib import Path

import pytest

from tests.programs import run

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


PYTHON = (sys.executable, "-W", "error", "-c")
HEAVY = "torch transformers ctranslate2 ts ray handlers.base"


def test_the_models_libraries_are_imported_only_where_they_are_needed():
    code = f"""
import sys, gateway.app as app, gateway.settings as settings
for backend in ("torchserve", "ray", "embedded"):
    app.create_app(settings.Settings(backend=backend, model="/nowhere"))
    print([name for name in {HEAVY!r}.split() if name in sys.modules])"""
    env = {"PATH": "", "BABELGATE_MAP": "torchserve_backend/setup_config.json"}
    torchserve, ray, embedded = run(*PYTHON, code, env=env).splitlines()
    assert (torchserve, ray) == ("[]", "[]")
    assert "handlers.base" in embedded


def test_the_notebooks_lines_on_the_page_work(tmp_path):
    page = (ROOT / "docs/embedded.md").read_text("utf-8")
    ask, serve_it = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    code = "\n".join(
        [ask, serve_it.replace("8888", port), ASK_IT.replace("8888", port)]
    )
    said = run(*PYTHON, code, env={"PATH": "", "BABELGATE_CACHE": str(tmp_path)})
    assert said.split() == ["Bonjour", "Bonjour"]


#: The last line is what ends a kernel: an event loop in a thread may crash an interpreter
#: that is taken down around it.
ASK_IT = """
import os
import requests
while True:
    try:
        answer = requests.post("http://127.0.0.1:8888/translate", json=wanted, timeout=60)
        break
    except requests.ConnectionError:
        pass
print(answer.json()["translated"], flush=True)
os._exit(0)
"""
