"""Settings from the environment, and their refusals."""

import re

import pytest

from contract import variables
from gateway.app import create_app
from gateway.settings import Settings, SettingsError, name_variable, read_settings
from tests.test_architecture import PACKAGES, ROOT

#: The refusal of an unknown variable.
MEANT = "unknown variable, did you mean"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("BABELGATE_TIMEOUT_S", "soon", "found 'soon'"),
        ("BABELGATE_TIMEOUT_S", "0", "found '0'"),
        ("BABELGATE_TIMEOUT_S", "inf", "found 'inf'"),
        ("BABELGATE_MAX_BODY_BYTES", "1.5", "found '1.5'"),
        ("BABELGATE_DOCUMENTS_AT_ONCE", "0", "found '0'"),
        ("BABELGATE_DOCUMENTS_KEPT_S", "1d", "found '1d'"),
        ("BABELGATE_IDENTIFIER", "fasttext", "found 'fasttext'"),
        ("BABELGATE_CORS_ORIGINS", "example.org", "found 'example.org'"),
        ("BABELGATE_INFERENCE_URL", "localhost:9999", "found 'localhost:9999'"),
        ("BABELGATE_INFERENCE_URL", "http://a:b", "found 'http://a:b'"),
        ("BABELGATE_CACHE_URL", "redis://:secret@a:b", "should match pattern"),
        ("BABELGATE_RAY_URLS", "", "found ''"),
        ("BABELGATE_RAY_URLS", "http://a:7810,", "found 'http://a:7810,'"),
        ("BABELGATE_TIMEOUT", "1", f"{MEANT} BABELGATE_TIMEOUT_S?"),
        ("babelgate_conections", "1", f"{MEANT} BABELGATE_CONNECTIONS?"),
        ("BABELGATE_BACKEND", "1", f"{MEANT} GATEWAY_BACKEND?"),
        ("BABELGATE_COLOUR_OF_THE_SKY", "1", "unknown variable, nothing reads it"),
        ("BABELGATE_", "1", "unknown variable, nothing reads it"),
        ("BABELGATE_IDENTIFIER", "lingua", "`make .venv/ready-lingua` installs it"),
        ("BABELGATE_LIMITS_URL", "redis://a:1", "`make .venv/ready-redis` installs it"),
    ],
)
def test_a_wrong_variable_is_fatal_and_named(monkeypatch, name, value, said):
    monkeypatch.setattr("importlib.util.find_spec", {"py3langid": True}.get)
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as caught:
        create_app()
    assert str(caught.value).startswith(f"{name.upper()}: ")
    assert said in str(caught.value)


def test_all_wrong_variables_are_named_at_once(monkeypatch):
    monkeypatch.setenv("BABELGATE_TIMEOUT_S", "soon")
    monkeypatch.setenv("BABELGATE_MAX_TEXTS", "few")
    monkeypatch.setenv("BABELGATE_COLOUR", "red")
    with pytest.raises(SettingsError, match=r"COLOUR.*TIMEOUT_S.*MAX_TEXTS"):
        read_settings()


def test_variables_of_other_programs_are_left_alone(monkeypatch):
    for shared in variables.SETTINGS + variables.INTERNAL:
        if shared.name not in map(name_variable, Settings.model_fields):
            monkeypatch.setenv(shared.name, "anything")
    assert read_settings() == Settings()


def test_every_variable_that_a_package_names_is_known():
    """Otherwise the gateway refuses to start if another package's new variable is set."""
    known = {each.name for each in variables.SETTINGS + variables.INTERNAL}
    known |= set(map(name_variable, Settings.model_fields))
    named = {
        name
        for package in (*PACKAGES, "nginx")
        for path in (ROOT / package).rglob("*")
        if path.suffix in (".py", ".conf", ".properties")
        for name in re.findall(r"\bBABELGATE_[A-Z_]+\b", path.read_text("utf-8"))
    }
    assert named - known == set()


def test_the_addresses_of_a_cluster_are_a_list_without_repetitions():
    urls = "http://b:7810,http://[::1]:7810,  http://b:7810"
    expected = ["http://b:7810", "http://[::1]:7810"]
    assert Settings(ray_urls=urls).ray_addresses == expected
