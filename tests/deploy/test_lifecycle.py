"""The decisions of `up`: the settings and programs that it keeps, ends, starts and shows."""

import json
import os
import socket
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import urllib3

import catalog
from benchmarks.instruments.running import claim_port_offset
from catalog import Catalog
from deploy import lifecycle, serving
from deploy import stack as stacks
from deploy.stack import UNSAID, Stack, StackError
from deploy.supervision import Supervision
from gateway.settings import SettingsError
from tests.torchserve_backend.fakes import want

NGINX = Path("/bin/true")


class FakeSupervision(Supervision):
    """A recorder of calls; `stopped` are the programs that do not run."""

    def __init__(self, *, is_up: bool, stopped: Sequence[str] = ()) -> None:
        self.is_up = is_up
        self.stopped = list(stopped)
        self.calls: list[str] = []
        self.environment: dict[str, str] = {}

    def read_environment(self) -> dict[str, str]:
        return self.environment

    def is_running(self) -> bool:
        return self.is_up

    def start(self, environment: dict[str, str], nginx: Path) -> None:
        self.calls.append(f"start with {nginx}")

    def start_stopped(self) -> list[str]:
        return self.stopped

    def restart(self, program: str) -> None:
        self.calls.append(f"restart {program}")

    def signal(self, program: str, name: str) -> None:
        self.calls.append(f"{name} {program}")


@pytest.fixture
def wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stack:
    """A stack whose ports are free and whose run directory is ready. `up` finds NGINX, and
    leaves the environment as it is."""
    monkeypatch.setattr("deploy.stack._MEMORY", tmp_path)
    monkeypatch.setattr(lifecycle, "ensure", lambda *_: [NGINX])
    monkeypatch.setattr(lifecycle, "apply_settings", lambda _: None)
    offset = claim_port_offset()
    stack = Stack(tmp_path, tmp_path / "setup.json", "model", offset, settings={})
    stack.write("{}")
    return stack


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[Stack]:
    stacks: list[Stack] = []
    monkeypatch.setattr(lifecycle, "end", stacks.append)
    return stacks


def test_what_runs_is_what_was_written(wanted, monkeypatch):
    supervision = FakeSupervision(is_up=False)
    monkeypatch.setattr(lifecycle, "Supervision", lambda _: supervision)
    assert lifecycle.find_running(wanted) is None
    supervision.is_up = True
    assert lifecycle.find_running(wanted) == wanted
    (wanted.run / "stack.json").write_text("{")
    supervision.environment = {"BABELGATE_KEYS": "required"}
    torn = lifecycle.find_running(wanted)
    assert torn is not None
    assert torn.settings == {"BABELGATE_KEYS": "required"}
    assert torn != lifecycle.complete(wanted, torn)


def test_a_stack_that_may_have_required_keys_does_not_start_without(tmp_path):
    (tmp_path / "stack.json").write_text("{")
    with pytest.raises(StackError, match="stack.json is damaged, .* required keys"):
        lifecycle.up(Stack(tmp_path, Path()), timeout_s=1)


def test_a_setting_that_the_gateway_would_refuse_starts_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("BABELGATE_IDENTIFIER", "nonsense")
    run = tmp_path / "run"
    with pytest.raises(SettingsError, match="BABELGATE_IDENTIFIER: .*'nonsense'"):
        lifecycle.up(Stack(run, Path()), timeout_s=1)
    assert [file.name for file in run.iterdir()] == ["up.lock"]


@pytest.mark.parametrize("said", [UNSAID, Path("mine.json")], ids=["none", "a map"])
def test_a_bundle_brings_the_map_unless_one_is_said(wanted, monkeypatch, said: Path):
    prepared: list[Path] = []

    def choose(stack: Stack) -> None:
        prepared.append(stack.map)
        raise StackError("far enough")

    unpacked = {Path("models.tar"): Path("bundled.json")}
    monkeypatch.setattr("catalog.bundle.unpack", lambda file, _: unpacked[file])
    monkeypatch.setattr(lifecycle, "choose_serving", choose)
    start = replace(wanted, map=said)
    with pytest.raises(StackError, match="far enough"):
        lifecycle.up(start, timeout_s=1, bundled=Path("models.tar"))
    assert prepared == [Path("bundled.json") if said == UNSAID else said]


