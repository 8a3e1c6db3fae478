"""What nginx itself tells the clients of other APIs, and that it logs no text of theirs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import requests

from contract.dialects import LIBRETRANSLATE, OURS, Dialect, find_dialect
from contract.problems import CONTENT_TYPE, write_problem
from tests.e2e.door import Door, door, find_port, open_door, start_nginx
from tests.e2e.real_stack import wait_until
from tests.e2e.test_doors import is_open
from tests.gateway.fake_torchserve import LIMIT_S

__all__ = ["door"]

GOOGLE_PATH = "/language/translate/v2"
PATHS = ["/", "/translate", "/detect", "/v2/translate", GOOGLE_PATH]
SECRET = "xylophone"


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    with open_door(tmp_path_factory.mktemp("door")) as opened:
        yield opened


def assert_is_problem(answer: requests.Response, path: str, slug: str) -> None:
    """It is what the gateway would write, whatever the detail is."""
    dialect: Dialect = find_dialect(path)
    found = answer.json()
    detail = read_detail(found)
    document = write_problem(
        slug, answer.status_code, detail, request_id=found.get("request_id")
    )
    expected = dialect.answer(document)
    if path == "/translate":
        error = LIBRETRANSLATE.answer(document).content["error"]
        assert found.pop("error") == error
    assert found == expected.content
    assert answer.headers["Content-Type"] == expected.content_type
    assert (dialect is OURS) == (expected.content_type == CONTENT_TYPE)


def read_detail(found: dict[str, object]) -> str:
    match found:
        case {"detail": str(detail)} | {"message": str(detail)}:
            return detail
        case {"error": {"message": str(detail)}}:
            return detail
        case {"error": str(detail)}:
            return detail.rpartition("limit: ")[2]
    raise AssertionError(found)


@pytest.mark.parametrize("path", PATHS)
def test_a_body_that_is_too_large_is_refused_in_each_api(door, path):
    answer = requests.post(door.url + path, data=b"a" * (2 << 20), timeout=LIMIT_S)
    assert answer.status_code == 413
    assert_is_problem(answer, path, "body-too-large")
    assert answer.headers["Access-Control-Allow-Origin"] == "*"


@pytest.mark.parametrize("path", PATHS)
def test_a_url_that_is_too_long_is_refused_in_each_api(door, path):
    answer = requests.post(f"{door.url}{path}?q={'a' * 70_000}", timeout=LIMIT_S)
    assert answer.status_code == 431
    assert_is_problem(answer, path, "header-too-large")


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/translate", {"q": "q", "target": "target", "source": "source"}),
        (
            "/v2/translate",
            {"q": "text", "target": "target_lang", "source": "source_lang"},
        ),
        (GOOGLE_PATH, {"q": "q", "target": "target", "source": "source"}),
    ],
)
def test_five_thousand_characters_of_any_script_fit_into_a_url(door, path, names):
    given = {names["q"]: "好" * 5000, names["target"]: "ko", names["source"]: "zh"}
    answer = requests.post(door.url + path, params=given, timeout=LIMIT_S)
    assert answer.status_code == 200
    assert "好" * 100 in answer.json().__str__()


def test_a_gateway_that_is_down_is_told_in_each_api_and_logged_without_texts(tmp_path):
    port, run = find_port(), tmp_path / "nginx"
    nginx = start_nginx(run, port, f"127.0.0.1:{find_port()}")
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: is_open(port))
        for path in PATHS:
            answer = requests.get(f"{url}{path}?q={SECRET}", timeout=LIMIT_S)
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
            assert_is_problem(answer, path, "not-ready")
        page = requests.get(url, headers={"Accept": "text/html"}, timeout=LIMIT_S)
    finally:
        nginx.terminate()
        nginx.wait(LIMIT_S)
    assert (page.status_code, page.headers["Retry-After"]) == (503, "5")
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "The gateway is being restarted." in page.text
    assert '<meta http-equiv="refresh" content="5">' in page.text
    logs = [path.read_text("utf-8") for path in (run / "logs").iterdir()]
    assert any("/v2/translate" in log for log in logs)
    assert not any(SECRET in log for log in logs)
