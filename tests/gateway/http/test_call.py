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


def test_headers_say_whose_request_it_is_and_how_much_time_it_has():
    caller = read({})
    assert (caller.address, caller.limit_s) == ("198.51.100.7", 30)
    assert 29 < left_s(caller) <= 30
    assert read({"X-Real-IP": "203.0.113.9"}).address == "203.0.113.9"
    assert 4 < left_s(read({"X-Timeout-Ms": "5000"})) <= 5
    header = f"t={time.time() - 10:.3f}"
    assert 19 < left_s(read({"X-Request-Start": header})) < 20.1


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(f"t={time.time() - 3600:.3f}", id="of a clock that was set"),
        pytest.param(f"t={time.time() + 3600:.3f}", id="in an hour"),
        *("", "t=", "soon", "t=nan", "t=inf", "t=-inf"),
    ],
)
def test_a_time_that_cannot_be_is_not_counted(header: str):
    assert left_s(read({"X-Request-Start": header})) > 29
