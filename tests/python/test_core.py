"""weir._core: the bindings say what the leaves say."""

import json
import secrets
from typing import Any

import pytest
from weir import _core

CLAIMS: dict[str, Any] = {
    "job": "checkpoint",
    "user": "alice",
    "group": "physics",
    "uid": 1000,
    "gid": 1000,
    "groups": [44, 1000],
    "nodes": 4,
    "priority": 2,
    "role": "user",
    "issued_seconds": 1,
    "expires_seconds": 2,
}


def test_a_credential_says_what_was_minted() -> None:
    text = _core.mint_credential(secrets.token_hex(32), **CLAIMS)
    assert _core.claims_of_credential(text) == CLAIMS
    assert json.loads(text)["version"] == 1


def test_the_job_is_known_by_user_and_name() -> None:
    key = secrets.token_hex(32)
    one = _core.job_identifier(_core.mint_credential(key, **CLAIMS))
    grown = _core.job_identifier(_core.mint_credential(key, **{**CLAIMS, "nodes": 8}))
    other = _core.job_identifier(_core.mint_credential(key, **{**CLAIMS, "uid": 1001}))
    assert one == grown != other


@pytest.mark.parametrize(
    "claim", [{"job": ""}, {"job": "x" * 129}, {"nodes": 0}, {"priority": 0}, {"groups": list(range(257))}]
)
def test_a_claim_outside_its_limit_is_refused(claim: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="outside its limit"):
        _core.mint_credential(secrets.token_hex(32), **{**CLAIMS, **claim})


@pytest.mark.parametrize("key", ["", "abc", "z" * 64, "0" * 63])
def test_a_damaged_key_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="64 hexadecimal digits"):
        _core.mint_credential(key, **CLAIMS)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"version": 1}', "\x00"])
def test_what_is_no_credential_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="credential"):
        _core.claims_of_credential(text)


def test_a_role_that_nobody_may_mint_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown role"):
        _core.mint_credential(secrets.token_hex(32), **{**CLAIMS, "role": "server"})


def test_policies_are_named_and_unknown_ones_refused_with_the_list() -> None:
    for name in _core.policy_names():
        assert _core.parse_policy(name.upper()) == name
    with pytest.raises(ValueError, match="unknown policy `fairest`: expected one of fifo, job-fair, user-fair"):
        _core.parse_policy("fairest")


@pytest.mark.parametrize(
    ("spelled", "levels"),
    [
        ("fifo", []),
        ("size-fair", ["size"]),
        ("user-size-fair", ["user", "size"]),
        ("group-user-size-fair", ["group", "user", "size"]),
        ("group-user-then-size-fair", ["group", "user", "size"]),
        ("group-then-user-then-size-fair", ["group", "user", "size"]),
    ],
)
def test_every_spelling_of_a_policy_names_its_levels(spelled: str, levels: list[str]) -> None:
    assert _core.policy_levels(spelled) == levels
    assert _core.policy_levels(_core.parse_policy(spelled)) == levels


def test_a_policy_has_a_scheduler_that_goes_with_it() -> None:
    assert _core.parse_sharing("Size-Fair") == ("size-fair", "virtual-time")
    assert _core.parse_sharing("fifo") == ("fifo", "fifo")
    for scheduler in _core.scheduler_names():
        if scheduler != "fifo":
            assert _core.parse_sharing("user-then-size-fair", scheduler.upper())[1] == scheduler
    with pytest.raises(ValueError, match="unknown scheduler `lottery`: expected one of virtual-time"):
        _core.parse_sharing("size-fair", "lottery")
    with pytest.raises(ValueError, match="cannot enforce policy `fifo`"):
        _core.parse_sharing("fifo", "gift")
    with pytest.raises(ValueError, match="unknown level `rack`"):
        _core.parse_sharing("rack-then-size-fair")
