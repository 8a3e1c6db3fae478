"""Settings from the environment, and their refusals."""

import re
from pathlib import Path

import pytest

from contract import variables
from gateway.app import create_app
from gateway.settings import Settings, SettingsError, name_variable, read_settings

ROOT = Path(__file__).parents[2]
PACKAGES = (
    *("benchmarks", "catalog", "clients", "contract", "deploy", "gateway", "handlers"),
    *("models", "nginx", "ray_backend", "text", "torchserve_backend"),
)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("TIMEOUT_S", "soon"),
        ("TIMEOUT_S", "0"),
        ("TIMEOUT_S", "inf"),
        ("MAX_BODY_BYTES", "1.5"),
        ("IDENTIFIER", "fasttext"),
        ("CORS_ORIGINS", "example.org"),
        ("INFERENCE_URL", "localhost:9999"),
        ("RAY_URLS", ""),
        ("RAY_URLS", "http://a:7810,"),
    ],
)
def test_a_value_that_cannot_be_read_is_fatal_and_named(monkeypatch, name, text):
    monkeypatch.setenv(name_variable(name.lower()), text)
    with pytest.raises(SettingsError) as caught:
        create_app()
    assert name_variable(name.lower()) in str(caught.value)
    assert repr(text) in str(caught.value)


def test_all_wrong_variables_are_named_at_once(monkeypatch):
    monkeypatch.setenv("BABELGATE_TIMEOUT_S", "soon")
    monkeypatch.setenv("BABELGATE_MAX_TEXTS", "few")
    monkeypatch.setenv("BABELGATE_COLOUR", "red")
    with pytest.raises(SettingsError, match=r"COLOUR.*TIMEOUT_S.*MAX_TEXTS"):
        read_settings()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("BABELGATE_TIMEOUT", "did you mean BABELGATE_TIMEOUT_S?"),
        ("babelgate_conections", "did you mean BABELGATE_CONNECTIONS?"),
        ("BABELGATE_COLOUR_OF_THE_SKY", "nothing reads it"),
        ("BABELGATE_", "nothing reads it"),
        ("BABELGATE_BACKEND", "did you mean GATEWAY_BACKEND?"),
    ],
)
def test_a_misspelled_variable_is_fatal_and_named(monkeypatch, name, hint):
    monkeypatch.setenv(name, "1")
    with pytest.raises(SettingsError) as caught:
        read_settings()
    expected = f"{name.upper()}: unknown variable, {hint}"
    assert str(caught.value).startswith(expected)


def test_variables_of_other_programs_are_left_alone(monkeypatch):
    for shared in variables.SETTINGS + variables.INTERNAL:
        if shared.name not in map(name_variable, Settings.model_fields):
            monkeypatch.setenv(shared.name, "anything")
    assert read_settings() == Settings()


def test_every_variable_that_a_package_names_is_known():
    """Else the gateway refuses to start beside a package that has a new one."""
    known = {each.name for each in variables.SETTINGS + variables.INTERNAL}
    known |= set(map(name_variable, Settings.model_fields))
    named = {
        name
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.suffix in (".py", ".conf", ".properties")
        for name in re.findall(r"\bBABELGATE_[A-Z_]+\b", path.read_text("utf-8"))
    }
    assert named - known == set()


def test_the_addresses_of_a_cluster_are_a_list_without_repetitions():
    urls = "http://b:7810,http://[::1]:7810,  http://b:7810"
    expected = ["http://b:7810", "http://[::1]:7810"]
    assert Settings(ray_urls=urls).ray_addresses == expected


@pytest.mark.parametrize(
    ("variable", "value", "library"),
    [
        ("BABELGATE_IDENTIFIER", "lingua", "lingua"),
        ("BABELGATE_LIMITS_URL", "redis://127.0.0.1:6379", "redis"),
    ],
)
def test_what_a_setting_needs_is_named_with_what_installs_it(
    monkeypatch, variable, value, library
):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv(variable, value)
    expected = f"{variable}: .*`make .venv/ready-{library}` installs it"
    with pytest.raises(SettingsError, match=expected):
        read_settings()
