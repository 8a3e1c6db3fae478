"""The limits of connections, queues, files and uploads agree in nginx, the gateway and
TorchServe: nginx admits no more than they can handle, so that each refusal is our document."""

import os
import re

import pytest

import catalog
from contract.tasks import PATHS
from gateway.app import create_app
from gateway.http.worker import _REFUSED_AT_ONCE
from gateway.settings import Settings
from tests.test_docs import (
    NGINX,
    ROOT,
    SUPERVISOR,
    UPSTREAM,
    default_of,
    read_gunicorn,
    read_nginx,
)

#: A program's other files: logs, listening sockets, event queues, shared memory.
OTHER_FILES = 64
OF_ADDRESS = int(read_nginx("limit_conn address"))
OF_ALL = int(read_nginx("limit_conn all"))
KEYLESS = int(read_nginx("limit_conn keyless"))
NGINX_CONNECTIONS = int(read_nginx("worker_connections"))
#: Idle connections to the gateway that each nginx worker keeps.
IDLE = int(read_nginx("keepalive", UPSTREAM))
TO_TORCHSERVE = int(default_of("connections"))
#: nginx's locations for uploads.
UPLOADS = "~ ^/(caption|classify|detect-objects)$"
DOCUMENTS = "~ ^/(documents|v2/document|translate_file)/?$"
#: Pairs in which the first number must be at most the second, by the reason.
BOUNDS: dict[str, tuple[float, float]] = {
    "limit_conn address in nginx.conf: a client with all the connections that one may have "
    "must leave most of limit_conn all to others": (4 * OF_ADDRESS, OF_ALL),
    "limit_conn keyless in nginx.conf: requests without a key must leave a quarter of "
    "limit_conn all to others": (4 * KEYLESS, 3 * OF_ALL),
    "limit_conn keyed in nginx.conf: an address must leave a quarter of what is left to "
    "requests with keys, which may be wrong": (
        4 * int(read_nginx("limit_conn keyed")),
        3 * (OF_ALL - KEYLESS),
    ),
    "worker_connections in nginx.conf: all requests of limit_conn all may be one worker's, "
    f"each with two connections, besides {IDLE} idle ones to the gateway, and a quarter more "
    "for clients that wait or are being refused": (
        1.25 * (2 * OF_ALL + IDLE),
        NGINX_CONNECTIONS,
    ),
    "worker_rlimit_nofile in nginx.conf: each of worker_connections is a file": (
        NGINX_CONNECTIONS + OTHER_FILES,
        int(read_nginx("worker_rlimit_nofile")),
    ),
    "BABELGATE_CONNECTIONS: the sentences of one request are sent at the same time": (
        default_of("sentences_at_once"),
        TO_TORCHSERVE,
    ),
}


@pytest.fixture(params=[1, 2, 64], ids=lambda cores: f"{cores} cores")
def cores(request, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: request.param)
    return request.param


def test_no_limit_is_above_what_is_behind_it():
    assert [why for why, (number, most) in BOUNDS.items() if number > most] == []


def test_a_gateway_process_accepts_all_that_nginx_sends(cores):
    sent = OF_ALL + min(OF_ALL, cores * IDLE)
    assert read_gunicorn("worker_connections") >= sent, (
        "worker_connections in gunicorn.conf.py: all requests of limit_conn all may come "
        "to one process, with the idle connections that each of nginx's workers keeps, "
        "which were requests once"
    )


def test_a_gateway_process_may_open_as_many_files(cores):
    opened = read_gunicorn("worker_connections") + _REFUSED_AT_ONCE + TO_TORCHSERVE
    (minfds,) = re.findall(r"(?m)^minfds=(\d+)", SUPERVISOR)
    assert int(minfds) >= opened + OTHER_FILES, (
        "minfds in supervisord.conf: a gateway process has a file for each of Gunicorn's "
        "worker_connections, for those that it refuses, and for each of "
        "BABELGATE_CONNECTIONS"
    )


def test_bursts_wait_equally_long_in_both_backlogs(cores):
    assert set(map(int, re.findall(r"listen .*backlog=(\d+)", NGINX))) == {
        read_gunicorn("backlog")
    }, "backlog in nginx.conf (each listen) and gunicorn.conf.py: the same"
    assert read_gunicorn("backlog") >= OF_ALL, (
        "backlog: all requests of limit_conn all may come at once"
    )


@pytest.mark.parametrize("task", catalog.SECTIONS)
def test_a_queue_holds_the_next_batch(task):
    fields = catalog.SECTIONS[task].model_fields
    queue, batch = (int(str(fields[f"{n}_size"].default)) for n in ("queue", "batch"))
    assert queue >= 2 * batch, (
        f"{task}.queue_size in the map: the next batch fills while one is computed"
    )


def test_the_certificate_has_the_names_that_deploy_links():
    tls = (ROOT / "nginx/tls.conf").read_text("utf-8")
    assert read_nginx("ssl_certificate", tls) == "certificate.pem"
    assert read_nginx("ssl_certificate_key", tls) == "key.pem"


def test_nginx_keeps_no_body():
    assert re.findall(r"proxy_request_buffering (\w+);", NGINX) == ["off"]
    assert all(f"location {name} {{" in NGINX for name in (UPLOADS, DOCUMENTS))


def test_nginx_takes_documents_for_every_route_that_takes_them():
    app = create_app(Settings.model_construct(), models=catalog.load())
    routes = {
        rule.rule.removeprefix("/")
        for rule in app.url_map.iter_rules()
        if app.view_functions[rule.endpoint].__dict__["operation"].takes == "document"
    }
    assert routes == set(DOCUMENTS.partition("(")[2].partition(")")[0].split("|"))


def test_nginx_takes_uploads_for_every_task_that_takes_images():
    routes = {PATHS[task].removeprefix("/") for task in catalog.VISION}
    assert routes == set(UPLOADS.partition("(")[2].partition(")")[0].split("|"))
