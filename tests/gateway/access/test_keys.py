"""Keys: their form, and what they allow."""

from __future__ import annotations

import pytest

from gateway.access.keys import (
    ApiKey,
    Grant,
    hash_token,
    make_token,
    read_id,
    read_routes,
)


def test_a_token_has_its_id_and_256_random_bits():
    made = [make_token() for _ in range(50)]
    assert all(read_id(token) == key_id for token, key_id in made)
    secrets = {token.split("_", 2)[2] for token, _ in made}
    assert {len(secret) for secret in secrets} == {43}
    assert len(secrets) == 50


@pytest.mark.parametrize(
    "token",
    [
        pytest.param("", id="empty"),
        pytest.param("secret", id="another's"),
        pytest.param(make_token()[0][:-1], id="cut"),
        pytest.param(make_token()[0] + "a", id="too long"),
        pytest.param(make_token()[0] + "\n", id="line break"),
        pytest.param(make_token()[0].upper(), id="capitals"),
        pytest.param(make_token()[0][:-1] + "é", id="no ASCII"),
        pytest.param("bg_0123456789ab_" + "\udcff" * 43, id="broken"),
    ],
)
def test_what_has_not_the_form_of_a_token_has_no_id(token):
    assert read_id(token) is None


def test_a_key_matches_its_own_token_only():
    (token, key_id), (other, _) = make_token(), make_token()
    key = ApiKey(key_id, "cat", hash_token(token))
    assert key.matches(token)
    assert not key.matches(other)
    assert not key.matches("\udcff")


@pytest.mark.parametrize(
    ("routes", "route", "expected"),
    [
        pytest.param([], "/caption", True, id="all"),
        pytest.param(["/translate"], "/translate", True, id="one"),
        pytest.param(["/translate"], "/translate_file", False, id="longer"),
        pytest.param(["/translate"], "/", False, id="another"),
        pytest.param(["/v2/*"], "/v2/usage", True, id="below"),
        pytest.param(["/v2/*"], "/v2", False, id="above"),
        pytest.param(["/a, /v2/*", "/b"], "/b", True, id="several"),
        pytest.param(["/*"], "/caption", True, id="star"),
    ],
)
def test_a_key_is_for_its_routes(routes, route, expected):
    assert Grant(routes=read_routes(routes)).allows(route) is expected


@pytest.mark.parametrize("given", ["", "translate", "/a b", "/a*b", "/a?b", "/a,,/b"])
def test_what_is_no_route_is_told(given):
    with pytest.raises(ValueError, match="expected a path such as /translate"):
        read_routes([given])
