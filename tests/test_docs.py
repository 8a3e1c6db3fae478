"""Prose is tested: what the code has is in docs/, what docs/ names exists, and values that
stand in several files agree.
"""

from __future__ import annotations

import ast
import re
import runpy
from http import HTTPStatus
from pathlib import Path

import pytest
from pydantic import BaseModel

from benchmarks.plan import (
    LoadEntry,
    ModelEntry,
    SearchEntry,
    SlaEntry,
    read_plan,
)
from gateway.app import create_app
from gateway.errors import Problem
from gateway.settings import PREFIX, READ_ELSEWHERE, Settings, name_variable
from torchserve_backend import catalog
from torchserve_backend.sections import ENGINES

ROOT = Path(__file__).parents[1]
ROOMS = "benchmarks clients deploy docs gateway handlers models nginx tests".split()
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(page for room in ROOMS for page in ROOT.glob(f"{room}/**/*.md")),
    ]
)

API = (ROOT / "docs/api.md").read_text("utf-8")
CONFIGURATION = (ROOT / "docs/configuration.md").read_text("utf-8")
TUNING = (ROOT / "docs/tuning.md").read_text("utf-8")
OPERATIONS = (ROOT / "docs/operations.md").read_text("utf-8")
DOCS = "\n".join(page.read_text("utf-8") for page in ROOT.glob("docs/**/*.md"))

NGINX = (ROOT / "nginx/nginx.conf").read_text("utf-8")
SUPERVISOR = (ROOT / "deploy/supervisord.conf").read_text("utf-8")
TORCHSERVE = (ROOT / "torchserve_backend/config.properties").read_text("utf-8")

COMMAND_LINES = {
    module: ast.parse(
        (ROOT / module.replace(".", "/") / "__main__.py").read_text("utf-8")
    )
    for module in (
        *("clients", "deploy", "torchserve_backend"),
        *("models.phrasebook_recipe", "models.shapes_recipe"),
    )
}


def list_commands() -> list[tuple[str, str]]:
    """Module and name of every command of our command lines."""
    return [
        (module, node.name)
        for module, tree in COMMAND_LINES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and any(ast.unparse(mark) == "app.command()" for mark in node.decorator_list)
    ]


def list_variables() -> list[str]:
    """The environment variables that stand for an option of a command."""
    return sorted(
        ast.literal_eval(node.value)
        for tree in COMMAND_LINES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword) and node.arg == "envvar"
    )


def list_names(pattern: str, files: str) -> list[str]:
    """What a pattern's group finds in the repository's files."""
    texts = (path.read_text("utf-8") for path in sorted(ROOT.glob(files)))
    return [name for text in texts for name in re.findall(pattern, text)]


def list_routes() -> list[str]:
    """`POST /translate` and so on."""
    app = create_app(Settings.model_construct(), models=catalog.load())
    return sorted(
        f"{method} {rule.rule}"
        for rule in app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    )


def list_gateway_problems(base: type[Problem] = Problem) -> set[tuple[str, int]]:
    """Slug and status of every problem of `gateway/errors.py`."""
    return {(base.slug, base.status)}.union(
        *(list_gateway_problems(child) for child in base.__subclasses__())
    )