def test_a_start_goes_on_with_the_last_ones_backend(wanted, monkeypatch, ended):
    replace(wanted, backend="ray").remember()
    wanted.log("ray").write_text("why\n")

    def begin(self: Supervision, environment: object, nginx: Path) -> None:
        raise TimeoutError(self._stack.render_supervisor(nginx))

    monkeypatch.setattr(Supervision, "start", begin)
    content = {"cuda_id": {"fr": "cpu"}, "translation": {"engine": "echo"}}
    wanted.map.write_text(json.dumps(content))
    with pytest.raises(TimeoutError, match=r"\[program:ray\]") as caught:
        lifecycle.up(replace(wanted, model="models/phrasebook"), timeout_s=1)
    assert [note.splitlines()[-1] for note in caught.value.__notes__] == ["why"]
    assert "[program:torchserve]" not in str(caught.value)


RUNS: dict[str, Any] = {
    "map": Path("a map"),
    "model": "a",
    "port_offset": 1,
    "tls": "b,c",
    "backend": "ray",
    "address": "10.0.0.2",
    "head": "10.0.0.1:7800",
    "is_door": False,
    "settings": {"BABELGATE_KEYS": "required", "HF_TOKEN": "a"},
}
SAID: dict[str, Any] = {
    "map": Path("b map"),
    "model": "x",
    "tls": "y,z",
    "backend": "torchserve",
    "settings": {"BABELGATE_KEYS": "off", "WEB_CONCURRENCY": "1"},
}


@pytest.mark.parametrize(
    ("said", "runs", "completed"),
    [
        ({}, None, {"map": catalog.MAP, "settings": {}}),
        ({}, RUNS, RUNS),
        (
            SAID | {"port_offset": 2},
            RUNS,
            SAID | {"port_offset": 2, "settings": RUNS["settings"] | SAID["settings"]},
        ),
        # With a head, `up` decides again whether the machine gets a gateway.
        (
            {"head": "10.0.0.9:7800"},
            RUNS,
            {**RUNS, "head": "10.0.0.9:7800", "is_door": True},
        ),
    ],
    ids=["nothing runs", "nothing said", "much said", "another head"],
)
def test_what_was_not_said_stays_as_it_runs(said, runs, completed):
    wanted = Stack(**{"run": Path("run"), "map": UNSAID} | said)
    running = None if runs is None else Stack(Path("run"), **runs)
    expected = Stack(Path("run"), **completed)
    assert lifecycle.complete(wanted, running) == expected


def test_what_changes_and_what_is_kept_is_named_without_secrets():
    last = Stack(Path("run"), **RUNS)
    url = {"BABELGATE_DATABASE_URL": "postgresql://user:secret@host/name"}
    given = {"BABELGATE_KEYS": "off", **url}
    said = Stack(Path("run"), Path("b map"), port_offset=2, settings=given)
    changed, kept = lifecycle.describe_start(last, said, lifecycle.complete(said, last))
    assert changed == (
        "Changed: --port-offset: 1 → 2, BABELGATE_DATABASE_URL: (not shown) → "
        "(not shown), BABELGATE_KEYS: required → off, CONFIG: a map → b map"
    )
    assert "HF_TOKEN=(not shown), MODEL=a, TLS=b,c" in kept
    assert lifecycle.describe_start(None, said, said) == []


def test_a_stack_of_an_earlier_version_keeps_what_supervisord_has(wanted, monkeypatch):
    replace(wanted, settings=None).remember()
    supervision = FakeSupervision(is_up=True)
    supervision.environment = {
        "BABELGATE_KEYS": "required",
        "BABELGATE_RAY_URLS": "http://127.0.0.1:7810",
        "BABELGATE_RUN_DIR": "elsewhere",
        "PATH": "/bin",
    }
    monkeypatch.setattr(lifecycle, "Supervision", lambda _: supervision)
    running = lifecycle.find_running(wanted)
    assert running == replace(wanted, settings={"BABELGATE_KEYS": "required"})


