"""The properties of every answer, whatever the path: its id, its type, no HTML."""

import re

import pytest

from contract.npy import write_header

PROBLEM = "application/problem+json"


@pytest.mark.parametrize(
    "given", ["", "a\r\nX-Evil: 1", "a\n", "ａ", "0" * 65, "<script>"]
)
def test_a_request_id_that_is_not_a_plain_word_is_replaced(shared_client, given):
    environ = {"HTTP_X_REQUEST_ID": given}
    response = shared_client.get("/nowhere", environ_overrides=environ)
    answered = response.headers["X-Request-ID"]
    assert re.fullmatch("[0-9a-f]{32}", answered)
    assert answered != shared_client.get("/nowhere").headers["X-Request-ID"]
    assert response.json["request_id"] == answered
    assert "X-Evil" not in response.headers


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/translate/", 405),
        ("GET", "/%ff%00", 404),
        ("GET", "/..%2f..%2fetc/passwd", 404),
        ("brew", "/translate", 405),
    ],
)
def test_a_wrong_path_or_method_is_a_problem_document(
    shared_client, method, path, status
):
    response = shared_client.open(path, method=method, base_url="http://gateway")
    assert response.status_code == status
    assert response.content_type == PROBLEM
    assert "Location" not in response.headers
    assert response.json["status"] == status


def test_no_path_is_redirected(shared_client):
    rules = {rule.rule for rule in shared_client.application.url_map.iter_rules()}
    assert {rule for rule in rules if rule.endswith("/")} == {"/"}
    response = shared_client.get("/", environ_overrides={"PATH_INFO": ""})
    assert (response.status_code, response.content_type) == (405, PROBLEM)


@pytest.mark.parametrize(
    "environ",
    [
        pytest.param({"HTTP_HOST": "a b/<x>"}, id="a host with a space"),
        pytest.param({"HTTP_HOST": ""}, id="no host"),
        pytest.param({"CONTENT_LENGTH": "abc"}, id="length not a number"),
        pytest.param({"CONTENT_TYPE": "multipart/form-data"}, id="no boundary"),
        pytest.param({"HTTP_COOKIE": "a" * 5000}, id="cookie"),
    ],
)
def test_odd_headers_never_bring_html(shared_client, environ):
    response = shared_client.post("/translate", data=b"{}", environ_overrides=environ)
    assert response.status_code in (400, 422)
    assert response.content_type == PROBLEM


@pytest.mark.parametrize(
    ("path", "part", "content"),
    [
        ("/v2/translate?target_lang=ko", "text", b"Hello"),
        ("/documents", "file; filename=a.txt", b"Hello"),
        ("/caption", "image; filename=a.npy", write_header((1, 1, 3)) + bytes(3)),
    ],
)
def test_a_forms_headers_may_have_capitals(shared_client, path, part, content):
    head = b"--x\r\nContent-Disposition: form-data; name=" + part.encode()
    body = b"\r\n\r\n".join((head, content + b"\r\n--x--\r\n"))
    plain = {"Content-Type": "multipart/form-data; boundary=x"}
    odd = {"Content-Type": "Multipart/Form-Data; boundary=x"}
    odd["Content-Encoding"] = "Identity"
    one, other = (shared_client.post(path, data=body, headers=h) for h in (plain, odd))
    assert one.status_code == other.status_code
