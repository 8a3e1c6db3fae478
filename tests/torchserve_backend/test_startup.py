"""A process of TorchServe, as it starts: without torch until that is needed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

STARTUP = Path(__file__).parents[2] / "torchserve_backend/startup"
LIMIT_S = 120


def run(code: str) -> str:
    """Run a new Python as TorchServe does, and return its output."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(STARTUP)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_worker_for_ctranslate2_imports_no_torch():
    code = (
        "import sys, ts.model_service_worker, handlers.translation\n"
        "import handlers.engine.translation.ctranslate2\n"
        "print('torch' in sys.modules)"
    )
    assert run(code) == "False"


def test_a_handler_may_still_return_a_tensor():
    code = (
        "from ts.protocol.otf_message_handler import create_predict_response\n"
        "import torch\n"
        "answer = create_predict_response([torch.ones(1)], {0: 'id'}, 'OK', 200)\n"
        "print(type(torch).__name__, b'PK' in answer)"
    )
    assert run(code) == "module True"
