"""The client that asks, and its deadline."""

from __future__ import annotations

import time

import pytest
from werkzeug.datastructures import Headers
from werkzeug.test import EnvironBuilder

from gateway.http.call import Call, read_call


def read(given: dict[str, str], address: str = "198.51.100.7") -> Call:
    environment = EnvironBuilder(
        headers=Headers(given), environ_base={"REMOTE_ADDR": address}
    ).get_environ()
    return read_call(environment, 30)


def left_s(caller: Call) -> float:
    return caller.deadline - time.monotonic()


def test_without_headers_it_has_the_usual_time():
    caller = read({})
    assert (caller.address, caller.limit_s) == ("198.51.100.7", 30)
    assert 29 < left_s(caller) <= 30


def test_nginx_says_whose_request_it_is():
    assert read({"X-Real-IP": "203.0.113.9"}).address == "203.0.113.9"


def test_a_client_may_have_less_time():
    assert 4 < left_s(read({"X-Timeout-Ms": "5000"})) <= 5


def test_the_time_since_nginx_had_the_request_counts():
    header = f"t={time.time() - 10:.3f}"
    assert 19 < left_s(read({"X-Request-Start": header})) < 20.1


@pytest.mark.parametrize("age_s", [3600, -3600], ids=["an hour ago", "in an hour"])
def test_a_clock_that_was_set_takes_no_time(age_s: float):
    header = f"t={time.time() - age_s:.3f}"
    assert left_s(read({"X-Request-Start": header})) > 29


@pytest.mark.parametrize("header", ["", "t=", "soon", "t=nan", "t=inf", "t=-inf"])
def test_a_time_that_is_none_is_not_counted(header: str):
    assert left_s(read({"X-Request-Start": header})) > 29
