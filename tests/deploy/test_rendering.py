"""The configuration files agree with the gateway's settings."""

import re
import shlex
from configparser import RawConfigParser
from pathlib import Path

import pytest

from deploy.rendering import render_nginx, render_supervisor, render_torchserve
from gateway.settings import ROW_BYTES, Settings
from tests.test_docs import NGINX, SUPERVISOR, TORCHSERVE

OURS = Path("/srv/100% ours")
PLACES = dict.fromkeys(("root", "run", "python", "bin", "nginx"), OURS)
USUAL = Settings()
OTHER = Settings(
    timeout_s=1234.5,
    upload_timeout_s=400,
    body_grace_s=2.5,
    max_body_bytes=64 << 20,
    max_upload_bytes=1 << 30,
    max_image_bytes=40 << 20,
    document_bytes=1_000_000,
    max_glossary_bytes=1 << 20,
)
LONG = OTHER.model_copy(
    update={"timeout_s": 2e6, "upload_timeout_s": 3e6, "max_body_bytes": 1 << 30}
)

pytestmark = pytest.mark.parametrize(
    "settings", [USUAL, OTHER, LONG], ids=["defaults", "others", "long limits"]
)


def read_sizes(text: str) -> list[int]:
    found = re.findall(r"client_max_body_size (\d+)(m?);", text)
    return [int(number) << (20 if unit else 0) for number, unit in found]


def read_seconds(text: str, directive: str) -> list[float]:
    found = re.findall(rf"\b{directive} (\d+)(m?)s;", text)
    return [int(number) / (1000 if unit else 1) for number, unit in found]


def test_the_files_are_written_for_the_defaults(settings: Settings):
    is_usual = settings == USUAL
    assert (render_nginx(NGINX, settings) == NGINX) == is_usual
    assert (render_torchserve(TORCHSERVE, settings) == TORCHSERVE) == is_usual


def test_values_edited_by_hand_stay_unless_their_setting_is_set(settings: Settings):
    edited = NGINX.replace("client_max_body_size 1m;", "client_max_body_size 2m;")
    is_kept = "client_max_body_size 2m;" in render_nginx(edited, settings)
    assert edited != NGINX
    assert is_kept == (settings == USUAL)


def test_nginx_takes_bodies_as_large_as_the_gateway_does(settings: Settings):
    text = render_nginx(NGINX, settings)
    expected = [
        settings.max_body_bytes,
        settings.max_upload_bytes,
        settings.document_bytes,
        4 * settings.max_glossary_bytes,
    ]
    assert read_sizes(text)[:4] == expected
    (detail,) = re.findall(r'body_too_large\$\s+"(.*?)"', text)
    numbers = re.findall(r"(\d+) (MiB|bytes) of", detail)
    said = [int(number) << (20 if unit == "MiB" else 0) for number, unit in numbers]
    assert sorted(said) == sorted(expected)


def test_the_gateway_answers_before_nginx_loses_patience(settings: Settings):
    text = render_nginx(NGINX, settings)
    server, *uploads = text.partition("client_max_body_size")[0::2]
    assert read_seconds(server, "proxy_read_timeout") == [settings.timeout_s + 1]
    assert read_seconds(text, "client_body_timeout")[0] > settings.body_grace_s
    for name in ("proxy_send_timeout", "lingering_time"):
        times = read_seconds(uploads[0], name)
        assert times[:2] == [settings.upload_timeout_s + 5] * 2


def test_a_request_has_a_location_for_each_second_of_its_limit(settings: Settings):
    text = render_nginx(NGINX, settings)
    found = re.findall(r"location @(\d+) .*? proxy_read_timeout (\d+)ms;", text)
    assert text.count("\n") == NGINX.count("\n"), "nginx would name another line"
    waits_ms = {int(second): int(wait_ms) for second, wait_ms in found}
    (longest,) = re.findall(r"default +@(\d+);", text)
    named = range(min(int(longest), 3600))
    assert list(waits_ms) == [*named, int(longest)]
    longest_ms = settings.timeout_s * 1000
    assert longest_ms < waits_ms[int(longest)] < longest_ms + 1000
    (seconds,) = re.findall(r'"~\^0\*\((.+)\)\\d\{3\}\$"', text)
    for limit_s in named[1:]:
        assert re.fullmatch(seconds, str(limit_s))
        assert limit_s * 1000 < waits_ms[limit_s] <= limit_s * 1000 + 1000
    assert not re.fullmatch(seconds, longest)
    assert len(seconds) < 4000, "nginx would refuse a longer word"


def test_torchserve_takes_the_largest_row(settings: Settings):
    text = render_torchserve(TORCHSERVE, settings)
    (most,) = re.findall(r"(?m)^max_request_size=(\d+)", text)
    # Two bytes of UTF-8 become the six of \u00e9; no other character grows more.
    assert min(3 * settings.max_body_bytes, 2**31 - 1) <= int(most) < 2**31
    assert int(most) >= max(ROW_BYTES, settings.max_image_bytes) + 1024


def test_supervisor_kills_only_after_requests_have_had_their_time(settings: Settings):
    parser = RawConfigParser()
    text = render_supervisor(SUPERVISOR, settings, PLACES, ["gateway", "nginx"])
    parser.read_string(text)
    programs = [name for name in parser.sections() if name.startswith("program:")]
    assert programs == ["program:gateway", "program:nginx"]
    for program in programs:
        stop_s = int(parser[program]["stopwaitsecs"])
        assert stop_s > max(settings.timeout_s, settings.upload_timeout_s) + 5
        words = shlex.split(parser[program]["command"] % {})
        places = [word for word in words if "100%" in word or "ours" in word]
        assert all(word.startswith(str(OURS)) for word in places)
        assert any(word.startswith(f"{OURS}/") for word in places)
        log = f"{OURS}/logs/{program.removeprefix('program:')}.log"
        assert parser[program]["stdout_logfile"] % {} % {} == log
