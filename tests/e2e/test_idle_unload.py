"""A model that nobody uses is unloaded on the real stack, and comes back."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from tests.e2e.real_stack import operate, start_stack, wait_until
from tests.e2e.test_document_jobs import ECHO
from torchserve_backend.management import Management, Registered

pytestmark = pytest.mark.faults

LIMIT_S = 60


def test_an_unused_model_is_unloaded_and_the_next_requests_load_it_once(
    tmp_path_factory, cache
):
    run = tmp_path_factory.mktemp("idle") / "run"
    content = {**ECHO, "translation": {**ECHO["translation"], "idle_unload_s": 2}}
    with start_stack(run, cache, content=content) as stack:
        management = Management(stack.management_url, stack.key_file)

        def describe() -> Registered:
            found = management.describe("de")
            assert found
            return found

        def is_unloaded() -> bool:
            return not describe().min_workers and not describe().ready_workers

        def ask(text: str, **headers: str) -> requests.Response:
            row = {"src_lang": "en", "src_text": text, "tgt_lang": "de"}
            url = f"{stack.url}/translate"
            return requests.post(url, json=row, headers=headers, timeout=LIMIT_S)

        wait_until(is_unloaded, limit_s=LIMIT_S)
        assert requests.get(f"{stack.url}/readyz", timeout=LIMIT_S).ok
        assert "RUNNING" in operate(run, cache, "status")
        assert is_unloaded()

        with ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(ask, map("Room {}".format, range(16))))
        assert {answer.status_code for answer in answers} == {200}
        assert any("load;dur=" in a.headers["Server-Timing"] for a in answers)

        wait_until(is_unloaded, limit_s=LIMIT_S)
        late = ask("Hello", **{"X-Timeout-Ms": "200"})
        assert late.status_code == 429
        assert int(late.headers["Retry-After"]) >= 1
        assert ask("Hello").status_code == 200