def test_a_stop_forgets_nothing_unless_it_is_told_to(wanted: Stack, ended: list[Stack]):
    left = {"BABELGATE_KEYS": "required"}
    started = replace(wanted, settings=left | {"HF_TOKEN": "a"})
    started.remember()
    lifecycle.down(wanted.run)
    assert stacks.read(wanted.run) == started
    lifecycle.down(wanted.run, is_forgotten=True)
    assert stacks.read(wanted.run) == Stack(wanted.run, UNSAID, settings=left)
    assert ended == [started, started]


def test_what_cannot_be_done_is_told_with_what_to_do(wanted, tmp_path, monkeypatch):
    with pytest.raises(StackError, match="`make up` starts it"):
        lifecycle.find(tmp_path / "empty")
    with pytest.raises(StackError, match="`make up` applies it"):
        lifecycle.reload(replace(wanted, version="another"), NGINX)
    with pytest.raises(StackError, match="`make up` applies it"):
        lifecycle.restart(replace(wanted, version="another"))
    with pytest.raises(StackError, match="add --backend ray"):
        lifecycle.up(replace(wanted, address="10.0.0.1"), timeout_s=1)
    own = f"10.0.0.1:{wanted.port_offset + 7800}"
    with pytest.raises(StackError, match="--head is this machine"):
        lifecycle.up(
            replace(wanted, backend="ray", address="10.0.0.1", head=own), timeout_s=1
        )
    with wanted.lock(), pytest.raises(StackError, match="Another `make up`"):
        lifecycle.up(wanted, timeout_s=1)
    monkeypatch.setattr(serving, "find_spec", lambda name: None)
    with pytest.raises(StackError, match="`make .venv/ready-cluster` installs it"):
        serving.choose_serving(replace(wanted, backend="ray"))


def test_an_operators_own_file_for_nginx_is_checked_as_nginx_will_read_it(
    wanted, monkeypatch, full_disk
):
    """The stand-in for nginx includes conf.d beside the main file, as nginx does."""
    nginx, own = wanted.run / "nginx.sh", wanted.run / "nginx/conf.d/own.conf"
    script = 'test $PROMETHEUS_MULTIPROC_DIR || ! cat "${6%/*}"/conf.d/own.conf >&2'
    nginx.write_text(f"#!/bin/sh\n{script}\n")
    nginx.chmod(0o755)
    own.parent.mkdir()
    own.write_text("nonsense;")
    for _ in range(2):
        with pytest.raises(StackError, match=r"nginx.conf is invalid.*\nnonsense;"):
            lifecycle.check_edited(wanted, nginx, wanted.map)
    monkeypatch.setattr("contract.durable.write", full_disk)
    with pytest.raises(StackError, match="cannot be written: No space left"):
        lifecycle.check_edited(wanted, nginx, wanted.map)


@pytest.mark.parametrize(
    ("is_up", "tls", "said"),
    [
        (True, None, "nginx.conf is invalid"),
        (False, None, "nginx.conf is invalid"),
        (False, "/gone.pem,/gone.pem", "TLS: /gone.pem cannot be read"),
    ],
)
def test_what_nginx_refuses_ends_nothing_even_with_other_options(
    wanted, monkeypatch, ended, is_up, tls, said
):
    replace(wanted, tls=tls).remember()
    serve = SimpleNamespace(load=lambda _: Catalog({}), prepare=lambda _: None)
    supervision = FakeSupervision(is_up=is_up)
    monkeypatch.setattr(lifecycle, "Supervision", lambda _: supervision)
    monkeypatch.setattr(lifecycle, "choose_serving", lambda _: serve)
    monkeypatch.setattr(lifecycle, "ensure", lambda *_: [Path("/bin/false")])
    with pytest.raises(StackError, match=said):
        lifecycle.up(replace(wanted, model="other"), timeout_s=1)
    assert ended == []


