"""The form of keys, and the routes that they allow."""

import pytest

from gateway.access.keys import (
    ApiKey,
    Grant,
    hash_token,
    make_token,
    read_id,
    read_routes,
)

TOKEN, ID = make_token()
NO_TOKENS = {
    "another's": "secret",
    "cut": TOKEN[:-1],
    "too long": TOKEN + "a",
    "line break": TOKEN + "\n",
    "capitals": TOKEN.upper(),
    "no ASCII": TOKEN[:-1] + "é",
    "broken": "bg_0123456789ab_" + "\udcff" * 43,
}


def test_a_token_has_its_id_and_256_random_bits():
    made = [make_token() for _ in range(50)]
    assert all(read_id(token) == key_id for token, key_id in made)
    secrets = {token.split("_", 2)[2] for token, _ in made}
    assert {len(secret) for secret in secrets} == {43}
    assert len(secrets) == 50


def test_a_key_matches_its_own_token_only():
    key = ApiKey(ID, "cat", hash_token(TOKEN))
    assert key.matches(TOKEN)
    for name, other in NO_TOKENS.items():
        assert not key.matches(other)
        assert read_id(other) is None, name


@pytest.mark.parametrize(
    ("routes", "route", "expected"),
    [
        ([], "/caption", True),
        (["/translate"], "/translate", True),
        (["/translate"], "/translate_file", False),
        (["/v2/*"], "/v2/usage", True),
        (["/v2/*"], "/v2", False),
        (["/a, /v2/*", "/b"], "/b", True),
    ],
    ids=["all", "one", "longer", "below", "above", "several"],
)
def test_a_key_is_for_its_routes(routes, route, expected):
    assert Grant(routes=read_routes(routes)).allows(route) is expected


@pytest.mark.parametrize(
    "given", ["", "translate", "/a b", "/a*b", "/a?b", "/a,,/b", "/\udcff"]
)
def test_what_is_no_route_is_told(given):
    with pytest.raises(ValueError, match="expected a path such as /translate"):
        read_routes([given])