def list_handler_problems() -> set[tuple[str, int]]:
    """Slug and status of every TaskError that a handler makes."""
    calls = (
        node
        for path in ROOT.glob("handlers/**/*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "TaskError"
    )
    return {
        (ast.literal_eval(call.args[1]), HTTPStatus[call.args[0].attr].value)
        for call in calls
        if isinstance(call.args[0], ast.Attribute)
    }


def list_nginx_problems() -> set[tuple[str, int]]:
    """Slug and status of every document in nginx.conf."""
    found = re.findall(r"return (\d+) '\{\"type\":\"urn:babelgate:([a-z-]+)\"", NGINX)
    return {(slug, int(status)) for status, slug in found}


def find_row(text: str, first_cell: str) -> str:
    """The row of a table that begins with a cell."""
    rows = [
        line for line in text.splitlines() if line.startswith(f"| `{first_cell}` |")
    ]
    assert len(rows) == 1, f"{first_cell}: {len(rows)} rows"
    return rows[0]


def show(default: object) -> str:
    """A default as the documentation writes it."""
    if isinstance(default, Path) and default.is_relative_to(ROOT):
        default = default.relative_to(ROOT)
    return f"| `{default}` |"


def read_nginx(directive: str, text: str = NGINX) -> str:
    found = re.search(rf"^\s*{directive}\s+([^;]+);", text, re.MULTILINE)
    assert found, directive
    return found[1]


def read_seconds(directive: str, text: str = NGINX) -> int:
    return int(read_nginx(directive, text).removesuffix("s"))


def read_location(name: str) -> str:
    """What nginx does with a location."""
    inside = NGINX.partition(f"location {name} {{")[2].partition("}")[0]
    assert inside, name
    return inside


def read_upstream() -> str:
    return NGINX.partition("upstream gateway {")[2].partition("}")[0]


def read_stop_seconds(program: str) -> int:
    section = SUPERVISOR.partition(f"[program:{program}]")[2].partition("[program:")[0]
    found = re.search(r"^stopwaitsecs=(\d+)", section, re.MULTILINE)
    assert found, program
    return int(found[1])


def read_gunicorn(name: str) -> int:
    return int(runpy.run_path(str(ROOT / "gateway/gunicorn.conf.py"))[name])


def read_torchserve(name: str) -> str:
    found = re.search(rf"^{name}=(.*)$", TORCHSERVE, re.MULTILINE)
    assert found, name
    return found[1]


def default_of(setting: str) -> float:
    return float(Settings.model_fields[setting].default)


@pytest.mark.parametrize("name", Settings.model_fields)
def test_a_gateway_setting_is_documented_with_its_default(name):
    row = find_row(CONFIGURATION, name_variable(name))
    assert show(Settings.model_fields[name].default) in row


@pytest.mark.parametrize("name", sorted(READ_ELSEWHERE))
def test_a_variable_that_others_read_is_documented(name):
    assert f"`{PREFIX}{name}`" in CONFIGURATION


@pytest.mark.parametrize(
    "name", ["WEB_CONCURRENCY", "HF_ENDPOINT", "CUDA_VISIBLE_DEVICES", "XDG_CACHE_HOME"]
)
def test_a_variable_of_other_programs_is_documented(name):
    assert find_row(CONFIGURATION, name)


@pytest.mark.parametrize("name", list_variables())
def test_a_variable_of_an_option_is_documented(name):
    assert find_row(CONFIGURATION, name)


@pytest.mark.parametrize("key", ["cuda_id", *catalog.SECTIONS])
def test_a_section_of_the_map_is_documented(key):
    assert find_row(CONFIGURATION, key)


@pytest.mark.parametrize(
    ("task", "key"),
    [
        (task, key)
        for task, section in catalog.SECTIONS.items()
        for key in section.__dataclass_fields__
    ],
)
def test_a_key_of_the_map_is_documented_with_its_default(task, key):
    row = find_row(CONFIGURATION, f"{task}.{key}")
    assert show(catalog.SECTIONS[task].__dataclass_fields__[key].default) in row


def test_every_precision_is_documented():
    row = find_row(CONFIGURATION, "translation.compute_type")
    precisions = {name for names in ENGINES.values() for name in names}
    assert {name for name in precisions if f"`{name}`" not in row} == set()


@pytest.mark.parametrize("route", list_routes())
def test_a_route_is_documented(route):
    assert find_row(API, route)


@pytest.mark.parametrize(
    ("slug", "status"),
    sorted(list_gateway_problems() | list_handler_problems() | list_nginx_problems()),
)
def test_a_problem_is_documented_with_its_status(slug, status):
    assert f"| {status} |" in find_row(API, slug)


def test_every_documented_problem_exists():
    problems = list_gateway_problems() | list_handler_problems() | list_nginx_problems()
    documented = re.findall(r"^\| `([a-z-]+)` \| \d{3} \|", API, re.MULTILINE)
    assert set(documented) == {slug for slug, _ in problems}


@pytest.mark.parametrize(
    "target",
    re.findall(r"^([a-z]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE),
)
def test_a_make_target_is_documented(target):
    assert find_row(OPERATIONS, f"make {target}")


@pytest.mark.parametrize(
    "alert", list_names(r"- alert: (\w+)", "deploy/monitoring/*.yml")
)
def test_an_alert_is_documented(alert):
    assert find_row(OPERATIONS, alert)


@pytest.mark.parametrize("metric", list_names(r'"(babelgate_[a-z_]+)"', "gateway/*.py"))
def test_a_metric_of_the_gateway_is_documented(metric):
    assert re.search(rf"^\| .*`{metric}(_total)?`.* \|", OPERATIONS, re.MULTILINE)


@pytest.mark.parametrize(("module", "command"), list_commands())
def test_a_command_is_documented(module, command):
    pages = DOCS + (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert re.search(rf"python -m {re.escape(module)} {command}\b", pages)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_on_a_page_exists(page):
    modules = "|".join(map(re.escape, COMMAND_LINES))
    found = re.findall(rf"python -m ({modules}) ([a-z]+)", page.read_text("utf-8"))
    assert set(found) - set(list_commands()) == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8"))
    broken = [link for link in links if "://" not in link and not is_there(page, link)]
    assert broken == []


def is_there(page: Path, link: str) -> bool:
    path, _, heading = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    return target.exists() and (not heading or heading in list_anchors(target))


def list_anchors(page: Path) -> set[str]:
    """The headings of a page as links name them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in headings
    }


@pytest.mark.parametrize("location", ["/", "= /metrics"])
def test_nginx_takes_bodies_as_large_as_the_gateway_does(location):
    found = read_nginx("client_max_body_size", read_location(location))
    assert int(found.removesuffix("m")) << 20 == default_of("max_body_bytes")


def test_torchserve_takes_the_largest_row_with_its_escapes():
    # Two bytes of UTF-8 become the six of \u00e9; nothing else grows more.
    most = int(read_torchserve("max_request_size"))
    assert most >= 3 * default_of("max_body_bytes")


def test_the_gateway_answers_before_nginx_and_gunicorn_lose_patience():
    limits = [read_seconds("proxy_read_timeout"), read_gunicorn("graceful_timeout")]
    assert default_of("timeout_s") < min(limits)
    assert default_of("upload_timeout_s") < read_gunicorn("graceful_timeout")


def test_supervisor_kills_only_after_requests_have_had_their_time():
    assert read_gunicorn("graceful_timeout") < read_stop_seconds("gateway")
    assert read_seconds("proxy_read_timeout") < read_stop_seconds("nginx")


def test_nginx_closes_idle_connections_to_gunicorn_first():
    idle = read_seconds("keepalive_timeout", read_upstream())
    assert idle < read_gunicorn("keepalive")
    assert idle < read_gunicorn("graceful_timeout")


def test_torchserve_does_not_end_a_worker_whose_client_still_waits():
    assert default_of("timeout_s") < catalog.Translation().response_timeout


def test_ports_agree(monkeypatch):
    monkeypatch.delenv("BABELGATE_GATEWAY_BIND", raising=False)
    gunicorn = runpy.run_path(str(ROOT / "gateway/gunicorn.conf.py"))
    settings = Settings.model_construct()
    assert read_nginx("server", read_upstream()).split()[0] == gunicorn["bind"]
    assert read_torchserve("inference_address") == settings.inference_url
    assert read_torchserve("management_address") == settings.management_url


def test_make_bench_runs_the_commands_that_gave_the_figures():
    page = (ROOT / "docs/performance.md").read_text("utf-8")
    commands = re.findall(r"^\.venv/bin/python -m benchmarks (.+)$", page, re.MULTILINE)
    recipe = (ROOT / "Makefile").read_text("utf-8")
    run = re.findall(r"^\t\$\(BENCHMARK\) (.+?) --out ", recipe, re.MULTILINE)
    assert sorted(commands) == sorted(run)


def list_plan_keys() -> list[str]:
    """Every key of a tuning plan, as docs/tuning.md writes it."""
    entries: dict[str, type[BaseModel]] = {
        "models[]": ModelEntry,
        "load": LoadEntry,
        "sla": SlaEntry,
        "search": SearchEntry,
    }
    return [
        f"{name}.{key}" for name, entry in entries.items() for key in entry.model_fields
    ]


@pytest.mark.parametrize("key", list_plan_keys())
def test_a_key_of_a_tuning_plan_is_documented(key):
    assert f"`{key}`" in TUNING


def test_the_plan_of_the_page_is_a_plan(tmp_path):
    (text,) = re.findall(r"```yaml\n(.*?)```", TUNING, re.DOTALL)
    path = tmp_path / "plan.yaml"
    path.write_text(text, "utf-8")
    assert len(read_plan(path).combine()) == 1 + 2 * 3 * 2


@pytest.mark.parametrize("path", sorted(ROOT.glob("benchmarks/plans/*.yaml")))
def test_a_plan_that_ships_is_a_plan(path):
    assert read_plan(path).combine()
