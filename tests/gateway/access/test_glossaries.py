"""Each key has glossaries of its own."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.access.keys import Grant

PAIR = {"src_lang": "en", "tgt_lang": "ko"}
GLOSSARY: dict[str, Any] = {
    "name": "Ours",
    "entries": {"work station": "작업대"},
    **PAIR,
}


def test_nobody_sees_the_glossaries_of_another_key(make_guarded, keys):
    client = make_guarded()
    anna, ben = (
        {"Authorization": f"Bearer {keys.add(name, Grant())}"}
        for name in ("anna", "ben")
    )
    made = client.post("/glossaries", json=GLOSSARY, headers=anna).json
    path, text = f"/glossaries/{made['id']}", {"src_text": "A work station", **PAIR}
    for method, asked in (
        *(("GET", path), ("DELETE", path), ("GET", f"{path}/entries")),
        *(("GET", f"/v2{path}"), ("DELETE", f"/v2{path}"), ("GET", f"/v3{path}")),
        *(("DELETE", f"/v3{path}"), ("GET", "/glossaries/Ours")),
    ):
        assert client.open(asked, method=method, headers=ben).status_code == 404
    patched = client.patch(f"/v3{path}", json={"name": "a"}, headers=ben)
    assert patched.status_code == 404
    assert client.get("/glossaries", headers=ben).json == {"glossaries": []}
    for glossary in (made["id"], "Ours"):
        wanted = text | {"glossary": glossary}
        assert client.post("/translate", json=wanted, headers=ben).status_code == 404
        answer = client.post("/translate", json=wanted, headers=anna)
        assert answer.json == {"translated": "ko:A 작업대"}
    assert client.get("/glossaries").status_code == 401
    assert client.get("/glossaries", headers=anna).json == {"glossaries": [made]}


@pytest.mark.parametrize("place", ["auth_key", "key"])
def test_a_glossary_is_not_searched_for_a_key(make_guarded, keys, place):
    client, token = make_guarded(), keys.add("anna", Grant())
    large = GLOSSARY | {"entries": {"a" * 1000: "b"}, "more": "c" * (1 << 20)}
    response = client.post("/glossaries", json=large | {place: token})
    assert response.status_code == 401
    response = client.post(f"/glossaries?{place}={token}", json=large)
    assert response.status_code == 201
