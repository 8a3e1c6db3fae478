"""The variables that a stack keeps of its first environment."""

from __future__ import annotations

import os

import pytest

from deploy import environment


@pytest.mark.parametrize(
    ("name", "is_kept"),
    [
        ("BABELGATE_KEYS", True),
        ("BABELGATE_CACHE", True),
        ("HF_TOKEN", True),
        ("WEB_CONCURRENCY", True),
        ("CUDA_VISIBLE_DEVICES", True),
        ("BABELGATE_CLIENT_KEY", False),
        ("BABELGATE_RUN_DIR", False),
        ("BABELGATE_PROGRAM", False),
        ("PATH", False),
    ],
)
def test_what_an_operator_sets_is_kept_and_nothing_else(name: str, is_kept: bool):
    assert environment.find_settings({name: "x"}) == ({name: "x"} if is_kept else {})


def test_small_letters_are_kept_as_well():
    given = {"babelgate_keys": "required"}
    assert environment.find_settings(given) == {"BABELGATE_KEYS": "required"}


def test_the_kept_settings_take_the_place_of_a_shells_own(
    monkeypatch: pytest.MonkeyPatch,
):
    shell = {"BABELGATE_KEYS": "off", "babelgate_keys": "off", "PATH": "/bin"}
    monkeypatch.setattr(os, "environ", shell)
    environment.apply({"BABELGATE_TIMEOUT_S": "20"})
    assert os.environ == {"BABELGATE_TIMEOUT_S": "20", "PATH": "/bin"}


@pytest.mark.parametrize(
    ("name", "is_shown"),
    [("BABELGATE_KEYS", True), ("BABELGATE_LIMITS_URL", False), ("HF_TOKEN", False)],
)
def test_values_that_may_be_secret_are_not_shown(name: str, is_shown: bool):
    assert environment.is_shown(name) is is_shown