def test_a_restart_of_the_models_takes_over_no_file_of_nginx(wanted, monkeypatch):
    supervision = FakeSupervision(is_up=True)
    monkeypatch.setattr(lifecycle, "Supervision", lambda _: supervision)
    names = ("nginx/nginx.conf", "torchserve/config.properties")
    for name in names:
        (wanted.run / name).write_text("as it runs")
    lifecycle.restart(replace(wanted, version=stacks.find_version()))
    kept = [(wanted.run / name).read_text() == "as it runs" for name in names]
    assert kept == [True, False]
    assert supervision.calls == ["restart torchserve"]


GUNICORN = (stacks.ROOT / "gateway/gunicorn.conf.py").read_text("utf-8")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("worker_conections = 3", "worker_conections .*, did you mean worker_connect"),
        (
            "if True:\n    def post_fok(a, b): ...",
            "post_fok .*, did you mean post_fork",
        ),
        ("cores = 4", "cores is not .* Start a name of your own with _"),
        ("workers = (", "was never closed"),
        ("import gc\n_cores = 4\nworkers = _cores\ndef on_exit(server): ...", ""),
        (GUNICORN, ""),
    ],
    ids=["setting", "hook", "own", "syntax", "right", "shipped"],
)
def test_a_name_that_gunicorn_would_ignore_is_refused(text: str, said: str):
    refused = pytest.raises(StackError, match=f"gunicorn.conf.py is invalid.*{said}")
    with refused if said else nullcontext():
        lifecycle.check_names(text)


@pytest.mark.parametrize(
    ("change", "is_new"), [(None, True), ({}, False), ({"model": "other"}, True)]
)
def test_way_is_made_for_another_stack(wanted, ended, change, is_new):
    running = None if change is None else replace(wanted, **change)
    assert lifecycle.make_way(wanted, running) is is_new
    assert ended == ([wanted] if is_new else [])


