"""The work of an operator: up again, status, a reload, a model registered by hand, metrics."""

import json
import re
import shutil
from collections.abc import Callable

import pytest
import requests

from benchmarks.instruments.generator import Request, Target, ask_within
from deploy.stack import MANAGEMENT, ROOT, Stack
from tests.e2e.real_stack import (
    MODEL_WORKER,
    find_processes,
    is_ready,
    keep_asking,
    list_listening,
    operate,
    processes,
    wait_until,
)
from tests.programs import run
from torchserve_backend.management import Management, read_key

GRACE = ("graceful_timeout = int", "graceful_timeout = str")
CLIENTS = 12
EN_DE = {"src_lang": "en", "src_text": "Good morning", "tgt_lang": "de"}


def test_up_again_and_status_say_what_runs(deploy: Callable[..., str]):
    said = deploy("up")
    assert "already running" in said
    assert "14 of 14 models already registered" in said
    assert re.search(r"curl http://\S+ -d", said)
    said = deploy("status")
    for program in ("torchserve", "documents", "registrar"):
        assert f"{program} RUNNING" in said
    for word in ("ko", "models/phrasebook", "1/1", "64", "100"):
        assert word in said
    assert "nothing to change" in deploy("check")


def test_a_reload_drops_no_request(stack: Stack, deploy: Callable[..., str]):
    # nginx may just have closed an idle connection: HTTP leaves it to clients to retry.
    request = Request(json.dumps(EN_DE).encode(), "/translate")
    target = Target(stack.url, [request], headers={"Connection": "close"})
    master = stack.find_leader("gateway")
    old = {*master.children()}

    def wait_for_answers() -> None:
        """Wait for more answers than there are requests under way."""
        before = len(replies)
        wait_until(lambda: sum(one.is_good for one in replies[before:]) > CLIENTS)

    with keep_asking(target, ask_within(30_000), clients=CLIENTS) as replies:
        wait_for_answers()
        assert "Reloaded" in deploy("reload")
        wait_until(lambda: not old & {*master.children()})
        wait_for_answers()
    assert {one.status for one in replies} == {"200"}


def test_translation_workers_have_no_torch_in_memory(stack: Stack):
    workers = find_processes(stack, MODEL_WORKER)
    assert len(workers) == 14
    for worker in workers:
        files = {mapped.path for mapped in worker.memory_maps()}
        assert not [file for file in files if "libtorch" in file]


def test_a_model_is_registered_by_hand_with_the_documented_command(stack: Stack):
    management = Management(stack.management_url, stack.key_file)
    found = management.describe("ko")
    assert found is not None
    management.unregister("ko", found.version)
    key = read_key(stack.key_file, "management")
    url = f"localhost:{MANAGEMENT + stack.port_offset}/models"
    query = "url=ko.mar&batch_size=64&max_batch_delay=100"
    curl = ["curl", "-s", "-X", "POST", f"{url}?{query}"]
    said = run(*curl, "-H", f"Authorization: Bearer {key}")
    # The registrar, which polls every three seconds, may have been quicker.
    assert "registered with" in said or "already registered" in said
    wait_until(lambda: is_ready(stack.url))


def test_management_needs_a_token_and_takes_no_url(stack: Stack):
    models = f"{stack.management_url}/models"
    assert requests.get(models).status_code == 400
    headers = {"Authorization": f"Bearer {read_key(stack.key_file, 'management')}"}
    foreign = {"url": "http://127.0.0.1:1/evil.mar"}
    refused = requests.post(models, params=foreign, headers=headers)
    assert "does not match any allowed URL" in refused.text


def test_no_log_holds_what_people_translate(stack: Stack):
    secret = "xylophone7391"
    requests.post(stack.url, json=EN_DE | {"src_text": secret}, timeout=60)
    requests.post(stack.url, json=EN_DE | {"src_text": {"text": secret}}, timeout=60)
    requests.post(stack.url, data=f'{{"{secret}', timeout=60)
    logs = [path for path in (stack.run / "logs").iterdir() if path.is_file()]
    assert len(logs) >= 5
    key = read_key(stack.key_file, "inference")
    for path in logs:
        text = path.read_text("utf-8", "replace")
        assert secret not in text, path
        assert key not in text, path


def test_only_nginx_listens_beyond_loopback(stack: Stack):
    listening = list_listening(
        connection
        for process in processes(stack)
        for connection in process.net_connections("tcp")
    )
    beyond = {port for ip, port in listening if ip not in ("127.0.0.1", "::1")}
    assert beyond == {7777 + stack.port_offset}


@pytest.mark.parametrize(
    ("file", "right", "wrong", "message"),
    [
        ("nginx/nginx.conf", "tokens off;", "tokens maybe;", "in nginx/nginx.conf:"),
        ("gateway/gunicorn.conf.py", *GRACE, "graceful_timeout"),
        ("gateway/gunicorn.conf.py", "backlog =", "baklog =", "did you mean backlog?"),
    ],
    ids=["nginx", "Gunicorn", "a name"],
)
def test_a_broken_configuration_is_not_taken_over(
    stack, cache, tmp_path, file, right, wrong, message
):
    # Tests may edit the clone's configuration; the rest is linked.
    for path in ROOT.iterdir():
        if path.name in ("deploy", "gateway", "nginx"):
            shutil.copytree(path, tmp_path / path.name)
        else:
            (tmp_path / path.name).symlink_to(path)
    path = tmp_path / file
    original = path.read_text("utf-8")
    assert right in original
    path.write_text(original.replace(right, wrong))
    for command in (("reload",), ("up", "--map", str(stack.map))):
        said = operate(stack.run, cache, *command, expect=1, root=tmp_path)
        assert f"{file} is invalid" in said
        assert message in said
    assert is_ready(stack.url)
