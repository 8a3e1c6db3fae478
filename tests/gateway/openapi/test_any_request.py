"""Whatever the document lets a client send, and what it does not, the answer is one that the
document has.
"""

from __future__ import annotations

import pytest
import schemathesis
from schemathesis import GenerationMode

from tests.description import CONFIGURATION, ask_anything


@pytest.mark.parametrize("mode", GenerationMode)
def test_any_request_is_answered_as_described(client, mode):
    api = schemathesis.openapi.from_wsgi(
        "/openapi.json", client.application, config=CONFIGURATION
    )
    ask_anything(api, mode, cases=5)
