"""A TorchServe process starts without torch, and imports it only when it is needed."""

import os
import sys

import pytest

from deploy.stack import ROOT
from tests.programs import run

CODE = """
from ts.protocol.otf_message_handler import create_predict_response
import torch
answer = create_predict_response([torch.ones(1)], {0: 'id'}, 'OK', 200)
print(type(torch).__name__, b'PK' in answer)
"""


@pytest.mark.slow
def test_a_handler_may_still_return_a_tensor():
    startup = {"PYTHONPATH": str(ROOT / "torchserve_backend/startup")}
    said = run(sys.executable, "-c", CODE, env=os.environ | startup)
    assert said.strip() == "module True"
