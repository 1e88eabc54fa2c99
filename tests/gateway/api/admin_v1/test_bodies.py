"""The bodies of requests."""

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from gateway.api.admin_v1.bodies import (
    OPERATOR_FIELDS,
    KeyBody,
    KeyState,
    LimitsBody,
    RequestBody,
    RotationBody,
    TeamBody,
    TeamState,
    limits_by_name,
)
from gateway.settings.teams import KeySettings, LimitSettings, TeamSettings
from gateway.tenancy.teams.limits import Limits

OF_SETTINGS_ONLY = {"keys", "secret", "secret_env", "secret_sha256", "team", "tracing"}


def names(kind: type[BaseModel]) -> set[str]:
    return set(kind.model_fields)


def test_the_words_are_those_of_the_settings() -> None:
    """What stands in a file can be sent, but for secrets and receivers of traces; a key may end, and be blocked."""
    assert names(TeamSettings) - OF_SETTINGS_ONLY == names(TeamBody)
    of_keys = names(KeySettings) - OF_SETTINGS_ONLY - {"allowed_cidrs"} | {"networks"}
    assert of_keys == names(KeyBody) - {"team", "blocked", "expires_at"}
    of_limits = names(LimitSettings) - {"max_concurrent_requests"} | {"concurrent"}
    assert of_limits == names(LimitsBody) == set(Limits.__struct_fields__)


def test_operators_change_limits_and_fields_that_both_have() -> None:
    of_teams = {"user_limits", "session_limits", "project_limits"}

    assert names(TeamState) > OPERATOR_FIELDS
    assert names(KeyState) > OPERATOR_FIELDS - of_teams


@pytest.mark.parametrize(
    "body",
    [
        {"name": "blue"},
        {"name": "a" * 63, "weight": 0.001, "priority": "low", "models": [], "projects": ["x"]},
        {"name": "b", "models": ["gpt-4*", "tiny"], "strategies": ["kv_aware"], "limits": {"usd_per_day": 0.5}},
        {"name": "b", "limits": {"requests_per_minute": 10**15}, "model_limits": {"a/b": {"concurrent": 1}}},
    ],
)
def test_a_team(body: dict[str, Any]) -> None:
    assert (
        body.items() <= TeamBody.model_validate(body, strict=False).model_dump(exclude_unset=True, mode="json").items()
    )


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": ""},
        {"name": "a" * 64},
        {"name": "a/b"},
        {"name": "b", "weight": 0},
        {"name": "b", "weight": "1"},
        {"name": "b", "weight": float("inf")},
        {"name": "b", "priority": "urgent"},
        {"name": "b", "models": ["*a"]},
        {"name": "b", "models": "tiny"},
        {"name": "b", "strategies": ["fastest"]},
        {"name": "b", "limits": {"requests_per_minute": 0}},
        {"name": "b", "limits": {"requests_per_minute": 10**15 + 1}},
        {"name": "b", "limits": {"requests_per_minute": 1.5}},
        {"name": "b", "limits": {"usd_per_month": -1.0}},
        {"name": "b", "limits": {"usd_per_month": 1e10}},
        {"name": "b", "limits": {"rpm": 1}},
        {"name": "b", "model_limits": {"tiny*": {}}},
        {"name": "b", "keys": []},
        {"name": "b", "blocked": 1},
    ],
)
def test_no_team(body: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        TeamBody.model_validate(body)


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        (KeyBody, b'{"team": "b", "expires_at": "2026-11-21T00:00:00"}'),
        (KeyBody, b'{"team": "b", "expires_at": 1795248000}'),
        (KeyBody, b'{"team": "b", "expires_at": "9999-12-31T23:59:59-23:00"}'),
        (KeyBody, b'{"team": "b", "expires_at": "0001-01-01T00:00:00+23:00"}'),
        (KeyBody, b'{"team": "b", "networks": ["10.0.0.1/8"]}'),
        (KeyBody, b'{"team": "b", "secret": "x"}'),
        (KeyBody, b'{"id": "a"}'),
        (RotationBody, b'{"grace_s": -1}'),
        (RotationBody, b'{"grace_s": 2592001}'),
        (RotationBody, b'{"grace_s": 1e400}'),
    ],
)
def test_no_key_and_no_rotation(kind: type[RequestBody], raw: bytes) -> None:
    """A time without an offset could be anybody's; a year at the end of the calendar overflows in another zone."""
    with pytest.raises(ValidationError):
        kind.model_validate_json(raw)


def test_limits_that_are_not_are_left_out() -> None:
    bodies = {"tiny": LimitsBody(), "big": LimitsBody(concurrent=3)}

    assert {"big": Limits(concurrent=3)} == limits_by_name(bodies)