@pytest.mark.parametrize(
    ("address", "family"), [("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)]
)
def test_a_port_that_is_taken_ends_nothing(wanted, ended, address, family):
    running = replace(wanted, port_offset=wanted.port_offset + 1)
    port = 7777 + wanted.port_offset
    taken = pytest.raises(StackError, match=f"Port {port} is taken")
    with socket.create_server((address, port), family=family), taken:
        lifecycle.make_way(wanted, running)
    assert ended == []


@pytest.mark.parametrize(
    ("supervision", "calls"),
    [
        (FakeSupervision(is_up=False), [f"start with {NGINX}"]),
        (
            FakeSupervision(is_up=True),
            ["restart registrar", "HUP gateway", "HUP nginx"],
        ),
        (FakeSupervision(is_up=True, stopped=["gateway", "nginx", "registrar"]), []),
    ],
    ids=["nothing runs", "all run", "some had stopped"],
)
def test_only_what_does_not_run_is_started(wanted, monkeypatch, supervision, calls):
    monkeypatch.setattr(lifecycle, "Supervision", lambda _: supervision)
    wanted.key_file.write_text("of the last life")
    lifecycle.start(wanted, NGINX)
    assert supervision.calls == calls
    assert wanted.key_file.exists() is supervision.is_up


TRANSLATED = '{"translated": "Bonjour"}'


@pytest.mark.parametrize(
    ("languages", "answers", "shown"),
    [
        pytest.param(
            ["fr"],
            [None, (503, ""), (200, f"{TRANSLATED}\n")],
            ["curl http", TRANSLATED, "Anyone who reaches port "],
            id="open, at the third try",
        ),
        pytest.param(["fr"], [(401, "")], ["Clients need a key: "], id="keys"),
        pytest.param([], [(401, "")], ["Clients need a key: "], id="keys, no language"),
        pytest.param([], [(404, "")], ["Anyone who reaches port "], id="no language"),
    ],
)
def test_a_translation_is_shown_and_who_may_use_the_stack(
    wanted, capsys, monkeypatch, languages, answers, shown
):
    bodies: list[bytes] = []

    def post(stack: Stack, body: bytes) -> urllib3.BaseHTTPResponse:
        answer = answers[len(bodies)]
        bodies.append(body)
        if answer is None:
            raise urllib3.exceptions.HTTPError("nobody listens")
        return urllib3.HTTPResponse(answer[1].encode(), status=answer[0])

    monkeypatch.setattr("deploy.tls.post", post)
    monkeypatch.setattr("time.sleep", lambda _: None)
    lifecycle.show_translation(wanted, make_catalog(*languages))
    lines = capsys.readouterr().out.splitlines()
    assert len(bodies) == len(answers)
    assert len(lines) == len(shown)
    assert all(map(str.startswith, lines, shown)), lines
    if len(shown) == 3:
        assert lines[0] == f"curl {wanted.url} -d '{bodies[-1].decode()}'"
        assert json.loads(bodies[-1])["tgt_lang"] == "fr"
        assert f" {wanted.url.rpartition(':')[2]} can use it" in lines[2]


def make_catalog(*languages: str) -> Catalog:
    return Catalog({("translation", code): want(code).model for code in languages})


def test_a_door_that_never_translates_is_told(wanted, monkeypatch):
    monkeypatch.setattr("deploy.serving._START_S", 0)
    wanted.log("nginx").write_text("nginx: still could not bind()\n")
    with pytest.raises(StackError, match="(?s)does not translate.*could not bind"):
        lifecycle.show_translation(wanted, make_catalog("fr"))


def test_the_sample_is_not_translated_into_its_own_language():
    served = [("ko", "fr"), ("ko", "en"), ("en", "ko")]
    samples = [lifecycle.choose_sample(make_catalog(*each)) for each in served]
    assert [(each["src_lang"], each["tgt_lang"]) for each in samples] == [
        ("en", "fr"),
        ("en", "ko"),
        ("fr", "en"),
    ]


def test_the_sample_is_in_a_language_that_can_be_translated():
    models = make_catalog("fr", "ko")
    reads = {"fr": ["fr"], "ko": ["de", "ko"]}
    sample = lifecycle.choose_sample(replace(models, reads=reads))
    assert (sample["src_lang"], sample["tgt_lang"]) == ("de", "ko")
    unread = replace(models, reads=dict.fromkeys(reads, ()))
    assert lifecycle.choose_sample(unread) == {}


def test_what_an_operator_sets_is_kept_and_nothing_else():
    kept = """BABELGATE_KEYS HF_TOKEN OTEL_SERVICE_NAME WEB_CONCURRENCY
        CUDA_VISIBLE_DEVICES""".split()
    others = ("BABELGATE_CLIENT_KEY", "BABELGATE_RUN_DIR", "BABELGATE_PROGRAM", "PATH")
    given = dict.fromkeys((*kept, *others), "x") | {"babelgate_cache": "small"}
    expected = dict.fromkeys(kept, "x") | {"BABELGATE_CACHE": "small"}
    assert lifecycle.find_settings(given) == expected


def test_the_kept_settings_take_the_place_of_a_shells_own(monkeypatch):
    shell = {"babelgate_keys": "off", "HF_ENDPOINT": "http://a", "PATH": "/bin"}
    monkeypatch.setattr(os, "environ", shell)
    kept = {"BABELGATE_DOCUMENTS": "", "CUDA_VISIBLE_DEVICES": ""}
    lifecycle.apply_settings(kept | {"HF_ENDPOINT": "", "WEB_CONCURRENCY": ""})
    assert os.environ == kept | {"PATH": "/bin"}
    for given in ("two", "0"):
        with pytest.raises(StackError, match=f"WEB_CONCURRENCY: .*found '{given}'"):
            lifecycle.apply_settings({"WEB_CONCURRENCY": given})
