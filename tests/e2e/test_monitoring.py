"""`python -m deploy monitor` has data for every expression of rules and dashboard."""

import json
import math
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import requests
import yaml

from deploy.monitoring import MONITORING
from deploy.stack import Stack
from tests.e2e.real_stack import is_ready, list_listening, wait_until
from tests.programs import spawn
from torchserve_backend.management import Management

TARGETS = ("ko", "de")
#: A comparison outside a selector's braces.
COMPARISON = re.compile(r"(?<= )(==|!=|>=|<=|>|<)(?= )")
LIMIT_S = 30


def list_expressions() -> list[object]:
    """Return expressions with their places; by `bool`, alerts have data while all is well."""
    rules = yaml.safe_load((MONITORING / "rules.yml").read_text("utf-8"))
    dashboard = json.loads((MONITORING / "dashboard.json").read_text("utf-8"))
    found = {
        rule.get("alert") or rule["record"]: COMPARISON.sub(r"\1 bool", rule["expr"])
        for group in rules["groups"]
        for rule in group["rules"]
    }
    found |= {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in dashboard["panels"]
        for target in panel["targets"]
    }
    return [pytest.param(found[place], id=place) for place in found]


def query(prometheus: str, expression: str) -> dict[frozenset[tuple[str, str]], float]:
    """Return an expression's values by labels, without NaN. Fails if Prometheus rejects it."""
    params = {"query": expression.replace("$__rate_interval", "1m")}
    answer = requests.get(f"{prometheus}/api/v1/query", params, timeout=LIMIT_S)
    assert answer.ok, answer.text
    return {
        frozenset(sample["metric"].items()): value
        for sample in answer.json()["data"]["result"]
        if not math.isnan(value := float(sample["value"][1]))
    }


@pytest.fixture(scope="module")
def prometheus(stack: Stack, cache: Path, promtool: Path) -> Iterator[str]:
    """The Prometheus of `make monitor`, which scrapes every two seconds."""
    command = (sys.executable, "-m", "deploy", "monitor", "--run-dir", stack.run)
    process = spawn(*command, BABELGATE_CACHE=str(cache), COLUMNS="160")
    try:
        assert process.stdout
        address = re.search(r"http://[\w.:]+", process.stdout.readline())
        assert address
        wait_until(lambda: is_ready(address[0], "/-/ready"))
        configuration = stack.run / "prometheus/prometheus.yml"
        text = configuration.read_text("utf-8")
        configuration.write_text(re.sub(r"(_interval|_timeout): \d+s", r"\1: 2s", text))
        process.send_signal(signal.SIGHUP)
        yield address[0]
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0


def ask(url: str) -> None:
    """Send requests into two languages, and a wrong one. No sentence is sent twice."""
    text = f"Good morning, {time.time()}"
    for target in (*TARGETS, "tlh"):
        body = {"src_lang": "en", "src_text": text, "tgt_lang": target}
        requests.post(url, json=body, timeout=60)


@pytest.fixture(scope="module")
def scraped(prometheus: str, url: str) -> str:
    """The Prometheus, once it has scraped the requests of `ask`."""

    def has_seen() -> bool:
        ask(url)
        seen = query(prometheus, "sum by (model) (rate(BabelgateRows[1m])) > 0")
        return len(seen) >= len(TARGETS)

    wait_until(has_seen)
    return prometheus


def test_it_scrapes_all_that_have_metrics(scraped: str):
    up = {dict(labels)["job"]: value for labels, value in query(scraped, "up").items()}
    assert up == {"gateway": 1, "registrar": 1, "torchserve": 1}


@pytest.mark.parametrize("expression", list_expressions())
def test_every_expression_has_data(scraped: str, url: str, expression: str):
    def has_data() -> bool:
        found = query(scraped, expression)
        if not found:  # the last requests may be more than a minute ago
            ask(url)
        return bool(found)

    wait_until(has_data, limit_s=LIMIT_S)


def test_both_sides_call_a_model_by_the_same_name(scraped: str):
    gateways = ("babelgate_queued_rows", "babelgate_waiting_rows")
    for name in (*gateways, "BabelgateRows", "ts_inference_requests_total"):
        found = query(scraped, f"sum by (model) ({name})")
        models = {dict(labels)["model"] for labels in found}
        assert models >= set(TARGETS), name


def test_a_language_without_a_worker_is_noticed(stack: Stack, scraped: str):
    management = Management(stack.management_url, stack.key_file)
    alert = 'ALERTS{alertname="LanguageNotReady", target="vi"}'
    management.scale("vi", 0, wait=True)
    try:
        wait_until(lambda: bool(query(scraped, alert)))
    finally:
        management.scale("vi", 1, wait=True)
    wait_until(lambda: not query(scraped, alert))
    assert is_ready(stack.url)


def test_it_listens_on_loopback_only(scraped: str):
    port = int(scraped.rpartition(":")[2])
    listening = list_listening(psutil.net_connections("tcp"))
    assert {ip for ip, each in listening if each == port} == {"127.0.0.1"}
