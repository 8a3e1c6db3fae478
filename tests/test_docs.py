"""The docs cover the code, the things they name exist, and values in several files agree."""

import ast
import re
import runpy
from collections import Counter
from pathlib import Path

import pytest
from pydantic import BaseModel

import catalog
from benchmarks.driver import load_plan
from benchmarks.tuning import LoadEntry, ModelEntry, SearchEntry, SlaEntry, TuningPlan
from catalog.sections import PRECISION
from catalog.sections.translation import ENGINES
from contract.problems import STATUSES
from deploy import reference
from deploy.rendering import ERRORS
from gateway.app import create_app
from gateway.errors import Problem
from gateway.settings import Settings
from tests.test_architecture import PAGES
from tests.test_extras import EXTRAS

ROOT = Path(__file__).parents[1]

API = (ROOT / "docs/api.md").read_text("utf-8")
COMPATIBILITY = (ROOT / "docs/compatibility.md").read_text("utf-8")
CONFIGURATION = (ROOT / "docs/configuration.md").read_text("utf-8")
TUNING = (ROOT / "docs/tuning.md").read_text("utf-8")
OPERATIONS = (ROOT / "docs/operations.md").read_text("utf-8")

#: Slug and status of each problem that the page lists.
PROBLEMS = [
    (slug, int(status))
    for slug, status in re.findall(r"(?m)^\| `([a-z-]+)` \| (\d{3}) \|", API)
]

NGINX = (ROOT / "nginx/nginx.conf").read_text("utf-8")
UPSTREAM = NGINX.partition("upstream gateway {")[2].partition("}")[0]
SUPERVISOR = (ROOT / "deploy/supervisord.conf").read_text("utf-8")
TORCHSERVE = (ROOT / "torchserve_backend/config.properties").read_text("utf-8")

COMMAND_LINES = {
    module: ast.parse(
        (ROOT / module.split()[0].replace(".", "/") / "__main__.py").read_text("utf-8")
    )
    for module in (
        "clients",
        "deploy",
        "gateway keys",
        "ray_backend",
        "catalog models",
        "models.phrasebook_recipe",
        "models.shapes_recipe",
    )
}


def list_commands() -> list[tuple[str, str]]:
    """List the module and name of every command, decorated or registered by a call."""
    pattern = r"(?m)^@?(?:\w+\.)?command\((?:'(\w+)')?\)(?:\n@.*)*(?:\ndef (\w+)|\()"
    return [
        (module, given or function)
        for module, tree in COMMAND_LINES.items()
        for given, function in re.findall(pattern, ast.unparse(tree))
    ]


def list_names(pattern: str, files: str) -> list[str]:
    """List the matches of a pattern's group in the repository's files."""
    texts = (path.read_text("utf-8") for path in sorted(ROOT.glob(files)))
    return [name for text in texts for name in re.findall(pattern, text)]


def list_gateway_problems(base: type[Problem] = Problem) -> set[tuple[str, int]]:
    """Return the slug and status of every problem of `gateway/errors.py`."""
    return {(base.slug, base.status)}.union(
        *(list_gateway_problems(child) for child in base.__subclasses__())
    )


def list_handler_problems() -> set[tuple[str, int]]:
    """Return the slug and status of every TaskError that a handler makes."""
    made = list_names(r'TaskError\(\s*"([a-z-]+)"', "handlers/**/*.py")
    return {(slug, STATUSES[slug]) for slug in made}


def list_undocumented(text: str, names: list[str]) -> list[str]:
    """List the names that do not begin exactly one row of a table."""
    rows = Counter(re.findall(r"(?m)^\| `([^`]+)` \|", text))
    return [name for name in names if rows[name] != 1]


def read_nginx(directive: str, text: str = NGINX) -> str:
    found = re.search(rf"^\s*{directive}\s+([^;]+);", text, re.MULTILINE)
    assert found, directive
    return found[1]


def read_location(name: str) -> str:
    inside = NGINX.partition(f"location {name} {{")[2].partition("}")[0]
    assert inside, name
    return inside


def read_gunicorn(name: str) -> int:
    return int(runpy.run_path(str(ROOT / "gateway/gunicorn.conf.py"))[name])


def read_torchserve(name: str) -> str:
    found = re.search(rf"^{name}=(.*)$", TORCHSERVE, re.MULTILINE)
    assert found, name
    return found[1]


def default_of(setting: str) -> float:
    return float(Settings.model_fields[setting].default)


def test_the_tables_of_settings_are_generated():
    assert reference.render() == CONFIGURATION, (
        "write docs/configuration.md again: .venv/bin/python -m deploy settings"
    )


def test_each_setting_is_declared_once():
    names = reference.list_settings()
    assert len(names) == len(set(names))


def test_every_precision_is_documented():
    precisions = {name for names in ENGINES.values() for name in names}
    assert {name for name in precisions if f"`{name}`" not in PRECISION} == set()


def test_routes_are_documented():
    app = create_app(Settings.model_construct(), models=catalog.load())
    routes = [
        f"{method} {rule.rule}"
        for rule in app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    ]
    assert list_undocumented(f"{API}\n{COMPATIBILITY}", routes) == []


def test_problems_are_documented_once_with_their_status():
    problems = list_gateway_problems() | list_handler_problems() | set(ERRORS.values())
    assert sorted(PROBLEMS) == sorted(problems)


def test_make_targets_and_alerts_are_documented():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    names = [
        *(f"make {name}" for name in re.findall(r"(?m)^([a-z-]+):.*##", makefile)),
        *list_names(r"- alert: (\w+)", "deploy/monitoring/*.yml"),
    ]
    assert list_undocumented(OPERATIONS, names) == []


def test_what_adds_packages_names_an_extra():
    texts = [page.read_text("utf-8") for page in [*PAGES, *ROOT.glob("[a-z]*/**/*.py")]]
    named = set(re.findall(r"make \.venv/ready-(\w+)", "\n".join(texts)))
    assert named
    assert named <= set(EXTRAS)
    assert [extra for extra in EXTRAS if f"`{extra}`" not in OPERATIONS] == []


def test_our_metrics_are_documented():
    pattern = r'"(babelgate_[a-z_]+)"'
    metrics = list_names(pattern, "gateway/*.py") + list_names(pattern, "deploy/*.py")
    undocumented = [
        metric
        for metric in metrics
        if not re.search(rf"(?m)^\| .*`{metric}(_total)?`.* \|", OPERATIONS)
    ]
    assert metrics
    assert undocumented == []


def test_commands_are_documented_and_those_on_pages_exist():
    modules = "|".join(map(re.escape, COMMAND_LINES))
    pattern, commands = rf"python -m ({modules}) ([a-z]+)", set(list_commands())
    named = {
        (page.name, command)
        for page in PAGES
        for command in re.findall(pattern, page.read_text("utf-8"))
    }
    assert [each for each in named if each[1] not in commands] == []
    assert commands - {it for name, it in named if name != "CHANGELOG.md"} == set()


def test_links_lead_somewhere():
    broken = [
        (page.name, link)
        for page in PAGES
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8"))
        if "://" not in link and not is_there(page, link)
    ]
    assert broken == []


def is_there(page: Path, link: str) -> bool:
    path, _, heading = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    return target.exists() and (not heading or heading in list_anchors(target))


def list_anchors(page: Path) -> set[str]:
    """Return the headings of a page in the form that links use."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in headings
    }


def test_a_reload_drops_no_request():
    assert default_of("timeout_s") < read_gunicorn("graceful_timeout")
    assert default_of("upload_timeout_s") < read_gunicorn("graceful_timeout")


def test_nginx_closes_idle_connections_to_gunicorn_first():
    idle = int(read_nginx("keepalive_timeout", UPSTREAM).removesuffix("s"))
    assert idle < read_gunicorn("keepalive")
    assert idle < read_gunicorn("graceful_timeout")


def test_torchserve_does_not_end_a_worker_whose_client_still_waits():
    assert default_of("timeout_s") < catalog.TranslationSection().response_timeout


def test_ports_agree(monkeypatch):
    monkeypatch.delenv("BABELGATE_GATEWAY_BIND", raising=False)
    gunicorn = runpy.run_path(str(ROOT / "gateway/gunicorn.conf.py"))
    settings = Settings.model_construct()
    assert read_nginx("server", UPSTREAM).split()[0] == gunicorn["bind"]
    assert read_torchserve("inference_address") == settings.inference_url
    assert read_torchserve("management_address") == settings.management_url


def test_keys_of_a_tuning_plan_are_documented():
    entries: dict[str, type[BaseModel]] = {
        "models[]": ModelEntry,
        "load": LoadEntry,
        "sla": SlaEntry,
        "search": SearchEntry,
    }
    keys = [
        f"{name}.{key}" for name, entry in entries.items() for key in entry.model_fields
    ]
    assert [key for key in keys if f"`{key}`" not in TUNING] == []


def test_the_plan_of_the_page_is_a_plan(tmp_path):
    (text,) = re.findall(r"```yaml\n(.*?)```", TUNING, re.DOTALL)
    path = tmp_path / "plan.yaml"
    path.write_text(text, "utf-8")
    assert len(load_plan(path, TuningPlan).combine()) == 1 + 2 * 3 * 2


@pytest.mark.parametrize("path", sorted(ROOT.glob("benchmarks/plans/*.yaml")))
def test_a_plan_that_ships_is_a_plan(path):
    assert load_plan(path, TuningPlan).combine()


def test_a_paragraph_stands_once():
    # Table rows and list items are paragraphs too.
    uses = Counter(
        " ".join(paragraph.split())
        for page in PAGES
        for paragraph in re.split(r"\n\s*\n|\n(?=[|-])", page.read_text("utf-8"))
        if len(paragraph.split()) >= 30
    )
    assert [paragraph for paragraph, count in uses.items() if count > 1] == []
